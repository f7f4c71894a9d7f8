/* SPDX-License-Identifier: MIT */
#include "fs/kernel/locks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "tests/unit/failing-alloc.h"
#include "tests/unit/random.h"

enum { INO = 7 };

static struct locks table;

static void begin(void)
{
	locks_init(&table);
}

static void end(void)
{
	locks_done(&table);
}

TestSuite(locks, .init = begin, .fini = end);

/* Requests are named by their places in this array. */
static struct lock_wait request[16];
static struct lock_wait *ended;

static int ask(unsigned who, struct lock lock, bool sleeps)
{
	lock.ino = lock.ino ? lock.ino : INO;
	request[who] = (struct lock_wait){
		.lock = lock,
		.who = &request[who],
		.sleeps = sleeps,
	};
	return locks_set(&table, &request[who], 1, &ended);
}

static struct lock range(uint64_t owner, short type, uint64_t start, uint64_t last)
{
	return (struct lock){
		.file = owner,
		.owner = owner,
		.type = type,
		.start = start,
		.end = last,
		.pid = (pid_t)owner * 100,
	};
}

static struct lock whole(uint64_t file, short type)
{
	return (struct lock){ .file = file, .whole = true, .type = type };
}

/* The requests that have ended, in their order: "3 4! " is 3 granted, 4 refused. */
static const char *who_ended(void)
{
	static char text[100];
	char *at = text;

	*at = '\0';
	for (; ended; ended = ended->next)
		at += sprintf(at, "%zu%s ", (size_t)(ended - request), ended->error ? "!" : "");
	return text;
}

Test(locks, that_are_shared_exclude_only_exclusive_ones)
{
	cr_expect_eq(ask(0, whole(1, F_RDLCK), false), 0);
	cr_expect_eq(ask(1, whole(2, F_RDLCK), false), 0);
	cr_expect_eq(ask(2, whole(3, F_WRLCK), false), -EAGAIN);
	cr_expect_eq(ask(3, range(3, F_WRLCK, 0, INT64_MAX), false), 0, "another kind");
	cr_expect_eq(ask(4, range(4, F_RDLCK, 5, 5), false), -EAGAIN);
}

Test(locks, of_other_files_are_not_in_the_way)
{
	struct lock other = whole(2, F_WRLCK);

	other.ino = INO + LOCKS_BUCKETS; /* of the same bucket */
	cr_expect_eq(ask(0, whole(1, F_WRLCK), false), 0);

	cr_expect_eq(ask(1, other, false), 0);
	cr_expect_eq(ask(2, whole(2, F_WRLCK), false), -EAGAIN);
}

Test(locks, are_granted_in_the_order_of_arrival)
{
	ask(0, whole(1, F_WRLCK), true);
	for (unsigned who = 2; who <= 6; who++)
		cr_expect_eq(ask(who, whole(who, who == 4 ? F_WRLCK : F_RDLCK), true), 1);

	ask(1, whole(1, F_UNLCK), false);
	cr_expect_str_eq(who_ended(), "2 3 5 6 ");
	for (unsigned who = 2; who <= 5; who++)
		ask(who, whole(who, F_UNLCK), false);
	cr_expect_str_eq(who_ended(), "");
	ask(6, whole(6, F_UNLCK), false);
	cr_expect_str_eq(who_ended(), "4 ");
}

Test(locks, that_change_their_type_give_up_the_old_one_first)
{
	ask(1, whole(1, F_RDLCK), false);
	ask(2, whole(2, F_RDLCK), false);

	cr_expect_eq(ask(3, whole(1, F_WRLCK), true), 1);
	cr_expect_eq(ask(4, whole(2, F_WRLCK), true), 0, "nobody is in the way any more");
	ask(5, whole(2, F_RDLCK), false);
	cr_expect_str_eq(who_ended(), "", "a shared one is still in the way");
	ask(6, whole(2, F_UNLCK), false);
	cr_expect_str_eq(who_ended(), "3 ");
}

Test(locks, that_cannot_change_their_type_are_lost)
{
	ask(1, whole(1, F_RDLCK), false);
	ask(2, whole(2, F_RDLCK), false);
	ask(3, whole(3, F_WRLCK), true);

	cr_expect_eq(ask(4, whole(1, F_WRLCK), false), -EAGAIN);
	ask(5, whole(2, F_UNLCK), false);
	cr_expect_str_eq(who_ended(), "3 ");
}

