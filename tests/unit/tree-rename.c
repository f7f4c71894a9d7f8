/* SPDX-License-Identifier: MIT */

/* Renaming: what a file is follows from where it lies, and its rows follow it. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/world.h"

/* A kind of file: where it lies, and what it holds. */
struct kind {
	const char *path;
	const char *path_to;
	const char *key; /* NULL: an ordinary file */
	const char *key_to;
};

static const struct kind kinds[] = {
	{ "s/a.txt", "s/b.txt", NULL, NULL },	{ "s/a.json", "s/b.json", "a", "b" },
	{ "s/a.jsonl", "s/b.jsonl", "a", "b" }, { "s/a.hash", "s/b.hash", "a:_hash", "b:_hash" },
	{ "a.json", "b.json", NULL, NULL },
};

/* Bytes that are rows of some kinds and drafts or pieces of others. */
static const char *const contents[] = {
	"{\"a\":1}", "1\n2\n", "1\n2\n\n# three\n", "", "not JSON", "1\n{\"torn",
};

/* The rows that a new file of this kind has with these bytes. */
static void rows_as_new(const struct kind *kind, const char *content, char *rows)
{
	char path[64];
	const char *dot = strrchr(kind->path, '.');

	*rows = '\0';
	if (!kind->key)
		return;
	snprintf(path, sizeof(path), "s/fresh%s", dot);
	save(path, content);
	snprintf(path, sizeof(path), "fresh%s", strchr(kind->key, ':') ? ":_hash" : "");
	strcpy(rows, rows_of("s", path));
	snprintf(path, sizeof(path), "s/fresh%s", dot);
	cr_assert_eq(unlinked(path), 0);
	world_settle();
}

static void try_move(const struct kind *from, const struct kind *to, const char *content)
{
	char rows[256];
	uint64_t ino;

	rows_as_new(to, content, rows);
	save(from->path, content);
	ino = stat_of(from->path).st_ino;

	cr_assert_eq(renamed(from->path, to->path_to, 0), 0);

	cr_expect_str_eq(content_of(to->path_to), content, "%s to %s", from->path, to->path_to);
	cr_expect_eq(stat_of(to->path_to).st_ino, ino);
	cr_expect_eq(looked_up(from->path), -ENOENT);
	if (to->key)
		cr_expect_str_eq(rows_of("s", to->key_to), rows, "%s to %s: '%s'", from->path,
				 to->path_to, content);
	if (from->key)
		cr_expect_str_eq(rows_of("s", from->key), "", "%s to %s: rows are left behind",
				 from->path, to->path_to);
	cr_assert_eq(unlinked(to->path_to), 0);
	world_settle();
	cr_assert_str_eq(keys(), "", "%s to %s", from->path, to->path_to);
}

static void try_first_name(const struct kind *to, const char *content)
{
	struct handle *handle;
	struct inode *inode;
	char rows[256];
	uint64_t ino;

	rows_as_new(to, content, rows);
	cr_assert_eq(make_nameless("s", &inode), 0);
	handle = open_inode(inode, O_RDWR);
	ino = stat_of_inode(inode).st_ino;
	cr_expect_eq(stat_of_inode(inode).st_nlink, 0);
	write_at(handle, 0, bytes_str(content));
	cr_expect_str_eq(read_by(handle), content);
	cr_expect_str_eq(names_in("s"), "");
	cr_expect_str_eq(keys(), "");

	cr_assert_eq(named(inode, to->path_to), 0);

	cr_expect_eq(named(inode, "s/again"), to->key ? -EPERM : 0);
	cr_expect_eq(stat_of(to->path_to).st_ino, ino);
	cr_expect_eq(stat_of(to->path_to).st_nlink, to->key ? 1 : 2);
	cr_expect_str_eq(content_of(to->path_to), content, "%s", to->path_to);
	if (to->key)
		cr_expect_str_eq(rows_of("s", to->key_to), rows, "%s: '%s'", to->path_to, content);
	close_handle(handle);
	forget(inode);
	cr_expect_str_eq(content_of(to->path_to), content, "%s", to->path_to);
	cr_expect_eq(unlinked("s/again"), to->key ? -ENOENT : 0);
	cr_assert_eq(unlinked(to->path_to), 0);
	world_settle();
	cr_assert_str_eq(keys(), "", "%s", to->path_to);
}

EveryStore(nameless, file_becomes_what_its_first_name_says)
{
	for (size_t to = 0; to < ARRAY_SIZE(kinds); to++)
		for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
			try_first_name(&kinds[to], contents[i]);
}

