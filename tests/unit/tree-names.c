/* SPDX-License-Identifier: MIT */

/* Names, keys, directories, attributes, and who is known. */

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/unit/world.h"

/* ---- names and keys ---- */

struct key_case {
	const char *path;
	const char *text;
	const char *keys;
};

static const struct key_case key_cases[] = {
	{ "s/k.json", "1", "s/k[0-0]" },
	{ "s/k.jsonl", "1\n2\n", "s/k[0-1]" },
	{ "s/k.hash", "abc", "s/k:_hash[0-0]" },
	{ "s/a/b/k.json", "1", "s/a/b/k[0-0]" },
	{ "s/a/b/k.hash", "x", "s/a/b/k:_hash[0-0]" },
	{ "s/a.b.json", "1", "s/a.b[0-0]" },
	{ "s/.k.json", "1", "s/.k[0-0]" },
	{ "s/\xe6\x97\xa5.json", "1", "s/\xe6\x97\xa5[0-0]" },
	{ "s/a b.json", "1", "s/a b[0-0]" },
	{ "s/k.json.jsonl", "1\n", "s/k.json[0-0]" },
	{ "s/.json", "1", "" },
	{ "s/.jsonl", "1\n", "" },
	{ "s/.hash", "x", "" },
	{ "s/k.txt", "1", "" },
	{ "s/json", "1", "" },
	{ "s/k.JSON", "1", "" },
	{ "s/k.json~", "1", "" },
	{ "k.json", "1", "" },
	{ "k.jsonl", "1\n", "" },
};

EveryStore(tree_names, become_keys)
{
	make_dir("s/a");
	make_dir("s/a/b");
	for (size_t i = 0; i < ARRAY_SIZE(key_cases); i++) {
		const struct key_case *key = &key_cases[i];

		save(key->path, key->text);
		cr_expect_str_eq(keys(), key->keys, "%s: %s", key->path, keys());
		cr_expect_str_eq(content_of(key->path), key->text, "%s", key->path);
		cr_assert_eq(unlinked(key->path), 0);
		world_settle();
	}
}

EveryStore(tree_names, with_equal_keys_are_both_kept_apart)
{
	save("s/k.json", "1");
	save("s/k.jsonl", "2\n3\n");
	save("s/k.hash", "abc");
	cr_expect_str_eq(keys(), "s/k[0-0] s/k.jsonl[0-1] s/k:_hash[0-0]");
	world_reopen();
	cr_expect_str_eq(content_of("s/k.json"), "1");
	cr_expect_str_eq(content_of("s/k.jsonl"), "2\n3\n");

	cr_assert_eq(unlinked("s/k.json"), 0);
	world_settle();
	cr_expect_str_eq(keys(), "s/k.jsonl[0-1] s/k:_hash[0-0]");
	cr_expect_str_eq(content_of("s/k.jsonl"), "2\n3\n");
	cr_expect_str_eq(content_of("s/k.hash"), "abc");
	world_reopen();
	append("s/k.jsonl", "4\n");
	cr_expect_str_eq(rows_of("s", "k.jsonl"), "0=2 1=3 2=4");
}

EveryStore(tree_names, of_sessions_are_directories_at_the_root)
{
	make_dir("t");
	make_dir("a b");
	save("note.txt", "x");
	cr_expect_str_eq(names_in(""), "s t a b note.txt");
	world_reopen();
	cr_expect_str_eq(names_in(""), "s t a b note.txt");
	cr_assert_eq(removed_dir("t"), 0);
	cr_expect_eq(looked_up("t"), -ENOENT);
	world_reopen();
	cr_expect_str_eq(names_in(""), "s a b note.txt");
}

EveryStore(tree_names, that_are_too_long_are_refused)
{
	char path[300] = "s/";

	memset(path + 2, 'x', 255);
	cr_expect_eq(make_file(path, S_IFREG | 0644), 0);
	path[257] = 'x';
	cr_expect_eq(make_file(path, S_IFREG | 0644), -ENAMETOOLONG);
	cr_expect_eq(looked_up(path), -ENAMETOOLONG);
}

