/* SPDX-License-Identifier: MIT */

/* Several mounts of one store, in one process: each has its own tree over a handle of its own.  All
 * is done in turns, and what one does in the middle of what another does is done when that is about
 * to commit; so a failure can be played again. */

#include "tests/unit/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/stores/fault.h"
#include "backend/memory/memory.h"
#include "fs/cache/state.h"
#include "fs/api/trash.h"
#include "fs/inode/locks.h"
#include "fs/share/share.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/upkeep.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "tests/unit/many.h"
#include "tests/unit/clock.h"
#include "tests/unit/rounds.h"

#define Many(name)                                                                                 \
	static void many_##name##_body(void);                                                      \
	ParameterizedTestParameters(many, name)                                                    \
	{                                                                                          \
		return every_kind();                                                               \
	}                                                                                          \
	ParameterizedTest(const int *kind, many, name)                                             \
	{                                                                                          \
		many_open(*kind, 2);                                                               \
		many_##name##_body();                                                              \
		many_close();                                                                      \
	}                                                                                          \
	static void many_##name##_body(void)

/* What is behind it is done on that mount. */
#define ON(number) many_use(number);

Many(what_one_makes_the_other_sees)
{
	ON(0) make_dir("s/d");
	ON(0) save("s/d/k.json", "{\"a\":1}");
	ON(0) append("s/l.jsonl", "1\n2\n");
	ON(0) save("s/o.txt", "text");
	ON(1) cr_expect_str_eq(content_of("s/d/k.json"), "{\"a\":1}");
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	ON(1) cr_expect_str_eq(content_of("s/o.txt"), "text");
	ON(1) save("s/d/k.json", "{\"a\":2}");
	ON(1) append("s/l.jsonl", "3\n");
	ON(1) save("s/o.txt", "longer text");
	ON(0) cr_expect_str_eq(content_of("s/d/k.json"), "{\"a\":2}");
	ON(0) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	ON(0) cr_expect_str_eq(content_of("s/o.txt"), "longer text");
	ON(0) cr_expect_eq(stat_of("s/l.jsonl").st_size, 6);
}

/* As the kernel looks the name up, and remembers it. */
static struct shown kernel_looks_up(const char *path)
{
	struct inode *inode = inode_at(path);
	struct shown shown;

	cr_assert_eq(tree_enter(world_tree, inode, FACE_ANY, 0, &shown), 0);
	inode_hold(inode, shown.nodeid);
	return shown;
}

static void kernel_forgets(const char *path, const struct shown *shown)
{
	struct inode *inode = inode_at(path);

	tree_forget(world_tree, inode, shown->nodeid, 1);
	forget(inode);
}

/* The kernel has the old name for a while: rename(2) of a name over another of the same nodeid does
 * nothing. */
Many(what_one_renames_has_another_nodeid_for_the_other)
{
	static const char *const names[][2] = {
		{ "s/a.json", "s/b.json" },
		{ "s/c.json.tmp", "s/c.json" },
		{ "s/d.txt", "s/e.txt" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *from = names[i][0], *to = names[i][1];
		struct shown before, after;

		ON(1) save(from, "1");
		before = kernel_looks_up(from);
		ON(0) cr_assert_eq(renamed(from, to, 0), 0);
		ON(1) after = kernel_looks_up(to);
		cr_expect_eq(after.st.st_ino, before.st.st_ino, "%s", from);
		cr_expect_neq(after.nodeid, before.nodeid, "%s", from);
		cr_expect_str_eq(content_of(to), "1");
		save(to, "2");
		kernel_forgets(to, &before);
		kernel_forgets(to, &after);
		ON(0) cr_expect_str_eq(content_of(to), "2");
	}
}

Many(what_one_removes_is_gone_for_the_other)
{
	ON(0) make_dir("s/d");
	ON(0) save("s/d/k.json", "{}");
	ON(0) save("s/d/o", "text");
	ON(1) cr_expect_str_eq(names_in("s/d"), "k.json o");
	ON(0) cr_expect_eq(unlinked("s/d/k.json"), 0);
	ON(0) cr_expect_eq(unlinked("s/d/o"), 0);
	ON(1) cr_expect_eq(looked_up("s/d/k.json"), -ENOENT);
	ON(1) cr_expect_str_eq(names_in("s/d"), "");
	ON(1) cr_expect_eq(removed_dir("s/d"), 0);
	ON(0) cr_expect_eq(looked_up("s/d"), -ENOENT);
	ON(0) cr_expect_eq(make_file("s/d/x", S_IFREG | 0644), -ENOENT);
}

/* As a client that cuts off a torn line when it resumes, beside one that goes on. */
Many(what_one_cuts_keeps_what_the_other_has_added_since)
{
	const struct stat eight = { .st_size = 8 }, twelve = { .st_size = 12 };
	struct handle *handle;

	ON(0) append("s/l.jsonl", "[1]\n[2]\n{\"a\":");
	handle = open_at("s/l.jsonl", O_RDWR);
	cr_assert_eq(set_attr_by(handle, &eight, TREE_SET_SIZE), 0);
	ON(1) append("s/l.jsonl", "[3]\n");
	ON(0) close_handle(handle);
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "[1]\n[2]\n[3]\n");
	ON(0) cr_expect_str_eq(rows_of("s", "l"), "0=[1] 1=[2] 2=[3]");

	handle = open_at("s/l.jsonl", O_RDWR);
	cr_assert_eq(set_attr_by(handle, &twelve, TREE_SET_SIZE), 0);
	ON(1) append("s/l.jsonl", "[4]\n");
	ON(0) close_handle(handle);
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "[1]\n[2]\n[3]\n[4]\n");

	/* To a document it is a save to the others. */
	ON(0) save("s/k.json", "[1]\n[2]\n");
	handle = open_at("s/k.json", O_RDWR | O_TRUNC);
	ON(1) append("s/k.json", "[3]\n");
	ON(0) close_handle(handle);
	ON(1) cr_expect_str_eq(content_of("s/k.json"), "[1]\n[2]\n[3]\n");
}

static int keep_id(void *arg, const struct trash_item *item)
{
	*(uint64_t *)arg = item->id;
	return 0;
}

static void bring_back(void)
{
	struct backend_snapshot *snapshot;
	uint64_t id = 0;

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(trash_list(world_store, snapshot, keep_id, &id), 0);
	world_store->ops->snapshot_end(world_store, snapshot);
	cr_assert_eq(tree_trash_undo(world_tree, id), 0);
}

Many(a_session_that_one_puts_into_the_trash_is_gone_for_the_other_until_it_comes_back)
{
	static const char *const paths[] = { "s", "s/d", "s/d/k.json", "s/l.jsonl", "s/o" };
	struct inode *known[ARRAY_SIZE(paths)];

	ON(0) make_dir("s/d");
	ON(0) save("s/d/k.json", "{}");
	ON(0) append("s/l.jsonl", "1\n2\n");
	ON(0) save("s/o", "text");
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		known[i] = inode_at(paths[i]);
	ON(0) cr_assert_eq(tree_trash(world_tree, BYTES("s"), INT64_MAX, TRASH_GRACE), 0);
	ON(1) cr_expect_eq(world_tree->take_in(world_tree), 0);
	ON(1) cr_expect_eq(looked_up("s"), -ENOENT);
	ON(1) cr_expect_str_eq(names_in(""), "");
	ON(0) bring_back();
	ON(1) cr_expect_eq(world_tree->take_in(world_tree), 0);
	ON(1) cr_expect_str_eq(content_of("s/d/k.json"), "{}");
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	ON(1) cr_expect_str_eq(content_of("s/o"), "text");
	ON(1) append("s/l.jsonl", "3\n");
	ON(0) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	ON(1) for (size_t i = 0; i < ARRAY_SIZE(paths); i++) forget(known[i]);
}

static int trashed(const char *name)
{
	return tree_trash(world_tree, bytes_str(name), INT64_MAX, TRASH_GRACE);
}

Many(a_session_stays_as_long_as_a_file_of_it_is_open_on_any_mount)
{
	struct handle *handle[2];

	ON(0) make_dir("s/d");
	ON(0) save("s/d/o", "text");
	for (int i = 0; i < 2; i++) {
		ON(i) handle[0] = open_at("s/d/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
		ON(i) handle[1] = open_at("s/d/o", O_RDONLY);
		ON(!i) cr_expect_eq(trashed("s"), -EBUSY);
		ON(i) append_to(handle[0], "1\n");
		ON(i) close_handle(handle[0]);
		ON(!i) cr_expect_eq(trashed("s"), -EBUSY);
		ON(i) cr_expect_str_eq(read_by(handle[1]), "text");
		ON(i) close_handle(handle[1]);
	}
	cr_expect_str_eq(rows_of("s", "d/l"), "0=1 1=1");
	ON(0) cr_expect_eq(trashed("s"), 0);
	cr_expect_str_eq(keys(), "");
}

static struct handle *opened;

static void open_list(void)
{
	opened = open_at("s/d/l.jsonl", O_WRONLY | O_APPEND);
}

static void create_file(void)
{
	opened = open_at("s/d/new", O_WRONLY | O_CREAT);
}

Many(a_session_stays_when_a_file_of_it_is_opened_while_it_is_about_to_go)
{
	many_fn *const ways[] = { open_list, create_file };

	ON(0) make_dir("s/d");
	ON(0) append("s/d/l.jsonl", "1\n");
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		many_meanwhile(0, 1, ways[i]);
		ON(0) cr_expect_eq(trashed("s"), -EBUSY);
		ON(1) append_to(opened, "2\n");
		ON(1) close_handle(opened);
	}
	ON(0) cr_expect_str_eq(content_of("s/d/l.jsonl"), "1\n2\n");
	ON(0) cr_expect_str_eq(content_of("s/d/new"), "2\n");
}

