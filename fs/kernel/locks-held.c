/* SPDX-License-Identifier: MIT */
#include "fs/kernel/locks-held.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>

#include "fs/kernel/ranges.h"
#include "backend/base/chain.h"
#include "backend/base/cleanup.h"

/* A lock that is held: of a whole file, or in the file's set of ranges. */
struct held {
	struct range range; /* of a range: where lock.start and lock.end are */
	struct lock lock;
	struct lock_open *open;
	struct held *next; /* the others that were taken by the same open file */
	struct held **link;
};

/* An open file by which locks were taken. */
struct lock_open {
	uint64_t id;
	bool flushed; /* a descriptor of it was closed since it last took a lock, */
	int64_t flushed_at;
	struct held *whole; /* its lock of the whole file, or NULL */
	struct held *held;  /* its ranges */
	bool maps;	    /* it has the right to map */
	struct lock_open *next;
};

struct lock_file {
	uint64_t ino;
	bool notified;	      /* other mounts were notified */
	struct range *ranges; /* of all its open files */
	struct lock_open *open;
	struct lock_file *next;
};

/* Memory that a change of locks needs, allocated before anything is changed: for the lock itself,
 * and for what is left behind it of a range that is cut in two. */
struct spare {
	struct held *lock, *rest;
};

static void spare_done(struct spare *spare)
{
	free(spare->lock);
	free(spare->rest);
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

	if (file->open)
		return;
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	free(file);
}

static struct lock_open *open_find(const struct lock_file *file, uint64_t id)
{
	struct lock_open *open = file->open;

	while (open && open->id != id)
		open = open->next;
	return open;
}

static struct lock_open *open_get(struct lock_file *file, uint64_t id)
{
	struct lock_open *open = open_find(file, id);

	if (open)
		return open;
	open = calloc(1, sizeof(*open));
	if (!open)
		return NULL;
	open->id = id;
	open->next = file->open;
	file->open = open;
	return open;
}

/* Neither is an open file without locks. */
static void open_put(struct lock_file *file, struct lock_open *open)
{
	struct lock_open **link = &file->open;

	if (!open || open->held || open->whole || open->maps)
		return;
	while (*link != open)
		link = &(*link)->next;
	*link = open->next;
	free(open);
}

/* Enter a lock where it belongs. */
static void held_enter(struct lock_file *file, struct lock_open *open, struct held *held,
		       const struct lock *lock)
{
	*held = (struct held){ .range = { .start = lock->start, .end = lock->end },
			       .lock = *lock,
			       .open = open };
	if (lock->whole) {
		open->whole = held;
		return;
	}
	CHAIN_ENTER(open->held, held, next, link);
	ranges_add(&file->ranges, &held->range);
}

/* And take it away. */
static void held_remove(struct lock_file *file, struct held *held)
{
	if (held->lock.whole) {
		held->open->whole = NULL;
	} else {
		CHAIN_LEAVE(held, next, link);
		ranges_remove(&file->ranges, &held->range);
	}
	free(held);
}

/* The range that is left of one. */
static void held_resize(struct lock_file *file, struct held *held, uint64_t start, uint64_t end)
{
	ranges_remove(&file->ranges, &held->range);
	held->lock.start = held->range.start = start;
	held->lock.end = held->range.end = end;
	ranges_add(&file->ranges, &held->range);
}