EveryStore(tree_names, that_are_there_are_not_made_again)
{
	save("s/k.json", "1");
	cr_expect_eq(make_file("s/k.json", S_IFREG | 0644), -EEXIST);
	cr_expect_eq(make_file("s", S_IFDIR | 0755), -EEXIST);
	cr_expect_eq(open_error("s/k.json", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
	cr_expect_eq(open_error("s/no.json", O_RDONLY), -ENOENT);
	cr_expect_eq(looked_up("s/k.json/x"), -ENOTDIR);
	cr_expect_eq(unlinked("s"), -EISDIR);
	cr_expect_eq(removed_dir("s/k.json"), -ENOTDIR);
	cr_expect_eq(removed_dir("s"), -ENOTEMPTY);
	cr_expect_eq(unlinked("s/no.json"), -ENOENT);
	cr_expect_str_eq(content_of("s/k.json"), "1");
}

EveryStore(tree_names, of_ordinary_files_may_be_several)
{
	save("s/a.txt", "x");
	cr_assert_eq(linked("s/a.txt", "s/b.txt"), 0);
	cr_assert_eq(linked("s/a.txt", "c.json"), 0);
	cr_expect_eq(linked("s/a.txt", "s/b.txt"), -EEXIST);
	cr_expect_eq(linked("s/a.txt", "s/d.json"), -EPERM);
	cr_expect_eq(linked("s", "t"), -EPERM);
	save("s/k.json", "1");
	cr_expect_eq(linked("s/k.json", "s/e.txt"), -EPERM);
	cr_expect_eq(stat_of("s/a.txt").st_nlink, 3);
	cr_expect_eq(stat_of("s/a.txt").st_ino, stat_of("c.json").st_ino);

	cr_assert_eq(unlinked("s/a.txt"), 0);
	save("s/b.txt", "new");
	world_reopen();
	cr_expect_str_eq(content_of("c.json"), "new");
	cr_expect_eq(stat_of("c.json").st_nlink, 2);
	cr_assert_eq(unlinked("s/b.txt"), 0);
	cr_assert_eq(unlinked("c.json"), 0);
}

EveryStore(tree_names, of_files_that_have_several_go_in_any_order)
{
	save("s/a.txt", "a");
	save("s/other.txt", "other");
	cr_assert_eq(linked("s/a.txt", "s/b.txt"), 0);
	cr_assert_eq(unlinked("s/b.txt"), 0);
	world_check();
	cr_assert_eq(linked("s/a.txt", "s/c.txt"), 0);
	cr_assert_eq(renamed("s/other.txt", "s/c.txt", 0), 0);
	world_check();
	world_reopen();
	cr_expect_eq(stat_of("s/a.txt").st_nlink, 1);
	cr_expect_str_eq(content_of("s/a.txt"), "a");
	cr_expect_str_eq(content_of("s/c.txt"), "other");
	cr_assert_eq(renamed("s/a.txt", "s/a.json", 0), 0);
	world_check();
	cr_expect_str_eq(content_of("s/a.json"), "a");
}

EveryStore(tree_names, of_special_files_keep_what_they_are)
{
	static const mode_t types[] = { S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK };
	const struct tree_new link = { .mode = S_IFLNK | 0777, .target = BYTES("../x") };
	const struct caller caller = { .uid = 1, .gid = 2 };
	_cleanup_(buf_done) struct buf target = { 0 };
	struct inode *dir = inode_at("s"), *inode;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		char path[16];

		snprintf(path, sizeof(path), "s/%zu.json", i);
		cr_assert_eq(make_file(path, types[i] | 0600), 0);
		cr_expect_eq(stat_of(path).st_mode, types[i] | 0600);
	}
	cr_assert_eq(tree_make(world_tree, &caller, dir, BYTES("l.json"), &link, &inode), 0);
	cr_assert_eq(tree_readlink(world_tree, inode, &target), 0);
	cr_expect(bytes_equal(buf_bytes(&target), BYTES("../x")));
	cr_expect_eq(stat_of_inode(inode).st_size, 4);
	cr_expect_eq(stat_of_inode(inode).st_uid, 1);
	cr_expect_eq(stat_of_inode(inode).st_gid, 2);
	forget(inode);
	forget(dir);
	cr_expect_str_eq(keys(), "");
}

/* ---- inode numbers ---- */

EveryStore(tree_names, lead_to_the_same_inode_numbers_after_a_new_start)
{
	static const char *const paths[] = { "s", "s/k.json", "s/l.jsonl", "s/d", "s/d/o.txt" };
	uint64_t inos[ARRAY_SIZE(paths)], fresh;

	save("s/k.json", "1");
	append("s/l.jsonl", "1\n");
	make_dir("s/d");
	save("s/d/o.txt", "x");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		inos[i] = stat_of(paths[i]).st_ino;
	save("s/gone.json", "1");
	cr_assert_eq(unlinked("s/gone.json"), 0);
	world_reopen();

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		cr_expect_eq(stat_of(paths[i]).st_ino, inos[i], "%s", paths[i]);
	save("s/new.json", "1");
	fresh = stat_of("s/new.json").st_ino;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		cr_expect_neq(inos[i], fresh, "%s has the number of a new file", paths[i]);
}

EveryStore(tree_names, count_directories_as_links)
{
	cr_expect_eq(stat_of("s").st_nlink, 2);
	make_dir("s/a");
	make_dir("s/b");
	save("s/k.json", "1");
	cr_expect_eq(stat_of("s").st_nlink, 4);
	cr_assert_eq(renamed("s/a", "a", 0), 0);
	cr_expect_eq(stat_of("s").st_nlink, 3);
	cr_assert_eq(removed_dir("s/b"), 0);
	world_reopen();
	cr_expect_eq(stat_of("s").st_nlink, 2);
	cr_expect_eq(stat_of("").st_nlink, 4);
}

/* ---- who is known ---- */

EveryStore(tree_names, that_are_looked_up_are_known_until_they_are_forgotten)
{
	struct inode *a, *b;

	save("s/k.json", "1");
	cr_expect_eq(world_inodes(), 1);
	a = inode_at("s/k.json");
	b = inode_at("s/k.json");
	cr_expect_eq(a, b);
	cr_expect_eq(tree_inode(world_tree, inode_number(a)), a);
	inode_forget(world_tree, a, 2);
	cr_expect_eq(world_inodes(), 1);
}

static int keep_inode(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		      uint64_t position)
{
	struct inode ***next = arg;

	(void)name;
	(void)position;
	if (!inode)
		return 0;
	cr_assert_eq(inode_number(inode), shown->st.st_ino);
	*(*next)++ = inode;
	return 0;
}

EveryStore(tree_names, that_are_listed_with_inodes_are_counted)
{
	struct inode *kept[16], **next = kept;
	struct inode *dir = inode_at("s");

	save("s/k.json", "1");
	save("s/o.txt", "1");
	make_dir("s/d");
	cr_assert_eq(tree_list(world_tree, dir, 0, UINT64_MAX, true, keep_inode, &next), 0);
	cr_assert_eq(next - kept, 3);
	while (next > kept)
		forget(*--next);
	forget(dir);
	cr_expect_eq(world_inodes(), 1);
}

static int stop_at_k(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		     uint64_t position)
{
	(void)inode;
	(void)shown;
	if (name.data[0] == 'k')
		return 1;
	*(uint64_t *)arg = position;
	return 0;
}

EveryStore(tree_names, that_a_listing_stops_at_are_not_counted)
{
	struct inode *dir = inode_at("s");
	uint64_t position = 0;

	save("s/k.json", "1");
	cr_assert_eq(tree_list(world_tree, dir, 0, UINT64_MAX, true, stop_at_k, &position), 0);
	cr_expect_eq(position, 2);
	forget(dir);
	cr_expect_eq(world_inodes(), 1);
}

/* Something is done when the store has answered, and before that is used. */
static const struct backend_ops *store_ops;

static int list_then_save(struct backend *backend, struct backend_snapshot *snapshot,
			  uint64_t parent, uint64_t after, backend_entry_fn *fn, void *arg)
{
	int r = store_ops->entry_list(backend, snapshot, parent, after, fn, arg);

	backend->ops = store_ops;
	save("s/known.json", "[1, 2]");
	save("s/new.json", "[1, 2]");
	return r;
}

static int show_size(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		     uint64_t position)
{
	(void)position;
	if (!inode)
		return 0;
	cr_expect_eq(shown->st.st_size, 6, "%.*s has %lld bytes", (int)name.size, name.data,
		     (long long)shown->st.st_size);
	++*(unsigned *)arg;
	forget(inode);
	return 0;
}

EveryStore(tree_names, that_are_listed_have_the_size_that_was_saved_meanwhile)
{
	struct inode *dir = inode_at("s"), *known;
	struct backend_ops hooked;
	unsigned count = 0;

	save("s/known.json", "1");
	save("s/new.json", "1");
	known = inode_at("s/known.json");
	store_ops = world_store->ops;
	hooked = *store_ops;
	hooked.entry_list = list_then_save;
	hooked.joined = NULL;
	backend_init(world_store, &hooked);
	cr_assert_eq(tree_list(world_tree, dir, 0, UINT64_MAX, true, show_size, &count), 0);
	cr_expect_eq(count, 2);
	cr_expect_eq(world_store->ops, store_ops, "nothing was saved meanwhile");
	forget(known);
	forget(dir);
}

/* ---- open files without a name ---- */

static const char *const unlinked_paths[] = { "s/l.jsonl", "s/k.json", "s/o.txt", "s/h.hash" };

EveryStore(tree_names, that_go_leave_their_bytes_to_who_has_them_open)
{
	for (size_t i = 0; i < ARRAY_SIZE(unlinked_paths); i++) {
		struct handle *handle;

		save(unlinked_paths[i], "1\n2\n");
		handle = open_at(unlinked_paths[i], O_RDWR);
		cr_assert_eq(unlinked(unlinked_paths[i]), 0);
		cr_expect_str_eq(read_by(handle), "1\n2\n", "%s", unlinked_paths[i]);
		world_settle();
		cr_expect_str_eq(read_by(handle), "1\n2\n", "%s", unlinked_paths[i]);
		cr_expect_eq(stat_of_inode(handle_inode(handle)).st_nlink, 0);
		cr_expect_eq(stat_of_inode(handle_inode(handle)).st_size, 4);
		write_at(handle, 4, BYTES("3\n"));
		cr_expect_str_eq(read_by(handle), "1\n2\n3\n", "%s", unlinked_paths[i]);
		close_handle(handle);
		cr_expect_str_eq(keys(), "", "%s", unlinked_paths[i]);
	}
}

EveryStore(tree_names, that_go_and_come_back_are_other_files)
{
	for (size_t i = 0; i < ARRAY_SIZE(unlinked_paths); i++) {
		struct handle *handle;

		save(unlinked_paths[i], "1\n2\n");
		handle = open_at(unlinked_paths[i], O_RDWR);
		cr_assert_eq(unlinked(unlinked_paths[i]), 0);
		save(unlinked_paths[i], "1\n4\n");
		write_at(handle, 4, BYTES("3\n"));

		cr_expect_str_eq(read_by(handle), "1\n2\n3\n", "%s", unlinked_paths[i]);
		cr_expect_str_eq(content_of(unlinked_paths[i]), "1\n4\n", "%s", unlinked_paths[i]);
		close_handle(handle);
		cr_expect_str_eq(content_of(unlinked_paths[i]), "1\n4\n", "%s", unlinked_paths[i]);
	}
}

EveryStore(tree_names, that_go_below_an_appender_keep_its_lines_to_itself)
{
	struct handle *handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_APPEND);

	append_to(handle, "1\n{\"a\":");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	append_to(handle, "2}\n3\n");
	append("s/l.jsonl", "9\n");

	cr_expect_str_eq(read_by(handle), "1\n{\"a\":2}\n3\n");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "9\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=9");
}