static void change_file(void)
{
	save("s/d/o", "longer text");
}

/* As old as the time at which it was about to go. */
Many(a_session_stays_when_it_is_changed_while_it_is_about_to_go)
{
	int64_t since;

	ON(0) make_dir("s/d");
	ON(0) save("s/d/o", "text");
	since = nanoseconds(stat_of("s/d/o").st_mtim);
	many_meanwhile(0, 1, change_file);
	ON(0) cr_expect_eq(tree_trash(world_tree, BYTES("s"), since, TRASH_GRACE), -ECANCELED);
	ON(0) cr_expect_str_eq(content_of("s/d/o"), "longer text");
}

static uint64_t last_trashed(void)
{
	struct backend_snapshot *snapshot;
	uint64_t id = 0;

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(trash_list(world_store, snapshot, keep_id, &id), 0);
	world_store->ops->snapshot_end(world_store, snapshot);
	return id;
}

static uint64_t purged;

static void purge(void)
{
	cr_expect_eq(tree_trash_purge(world_tree, purged), 0);
}

/* Files that have another name elsewhere. */
static void trash_linked(int count)
{
	char path[32], path_to[32];

	ON(0) make_dir("s/d");
	ON(0) make_dir("t");
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "s/d/%d", i);
		snprintf(path_to, sizeof(path_to), "t/%d", i);
		save(path, "text");
		cr_assert_eq(linked(path, path_to), 0);
	}
	cr_assert_eq(trashed("s"), 0);
	purged = last_trashed();
}

static void expect_linked(int count)
{
	char path[32];

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "t/%d", i);
		cr_expect_str_eq(content_of(path), "text");
		cr_expect_eq(stat_of(path).st_nlink, 1);
	}
}

Many(what_two_purge_at_once_goes_and_nothing_else)
{
	int r;

	trash_linked(3);
	many_meanwhile(0, 1, purge);
	ON(0) r = tree_trash_purge(world_tree, purged);
	cr_expect(r == 0 || r == -ENOENT, "%d", r);
	cr_expect_eq(last_trashed(), 0);
	ON(0) expect_linked(3);
	ON(1) expect_linked(3);
}

Many(what_comes_back_while_another_purges_it_stays)
{
	ON(0) save("s/o", "text");
	ON(0) append("s/l.jsonl", "1\n");
	ON(0) cr_expect_eq(trashed("s"), 0);
	purged = last_trashed();
	many_meanwhile(0, 1, bring_back);
	ON(0) cr_expect_eq(tree_trash_purge(world_tree, purged), -ENOENT);
	ON(0) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n");
	ON(1) cr_expect_str_eq(content_of("s/o"), "text");
	cr_expect_str_eq(rows_of("s", "l"), "0=1");
}

static int opened_as(struct inode *inode, struct handle **ret_handle)
{
	return tree_open_file(world_tree, inode, 0, O_WRONLY | O_APPEND, 1, ret_handle);
}

/* The same when the name leads it there again. */
static int opened_by_name(struct inode *inode, struct handle **ret_handle)
{
	struct shown shown;
	int r = tree_enter(world_tree, inode, FACE_ANY, 1, &shown);

	return r < 0 ? r :
		       tree_open_file(world_tree, inode, nodeid_face(shown.nodeid),
				      O_WRONLY | O_APPEND, 1, ret_handle);
}

static int count_name(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		      uint64_t position)
{
	(void)name, (void)shown, (void)position;
	if (inode)
		forget(inode);
	++*(unsigned *)arg;
	return 0;
}

/* The names that are looked up or listed in a directory that somebody has in mind. */
static unsigned found_in(struct inode *dir)
{
	static const char *const names[] = { "l.jsonl", "o" };
	unsigned found = 0, listed = 0;
	struct inode *inode;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (tree_lookup(world_tree, dir, bytes_str(names[i]), &inode) < 0)
			continue;
		forget(inode);
		found++;
	}
	cr_expect_eq(tree_list(world_tree, dir, 2, UINT64_MAX, true, count_name, &listed), 0);
	cr_expect_eq(listed, found);
	return found;
}

Many(nothing_is_found_or_made_in_a_session_that_went_on_another_mount)
{
	static const char *const paths[] = { "s/d/e/l.jsonl", "s/d/e/o" };
	const struct tree_new what = { .mode = S_IFREG | 0644 };
	const struct caller caller = { 0 };
	struct inode *known[ARRAY_SIZE(paths)], *dir, *dir_here, *made;
	struct handle *handle;

	ON(0) make_dir("s/d");
	ON(0) make_dir("s/d/e");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		ON(0) append(paths[i], "1\n");
		ON(1) known[i] = inode_at(paths[i]);
	}
	ON(1) dir = inode_at("s/d/e");
	ON(0) dir_here = inode_at("s/d/e");
	ON(0) cr_expect_eq(trashed("s"), 0);
	ON(0) cr_expect_eq(found_in(dir_here), 0);
	ON(0) forget(dir_here);
	ON(1) cr_expect_eq(found_in(dir), 0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		ON(1) cr_expect_eq(opened_as(known[i], &handle), -ESTALE, "%s", paths[i]);
	}
	ON(1)
	cr_expect_eq(tree_make(world_tree, &caller, dir, BYTES("k.json"), &what, &made), -ENOENT);
	cr_expect_str_eq(keys(), "");
	ON(0) bring_back();
	ON(1) cr_expect_eq(tree_take_in(world_tree), 0);
	ON(1) cr_expect_eq(found_in(dir), 2);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		ON(1) cr_assert_eq(opened_by_name(known[i], &handle), 0);
		ON(1) append_to(handle, "2\n");
		ON(1) close_handle(handle);
		ON(1) forget(known[i]);
		ON(0) cr_expect_str_eq(content_of(paths[i]), "1\n2\n");
	}
	ON(1)
	cr_expect_eq(tree_make(world_tree, &caller, dir, BYTES("k.json"), &what, &made), 0);
	ON(1) forget(made);
	ON(1) forget(dir);
}

Many(attributes_are_the_same)
{
	const struct stat mode = { .st_mode = 0600 };

	ON(0) save("s/k.json", "{}");
	ON(1) cr_expect_eq(stat_of("s/k.json").st_mode & 07777, 0644);
	ON(0) cr_expect_eq(set_attr("s/k.json", &mode, TREE_SET_MODE), 0);
	ON(1) cr_expect_eq(stat_of("s/k.json").st_mode & 07777, 0600);
}

Many(times_that_are_written_later_undo_no_chmod)
{
	const struct stat mode = { .st_mode = 0600 };
	struct handle *handle;

	ON(0) handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	ON(0) append_to(handle, "1\n");
	ON(1) cr_expect_eq(set_attr("s/l.jsonl", &mode, TREE_SET_MODE), 0);
	ON(0) append_to(handle, "2\n");
	ON(0) world_settle();
	ON(0) close_handle(handle);
	ON(1) cr_expect_eq(stat_of("s/l.jsonl").st_mode & 07777, 0600);
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
}

static bool in_no_group(void *arg, gid_t gid)
{
	(void)arg;
	(void)gid;
	return false;
}

static void lock_away(void)
{
	const struct stat mode = { .st_mode = 0600 };

	cr_expect_eq(set_attr("s/o", &mode, TREE_SET_MODE), 0);
}

Many(what_makes_a_file_no_program_undoes_no_chmod)
{
	const struct stat mode = { .st_mode = 04755 };
	struct inode *inode;

	ON(0) save("s/o", "text");
	ON(0) cr_expect_eq(set_attr("s/o", &mode, TREE_SET_MODE), 0);
	ON(0) inode = inode_at("s/o");
	many_meanwhile(0, 1, lock_away);
	ON(0) cr_expect_eq(tree_drop_setuid(world_tree, inode, in_no_group, NULL), 0);
	ON(0) forget(inode);
	ON(1) cr_expect_eq(stat_of("s/o").st_mode & 07777, 0600);
	ON(0) cr_expect_eq(stat_of("s/o").st_mode & 07777, 0600);
}

/* The kernel has looked the directory up long before. */
Many(what_is_made_takes_the_group_that_another_mount_has_given_the_directory)
{
	static const struct caller caller = { .uid = 1000, .gid = 1000 };
	static const struct tree_new what = { .mode = S_IFREG | 0644 };
	const struct stat team = { .st_mode = 02775, .st_gid = 77 };
	struct inode *dir, *inode;

	ON(0) make_dir("s/d");
	ON(1) dir = inode_at("s/d");
	ON(0) cr_expect_eq(set_attr("s/d", &team, TREE_SET_MODE | TREE_SET_GID), 0);
	ON(1) cr_expect_eq(tree_make(world_tree, &caller, dir, BYTES("f"), &what, &inode), 0);
	ON(1) forget(inode);
	ON(1) forget(dir);
	ON(0) cr_expect_eq(stat_of("s/d/f").st_gid, 77);
}

/* What the other mount does just before a commit of "3\n" that is to be behind it. */
static void append_line(void)
{
	append("s/l.jsonl", "2\n");
}

static void append_three(void)
{
	for (int i = 0; i < 3; i++)
		append("s/l.jsonl", "2\n");
}

static void append_bad(void)
{
	append("s/l.jsonl", "2\nbad\n");
}

static void append_without_newline(void)
{
	append("s/l.jsonl", "2");
}