Test(locks, of_ranges_split_and_merge)
{
	struct lock found;

	ask(0, range(1, F_WRLCK, 0, INT64_MAX), false);
	ask(0, range(1, F_UNLCK, 10, 19), false);
	ask(0, range(1, F_RDLCK, 30, 39), false);

	cr_expect_eq(ask(1, range(2, F_WRLCK, 10, 19), false), 0);
	cr_expect_eq(ask(1, range(2, F_RDLCK, 30, 39), false), 0);
	cr_expect_eq(ask(1, range(2, F_RDLCK, 29, 29), false), -EAGAIN);
	cr_expect_eq(ask(1, range(2, F_RDLCK, 40, 40), false), -EAGAIN);
	ask(0, range(1, F_UNLCK, 0, 25), false);
	ask(0, range(1, F_WRLCK, 20, 25), false);
	found = range(3, F_RDLCK, 22, 23);
	found.ino = INO;
	cr_expect_not(locks_test(&table, &found, &found));
	cr_expect_eq(found.start, 20);
	cr_expect_eq(found.end, 29, "two that touch are one, to %lu", (unsigned long)found.end);
	cr_expect_eq(found.pid, 100);
}

Test(locks, that_wait_for_each_other_are_a_deadlock)
{
	for (unsigned owner = 1; owner <= 4; owner++)
		ask(owner, range(owner, F_WRLCK, owner, owner), false);
	for (unsigned owner = 1; owner <= 3; owner++)
		cr_expect_eq(ask(owner, range(owner, F_RDLCK, owner + 1, owner + 1), true), 1);

	cr_expect_eq(ask(4, range(4, F_RDLCK, 1, 1), true), -EDEADLK);
	cr_expect_eq(ask(5, range(5, F_RDLCK, 1, 1), true), 1, "in nobody's way");
	cr_expect_eq(ask(4, range(4, F_UNLCK, 4, 4), true), 0);
	cr_expect_str_eq(who_ended(), "3 ");
	cr_expect_eq(ask(4, range(4, F_RDLCK, 1, 1), true), 1, "for nobody who waits for it");
	locks_end(&table, -ENOTCONN, &ended);
}

Test(locks, of_whole_files_are_not_searched_for_deadlocks)
{
	struct lock other = whole(3, F_WRLCK);

	ask(1, whole(1, F_WRLCK), false);
	other.ino = INO + 1;
	ask(2, other, false);
	other.file = 4;
	cr_expect_eq(ask(2, other, true), 1);
	cr_expect_eq(ask(1, whole(2, F_WRLCK), true), 1);
	locks_end(&table, -ENOTCONN, &ended);
	cr_expect_str_eq(who_ended(), "2! 1! ");
}

Test(locks, of_a_process_end_when_it_closes_any_descriptor)
{
	struct lock lock = range(1, F_WRLCK, 0, 9);

	ask(0, lock, false);
	lock.file = 77;
	lock.start = 20;
	lock.end = 29;
	ask(0, lock, false);
	ask(2, range(2, F_RDLCK, 0, 5), true);
	ask(3, range(3, F_RDLCK, 25, 25), true);

	locks_flush(&table, INO, 77, 9, 1, &ended);
	cr_expect_str_eq(who_ended(), "", "another process has closed it");
	locks_flush(&table, INO, 77, 1, 1, &ended);
	cr_expect_str_eq(who_ended(), "2 3 ");
}

Test(locks, of_an_owner_whose_number_came_again_outlive_the_old_file)
{
	struct lock late = range(1, F_RDLCK, 0, 99);
	struct lock again = range(1, F_WRLCK, 50, 59);

	late.file = 10;
	again.file = 11;
	ask(0, late, false);
	cr_expect_eq(ask(1, again, false), 0);

	locks_release(&table, INO, 10, &ended);

	cr_expect_eq(ask(2, range(2, F_RDLCK, 50, 50), false), -EAGAIN);
	cr_expect_eq(ask(2, range(2, F_WRLCK, 49, 49), false), 0);
	cr_expect_eq(ask(2, range(2, F_WRLCK, 60, 60), false), 0);
}

