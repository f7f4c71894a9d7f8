/* SPDX-License-Identifier: MIT */

/* What is saved through a window takes the place of the items that it shows. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stores/fault.h"
#include "fs/base/lines.h"
#include "fs/inode/generation.h"
#include "fs/inode/inodes.h"
#include "fs/views/windows.h"
#include "fs/inode/writing.h"
#include "fs/write/handle.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

static struct inode *look(struct inode *dir, const char *name)
{
	struct inode *inode = NULL;

	cr_assert_eq(tree_lookup(world_tree, dir, bytes_str(name), &inode), 0, "%s", name);
	return inode;
}

/* "s/l.jsonl" through a question. */
static struct inode *window_of(const char *question)
{
	struct inode *dir = inode_at("s"), *seen = look(dir, question);
	struct inode *window = look(seen, "l.jsonl");

	forget(seen);
	forget(dir);
	return window;
}

static int try_window(const char *question, int flags, struct handle **ret_handle)
{
	struct inode *window = window_of(question);
	int r = tree_open_file(world_tree, window, 0, flags, getpid(), ret_handle);

	forget(window);
	return r;
}

static struct handle *open_window(const char *question, int flags)
{
	struct handle *handle = NULL;

	cr_assert_eq(try_window(question, flags, &handle), 0, "%s", question);
	return handle;
}

static int window_error(const char *question, int flags)
{
	struct handle *handle = NULL;
	int r = try_window(question, flags, &handle);

	if (r == 0)
		handle_free(world_tree, handle);
	return r;
}

static int cut(struct handle *handle, uint64_t size)
{
	const struct stat st = { .st_size = (off_t)size };

	return set_attr_by(handle, &st, TREE_SET_SIZE);
}

static int closed(struct handle *handle)
{
	int r = handle_flush(world_tree, handle, getpid());

	handle_free(world_tree, handle);
	return r;
}

/* Read all, then write other lines in its place. */
static struct handle *rewriting(const char *question, const char *text)
{
	struct handle *handle = open_window(question, O_RDWR);

	read_by(handle);
	cr_assert_eq(cut(handle, 0), 0);
	if (*text)
		write_at(handle, 0, bytes_str(text));
	return handle;
}

static int rewrite(const char *question, const char *text)
{
	return closed(rewriting(question, text));
}

EveryStore(compact, replaces_the_items_that_were_shown)
{
	append("s/l.jsonl", "1\n2\n3\n4\n5\n");
	cr_expect_eq(rewrite("@first=3", "[1,2]\n3\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2]\n3\n4\n5\n");
	cr_expect_eq(rewrite("@items=1-2", "7\n8\n9\n10\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2]\n7\n8\n9\n10\n5\n");
	cr_expect_eq(rewrite("@items=4-9", "4\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2]\n7\n8\n9\n4\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=[1,2] 1=7 2=8 3=9 4=4");
	cr_expect_eq(rewrite("@items=1-3", ""), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2]\n4\n");
	cr_expect_eq(rewrite("@first=99", ""), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "");
	append("s/l.jsonl", "6\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=6");
}

EveryStore(compact, leaves_what_came_meanwhile_behind_it)
{
	static const char *const questions[] = { "@first=2", "@first=9", "@items=0-",
						 "@items=0-9" };

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		struct handle *handle;

		save("s/l.jsonl", "1\n2\n");
		handle = rewriting(questions[i], "[1,2]\n");
		append("s/l.jsonl", "3\n");
		cr_expect_eq(closed(handle), 0, "%s", questions[i]);
		cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2]\n3\n", "%s", questions[i]);
		cr_expect_str_eq(rows_of("s", "l"), "0=[1,2] 1=3");
	}
}

EveryStore(compact, of_no_items_puts_lines_where_they_would_be)
{
	struct handle *handle;

	append("s/l.jsonl", "1\n2\n");
	cr_expect_eq(rewrite("@items=5-7", "3\n"), 0, "behind what there is");
	cr_expect_eq(rewrite("@first=0", "0\n"), 0, "in front of it");
	cr_expect_str_eq(content_of("s/l.jsonl"), "0\n1\n2\n3\n");
	handle = rewriting("@items=4-", "4\n");
	append("s/l.jsonl", "5\n");
	cr_expect_eq(closed(handle), 0);
	cr_expect_str_eq(rows_of("s", "l"), "0=0 1=1 2=2 3=3 4=4 5=5");
	handle = rewriting("@items=0-", "9\n");
	save("s/l.jsonl", "");
	cr_expect_eq(closed(handle), -ESTALE);
}

EveryStore(compact, fails_when_the_list_was_changed)
{
	struct handle *handle, *other;

	append("s/l.jsonl", "1\n2\n3\n");
	handle = rewriting("@first=2", "[1,2]\n");
	save("s/l.jsonl", "1\n2\n4\n");
	cr_expect_eq(closed(handle), -ESTALE, "by a save");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n4\n");
	handle = rewriting("@first=1", "7\n");
	other = rewriting("@items=1-1", "8\n");
	cr_expect_eq(closed(handle), 0);
	cr_expect_eq(closed(other), -ESTALE, "by another one");
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n2\n4\n");
	handle = rewriting("@first=1", "9\n");
	cr_expect_eq(renamed("s/l.jsonl", "s/m.jsonl", 0), 0);
	append("s/l.jsonl", "1\n");
	cr_expect_eq(closed(handle), 0, "it is the file that was opened");
	cr_expect_str_eq(content_of("s/m.jsonl"), "9\n2\n4\n");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n");
	handle = rewriting("@first=1", "5\n");
	cr_expect_eq(unlinked("s/l.jsonl"), 0);
	cr_expect_eq(closed(handle), -ESTALE, "by its removal");
	cr_expect_eq(looked_up("s/l.jsonl"), -ENOENT);
}

EveryStore(compact, takes_nothing_but_whole_lines_of_json)
{
	static const char *const bad[] = { "1",	     "1\n2",  "1\n\n",	  "\n",
					   "1\n{\n", "1 2\n", "1\n \n2\n" };

	append("s/l.jsonl", "1\n2\n3\n");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_expect_eq(rewrite("@first=2", bad[i]), -EINVAL, "%s", bad[i]);
		cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	}
	cr_expect_eq(rewrite("@first=2", "1\r\n {\"a\": 2}\n"), 0);
	cr_expect_str_eq(rows_of("s", "l"), "0=1\r 1= {\"a\": 2} 2=3");
}