EveryStore(nameless, file_is_gone_with_the_last_who_has_it_open)
{
	struct handle *handle;
	struct inode *inode;

	cr_assert_eq(make_nameless("s", &inode), 0);
	handle = open_inode(inode, O_RDWR);
	write_at(handle, 0, bytes_str("some bytes"));
	world_check();

	close_handle(handle);
	forget(inode);

	/* world_close() finds no file without a name. */
	cr_expect_eq(world_inodes(), 1);
}

EveryStore(nameless, file_takes_no_name_that_is_taken_and_none_where_nothing_can_be)
{
	struct inode *inode, *dir;

	save("s/a.json", "1");
	make_dir("s/d");
	dir = inode_at("s/d");
	cr_assert_eq(removed_dir("s/d"), 0);
	cr_assert_eq(make_nameless("s", &inode), 0);

	cr_expect_eq(named(inode, "s/a.json"), -EEXIST);
	cr_expect_eq(tree_link(world_tree, inode, dir, bytes_str("x")), -ENOENT);
	cr_expect_eq(named(inode, "s/b.json"), 0);

	cr_expect_str_eq(content_of("s/a.json"), "1");
	cr_expect_str_eq(content_of("s/b.json"), "");
	forget(dir);
	forget(inode);
}

EveryStore(nameless, file_takes_the_place_of_one_that_readers_go_on_with)
{
	make_dir("s/d");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct kind *to = &kinds[i];
		struct handle *reader, *handle;
		struct inode *inode;
		uint64_t ino;

		save(to->path_to, "1\n2\n");
		reader = open_at(to->path_to, O_RDONLY);
		cr_assert_eq(make_nameless("s", &inode), 0);
		ino = stat_of_inode(inode).st_ino;
		handle = open_inode(inode, O_WRONLY);
		write_at(handle, 0, BYTES("1\n3\n"));
		cr_expect_eq(named_over(inode, "s/d"), -EISDIR);
		cr_expect_str_eq(content_of(to->path_to), "1\n2\n", "%s", to->path_to);

		cr_assert_eq(named_over(inode, to->path_to), 0, "%s", to->path_to);

		cr_expect_eq(stat_of(to->path_to).st_ino, ino);
		cr_expect_eq(stat_of(to->path_to).st_nlink, 1);
		cr_expect_str_eq(content_of(to->path_to), "1\n3\n", "%s", to->path_to);
		cr_expect_str_eq(read_by(reader), "1\n2\n", "%s", to->path_to);
		cr_expect_eq(named_over(inode, to->path_to), -ENOENT, "%s: a second name",
			     to->path_to);
		close_handle(handle);
		close_handle(reader);
		forget(inode);
		cr_assert_eq(unlinked(to->path_to), 0);
	}
	world_settle();
	world_check();
}

EveryStore(nameless, file_that_was_unlinked_again_gets_no_other_name)
{
	struct inode *inode;

	cr_assert_eq(make_nameless("s", &inode), 0);
	cr_assert_eq(named(inode, "s/x"), 0);
	cr_assert_eq(unlinked("s/x"), 0);

	cr_expect_eq(named(inode, "s/y"), -ENOENT);

	forget(inode);
}

EveryStore(rename, makes_of_a_file_what_its_new_name_says)
{
	for (size_t from = 0; from < ARRAY_SIZE(kinds); from++)
		for (size_t to = 0; to < ARRAY_SIZE(kinds); to++)
			for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
				try_move(&kinds[from], &kinds[to], contents[i]);
}

/* Over a file with rows: a save; what is no JSON is a draft over the rows of before. */
struct over_case {
	const char *before;
	const char *content;
	const char *rows;
};

static const struct over_case over_lists[] = {
	{ "1\n2\n", "1\n3\n", "0=1 1=3" },     { "1\n2\n", "", "" }, { "1\n2\n", "x\n", "" },
	{ "1\n2\n", "1\n{\"torn", "0=1 1=2" }, { "", "1\n", "0=1" },
};

static const struct over_case over_singles[] = {
	{ "1", "[2]", "0=[2]" },
	{ "1", "", "0=1" },
	{ "1", "[2", "0=1" },
	{ "[", "2", "0=2" },
};

static void try_over(const struct kind *from, const char *path, const char *key,
		     const struct over_case *over)
{
	save(path, over->before);
	save(from->path, over->content);
	cr_assert_eq(renamed(from->path, path, 0), 0);

	cr_expect_str_eq(content_of(path), over->content, "%s over %s", from->path, path);
	cr_expect_str_eq(rows_of("s", key), over->rows, "%s over %s with '%s': %s", from->path,
			 path, over->content, rows_of("s", key));
	cr_expect_eq(looked_up(from->path), -ENOENT);
	cr_assert_eq(unlinked(path), 0);
	world_settle();
	cr_assert_str_eq(keys(), "", "%s over %s", from->path, path);
}

