/* SPDX-License-Identifier: MIT */

/* Windows in memory: which are shared, and how many live; the rest is in tests/mount. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/inode/inodes.h"
#include "fs/inode/window.h"
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

EveryStore(views, with_ages_are_new_windows_each_time)
{
	struct inode *one, *two;

	append("s/l.jsonl", "1\n");
	one = window_of("@since=1h");
	two = window_of("@since=1h");
	cr_expect_neq(one, two);
	forget(two);
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