EveryStore(compact, can_be_tried_again_by_its_writer)
{
	struct handle *handle;

	append("s/l.jsonl", "1\n2\n3\n");
	handle = rewriting("@first=2", "half");
	cr_expect_eq(handle_sync(world_tree, handle), -EINVAL);
	cr_expect_eq(cut(handle, 0), 0);
	write_at(handle, 0, BYTES("7\n"));
	cr_expect_eq(handle_sync(world_tree, handle), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n3\n");
	cr_expect_str_eq(read_by(handle), "7\n");
	append("s/l.jsonl", "4\n");
	write_at(handle, 2, BYTES("8\n"));
	cr_expect_eq(closed(handle), 0, "what was saved is what it shows");
	cr_expect_str_eq(rows_of("s", "l"), "0=7 1=8 2=3 3=4");
}

EveryStore(compact, needs_a_writer_who_has_read_all)
{
	struct buf part = { 0 };
	struct handle *handle;

	append("s/l.jsonl", "1\n2\n3\n");
	cr_expect_eq(window_error("@first=2", O_WRONLY), -EINVAL);
	cr_expect_eq(window_error("@first=2", O_WRONLY | O_TRUNC), -EINVAL);
	cr_expect_eq(window_error("@first=2", O_RDWR | O_TRUNC), -EINVAL);
	handle = open_window("@first=2", O_RDWR);
	cr_expect_eq(cut(handle, 0), 0);
	cr_expect_eq(closed(handle), -EINVAL, "it has read nothing");
	handle = open_window("@first=2", O_RDWR);
	cr_expect_eq(handle_read(world_tree, handle, 0, 3, &part), 0);
	cr_expect_eq(cut(handle, 0), 0);
	read_by(handle);
	cr_expect_eq(closed(handle), -EINVAL, "not the last byte");
	handle = open_window("@first=2", O_RDWR);
	cr_expect_eq(handle_read(world_tree, handle, 1, 3, &part), 0);
	cr_expect_eq(cut(handle, 0), 0);
	cr_expect_eq(closed(handle), -EINVAL, "not the first");
	handle = open_window("@first=2", O_RDWR);
	cr_expect_eq(handle_read(world_tree, handle, 0, 3, &part), 0);
	cr_expect_eq(handle_read(world_tree, handle, 3, 1, &part), 0);
	cr_expect_eq(cut(handle, 0), 0);
	cr_expect_eq(closed(handle), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "3\n");
	buf_done(&part);
}

static const char *version_of(struct inode *inode)
{
	static char words[8][VERSION_WORD];
	static unsigned turn;
	char *word = words[turn++ % ARRAY_SIZE(words)];
	struct buf value = { 0 };

	cr_assert_eq(tree_get_xattr(world_tree, inode, BYTES(VERSION_ATTRIBUTE), &value), 0);
	snprintf(word, VERSION_WORD, "%.*s", (int)value.size, value.data);
	buf_done(&value);
	return word;
}

static const char *version_now(void)
{
	struct inode *inode = inode_at("s/l.jsonl");
	const char *word = version_of(inode);

	forget(inode);
	return word;
}

/* "@first=2" of a version. */
static const char *first_of(const char *version)
{
	static char question[64];

	snprintf(question, sizeof(question), "@first=2,if=%s", version);
	return question;
}

EveryStore(compact, of_a_version_needs_no_reading)
{
	struct handle *handle;
	const char *before;

	append("s/l.jsonl", "1\n2\n3\n");
	before = version_now();
	append("s/l.jsonl", "4\n");
	handle = open_window(first_of(before), O_WRONLY | O_TRUNC);
	append("s/l.jsonl", "5\n");
	write_at(handle, 0, BYTES("[1,2]\n"));
	cr_expect_eq(handle_sync(world_tree, handle), 0);
	cr_expect_str_eq(version_of(handle->through->inode), version_now());
	cr_expect_str_neq(version_now(), before);
	cr_expect_eq(closed(handle), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2]\n3\n4\n5\n");
	cr_expect_eq(window_error(first_of(before), O_WRONLY | O_TRUNC), -ESTALE);
	cr_expect_eq(window_error(first_of("none"), O_RDWR), -ESTALE);
	handle = open_window(first_of(version_now()), O_WRONLY);
	write_at(handle, 2, BYTES("7"));
	save("s/l.jsonl", "8\n9\n");
	cr_expect_eq(closed(handle), -ESTALE);
	cr_expect_str_eq(content_of("s/l.jsonl"), "8\n9\n");
	handle = open_window(first_of(version_now()), O_WRONLY);
	write_at(handle, 2, BYTES("7"));
	cr_expect_eq(closed(handle), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "8\n7\n", "it begins as what is shown");
}

EveryStore(compact, by_a_path_needs_a_version)
{
	struct stat nothing = { 0 }, after;
	struct set_attr set = { .pid = getpid(), .st = &nothing, .mask = TREE_SET_SIZE };
	struct inode *window;
	bool own;

	append("s/l.jsonl", "1\n2\n3\n");
	window = window_of("@first=2");
	cr_expect_eq(tree_set_attr(world_tree, window, &set, &after, &own), -EINVAL);
	forget(window);
	window = window_of(first_of(version_now()));
	cr_expect_eq(tree_set_attr(world_tree, window, &set, &after, &own), 0);
	cr_expect_eq(after.st_size, 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "3\n");
	set.mask = TREE_SET_MODE;
	cr_expect_eq(tree_set_attr(world_tree, window, &set, &after, &own), -EROFS);
	forget(window);
}

EveryStore(compact, is_not_for_other_questions)
{
	static const char *const questions[] = { "@last=2", "@role=user", "@first=2,bytes=100",
						 "@first=2,match=1", "@items=0-,since=1h" };

	append("s/l.jsonl", "1\n2\n3\n");
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
		cr_expect_eq(window_error(questions[i], O_RDWR), -EROFS, "%s", questions[i]);
}

EveryStore(compact, leaves_no_gap)
{
	struct handle *handle;

	append("s/l.jsonl", "1\n2\n3\n");
	handle = rewriting("@first=2", "7\n");
	cr_expect_eq(handle_write(world_tree, handle, getpid(), 3, BYTES("8\n")), -EINVAL);
	cr_expect_eq(cut(handle, 9), -EINVAL);
	cr_expect_eq(handle_sync(world_tree, handle), -EINVAL, "a write is missing");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	cr_expect_eq(cut(handle, 0), 0);
	write_at(handle, 0, BYTES("8\n"));
	cr_expect_eq(closed(handle), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "8\n3\n");
}

EveryStore(compact, keeps_what_is_no_row_between_the_items)
{
	append("s/l.jsonl", "\n1\n\n2\nbad\n3\n\n4\n");
	cr_expect_eq(rewrite("@items=1-2", "[2,3]\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "\n1\n\nbad\n[2,3]\n\n4\n");
	cr_expect_eq(rewrite("@items=1-1", ""), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "\n1\n\nbad\n\n4\n");
	cr_expect_eq(rewrite("@first=9", ""), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "\n\nbad\n\n");
	append("s/l.jsonl", "5\n");
	cr_expect_eq(rewrite("@first=9", "6\n7\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "\n\nbad\n\n6\n7\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=6 1=7");
}

EveryStore(compact, meets_the_end_without_a_newline)
{
	append("s/l.jsonl", "1\n2\n3");
	cr_expect_eq(rewrite("@first=2", "7\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n3", "behind it");
	cr_expect_eq(rewrite("@first=9", "7\n3\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n3", "nothing was changed");
	cr_expect_eq(rewrite("@first=9", "7\n3\n4\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n3\n4\n", "another line follows");
	append("s/l.jsonl", "5");
	cr_expect_eq(rewrite("@items=2-9", "6\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n3\n6\n", "it was replaced");
	append("s/l.jsonl", "5");
	cr_expect_eq(rewrite("@items=3-3", ""), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n3\n6\n", "it went");
	append("s/l.jsonl", "{\"a\":");
	cr_expect_eq(rewrite("@first=3", "9\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "9\n{\"a\":", "no row");
	append("s/l.jsonl", "1}\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=9 1={\"a\":1}");
}

EveryStore(compact, of_a_draft_is_refused)
{
	append("s/l.jsonl", "1\n2\n");
	save("s/l.jsonl", "1\n2\n{");
	cr_expect_eq(rewrite("@first=1", "9\n"), -EINVAL);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n{");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2");
}

EveryStore(compact, shows_to_nobody_else_what_is_not_published)
{
	struct handle *reader, *handle;

	append("s/l.jsonl", "1\n2\n3\n");
	reader = open_window("@first=2", O_RDONLY);
	cr_expect_eq(window_error("@first=2", O_RDWR), -ESTALE, "one that somebody reads");
	handle = rewriting("@first=2", "7\n");
	cr_expect_str_eq(read_by(handle), "7\n");
	cr_expect_str_eq(read_by(reader), "1\n2\n");
	handle_free(world_tree, reader);
	reader = open_window("@first=2", O_RDONLY);
	cr_expect_str_eq(read_by(reader), "1\n2\n");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	cr_expect_eq(closed(handle), 0);
	cr_expect_str_eq(read_by(reader), "1\n2\n", "an open window never changes");
	handle_free(world_tree, reader);
}

EveryStore(compact, that_was_looked_up_before_another_began_is_looked_up_again)
{
	struct inode *window;
	struct handle *handle, *second = NULL;

	append("s/l.jsonl", "1\n2\n3\n");
	window = window_of("@first=2");
	handle = rewriting("@first=2", "7\n");
	cr_expect_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &second), -ESTALE);
	cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &second), 0,
		     "who comes again was led there by the open file");
	cr_expect_str_eq(read_by(second), "7\n");
	handle_free(world_tree, second);
	cr_expect_eq(closed(handle), 0);
	forget(window);
}

static struct inode *look_again(const char *question)
{
	struct inode *dir = inode_at("s"), *seen = look(dir, question), *window = NULL;

	cr_assert_eq(tree_lookup_by(world_tree, seen, BYTES("l.jsonl"), getpid(), &window), 0);
	forget(seen);
	forget(dir);
	return window;
}

/* A process that maps what it writes asks for pages, also of what it has emptied. */
EveryStore(compact, shows_its_writer_pages_of_what_was_written)
{
	_cleanup_(buf_done) struct buf page = { 0 };
	struct handle *handle;

	append("s/l.jsonl", "1\n2\n3\n");
	handle = open_window(first_of(version_now()), O_RDWR | O_TRUNC);
	cr_expect_eq(handle_fill(world_tree, handle, 0, 4096, &page), 0);
	cr_expect_eq(page.size, 0);
	write_at(handle, 0, BYTES("[12]\n"));
	cr_expect_eq(handle_fill(world_tree, handle, 0, 4096, &page), 0);
	cr_expect(bytes_equal(buf_bytes(&page), BYTES("[12]\n")));
	cr_expect_eq(closed(handle), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[12]\n3\n");
}

/* The kernel asks for a name again only once. */
EveryStore(compact, comes_to_its_window_however_many_read_the_same)
{
	struct handle *reader, *other, *handle = NULL;
	struct inode *window;

	append("s/l.jsonl", "1\n2\n3\n");
	for (int i = 0; i < 3; i++) {
		reader = open_window("@first=2", O_RDONLY);
		cr_expect_eq(window_error("@first=2", O_RDWR), -ESTALE, "one that somebody reads");
		window = look_again("@first=2");
		other = open_window("@first=2", O_RDONLY);
		cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDWR, getpid(), &handle), 0);
		read_by(handle);
		write_at(handle, 0, BYTES("[12]\n"));
		cr_expect_eq(stat_of_inode(handle_opened(other)).st_size, 4);
		cr_expect_str_eq(read_by(other), "1\n2\n");
		saving_abandon(handle->through);
		cr_expect_eq(closed(handle), 0);
		handle_free(world_tree, other);
		handle_free(world_tree, reader);
		forget(window);
	}
	window = look_again("@first=2");
	cr_expect_eq(window, window_of("@first=2"), "who was not told so shares it");
	forget(window);
	forget(window);
}

static struct handle *begin_in(struct inode *window, const char *text)
{
	struct handle *handle = NULL;

	cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDWR, getpid(), &handle), 0);
	read_by(handle);
	cr_assert_eq(cut(handle, 0), 0);
	write_at(handle, 0, bytes_str(text));
	return handle;
}

/* Whichever window he comes to, and however often: he is led to one that nobody else finds. */
EveryStore(compact, is_not_joined_by_who_was_to_look_another_name_up_again)
{
	struct inode *one, *two, *found;
	struct handle *in_one, *in_two, *other = NULL;

	append("s/l.jsonl", "1\n2\n3\n");
	one = window_of("@first=1");
	two = window_of("@first=2");
	in_one = begin_in(one, "7\n");
	in_two = begin_in(two, "8\n");
	cr_expect_eq(tree_open_file(world_tree, one, 0, O_RDONLY, getpid(), &other), -ESTALE);
	cr_expect_eq(tree_open_file(world_tree, two, 0, O_RDONLY, getpid(), &other), -ESTALE);
	found = look_again("@first=2");
	cr_expect_neq(found, two);
	cr_assert_eq(tree_open_file(world_tree, found, 0, O_RDONLY, getpid(), &other), 0);
	cr_expect_str_eq(read_by(other), "1\n2\n", "a reader sees what it showed");
	handle_free(world_tree, other);
	forget(found);
	cr_expect_eq(tree_open_file(world_tree, one, 0, O_RDWR, getpid(), &other), -ESTALE);
	cr_expect_eq(tree_open_file(world_tree, two, 0, O_RDWR, getpid(), &other), -ESTALE);
	cr_expect_eq(closed(in_one), 0);
	cr_expect_eq(closed(in_two), -ESTALE);
	cr_expect_str_eq(content_of("s/l.jsonl"), "7\n2\n3\n");
	forget(two);
	forget(one);
}

EveryStore(compact, beside_other_writers_of_the_list)
{
	struct handle *appender, *saver, *reader, *stream;

	append("s/l.jsonl", "1\n2\n3\n");
	appender = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	append_to(appender, "{\"half\":");
	reader = open_at("s/l.jsonl", O_RDONLY);
	cr_expect_eq(rewrite("@first=2", "[1,2]\n"), 0);
	append_to(appender, "4}\n");
	close_handle(appender);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2]\n3\n{\"half\":4}\n");
	cr_expect_str_eq(read_by(reader), "1\n2\n3\n", "one that was open before it");
	close_handle(reader);

	saver = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	append_to(saver, "9\n");
	cr_expect_eq(rewrite("@first=1", "5\n"), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "5\n3\n{\"half\":4}\n");
	close_handle(saver);
	cr_expect_str_eq(content_of("s/l.jsonl"), "9\n", "the last close wins, entire");

	stream = open_at("s/n.jsonl", O_WRONLY | O_CREAT);
	write_at(stream, 0, BYTES("1\n2\n3\n"));
	cr_expect_eq(renamed("s/n.jsonl", "s/l.jsonl", 0), 0);
	cr_expect_eq(rewrite("@first=3", "[1,2,3,4]\n"), 0);
	write_at(stream, 6, BYTES("5\n"));
	close_handle(stream);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1,2,3,4]\n5\n",
			 "one that goes on from its start");
}

static const int errors[] = { -ENOSPC, -EIO, -ENOMEM };

static char *version_of_list(void)
{
	struct inode *inode = inode_at("s/l.jsonl");
	struct buf version = { 0 };

	cr_assert_eq(tree_get_xattr(world_tree, inode, BYTES("user.sessfs.version"), &version), 0);
	cr_assert_eq(buf_append_byte(&version, '\0'), 0);
	forget(inode);
	return version.data;
}

/* Whether the count-th call was made at all, which has failed then. */
static bool fail_to_publish(uint64_t count, int error, bool closes)
{
	_cleanup_(freep) char *before = NULL, *after = NULL;
	struct handle *handle;
	bool struck, done;
	int r;

	save("s/l.jsonl", "1\n2\nbad\n3\n4\n");
	before = version_of_list();
	handle = rewriting("@items=1-2", "[2,3]\n");
	fault_backend_set_mine(world_store, count, error);
	r = closes ? handle_flush(world_tree, handle, getpid()) : handle_sync(world_tree, handle);
	struck = fault_backend_calls(world_store) >= count;
	fault_backend_set(world_store, 0, 0, false);
	cr_expect_eq(r, struck ? error : 0, "call %llu: %s", (unsigned long long)count,
		     strerror(-r));
	cr_expect_str_eq(read_by(handle), "[2,3]\n", "its writer sees what he has written");
	if (closes || !struck)
		handle_free(world_tree, handle);
	after = version_of_list();
	done = strcmp(before, after) != 0;
	/* It may be published and not be on the medium. */
	cr_expect(done == !struck || (done && !closes), "call %llu", (unsigned long long)count);
	cr_expect_str_eq(rows_of("s", "l"), done ? "0=1 1=[2,3] 2=4" : "0=1 1=2 2=3 3=4");
	cr_expect_str_eq(content_of("s/l.jsonl"),
			 done ? "1\nbad\n[2,3]\n4\n" : "1\n2\nbad\n3\n4\n");
	if (struck && !closes) {
		append("s/l.jsonl", "5\n");
		cr_expect_eq(closed(handle), 0, "it was made again");
		cr_expect_str_eq(content_of("s/l.jsonl"), "1\nbad\n[2,3]\n4\n5\n");
	}
	return struck;
}

/* Who closes and is told that it failed is not to be surprised by a later success. */
Test(compact, that_fails_changes_nothing_and_says_so)
{
	enum { ENOUGH = 100 };
	uint64_t count;

	world_wrap(fault_backend_open);
	for (int kind = 0; kind <= WORLD_SQLITE; kind++) {
		world_open(kind);
		make_dir("s");
		for (size_t i = 0; i < 2 * ARRAY_SIZE(errors); i++) {
			count = 1;
			while (fail_to_publish(count, errors[i / 2], i % 2) && count < ENOUGH)
				count++;
			cr_expect(count > 3 && count < ENOUGH, "%llu calls",
				  (unsigned long long)count);
			world_check();
		}
		world_close();
	}
}

/* ---- a commit that fails ---- */

static struct {
	struct backend_ops ops;
	const struct backend_ops *real;
	int error;
	unsigned commits; /* that are to fail */
	unsigned blocks;  /* that come before that */
} failing;

/* The tree's own threads commit, too. */
static _Thread_local bool is_compactor;

static struct {
	struct backend_batch *of;
	unsigned left;
} begun;

static int more_and_fail(struct backend_batch *batch)
{
	int r = begun.left ? begun.of->more(begun.of) : failing.error;

	begun.left -= begun.left > 0;
	batch->ops = begun.of->ops;
	batch->count = begun.of->count;
	cr_assert_neq(r, 0, "it has as many blocks");
	return r;
}

static void begin_again(struct backend_batch *batch)
{
	begun.left = failing.blocks;
	begun.of->rewind(begun.of);
	batch->ops = begun.of->ops;
	batch->count = begun.of->count;
}

static int failing_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct backend_batch part = *batch;

	if (!is_compactor || !failing.commits)
		return failing.real->commit(backend, batch, flags);
	failing.commits--;
	if (!batch->more)
		return failing.error;
	begun.of = batch;
	begun.left = failing.blocks;
	part.more = more_and_fail;
	part.rewind = begin_again;
	return failing.real->commit(backend, &part, flags);
}

static int failing_open(struct backend *inner, struct backend **ret_backend)
{
	*ret_backend = inner;
	if (inner->ops == &failing.ops)
		return 0;
	failing.real = inner->ops;
	failing.ops = *inner->ops;
	failing.ops.commit = failing_commit;
	inner->ops = &failing.ops;
	return 0;
}

enum { BLOCKS = 8, MANY = 1000 + BLOCKS * 256 };

/* So many lines that some of them come in blocks. */
static const char *many_lines(void)
{
	static char lines[MANY * 8];
	char *at = lines;

	for (int i = 0; i < MANY; i++)
		at += sprintf(at, "%d\n", i);
	return lines;
}

static struct handle *compactor_of(const char *question, const char *text)
{
	char path[128];
	struct handle *handle;

	if (!strstr(question, "if="))
		return rewriting(question, text);
	snprintf(path, sizeof(path), "%s%s", question, version_now());
	handle = open_window(path, O_WRONLY | O_TRUNC);
	write_at(handle, 0, bytes_str(text));
	return handle;
}

/* r is what it says when it is closed; then it is made by another one. */
static void commit_fails(const char *question, const char *text, int error, unsigned commits, int r)
{
	_cleanup_(freep) char *made = NULL;
	const char *version, *before = "1\n2\nbad\n3\n4\n";
	struct handle *handle, *reader;

	save("s/l.jsonl", before);
	version = version_now();
	reader = open_at("s/l.jsonl", O_RDONLY);
	handle = compactor_of(question, text);
	failing.error = error;
	failing.commits = commits;
	cr_expect_eq(handle_flush(world_tree, handle, getpid()), r);
	failing.commits = 0;
	handle_free(world_tree, handle);
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3 3=4");
	cr_expect_str_eq(content_of("s/l.jsonl"), before);
	cr_expect_str_eq(read_by(reader), before);
	cr_expect_str_eq(content_of("s/@items=1-2/l.jsonl"), "2\n3\n");
	cr_expect_str_eq(version_now(), version);
	close_handle(reader);
	append("s/l.jsonl", "5\n");
	cr_expect_eq(closed(compactor_of(question, text)), 0, "another one");
	cr_assert_gt(asprintf(&made, "1\nbad\n%s4\n5\n", text), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), made);
	world_check();
}

