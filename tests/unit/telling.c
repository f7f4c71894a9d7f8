/* SPDX-License-Identifier: MIT */

/* What is kept of the notes of other mounts until it is told (fs/share/telling.h). */

#include "fs/share/telling.h"

#include <stdlib.h>
#include <string.h>

#include "fs/inode/following.h"
#include "tests/unit/world.h"

static struct event_reader reader;

static void setup(void)
{
	struct inode *root;

	world_open(WORLD_MEMORY);
	root = inode_at("");
	cr_assert_eq(following_begin(world_tree, root, -1, &reader), 0);
	forget(root);
}

static void teardown(void)
{
	following_end(world_tree, &reader);
	world_close();
}

TestSuite(telling, .init = setup, .fini = teardown);

/* Appends, each by a commit of its own; how many lines a reader gets, and whether something is
 * lost. */
static unsigned told(size_t count, size_t key_size, bool *ret_lost)
{
	_cleanup_(telling_done) struct telling telling = { 0 };
	_cleanup_(buf_done) struct buf lines = { 0 };
	_cleanup_(freep) char *key = calloc(1, key_size + 1);
	struct view view = { 0 };
	struct notes notes = { 0 };
	unsigned newlines = 0;

	memset(key, 'k', key_size);
	for (size_t i = 0; i < count; i++) {
		const struct backend_feed feed = {
			.what = BACKEND_FEED_ROWS,
			.node = 1000 + i,
			.mount = 7,
			.at = 1 + (int64_t)i,
			.added = true,
			.count = 1,
			.end = 1,
			.session = BYTES("s"),
			.key = bytes_make(key, key_size),
			.name = BYTES("l.jsonl"),
			.path = BYTES("s/l.jsonl"),
		};

		telling_add(&telling, world_tree, &view, &feed);
	}
	{
		WITH_WRITE_LOCK(world_tree);

		telling_send(&telling, world_tree, &notes);
	}
	notes_send(&notes, world_tree, NOTIFY_ALL);
	cr_assert_eq(event_read(&reader, SIZE_MAX, &lines), 0);
	for (size_t i = 0; i < lines.size; i++)
		newlines += lines.data[i] == '\n';
	cr_assert_eq(buf_append_byte(&lines, '\0'), 0);
	*ret_lost = strstr(lines.data, "\"what\":\"lost\"") != NULL;
	return newlines;
}

Test(telling, of_what_there_is_room_for_tells_all)
{
	bool lost;

	cr_expect_eq(told(15, 1 << 20, &lost), 15);
	cr_expect_not(lost);
}

Test(telling, of_more_bytes_than_are_kept_says_that_something_is_lost_and_no_more)
{
	bool lost;

	cr_expect_eq(told(17, 1 << 20, &lost), 1);
	cr_expect(lost);
}

Test(telling, of_more_notes_than_are_kept_says_that_something_is_lost_and_no_more)
{
	bool lost;

	cr_expect_eq(told(EVENTS_MOST + 1, 1, &lost), 1);
	cr_expect(lost);
}
