/* SPDX-License-Identifier: MIT */
#include "fs/kernel/locks.h"

#include <errno.h>
#include <fcntl.h>

#include "fs/kernel/locks-held.h"
#include "backend/base/cleanup.h"

/* How many owners a search for a deadlock looks at. */
enum { DEADLOCK_OWNERS = 128 };

/* Waiting. */

static struct lock_wait *wait_remove(struct locks *locks, struct lock_wait **link)
{
	struct lock_wait *wait = *link;

	*link = wait->next;
	if (!*link)
		locks->last = link;
	wait->next = NULL;
	return wait;
}

/* End a wait: hand it out, behind the others. */
static void wait_end(struct locks *locks, struct lock_wait **link, int error,
		     struct lock_wait **ended)
{
	struct lock_wait *wait = wait_remove(locks, link);

	wait->error = error;
	while (*ended)
		ended = &(*ended)->next;
	*ended = wait;
}

/* Whether a lock can be had: 0, -EAGAIN or another error. */
static int locks_ask(const struct locks *locks, const struct lock *lock, bool *ret_others)
{
	*ret_others = false;
	if (!held_grants(locks, lock))
		return -EAGAIN;
	*ret_others = locks->ask != NULL;
	return locks->ask ? locks->ask(locks->arg, lock) : 0;
}

/* A file has fewer locks now: notify other mounts. */
static void locks_notify(struct locks *locks, uint64_t ino, bool notified)
{
	if (notified && locks->changed)
		locks->changed(locks->arg, ino);
}

/* Grant what can be granted now. */
static void grant(struct locks *locks, uint64_t ino, struct lock_wait **ended)
{
	struct lock_wait **link = &locks->waiting;

	while (*link) {
		struct lock_wait *wait = *link;
		int r = wait->lock.ino == ino ? locks_ask(locks, &wait->lock, &wait->others) :
						-EAGAIN;

		if (r == -EAGAIN) {
			link = &wait->next;
			continue;
		}
		if (r == 0)
			r = held_apply(locks, &wait->lock);
		if (r > 0)
			locks_notify(locks, ino, locks_notified(locks, ino));
		wait_end(locks, link, MIN(r, 0), ended);
		/* A wait has exchanged its lock for a lesser one: begin again. */
		if (r > 0)
			link = &locks->waiting;
	}
}

/* Owners that are waited for, each once; those without room here are not checked. */
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
	const struct lock *held = NULL;

	while ((held = held_in_the_way(locks, lock, held)))
		owners_add(owners, held->owner);
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

/* The lock cannot be had now. */
static int must_wait(struct locks *locks, struct lock_wait *wait, int64_t now)
{
	if (wait->sleeps)
		wait->until = INT64_MAX;
	else if (wait->others)
		wait->until = now + LOCKS_OTHERS_TIME;
	else
		wait->until = held_closing_until(locks, &wait->lock, now);
	if (!wait->until)
		return -EAGAIN;
	if (wait->sleeps && !wait->lock.whole && is_deadlock(locks, &wait->lock))
		return -EDEADLK;
	wait->next = NULL;
	*locks->last = wait;
	locks->last = &wait->next;
	return 1;
}

/* The calls. */

void locks_init(struct locks *locks)
{
	*locks = (struct locks){ 0 };
	locks->last = &locks->waiting;
}

void locks_lose(struct locks *locks)
{
	locks_done(locks);
	for (struct lock_wait *wait = locks->waiting; wait; wait = wait->next)
		wait->others = true;
}

int locks_set(struct locks *locks, struct lock_wait *wait, int64_t now,
	      struct lock_wait **ret_ended)
{
	const struct lock *lock = &wait->lock;
	bool easier = false, notified = locks_notified(locks, lock->ino);
	struct lock none = *lock;
	int r = lock->type == F_UNLCK ? 0 : locks_ask(locks, lock, &wait->others);

	*ret_ended = NULL;
	if (r == 0) {
		notified |= wait->others;
		r = held_apply(locks, lock);
		easier = r > 0;
		/* Without memory for it, other mounts were notified of more than there is. */
		if (r < 0)
			locks_notify(locks, lock->ino, notified);
		r = MIN(r, 0);
	} else if (r == -EAGAIN) {
		/* Going from shared to exclusive or back begins with a release. */
		none.type = F_UNLCK;
		easier = lock->whole && held_apply(locks, &none) > 0;
		r = must_wait(locks, wait, now);
	}
	if (easier) {
		locks_notify(locks, lock->ino, notified);
		grant(locks, lock->ino, ret_ended);
	}
	return r;
}

int locks_map(struct locks *locks, uint64_t ino, uint64_t file_id)
{
	const struct lock right = { .ino = ino, .file = file_id, .type = F_UNLCK, .maps = true };
	bool first = locks->ask && !locks_maps(locks, ino, 0);
	int r = first ? locks->ask(locks->arg, &right) : 0;

	if (r < 0)
		return r;
	r = held_map(locks, ino, file_id);
	/* Without memory for it, other mounts were notified of more than there is. */
	if (r < 0)
		locks_notify(locks, ino, first);
	return r;
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

	bool notified = locks_notified(locks, ino);

	*ret_ended = NULL;
	held_flushed(locks, ino, file_id, now);
	if (held_apply(locks, &all) <= 0)
		return;
	locks_notify(locks, ino, notified);
	grant(locks, ino, ret_ended);
}

void locks_release(struct locks *locks, uint64_t ino, uint64_t file_id,
		   struct lock_wait **ret_ended)
{
	bool notified = locks_notified(locks, ino);

	*ret_ended = NULL;
	for (struct lock_wait **link = &locks->waiting; *link;) {
		if ((*link)->lock.file == file_id)
			wait_end(locks, link, -EBADF, ret_ended);
		else
			link = &(*link)->next;
	}
	if (!held_release(locks, ino, file_id))
		return;
	locks_notify(locks, ino, notified);
	grant(locks, ino, ret_ended);
}

/* A wait for other mounts that was not checked in this round. */
static const struct lock_wait *next_unpolled(const struct locks *locks)
{
	const struct lock_wait *wait = locks->waiting;

	while (wait && (!wait->others || wait->round == locks->round))
		wait = wait->next;
	return wait;
}

bool locks_poll(struct locks *locks, struct lock_wait **ret_ended)
{
	const struct lock_wait *next;
	bool any = false;

	*ret_ended = NULL;
	locks->round++;
	while ((next = next_unpolled(locks))) {
		uint64_t ino = next->lock.ino;

		for (struct lock_wait *wait = locks->waiting; wait; wait = wait->next)
			if (wait->lock.ino == ino)
				wait->round = locks->round;
		grant(locks, ino, ret_ended);
	}
	for (const struct lock_wait *wait = locks->waiting; wait; wait = wait->next)
		any |= wait->others;
	return any;
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
