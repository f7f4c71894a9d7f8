/* SPDX-License-Identifier: MIT */

/* Readers on one mount while another replaces what they read: each reads one version of the file,
 * whole, that was there between its open and its last read, and never nothing. */

#include <stdio.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/buf.h"
#include "tests/unit/many.h"

/* What is behind it is done on that mount. */
#define ON(number) many_use(number);

enum { LINES = 300 };

/* A version of the file: for a list one line more a version, for a document another string. */
static const char *version_of(const char *path, int number)
{
	static char text[3][LINES * 32];
	char *at = text[number];

	if (strstr(path, "jsonl"))
		for (int i = 0; i < LINES + number; i++)
			at += sprintf(at, "{\"version\":%d,\"i\":%d}\n", number, i);
	else
		at += sprintf(at, "{\"version\":%d,\"text\":\"%0*d\"}", number, 9000 + number, 0);
	return text[number];
}

static void save_in_place(const char *path)
{
	save(path, version_of(path, 1));
}

static void save_twice(const char *path)
{
	save(path, version_of(path, 1));
	save(path, version_of(path, 2));
}

static void save_by_rename(const char *path)
{
	save("s/new", version_of(path, 1));
	cr_assert_eq(renamed("s/new", path, 0), 0);
}

static void save_by_rename_twice(const char *path)
{
	save_by_rename(path);
	many_settle_here();
	save("s/new", version_of(path, 2));
	cr_assert_eq(renamed("s/new", path, 0), 0);
}

static void unlink_it(const char *path)
{
	cr_assert_eq(unlinked(path), 0);
}

static void unlink_and_settle(const char *path)
{
	unlink_it(path);
	many_settle_here();
}

static void unlink_and_make(const char *path)
{
	unlink_it(path);
	save(path, version_of(path, 1));
}

static void move_away(const char *path)
{
	cr_assert_eq(renamed(path, "s/other.jsonl", 0), 0);
	save(path, version_of(path, 1));
}

enum { IN_PLACE = 2 }; /* of the ways: an ordinary file is mixed by these, as on a disk */

static void (*const ways[])(const char *path) = {
	save_in_place, save_twice,	  save_by_rename,  save_by_rename_twice,
	unlink_it,     unlink_and_settle, unlink_and_make, move_away,
};

static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/k.txt" };

static bool is_state(const char *path)
{
	return strstr(path, ".json");
}

static void read_on(struct handle *handle, struct buf *read, size_t most)
{
	size_t before;

	do {
		before = read->size;
		cr_assert_geq(handle_read(world_tree, handle, before, MIN(most, 4096), read), 0);
		most -= MIN(most, read->size - before);
	} while (read->size > before && most);
}

/* Bytes that are read before it is replaced: none, some, all, and all with the end. */
static const size_t befores[] = { 0, 100, 5000, SIZE_MAX };

static void read_one(const char *path, size_t way, size_t before)
{
	_cleanup_(buf_done) struct buf read = { 0 };
	struct handle *handle;
	bool one = false;

	ON(0) save(path, version_of(path, 0));
	ON(1) cr_expect_str_eq(content_of(path), version_of(path, 0));
	ON(0) many_settle_here();
	ON(0) handle = open_at(path, O_RDONLY);
	if (before)
		read_on(handle, &read, before);
	ON(1) ways[way](path);
	ON(0) cr_assert_eq(tree_take_in(world_tree), 0);
	if (before != SIZE_MAX)
		read_on(handle, &read, SIZE_MAX);
	for (int i = 0; i < 3; i++)
		one |= bytes_equal(buf_bytes(&read), bytes_str(version_of(path, i)));
	cr_expect(one, "%s, way %zu, %zu bytes before: %zu bytes, %.*s...", path, way, before,
		  read.size, (int)MIN(read.size, 40u), read.data);
	close_handle(handle);
	ON(0)(void) unlinked(path);
	ON(0)(void) unlinked("s/other.jsonl");
	many_settle();
}

/* A thread that has looked the name up just before comes with the file that it found. */
static void open_late(const char *path, size_t way)
{
	const bool stays = ways[way] != unlink_it && ways[way] != unlink_and_settle;
	_cleanup_(buf_done) struct buf read = { 0 };
	struct inode *found, *now = NULL;
	struct handle *handle = NULL;
	bool one = false;
	int r;

	ON(0) save(path, version_of(path, 0));
	ON(0) many_settle_here();
	ON(0) found = inode_at(path);
	ON(1) ways[way](path);
	ON(0) cr_assert_eq(tree_take_in(world_tree), 0);
	r = tree_open_file(world_tree, found, 0, O_RDONLY, 0, &handle);
	if (r == 0) {
		read_on(handle, &read, SIZE_MAX);
		close_handle(handle);
		for (int i = 0; i < 3; i++)
			one |= bytes_equal(buf_bytes(&read), bytes_str(version_of(path, i)));
		cr_expect(one, "%s, way %zu: %zu bytes", path, way, read.size);
	} else {
		cr_expect_eq(r, -ESTALE, "%s, way %zu: %d", path, way, r);
	}
	r = tree_find_again(world_tree, found, &now);
	cr_expect_eq(r, stays ? 0 : -ENOENT, "%s, way %zu: %d", path, way, r);
	if (now) {
		struct inode *named = inode_at(path);

		cr_expect_eq(inode_number(now), inode_number(named));
		forget(named);
		inode_forget(world_tree, now, 1);
	}
	forget(found);
	(void)unlinked(path);
	(void)unlinked("s/other.jsonl");
	many_settle();
}

/* SQL has deleted the row of a document, and this mount has not taken that in yet. */
Test(many, a_document_without_a_row_is_not_opened_as_an_empty_one)
{
	struct handle *handle = NULL;
	struct inode *found;
	int r;

	many_open(WORLD_SQLITE, 2);
	ON(0) save("s/k.json", "{\"a\":1}");
	ON(1) cr_expect_str_eq(content_of("s/k.json"), "{\"a\":1}");
	ON(1) found = inode_at("s/k.json");
	sql_runs("DELETE FROM agentscope_sessions WHERE state_key = 'k'");
	r = tree_open_file(world_tree, found, 0, O_RDONLY, 0, &handle);
	if (r == 0) {
		cr_expect_str_eq(read_by(handle), "{\"a\":1}");
		close_handle(handle);
	}
	forget(found);
	many_settle();
	many_close();
}

ParameterizedTestParameters(many, what_is_opened_late_is_never_empty)
{
	return every_kind();
}

ParameterizedTest(const int *kind, many, what_is_opened_late_is_never_empty)
{
	many_open(*kind, 2);
	for (size_t path = 0; path < ARRAY_SIZE(paths); path++)
		for (size_t way = 0; way < ARRAY_SIZE(ways); way++)
			open_late(paths[path], way);
	many_close();
}

ParameterizedTestParameters(many, readers_have_one_version_whole)
{
	return every_kind();
}

ParameterizedTest(const int *kind, many, readers_have_one_version_whole)
{
	many_open(*kind, 2);
	for (size_t path = 0; path < ARRAY_SIZE(paths); path++)
		for (size_t way = is_state(paths[path]) ? 0 : IN_PLACE; way < ARRAY_SIZE(ways);
		     way++)
			for (size_t i = 0; i < ARRAY_SIZE(befores); i++)
				read_one(paths[path], way, befores[i]);
	many_close();
}
