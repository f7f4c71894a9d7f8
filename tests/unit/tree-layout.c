/* SPDX-License-Identifier: MIT */

/* Stores with a layout: what files are by their paths, whatever moves, goes or comes by SQL. */

#include <stdio.h>
#include <string.h>

#include "fs/api/layout.h"
#include "fs/api/settings.h"
#include "fs/api/trash.h"
#include "fs/base/batch.h"
#include "fs/base/layout.h"
#include "fs/inode/tree.h"
#include "fs/share/share.h"
#include "tests/unit/world.h"

static void open_with(int kind, const char *layouts)
{
	uint64_t set;

	world_open(kind);
	cr_assert_eq(layouts_parse(layouts, &set), 0);
	cr_assert_eq(layout_begin(world_store, set), 0);
	world_reopen();
	cr_assert_eq(world_tree->layout, set);
}

#define EveryLayout(name, layouts)                                                                 \
	static void name##_body(void);                                                             \
	ParameterizedTestParameters(tree_layout, name)                                             \
	{                                                                                          \
		return every_kind();                                                               \
	}                                                                                          \
	ParameterizedTest(const int *kind, tree_layout, name)                                      \
	{                                                                                          \
		open_with(*kind, layouts);                                                         \
		name##_body();                                                                     \
		world_close();                                                                     \
	}                                                                                          \
	static void name##_body(void)

static void make_dirs(const char *path)
{
	char part[128];

	for (const char *slash = strchr(path, '/');; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s",
			 slash ? (int)(slash - path) : (int)strlen(path), path);
		if (looked_up(part) == -ENOENT)
			make_dir(part);
		if (!slash)
			break;
	}
}

/* Another program adds a row. */
static void add_row(const char *session, const char *key, int64_t index, const char *data)
{
	struct backend_op op = { .type = BACKEND_ROW_PUT,
				 .session = bytes_str(session),
				 .key = bytes_str(key),
				 .at = index,
				 .data = bytes_str(data) };

	cr_assert_eq(backend_commit(world_store, &op, 1, BACKEND_ANYWAY), 0);
}

EveryLayout(files_have_the_rows_of_their_paths, "agentscope2+pi")
{
	make_dirs("alice/s/sub");
	make_dirs("pi/sessions/p");
	save("alice/s/k.json", "1");
	save("alice/s/sub/l.jsonl", "2\n");
	save("alice/top.json", "3");
	save("pi/sessions/p/x.jsonl", "4\n5\n");
	save("pi/sessions/p/x.json", "6");

	cr_expect_str_eq(keys(), "alice:s/k[0-0] alice:s/sub/l[0-0] pi:p:x/transcript[0-1]");
	cr_expect_str_eq(content_of("alice/top.json"), "3");
	world_reopen();
	cr_expect_str_eq(content_of("pi/sessions/p/x.jsonl"), "4\n5\n");
	append("pi/sessions/p/x.jsonl", "7\n");
	cr_expect_str_eq(rows_of("pi:p:x", "transcript"), "0=4 1=5 2=7");
}

EveryLayout(what_is_moved_becomes_what_its_path_says, "agentscope2+pi")
{
	make_dirs("alice/s");
	make_dirs("pi/sessions/p");
	make_dirs("pi/sessions/q");
	save("alice/s/l.jsonl", "1\n");

	cr_assert_eq(renamed("alice/s/l.jsonl", "pi/sessions/p/l.jsonl", 0), 0);
	cr_expect_str_eq(keys(), "pi:p:l/transcript[0-0]");
	cr_assert_eq(renamed("pi/sessions/p/l.jsonl", "alice/l.jsonl", 0), 0);
	cr_expect_str_eq(keys(), "");
	cr_assert_eq(renamed("alice/l.jsonl", "pi/sessions/p/l.jsonl", 0), 0);
	save("pi/sessions/q/m.jsonl", "2\n");
	cr_assert_eq(renamed("pi/sessions/p", "pi/sessions/q", RENAME_EXCHANGE), 0);
	cr_expect_str_eq(keys(), "pi:p:m/transcript[0-0] pi:q:l/transcript[0-0]");
	cr_expect_str_eq(content_of("pi/sessions/q/l.jsonl"), "1\n");
	/* One that is saved by another name. */
	save("pi/sessions/q/l.jsonl.tmp", "1\n3\n");
	cr_assert_eq(renamed("pi/sessions/q/l.jsonl.tmp", "pi/sessions/q/l.jsonl", 0), 0);
	cr_expect_str_eq(rows_of("pi:q:l", "transcript"), "0=1 1=3");
}