static void open_drop(struct lock_file *file, struct lock_open *open)
{
	if (open->whole)
		held_remove(file, open->whole);
	while (open->held)
		held_remove(file, open->held);
	open->maps = false;
	open_put(file, open);
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

static bool is_in_the_way(const struct lock *held, const struct lock *lock)
{
	if (held->whole != lock->whole || (held->type == F_RDLCK && lock->type == F_RDLCK))
		return false;
	return !same_owner(held, lock) && overlap(held, lock);
}

/* The next one that overlaps a lock and is of the same sort, behind held or from the beginning:
 * ranges in the order of their starts. */
static struct held *next_overlap(const struct lock_file *file, const struct held *held,
				 const struct lock *lock)
{
	struct lock_open *open = held ? held->open->next : file->open;

	if (!lock->whole)
		return (struct held *)ranges_next(file->ranges, held ? &held->range : NULL,
						  lock->start, lock->end);
	while (open && !open->whole)
		open = open->next;
	return open ? open->whole : NULL;
}

/* The next one in the way, behind held or from the beginning. */
static const struct held *next_in_the_way(const struct lock_file *file, const struct held *held,
					  const struct lock *lock)
{
	do
		held = next_overlap(file, held, lock);
	while (held && !is_in_the_way(&held->lock, lock));
	return held;
}

/* The next one of the same owner, likewise. */
static struct held *next_own(const struct lock_file *file, const struct held *held,
			     const struct lock *lock)
{
	struct held *own;

	do
		held = own = next_overlap(file, held, lock);
	while (own && !same_owner(&own->lock, lock));
	return own;
}

bool held_grants(const struct locks *locks, const struct lock *lock)
{
	const struct lock_file *file = file_find(locks, lock->ino);

	return !file || !next_in_the_way(file, NULL, lock);
}

/* Changing the locks of one owner.  These return whether a lock of another owner may be granted
 * now. */

static bool is_less(short type, short than)
{
	return type == F_UNLCK || (type == F_RDLCK && than == F_WRLCK);
}

/* An open file that takes a lock is not closing. */
static void held_take(struct lock_file *file, struct lock_open *open, const struct lock *lock,
		      struct spare *spare)
{
	open->flushed = false;
	open->maps |= lock->maps;
	held_enter(file, open, steal_ptr(spare->lock), lock);
}

/* Cut a range out of one that is held. */
static void range_cut(struct lock_file *file, struct held *held, const struct lock *lock,
		      struct spare *spare)
{
	struct lock rest = held->lock;
	bool before = held->lock.start < lock->start;
	bool behind = held->lock.end > lock->end;

	rest.start = lock->end + 1;
	if (before && behind)
		held_enter(file, held->open, steal_ptr(spare->rest), &rest);
	if (before)
		held_resize(file, held, held->lock.start, lock->start - 1);
	else if (behind)
		held_resize(file, held, rest.start, held->lock.end);
	else
		held_remove(file, held);
}

/* The one range that equal ranges which touch become.  Ends are at most INT64_MAX. */
static struct lock range_join(const struct lock_file *file, const struct lock *lock)
{
	struct lock joined = *lock, around = *lock;

	around.start -= around.start > 0;
	around.end++;
	for (const struct held *held = NULL; (held = next_own(file, held, &around));) {
		if (held->lock.type == lock->type && held->lock.file == lock->file) {
			joined.start = MIN(joined.start, held->lock.start);
			joined.end = MAX(joined.end, held->lock.end);
		}
	}
	return joined;
}

/* Ranges of one owner never overlap; equal ones that touch, and were taken by the same open file,
 * are one.  open is that file, if the range is not released. */
static bool range_apply(struct lock_file *file, struct lock_open *open, const struct lock *wanted,
			struct spare *spare)
{
	struct lock lock = wanted->type == F_UNLCK ? *wanted : range_join(file, wanted);
	struct held *held = next_own(file, NULL, &lock), *next;
	bool less = false;

	for (; held; held = next) {
		struct lock_open *of = held->open;

		next = next_own(file, held, &lock);
		less |= is_less(lock.type, held->lock.type);
		range_cut(file, held, &lock, spare);
		if (of != open)
			open_put(file, of);
	}
	if (lock.type != F_UNLCK)
		held_take(file, open, &lock, spare);
	return less;
}

static bool whole_apply(struct lock_file *file, struct lock_open *open, const struct lock *lock,
			struct spare *spare)
{
	struct lock_open *by = open_find(file, lock->file);
	struct held *own = by ? by->whole : NULL;
	bool less = own && is_less(lock->type, own->lock.type);

	if (own)
		held_remove(file, own);
	if (lock->type != F_UNLCK)
		held_take(file, open, lock, spare);
	else
		open_put(file, open_find(file, lock->file));
	return less;
}

/* -ENOLCK.  Ranges of one owner do not overlap: one of them at the most is cut in two. */
static int spare_get(struct spare *spare, const struct lock_file *file, const struct lock *lock)
{
	struct lock begin = *lock;
	const struct held *around;
	bool cuts;

	begin.end = begin.start;
	around = lock->whole ? NULL : next_own(file, NULL, &begin);
	cuts = around && around->lock.start < lock->start && around->lock.end > lock->end;
	spare->lock = lock->type != F_UNLCK ? calloc(1, sizeof(*spare->lock)) : NULL;
	spare->rest = cuts ? calloc(1, sizeof(*spare->rest)) : NULL;
	return (lock->type != F_UNLCK && !spare->lock) || (cuts && !spare->rest) ? -ENOLCK : 0;
}

int held_apply(struct locks *locks, const struct lock *lock)
{
	_cleanup_(spare_done) struct spare spare = { 0 };
	bool gives_up = lock->type == F_UNLCK;
	struct lock_file *file =
		gives_up ? file_find(locks, lock->ino) : file_get(locks, lock->ino);
	struct lock_open *open = NULL;
	int r;

	if (!file)
		return gives_up ? 0 : -ENOLCK;
	r = spare_get(&spare, file, lock);
	if (r == 0 && !gives_up) {
		open = open_get(file, lock->file);
		r = open ? 0 : -ENOLCK;
	}
	if (r == 0)
		r = lock->whole ? whole_apply(file, open, lock, &spare) :
				  range_apply(file, open, lock, &spare);
	file_put(locks, file);
	return r;
}

int held_map(struct locks *locks, uint64_t ino, uint64_t file_id)
{
	struct lock_file *file = file_get(locks, ino);
	struct lock_open *open = file ? open_get(file, file_id) : NULL;

	if (open)
		open->maps = true;
	else if (file)
		file_put(locks, file);
	return open ? 0 : -ENOLCK;
}

bool locks_maps(const struct locks *locks, uint64_t ino, uint64_t file_id)
{
	const struct lock_file *file = file_find(locks, ino);

	for (const struct lock_open *open = file ? file->open : NULL; open; open = open->next)
		if (open->maps && (!file_id || open->id == file_id))
			return true;
	return false;
}

const struct lock *held_in_the_way(const struct locks *locks, const struct lock *lock,
				   const struct lock *after)
{
	const struct lock_file *file = file_find(locks, lock->ino);
	const char *held = after ? (const char *)after - offsetof(struct held, lock) : NULL;
	const struct held *next =
		file ? next_in_the_way(file, (const struct held *)held, lock) : NULL;

	return next ? &next->lock : NULL;
}

int64_t held_closing_until(const struct locks *locks, const struct lock *lock, int64_t now)
{
	const struct lock_file *file = file_find(locks, lock->ino);
	const struct held *held = NULL;
	int64_t until = 0;

	while (file && (held = next_in_the_way(file, held, lock))) {
		int64_t since = held->lock.silent ? now : held->open->flushed_at;

		if (!(held->lock.silent || held->open->flushed) ||
		    now - since >= LOCKS_CLOSING_TIME)
			return 0;
		until = MAX(until, since + LOCKS_CLOSING_TIME);
	}
	return until;
}

void held_flushed(struct locks *locks, uint64_t ino, uint64_t file_id, int64_t now)
{
	struct lock_file *file = file_find(locks, ino);
	struct lock_open *open = file ? open_find(file, file_id) : NULL;

	if (!open)
		return;
	open->flushed = true;
	open->flushed_at = now;
}

bool held_release(struct locks *locks, uint64_t ino, uint64_t file_id)
{
	struct lock_file *file = file_find(locks, ino);
	struct lock_open *open = file ? open_find(file, file_id) : NULL;

	if (!open)
		return false;
	open_drop(file, open);
	file_put(locks, file);
	return true;
}

void locks_done(struct locks *locks)
{
	for (size_t i = 0; i < LOCKS_BUCKETS; i++) {
		struct lock_file *file;

		while ((file = locks->file[i])) {
			while (file->open)
				open_drop(file, file->open);
			file_put(locks, file);
		}
	}
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
	const struct held *held = NULL;

	do
		held = file ? next_overlap(file, held, lock) : NULL;
	while (held && !is_asked_for(&held->lock, lock));
	if (held)
		*ret_lock = held->lock;
	return !held;
}

bool locks_gives_up(const struct locks *locks, const struct lock *lock)
{
	const struct lock_file *file = file_find(locks, lock->ino);

	for (const struct held *held = NULL; file && (held = next_own(file, held, lock));)
		if (is_less(lock->type, held->lock.type))
			return true;
	return false;
}

/* The right to map comes once. */
static int each_of_file(const struct locks *locks, const struct lock_file *file, lock_fn *fn,
			void *arg)
{
	const struct lock right = { .ino = file->ino, .type = F_UNLCK, .maps = true };
	int r = locks_maps(locks, file->ino, 0) ? fn(arg, &right) : 0;

	for (const struct lock_open *open = file->open; r == 0 && open; open = open->next) {
		if (open->whole)
			r = fn(arg, &open->whole->lock);
		for (const struct held *held = open->held; r == 0 && held; held = held->next)
			r = fn(arg, &held->lock);
	}
	return r;
}

int locks_each(const struct locks *locks, uint64_t ino, lock_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < LOCKS_BUCKETS; i++)
		for (const struct lock_file *file = locks->file[i]; r == 0 && file;
		     file = file->next)
			if (!ino || file->ino == ino)
				r = each_of_file(locks, file, fn, arg);
	return r;
}

bool locks_notified(const struct locks *locks, uint64_t ino)
{
	const struct lock_file *file = file_find(locks, ino);

	return file && file->notified;
}

int locks_set_notified(struct locks *locks, uint64_t ino)
{
	struct lock_file *file = file_get(locks, ino);

	if (!file)
		return -ENOLCK;
	file->notified = true;
	return 0;
}

bool locks_any(const struct locks *locks, uint64_t ino)
{
	return file_find(locks, ino) != NULL;
}
