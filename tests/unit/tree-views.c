/* SPDX-License-Identifier: MIT */

/* Windows in memory: which are shared, and how many live; the rest is in tests/mount. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/names.h"
#include "fs/inode/inodes.h"
#include "fs/views/windows.h"
#include "tests/unit/random.h"
#include "tests/unit/until.h"
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

EveryStore(views, of_a_list_are_one_window_until_it_changes)
{
	struct inode *before, *same, *grown, *replaced;

	append("s/l.jsonl", "1\n2\n");
	before = window_of("@last=1");
	same = window_of("@last=1");
	cr_expect_eq(same, before);
	append("s/l.jsonl", "3\n");
	grown = window_of("@last=1");
	cr_expect_neq(grown, before);
	save("s/l.jsonl", "1\n2\n4\n");
	replaced = window_of("@last=1");
	cr_expect_neq(replaced, grown);
	cr_expect_neq(inode_number(replaced), inode_number(grown));
	forget(replaced);
	forget(grown);
	forget(same);
	forget(before);
}

EveryStore(views, with_ages_are_one_window_while_they_show_the_same)
{
	struct inode *one, *same, *other;

	append("s/l.jsonl", "1\n");
	one = window_of("@before=5s");
	same = window_of("@before=5s");
	cr_expect_eq(one, same);
	cr_expect_eq(stat_of_inode(one).st_size, 0);
	UNTIL((other = window_of("@before=5s")) != one || (forget(other), false));
	cr_expect_neq(one, other);
	cr_expect_eq(stat_of_inode(one).st_size, 0);
	cr_expect_eq(stat_of_inode(other).st_size, 2);
	forget(other);
	forget(same);
	forget(one);
}

EveryStore(views, that_were_looked_up_can_be_opened_when_the_list_is_another)
{
	struct handle *handle = NULL;
	struct inode *window;

	append("s/l.jsonl", "1\n2\n");
	window = window_of("@last=1");
	save("s/l.jsonl", "3\n");
	cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), 0);
	cr_expect_str_eq(read_by(handle), "2\n");
	handle_free(world_tree, handle);
	forget(window);
}

EveryStore(views, that_are_large_are_looked_up_again_when_the_list_is_another)
{
	_cleanup_(freep) char *text = malloc(40001);
	struct handle *handle = NULL;
	struct inode *window;

	memset(text, '1', 40000);
	text[39999] = '\n';
	text[40000] = '\0';
	append("s/l.jsonl", text);
	window = window_of("@last=1");
	save("s/l.jsonl", "3\n");
	cr_expect_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), -ESTALE);
	forget(window);
}

EveryStore(views, of_an_item_are_one_window_until_the_list_is_another)
{
	struct inode *dir = inode_at("s"), *seen = look(dir, "@as=items,since=1h");
	struct inode *items, *same, *before, *grown, *replaced;

	append("s/l.jsonl", "1\n2\n");
	items = look(seen, "l");
	same = look(seen, "l.jsonl");
	cr_expect_eq(same, items);
	before = look(items, "1.json");
	append("s/l.jsonl", "3\n");
	grown = look(items, "1.json");
	cr_expect_eq(grown, before);
	save("s/l.jsonl", "1\n4\n");
	replaced = look(items, "1.json");
	cr_expect_neq(replaced, before);
	forget(replaced);
	forget(grown);
	forget(before);
	forget(same);
	forget(items);
	forget(seen);
	forget(dir);
}

EveryStore(views, of_items_choose_again_when_nobody_has_known_the_list_meanwhile)
{
	struct inode *dir = inode_at("s"), *seen = look(dir, "@.a=1,last=1,as=items"), *items,
		     *none;

	append("s/l.jsonl", "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 2}\n");
	items = look(seen, "l");
	world_settle();
	forget(look(items, "0.json"));
	world_settle();
	save("s/l.jsonl", "{\"a\": 1}\n{\"a\": 1}\n{\"a\": 2}\n");
	world_settle();
	cr_expect_eq(tree_lookup(world_tree, items, BYTES("0.json"), &none), -ENOENT);
	forget(look(items, "1.json"));
	append("s/l.jsonl", "{\"a\": 1}\n");
	cr_expect_eq(tree_lookup(world_tree, items, BYTES("1.json"), &none), -ENOENT);
	forget(look(items, "3.json"));
	forget(items);
	forget(seen);
	forget(dir);
}

EveryStore(views, of_items_choose_again_when_the_list_is_another)
{
	struct inode *dir = inode_at("s"), *seen = look(dir, "@last=1,as=items"), *items, *none;

	append("s/l.jsonl", "1\n2\n");
	items = look(seen, "l");
	forget(look(items, "1.json"));
	cr_expect_eq(tree_lookup(world_tree, items, BYTES("0.json"), &none), -ENOENT);
	save("s/l.jsonl", "3\n");
	forget(look(items, "0.json"));
	world_settle();
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	world_settle();
	append("s/l.jsonl", "1\n2\n");
	forget(look(items, "1.json"));
	cr_expect_eq(tree_lookup(world_tree, items, BYTES("0.json"), &none), -ENOENT);
	forget(items);
	forget(seen);
	forget(dir);
}

/* ---- Documents as a list ---- */