EveryLayout(a_directory_takes_its_sessions_along_or_stays, "agentscope2+pi")
{
	make_dirs("alice/s/sub");
	make_dirs("alice/t");
	make_dirs("bob");
	make_dirs("pi/sessions/p");
	save("alice/s/k.json", "1");
	save("alice/s/sub/k.json", "2");
	save("alice/t/k.json", "3");
	save("pi/sessions/p/x.jsonl", "4\n");

	cr_assert_eq(renamed("alice", "carol", 0), 0);
	cr_expect_str_eq(keys(), "carol:s/k[0-0] carol:s/sub/k[0-0] carol:t/k[0-0] "
				 "pi:p:x/transcript[0-0]");
	cr_assert_eq(renamed("carol/s/sub", "bob/u", 0), 0);
	cr_expect_str_eq(rows_of("bob:u", "k"), "0=2");
	cr_expect_eq(renamed("carol", "bob/v", 0), -EXDEV);
	cr_expect_eq(renamed("carol/s", "dave", 0), -EXDEV);
	cr_expect_eq(renamed("pi/sessions/p", "bob/v", 0), -EXDEV);
	cr_expect_eq(renamed("pi/sessions", "pi/other", 0), -EXDEV);
	cr_expect_str_eq(keys(), "bob:u/k[0-0] carol:s/k[0-0] carol:t/k[0-0] "
				 "pi:p:x/transcript[0-0]");
	make_dirs("empty");
	cr_assert_eq(renamed("empty", "bob/v", 0), 0);
	save("bob/v/k.json", "5");
	cr_expect_str_eq(rows_of("bob:v", "k"), "0=5");
}

EveryLayout(rows_of_others_have_the_paths_of_their_ids, "agentscope2+pi")
{
	const struct backend_op op = { .type = BACKEND_SETTING,
				       .name = BYTES(BACKEND_UNADOPTED),
				       .data = BYTES("1") };

	add_row("alice:s", "k", 0, "1");
	add_row("alice:s", "sub/k", 0, "2");
	add_row("plain", "k", 0, "3");
	add_row("pi:p:x", "transcript", 0, "4");
	add_row("pi:p:x", "more", 0, "5");
	cr_assert_eq(backend_commit(world_store, &op, 1, BACKEND_ANYWAY), 0);
	world_reopen();

	cr_expect_str_eq(content_of("alice/s/k.json"), "1");
	cr_expect_str_eq(content_of("alice/s/sub/k.json"), "2");
	cr_expect_str_eq(content_of("%/plain/k.json"), "3");
	cr_expect_str_eq(content_of("pi/sessions/p/x.jsonl"), "4\n");
	cr_expect_str_eq(content_of("%/pi:p:x/more.json"), "5");
	save("alice/s/k.json", "6");
	cr_expect_str_eq(rows_of("alice:s", "k"), "0=6");
}