Test(locks, of_a_file_that_is_being_closed_are_refused_late)
{
	ask(1, whole(1, F_WRLCK), false);
	cr_expect_eq(ask(2, whole(2, F_WRLCK), false), -EAGAIN);
	locks_flush(&table, INO, 1, 5, 0, &ended);

	cr_expect_eq(ask(2, whole(2, F_WRLCK), false), 1);
	cr_expect_eq(ask(3, whole(3, F_WRLCK), false), 1);
	cr_expect_eq(locks_expire(&table, 1, &ended), LOCKS_CLOSING_TIME);
	locks_release(&table, INO, 1, &ended);
	cr_expect_str_eq(who_ended(), "2 ");
	cr_expect_eq(locks_expire(&table, LOCKS_CLOSING_TIME, &ended), INT64_MAX);
	cr_expect_str_eq(who_ended(), "3! ");
}

Test(locks, of_a_file_that_tells_of_no_closes_are_refused_late)
{
	struct lock silent = whole(1, F_WRLCK);

	silent.silent = true;
	ask(1, silent, false);

	cr_expect_eq(ask(2, whole(2, F_WRLCK), false), 1);
	locks_expire(&table, INT64_MAX, &ended);
	cr_expect_str_eq(who_ended(), "2! ");
}

Test(locks, that_are_waited_for_no_longer_are_not_granted)
{
	ask(1, whole(1, F_WRLCK), false);
	ask(2, whole(2, F_WRLCK), true);

	cr_expect_eq(locks_cancel(&table, &request[2]), &request[2]);
	cr_expect_null(locks_cancel(&table, &request[2]));
	ask(1, whole(1, F_UNLCK), false);

	cr_expect_str_eq(who_ended(), "");
	cr_expect_eq(ask(3, whole(3, F_WRLCK), false), 0);
}

Test(locks, are_as_before_when_memory_is_short)
{
	unsigned failures = 0;

	ask(0, range(1, F_WRLCK, 0, 99), false);
	for (unsigned at = 1;; at++) {
		int r;

		failing_alloc_at(at);
		r = ask(1, range(1, F_RDLCK, 40, 49), false);
		failing_alloc_at(0);
		if (r == 0)
			break;
		cr_assert_eq(r, -ENOLCK);
		failures++;
		cr_assert_eq(ask(2, range(2, F_RDLCK, 45, 45), false), -EAGAIN);
	}
	cr_expect_eq(failures, 2);
	failing_alloc_at(1);
	cr_expect_eq(ask(1, range(1, F_UNLCK, 0, INT64_MAX), false), 0, "giving up all needs none");
	failing_alloc_at(0);
}

/* What other mounts were told last: how many locks, and rights to map. */
static unsigned told_locks, told_rights;
static int others_say;

static int count_told(void *arg, const struct lock *lock)
{
	(void)arg;
	told_rights += lock->maps;
	told_locks += lock->type != F_UNLCK;
	return 0;
}

static void tell_all(void *arg, uint64_t ino)
{
	told_locks = told_rights = 0;
	locks_each(arg, ino, count_told, NULL);
}

static int ask_others(void *arg, const struct lock *lock)
{
	if (others_say < 0)
		return others_say;
	tell_all(arg, lock->ino);
	count_told(NULL, lock);
	return locks_set_notified(arg, lock->ino);
}

static void be_told(void)
{
	table.ask = ask_others;
	table.changed = tell_all;
	table.arg = &table;
	others_say = 0;
}

Test(locks, the_right_to_map_is_of_all_open_files_and_ends_with_the_last)
{
	be_told();
	cr_expect_eq(locks_map(&table, INO, 1), 0);
	cr_expect_eq(told_rights, 1);
	others_say = -EAGAIN;
	cr_expect_eq(locks_map(&table, INO, 2), 0, "the others need not be asked again");
	cr_expect_eq(locks_map(&table, INO + 1, 2), -EAGAIN);
	cr_expect_eq(locks_maps(&table, INO, 2), true);
	cr_expect_eq(locks_maps(&table, INO + 1, 0), false);

	locks_release(&table, INO, 1, &ended);
	cr_expect_eq(locks_maps(&table, INO, 1), false);
	cr_expect_eq(told_rights, 1, "one of them has it");
	locks_release(&table, INO, 2, &ended);
	cr_expect_eq(told_rights, 0);
	cr_expect(!locks_any(&table, INO));
}