/* Places and lines, as "0=... 1=..." */
static int note_line(void *arg, int64_t place, struct backend_times times, struct bytes data)
{
	(void)times;
	return buf_printf(arg, "%lld=%.*s ", (long long)place, (int)data.size, data.data);
}

/* What documents of a directory look like from a place on. */
static void look_at(struct inode *dir, const struct question *question, size_t block, int64_t start,
		    bool back, struct buf *seen)
{
	_cleanup_(window_view_end) struct window_view view = { .question = question };

	cr_assert_eq(window_view_begin(world_tree, dir, &view), 0);
	cr_assert_eq(documents_begin(&view, block), 0);
	cr_assert_eq(documents_look(&view, start < 0 ? view.rows.end - 1 : start, back, note_line,
				    seen),
		     0);
}

EveryStore(views, of_documents_are_in_the_order_of_their_numbers_block_by_block)
{
	static const int numbers[] = { 12, 3, 3, 100, 0, 7, 7, 7, 1, 55, 99, 2, 8, 4, 6, 5, 9 };
	uint64_t random = random_seed("places");
	struct question *questions[2];
	struct buf reason = { 0 };
	struct inode *dir;
	char order[ARRAY_SIZE(numbers)][64];
	int64_t count = 0;

	make_dir("s/m");
	for (int number = 0; number <= 100; number++)
		for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
			if (numbers[i] == number)
				snprintf(order[count++], sizeof(order[0]), "{\"n\":%d,\"i\":%zu}",
					 number, i);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		char path[64], text[64];

		snprintf(path, sizeof(path), "s/m/%s%zu_%0*d.json", i % 2 ? "a" : "b", i,
			 (int)(i % 3), numbers[i]);
		snprintf(text, sizeof(text), "{ \"n\": %d,\n\"i\": %zu }\n", numbers[i], i);
		save(path, text);
	}
	dir = inode_at("s/m");
	cr_assert_eq(question_parse(BYTES("@as=list.jsonl"), &questions[0], &reason), 0);
	cr_assert_eq(question_parse(BYTES("@as=list,last=9.jsonl"), &questions[1], &reason), 0);
	for (int i = 0; i < 300; i++) {
		_cleanup_(buf_done) struct buf seen = { 0 }, expected = { 0 };
		size_t block = 1 + random_below(&random, ARRAY_SIZE(numbers) + 2);
		int64_t start = (int64_t)random_below(&random, (uint64_t)count);
		bool back = random_below(&random, 2);

		cr_assert_eq(buf_printf(&seen, "%s", ""), 0);
		look_at(dir, questions[random_below(&random, 2)], block, start, back, &seen);
		for (int64_t at = start; at >= 0 && at < count; at += back ? -1 : 1)
			cr_assert_eq(buf_printf(&expected, "%lld=%s ", (long long)at, order[at]),
				     0);
		cr_assert_str_eq(seen.data, expected.data, "block %zu, %s from %lld: %s", block,
				 back ? "back" : "on", (long long)start, seen.data);
	}
	question_free(questions[0]);
	question_free(questions[1]);
	forget(dir);
}