static int keep_id(void *arg, const struct trash_item *item)
{
	*(uint64_t *)arg = item->id;
	return 0;
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

#define UUID "6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9"

EveryLayout(a_session_goes_and_comes_back_with_all_its_homes, "claude")
{
	const char *had = "claude:p:" UUID "/sub/a[0-0] claude:p:" UUID "/transcript[0-1] "
			  "claude:p:x/transcript[0-0]";

	make_dirs("claude/projects/p/" UUID "/sub");
	save("claude/projects/p/" UUID ".jsonl", "1\ntorn\n2\n");
	save("claude/projects/p/" UUID "/sub/a.jsonl", "3\n");
	save("claude/projects/p/" UUID "/b.txt", "4");
	save("claude/projects/p/x.jsonl", "5\n");
	cr_expect_str_eq(keys(), had);

	cr_expect_eq(tree_trash(world_tree, BYTES("claude/projects/p"), INT64_MAX, TRASH_GRACE),
		     -ENOTDIR);
	cr_expect_eq(tree_trash(world_tree, BYTES("claude/projects/p/" UUID "/sub/a.jsonl"),
				INT64_MAX, TRASH_GRACE),
		     -ENOTDIR);
	for (unsigned i = 0; i < 2; i++) {
		struct bytes home = i ? BYTES("claude/projects/p/" UUID) :
					BYTES("claude/projects/p/" UUID ".jsonl");

		cr_assert_eq(tree_trash(world_tree, home, INT64_MAX, TRASH_GRACE), 0);
		cr_expect_str_eq(keys(), "claude:p:x/transcript[0-0]");
		cr_expect_str_eq(names_in("claude/projects/p"), "x.jsonl");
		world_check();
		if (i)
			world_reopen();
		cr_assert_eq(tree_trash_undo(world_tree, last_trashed()), 0);
		cr_expect_str_eq(keys(), had);
		cr_expect_str_eq(content_of("claude/projects/p/" UUID ".jsonl"), "1\ntorn\n2\n");
		cr_expect_str_eq(content_of("claude/projects/p/" UUID "/b.txt"), "4");
		world_check();
	}
	/* The directories above have gone meanwhile, or something else has the name. */
	cr_assert_eq(tree_trash(world_tree, BYTES("claude/projects/p/" UUID), INT64_MAX,
				TRASH_GRACE),
		     0);
	save("claude/projects/p/" UUID ".jsonl", "6\n");
	cr_expect_eq(tree_trash_undo(world_tree, last_trashed()), -EEXIST);
	cr_assert_eq(unlinked("claude/projects/p/" UUID ".jsonl"), 0);
	cr_assert_eq(unlinked("claude/projects/p/x.jsonl"), 0);
	world_settle();
	cr_assert_eq(removed_dir("claude/projects/p"), 0);
	cr_assert_eq(removed_dir("claude/projects"), 0);
	cr_assert_eq(tree_trash_undo(world_tree, last_trashed()), 0);
	cr_expect_str_eq(content_of("claude/projects/p/" UUID "/sub/a.jsonl"), "3\n");
	/* For good. */
	cr_assert_eq(tree_trash(world_tree, BYTES("claude/projects/p/" UUID), INT64_MAX, 0), 0);
	while (last_trashed())
		cr_assert_eq(tree_trash_purge(world_tree, last_trashed()), 0);
	cr_expect_str_eq(keys(), "");
}

static int count_home(void *arg, struct bytes path, const struct backend_node *node)
{
	struct buf *paths = arg;

	(void)node;
	cr_assert_eq(buf_append_bytes(paths, path), 0);
	cr_assert_eq(buf_append_byte(paths, ' '), 0);
	return 0;
}

EveryLayout(each_session_has_one_home_that_is_told, "claude+agentscope2")
{
	_cleanup_(buf_done) struct buf all = { 0 }, parts = { 0 };
	struct homes homes = { .layout = world_tree->layout };
	struct backend_snapshot *snapshot;
	int r = 1;

	make_dirs("alice/s/sub");
	make_dirs("alice/t");
	make_dirs("claude/projects/p/" UUID);
	save("claude/projects/p/" UUID ".jsonl", "1\n");
	save("claude/projects/p/x.jsonl", "2\n");
	save("claude/projects/p/y.jsonl", "");
	world_settle();
	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(home_list(world_store, snapshot, world_tree->layout, count_home, &all), 0);
	while (r > 0)
		r = homes_next(&homes, world_store, snapshot, 1, count_home, &parts);
	cr_assert_eq(r, 0);
	homes_done(&homes);
	world_store->ops->snapshot_end(world_store, snapshot);

	cr_expect_eq(parts.size, all.size, "some at a time are all");
	for (const char *const *path =
		     (const char *const[]){ "alice/s ", "alice/t ", "claude/projects/p/" UUID " ",
					    "claude/projects/p/x.jsonl ",
					    "claude/projects/p/y.jsonl ", NULL };
	     *path; path++)
		cr_expect(memmem(all.data, all.size, *path, strlen(*path)), "%s in %.*s", *path,
			  (int)all.size, all.data);
	cr_expect_not(memmem(all.data, all.size, UUID ".jsonl", 42), "%.*s", (int)all.size,
		      all.data);
}

EveryLayout(a_session_may_live_for_some_time, "pi")
{
	struct inode *inode, *dir;

	make_dirs("pi/sessions/p");
	save("pi/sessions/p/x.jsonl", "1\n");
	save("pi/sessions/p/x.txt", "1");
	inode = inode_at("pi/sessions/p/x.jsonl");
	dir = inode_at("pi/sessions/p");
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES(TRASH_TTL), BYTES("1d"), 0), 0);
	cr_expect_eq(tree_set_xattr(world_tree, dir, BYTES(TRASH_TTL), BYTES("1d"), 0),
		     -EOPNOTSUPP);
	forget(inode);
	forget(dir);
	inode = inode_at("pi/sessions/p/x.txt");
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES(TRASH_TTL), BYTES("1d"), 0),
		     -EOPNOTSUPP);
	forget(inode);
}