static void commit_comes_later(const char *question, const char *text, unsigned commits)
{
	_cleanup_(freep) char *made = NULL;
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n3\n4\n");
	handle = compactor_of(question, text);
	failing.error = -ESTALE;
	failing.commits = commits;
	cr_expect_eq(closed(handle), 0);
	cr_expect_eq(failing.commits, 0);
	cr_assert_gt(asprintf(&made, "1\n%s4\n", text), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), made);
	world_check();
}

/* Before it, and in the middle of the last of its blocks, too. */
Test(compact, whose_commit_fails_has_changed_nothing)
{
	static const char *const questions[] = { "@items=1-2", "@items=1-2,if=" };
	const char *const texts[] = { "[2,3]\n", "", many_lines() };

	is_compactor = true;
	world_wrap(failing_open);
	for (int kind = 0; kind <= WORLD_SQLITE; kind++) {
		world_open(kind);
		make_dir("s");
		for (size_t i = 0; i < ARRAY_SIZE(questions) * ARRAY_SIZE(texts); i++) {
			const char *question = questions[i % 2], *text = texts[i / 2];

			failing.blocks = BLOCKS - 1;
			commit_fails(question, text, -ENOSPC, 1, -ENOSPC);
			commit_fails(question, text, -EIO, 1, -EIO);
			if (i == 0) /* it takes a second */
				commit_fails(question, text, -ESTALE, 1000, -EBUSY);
			commit_comes_later(question, text, 1);
			commit_comes_later(question, text, 5);
		}
		world_close();
	}
}