EveryStore(views, of_the_same_documents_are_one_window)
{
	struct inode *dir, *before, *same, *other;
	struct handle *handle = NULL;

	make_dir("s/m");
	save("s/m/2.json", "[ 2 ]");
	save("s/m/1.json", "1\n");
	dir = inode_at("s/m");
	before = look(dir, "@as=list,since=1h.jsonl");
	save("s/other.json", "1");
	save("s/m/x.json", "1");
	save("s/m/2.json", "[2]");
	same = look(dir, "@as=list,since=1h.jsonl");
	cr_expect_eq(same, before);
	save("s/m/2.json", "[3]");
	other = look(dir, "@as=list,since=1h.jsonl");
	cr_expect_neq(other, before);
	cr_assert_eq(tree_open_file(world_tree, before, 0, O_RDONLY, getpid(), &handle), 0);
	cr_expect_str_eq(read_by(handle), "1\n[2]\n");
	handle_free(world_tree, handle);
	cr_expect_eq(stat_of_inode(other).st_size, 6);
	cr_expect(S_ISREG(stat_of_inode(other).st_mode));
	cr_expect_eq(unlinked("s/m/@as=list.jsonl"), -EROFS);
	cr_expect_eq(renamed("s/m/@as=list.jsonl", "s/m/y.json", 0), -EROFS);
	cr_expect_eq(removed_dir("s/@last=1"), -EROFS);
	forget(other);
	forget(same);
	forget(before);
	forget(dir);
}

/* No word tells what they were, so none says that they are still that. */
EveryStore(views, of_documents_have_no_version)
{
	_cleanup_(buf_done) struct buf word = { 0 };
	struct inode *dir, *window;

	make_dir("s/m");
	save("s/m/1.json", "1\n");
	dir = inode_at("s/m");
	window = look(dir, "@as=list.jsonl");
	cr_expect_eq(tree_get_xattr(world_tree, window, BYTES("user.sessfs.version"), &word),
		     -ENODATA);
	cr_expect_eq(looked_up("s/m/@as=list,if=1.jsonl"), -ENOENT);
	forget(window);
	forget(dir);
}

EveryStore(views, of_many_documents_that_have_changed_are_looked_up_again)
{
	_cleanup_(freep) char *text = malloc(40003);
	struct handle *handle = NULL;
	struct inode *dir, *window;

	memset(text, '1', 40000);
	memcpy(text + 40000, " \n", 3);
	make_dir("s/m");
	save("s/m/1.json", text);
	dir = inode_at("s/m");
	window = look(dir, "@as=list.jsonl");
	cr_expect_eq(stat_of_inode(window).st_size, 40001);
	cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), 0);
	cr_expect_eq(strlen(read_by(handle)), 40001);
	handle_free(world_tree, handle);
	text[0] = '2';
	save("s/m/1.json", text);
	cr_expect_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), -ESTALE);
	forget(window);
	forget(dir);
}

EveryStore(views, of_many_documents_that_are_looked_up_again_can_be_opened_meanwhile)
{
	_cleanup_(freep) char *text = malloc(40002);
	struct handle *handle = NULL;
	struct inode *dir, *window;

	memset(text, '1', 40000);
	memcpy(text + 40000, "\n", 2);
	make_dir("s/m");
	save("s/m/1.json", text);
	dir = inode_at("s/m");
	window = look(dir, "@as=list.jsonl");
	documents_drop(world_tree);
	cr_expect_eq(look(dir, "@as=list.jsonl"), window);
	save("s/m/1.json", "2\n");
	cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), 0);
	cr_expect_str_eq(read_by(handle), text);
	handle_free(world_tree, handle);
	forget(window);
	forget(window);
	forget(dir);
}

EveryStore(views, with_ages_that_are_looked_up_again_can_be_opened_meanwhile)
{
	_cleanup_(freep) char *text = malloc(40002);
	struct handle *handle = NULL;
	struct inode *window;

	memset(text, '1', 40000);
	memcpy(text + 40000, "\n", 2);
	append("s/l.jsonl", text);
	window = window_of("@since=1h");
	documents_drop(world_tree);
	cr_expect_eq(window_of("@since=1h"), window);
	save("s/l.jsonl", "2\n");
	cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), 0);
	cr_expect_str_eq(read_by(handle), text);
	handle_free(world_tree, handle);
	forget(window);
	forget(window);
}