EveryStore(rename, over_a_state_file_saves_it)
{
	for (size_t from = 0; from < ARRAY_SIZE(kinds); from++) {
		for (size_t i = 0; i < ARRAY_SIZE(over_lists); i++)
			try_over(&kinds[from], "s/o.jsonl", "o", &over_lists[i]);
		for (size_t i = 0; i < ARRAY_SIZE(over_singles); i++)
			try_over(&kinds[from], "s/o.json", "o", &over_singles[i]);
	}
}

SqliteStore(rename, to_a_free_name_keeps_the_times_of_the_rows)
{
	save("s/l.jsonl", "1\n2\n");
	save("s/k.json", "1");
	sql_runs("UPDATE agentscope_sessions SET created_at = '2001-02-03 04:05:06', "
		 "updated_at = '2001-02-03 04:05:06'");

	cr_assert_eq(renamed("s/l.jsonl", "s/m.jsonl", 0), 0);
	cr_assert_eq(renamed("s/k.json", "s/n.json", 0), 0);
	make_dir("s/d");
	cr_assert_eq(renamed("s/m.jsonl", "s/d/m.jsonl", 0), 0);

	cr_expect_str_eq(keys(), "s/d/m[0-1] s/n[0-0]");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM agentscope_sessions WHERE "
				  "updated_at = '2001-02-03 04:05:06' AND "
				  "created_at = '2001-02-03 04:05:06'"),
			 "3");
}

/* ---- directories ---- */

static void make_session(const char *name)
{
	char path[64];

	make_dir(name);
	snprintf(path, sizeof(path), "%s/k.json", name);
	save(path, "{}");
	snprintf(path, sizeof(path), "%s/l.jsonl", name);
	save(path, "1\nx\n2\n");
	snprintf(path, sizeof(path), "%s/o.txt", name);
	save(path, "text");
	snprintf(path, sizeof(path), "%s/d", name);
	make_dir(path);
	snprintf(path, sizeof(path), "%s/d/l.jsonl", name);
	save(path, "3\n");
	snprintf(path, sizeof(path), "%s/d/l.hash", name);
	save(path, "abc");
}

EveryStore(rename, of_a_session_takes_its_keys_along)
{
	make_session("t");
	cr_assert_eq(renamed("t", "u", 0), 0);

	cr_expect_str_eq(keys(), "u/d/l[0-0] u/d/l:_hash[0-0] u/k[0-0] u/l[0-1]");
	cr_expect_str_eq(content_of("u/l.jsonl"), "1\nx\n2\n");
	cr_expect_str_eq(content_of("u/d/l.hash"), "abc");
	cr_expect_str_eq(content_of("u/o.txt"), "text");
	append("u/l.jsonl", "4\n");
	cr_expect_str_eq(rows_of("u", "l"), "0=1 1=2 2=4");
	world_reopen();
	cr_expect_str_eq(content_of("u/l.jsonl"), "1\nx\n2\n4\n");
	cr_expect_str_eq(names_in(""), "s u");
}

EveryStore(rename, of_a_directory_below_a_session_changes_the_keys_below)
{
	make_session("t");
	cr_assert_eq(renamed("t/d", "t/e", 0), 0);
	cr_expect_str_eq(keys(), "t/e/l[0-0] t/e/l:_hash[0-0] t/k[0-0] t/l[0-1]");

	cr_assert_eq(renamed("t/e", "s/f", 0), 0);
	cr_expect_str_eq(keys(), "s/f/l[0-0] s/f/l:_hash[0-0] t/k[0-0] t/l[0-1]");

	cr_assert_eq(renamed("s/f", "g", 0), 0);
	cr_expect_str_eq(keys(), "g/l[0-0] g/l:_hash[0-0] t/k[0-0] t/l[0-1]");

	cr_assert_eq(renamed("t", "s/t", 0), 0);
	cr_expect_str_eq(keys(), "g/l[0-0] g/l:_hash[0-0] s/t/k[0-0] s/t/l[0-1]");
	cr_expect_str_eq(content_of("s/t/l.jsonl"), "1\nx\n2\n");
	cr_expect_str_eq(content_of("g/l.jsonl"), "3\n");
}

