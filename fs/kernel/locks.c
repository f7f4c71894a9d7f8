/* SPDX-License-Identifier: MIT */
#include "fs/kernel/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "src/base/cleanup.h"

/* How many owners a search for a deadlock looks at. */
enum { DEADLOCK_OWNERS = 128 };

struct held {
	struct lock lock;
	bool flushed; /* a descriptor of its open file was closed since that last took a lock, */
	int64_t flushed_at;
	struct held *next;
};

struct lock_file {
	uint64_t ino;
	struct held *held;
	struct lock_file *next;
};

/* What a change of locks needs, had before anything is changed. */
struct spare {
	struct held *first;
};

static void spare_done(struct spare *spare)
{
	while (spare->first) {
		struct held *held = spare->first;

		spare->first = held->next;
		free(held);
	}
}

static int spare_get(struct spare *spare, unsigned count)
{
	while (count--) {
		struct held *held = calloc(1, sizeof(*held));

		if (!held)
			return -ENOLCK;
		held->next = spare->first;
		spare->first = held;
	}
	return 0;
}

static struct held *spare_take(struct spare *spare)
{
	struct held *held = spare->first;

	spare->first = held->next;
	return held;
}

/* Files. */

static struct lock_file *file_find(const struct locks *locks, uint64_t ino)
{
	struct lock_file *file = locks->file[ino % LOCKS_BUCKETS];

	while (file && file->ino != ino)
		file = file->next;
	return file;
}

static struct lock_file *file_get(struct locks *locks, uint64_t ino)
{
	struct lock_file *file = file_find(locks, ino);
	struct lock_file **bucket = &locks->file[ino % LOCKS_BUCKETS];

	if (file)
		return file;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->ino = ino;
	file->next = *bucket;
	*bucket = file;
	return file;
}

/* A file without locks is not kept. */
static void file_put(struct locks *locks, struct lock_file *file)
{
	struct lock_file **link = &locks->file[file->ino % LOCKS_BUCKETS];

	if (file->held)
		return;
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	free(file);
}

static void held_remove(struct held **link)
{
	struct held *held = *link;

	*link = held->next;
	free(held);
}

/* Comparing locks. */

static bool same_owner(const struct lock *a, const struct lock *b)
{
	if (a->whole != b->whole)
		return false;
	return a->whole ? a->file == b->file : a->owner == b->owner;
}

static bool overlap(const struct lock *a, const struct lock *b)
{
	return a->whole || (a->start <= b->end && b->start <= a->end);
}

/* Ends are at most INT64_MAX. */
static bool touch(const struct lock *a, const struct lock *b)
{
	return a->start <= b->end + 1 && b->start <= a->end + 1;
}

static bool is_in_the_way(const struct lock *held, const struct lock *lock)
{
	if (held->whole != lock->whole || (held->type == F_RDLCK && lock->type == F_RDLCK))
		return false;
	return !same_owner(held, lock) && overlap(held, lock);
}

/* The next one in the way, behind held or from the beginning. */
static const struct held *next_in_the_way(const struct lock_file *file, const struct held *held,
					  const struct lock *lock)
{
	for (held = held ? held->next : file->held; held; held = held->next)
		if (is_in_the_way(&held->lock, lock))
			return held;
	return NULL;
}

static bool is_granted(const struct locks *locks, const struct lock *lock)
{
	const struct lock_file *file = file_find(locks, lock->ino);

	return !file || !next_in_the_way(file, NULL, lock);
}

/* Changing what one owner holds.  These tell whether somebody else may have it easier now. */

static bool is_less(short type, short than)
{
	return type == F_UNLCK || (type == F_RDLCK && than == F_WRLCK);
}

/* Who takes a lock is not closing. */
static void held_take(struct lock_file *file, const struct lock *lock, struct spare *spare)
{
	struct held *taken = spare_take(spare);

	for (struct held *held = file->held; held; held = held->next)
		if (held->lock.file == lock->file)
			held->flushed = false;
	*taken = (struct held){ .lock = *lock, .next = file->held };
	file->held = taken;
}