static void save_list(void)
{
	save("s/l.jsonl", "7\n8\n");
}

static void move_list(void)
{
	cr_assert_eq(renamed("s/l.jsonl", "s/m.jsonl", 0), 0);
}

/* In each, a writer and a reader have had it open since before. */
static const struct behind {
	many_fn *other;
	const char *content;
	const char *read; /* by who has it open since before */
	bool waits;	  /* the append has to be tried again */
} behinds[] = {
	{ append_line, "1\n2\n3\n", "1\n2\n3\n", false },
	{ append_three, "1\n2\n2\n2\n3\n", "1\n2\n2\n2\n3\n", false },
	{ append_bad, "1\n2\nbad\n3\n", "1\n2\nbad\n3\n", true },
	{ append_without_newline, "1\n23\n", "1\n23\n", true },
	{ save_list, "7\n8\n3\n", "1\n", true },
	{ move_list, "1\n3\n", "1\n3\n", true },
};

Many(appends_wait_for_no_others)
{
	for (size_t i = 0; i < ARRAY_SIZE(behinds); i++) {
		const struct behind *behind = &behinds[i];
		const char *path = behind->other == move_list ? "s/m.jsonl" : "s/l.jsonl";
		struct handle *writer, *reader;

		ON(0) append("s/l.jsonl", "1\n");
		ON(0) writer = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
		ON(0) reader = open_at("s/l.jsonl", O_RDONLY);
		ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n");
		many_meanwhile(0, 1, behind->other);
		ON(0) many_count_commits();
		ON(0) append_to(writer, "3\n");
		cr_expect_eq(many_commits() > 1, behind->waits, "%zu: %u", i, many_commits());
		ON(0) cr_expect_str_eq(read_by(reader), behind->read, "%zu", i);
		ON(0) cr_expect_str_eq(content_of(path), behind->content, "%zu", i);
		ON(0) cr_expect_eq(stat_of(path).st_size, (off_t)strlen(behind->content));
		ON(0) append_to(writer, "4\n");
		ON(0) close_handle(writer);
		ON(0) close_handle(reader);
		ON(1) cr_expect_str_eq(content_of(path) + strlen(behind->content), "4\n", "%zu", i);
		ON(0) cr_assert_eq(unlinked(path), 0);
		many_settle();
	}
}

static void append_torn(void)
{
	append("s/l.jsonl", "torn");
}

Many(a_line_is_not_written_behind_what_another_has_torn)
{
	ON(0) append("s/l.jsonl", "1\n");
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n");
	many_meanwhile(0, 1, append_torn);
	ON(0) append("s/l.jsonl", "2\n");
	ON(0) cr_expect_str_eq(content_of("s/l.jsonl"), "1\ntorn\n2\n");
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\ntorn\n2\n");
}

/* What one mount does to a list, and another one adds then that has heard of it and has read
 * nothing of it: as if one had done both, which is how the second list is made. */
struct added {
	const char *text;
	bool replaces, cuts;
};

static const struct added befores[] = {
	{ "2\n", false, false },      { "2\n3\n", false, false }, { "not json\n", false, false },
	{ "[2", false, false },	      { "2", false, false },	  { "2\n[3", false, false },
	{ "7\n8\n9\n", true, false }, { "7\n[8", true, false },	  { "", false, true },
	{ "\n", false, false },
};
static const char *const lasts[] = { "4\n", "4\n5\n", "bad}\n", "[5", "4\n[5", ",6]\n" };

static void add(const char *path, const struct added *added)
{
	const struct stat cut = { .st_size = 3 };

	if (added->replaces)
		save(path, added->text);
	else if (added->cuts)
		cr_assert_eq(set_attr(path, &cut, TREE_SET_SIZE), 0);
	else
		append(path, added->text);
}

Many(what_comes_behind_what_another_has_added_is_as_if_one_had_added_both)
{
	static const char *const list = "s/l.jsonl", *const like = "s/like.jsonl";
	enum { ORDERS = ARRAY_SIZE(befores) * ARRAY_SIZE(befores) * ARRAY_SIZE(lasts) };

	/* Also of every third one, each pair of changes is among them. */
	for (size_t order = 0; order < ORDERS; order += rounds("SESSFS_ORDERS", 3, 1)) {
		const struct added *first = &befores[order % ARRAY_SIZE(befores)];
		const struct added *second =
			&befores[order / ARRAY_SIZE(befores) % ARRAY_SIZE(befores)];
		const char *last = lasts[order / ARRAY_SIZE(befores) / ARRAY_SIZE(befores)];
		_cleanup_(freep) char *expected = NULL;
		struct handle *handle;

		ON(0) handle = open_at(list, O_WRONLY | O_CREAT | O_APPEND);
		ON(0) append_to(handle, "[1, 1]\n");
		ON(1) append(like, "[1, 1]\n");
		ON(1) add(list, first);
		ON(1) add(like, first);
		ON(0) cr_assert_eq(world_tree->take_in(world_tree), 0);
		ON(1) add(list, second);
		ON(1) add(like, second);
		if (order % 2) {
			ON(0) cr_assert_eq(world_tree->take_in(world_tree), 0);
		}
		ON(0) append_to(handle, last);
		ON(0) close_handle(handle);
		ON(1) append(like, last);
		ON(1) expected = strdup(content_of(like));
		for (int i = 0; i < 2; i++) {
			ON(i)
			cr_assert_str_eq(content_of(list), expected, "%zu, mount %d: %s", order, i,
					 expected);
			ON(i) cr_assert_eq(stat_of(list).st_size, (off_t)strlen(expected));
		}
		ON(0) cr_assert_eq(unlinked(list), 0);
		ON(1) cr_assert_eq(unlinked(like), 0);
	}
	many_settle();
}

/* A mount that was alone has times that the store does not have; then another one comes. */
static void set_time_on_joining(int kind)
{
	static const struct tree_options options = { 0 };
	const struct stat past = { .st_mtim = { .tv_sec = 1000 } };
	struct backend *first_store, *second_store;
	struct tree *first, *second;
	struct handle *handle;

	world_shared = true;
	world_open(kind);
	make_dir("s");
	append("s/l.jsonl", "1\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	append_to(handle, "2\n");
	append_to(handle, "3\n");
	first = world_tree;
	first_store = world_store;
	second_store = world_join();
	cr_assert_eq(tree_open(second_store, &options, &second, NULL), 0);
	world_tree = second;
	world_store = second_store;
	cr_expect_eq(set_attr("s/l.jsonl", &past, TREE_SET_MTIME), 0);
	world_tree = first;
	world_store = first_store;
	cr_expect_eq(world_tree->take_in(world_tree), 0);
	world_settle();
	cr_expect_eq(stat_of("s/l.jsonl").st_mtim.tv_sec, 1000);
	close_handle(handle);
	world_tree = second;
	world_store = second_store;
	cr_expect_eq(world_tree->take_in(world_tree), 0);
	cr_expect_eq(stat_of("s/l.jsonl").st_mtim.tv_sec, 1000);
	tree_close(second);
	world_tree = first;
	world_store = first_store;
	world_close();
}

Test(many, a_time_that_who_has_come_sets_stays_in_memory)
{
	set_time_on_joining(WORLD_MEMORY);
}

Test(many, a_time_that_who_has_come_sets_stays)
{
	set_time_on_joining(WORLD_SQLITE);
}

Many(lines_of_both_are_there_once_and_in_order)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct handle *handle[2];
	char line[16];

	for (int i = 0; i < 2; i++) {
		ON(i) handle[i] = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	}
	for (int n = 0; n < 2000; n++) {
		snprintf(line, sizeof(line), "%d\n", n);
		ON(n * 7 % 11 % 2) append_to(handle[n * 7 % 11 % 2], line);
		cr_assert_eq(buf_append_str(&expected, line), 0);
	}
	cr_assert_eq(buf_append_byte(&expected, '\0'), 0);
	for (int i = 0; i < 2; i++) {
		ON(i) close_handle(handle[i]);
		ON(i) cr_expect_str_eq(content_of("s/l.jsonl"), expected.data);
	}
}

Many(a_file_that_is_open_elsewhere_outlives_its_name)
{
	struct handle *state, *ordinary;

	ON(0) save("s/k.json", "{\"a\":1}");
	ON(0) save("s/o", "text");
	ON(1) state = open_at("s/k.json", O_RDONLY);
	ON(1) ordinary = open_at("s/o", O_RDWR);
	ON(0) cr_expect_eq(unlinked("s/k.json"), 0);
	ON(0) cr_expect_eq(unlinked("s/o"), 0);
	many_settle();
	ON(1) cr_expect_str_eq(read_by(state), "{\"a\":1}");
	ON(1) write_at(ordinary, 0, BYTES("T"));
	ON(1) cr_expect_str_eq(read_by(ordinary), "Text");
	ON(1) close_handle(state);
	ON(1) close_handle(ordinary);
	many_settle();
	cr_expect_eq(many_orphans(), 0);
}

static void keep_removed(void)
{
	world_options.history = INT64_C(86400000000000);
}

