/* SPDX-License-Identifier: MIT */

/* The version of a list (user.sessfs.version): what moves it and what does not. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/api/trash.h"
#include "fs/inode/inodes.h"
#include "tests/unit/many.h"

#define ATTRIBUTE BYTES("user.sessfs.version")
#define INSERT_ROWS                                                                                \
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
#define INSERT INSERT_ROWS "VALUES "

/* Of an inode, or "" if it has none. */
static const char *version_in(struct inode *inode)
{
	static char words[8][64];
	static unsigned next;
	char *word = words[next++ % ARRAY_SIZE(words)];
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = tree_get_xattr(world_tree, inode, ATTRIBUTE, &value);

	cr_assert(r == 0 || r == -ENODATA, "%d", r);
	snprintf(word, sizeof(words[0]), "%.*s", (int)value.size, value.data ? value.data : "");
	return word;
}

static const char *version_of(const char *path)
{
	struct inode *inode = inode_at(path);
	const char *word = version_in(inode);

	forget(inode);
	return word;
}

static struct inode *look(struct inode *dir, const char *name)
{
	struct inode *inode = NULL;

	cr_assert_eq(tree_lookup(world_tree, dir, bytes_str(name), &inode), 0, "%s", name);
	forget(dir);
	return inode;
}

static void write_over(const char *path, uint64_t offset, struct bytes data)
{
	struct handle *handle = open_at(path, O_RDWR);

	write_at(handle, offset, data);
	close_handle(handle);
}

static void truncate_to(off_t size)
{
	const struct stat st = { .st_size = size };

	cr_assert_eq(set_attr("s/l.jsonl", &st, TREE_SET_SIZE), 0);
}

/* What may be done to "s/l.jsonl", which has three lines. */

static void append_line(void)
{
	append("s/l.jsonl", "4\n");
}

static void append_torn_line_and_complete_it(void)
{
	append("s/l.jsonl", "{\"a");
	append("s/l.jsonl", "\":1}\n");
}

static void append_line_that_is_none(void)
{
	append("s/l.jsonl", "\nx\n");
}

static void append_line_without_newline_and_then_that(void)
{
	append("s/l.jsonl", "4");
	append("s/l.jsonl", "\n5\n");
}

static void append_to_a_row(void)
{
	append("s/l.jsonl", "4");
	append("s/l.jsonl", "5\n");
}

static void append_to_a_row_and_leave_it_open(void)
{
	append("s/l.jsonl", "4");
	append("s/l.jsonl", "5");
}

static void begin_a_line_of_two_writers(void)
{
	struct handle *one = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	struct handle *two = open_at("s/l.jsonl", O_WRONLY | O_APPEND);

	append_to(one, "{\"a\"");
	append_to(two, "4\n");
	append_to(one, ":1}\n");
	close_handle(one);
	close_handle(two);
}

static void set_mode(void)
{
	const struct stat st = { .st_mode = S_IFREG | 0600 };

	cr_assert_eq(set_attr("s/l.jsonl", &st, TREE_SET_MODE), 0);
}

static void rename_it_away_and_back(void)
{
	cr_assert_eq(renamed("s/l.jsonl", "s/m.jsonl", 0), 0);
	cr_assert_eq(renamed("s/m.jsonl", "s/l.jsonl", 0), 0);
}

static void reopen(void)
{
	world_reopen();
}

static void save_other_lines(void)
{
	save("s/l.jsonl", "1\n2\n4\n");
}

static void save_one_more_line(void)
{
	save("s/l.jsonl", "1\n2\n3\n4\n");
}

static void save_the_same(void)
{
	save("s/l.jsonl", "1\n2\n3\n");
}

static void save_a_torn_line(void)
{
	save("s/l.jsonl", "1\n2\n{\"a");
}

static void complete_a_draft(void)
{
	append("s/l.jsonl", "\":1}\n");
}

static void empty_it(void)
{
	truncate_to(0);
}

static void truncate_it(void)
{
	truncate_to(4);
}

static void enlarge_it(void)
{
	truncate_to(7);
}

static void write_in_it(void)
{
	write_over("s/l.jsonl", 2, BYTES("7"));
}

static void rename_a_file_over_it(void)
{
	save("s/l.tmp", "1\n2\n");
	cr_assert_eq(renamed("s/l.tmp", "s/l.jsonl", 0), 0);
}

static void rename_a_list_over_it(void)
{
	save("s/other.jsonl", "1\n2\n");
	cr_assert_eq(renamed("s/other.jsonl", "s/l.jsonl", 0), 0);
}