EveryStore(tree_names, that_go_while_open_leave_nothing_after_a_new_start)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	save("s/o.txt", "1");
	handle = open_at("s/l.jsonl", O_RDONLY);
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	cr_assert_eq(unlinked("s/o.txt"), 0);
	cr_assert_eq(removed_dir("s"), 0);
	handle_free(world_tree, handle);
	world_reopen();
	cr_expect_str_eq(names_in(""), "");
	cr_expect_str_eq(keys(), "");
}

EveryStore(tree_names, in_a_directory_that_was_removed_are_not_made)
{
	const struct tree_new file = { .mode = S_IFREG | 0644 };
	const struct caller caller = { 0 };
	struct inode *dir, *inode;

	make_dir("s/d");
	dir = inode_at("s/d");
	cr_assert_eq(removed_dir("s/d"), 0);

	cr_expect_eq(tree_make(world_tree, &caller, dir, BYTES("k.json"), &file, &inode), -ENOENT);
	cr_expect_eq(stat_of_inode(dir).st_nlink, 0);
	forget(dir);
}

/* ---- listing ---- */

struct listed {
	char names[4096];
	uint64_t positions[400];
	size_t count;
	size_t limit;
};

static int list_some(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		     uint64_t position)
{
	struct listed *listed = arg;

	(void)inode;
	(void)shown;
	if (listed->count == listed->limit)
		return 1;
	listed->positions[listed->count++] = position;
	strncat(listed->names, name.data, name.size);
	strcat(listed->names, " ");
	return 0;
}