/* What goes into the trash is as gone for who has it open here as what is deleted. */
static void unlink_what_is_written(int kind, bool taken_in)
{
	static const struct stat given = { .st_mode = 0600, .st_mtime = 1, .st_size = 1 };
	struct handle *appender, *saver, *reader;

	many_open(kind, 2);
	ON(0) save("s/l.jsonl", "1\n");
	ON(0) save("s/k.json", "{}");
	ON(0) save("s/r.jsonl", "1\n2\n");
	ON(1) appender = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	ON(1) saver = open_at("s/k.json", O_RDWR);
	ON(1) reader = open_at("s/r.jsonl", O_RDONLY);
	ON(1) write_at(saver, 0, BYTES("no JSON"));
	for (size_t i = 0; i < 3; i++) {
		static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/r.jsonl" };

		ON(0) cr_expect_eq(unlinked(paths[i]), 0);
	}
	if (taken_in)
		many_settle();
	ON(1) append_to(appender, "2\n");
	ON(1) cr_expect_eq(set_attr_by(saver, &given, TREE_SET_MODE | TREE_SET_MTIME), 0);
	ON(1) cr_expect_eq(set_attr_by(reader, &given, TREE_SET_MODE | TREE_SET_MTIME), 0);
	ON(1) cr_expect_eq(set_attr_by(appender, &given, TREE_SET_SIZE), 0);
	ON(1) append_to(appender, "3\n");
	ON(1) close_handle(appender);
	ON(1) close_handle(saver);
	ON(1) cr_expect_str_eq(read_by(reader), "1\n2\n");
	ON(1) close_handle(reader);
	many_settle();
	for (int mount = 0; mount < 2; mount++) {
		ON(mount) cr_expect_str_eq(names_in("s"), "");
		cr_expect_str_eq(keys(), "");
	}
	many_close();
}

ParameterizedTestParameters(many, what_is_trashed_elsewhere_is_written_for_nobody)
{
	return every_kind();
}

ParameterizedTest(const int *kind, many, what_is_trashed_elsewhere_is_written_for_nobody,
		  .init = keep_removed)
{
	unlink_what_is_written(*kind, false);
	unlink_what_is_written(*kind, true);
}

/* What another mount deletes of its trash has the key of a file that was unlinked here a moment
 * ago, and is not another file of that key. */
ParameterizedTestParameters(many, a_key_is_not_taken_by_what_is_purged_elsewhere)
{
	return every_kind();
}

ParameterizedTest(const int *kind, many, a_key_is_not_taken_by_what_is_purged_elsewhere,
		  .init = keep_removed)
{
	many_open(*kind, 2);
	ON(1) save("s/l.jsonl", "[0]\n");
	ON(1) cr_expect_eq(unlinked("s/l.jsonl"), 0);
	many_settle();
	ON(1) purged = last_trashed();
	ON(0) save("s/l.jsonl", "[1]\n");
	ON(0) cr_expect_eq(unlinked("s/l.jsonl"), 0);
	ON(1) purge();
	ON(0) cr_expect_eq(looked_up("s/l.jsonl"), -ENOENT);
	many_settle();
	cr_expect_str_eq(keys(), "");
	many_close();
}

Many(a_file_that_gets_the_name_of_one_that_was_unlinked_elsewhere_has_all_its_rows)
{
	ON(0) save("s/l.jsonl", "[1]\n[2]\n");
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "[1]\n[2]\n");
	ON(0) cr_expect_eq(unlinked("s/l.jsonl"), 0);
	ON(1) cr_expect_eq(make_file("s/l.jsonl", S_IFIFO | 0644), 0);
	ON(1) save("s/c", "[1]\n[3]\n");
	ON(1) cr_expect_eq(renamed("s/c", "s/l.jsonl", 0), 0);
	many_settle();
	for (int mount = 0; mount < 2; mount++) {
		ON(mount) cr_expect_str_eq(rows_of("s", "l"), "0=[1] 1=[3]");
		cr_expect_str_eq(content_of("s/l.jsonl"), "[1]\n[3]\n");
	}
}

Many(a_directory_that_gets_the_name_of_one_that_was_removed_elsewhere_has_all_its_rows)
{
	ON(0) make_dir("t");
	ON(0) save("t/l.jsonl", "[1]\n[2]\n");
	ON(1) cr_expect_str_eq(content_of("t/l.jsonl"), "[1]\n[2]\n");
	ON(0) cr_expect_eq(unlinked("t/l.jsonl"), 0);
	ON(0) cr_expect_eq(removed_dir("t"), 0);
	ON(1) make_dir("u");
	ON(1) save("u/l.jsonl", "[3]\n");
	ON(1) cr_expect_eq(renamed("u", "t", 0), 0);
	many_settle();
	for (int mount = 0; mount < 2; mount++) {
		ON(mount) cr_expect_str_eq(rows_of("t", "l"), "0=[3]");
		cr_expect_str_eq(content_of("t/l.jsonl"), "[3]\n");
	}
}

Many(a_key_that_was_unlinked_elsewhere_begins_empty)
{
	ON(0) save("s/l.jsonl", "1\n2\n");
	ON(0) cr_expect_eq(unlinked("s/l.jsonl"), 0);
	ON(1) cr_expect_eq(make_file("s/l.jsonl", S_IFREG | 0644), 0);
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "");
	ON(1) append("s/l.jsonl", "3\n");
	many_settle();
	ON(0) cr_expect_str_eq(content_of("s/l.jsonl"), "3\n");
	ON(1) cr_expect_str_eq(rows_of("s", "l"), "0=3");
}

Many(a_directory_that_moves_takes_open_files_along)
{
	struct handle *handle;

	ON(0) make_dir("s/d");
	ON(1) handle = open_at("s/d/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	ON(1) append_to(handle, "1\n");
	ON(0) cr_expect_eq(renamed("s/d", "t", 0), 0);
	ON(1) append_to(handle, "2\n");
	ON(1) close_handle(handle);
	ON(0) cr_expect_str_eq(content_of("t/l.jsonl"), "1\n2\n");
	ON(0) cr_expect_str_eq(keys(), "t/l[0-1]");
}

Many(a_save_that_is_not_published_yet_is_not_older_because_the_file_moves)
{
	struct handle *emptied, *saved, *reader;

	ON(0) save("s/l.jsonl", "1\n2\n");
	ON(0) save("s/k.json", "[1, 2]");
	ON(0) save("s/r.jsonl", "1\n2\n");
	ON(1) emptied = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	ON(1) saved = open_at("s/k.json", O_WRONLY);
	ON(1) write_at(saved, 1, BYTES("3"));
	ON(1) reader = open_at("s/r.jsonl", O_RDONLY);
	ON(1) cr_expect_str_eq(read_by(reader), "1\n2\n");
	ON(0) cr_expect_eq(renamed("s/l.jsonl", "s/m.jsonl", 0), 0);
	ON(0) cr_expect_eq(renamed("s", "t", 0), 0);
	many_settle();
	ON(1) cr_expect_str_eq(read_by(reader), "1\n2\n");
	ON(1) close_handle(emptied);
	ON(1) close_handle(saved);
	ON(1) close_handle(reader);
	ON(1) cr_expect_str_eq(content_of("t/m.jsonl"), "");
	ON(0) cr_expect_str_eq(content_of("t/m.jsonl"), "");
	ON(0) cr_expect_str_eq(content_of("t/k.json"), "[3, 2]");
	ON(1) append("t/r.jsonl", "3\n");
	ON(0) cr_expect_str_eq(content_of("t/r.jsonl"), "1\n2\n3\n");
}

/* In the middle of what the other mount does. */

static void move_elsewhere(void)
{
	cr_expect_eq(renamed("s/a", "s/b/a", 0), 0);
}

Many(two_directories_never_move_into_each_other)
{
	ON(0) make_dir("s/a");
	ON(0) make_dir("s/b");
	ON(1) cr_expect_str_eq(names_in("s"), "a b");
	many_meanwhile(0, 1, move_elsewhere);
	ON(0) cr_expect_eq(renamed("s/b", "s/a/b", 0), -EINVAL);
	ON(0) cr_expect_str_eq(names_in("s"), "b");
	ON(0) cr_expect_str_eq(names_in("s/b"), "a");
}

static void make_in_it(void)
{
	save("s/a/k.json", "{}");
}

Many(a_directory_is_not_removed_while_something_is_made_in_it)
{
	ON(0) make_dir("s/a");
	ON(1) cr_expect_str_eq(names_in("s/a"), "");
	many_meanwhile(0, 1, make_in_it);
	ON(0) cr_expect_eq(removed_dir("s/a"), -ENOTEMPTY);
	ON(0) cr_expect_str_eq(content_of("s/a/k.json"), "{}");
}

Many(a_file_that_is_made_in_a_directory_that_moves_has_the_new_key)
{
	ON(0) make_dir("s/a");
	ON(1) cr_expect_str_eq(names_in("s/a"), "");
	many_meanwhile(0, 1, make_in_it);
	ON(0) cr_expect_eq(renamed("s/a", "t", 0), 0);
	ON(1) cr_expect_str_eq(content_of("t/k.json"), "{}");
	ON(1) cr_expect_str_eq(keys(), "t/k[0-0]");
}

static void remove_it(void)
{
	cr_expect_eq(unlinked("s/l.jsonl"), 0);
	many_settle_here();
}

Many(a_line_for_a_file_that_was_removed_makes_no_row)
{
	struct handle *handle;

	ON(0) handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	ON(0) append_to(handle, "1\n");
	many_meanwhile(0, 1, remove_it);
	ON(0) append_to(handle, "2\n");
	ON(0) cr_expect_str_eq(keys(), "");
	ON(0) close_handle(handle);
	ON(1) cr_expect_eq(looked_up("s/l.jsonl"), -ENOENT);
}

static void append_one(void)
{
	append("s/l.jsonl", "0\n");
}

Many(lines_that_meet_are_both_there)
{
	struct handle *handle;

	ON(0) handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	for (int n = 0; n < 100; n++) {
		many_meanwhile(0, 1, append_one);
		ON(0) append_to(handle, "1\n");
	}
	ON(0) close_handle(handle);
	ON(1) cr_expect_eq(stat_of("s/l.jsonl").st_size, 400);
	for (size_t n = 0; n < 100; n++) {
		ON(1)
		cr_expect(bytes_starts_with(bytes_make(bytes_of("s/l.jsonl").data + 4 * n, 4),
					    BYTES("0\n1\n")));
	}
}

static void save_other(void)
{
	save("s/l.jsonl", "7\n8\n9\n");
}

Many(a_line_that_meets_a_save_comes_behind_it)
{
	struct handle *handle;

	ON(0) append("s/l.jsonl", "1\n2\n3\n4\n");
	ON(0) handle = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	ON(1) cr_expect_eq(stat_of("s/l.jsonl").st_size, 8);
	many_meanwhile(0, 1, save_other);
	ON(0) append_to(handle, "5\n");
	ON(0) close_handle(handle);
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "7\n8\n9\n5\n");
	ON(1) cr_expect_str_eq(rows_of("s", "l"), "0=7 1=8 2=9 3=5");
}