static void exchange_it(void)
{
	save("s/l.tmp", "1\n2\n");
	cr_assert_eq(renamed("s/l.tmp", "s/l.jsonl", RENAME_EXCHANGE), 0);
}

static void make_a_document_of_it_and_a_list_again(void)
{
	cr_assert_eq(renamed("s/l.jsonl", "s/l.json", 0), 0);
	cr_assert_eq(renamed("s/l.json", "s/l.jsonl", 0), 0);
}

static void make_a_file_of_it_and_write_there(void)
{
	cr_assert_eq(renamed("s/l.jsonl", "s/l.txt", 0), 0);
	write_over("s/l.txt", 0, BYTES("9"));
	cr_assert_eq(renamed("s/l.txt", "s/l.jsonl", 0), 0);
}

static void unlink_it_and_save_it(void)
{
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	save("s/l.jsonl", "1\n2\n3\n");
}

static void unlink_it_and_make_it(void)
{
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	cr_assert_eq(make_file("s/l.jsonl", S_IFREG | 0644), 0);
}

static int undo(void *arg, const struct trash_item *item)
{
	*(uint64_t *)arg = item->id;
	return 0;
}

static void lose_the_session_and_have_it_back(void)
{
	struct backend_snapshot *snapshot;
	uint64_t id = 0;

	cr_assert_eq(tree_trash(world_tree, BYTES("s"), INT64_MAX, TRASH_GRACE), 0);
	cr_assert_eq(world_store->ops->snapshot_begin(world_store, 0, &snapshot), 0);
	cr_assert_eq(trash_list(world_store, snapshot, undo, &id), 0);
	world_store->ops->snapshot_end(world_store, snapshot);
	cr_assert_eq(tree_trash_undo(world_tree, id), 0);
}

struct way {
	void (*go)(void);
	const char *name;
	bool moves;
};

static const struct way ways[] = {
	{ append_line, "a line is appended", false },
	{ append_torn_line_and_complete_it, "a torn line is completed", false },
	{ append_line_that_is_none, "lines that are no rows are appended", false },
	{ append_line_without_newline_and_then_that, "a newline is appended to a row", false },
	{ begin_a_line_of_two_writers, "two writers append", false },
	{ set_mode, "the mode is set", false },
	{ rename_it_away_and_back, "it is renamed", false },
	{ reopen, "the store is opened again", false },
	{ append_to_a_row, "a row goes on", true },
	{ append_to_a_row_and_leave_it_open, "a row goes on and has no end", true },
	{ save_other_lines, "other lines are saved", true },
	{ save_one_more_line, "one more line is saved", true },
	{ save_the_same, "the same is saved", true },
	{ save_a_torn_line, "a draft is saved", true },
	{ complete_a_draft, "a draft is completed", true },
	{ empty_it, "it is emptied", true },
	{ truncate_it, "it is cut", true },
	{ enlarge_it, "it is enlarged", true },
	{ write_in_it, "it is written in", true },
	{ rename_a_file_over_it, "a file is renamed over it", true },
	{ rename_a_list_over_it, "a list is renamed over it", true },
	{ exchange_it, "it is exchanged", true },
	{ make_a_document_of_it_and_a_list_again, "it was a document", true },
	{ make_a_file_of_it_and_write_there, "it was an ordinary file", true },
	{ unlink_it_and_save_it, "it is unlinked and saved", true },
	{ unlink_it_and_make_it, "it is unlinked and made", true },
	{ lose_the_session_and_have_it_back, "the session was in the trash", true },
};

EveryStore(version, moves_with_every_change_but_an_append)
{
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const char *before;

		/* One that is a draft stays so. */
		if (ways[i].go != complete_a_draft)
			save("s/l.jsonl", "1\n2\n3\n");
		before = version_of("s/l.jsonl");
		cr_expect_gt(strlen(before), 16);
		ways[i].go();
		cr_expect_eq(strcmp(version_of("s/l.jsonl"), before) != 0, ways[i].moves, "%s",
			     ways[i].name);
		cr_expect_str_eq(version_of("s/l.jsonl"), version_of("s/l.jsonl"), "%s",
				 ways[i].name);
	}
}