static void make_numbered(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		char path[32];

		snprintf(path, sizeof(path), "s/%u.txt", i);
		cr_assert_eq(make_file(path, S_IFREG | 0644), 0);
	}
}

EveryStore(tree_names, are_listed_once_from_any_position)
{
	struct listed whole = { .limit = 400 };
	struct inode *dir = inode_at("s");

	make_numbered(300);
	cr_assert_eq(tree_list(world_tree, dir, 0, UINT64_MAX, false, list_some, &whole), 0);
	cr_assert_eq(whole.count, 302);
	cr_expect_eq(strncmp(whole.names, ". .. 0.txt 1.txt ", 17), 0);

	for (size_t step = 1; step < 310; step = step * 3 + 1) {
		struct listed parts = { 0 };
		uint64_t position = 0;

		do {
			parts.limit = MIN(parts.count + step, 400);
			cr_assert_eq(tree_list(world_tree, dir, position, UINT64_MAX, false,
					       list_some, &parts),
				     0);
			position = parts.positions[parts.count - 1];
		} while (parts.count == parts.limit && parts.limit < 302);
		cr_expect_str_eq(parts.names, whole.names, "in steps of %zu", step);
	}
	forget(dir);
}

EveryStore(tree_names, that_stay_are_listed_also_when_others_go_and_come)
{
	struct listed listed = { .limit = 102 };
	struct inode *dir = inode_at("s");

	make_numbered(200);
	cr_assert_eq(tree_list(world_tree, dir, 0, UINT64_MAX, false, list_some, &listed), 0);
	cr_assert_eq(unlinked("s/99.txt"), 0);
	cr_assert_eq(unlinked("s/50.txt"), 0);
	cr_assert_eq(unlinked("s/150.txt"), 0);
	cr_assert_eq(make_file("s/new.txt", S_IFREG | 0644), 0);
	listed.limit = 400;
	cr_assert_eq(tree_list(world_tree, dir, listed.positions[101], UINT64_MAX, false, list_some,
			       &listed),
		     0);

	cr_expect_eq(listed.count, 202);
	cr_expect_not_null(strstr(listed.names, " 99.txt 100.txt 101.txt "));
	cr_expect_not_null(strstr(listed.names, " 149.txt 151.txt "));
	cr_expect_not_null(strstr(listed.names, " 199.txt new.txt "));
	forget(dir);
}