EveryStore(rename, of_a_directory_goes_over_an_empty_one_only)
{
	make_session("t");
	make_dir("u");
	cr_expect_eq(renamed("u", "t", 0), -ENOTEMPTY);
	cr_expect_eq(renamed("t", "t/d/x", 0), -EINVAL);
	cr_expect_eq(renamed("u", "t/k.json", 0), -ENOTDIR);
	cr_expect_eq(renamed("t/k.json", "u", 0), -EISDIR);

	cr_assert_eq(renamed("t", "u", 0), 0);

	cr_expect_str_eq(keys(), "u/d/l[0-0] u/d/l:_hash[0-0] u/k[0-0] u/l[0-1]");
	cr_expect_eq(stat_of("").st_nlink, 4);
}

EveryStore(rename, moves_an_open_writer_along)
{
	struct handle *appender, *saver;

	save("s/l.jsonl", "1\n");
	save("s/k.json", "1");
	appender = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	append_to(appender, "2\n{\"a\":");
	saver = open_at("s/k.json", O_WRONLY | O_TRUNC);
	write_at(saver, 0, BYTES("[2"));
	cr_assert_eq(renamed("s/l.jsonl", "s/m.jsonl", 0), 0);
	cr_assert_eq(renamed("s/k.json", "s/n.json", 0), 0);
	append_to(appender, "3}\n");
	write_at(saver, 2, BYTES("]"));
	close_handle(appender);
	close_handle(saver);

	cr_expect_str_eq(keys(), "s/m[0-2] s/n[0-0]");
	cr_expect_str_eq(content_of("s/m.jsonl"), "1\n2\n{\"a\":3}\n");
	cr_expect_str_eq(content_of("s/n.json"), "[2]");
}

EveryStore(rename, over_an_open_file_leaves_its_bytes_to_who_has_it_open)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/o.txt" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *reader;

		save(paths[i], "1\n");
		reader = open_at(paths[i], O_RDONLY);
		save("s/new.tmp", "2\n");
		cr_assert_eq(renamed("s/new.tmp", paths[i], 0), 0);

		cr_expect_str_eq(read_by(reader), "1\n", "%s", paths[i]);
		cr_expect_str_eq(content_of(paths[i]), "2\n", "%s", paths[i]);
		cr_expect_eq(stat_of_inode(handle_inode(reader)).st_nlink, 0, "%s", paths[i]);
		handle_free(world_tree, reader);
	}
}

EveryStore(rename, obeys_its_flags)
{
	save("s/a.json", "1");
	save("s/b.json", "2");
	cr_expect_eq(renamed("s/a.json", "s/b.json", RENAME_NOREPLACE), -EEXIST);
	cr_expect_eq(renamed("s/a.json", "s/c.json", RENAME_EXCHANGE), -ENOENT);
	cr_expect_eq(renamed("s/c.json", "s/d.json", 0), -ENOENT);
	cr_expect_eq(renamed("s/a.json", "s/b.json", RENAME_NOREPLACE | RENAME_EXCHANGE), -EINVAL);
	cr_expect_eq(renamed("s/a.json", "s/b.json", 1u << 20), -EINVAL);
	cr_expect_eq(renamed("s/a.json", "s/a.json", 0), 0);
	cr_expect_str_eq(keys(), "s/a[0-0] s/b[0-0]");

	cr_expect_eq(renamed("s/a.json", "s/c.json", RENAME_NOREPLACE), 0);
	cr_expect_str_eq(keys(), "s/b[0-0] s/c[0-0]");
}

/* ---- exchange ---- */

static void try_exchange(const struct kind *a, const struct kind *b)
{
	uint64_t a_ino, b_ino;

	save(a->path, "{\"a\":1}\n");
	save(b->path_to, "{\"b\":1}\n{\"b\":2}");
	a_ino = stat_of(a->path).st_ino;
	b_ino = stat_of(b->path_to).st_ino;

	cr_assert_eq(renamed(a->path, b->path_to, RENAME_EXCHANGE), 0, "%s and %s", a->path,
		     b->path_to);

	cr_expect_str_eq(content_of(a->path), "{\"b\":1}\n{\"b\":2}");
	cr_expect_str_eq(content_of(b->path_to), "{\"a\":1}\n");
	cr_expect_eq(stat_of(a->path).st_ino, b_ino);
	cr_expect_eq(stat_of(b->path_to).st_ino, a_ino);
	world_check();
	cr_assert_eq(unlinked(a->path), 0);
	cr_assert_eq(unlinked(b->path_to), 0);
	world_settle();
	cr_assert_str_eq(keys(), "", "%s and %s", a->path, b->path_to);
}