EveryStore(version, is_of_lists_alone)
{
	make_dir("s/d");
	save("s/k.json", "{}");
	save("s/k.hash", "abc");
	save("s/o.txt", "x");
	cr_expect_str_eq(version_of("s"), "");
	cr_expect_str_eq(version_of("s/d"), "");
	cr_expect_str_eq(version_of("s/k.json"), "");
	cr_expect_str_eq(version_of("s/k.hash"), "");
	cr_expect_str_eq(version_of("s/o.txt"), "");
}

EveryStore(version, goes_with_the_list)
{
	struct handle *handle;
	struct inode *inode;

	save("s/l.jsonl", "1\n");
	handle = open_at("s/l.jsonl", O_RDONLY);
	inode = inode_at("s/l.jsonl");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	world_settle();
	cr_expect_str_eq(version_in(inode), "");
	close_handle(handle);
	forget(inode);
}

EveryStore(version, is_not_listed_and_cannot_be_set)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	struct inode *inode;
	const char *before;

	save("s/l.jsonl", "1\n");
	before = version_of("s/l.jsonl");
	inode = inode_at("s/l.jsonl");
	cr_expect_eq(tree_set_xattr(world_tree, inode, ATTRIBUTE, BYTES("1"), 0), 0);
	cr_expect_eq(tree_list_xattr(world_tree, inode, &names), 0);
	cr_expect_eq(names.size, 0);
	cr_expect_eq(tree_remove_xattr(world_tree, inode, ATTRIBUTE), -ENODATA);
	forget(inode);
	cr_expect_str_eq(version_of("s/l.jsonl"), before);
}

EveryStore(version, of_a_view_is_that_of_the_rows_it_shows)
{
	struct inode *seen, *window, *later;
	const char *before;

	save("s/l.jsonl", "1\n2\n");
	seen = look(inode_at("s"), "@first=1");
	inode_ref(world_tree, seen);
	window = look(seen, "l.jsonl");
	inode_ref(world_tree, seen);
	before = version_of("s/l.jsonl");
	cr_expect_str_eq(version_in(window), before);
	cr_expect_str_eq(version_in(seen), "", "a directory");
	save("s/l.jsonl", "3\n");
	cr_expect_str_eq(version_in(window), before);
	later = look(seen, "l.jsonl");
	cr_expect_str_eq(version_in(later), version_of("s/l.jsonl"));
	cr_expect_str_neq(version_in(later), before);
	forget(later);
	forget(window);
	forget(seen);
}

/* "s/l.jsonl" through first=1, if it has a version; and what opening that says. */
static int opened(const char *word, int flags)
{
	char question[96];
	struct inode *seen, *window;
	struct handle *handle = NULL;
	int r;

	snprintf(question, sizeof(question), "@if=%s,first=1", word);
	seen = look(inode_at("s"), question);
	window = look(seen, "l.jsonl");
	r = tree_open_file(world_tree, window, 0, flags, getpid(), &handle);
	if (r == 0)
		handle_free(world_tree, handle);
	forget(window);
	return r;
}

EveryStore(version, of_a_question_is_that_of_the_list_or_nothing_is_opened)
{
	const char *before;

	save("s/l.jsonl", "1\n2\n");
	before = version_of("s/l.jsonl");
	cr_expect_eq(opened(before, O_RDONLY), 0);
	cr_expect_eq(opened(before, O_WRONLY | O_APPEND), 0);
	cr_expect_eq(opened(before, O_WRONLY), 0);
	cr_expect_eq(opened("1", O_RDONLY), -ESTALE);
	append("s/l.jsonl", "3\n");
	cr_expect_eq(opened(before, O_RDONLY), 0);
	save("s/l.jsonl", "1\n2\n");
	cr_expect_eq(opened(before, O_RDONLY), -ESTALE);
	cr_expect_eq(opened(before, O_WRONLY | O_APPEND), -ESTALE);
	cr_expect_eq(opened(version_of("s/l.jsonl"), O_RDONLY), 0);
}

EveryStore(version, of_a_question_is_asked_for_when_it_is_opened)
{
	struct handle *handle = NULL;
	struct inode *window;
	char question[96];

	save("s/l.jsonl", "1\n2\n");
	snprintf(question, sizeof(question), "@if=%s", version_of("s/l.jsonl"));
	window = look(look(inode_at("s"), question), "l.jsonl");
	save("s/l.jsonl", "3\n");
	cr_expect_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), -ESTALE);
	forget(window);
}