/* Who has emptied a list writes what is a save if there is something in it again, and cannot know
 * that while changes wait. */
Many(a_list_that_was_emptied_is_appended_to_also_when_that_is_not_known_at_once)
{
	struct handle *handle;

	ON(0) handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_TRUNC);
	ON(1) append("s/l.jsonl", "9\n");
	ON(0) cr_expect_eq(world_tree->take_in(world_tree), 0);
	ON(1) save("s/l.jsonl", "");
	ON(0) write_at(handle, 0, BYTES("1\n"));
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n");
	ON(1) append("s/l.jsonl", "2\n");
	ON(0) write_at(handle, 2, BYTES("3\n"));
	ON(0) close_handle(handle);
	ON(0) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
}

/* ---- compaction ---- */

/* Who has read a window of the list, and has written other lines in their place. */
static struct handle *compacting(const char *path, const char *text)
{
	struct handle *compactor = open_at(path, O_RDWR);

	read_by(compactor);
	write_at(compactor, 0, bytes_str(text));
	return compactor;
}

static int compacted(struct handle *compactor)
{
	int r = handle_flush(world_tree, compactor, getpid());

	handle_free(world_tree, compactor);
	return r;
}

static void append_two(void)
{
	append("s/l.jsonl", "5\n6\n");
}

static void save_longer(void)
{
	save("s/l.jsonl", "1\n2\n3\n4\n[5]\n");
}

static void save_same(void)
{
	save("s/l.jsonl", "1\n2\n3\n4\n");
}

static void save_end(void)
{
	save("s/l.jsonl", "1\n2\n3\n[4]\n");
}

static void unlink_list(void)
{
	cr_expect_eq(unlinked("s/l.jsonl"), 0);
}

static void rename_list(void)
{
	cr_expect_eq(renamed("s/l.jsonl", "s/m.jsonl", 0), 0);
}

static void rename_over_list(void)
{
	save("s/n.jsonl", "1\n2\n3\n4\n");
	cr_expect_eq(renamed("s/n.jsonl", "s/l.jsonl", 0), 0);
}

static void compact_front(void)
{
	cr_expect_eq(compacted(compacting("s/@first=2/l.jsonl", "[12]")), -EINVAL);
	cr_expect_eq(compacted(compacting("s/@first=2/l.jsonl", "[1]\n")), 0);
}

static void compact_end(void)
{
	cr_expect_eq(compacted(compacting("s/@items=3-/l.jsonl", "[4]\n")), 0);
}

static void chmod_list(void)
{
	const struct stat mode = { .st_mode = 0600 };

	cr_expect_eq(set_attr("s/l.jsonl", &mode, TREE_SET_MODE), 0);
}

/* What the other does in the middle of a compaction of the items 1 and 2 of four. */
static const struct {
	many_fn *fn;
	int r;
	const char *path;
	const char *content;
	const char *rows;
} meets[] = {
	{ append_two, 0, "s/l.jsonl", "1\n[2]\n4\n5\n6\n", "0=1 1=[2] 2=4 3=5 4=6" },
	{ chmod_list, 0, "s/l.jsonl", "1\n[2]\n4\n", "0=1 1=[2] 2=4" },
	{ rename_list, 0, "s/m.jsonl", "1\n[2]\n4\n", "0=1 1=[2] 2=4" },
	{ save_same, -ESTALE, "s/l.jsonl", "1\n2\n3\n4\n", "0=1 1=2 2=3 3=4" },
	{ save_longer, -ESTALE, "s/l.jsonl", "1\n2\n3\n4\n[5]\n", "0=1 1=2 2=3 3=4 4=[5]" },
	{ save_end, -ESTALE, "s/l.jsonl", "1\n2\n3\n[4]\n", "0=1 1=2 2=3 3=[4]" },
	{ unlink_list, -ESTALE, NULL, NULL, "" },
	{ rename_over_list, -ESTALE, "s/l.jsonl", "1\n2\n3\n4\n", "0=1 1=2 2=3 3=4" },
	{ compact_front, -ESTALE, "s/l.jsonl", "[1]\n3\n4\n", "0=[1] 1=3 2=4" },
	{ compact_end, -ESTALE, "s/l.jsonl", "1\n2\n3\n[4]\n", "0=1 1=2 2=3 3=[4]" },
};

static int synced(struct handle *compactor)
{
	int r = handle_sync(world_tree, compactor);

	handle_free(world_tree, compactor);
	return r;
}

/* On both mounts; path NULL: there is none. */
static void expect_list(size_t i, const char *path, const char *content, const char *rows)
{
	for (int n = 0; n < 2; n++) {
		ON(n) many_settle_here();
		if (path)
			cr_expect_str_eq(content_of(path), content, "%zu", i);
		else
			cr_expect_eq(looked_up("s/l.jsonl"), -ENOENT, "%zu", i);
	}
	cr_expect_str_eq(rows_of("s", path ? (char[]){ path[2], '\0' } : "l"), rows, "%zu", i);
	world_check();
	if (path)
		cr_expect_eq(unlinked(path), 0);
	many_settle();
	cr_expect_str_eq(keys(), "", "%zu", i);
}

static void meet(size_t i, int publish(struct handle *compactor))
{
	struct handle *compactor;
	int r;

	ON(1) save("s/l.jsonl", "1\n2\n3\n4\n");
	ON(0) compactor = compacting("s/@items=1-2/l.jsonl", "[2]\n");
	many_meanwhile(0, 1, meets[i].fn);
	ON(0) r = publish(compactor);
	cr_expect_eq(r, meets[i].r, "%zu: %s", i, strerror(-r));
	expect_list(i, meets[i].path, meets[i].content, meets[i].rows);
}

Many(a_compaction_is_whole_or_not_at_all_whatever_comes_between)
{
	for (size_t i = 0; i < ARRAY_SIZE(meets); i++) {
		meet(i, compacted);
		meet(i, synced);
	}
}

static void begin_torn(void)
{
	append("s/l.jsonl", "{\"half\":");
}

static void end_torn(void)
{
	append("s/l.jsonl", "1}\n");
}

static void begin_rename_over(void)
{
	save("s/n.jsonl", "7\n8\n");
}

static void end_rename_over(void)
{
	cr_expect_eq(renamed("s/n.jsonl", "s/l.jsonl", 0), 0);
}

static void begin_over_other(void)
{
	save("s/m.jsonl", "7\n8\n");
}

static struct handle *amid_handle;

static void begin_compaction(void)
{
	amid_handle = compacting("s/@first=2/l.jsonl", "[1]\n");
}

static void refused_compaction(void)
{
	cr_expect_eq(compacted(amid_handle), -ESTALE);
}

static void begin_appender(void)
{
	amid_handle = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	append_to(amid_handle, "5\n[");
}

static void end_appender(void)
{
	append_to(amid_handle, "6]\n");
	close_handle(amid_handle);
}

/* What the other is about to commit while the items 1 and 2 of four are compacted. */
static const struct {
	many_fn *begin;
	many_fn *fn;
	const char *path;
	const char *content;
	const char *rows;
} amid[] = {
	{ NULL, append_two, "s/l.jsonl", "1\n[2]\n4\n5\n6\n", "0=1 1=[2] 2=4 3=5 4=6" },
	{ NULL, begin_torn, "s/l.jsonl", "1\n[2]\n4\n{\"half\":", "0=1 1=[2] 2=4" },
	{ begin_torn, end_torn, "s/l.jsonl", "1\n[2]\n4\n{\"half\":1}\n",
	  "0=1 1=[2] 2=4 3={\"half\":1}" },
	{ begin_appender, end_appender, "s/l.jsonl", "1\n[2]\n4\n5\n[6]\n",
	  "0=1 1=[2] 2=4 3=5 4=[6]" },
	{ NULL, save_same, "s/l.jsonl", "1\n2\n3\n4\n", "0=1 1=2 2=3 3=4" },
	{ NULL, save_longer, "s/l.jsonl", "1\n2\n3\n4\n[5]\n", "0=1 1=2 2=3 3=4 4=[5]" },
	{ NULL, chmod_list, "s/l.jsonl", "1\n[2]\n4\n", "0=1 1=[2] 2=4" },
	{ NULL, rename_list, "s/m.jsonl", "1\n[2]\n4\n", "0=1 1=[2] 2=4" },
	{ begin_over_other, rename_list, "s/m.jsonl", "1\n[2]\n4\n", "0=1 1=[2] 2=4" },
	{ begin_rename_over, end_rename_over, "s/l.jsonl", "7\n8\n", "0=7 1=8" },
	{ NULL, unlink_list, NULL, NULL, "" },
	{ begin_compaction, refused_compaction, "s/l.jsonl", "1\n[2]\n4\n", "0=1 1=[2] 2=4" },
};