/* ---- Who waits for them ---- */

static bool give_up(void *arg)
{
	++*(int *)arg;
	return true;
}

static int list_nothing(void *arg, struct bytes name, struct inode *inode,
			const struct shown *shown, uint64_t position)
{
	(void)arg;
	(void)name;
	(void)inode;
	(void)shown;
	(void)position;
	return 0;
}

/* Nobody waits for a name, once so much of it has been looked at; and then somebody does. */
static void expect_given_up(struct inode *dir, const char *name)
{
	struct inode *inode = NULL;
	int asked = 0;

	tree_give_up_when(give_up, &asked);
	cr_expect_eq(tree_lookup(world_tree, dir, bytes_str(name), &inode), -EINTR, "%s", name);
	cr_expect_eq(asked, 1, "%s: %d", name, asked);
	tree_give_up_when(NULL, NULL);
	forget(look(dir, name));
}

static void append_many_lines(void)
{
	_cleanup_(buf_done) struct buf lines = { 0 };

	for (int i = 0; i < 40000; i++)
		cr_assert_eq(buf_append_str(&lines, "\"abcde\"\n"), 0);
	cr_assert_eq(buf_append_byte(&lines, '\0'), 0);
	append("s/l.jsonl", lines.data);
}

EveryStore(views, of_lists_are_given_up_when_nobody_waits)
{
	static const char *const questions[] = {
		"@role=user",
		"@bytes=400000",
		"@match=x,last=1",
		"@since=1h",
		"@match=x,first=1,bytes=9",
	};
	struct inode *dir = inode_at("s"), *seen;
	struct handle *handle = NULL;
	int asked = 0;

	append_many_lines();
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		seen = look(dir, questions[i]);
		expect_given_up(seen, "l.jsonl");
		forget(seen);
	}
	seen = window_of("@items=1-");
	documents_drop(world_tree);
	tree_give_up_when(give_up, &asked);
	cr_expect_eq(tree_open_file(world_tree, seen, 0, O_RDONLY, getpid(), &handle), -EINTR);
	tree_give_up_when(NULL, NULL);
	cr_expect_eq(asked, 1);
	cr_assert_eq(tree_open_file(world_tree, seen, 0, O_RDONLY, getpid(), &handle), 0);
	handle_free(world_tree, handle);
	forget(seen);
	forget(dir);
}

EveryStore(views, of_items_are_given_up_when_nobody_waits)
{
	struct inode *dir = inode_at("s"), *seen, *items;
	int asked = 0;

	append_many_lines();
	seen = look(dir, "@match=x,as=items");
	items = look(seen, "l");
	tree_give_up_when(give_up, &asked);
	cr_expect_eq(tree_list(world_tree, items, 0, UINT64_MAX, false, list_nothing, NULL),
		     -EINTR);
	cr_expect_eq(asked, 1);
	tree_give_up_when(NULL, NULL);
	cr_expect_eq(tree_list(world_tree, items, 0, UINT64_MAX, false, list_nothing, NULL), 0);
	forget(items);
	forget(seen);
	seen = look(dir, "@bytes=400000,as=items");
	items = look(seen, "l");
	expect_given_up(items, "39999.json");
	forget(items);
	forget(seen);
	forget(dir);
}

EveryStore(views, of_documents_are_given_up_when_nobody_waits)
{
	static const char *const names[] = { "@as=list.jsonl", "@as=list,match=x,last=1.jsonl" };
	struct inode *dir;
	char path[32];

	make_dir("s/m");
	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "s/m/%d.json", i);
		save(path, "1");
	}
	dir = inode_at("s/m");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_given_up(dir, names[i]);
	for (int i = 0; i < 1100; i++) {
		snprintf(path, sizeof(path), "s/m/%dx", i);
		make_dir(path);
	}
	/* Of them, none is shown. */
	expect_given_up(dir, "@as=list,items=100-.jsonl");
	forget(dir);
}

/* ---- How many there are ---- */