EveryStore(rename, exchanges_files_of_all_kinds)
{
	for (size_t a = 0; a < ARRAY_SIZE(kinds); a++)
		for (size_t b = 0; b < ARRAY_SIZE(kinds); b++)
			try_exchange(&kinds[a], &kinds[b]);
}

EveryStore(rename, exchanges_the_rows_of_two_lists)
{
	save("s/a.jsonl", "1\n2\n");
	save("s/b.jsonl", "3\n");
	cr_assert_eq(renamed("s/a.jsonl", "s/b.jsonl", RENAME_EXCHANGE), 0);

	cr_expect_str_eq(rows_of("s", "a"), "0=3");
	cr_expect_str_eq(rows_of("s", "b"), "0=1 1=2");
}

EveryStore(rename, exchanges_sessions_and_directories)
{
	make_session("t");
	make_dir("u");
	save("u/k.json", "[9]");
	cr_assert_eq(renamed("t", "u", RENAME_EXCHANGE), 0);
	cr_expect_str_eq(keys(), "t/k[0-0] u/d/l[0-0] u/d/l:_hash[0-0] u/k[0-0] u/l[0-1]");
	cr_expect_str_eq(content_of("t/k.json"), "[9]");

	cr_assert_eq(renamed("t", "u/d", RENAME_EXCHANGE), 0);
	cr_expect_str_eq(keys(), "t/l[0-0] t/l:_hash[0-0] u/d/k[0-0] u/k[0-0] u/l[0-1]");
	cr_expect_eq(renamed("u", "u/d", RENAME_EXCHANGE), -EINVAL);
	cr_expect_eq(renamed("u/d", "u", RENAME_EXCHANGE), -EINVAL);
}

/* ---- names that are in the way ---- */

EveryStore(rename, to_a_taken_key_gives_a_key_of_its_own)
{
	save("s/k.jsonl", "1\n2\n");
	save("s/x.txt", "{}");
	cr_assert_eq(renamed("s/x.txt", "s/k.json", 0), 0);

	cr_expect_str_eq(rows_of("s", "k"), "0=1 1=2");
	cr_expect_str_eq(rows_of("s", "k.json"), "0={}");
	cr_assert_eq(unlinked("s/k.json"), 0);
	world_settle();
	cr_expect_str_eq(keys(), "s/k[0-1]");
}

EveryStore(rename, of_a_file_to_the_other_suffix_frees_its_own_key_for_it)
{
	save("s/k.json", "[1]");
	cr_assert_eq(renamed("s/k.json", "s/k.jsonl", 0), 0);
	cr_expect_str_eq(keys(), "s/k[0-0]");
	append("s/k.jsonl", "\n2\n");
	cr_expect_str_eq(rows_of("s", "k"), "0=[1] 1=2");

	cr_assert_eq(renamed("s/k.jsonl", "s/k.json", 0), 0);
	cr_expect_str_eq(content_of("s/k.json"), "[1]\n2\n");
	world_check();
}

EveryStore(rename, over_a_file_with_a_key_of_its_own_keeps_that_key)
{
	save("s/k.jsonl", "1\n");
	save("s/k.json", "2");
	cr_assert_str_eq(rows_of("s", "k.json"), "0=2");
	save("s/k.json.tmp", "3");
	cr_assert_eq(renamed("s/k.json.tmp", "s/k.json", 0), 0);

	cr_expect_str_eq(rows_of("s", "k.json"), "0=3");
	cr_expect_str_eq(rows_of("s", "k"), "0=1");
}

EveryStore(rename, to_the_name_of_an_unlinked_file_saves_it)
{
	save("s/l.jsonl", "1\n2\n");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	save("s/l.tmp", "1\n3\n");
	cr_assert_eq(renamed("s/l.tmp", "s/l.jsonl", 0), 0);
	world_settle();

	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=3");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n3\n");
}

EveryStore(rename, of_a_backup_chain_keeps_all_versions_apart)
{
	save("s/l.jsonl", "1\n");
	for (unsigned i = 0; i < 5; i++) {
		char text[16];

		if (looked_up("s/l.bak.jsonl") == 0)
			cr_assert_eq(unlinked("s/l.bak.jsonl"), 0);
		cr_assert_eq(renamed("s/l.jsonl", "s/l.bak.jsonl", 0), 0);
		snprintf(text, sizeof(text), "%u\n", i + 2);
		save("s/l.jsonl", text);
	}
	world_settle();

	cr_expect_str_eq(rows_of("s", "l"), "0=6");
	cr_expect_str_eq(rows_of("s", "l.bak"), "0=5");
	cr_expect_str_eq(keys(), "s/l[0-0] s/l.bak[0-0]");
}