static const char *times(void)
{
	return sql_asks("SELECT group_concat(substr(created_at, 1, 10) || ' ' || "
			"substr(updated_at, 1, 10) || ' ' || state_data, ', ') FROM (SELECT * FROM "
			"agentscope_sessions WHERE state_key = 'l' ORDER BY item_index)");
}

static void set_times(void)
{
	sql_runs("UPDATE agentscope_sessions SET created_at = '2020-01-0' || (item_index + 1), "
		 "updated_at = '2021-01-0' || (item_index + 1)");
}

SqliteStore(compact, leaves_the_times_of_what_stays)
{
	append("s/l.jsonl", "1\n2\n3\n4\n5\n");
	set_times();
	cr_expect_eq(rewrite("@items=0-3", "1\n[2,3]\n4\n"), 0);
	cr_expect(strstr(times(), "2020-01-01 2021-01-01 1, 2020-01-02 "), "%s", times());
	cr_expect(strstr(times(), " [2,3], 2020-01-04 2021-01-04 4, 2020-01-05 2021-01-05 5"), "%s",
		  times());
}

SqliteStore(compact, beside_another_program)
{
	struct handle *handle;

	append("s/l.jsonl", "1\n2\n3\n");
	handle = rewriting("@first=2", "[1,2]\n");
	sql_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "VALUES ('s', 'l', 3, '4')");
	cr_expect_eq(closed(handle), 0, "it has added a row");
	cr_expect_str_eq(rows_of("s", "l"), "0=[1,2] 1=3 2=4");
	handle = rewriting("@first=1", "7\n");
	sql_runs("UPDATE agentscope_sessions SET state_data = '5' WHERE item_index = 2");
	cr_expect_eq(closed(handle), -ESTALE, "it has changed one");
	cr_expect_str_eq(rows_of("s", "l"), "0=[1,2] 1=3 2=5");
	handle = rewriting("@first=1", "7\n");
	sql_runs("DELETE FROM agentscope_sessions WHERE item_index = 1");
	cr_expect_eq(closed(handle), -ESTALE, "it has deleted one");
}