/* Where the tree is opened anew, and shown through a question. */
static void show_through(const char *clauses)
{
	world_options.view = clauses;
	world_reopen();
	world_options.view = NULL;
}

EveryStore(views, of_a_whole_tree_show_lists_and_can_be_added_to)
{
	struct inode *root;

	make_dir("s/d");
	append("s/l.jsonl", "{\"role\":\"user\"}\n2\n{\"role\":\"user\",\"n\":1}\n");
	append("s/d/m.jsonl", "1\n");
	save("o.txt", "text");
	show_through("role=user,last=1");
	root = inode_at("");
	cr_expect_eq(inode_number(root), BACKEND_ROOT);
	cr_expect_eq(stat_of("").st_ino, BACKEND_ROOT);
	forget(root);
	cr_expect_str_eq(names_in(""), "s o.txt");
	cr_expect_str_eq(content_of("s/l.jsonl"), "{\"role\":\"user\",\"n\":1}\n");
	cr_expect_str_eq(content_of("s/d/m.jsonl"), "");
	cr_expect_str_eq(content_of("o.txt"), "text");
	append("s/l.jsonl", "{\"role\":\"user\",\"n\":2}\n");
	cr_expect_str_eq(content_of("s/l.jsonl"), "{\"role\":\"user\",\"n\":2}\n");
	cr_expect_eq(make_file("o.new", S_IFREG | 0644), -EROFS);
	cr_expect_eq(unlinked("o.txt"), -EROFS);
	cr_expect_eq(renamed("o.txt", "p.txt", 0), -EROFS);
	cr_expect_eq(looked_up("@last=1"), -ENOENT, "they do not nest");
	cr_expect_eq(looked_up("s/@last=1"), -ENOENT);
	world_reopen();
	cr_expect_str_eq(rows_of("s", "l"), "0={\"role\":\"user\"} 1=2 "
					    "2={\"role\":\"user\",\"n\":1} "
					    "3={\"role\":\"user\",\"n\":2}");
}

EveryStore(views, of_a_whole_tree_are_told_from_others_by_their_root)
{
	_cleanup_(buf_done) struct buf value = { 0 }, names = { 0 };
	struct inode *root = inode_at("");

	cr_expect_eq(tree_set_xattr(world_tree, root, BYTES(VIEW_ATTRIBUTE), BYTES("x"), 0), 0);
	cr_expect_eq(tree_get_xattr(world_tree, root, BYTES(VIEW_ATTRIBUTE), &value), -ENODATA);
	forget(root);
	show_through("last=1");
	root = inode_at("");
	cr_expect_eq(tree_get_xattr(world_tree, root, BYTES(VIEW_ATTRIBUTE), &value), 0);
	cr_expect(bytes_equal(buf_bytes(&value), BYTES("last=1")));
	cr_expect_eq(tree_list_xattr(world_tree, root, &names), 0);
	cr_expect_eq(names.size, 0);
	forget(root);
	world_reopen();
}

Test(views, of_a_whole_tree_are_refused_if_the_question_is_wrong)
{
	static const char *const wrong[] = { "last=x",	"@last=1", "as=events",
					     "as=list", "role=",   "first=1,last=1" };
	char *why = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		cr_expect_eq(tree_judge_view(wrong[i], &why), -EINVAL, "%s", wrong[i]);
		cr_assert_not_null(why);
		cr_expect(strstr(why, wrong[i]), "%s", why);
		freep(&why);
		why = NULL;
	}
	cr_expect_eq(tree_judge_view("role=user,last=1", &why), 0);
	cr_expect_eq(tree_judge_view(NULL, &why), 0);
	world_open(WORLD_MEMORY);
	tree_close(world_tree);
	world_options.view = "last=x";
	cr_expect_eq(world_try(&why), -EINVAL);
	cr_expect(strstr(why, "last=x"), "%s", why);
	free(why);
	world_options.view = NULL;
	cr_assert_eq(world_try(&why), 0);
	world_close();
}

static unsigned told;
static uint64_t told_parent;
static char told_name[64];

static void note_entry(void *arg, uint64_t parent, struct bytes name, bool same)
{
	(void)arg, (void)same;
	if (told++ == 0) {
		told_parent = parent;
		snprintf(told_name, sizeof(told_name), "%.*s", (int)name.size, name.data);
	}
}