/* Files of one folder whose names want the same key, in the order in which they are made; each
 * holds its own number. */
static const char *const colliding[] = {
	"k.json",	 "k.jsonl",	"d/k.jsonl", "d/k.json", "d/e/f/k.json",
	"d/e/f/k.jsonl", "k.json.json", "..hash",    "%2E.hash", "k.hash",
};

static void make_colliding(const char *dir, unsigned number)
{
	static const char *const dirs[] = { "", "/d", "/d/e", "/d/e/f" };
	char path[64], text[16];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, dirs[i]);
		make_dir(path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(colliding); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, colliding[i]);
		snprintf(text, sizeof(text), "%zu\n", number + i);
		save(path, text);
	}
}

static void check_colliding(const char *dir, unsigned number)
{
	char path[64], text[16];

	for (size_t i = 0; i < ARRAY_SIZE(colliding); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, colliding[i]);
		snprintf(text, sizeof(text), "%zu\n", number + i);
		cr_expect_str_eq(content_of(path), text, "%s", path);
	}
}

static void remove_colliding(const char *dir)
{
	static const char *const dirs[] = { "/d/e/f", "/d/e", "/d", "" };
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(colliding); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, colliding[i]);
		cr_assert_eq(unlinked(path), 0, "%s", path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, dirs[i]);
		cr_assert_eq(removed_dir(path), 0, "%s", path);
	}
}

/* Folders of a session, and sessions. */
static const char *const dir_moves[][2] = {
	{ "s/a", "s/b" }, { "a", "b" }, { "s/a", "b" }, { "a", "s/b" }, { "s/a", "t/a" },
};

EveryStore(rename, of_a_directory_takes_files_along_whose_keys_collide)
{
	make_dir("t");
	for (size_t i = 0; i < ARRAY_SIZE(dir_moves); i++) {
		const char *from = dir_moves[i][0], *to = dir_moves[i][1];

		make_colliding(from, 10);
		cr_assert_eq(renamed(from, to, 0), 0, "%s to %s", from, to);
		check_colliding(to, 10);
		world_check();
		/* And back, onto an empty directory. */
		make_dir(from);
		cr_assert_eq(renamed(to, from, 0), 0, "%s back to %s", to, from);
		cr_expect_eq(looked_up(to), -ENOENT);
		check_colliding(from, 10);
		world_check();
		world_reopen();
		check_colliding(from, 10);
		remove_colliding(from);
		world_settle();
		cr_expect_str_eq(keys(), "", "%s", to);
	}
}

EveryStore(rename, of_a_directory_keeps_the_keys_of_colliding_files_as_they_are_behind_it)
{
	make_dir("s/a");
	save("s/a/k.json", "1");
	save("s/a/k.jsonl", "2\n");
	cr_assert_eq(renamed("s/a", "s/b", 0), 0);
	cr_expect_str_eq(keys(), "s/b/k[0-0] s/b/k.jsonl[0-0]");
	cr_expect_str_eq(rows_of("s", "b/k"), "0=1");
	cr_assert_eq(renamed("s", "t", 0), 0);
	cr_expect_str_eq(keys(), "t/b/k[0-0] t/b/k.jsonl[0-0]");
}

EveryStore(rename, that_exchanges_directories_exchanges_files_whose_keys_collide)
{
	make_dir("t");
	for (size_t i = 0; i < ARRAY_SIZE(dir_moves); i++) {
		const char *a = dir_moves[i][0], *b = dir_moves[i][1];

		make_colliding(a, 10);
		make_colliding(b, 50);
		cr_assert_eq(renamed(a, b, RENAME_EXCHANGE), 0, "%s and %s", a, b);
		check_colliding(a, 50);
		check_colliding(b, 10);
		world_check();
		world_reopen();
		check_colliding(a, 50);
		check_colliding(b, 10);
		remove_colliding(a);
		remove_colliding(b);
		world_settle();
		cr_expect_str_eq(keys(), "", "%s and %s", a, b);
	}
}