Test(locks, that_bring_the_right_to_map_leave_it_when_they_go)
{
	struct lock lock = range(1, F_WRLCK, 0, 9);

	be_told();
	lock.maps = true;
	cr_expect_eq(ask(0, lock, false), 0);
	cr_expect_eq(told_rights, 1);
	cr_expect_eq(told_locks, 1);
	cr_expect_eq(ask(1, range(2, F_WRLCK, 0, 9), false), -EAGAIN, "a lock as any");

	locks_flush(&table, INO, 1, 1, 0, &ended);
	cr_expect_eq(told_locks, 0);
	cr_expect_eq(told_rights, 1);
	cr_expect(locks_maps(&table, INO, 1));
	locks_lose(&table);
	cr_expect(!locks_any(&table, INO));
}

Test(locks, the_right_to_map_is_not_had_when_memory_is_short)
{
	unsigned failures = 0;

	for (unsigned at = 1;; at++) {
		int r;

		failing_alloc_at(at);
		r = locks_map(&table, INO, 1);
		failing_alloc_at(0);
		if (r == 0)
			break;
		cr_assert_eq(r, -ENOLCK);
		cr_assert(!locks_any(&table, INO));
		failures++;
	}
	cr_expect_eq(failures, 2);
	locks_release(&table, INO, 1, &ended);
}

/*
 * Against a naive model: a lock for each byte and owner, and for each open file.  The last byte
 * stands for all that follow.
 */

enum {
	FILES = 6, /* open files, two an inode */
	INODES = 3,
	OWNERS = 4,
	BYTES = 12,
	SLOTS = 16,
};

struct model_byte {
	short type;
	uint64_t file;
};

static struct {
	struct model_byte byte[INODES][OWNERS][BYTES];
	short whole[FILES];
	int64_t flushed[FILES]; /* 0: not */
	unsigned waiting[SLOTS];
	unsigned count;
} model;

static uint64_t model_ino(uint64_t file)
{
	return file % INODES;
}

static unsigned model_last(const struct lock *lock)
{
	return lock->end >= BYTES - 1 ? BYTES - 1 : (unsigned)lock->end;
}

static bool model_excludes(short a, short b)
{
	return a != F_UNLCK && (a == F_WRLCK || b == F_WRLCK);
}

/* The owners and files in a lock's way. */
static bool model_blocked(const struct lock *lock, bool *owners, bool *files)
{
	bool blocked = false;

	for (uint64_t file = 0; lock->whole && file < FILES; file++) {
		if (file == lock->file || model_ino(file) != lock->ino ||
		    !model_excludes(model.whole[file], lock->type))
			continue;
		blocked = files[file] = true;
	}
	for (unsigned owner = 0; !lock->whole && owner < OWNERS; owner++) {
		for (unsigned i = (unsigned)lock->start; i <= model_last(lock); i++) {
			const struct model_byte *byte = &model.byte[lock->ino][owner][i];

			if (owner == lock->owner || !model_excludes(byte->type, lock->type))
				continue;
			blocked = owners[owner] = files[byte->file] = true;
		}
	}
	return blocked;
}

static bool model_is_blocked(const struct lock *lock)
{
	bool owners[OWNERS] = { false }, files[FILES] = { false };

	return model_blocked(lock, owners, files);
}

static void model_apply(const struct lock *lock)
{
	if (lock->whole)
		model.whole[lock->file] = lock->type;
	for (unsigned i = (unsigned)lock->start; !lock->whole && i <= model_last(lock); i++)
		model.byte[lock->ino][lock->owner][i] =
			(struct model_byte){ .type = lock->type, .file = lock->file };
	if (lock->type != F_UNLCK)
		model.flushed[lock->file] = 0;
}

/* Whether an owner waits for another one, maybe through others. */
static bool model_waits_for(unsigned owner, uint64_t other, unsigned depth)
{
	bool owners[OWNERS] = { false }, files[FILES] = { false };

	if (owner == other)
		return true;
	for (unsigned i = 0; depth && i < model.count; i++) {
		const struct lock_wait *wait = &request[model.waiting[i]];

		if (!wait->lock.whole && wait->sleeps && wait->lock.owner == owner)
			model_blocked(&wait->lock, owners, files);
	}
	for (unsigned next = 0; next < OWNERS; next++)
		if (owners[next] && model_waits_for(next, other, depth - 1))
			return true;
	return false;
}

static void model_remove(unsigned place)
{
	model.count--;
	memmove(&model.waiting[place], &model.waiting[place + 1],
		(model.count - place) * sizeof(model.waiting[0]));
}