EveryStore(views, that_are_used_again_are_not_the_first_that_the_kernel_is_to_forget)
{
	static struct inode *seen[WINDOWS_MOST + 2];
	const struct tree_watcher watcher = { .entry = note_entry }, nobody = { 0 };
	struct inode *dir = inode_at("s");
	char name[32];

	append("s/l.jsonl", "1\n");
	tree_set_watcher(world_tree, &watcher);
	for (size_t i = 0; i < ARRAY_SIZE(seen) - 1; i++) {
		snprintf(name, sizeof(name), "@last=%zu", i);
		seen[i] = look(dir, name);
		if (i == 5) {
			forget(look(dir, "@last=0"));
			forget(look(seen[1], "l.jsonl"));
		}
	}
	seen[WINDOWS_MOST + 1] = look(dir, "@last=77777");
	while (tree_is_notifying(world_tree))
		usleep(100);
	tree_set_watcher(world_tree, &nobody);
	cr_expect_eq(told, 2);
	cr_expect_str_eq(told_name, "@last=2", "%s", told_name);
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		forget(seen[i]);
	forget(dir);
}

EveryStore(views, that_are_too_many_the_kernel_is_to_forget_the_oldest_first)
{
	enum { MORE = 20 };
	static struct inode *seen[WINDOWS_MOST + MORE];
	const struct tree_watcher watcher = { .entry = note_entry }, nobody = { 0 };
	struct inode *dir = inode_at("s");
	char name[32];

	tree_set_watcher(world_tree, &watcher);
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		snprintf(name, sizeof(name), "@last=%zu", i);
		seen[i] = look(dir, name);
	}
	while (tree_is_notifying(world_tree))
		usleep(100);
	tree_set_watcher(world_tree, &nobody);
	cr_expect_eq(told, MORE);
	cr_expect_eq(told_parent, inode_number(dir));
	cr_expect_str_eq(told_name, "@last=0");
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		forget(seen[i]);
	cr_expect_eq(world_tree->windows.count, 0);
	for (size_t i = 0; i < ARRAY_SIZE(world_tree->windows.slots); i++)
		cr_expect_eq(world_tree->windows.slots[i], NULL);
	forget(dir);
}

/* Other programs may use any indices. */
SqliteStore(views, show_rows_at_both_ends_of_the_numbers)
{
	sql_adds("(-9223372036854775807 - 1)", "1");
	sql_adds("-1", "2");
	sql_adds("7", "3");
	sql_adds("9223372036854775806", "4");
	cr_expect_str_eq(content_of("s/@last=9/l.jsonl"), "1\n2\n3\n4\n");
	sql_adds("9223372036854775807", "5");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n4\n5\n");
	cr_expect_str_eq(content_of("s/@last=9/l.jsonl"), "1\n2\n3\n4\n5\n");
	cr_expect_str_eq(content_of("s/@last=2/l.jsonl"), "4\n5\n");
	cr_expect_str_eq(content_of("s/@first=2/l.jsonl"), "1\n2\n");
	cr_expect_str_eq(content_of("s/@not-role=a/l.jsonl"), "1\n2\n3\n4\n5\n");
	cr_expect_str_eq(content_of("s/@since=1d,bytes=4/l.jsonl"), "4\n5\n");
	cr_expect_str_eq(content_of("s/@items=0-/l.jsonl"), "3\n4\n5\n");
	cr_expect_str_eq(content_of("s/@items=9223372036854775807-/l.jsonl"), "5\n");
	cr_expect_str_eq(content_of("s/@items=8-9223372036854775806/l.jsonl"), "4\n");
	cr_expect_eq(stat_of("s/@last=9/l.jsonl").st_size, 10);
	cr_expect_str_eq(content_of("s/@as=items/l/9223372036854775807.json"), "5\n");
	cr_expect_eq(looked_up("s/@as=items/l/-1.json"), -ENOENT);
	cr_expect_str_eq(names_in("s/@as=items/l"), "7.json", "a position in it has 63 bits");
	save("s/l.jsonl", "");
}
