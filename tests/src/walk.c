/* SPDX-License-Identifier: MIT */
#include "src/search/walk.h"

#include <criterion/criterion.h>
#include <time.h>

#include "backend/base/tick.h"

/* A store in which no other program has changed anything. */

static int snapshot_begin(struct backend *backend, unsigned flags,
			  struct backend_snapshot **ret_snapshot)
{
	(void)backend;
	(void)flags;
	*ret_snapshot = NULL;
	return 0;
}

static void snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	(void)backend;
	(void)snapshot;
}

static const struct backend_ops ops = {
	.snapshot_begin = snapshot_begin,
	.snapshot_end = snapshot_end,
};

static int looks;

/* What is known takes twenty milliseconds to look at; behind it is one file that has changed. */
static int look(struct walk *walk)
{
	static const struct timespec known = { .tv_nsec = 20000000 };
	int r = walk_changes(walk);

	looks++;
	nanosleep(&known, NULL);
	return r < 0 ? r : walk_is_late(walk);
}

Test(walk, ends_where_looking_at_what_is_known_takes_longer_than_a_snapshot_may_last,
     .timeout = 600)
{
	struct backend backend;
	struct walk walk = { .backend = &backend, .look = look, .most = 1000000 };

	backend_init(&backend, &ops);
	cr_assert_eq(walk_bring_up(&walk), 0);
	cr_expect_gt(looks, 1, "the first snapshot was too short");
}