static bool whole_drop(struct lock_file *file, const struct lock *lock)
{
	for (struct held **link = &file->held; *link; link = &(*link)->next) {
		if (same_owner(&(*link)->lock, lock)) {
			held_remove(link);
			return true;
		}
	}
	return false;
}

static const struct held *whole_held(const struct lock_file *file, const struct lock *lock)
{
	for (const struct held *held = file->held; held; held = held->next)
		if (same_owner(&held->lock, lock))
			return held;
	return NULL;
}

/* Cut a range out of one that is held; false when nothing is left at its place. */
static bool range_cut(struct held **link, const struct lock *lock, struct spare *spare)
{
	struct held *held = *link;
	bool before = held->lock.start < lock->start;
	bool behind = held->lock.end > lock->end;

	if (!before && !behind) {
		held_remove(link);
		return false;
	}
	if (!before) {
		held->lock.start = lock->end + 1;
		return true;
	}
	if (behind) {
		struct held *rest = spare_take(spare);

		*rest = *held;
		rest->lock.start = lock->end + 1;
		held->next = rest;
	}
	held->lock.end = lock->start - 1;
	return true;
}

/* Ranges of one owner never overlap; equal ones that touch, and were taken by the same open file,
 * are one. */
static bool range_apply(struct lock_file *file, struct lock lock, struct spare *spare)
{
	bool less = false;

	for (const struct held *held = file->held; held && lock.type != F_UNLCK;
	     held = held->next) {
		if (same_owner(&held->lock, &lock) && held->lock.type == lock.type &&
		    held->lock.file == lock.file && touch(&held->lock, &lock)) {
			lock.start = MIN(lock.start, held->lock.start);
			lock.end = MAX(lock.end, held->lock.end);
		}
	}
	for (struct held **link = &file->held; *link;) {
		struct lock *held = &(*link)->lock;
		bool stays = true;

		if (same_owner(held, &lock) && overlap(held, &lock)) {
			less |= is_less(lock.type, held->type);
			stays = range_cut(link, &lock, spare);
		}
		if (stays)
			link = &(*link)->next;
	}
	if (lock.type != F_UNLCK)
		held_take(file, &lock, spare);
	return less;
}

static bool whole_apply(struct lock_file *file, const struct lock *lock, struct spare *spare)
{
	const struct held *own = whole_held(file, lock);
	bool less = own && is_less(lock->type, own->lock.type);

	whole_drop(file, lock);
	if (lock->type != F_UNLCK)
		held_take(file, lock, spare);
	return less;
}

/* One for the lock itself, one for what is left behind it of a range that is cut in two. */
static unsigned spares_needed(const struct lock_file *file, const struct lock *lock)
{
	unsigned needed = lock->type != F_UNLCK;

	for (const struct held *held = file->held; held && !lock->whole; held = held->next)
		if (same_owner(&held->lock, lock) && held->lock.start < lock->start &&
		    held->lock.end > lock->end)
			needed++;
	return needed;
}

/* 1 when others may have it easier now, 0, or -ENOLCK. */
static int apply(struct locks *locks, const struct lock *lock)
{
	_cleanup_(spare_done) struct spare spare = { 0 };
	struct lock_file *file =
		lock->type == F_UNLCK ? file_find(locks, lock->ino) : file_get(locks, lock->ino);
	int r;

	if (!file)
		return lock->type == F_UNLCK ? 0 : -ENOLCK;
	r = spare_get(&spare, spares_needed(file, lock));
	if (r == 0)
		r = lock->whole ? whole_apply(file, lock, &spare) :
				  range_apply(file, *lock, &spare);
	file_put(locks, file);
	return r;
}

/* Waiting. */

static void wait_add(struct locks *locks, struct lock_wait *wait)
{
	wait->next = NULL;
	*locks->last = wait;
	locks->last = &wait->next;
}

static struct lock_wait *wait_remove(struct locks *locks, struct lock_wait **link)
{
	struct lock_wait *wait = *link;

	*link = wait->next;
	if (!*link)
		locks->last = link;
	wait->next = NULL;
	return wait;
}

/* Hand one out, behind the others. */
static void wait_end(struct locks *locks, struct lock_wait **link, int error,
		     struct lock_wait **ended)
{
	struct lock_wait *wait = wait_remove(locks, link);