/* ---- attributes ---- */

EveryStore(attributes, survive_a_new_start)
{
	const struct stat set = { .st_mode = 04751,
				  .st_uid = 12,
				  .st_gid = 34,
				  .st_atim = { -1, 5 },
				  .st_mtim = { 5000000000, 999999999 } };
	static const char *const paths[] = { "s", "s/k.json", "s/l.jsonl", "s/o.txt", "" };

	save("s/k.json", "1");
	append("s/l.jsonl", "1\n");
	save("s/o.txt", "1");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		cr_assert_eq(set_attr(paths[i], &set,
				      TREE_SET_MODE | TREE_SET_UID | TREE_SET_GID | TREE_SET_ATIME |
					      TREE_SET_MTIME),
			     0);
	world_reopen();
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct stat st = stat_of(paths[i]);

		cr_expect_eq(st.st_mode & 07777, 04751, "%s", paths[i]);
		cr_expect_eq(st.st_uid, 12, "%s", paths[i]);
		cr_expect_eq(st.st_gid, 34, "%s", paths[i]);
		cr_expect_eq(nanoseconds(st.st_atim), -999999995, "%s", paths[i]);
		cr_expect_eq(nanoseconds(st.st_mtim), 5000000000999999999, "%s", paths[i]);
	}
}