static struct handle *two_to_one;

static void compact_two(void)
{
	cr_expect_eq(compacted(two_to_one), 0);
}

Many(what_a_compaction_comes_into_the_middle_of_is_as_if_it_had_come_behind_it)
{
	for (size_t i = 0; i < ARRAY_SIZE(amid); i++) {
		ON(0) save("s/l.jsonl", "1\n2\n3\n4\n");
		ON(0) two_to_one = compacting("s/@items=1-2/l.jsonl", "[2]\n");
		ON(1) if (amid[i].begin) amid[i].begin();
		many_meanwhile(1, 0, compact_two);
		ON(1) amid[i].fn();
		cr_expect(!many_forget_meanwhile(), "%zu", i);
		expect_list(i, amid[i].path, amid[i].content, amid[i].rows);
	}
}

/* As many lines as are committed in several blocks. */
static void compact_many(many_fn *meanwhile, int expected, const char *end)
{
	enum { LINES = 3000 };
	static char lines[LINES * 8], content[sizeof(lines) + 100];
	struct handle *compactor;
	size_t used = 0;

	for (int i = 0; i < LINES; i++)
		used += (size_t)sprintf(lines + used, "%d\n", i);
	ON(1) save("s/l.jsonl", "1\n2\n3\n4\n");
	ON(0) compactor = compacting("s/@items=1-2/l.jsonl", lines);
	many_meanwhile(0, 1, meanwhile);
	ON(0) cr_expect_eq(compacted(compactor), expected);
	sprintf(content, "1\n%s%s", expected == 0 ? lines : "2\n3\n", end);
	for (int n = 0; n < 2; n++) {
		ON(n) cr_expect_str_eq(content_of("s/l.jsonl"), content);
	}
	world_check();
	cr_expect_eq(unlinked("s/l.jsonl"), 0);
	many_settle();
	cr_expect_str_eq(keys(), "");
}

Many(a_compaction_to_many_lines_is_whole_or_not_at_all)
{
	compact_many(append_two, 0, "4\n5\n6\n");
	compact_many(save_end, -ESTALE, "[4]\n");
	compact_many(compact_end, -ESTALE, "[4]\n");
}

static void sql_appends(void)
{
	sql_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "VALUES ('s', 'l', 3, '4')");
}

static void sql_saves(void)
{
	sql_runs("UPDATE agentscope_sessions SET state_data = '[3]' WHERE item_index = 2");
}

Test(many, a_compaction_meets_another_program)
{
	struct handle *compactor;

	many_open(WORLD_SQLITE, 2);
	ON(1) save("s/l.jsonl", "1\n2\n3\n");
	ON(0) compactor = compacting("s/@items=0-1/l.jsonl", "[1]\n");
	many_meanwhile(0, 1, sql_saves);
	ON(0) cr_expect_eq(compacted(compactor), -ESTALE);
	ON(0) cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=[3]");
	ON(0) compactor = compacting("s/@items=0-1/l.jsonl", "[1]\n");
	many_meanwhile(0, 1, sql_appends);
	ON(0) cr_expect_eq(compacted(compactor), 0);
	ON(1) cr_expect_str_eq(content_of("s/l.jsonl"), "[1]\n[3]\n4\n");
	ON(1) cr_expect_str_eq(rows_of("s", "l"), "0=[1] 1=[3] 2=4");
	many_close();
}

static void chmod_it(void)
{
	const struct stat mode = { .st_mode = 0600 };

	cr_expect_eq(set_attr("s/o", &mode, TREE_SET_MODE), 0);
}

Many(writing_and_chmod_undo_nothing_of_each_other)
{
	struct handle *handle;

	ON(0) save("s/o", "text");
	ON(0) handle = open_at("s/o", O_WRONLY);
	ON(1) cr_expect_eq(stat_of("s/o").st_size, 4);
	many_meanwhile(0, 1, chmod_it);
	ON(0) write_at(handle, 2, BYTES("XTRA"));
	ON(0) close_handle(handle);
	ON(1) cr_expect_eq(stat_of("s/o").st_mode & 07777, 0600);
	ON(1) cr_expect_str_eq(content_of("s/o"), "teXTRA");
}

static void date_it(const char *path)
{
	struct inode *inode = inode_at(path);

	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES("user.sessfs.dates"),
				    BYTES("1000000000"), 0),
		     0);
	forget(inode);
}

static void date_next(void)
{
	date_it("s/next");
}

static int64_t updated_at(struct bytes key)
{
	struct backend_snapshot *snapshot;
	struct backend_key_stat stat = { 0 };

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_expect_eq(world_store->ops->key_stat(world_store, snapshot, BYTES("s"), key, &stat), 0);
	world_store->ops->snapshot_end(world_store, snapshot);
	return stat.updated;
}

/* A mount that has made the file knows of no such attribute until it hears of it. */
Many(rows_are_dated_as_any_mount_has_said)
{
	struct handle *handle;

	ON(0) handle = open_at("s/file", O_WRONLY | O_CREAT);
	ON(0) write_at(handle, 0, BYTES("1"));
	ON(1) date_it("s/file");
	ON(0) cr_expect_eq(renamed("s/file", "s/k.json", 0), 0);
	ON(0) cr_expect_eq(updated_at(BYTES("k")), 1000000000);
	ON(0) close_handle(handle);
	ON(0) handle = open_at("s/next", O_WRONLY | O_CREAT);
	ON(0) write_at(handle, 0, BYTES("1"));
	many_meanwhile(0, 1, date_next);
	ON(0) cr_expect_eq(renamed("s/next", "s/n.json", 0), 0);
	ON(0) cr_expect_eq(updated_at(BYTES("n")), 1000000000);
	ON(0) close_handle(handle);
	ON(0) handle = open_at("s/own", O_WRONLY | O_CREAT);
	ON(0) write_at(handle, 0, BYTES("1"));
	ON(0) date_it("s/own");
	ON(0) cr_expect_eq(renamed("s/own", "s/o.json", 0), 0);
	ON(0) cr_expect_eq(updated_at(BYTES("o")), 1000000000);
	ON(0) close_handle(handle);
}

static _Atomic unsigned forgotten;

static bool count_forgotten(void *arg, uint64_t nodeid, int64_t offset)
{
	(void)arg;
	(void)nodeid;
	(void)offset;
	forgotten++;
	return true;
}

/* The tree's own threads take nothing in until this is unlocked. */
static pthread_mutex_t *take_turn(void)
{
	struct tree *tree = world_tree;

	pthread_mutex_lock(&tree->turn);
	tree_write_lock(tree);
	tree_write_unlockp(&tree);
	return &world_tree->turn;
}

static void wait_for_notices(void)
{
	many_use(0);
	while (tree_is_notifying(world_tree))
		usleep(100);
	cr_expect_gt(forgotten, 0);
	many_use(1);
}

/* Who comes meanwhile, and has the changes of other programs wait, goes on with what memory has. */
Test(many, the_kernel_is_told_of_what_was_digested_before_anything_is_committed)
{
	const struct tree_watcher watcher = { .forget = count_forgotten }, nobody = { 0 };
	pthread_mutex_t *held[2];
	struct inode *known;

	many_open(WORLD_SQLITE, 2);
	ON(0) save("s/k.json", "1");
	ON(0) save("s/o", "text");
	ON(1) cr_expect_str_eq(content_of("s/o"), "text");
	many_settle();
	ON(0) known = inode_at("s/o");
	ON(0) cr_expect_eq(stat_of_inode(known).st_size, 4);
	for (int i = 0; i < 2; i++) {
		ON(i) held[i] = take_turn();
	}
	ON(1) save("s/o", "more text");
	ON(0) while (tree_is_notifying(world_tree)) usleep(100);
	ON(0) tree_set_watcher(world_tree, &watcher);
	sql_runs("UPDATE agentscope_sessions SET state_data = '2'");
	many_meanwhile(0, 1, wait_for_notices);
	ON(0) cr_expect_eq(tree_reconcile(world_tree), 0);
	for (int i = 0; i < 2; i++)
		pthread_mutex_unlock(held[i]);
	ON(0) tree_set_watcher(world_tree, &nobody);
	ON(0) forget(known);
	many_close();
}

static bool kernel_knows;

static bool is_known(void *arg, uint64_t nodeid, int64_t offset)
{
	(void)arg, (void)nodeid, (void)offset;
	forgotten++;
	return kernel_knows;
}

/* The answer by which it comes to know a file may have been made before the file was changed. */
Many(of_a_change_that_the_kernel_did_not_know_it_is_told_before_the_file_is_used)
{
	const struct tree_watcher watcher = { .forget = is_known }, nobody = { 0 };
	struct handle *handle;
	struct inode *known;
	struct shown shown;

	ON(0) save("s/o", "text");
	ON(0) known = inode_at("s/o");
	ON(0) cr_assert_eq(tree_enter(world_tree, known, FACE_ANY, getpid(), &shown), 0);
	ON(0) handle = open_at("s/o", O_RDONLY);
	forgotten = 0;
	kernel_knows = false;
	/* Before the other's save, which the tree may take in by itself. */
	ON(0) tree_set_watcher(world_tree, &watcher);
	ON(1) save("s/o", "more text");
	ON(0) cr_expect_eq(world_tree->take_in(world_tree), 0);
	ON(0) while (tree_is_notifying(world_tree)) usleep(100);
	cr_expect_gt(forgotten, 0);
	forgotten = 0;
	ON(0) handle_lock_granted(world_tree, handle);
	cr_expect_gt(forgotten, 0);
	forgotten = 0;
	kernel_knows = true;
	ON(0) tree_tell_missed(world_tree, known->ino);
	cr_expect_gt(forgotten, 0);
	forgotten = 0;
	ON(0) tree_tell_missed(world_tree, known->ino);
	cr_expect_eq(forgotten, 0);
	ON(0) tree_set_watcher(world_tree, &nobody);
	ON(0) close_handle(handle);
	ON(0) forget(known);
}