	wait->error = error;
	while (*ended)
		ended = &(*ended)->next;
	*ended = wait;
}

/* Grant what can be granted now. */
static void grant(struct locks *locks, uint64_t ino, struct lock_wait **ended)
{
	struct lock_wait **link = &locks->waiting;

	while (*link) {
		struct lock_wait *wait = *link;
		int r;

		if (wait->lock.ino != ino || !is_granted(locks, &wait->lock)) {
			link = &wait->next;
			continue;
		}
		r = apply(locks, &wait->lock);
		wait_end(locks, link, MIN(r, 0), ended);
		/* Somebody has exchanged a lock for a lesser one: from the beginning. */
		if (r > 0)
			link = &locks->waiting;
	}
}

/* Owners that are waited for, each once; those for whom there is no room are not looked at. */
struct owners {
	uint64_t owner[DEADLOCK_OWNERS];
	size_t count;
};

static void owners_add(struct owners *owners, uint64_t owner)
{
	for (size_t i = 0; i < owners->count; i++)
		if (owners->owner[i] == owner)
			return;
	if (owners->count < DEADLOCK_OWNERS)
		owners->owner[owners->count++] = owner;
}

static void owners_add_waited_for(struct owners *owners, const struct locks *locks,
				  const struct lock *lock)
{
	const struct lock_file *file = file_find(locks, lock->ino);
	const struct held *held = NULL;

	while (file && (held = next_in_the_way(file, held, lock)))
		owners_add(owners, held->lock.owner);
}

/* Whether one that would wait for this range would wait for itself.  Whole files are not looked at,
 * as on Linux; ranges of open files are, since nothing tells them from those of processes. */
static bool is_deadlock(const struct locks *locks, const struct lock *lock)
{
	struct owners owners = { .count = 0 };

	owners_add_waited_for(&owners, locks, lock);
	for (size_t i = 0; i < owners.count; i++) {
		if (owners.owner[i] == lock->owner)
			return true;
		for (const struct lock_wait *wait = locks->waiting; wait; wait = wait->next)
			if (!wait->lock.whole && wait->sleeps &&
			    wait->lock.owner == owners.owner[i])
				owners_add_waited_for(&owners, locks, &wait->lock);
	}
	return false;
}

/* Until when all that are in the way may just be going; 0 when one of them is not. */
static int64_t closing_until(const struct locks *locks, const struct lock *lock, int64_t now)
{
	const struct lock_file *file = file_find(locks, lock->ino);
	const struct held *held = NULL;
	int64_t until = 0;

	while (file && (held = next_in_the_way(file, held, lock))) {
		int64_t since = held->lock.silent ? now : held->flushed_at;

		if (!(held->lock.silent || held->flushed) || now - since >= LOCKS_CLOSING_TIME)
			return 0;
		until = MAX(until, since + LOCKS_CLOSING_TIME);
	}
	return until;
}

/* The lock cannot be had now. */
static int must_wait(struct locks *locks, struct lock_wait *wait, int64_t now)
{
	wait->until = wait->sleeps ? INT64_MAX : closing_until(locks, &wait->lock, now);
	if (!wait->until)
		return -EAGAIN;
	if (wait->sleeps && !wait->lock.whole && is_deadlock(locks, &wait->lock))
		return -EDEADLK;
	wait_add(locks, wait);
	return 1;
}

/* Going from shared to exclusive or back begins with giving up; true when it did. */
static bool give_up_other_type(struct locks *locks, const struct lock *lock)
{
	struct lock_file *file = file_find(locks, lock->ino);
	const struct held *own = file ? whole_held(file, lock) : NULL;

	if (!own || own->lock.type == lock->type)
		return false;
	whole_drop(file, lock);
	file_put(locks, file);
	return true;
}

/* The calls. */

void locks_init(struct locks *locks)
{
	*locks = (struct locks){ 0 };
	locks->last = &locks->waiting;
}

void locks_done(struct locks *locks)
{
	for (size_t i = 0; i < LOCKS_BUCKETS; i++) {
		struct lock_file *file;

		while ((file = locks->file[i])) {
			while (file->held)
				held_remove(&file->held);
			file_put(locks, file);
		}
	}
}