/* The first one that can be granted, again and again. */
static void model_grant(char *text)
{
	for (unsigned i = 0; i < model.count;) {
		unsigned who = model.waiting[i];

		if (model_is_blocked(&request[who].lock)) {
			i++;
			continue;
		}
		model_apply(&request[who].lock);
		model_remove(i);
		sprintf(text + strlen(text), "%u ", who);
		i = 0;
	}
}

static int model_set(unsigned who, int64_t now, char *text)
{
	const struct lock_wait *wait = &request[who];
	const struct lock *lock = &wait->lock;
	bool owners[OWNERS] = { false }, files[FILES] = { false };
	int r = 0;

	if (lock->whole && lock->type != model.whole[lock->file])
		model.whole[lock->file] = F_UNLCK;
	if (lock->type == F_UNLCK || !model_blocked(lock, owners, files)) {
		model_apply(lock);
	} else {
		for (unsigned file = 0; file < FILES && !wait->sleeps; file++)
			if (files[file] && (!model.flushed[file] ||
					    now - model.flushed[file] >= LOCKS_CLOSING_TIME))
				r = -EAGAIN;
		for (unsigned owner = 0; owner < OWNERS && wait->sleeps; owner++)
			if (owners[owner] && model_waits_for(owner, lock->owner, OWNERS))
				r = -EDEADLK;
		if (r == 0) {
			model.waiting[model.count++] = who;
			r = 1;
		}
	}
	model_grant(text);
	return r;
}

static void model_close(uint64_t file, uint64_t owner, int64_t now, char *text)
{
	for (unsigned i = 0; i < BYTES; i++)
		model.byte[model_ino(file)][owner][i].type = F_UNLCK;
	model.flushed[file] = now;
	model_grant(text);
}

static void model_release(uint64_t file, char *text)
{
	for (unsigned i = 0; i < model.count;) {
		if (request[model.waiting[i]].lock.file != file) {
			i++;
			continue;
		}
		sprintf(text + strlen(text), "%u! ", model.waiting[i]);
		model_remove(i);
	}
	model.whole[file] = F_UNLCK;
	for (unsigned owner = 0; owner < OWNERS; owner++)
		for (unsigned i = 0; i < BYTES; i++)
			if (model.byte[model_ino(file)][owner][i].file == file)
				model.byte[model_ino(file)][owner][i].type = F_UNLCK;
	model_grant(text);
}

static void model_cancel(unsigned who)
{
	for (unsigned i = 0; i < model.count; i++) {
		if (model.waiting[i] == who) {
			model_remove(i);
			return;
		}
	}
}

/* The end of patience of all that do not sleep. */
static void model_expire(char *text)
{
	for (unsigned i = 0; i < model.count;) {
		unsigned who = model.waiting[i];

		if (request[who].sleeps) {
			i++;
			continue;
		}
		sprintf(text + strlen(text), "%u! ", who);
		model_remove(i);
	}
}

static struct lock random_lock(uint64_t *state)
{
	static const short types[] = { F_RDLCK, F_WRLCK, F_UNLCK };
	struct lock lock = {
		.file = random_below(state, FILES),
		.type = types[random_below(state, ARRAY_SIZE(types))],
		.whole = random_below(state, 3) == 0,
	};

	lock.ino = model_ino(lock.file);
	if (lock.whole)
		return lock;
	lock.owner = random_below(state, OWNERS);
	lock.start = random_below(state, BYTES);
	lock.end = lock.start + random_below(state, 5);
	if (lock.end >= BYTES - 1)
		lock.end = INT64_MAX;
	return lock;
}

static bool is_waiting(unsigned who)
{
	for (unsigned i = 0; i < model.count; i++)
		if (model.waiting[i] == who)
			return true;
	return false;
}