/* A thread looks a name up when it is told, and then opens what it has found, or nothing. */
Many(who_has_come_by_one_name_that_is_gone_is_told_so_of_the_next)
{
	static const char *const paths[] = { "s/a", "s/b", "s/c" };
	const struct stat mode = { .st_mode = 0600 };
	struct set_attr set = { .pid = 7, .st = &mode, .mask = TREE_SET_MODE };
	struct inode *known[ARRAY_SIZE(paths)];
	struct shown shown;
	struct stat now;
	bool own;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		ON(0) save(paths[i], "text");
		ON(1) known[i] = inode_at(paths[i]);
		ON(0) cr_expect_eq(unlinked(paths[i]), 0);
	}
	ON(1) cr_expect_eq(world_tree->take_in(world_tree), 0);
	cr_expect(tree_was_left(world_tree, known[0], known[0]->ino, O_RDONLY, 7));
	cr_expect_eq(looked_up("s/a"), -ENOENT);
	tree_found(world_tree, 7, NULL);
	cr_expect(tree_was_left(world_tree, known[1], known[1]->ino, O_WRONLY, 7));
	cr_expect_not(tree_was_left(world_tree, known[1], known[1]->ino, O_WRONLY, 7));
	cr_expect_eq(tree_set_attr(world_tree, known[1], &set, &now, &own), 0);
	cr_expect(tree_was_left(world_tree, known[2], known[2]->ino, O_RDONLY, 7));
	/* The name leads nowhere and then, when it is looked up once more, to another file. */
	tree_found(world_tree, 7, NULL);
	cr_assert_eq(tree_enter(world_tree, known[1], FACE_ANY, 7, &shown), 0);
	cr_expect_not(tree_was_left(world_tree, known[1], shown.nodeid, O_RDONLY, 7));
	cr_expect(tree_was_left(world_tree, known[0], known[0]->ino, O_RDONLY, 7));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		forget(known[i]);
}

/* The kernel may be told very late that a name leads elsewhere. */
Many(a_name_that_was_taken_from_a_file_never_leads_to_it_again)
{
	const struct timespec pause = { .tv_sec = 1, .tv_nsec = 200000000 };
	struct shown before, after;
	struct inode *inode;

	ON(0) save("s/tmp", "text");
	ON(1) before = kernel_looks_up("s/tmp");
	ON(0) cr_assert_eq(renamed("s/tmp", "s/o.txt", 0), 0);
	ON(1) cr_expect_eq(world_tree->take_in(world_tree), 0);
	nanosleep(&pause, NULL);
	inode = inode_at("s/o.txt");
	cr_expect(tree_was_left(world_tree, inode, before.nodeid, O_WRONLY | O_TRUNC, 7));
	after = kernel_looks_up("s/o.txt");
	cr_expect_not(tree_was_left(world_tree, inode, after.nodeid, O_WRONLY | O_TRUNC, 8));
	forget(inode);
	kernel_forgets("s/o.txt", &before);
	kernel_forgets("s/o.txt", &after);
}

static void stay_silent(int level, const char *sentence)
{
	(void)level;
	(void)sentence;
}

/* Whichever call fails when this is heard of: the next one may as well succeed. */
Test(many, a_file_that_is_open_stays_though_its_removal_is_heard_of_by_a_second_try_alone)
{
	enum { CALLS = 12 };
	struct handle *handle;

	log_set_sink(stay_silent);
	world_wrap(fault_backend_open);
	many_open(WORLD_MEMORY, 2);
	for (uint64_t count = 1; count <= CALLS; count++) {
		ON(0) save("s/o.txt", "text");
		ON(1) handle = open_at("s/o.txt", O_RDONLY);
		ON(0) cr_assert_eq(unlinked("s/o.txt"), 0);
		ON(1) fault_backend_set(world_store, count, -EBUSY, false);
		(void)looked_up("s/o.txt");
		fault_backend_set(world_store, 0, 0, false);
		many_settle();
		ON(1) cr_expect_str_eq(read_by(handle), "text", "call %d", (int)count);
		close_handle(handle);
	}
	many_close();
}

/* One of them is on duty. */
static void delete_unused(void)
{
	for (int i = 0; i < 3; i++) {
		ON(i) many_reap_here();
	}
}

/* With a file that mount 1 has open, or has looked up: mount 0 unlinks it, what nobody has in use
 * is deleted, mount 1 hears of it, in any order. */
enum { UNLINKS, DELETES, HEARS, STEPS };

static void step(int what)
{
	ON(what == HEARS)
	if (what == UNLINKS)
		cr_assert_eq(unlinked("s/o.txt"), 0);
	else if (what == DELETES)
		delete_unused();
	else
		cr_assert_eq(world_tree->take_in(world_tree), 0);
}

static void unlink_in_order(int first, int second, bool opens)
{
	const int third = STEPS - first - second;
	struct handle *handle = NULL;
	struct inode *inode;
	int r;

	ON(0) save("s/o.txt", "text");
	ON(1) inode = inode_at("s/o.txt");
	if (opens)
		handle = open_inode(inode, O_RDWR);
	step(first);
	step(second);
	ON(1)
	r = handle ? 0 : tree_open_file(world_tree, inode, FACE_ANY, O_RDWR, getpid(), &handle);
	step(third);
	step(DELETES);
	ON(1)
	if (r == 0) {
		cr_expect_str_eq(read_by(handle), "text", "%d %d", first, second);
		write_at(handle, 0, BYTES("TE"));
		step(DELETES);
		ON(1) cr_expect_str_eq(read_by(handle), "TExt", "%d %d", first, second);
		close_handle(handle);
	}
	cr_expect(r == 0 || (!opens && r == -ESTALE && (first == UNLINKS || second == UNLINKS)),
		  "%d %d: %d", first, second, r);
	ON(1) forget(inode);
	many_settle();
	cr_expect_eq(many_orphans(), 0, "%d %d", first, second);
}

ParameterizedTestParameters(many, a_file_that_is_open_is_deleted_by_nobody)
{
	return every_kind();
}

ParameterizedTestParameters(many, a_file_without_a_name_is_deleted_by_nobody_before_it_is_open)
{
	return every_kind();
}

ParameterizedTest(const int *kind, many, a_file_that_is_open_is_deleted_by_nobody)
{
	many_open(*kind, 3);
	for (int first = 0; first < STEPS; first++)
		for (int second = 0; second < STEPS; second++)
			for (int opens = 0; opens < 2 && first != second; opens++)
				unlink_in_order(first, second, opens);
	many_close();
}

/* Each of the mounts is on duty once, which a mount of a memory store always is. */
ParameterizedTest(const int *kind, many,
		  a_file_without_a_name_is_deleted_by_nobody_before_it_is_open)
{
	const struct caller caller = { 0 };
	struct handle *handle;
	struct inode *dir, *inode;

	many_open(*kind, 3);
	for (int maker = 0; maker < 3; maker++) {
		ON(maker) dir = inode_at("s");
		cr_assert_eq(tree_make_nameless(world_tree, &caller, dir, S_IFREG | 0600, &inode),
			     0);
		delete_unused();
		ON(maker) handle = open_inode(inode, O_RDWR);
		forget(inode);
		write_at(handle, 0, BYTES("text"));
		delete_unused();
		ON(maker) cr_expect_str_eq(read_by(handle), "text");
		cr_expect_eq(many_orphans(), 1);
		close_handle(handle);
		forget(dir);
		many_settle();
		cr_expect_eq(many_orphans(), 0);
	}
	many_close();
}

static struct inode *made;
static struct handle *opened;
static int open_result;

static void open_made(void)
{
	open_result = tree_open_file(world_tree, made, FACE_ANY, O_RDWR, getpid(), &opened);
}

/* Who was about to delete it has seen that nobody has it in use. */
Many(a_file_that_is_opened_while_it_is_about_to_be_deleted_stays)
{
	static const struct tree_new what = { .mode = S_IFREG | 0644, .will_open = true };
	const struct caller caller = { 0 };
	struct inode *dir;

	for (int maker = 0; maker < 2; maker++) {
		ON(maker) dir = inode_at("s");
		cr_assert_eq(tree_make(world_tree, &caller, dir, BYTES("o.txt"), &what, &made), 0);
		ON(!maker) cr_assert_eq(unlinked("s/o.txt"), 0);
		ON(maker) cr_assert_eq(world_tree->take_in(world_tree), 0);
		open_result = 1;
		many_meanwhile(!maker, maker, open_made);
		ON(!maker) many_reap_here();
		ON(maker)
		if (many_forget_meanwhile())
			open_made(); /* the other one is not on duty */
		cr_assert_eq(open_result, 0);
		write_at(opened, 0, BYTES("text"));
		ON(!maker) many_reap_here();
		ON(maker) cr_expect_str_eq(read_by(opened), "text");
		cr_expect_eq(many_orphans(), 1);
		close_handle(opened);
		forget(made);
		forget(dir);
		many_settle();
		cr_expect_eq(many_orphans(), 0);
	}
}