EveryStore(rename, that_exchanges_directories_crosses_keys_of_their_own)
{
	make_dir("s/a");
	make_dir("s/b");
	save("s/a/k.json", "1");
	save("s/a/k.jsonl", "2\n");
	save("s/b/k.jsonl", "3\n");
	save("s/b/k.json", "4");
	cr_assert_eq(renamed("s/a", "s/b", RENAME_EXCHANGE), 0);
	cr_expect_str_eq(content_of("s/b/k.json"), "1");
	cr_expect_str_eq(content_of("s/b/k.jsonl"), "2\n");
	cr_expect_str_eq(content_of("s/a/k.jsonl"), "3\n");
	cr_expect_str_eq(content_of("s/a/k.json"), "4");
	world_check();
	cr_assert_eq(renamed("s/a/k.json", "s/b", RENAME_EXCHANGE), 0, "a file and a directory");
	cr_expect_str_eq(content_of("s/b"), "4");
	cr_expect_str_eq(content_of("s/a/k.json/k.json"), "1");
	cr_expect_str_eq(content_of("s/a/k.json/k.jsonl"), "2\n");
	world_check();
}

/* What another program wrote may have the key that a file would get. */
SqliteStore(rename, of_a_directory_leaves_keys_that_others_have)
{
	sql_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "VALUES ('s', 'b/k', 0, '1'), ('s', 'b.json/k', 0, '2'), ('s', 'b', 0, '3')");
	cr_expect_str_eq(names_in("s"), "b.json b.json%~1 b");
	make_dir("s/a");
	save("s/a/k.json", "4");
	cr_assert_eq(unlinked("s/b.json"), 0);
	world_settle();
	cr_assert_eq(renamed("s/a", "s/b.json", 0), 0);

	cr_expect_str_eq(content_of("s/b.json/k.json"), "4");
	cr_expect_str_eq(content_of("s/b.json%~1/k.json"), "2");
	cr_expect_str_eq(rows_of("s", "b.json/k"), "0=2");
	cr_assert_eq(renamed("s/b.json%~1", "s/c", 0), 0);
	cr_expect_str_eq(content_of("s/c/k.json"), "2");
	world_check();
}

/* The rows of a file that was just unlinked go with it, and no others. */
EveryStore(rename, of_directories_does_not_lend_keys_to_files_that_were_unlinked)
{
	static const char *const moves[][3] = { { "s/a", "s/x", "s/b" }, { "a", "x", "b" } };

	for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
		char a[32], b[32];

		make_dir(moves[i][0]);
		make_dir(moves[i][2]);
		snprintf(a, sizeof(a), "%s/k.jsonl", moves[i][0]);
		snprintf(b, sizeof(b), "%s/k.jsonl", moves[i][2]);
		save(a, "1\n");
		save(b, "2\n");
		cr_assert_eq(unlinked(a), 0);
		cr_assert_eq(renamed(moves[i][0], moves[i][1], 0), 0);
		cr_assert_eq(renamed(moves[i][2], moves[i][0], 0), 0);
		world_settle();
		cr_expect_str_eq(content_of(a), "2\n");
		/* And over the directory that it was in. */
		cr_assert_eq(unlinked(a), 0);
		make_dir(moves[i][2]);
		save(b, "3\n");
		cr_assert_eq(renamed(moves[i][2], moves[i][0], 0), 0);
		world_settle();
		cr_expect_str_eq(content_of(a), "3\n");
	}
	world_reopen();
	cr_expect_str_eq(content_of("s/a/k.jsonl"), "3\n");
}

/* In a damaged store a directory may seem to lie in itself. */
SqliteStore(rename, of_a_directory_comes_to_an_end_in_a_damaged_store)
{
	make_dir("s/d");
	append("s/d/l.jsonl", "1\n");
	sql_runs("INSERT INTO sessfs_entry SELECT ino, 1000, CAST('x' AS BLOB), ino "
		 "FROM sessfs_entry WHERE name = CAST('d' AS BLOB)");

	cr_expect_eq(renamed("s/d", "s/e", 0), 0);
	cr_expect_str_eq(rows_of("s", "e/l"), "0=1");
	sql_runs("UPDATE sessfs_node SET parent = ino, entry = 1000 WHERE ino IN "
		 "(SELECT ino FROM sessfs_entry WHERE id = 1000)");
	world_reopen();
	cr_expect_lt(renamed("s/e", "s/f", 0), 0);
	sql_runs("UPDATE sessfs_node SET (parent, entry) = (SELECT parent, id FROM sessfs_entry AS "
		 "e WHERE e.ino = sessfs_node.ino AND id != 1000) WHERE entry = 1000");
	sql_runs("DELETE FROM sessfs_entry WHERE id = 1000");
	world_reopen();
	cr_expect_str_eq(names_in("s"), "e");
}