SqliteStore(compact, of_rows_below_the_first_number)
{
	sql_adds("-5", "1");
	sql_adds("-1", "2");
	sql_adds("3", "3");
	cr_expect_eq(rewrite("@first=0", "0\n"), 0);
	cr_expect_str_eq(rows_of("s", "l"), "-5=0 -4=1 0=2 4=3");
	cr_expect_eq(rewrite("@first=2", "[0]\n[1]\n[5]\n"), 0);
	cr_expect_str_eq(rows_of("s", "l"), "-5=[0] -4=[1] -3=[5] 1=2 5=3");
	cr_expect_eq(rewrite("@items=0-", "[2]\n[3]\n4\n"), 0);
	cr_expect_str_eq(rows_of("s", "l"), "-5=[0] -4=[1] -3=[5] 1=[2] 2=[3] 3=4");
	cr_expect_eq(rewrite("@first=99", "1\n"), 0);
	cr_expect_str_eq(rows_of("s", "l"), "-5=1");
	append("s/l.jsonl", "2\n");
	cr_expect_str_eq(rows_of("s", "l"), "-5=1 0=2");
	save("s/l.jsonl", "");
}

/* Where no number is left, none is made up. */
SqliteStore(compact, at_both_ends_of_the_numbers_is_refused)
{
	static const char *const rows = "0=1 1=2 9223372036854775807=3";
	static const char *const questions[] = { "@first=0", "@first=1", "@first=9",
						 "@items=9223372036854775807-", "@items=1-" };

	append("s/l.jsonl", "1\n2\n");
	sql_adds("9223372036854775807", "3");
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		cr_expect_eq(rewrite(questions[i], "4\n5\n6\n7\n"), -EFBIG, "%s", questions[i]);
		cr_expect_eq(rewrite(questions[i], ""), -EFBIG, "%s", questions[i]);
	}
	cr_expect_str_eq(rows_of("s", "l"), rows);
	sql_runs("DELETE FROM agentscope_sessions WHERE item_index > 1");
	sql_adds("(-9223372036854775807 - 1)", "0");
	cr_expect_eq(rewrite("@first=0", "9\n"), -EFBIG);
	cr_expect_eq(rewrite("@first=2", "9\n"), -EFBIG);
	cr_expect_eq(rewrite("@items=0-0", "9\n"), 0);
	cr_expect_str_eq(rows_of("s", "l"), "-9223372036854775808=0 0=9 1=2");
	save("s/l.jsonl", "");
}