int locks_set(struct locks *locks, struct lock_wait *wait, int64_t now,
	      struct lock_wait **ret_ended)
{
	const struct lock *lock = &wait->lock;
	bool easier = false;
	int r;

	*ret_ended = NULL;
	if (lock->type == F_UNLCK || is_granted(locks, lock)) {
		r = apply(locks, lock);
		easier = r > 0;
		r = MIN(r, 0);
	} else {
		if (lock->whole)
			easier = give_up_other_type(locks, lock);
		r = must_wait(locks, wait, now);
	}
	if (easier)
		grant(locks, lock->ino, ret_ended);
	return r;
}

static bool is_asked_for(const struct lock *held, const struct lock *lock)
{
	if (lock->type == F_UNLCK)
		return same_owner(held, lock) && overlap(held, lock);
	return is_in_the_way(held, lock);
}

bool locks_test(const struct locks *locks, const struct lock *lock, struct lock *ret_lock)
{
	const struct lock_file *file = file_find(locks, lock->ino);
	const struct lock *first = NULL;

	for (const struct held *held = file ? file->held : NULL; held; held = held->next)
		if (is_asked_for(&held->lock, lock) && (!first || held->lock.start < first->start))
			first = &held->lock;
	if (first)
		*ret_lock = *first;
	return !first;
}

bool locks_gives_up(const struct locks *locks, const struct lock *lock)
{
	const struct lock_file *file = file_find(locks, lock->ino);

	for (const struct held *held = file ? file->held : NULL; held; held = held->next)
		if (same_owner(&held->lock, lock) && overlap(&held->lock, lock) &&
		    is_less(lock->type, held->lock.type))
			return true;
	return false;
}

bool locks_any(const struct locks *locks, uint64_t ino)
{
	return file_find(locks, ino) != NULL;
}

void locks_flush(struct locks *locks, uint64_t ino, uint64_t file_id, uint64_t owner, int64_t now,
		 struct lock_wait **ret_ended)
{
	const struct lock all = {
		.ino = ino,
		.file = file_id,
		.type = F_UNLCK,
		.owner = owner,
		.end = INT64_MAX,
	};
	struct lock_file *file = file_find(locks, ino);

	*ret_ended = NULL;
	for (struct held *held = file ? file->held : NULL; held; held = held->next) {
		if (held->lock.file == file_id) {
			held->flushed = true;
			held->flushed_at = now;
		}
	}
	if (apply(locks, &all) > 0)
		grant(locks, ino, ret_ended);
}

void locks_release(struct locks *locks, uint64_t ino, uint64_t file_id,
		   struct lock_wait **ret_ended)
{
	struct lock_file *file = file_find(locks, ino);

	*ret_ended = NULL;
	for (struct lock_wait **link = &locks->waiting; *link;) {
		if ((*link)->lock.file == file_id)
			wait_end(locks, link, -EBADF, ret_ended);
		else
			link = &(*link)->next;
	}
	if (!file)
		return;
	for (struct held **link = &file->held; *link;) {
		if ((*link)->lock.file == file_id)
			held_remove(link);
		else
			link = &(*link)->next;
	}
	file_put(locks, file);
	grant(locks, ino, ret_ended);
}

struct lock_wait *locks_cancel(struct locks *locks, const void *who)
{
	for (struct lock_wait **link = &locks->waiting; *link; link = &(*link)->next)
		if ((*link)->who == who)
			return wait_remove(locks, link);
	return NULL;
}

int64_t locks_expire(struct locks *locks, int64_t now, struct lock_wait **ret_ended)
{
	int64_t next = INT64_MAX;

	*ret_ended = NULL;
	for (struct lock_wait **link = &locks->waiting; *link;) {
		if ((*link)->until <= now) {
			wait_end(locks, link, -EAGAIN, ret_ended);
			continue;
		}
		next = MIN(next, (*link)->until);
		link = &(*link)->next;
	}
	return next;
}

void locks_end(struct locks *locks, int error, struct lock_wait **ret_ended)
{
	*ret_ended = NULL;
	while (locks->waiting)
		wait_end(locks, &locks->waiting, error, ret_ended);
}