EveryStore(rename, to_an_ordinary_name_keeps_what_the_writer_does_in_order)
{
	const struct stat size = { .st_size = 2 };
	struct handle *handle;

	save("s/k.json", "[1]");
	handle = open_at("s/k.json", O_RDWR);
	write_at(handle, 0, BYTES("[2]"));
	cr_assert_eq(renamed("s/k.json", "s/k.txt", 0), 0);
	cr_assert_eq(set_attr_by(handle, &size, TREE_SET_SIZE), 0);
	cr_expect_str_eq(read_by(handle), "[2");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/k.txt"), "[2");
}

EveryStore(rename, to_an_ordinary_name_lets_writes_through_when_all_is_published)
{
	struct handle *handle;

	save("s/k.json", "[1]");
	handle = open_at("s/k.json", O_RDWR);
	write_at(handle, 0, BYTES("[2]"));
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_assert_eq(renamed("s/k.json", "s/k.txt", 0), 0);
	write_at(handle, 1, BYTES("3"));
	cr_expect_str_eq(content_of("s/k.txt"), "[3]");
	close_handle(handle);
}

EveryStore(rename, to_an_ordinary_name_shows_its_writer_what_was_cut_or_written_there)
{
	const struct stat size = { .st_size = 2 };
	struct handle *handle, *other;

	save("s/k.json", "[1]");
	handle = open_at("s/k.json", O_RDWR);
	write_at(handle, 0, BYTES("[2]"));
	cr_assert_eq(renamed("s/k.json", "s/k.txt", 0), 0);
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_assert_eq(set_attr_by(handle, &size, TREE_SET_SIZE), 0);
	cr_expect_str_eq(read_by(handle), "[2");
	other = open_at("s/k.txt", O_WRONLY);
	write_at(other, 0, BYTES("7"));
	cr_expect_str_eq(read_by(handle), "72");
	close_handle(other);
	close_handle(handle);
}

EveryStore(rename, of_a_list_to_a_document_leaves_its_writer_what_it_has_not_finished)
{
	struct handle *handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_APPEND);

	append_to(handle, "1\n{\"a");
	cr_assert_eq(renamed("s/l.jsonl", "s/k.json", 0), 0);
	cr_expect_str_eq(read_by(handle), "1\n{\"a");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/k.json"), "1\n{\"a");
}

EveryStore(rename, of_a_list_to_no_state_adds_an_unfinished_line_to_what_others_write)
{
	struct handle *handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	struct handle *other;

	append_to(handle, "1\n{");
	cr_assert_eq(renamed("s/l.jsonl", "s/o.txt", 0), 0);
	append_to(handle, "}");
	other = open_at("s/o.txt", O_WRONLY | O_APPEND);
	append_to(other, "2\n");
	close_handle(other);
	close_handle(handle);
	cr_expect_str_eq(content_of("s/o.txt"), "1\n2\n{}");
}

EveryStore(rename, to_a_state_leaves_the_save_to_who_cuts_it)
{
	struct handle *handle = open_at("s/o.txt", O_RDWR | O_CREAT);
	const struct stat size = { .st_size = 1 };

	write_at(handle, 0, BYTES("12"));
	cr_assert_eq(renamed("s/o.txt", "s/k.json", 0), 0);
	cr_assert_eq(set_attr_by(handle, &size, TREE_SET_SIZE), 0);
	/* Another process has inherited the descriptor and closes it. */
	cr_assert_eq(handle_flush(world_tree, handle, 1), 0);
	cr_expect_str_eq(content_of("s/k.json"), "12");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/k.json"), "1");
}

/* Otherwise the end of one name would be the end of the other's file. */
EveryStore(rename, of_a_file_with_two_names_makes_no_state_file)
{
	save("s/a", "1");
	save("s/b.json", "2");
	cr_assert_eq(linked("s/a", "s/c"), 0);

	cr_expect_eq(renamed("s/a", "s/a.json", 0), -EPERM);
	cr_expect_eq(renamed("s/a", "s/b.json", 0), -EPERM);
	cr_expect_eq(renamed("s/a", "s/b.json", RENAME_EXCHANGE), -EPERM);
	cr_expect_eq(renamed("s/b.json", "s/a", RENAME_EXCHANGE), -EPERM);
	cr_expect_str_eq(content_of("s/a"), "1");
	cr_expect_str_eq(content_of("s/b.json"), "2");
	world_check();

	cr_assert_eq(unlinked("s/a"), 0);
	cr_expect_eq(renamed("s/c", "s/b.json", 0), 0);
	cr_expect_str_eq(rows_of("s", "b"), "0=1");
	cr_assert_eq(unlinked("s/b.json"), 0);
}