/* Against a list of lines in memory. */

struct model_line {
	bool row;
	char text[32]; /* the start of it */
	size_t size;   /* with the newline; what is missing are blanks in front of that */
};

enum { MODEL_MOST = 4000 };

static struct model {
	struct model_line line[MODEL_MOST];
	size_t count;
	unsigned next;
} model;

static void show_line(struct buf *out, const struct model_line *line)
{
	size_t size = strlen(line->text);

	cr_assert_eq(buf_append(out, line->text, size), 0);
	while (size++ < line->size - 1)
		cr_assert_eq(buf_append_byte(out, ' '), 0);
	cr_assert_eq(buf_append_byte(out, '\n'), 0);
}

static struct model_line new_line(uint64_t *random, bool row)
{
	static const size_t sizes[4] = { 20, 300, 3000, 20000 };
	struct model_line line = { .row = row };

	if (row)
		snprintf(line.text, sizeof(line.text), "[%u]", model.next++);
	else
		snprintf(line.text, sizeof(line.text), "{%u", model.next++);
	line.size = 12 + random_below(random, row ? sizes[random_below(random, 4)] : 20);
	return line;
}

static void model_append(uint64_t *random, size_t count)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < count && model.count < MODEL_MOST; i++) {
		struct model_line line = new_line(random, random_below(random, 8) != 0);

		model.line[model.count++] = line;
		show_line(&text, &line);
	}
	cr_assert_eq(buf_append_byte(&text, '\0'), 0);
	append("s/l.jsonl", text.data);
	buf_done(&text);
}