EveryStore(attributes, shown_follow_the_options)
{
	world_options = (struct tree_options){ .set_uid = true,
					       .set_gid = true,
					       .set_umask = true,
					       .uid = 77,
					       .gid = 88,
					       .umask = 027 };
	world_reopen();
	save("s/k.json", "1");
	cr_expect_eq(stat_of("s/k.json").st_uid, 77);
	cr_expect_eq(stat_of("s/k.json").st_gid, 88);
	cr_expect_eq(stat_of("s/k.json").st_mode, S_IFREG | 0640);
	world_options = (struct tree_options){ 0 };
	world_reopen();
	cr_expect_eq(stat_of("s/k.json").st_uid, 1000);
	cr_expect_eq(stat_of("s/k.json").st_mode, S_IFREG | 0644);
}

EveryStore(attributes, that_are_extended_are_kept_by_name)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	_cleanup_(buf_done) struct buf value = { 0 };
	struct inode *inode;

	save("s/k.json", "1");
	inode = inode_at("s/k.json");
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES("user.b"), BYTES("2"), 0), 0);
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES("user.a"), BYTES(""), XATTR_CREATE),
		     0);
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES("user.a"), BYTES("1"), XATTR_CREATE),
		     -EEXIST);
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES("user.c"), BYTES("1"), XATTR_REPLACE),
		     -ENODATA);
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES("user.b"), BYTES("3"), XATTR_REPLACE),
		     0);
	cr_expect_eq(tree_set_xattr(world_tree, inode, BYTES("other.b"), BYTES("3"), 0),
		     -EOPNOTSUPP);
	cr_expect_eq(tree_list_xattr(world_tree, inode, &names), 0);
	cr_expect(bytes_equal(buf_bytes(&names), BYTES("user.a\0user.b\0")));
	cr_expect_eq(tree_get_xattr(world_tree, inode, BYTES("user.b"), &value), 0);
	cr_expect(bytes_equal(buf_bytes(&value), BYTES("3")));
	cr_expect_eq(tree_remove_xattr(world_tree, inode, BYTES("user.b")), 0);
	cr_expect_eq(tree_remove_xattr(world_tree, inode, BYTES("user.b")), -ENODATA);
	cr_expect_eq(tree_get_xattr(world_tree, inode, BYTES("user.b"), &value), -ENODATA);
	forget(inode);
}