/* A ghost belongs to its mount, unless that does not end it for long. */
Test(many, rows_of_a_file_that_was_just_unlinked_are_left_to_the_mount_that_has)
{
	int64_t unlinked_at;
	int duty;

	many_open(WORLD_SQLITE, 2);
	ON(1) duty = backend_on_duty(world_store);
	ON(!duty) append("s/l.jsonl", "1\n2\n");
	sql_runs("UPDATE agentscope_sessions SET created_at = '2001-01-01'");
	cr_assert_eq(world_tree->take_in(world_tree), 0);
	unlinked_at = tick_now();
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	ON(duty) many_reap_here();
	ON(!duty) save("s/l.jsonl", "1\n2\n3\n");
	if (tick_now() - unlinked_at < 250000000)
		cr_expect_str_eq(sql_asks("SELECT count(*) FROM agentscope_sessions WHERE "
					  "created_at = '2001-01-01'"),
				 "2");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	sql_runs("UPDATE sessfs_node SET ctime = 0 WHERE nlink = 0");
	ON(duty) many_reap_here();
	cr_expect_eq(many_orphans(), 0);
	cr_expect_str_eq(rows_of("s", "l"), "");
	ON(!duty) cr_expect_eq(looked_up("s/l.jsonl"), -ENOENT);
	many_close();
}

static void add_row(void)
{
	sql_adds("2", "3");
}

/* Who is about to delete it has seen that nobody else has changed the rows. */
Test(many, rows_that_are_added_while_an_unlinked_file_is_about_to_be_deleted_stay)
{
	int64_t unlinked_at;
	int duty;

	many_open(WORLD_SQLITE, 2);
	ON(1) duty = backend_on_duty(world_store);
	ON(!duty) append("s/l.jsonl", "1\n2\n");
	unlinked_at = tick_now();
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	sql_runs("UPDATE sessfs_node SET ctime = 0 WHERE nlink = 0");
	many_meanwhile(duty, !duty, add_row);
	ON(duty) many_reap_here();
	if (many_forget_meanwhile())
		cr_assert_gt(tick_now() - unlinked_at, 250000000, "it is not about to be deleted");
	else
		cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3");
	ON(!duty) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	many_close();
}

/* Mount 1 is killed when it has unlinked a list that mount 0 knows, or has open. */
static void unlink_and_die(bool opens)
{
	struct handle *handle;
	struct inode *inode;

	many_open(WORLD_SQLITE, 2);
	ON(1) append("s/l.jsonl", "1\n2\n");
	ON(0) inode = inode_at("s/l.jsonl");
	handle = opens ? open_inode(inode, O_RDONLY) : NULL;
	ON(1) cr_assert_eq(unlinked("s/l.jsonl"), 0);
	sql_runs("UPDATE sessfs_node SET ctime = 0 WHERE nlink = 0");
	many_kill_last();
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(world_tree->take_in(world_tree), 0);
		many_reap_here();
	}
	cr_expect_eq(many_orphans(), 1);
	if (handle) {
		cr_expect_str_eq(read_by(handle), "1\n2\n");
		close_handle(handle);
	}
	forget(inode);
	/* Threads of the tree may still look at it. */
	for (int i = 0; i < 1000 && many_orphans(); i++) {
		usleep(1000);
		many_reap_here();
	}
	cr_expect_eq(many_orphans(), 0);
	cr_expect_str_eq(rows_of("s", "l"), "");
	many_close();
}

Test(many, rows_of_a_mount_that_was_killed_go_when_who_is_left_closes_the_file)
{
	unlink_and_die(true);
}

Test(many, rows_of_a_mount_that_was_killed_go_when_who_is_left_forgets_the_file)
{
	unlink_and_die(false);
}

/* The clock of the mount on duty is ahead: to it a file that was just unlinked is one that nobody
 * ends. */
static void reap_ahead(void)
{
	enum { HOUR = 3600 };

	clock_set_back = -HOUR;
	many_reap_here();
	clock_set_back = 0;
}

static void written_again_in_order(int duty, const char *order)
{
	char before = 0;

	ON(!duty) append("s/l.jsonl", "1\n2\n");
	ON(duty) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	for (; *order; before = *order++) {
		ON(*order == 'R' || *order == 'H' ? duty : !duty)
		if (*order == 'U')
			cr_assert_eq(unlinked("s/l.jsonl"), 0);
		else if (*order == 'S')
			save("s/l.jsonl", "1\n2\n3\n");
		else if (*order == 'E')
			world_settle();
		else if (*order == 'R')
			reap_ahead();
		else if (*order == 'H')
			cr_assert_eq(world_tree->take_in(world_tree), 0);
		if (*order == 'R' && before == 'U')
			cr_expect_eq(many_orphans(), 0);
	}
	for (int i = 0; i < 2; i++) {
		ON(i) cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
		cr_expect_str_eq(names_in("s"), "l.jsonl");
	}
	ON(!duty) cr_assert_eq(unlinked("s/l.jsonl"), 0);
	many_settle();
	cr_expect_eq(many_orphans(), 0);
}

Many(a_list_that_is_written_again_is_whole_whoever_ends_the_old_one)
{
	static const char *const orders[] = { "USERH", "USREH", "USRHE", "URSEH", "URSHE",
					      "URHSE", "RUSEH", "RUSHE", "RUHSE", "RHUSE" };
	int duty;

	ON(1) duty = backend_on_duty(world_store);
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		written_again_in_order(duty, orders[i]);
}

Many(a_file_that_another_has_unlinked_is_opened_by_nobody)
{
	struct handle *handle;
	struct inode *inode;

	ON(0) save("s/o.txt", "text");
	ON(1) inode = inode_at("s/o.txt");
	ON(0) cr_assert_eq(unlinked("s/o.txt"), 0);
	ON(1) cr_assert_eq(world_tree->take_in(world_tree), 0);
	cr_expect_eq(tree_open_file(world_tree, inode, FACE_ANY, O_RDONLY, getpid(), &handle),
		     -ESTALE);
	forget(inode);
}

/* Otherwise the kernel would make it once more. */
Many(a_file_that_is_unlinked_is_opened_by_who_has_just_made_it)
{
	static const char *const paths[] = { "s/o.txt", "s/l.jsonl", "s/k.json" };
	static const struct tree_new what = { .mode = S_IFREG | 0644, .will_open = true };
	const struct caller caller = { 0 };
	struct handle *handle;
	struct inode *dir, *inode;

	ON(1) dir = inode_at("s");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(paths); i++) {
		const char *path = paths[i / 2];

		ON(1)
		cr_assert_eq(tree_make(world_tree, &caller, dir, bytes_str(path + 2), &what,
				       &inode),
			     0);
		ON(i % 2) cr_assert_eq(unlinked(path), 0);
		ON(1) cr_assert_eq(world_tree->take_in(world_tree), 0);
		cr_assert_eq(tree_open_file(world_tree, inode, FACE_ANY, O_RDWR, getpid(), &handle),
			     0, "%s by %d", path, (int)i % 2);
		forget(inode);
		write_at(handle, 0, BYTES("1\n"));
		cr_expect_str_eq(read_by(handle), "1\n", "%s by %d", path, (int)i % 2);
		close_handle(handle);
		ON(0) save("s/next.json", "1"); /* who has digested this has all before */
		many_settle();
		cr_expect_eq(looked_up(path), -ENOENT, "%s by %d", path, (int)i % 2);
		cr_expect_eq(many_orphans(), 0, "%s by %d", path, (int)i % 2);
	}
	ON(1) forget(dir);
}

/* A mount that is alone has buffered "AAAA" over "aaaaaaaa"; another one comes and does something.
 * The buffered bytes are written behind that, or before it where that comes late. */
static void come_beside_buffered(void does(void), const char *expected, const char *expected_late)
{
	static const struct tree_options options = { 0 };
	struct backend *first_store, *second_store;
	struct tree *first, *second;
	struct handle *handle;
	const char *content;

	world_shared = true;
	world_open(WORLD_MEMORY);
	make_dir("s");
	handle = open_at("s/o.txt", O_RDWR | O_CREAT);
	write_at(handle, 0, BYTES("aaaaaaaa"));
	write_at(handle, 0, BYTES("AAAA"));
	first = world_tree;
	first_store = world_store;
	second_store = world_join();
	cr_assert_eq(tree_open(second_store, &options, &second, NULL), 0);
	world_tree = second;
	world_store = second_store;
	does();
	world_tree = first;
	world_store = first_store;
	close_handle(handle);
	content = content_of("s/o.txt");
	if (strcmp(content, expected_late) != 0)
		cr_expect_str_eq(content, expected);
	world_tree = second;
	world_store = second_store;
	tree_close(second);
	world_tree = first;
	world_store = first_store;
	world_close();
}

static void write_behind(void)
{
	struct handle *handle = open_at("s/o.txt", O_WRONLY);

	write_at(handle, 8, BYTES("bbbb"));
	close_handle(handle);
}

static void cut_off(void)
{
	const struct stat st = { .st_size = 2 };

	cr_assert_eq(set_attr("s/o.txt", &st, TREE_SET_SIZE), 0);
}

Test(many, bytes_that_who_has_come_writes_stay_beside_those_that_were_buffered)
{
	come_beside_buffered(write_behind, "AAAAaaaabbbb", "AAAAaaaabbbb");
}

Test(many, bytes_that_who_has_come_cuts_off_do_not_come_back_with_those_that_were_buffered)
{
	come_beside_buffered(cut_off, "AAAA", "AA");
}