static size_t model_rows(void)
{
	size_t rows = 0;

	for (size_t i = 0; i < model.count; i++)
		rows += model.line[i].row;
	return rows;
}

/* Where a row stands. */
static size_t model_place(size_t row)
{
	size_t i = 0;

	for (; i < model.count; i++)
		if (model.line[i].row && row-- == 0)
			break;
	return i;
}

/* Rows first to last - 1 become these lines. */
static void model_replace(size_t first, size_t last, const struct model_line *lines, size_t count)
{
	static struct model_line after[MODEL_MOST];
	size_t from, to, total = 0;

	while (first < last && count &&
	       strcmp(model.line[model_place(first)].text, lines->text) == 0)
		first++, lines++, count--;
	while (first < last && count &&
	       strcmp(model.line[model_place(last - 1)].text, lines[count - 1].text) == 0)
		last--, count--;
	from = first < last ? model_place(first) : first ? model_place(first - 1) + 1 : 0;
	to = first < last ? model_place(last - 1) + 1 : from;
	for (size_t i = 0; i < from; i++)
		after[total++] = model.line[i];
	for (size_t i = from; i < to; i++)
		if (!model.line[i].row)
			after[total++] = model.line[i];
	for (size_t i = 0; i < count; i++)
		after[total++] = lines[i];
	for (size_t i = to; i < model.count; i++)
		after[total++] = model.line[i];
	memcpy(model.line, after, total * sizeof(*after));
	model.count = total;
}

