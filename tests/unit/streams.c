/* SPDX-License-Identifier: MIT */

/* Reads of events that wait (fs/kernel/streams.c), without a kernel and without a tree: what there
 * is for whom is said here, and the answers are kept here. */

#include "fs/kernel/streams.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fs/api/events.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"
#include "tests/unit/fuse.h"
#include "tests/unit/until.h"

enum { READERS = 400, PAUSE_MILLISECONDS = 50 };

/* Each reader has a stream, and one request at a time; both are known by its place here. */
static struct reader {
	_Atomic bool there; /* a line, for him */
	_Atomic int64_t answered;
	struct open_file file;
} readers[READERS];

static struct session session;
static _Atomic unsigned looks;	 /* for lines, since somebody set it to 0 */
static _Atomic unsigned answers; /* and lines that were told */
static tree_happened_fn *happened;
static void *happened_arg;

static void keep_data(fuse_req_t req, const char *data, size_t size)
{
	struct reader *reader = (struct reader *)req;

	cr_assert(size == 1 && *data == '\n');
	reader->answered = tick_now();
	answers++;
}

/* What follows is in the place of the tree in the cases of this file alone. */
static bool no_tree;

int __real_stream_read(struct handle *handle, size_t size, struct buf *lines);
bool __real_stream_waits(struct handle *handle);
void __real_tree_set_follower(struct tree *tree, tree_happened_fn *function, void *arg);
int __wrap_stream_read(struct handle *handle, size_t size, struct buf *lines);
bool __wrap_stream_waits(struct handle *handle);
void __wrap_tree_set_follower(struct tree *tree, tree_happened_fn *function, void *arg);

int __wrap_stream_read(struct handle *handle, size_t size, struct buf *lines)
{
	struct reader *reader = (struct reader *)handle;

	if (!no_tree)
		return __real_stream_read(handle, size, lines);
	looks++;
	return atomic_exchange(&reader->there, false) ? buf_append_byte(lines, '\n') : 0;
}

bool __wrap_stream_waits(struct handle *handle)
{
	return no_tree ? ((struct reader *)handle)->there : __real_stream_waits(handle);
}

void __wrap_tree_set_follower(struct tree *tree, tree_happened_fn *function, void *arg)
{
	if (!no_tree) {
		__real_tree_set_follower(tree, function, arg);
		return;
	}
	happened = function;
	happened_arg = arg;
}

static void setup(void)
{
	no_tree = true;
	fuse_stand_in = (struct fuse_stand_in){ .session = &session, .data = keep_data };
	cr_assert_eq(streams_start(&session), 0);
}

static void teardown(void)
{
	streams_stop(&session);
	for (size_t i = 0; i < READERS; i++)
		stream_closing(&session, &readers[i].file);
	streams_free(&session);
}

TestSuite(streams, .init = setup, .fini = teardown);

static void wait_for_line(struct reader *reader)
{
	struct fuse_file_info fi = { 0 };

	reader->file.handle = (struct handle *)reader;
	if (!reader->file.stream)
		cr_assert_eq(stream_opened(&session, &reader->file, &fi), 0);
	stream_request_read((fuse_req_t)reader, &reader->file, 4096, true);
}

static void tell(struct reader *reader)
{
	reader->there = true;
	happened(happened_arg);
}

static void until_answers(unsigned count)
{
	while (answers < count)
		usleep(1000);
}

Test(streams, look_once_a_round_at_each_read_that_waits)
{
	for (size_t i = 0; i < READERS; i++)
		wait_for_line(&readers[i]);
	looks = 0;
	for (size_t i = 0; i < READERS; i += 2)
		readers[i].there = true;
	happened(happened_arg);
	until_answers(READERS / 2);
	usleep(PAUSE_MILLISECONDS * 1000 / 2);

	cr_expect_eq(looks, READERS, "%u", looks);
	cr_expect_eq(answers, READERS / 2);
}

Test(streams, tell_what_has_happened_within_a_pause_together)
{
	int64_t first;

	wait_for_line(&readers[0]);
	tell(&readers[0]);
	until_answers(1);
	first = readers[0].answered;
	for (size_t i = 0; i < 10; i++) {
		wait_for_line(&readers[i]);
		tell(&readers[i]);
	}
	until_answers(11);

	for (size_t i = 0; i < 10; i++)
		cr_expect_geq(readers[i].answered - first, PAUSE_MILLISECONDS * INT64_C(1000000));
}

Test(streams, tell_at_once_what_happens_after_a_pause)
{
	const int64_t end = tick_now() + UNTIL_SECONDS * INT64_C(1000000000);
	int64_t best = INT64_MAX;

	/* A machine that has other things to do is late now and then. */
	for (unsigned i = 1; best >= PAUSE_MILLISECONDS * INT64_C(1000000) / 2; i++) {
		int64_t begin;

		wait_for_line(&readers[0]);
		usleep(PAUSE_MILLISECONDS * 1000 * 2);
		begin = tick_now();
		tell(&readers[0]);
		until_answers(i);
		best = MIN(best, readers[0].answered - begin);
		cr_assert_lt(begin, end, "the best of %u is %lld ns", i, (long long)best);
	}
}
