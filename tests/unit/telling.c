/* SPDX-License-Identifier: MIT */

/* What is kept of the notes of other mounts until it is told (fs/events/events.h). */

#include "fs/events/events.h"

#include <stdlib.h>
#include <string.h>

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

/* Send what was added; all lines that the reader gets. */
static void send_all(struct telling *telling, struct buf *lines)
{
	struct notes notes = { 0 };
	{
		WITH_WRITE_LOCK(world_tree);

		telling_send(telling, world_tree, &notes);
	}
	notes_send(&notes, world_tree, NOTIFY_ALL);
	cr_assert_eq(event_read(&reader, SIZE_MAX, lines), 0);
	cr_assert_eq(buf_append_byte(lines, '\0'), 0);
}

/* Appends, each by a commit of its own; how many lines a reader gets, and whether something is
 * lost. */
static unsigned told(size_t count, size_t key_size, bool *ret_lost)
{
	_cleanup_(telling_done) struct telling telling = { 0 };
	_cleanup_(buf_done) struct buf lines = { 0 };
	_cleanup_(freep) char *key = calloc(1, key_size + 1);
	struct view view = { 0 };
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
	send_all(&telling, &lines);
	for (size_t i = 0; i < lines.size; i++)
		newlines += lines.data[i] == '\n';
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

/* Rows of another program whose file was made, but there are more by now. */
Test(telling, of_rows_that_are_told_once_more_does_not_say_how_many)
{
	_cleanup_(telling_done) struct telling telling = { 0 };
	_cleanup_(buf_done) struct buf lines = { 0 };
	const struct backend_feed common = {
		.node = 1000,
		.mount = 7,
		.at = 1,
		.foreign = true,
		.name = BYTES("k.jsonl"),
		.path = BYTES("s/k.jsonl"),
	};
	struct backend_feed came = common, rows = common;
	struct view view = { 0 };

	came.what = BACKEND_FEED_ENTRY;
	rows.what = BACKEND_FEED_ROWS;
	rows.session = BYTES("s");
	rows.key = BYTES("k");
	rows.added = rows.waits = true;
	rows.end = 4;
	telling_add(&telling, world_tree, &view, &came);
	telling_add(&telling, world_tree, &view, &rows);
	send_all(&telling, &lines);
	cr_expect(strstr(lines.data,
			 "\"what\":\"save\",\"first\":null,\"count\":null,\"items\":null"),
		  "%s", lines.data);
}

/* A document becomes a list with more rows: as the mount says that has taken this in. */
Test(telling, of_a_file_that_has_another_name_and_other_rows_is_a_save)
{
	_cleanup_(telling_done) struct telling telling = { 0 };
	_cleanup_(buf_done) struct buf lines = { 0 };
	const struct backend_feed common = { .node = 1000, .mount = 7, .at = 1, .foreign = true };
	struct backend_feed went = common, came = common, rows = common;
	struct view view = { 0 };

	went.what = came.what = BACKEND_FEED_ENTRY;
	went.gone = true;
	went.name = BYTES("k.json");
	went.path = BYTES("s/k.json");
	came.name = rows.name = BYTES("k.jsonl");
	came.path = rows.path = BYTES("s/k.jsonl");
	rows.what = BACKEND_FEED_ROWS;
	rows.session = BYTES("s");
	rows.key = BYTES("k");
	rows.added = true;
	rows.first = 1;
	rows.end = 4;
	telling_add(&telling, world_tree, &view, &went);
	telling_add(&telling, world_tree, &view, &came);
	telling_add(&telling, world_tree, &view, &rows);
	send_all(&telling, &lines);
	cr_expect(strstr(lines.data,
			 "\"path\":\"s/k.jsonl\",\"from\":\"s/k.json\",\"what\":\"save\","
			 "\"first\":null,\"count\":null,\"items\":4"),
		  "%s", lines.data);
}