static void play_compaction(uint64_t *random)
{
	static struct model_line lines[MODEL_MOST];
	size_t rows = model_rows(), first = random_below(random, rows + 1), last = first, count = 0;
	struct buf text = { 0 };
	char question[64];

	if (random_below(random, 3) == 0)
		first = 0;
	last = first + random_below(random, random_below(random, 4) ? 6 : 400);
	last = last > rows ? rows : last;
	for (size_t i = first; i < last; i++)
		switch (random_below(random, 6)) {
		case 0:
			break;
		case 1:
			lines[count++] = new_line(random, true);
			break;
		default:
			lines[count++] = model.line[model_place(i)];
		}
	for (size_t i = random_below(random, 5) ? 0 : random_below(random, 40); i; i--)
		lines[count++] = new_line(random, true);
	for (size_t i = 0; i < count; i++)
		show_line(&text, &lines[i]);
	cr_assert_eq(buf_append_byte(&text, '\0'), 0);
	if (first)
		snprintf(question, sizeof(question), "@items=%zu-%zu", first,
			 last > first ? last - 1 : first);
	else
		snprintf(question, sizeof(question), "@first=%zu", last);
	/* One that shows what is there at least. */
	if (first && last == first && first < rows)
		last++;
	cr_assert_eq(rewrite(question, text.data), 0, "%s", question);
	model_replace(first, last, lines, count);
	buf_done(&text);
}

static void expect_model(void)
{
	struct buf expected = { 0 };
	struct bytes got = bytes_of("s/l.jsonl");

	for (size_t i = 0; i < model.count; i++)
		show_line(&expected, &model.line[i]);
	cr_assert(bytes_equal(got, buf_bytes(&expected)), "%zu bytes and not %zu", got.size,
		  expected.size);
	buf_done(&expected);
}

/* No read walks further than from one mark to the next. */
static void expect_marks(void)
{
	struct backend_snapshot *snapshot;
	struct inode *inode = inode_at("s/l.jsonl");
	uint64_t end = (uint64_t)stat_of_inode(inode).st_size, at = end;
	struct backend_mark mark;

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	while (world_store->ops->mark_find(world_store, snapshot, inode_number(inode), at, &mark) ==
		       0 &&
	       mark.offset) {
		cr_expect_leq(end - mark.offset, (65536 + 2 * 20012), "before %llu",
			      (unsigned long long)end);
		end = mark.offset;
		at = end - 1;
	}
	cr_expect_leq(end, (65536 + 2 * 20012), "at the front");
	world_store->ops->snapshot_end(world_store, snapshot);
	forget(inode);
}

EveryStore(compact, at_random_does_what_a_model_does)
{
	uint64_t random = random_seed("compact");
	unsigned long count = rounds("SESSFS_COMPACTIONS", 25, 120);

	for (unsigned long i = 0; i < count; i++) {
		if (model.count < 300 || random_below(&random, 4) == 0)
			model_append(&random, 1 + random_below(&random, 60));
		play_compaction(&random);
		expect_model();
		if (i % 20 == 19) {
			expect_marks();
			world_check();
		}
	}
	world_reopen();
	expect_model();
}