EveryStore(attributes, of_new_files_in_a_setgid_directory_have_its_group)
{
	const struct stat set = { .st_mode = 02775, .st_gid = 99 };

	cr_assert_eq(set_attr("s", &set, TREE_SET_MODE | TREE_SET_GID), 0);
	save("s/k.json", "1");
	make_dir("s/d");
	cr_expect_eq(stat_of("s/k.json").st_gid, 99);
	cr_expect_eq(stat_of("s/d").st_gid, 99);
	cr_expect_eq(stat_of("s/d").st_mode, S_IFDIR | 02755);
}

EveryStore(attributes, of_a_size_follow_each_write)
{
	struct handle *handle = open_at("s/o.txt", O_RDWR | O_CREAT);

	write_at(handle, 100000, BYTES("x"));
	cr_expect_eq(stat_of("s/o.txt").st_size, 100001);
	cr_expect_lt(stat_of("s/o.txt").st_blocks, 100);
	close_handle(handle);
	append("s/l.jsonl", "1\n\nx\n");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 5);
	world_reopen();
	cr_expect_eq(stat_of("s/o.txt").st_size, 100001);
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 5);
}

/* ---- read-only ---- */

EveryStore(tree_names, on_a_tree_that_is_read_only_stay_as_they_are)
{
	const struct stat set = { .st_mode = 0600 };
	struct handle *handle;

	save("s/k.json", "1");
	world_options.read_only = true;
	world_reopen();
	cr_expect(tree_is_read_only(world_tree));
	cr_expect_str_eq(content_of("s/k.json"), "1");
	cr_expect_eq(make_file("s/x.json", S_IFREG | 0644), -EROFS);
	cr_expect_eq(unlinked("s/k.json"), -EROFS);
	cr_expect_eq(removed_dir("s"), -EROFS);
	cr_expect_eq(renamed("s/k.json", "s/x.json", 0), -EROFS);
	cr_expect_eq(linked("s/k.json", "s/x.txt"), -EROFS);
	cr_expect_eq(set_attr("s/k.json", &set, TREE_SET_MODE), -EROFS);
	cr_expect_eq(open_error("s/k.json", O_WRONLY), -EROFS);
	cr_expect_eq(open_error("s/k.json", O_RDONLY | O_TRUNC), -EROFS);
	handle = open_at("s/k.json", O_RDONLY);
	close_handle(handle);
	world_options.read_only = false;
	world_reopen();
}

static void take_name(int how, const char *path)
{
	if (how) {
		save("t.txt", "t");
		cr_assert_eq(renamed("t.txt", path, 0), 0);
	} else {
		cr_assert_eq(unlinked(path), 0);
	}
}

EveryStore(tree_names, of_a_file_may_go_in_any_order)
{
	static const char *const paths[] = { "s/a.txt", "s/b.txt", "c.txt" };

	for (int how = 0; how < 2; how++) {
		for (size_t gone = 0; gone < ARRAY_SIZE(paths); gone++) {
			save(paths[0], "x");
			cr_assert_eq(linked(paths[0], paths[1]), 0);
			cr_assert_eq(linked(paths[0], paths[2]), 0);
			take_name(how, paths[gone]);
			world_check();
			cr_expect_eq(stat_of(paths[(gone + 1) % 3]).st_nlink, 2);
			world_reopen();
			take_name(how, paths[(gone + 1) % 3]);
			world_check();
			cr_expect_str_eq(content_of(paths[(gone + 2) % 3]), "x");
			for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
				unlinked(paths[i]);
		}
	}
}