EveryStore(version, is_asked_of_lists_alone)
{
	struct handle *handle = NULL;
	struct inode *window;

	save("s/k.json", "{}");
	window = look(look(inode_at("s"), "@if=1"), "k.json");
	cr_assert_eq(tree_open_file(world_tree, window, 0, O_RDONLY, getpid(), &handle), 0);
	cr_expect_str_eq(read_by(handle), "{}");
	handle_free(world_tree, handle);
	forget(window);
}

/* What other programs do to a list that has the rows 1, 2 and 3. */
static const struct sql_way {
	const char *sql;
	bool moves;
} sql_ways[] = {
	{ INSERT "('s', 'l', 3, '4')", false },
	{ INSERT "('s', 'l', 3, '4'), ('s', 'l', 4, '5'), ('s', 'm', 0, '4')", false },
	{ "UPDATE agentscope_sessions SET state_data = '5' WHERE state_key = 'm'; " INSERT
	  "('s', 'l', 3, '4')",
	  false },
	{ "UPDATE agentscope_sessions SET updated_at = CURRENT_TIMESTAMP", false },
	{ "UPDATE agentscope_sessions SET state_data = '9' WHERE item_index = 2", true },
	{ "INSERT OR REPLACE INTO agentscope_sessions (session_id, state_key, item_index, "
	  "state_data) VALUES ('s', 'l', 2, '9')",
	  true },
	{ INSERT "('s', 'l', -1, '0')", true },
	{ "DELETE FROM agentscope_sessions WHERE state_key = 'l' AND item_index = 2", true },
	{ "BEGIN; DELETE FROM agentscope_sessions WHERE state_key = 'l'; " INSERT
	  "('s', 'l', 0, '1'), ('s', 'l', 1, '2'), ('s', 'l', 2, '3'); COMMIT",
	  true },
};

static void sql_goes(const struct sql_way *way, bool known)
{
	const char *before;

	sql_runs("DELETE FROM agentscope_sessions WHERE state_key = 'm'");
	save("s/l.jsonl", "1\n2\n3\n");
	before = version_of("s/l.jsonl");
	if (!known)
		world_reopen();
	else
		cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	sql_runs(way->sql);
	cr_expect_eq(strcmp(version_of("s/l.jsonl"), before) != 0, way->moves, "%s", way->sql);
}

SqliteStore(version, moves_with_what_other_programs_do_but_add)
{
	for (size_t i = 0; i < ARRAY_SIZE(sql_ways); i++) {
		sql_goes(&sql_ways[i], true);
		sql_goes(&sql_ways[i], false);
	}
}

SqliteStore(version, moves_when_others_delete_the_rows_of_a_draft)
{
	const char *before;

	save("s/l.jsonl", "1\n2\n");
	save("s/l.jsonl", "1\n{");
	before = version_of("s/l.jsonl");
	sql_runs("DELETE FROM agentscope_sessions");
	cr_expect_str_neq(version_of("s/l.jsonl"), before);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{");
	before = version_of("s/l.jsonl");
	world_reopen();
	cr_expect_str_eq(version_of("s/l.jsonl"), before);
}

SqliteStore(version, moves_when_anything_may_have_changed)
{
	const char *before;

	save("s/l.jsonl", "1\n2\n");
	before = version_of("s/l.jsonl");
	sql_runs("DROP TRIGGER sessfs_row_insert");
	cr_expect_str_neq(version_of("s/l.jsonl"), before);
}

ParameterizedTestParameters(version, is_one_for_all_mounts)
{
	return every_kind();
}

ParameterizedTest(const int *kind, version, is_one_for_all_mounts)
{
	const char *before;

	many_open(*kind, 2);
	save("s/l.jsonl", "1\n2");
	before = version_of("s/l.jsonl");
	many_use(1);
	cr_expect_str_eq(version_of("s/l.jsonl"), before);
	append("s/l.jsonl", "\n3\n");
	cr_expect_str_eq(version_of("s/l.jsonl"), before);
	many_use(0);
	cr_expect_str_eq(version_of("s/l.jsonl"), before);
	append("s/l.jsonl", "4");
	append("s/l.jsonl", "5");
	cr_expect_str_neq(version_of("s/l.jsonl"), before, "a row went on");
	before = version_of("s/l.jsonl");
	many_use(1);
	cr_expect_str_eq(version_of("s/l.jsonl"), before);
	save("s/l.jsonl", "5\n");
	cr_expect_str_neq(version_of("s/l.jsonl"), before);
	before = version_of("s/l.jsonl");
	many_use(0);
	cr_expect_str_eq(version_of("s/l.jsonl"), before);
	many_close();
}