/* What the table holds is what the model holds. */
static void expect_same(unsigned step)
{
	for (unsigned owner = 0; owner < OWNERS; owner++) {
		for (unsigned at = 0; at < INODES * BYTES; at++) {
			const struct model_byte *byte = &model.byte[at / BYTES][owner][at % BYTES];
			struct lock lock = range(owner, F_UNLCK, at % BYTES, at % BYTES);
			struct lock found = { .type = F_UNLCK };

			lock.ino = at / BYTES;
			locks_test(&table, &lock, &found);
			cr_assert_eq(found.type, byte->type, "step %u: byte %u of owner %u", step,
				     at, owner);
			cr_assert(found.type == F_UNLCK || found.file == byte->file,
				  "step %u: file of byte %u of owner %u", step, at, owner);
		}
	}
	for (unsigned file = 0; file < FILES; file++) {
		struct lock lock = whole(file, F_UNLCK);

		lock.ino = model_ino(file);
		cr_assert_eq(locks_gives_up(&table, &lock), model.whole[file] != F_UNLCK,
			     "step %u: open file %u", step, file);
		lock.type = F_RDLCK;
		cr_assert_eq(locks_gives_up(&table, &lock), model.whole[file] == F_WRLCK,
			     "step %u: exclusive open file %u", step, file);
	}
}

static void random_step(uint64_t *state, unsigned step, unsigned *seen)
{
	unsigned who = (unsigned)random_below(state, SLOTS), what;
	int64_t now = 1 + step * (LOCKS_CLOSING_TIME / 4);
	uint64_t file = random_below(state, FILES), owner = random_below(state, OWNERS);
	char expected[200] = "";
	int r = 0, model_r = 0;

	ended = NULL;
	what = (unsigned)random_below(state, 20);
	if (what == 0) {
		locks_flush(&table, model_ino(file), file, owner, now, &ended);
		model_close(file, owner, now, expected);
	} else if (what == 1) {
		locks_release(&table, model_ino(file), file, &ended);
		model_release(file, expected);
	} else if (what == 2) {
		cr_assert_eq(locks_cancel(&table, &request[who]) != NULL, is_waiting(who));
		model_cancel(who);
	} else if (what == 3) {
		/* At a later time, then back: the table has no clock of its own. */
		locks_expire(&table, now + 2 * LOCKS_CLOSING_TIME, &ended);
		model_expire(expected);
	} else if (!is_waiting(who)) {
		request[who] = (struct lock_wait){
			.lock = random_lock(state),
			.who = &request[who],
			.sleeps = random_below(state, 2),
		};
		r = locks_set(&table, &request[who], now, &ended);
		model_r = model_set(who, now, expected);
	}
	cr_assert_eq(r, model_r, "step %u: %d instead of %d", step, r, model_r);
	cr_assert_str_eq(who_ended(), expected, "step %u", step);
	seen[r == 1 ? 1 : r == -EAGAIN ? 2 : r == -EDEADLK ? 3 : 0]++;
	seen[4] += expected[0] != '\0';
}

/* Were each compared with all others, this would take an hour. */
Test(locks, of_many_ranges_are_found_quickly, .timeout = 600)
{
	enum { MANY = 200000 };

	for (uint64_t i = 0; i < MANY; i++)
		cr_assert_eq(ask(0, range(1, F_WRLCK, 2 * i, 2 * i), false), 0);
	for (uint64_t i = 0; i < MANY; i++)
		cr_assert_eq(ask(1, range(2, F_WRLCK, 2 * i + 1, 2 * i + 1), false), 0);
	for (uint64_t i = 0; i < MANY; i++)
		cr_assert_eq(ask(2, range(3, F_RDLCK, 2 * i, 2 * i), false), -EAGAIN);
	for (uint64_t i = 0; i < MANY; i += 2)
		cr_assert_eq(ask(0, range(1, F_UNLCK, 2 * i, 2 * i), false), 0);
	cr_assert_eq(ask(2, range(3, F_RDLCK, 0, 0), false), 0);
	locks_release(&table, INO, 1, &ended);
	locks_release(&table, INO, 2, &ended);
	locks_release(&table, INO, 3, &ended);
	cr_assert(!locks_any(&table, INO));
}

Test(locks, are_those_of_a_naive_model)
{
	uint64_t state = random_seed("locks");
	unsigned seen[5] = { 0 };

	memset(&model, 0, sizeof(model));
	for (size_t i = 0; i < sizeof(model.byte) / sizeof(struct model_byte); i++)
		((struct model_byte *)model.byte)[i].type = F_UNLCK;
	for (size_t i = 0; i < FILES; i++)
		model.whole[i] = F_UNLCK;

	for (unsigned step = 0; step < 50000; step++) {
		random_step(&state, step, seen);
		expect_same(step);
	}

	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		cr_expect_gt(seen[i], 50, "only %u of kind %zu", seen[i], i);
	locks_end(&table, -ENOTCONN, &ended);
}
