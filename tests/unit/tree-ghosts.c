/* SPDX-License-Identifier: MIT */

/* State files that were just unlinked, whose rows wait for a moment for who writes them again: what
 * other programs and other users do meanwhile. */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

enum { MANY = 600 }; /* rows of the list: more than lie between two marks */

#define ALL_ROWS                                                                                   \
	"SELECT count(*) || ' ' || coalesce(group_concat(session_id || '/' || state_key || ' ' "   \
	"|| item_index || '=' || state_data, char(10)), '') FROM (SELECT * FROM "                  \
	"agentscope_sessions ORDER BY session_id, state_key, item_index)"

struct ghost_kind {
	const char *path;
	const char *key;
};

static const struct ghost_kind kinds[] = {
	{ "s/g.json", "g" },
	{ "s/g.jsonl", "g" },
	{ "s/g.hash", "g:_hash" },
	{ "s/a/b/g.jsonl", "a/b/g" },
};

/* What another program does to the rows of the key; %s is the key. */
static const char *const attacks[] = {
	"DELETE FROM agentscope_sessions WHERE state_key = '%s'",
	"DELETE FROM agentscope_sessions WHERE state_key = '%s' AND item_index >= 300",
	"DELETE FROM agentscope_sessions WHERE state_key = '%s' AND item_index < 300",
	"UPDATE agentscope_sessions SET state_data = '7' WHERE state_key = '%s' AND item_index = 0",
	"UPDATE agentscope_sessions SET state_data = '[\"longer than before\"]' WHERE "
	"state_key = '%s'",
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
	"VALUES ('s', '%s', 600, '8')",
	"UPDATE agentscope_sessions SET state_key = 'moved' WHERE state_key = '%s'",
	"UPDATE agentscope_sessions SET session_id = 'elsewhere' WHERE state_key = '%s'",
	"UPDATE agentscope_sessions SET item_index = item_index + 1000 WHERE state_key = '%s'",
	"DELETE FROM agentscope_sessions WHERE session_id = 's' -- %s",
};

static void fill(const char *path)
{
	static char text[MANY * 8];
	size_t size = 0;

	if (!strstr(path, ".jsonl")) {
		save(path, "1234");
		return;
	}
	for (unsigned i = 0; i < MANY; i++)
		size += (size_t)sprintf(text + size, "%s%u\n", i % 100 == 50 ? "x" : "", i);
	save(path, text);
}

static void attack(const char *format, const char *key)
{
	char sql[256];

	snprintf(sql, sizeof(sql), format, key);
	sql_runs(sql);
}

/* Whatever it is, what the other program has left is there, and everything else works. */
static void try_attack(const struct ghost_kind *kind, const char *format, bool opened)
{
	struct handle *handle = NULL;
	_cleanup_(freep) char *before = NULL;
	_cleanup_(freep) char *left = NULL;
	bool changed;

	fill(kind->path);
	save("t/other.json", "{}");
	if (opened)
		handle = open_at(kind->path, O_RDWR);
	before = strdup(sql_asks(ALL_ROWS));
	cr_assert_eq(unlinked(kind->path), 0);
	attack(format, kind->key);
	left = strdup(sql_asks(ALL_ROWS));
	changed = strcmp(before, left) != 0;

	cr_expect_str_eq(content_of("t/other.json"), "{}", "%s: %s", kind->path, format);
	save("t/another.json", "[]");
	if (handle) {
		read_by(handle);
		write_at(handle, 0, BYTES("9"));
		close_handle(handle);
	}
	cr_assert_eq(unlinked("t/another.json"), 0);
	world_settle();
	if (!changed) {
		free(left);
		left = strdup("1 t/other 0={}");
	}
	cr_expect_str_eq(sql_asks(ALL_ROWS), left, "%s: %s", kind->path, format);
	world_check();
	world_reopen();
	cr_expect_str_eq(sql_asks(ALL_ROWS), left, "%s: %s, reopened", kind->path, format);
	cr_expect_str_eq(content_of("t/other.json"), "{}");
	sql_runs("DELETE FROM agentscope_sessions WHERE session_id <> 't'");
	world_reopen();
}

SqliteStore(ghosts, whose_rows_another_program_changes_leave_them_to_it)
{
	const bool all = rounds("SESSFS_GHOSTS", false, true);

	make_dir("t");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (size_t j = 0; j < ARRAY_SIZE(attacks); j++)
			for (unsigned opened = 0; opened < 2; opened++) {
				if (opened != (i + j) % 2 && !all)
					continue;
				if (looked_up("s") < 0)
					make_dir("s");
				if (strchr(kinds[i].key, '/') && looked_up("s/a") < 0)
					make_dir("s/a");
				if (strchr(kinds[i].key, '/') && looked_up("s/a/b") < 0)
					make_dir("s/a/b");
				try_attack(&kinds[i], attacks[j], opened);
			}
}

SqliteStore(ghosts, that_another_program_cuts_show_what_is_left_of_them_to_who_has_them_open)
{
	struct handle *handle;

	save("s/l.jsonl", "1\nx\n2\n3\n");
	handle = open_at("s/l.jsonl", O_RDONLY);
	cr_assert_str_eq(read_by(handle), "1\nx\n2\n3\n");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	sql_runs("DELETE FROM agentscope_sessions WHERE item_index > 0");

	cr_expect_str_eq(content_of("s/l.json"), "1");
	cr_expect_str_eq(read_by(handle), "1\nx\n");
	close_handle(handle);
}

/* ---- who gets the rows ---- */

static const struct caller owner = { .uid = 1000, .gid = 1000 };

/* Make a file for writing, as this user, without writing; counted. */
static struct inode *make_as(const struct caller *user, const char *name, mode_t mode)
{
	const struct tree_new what = { .mode = S_IFREG | mode, .will_save = true };
	struct inode *dir = inode_at("s"), *inode;

	cr_assert_eq(tree_make(world_tree, user, dir, bytes_str(name), &what, &inode), 0);
	forget(dir);
	return inode;
}

static const char *const names[] = { "g.json", "g.jsonl", "g.hash" };

static const char *path_of(const char *name)
{
	static char path[32];

	snprintf(path, sizeof(path), "s/%s", name);
	return path;
}

/* A file of the owner with this mode, which is unlinked. */
static struct timespec left_at;

static void leave(const char *name, mode_t mode)
{
	struct inode *inode = make_as(&owner, name, mode);
	struct handle *handle = open_inode(inode, O_WRONLY);

	write_at(handle, 0, BYTES("1234\n"));
	close_handle(handle);
	forget(inode);
	clock_gettime(CLOCK_MONOTONIC, &left_at);
	cr_assert_eq(unlinked(path_of(name)), 0);
}

/* Whether so much time has passed since that the rows may have gone by themselves. */
static bool is_late(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return nanoseconds(now) - nanoseconds(left_at) > 250000000;
}

struct heir {
	struct caller user;
	mode_t left;
	mode_t mode;
	bool inherits;
};

static const struct heir heirs[] = {
	{ { 1000, 1000 }, 0600, 0600, true },  { { 1000, 1000 }, 0644, 0600, true },
	{ { 1000, 1000 }, 0644, 0644, true },  { { 1000, 1000 }, 0640, 0620, true },
	{ { 1000, 2000 }, 0640, 0600, true },  { { 1000, 2000 }, 0644, 0644, true },
	{ { 1001, 1000 }, 0600, 0600, false }, { { 1001, 1001 }, 0666, 0600, false },
	{ { 0, 0 }, 0600, 0600, false },       { { 1000, 1000 }, 0600, 0644, false },
	{ { 1000, 1000 }, 0600, 0640, false }, { { 1000, 1000 }, 0640, 0604, false },
	{ { 1000, 2000 }, 0640, 0640, false }, { { 1000, 2000 }, 0604, 0604, false },
};

EveryStore(ghosts, leave_their_rows_to_their_owner_alone_and_to_no_wider_mode)
{
	for (size_t i = 0; i < ARRAY_SIZE(heirs); i++)
		for (size_t j = 0; j < ARRAY_SIZE(names); j++) {
			bool inherits = heirs[i].inherits;
			struct handle *handle, *reader;
			const char *expected;
			struct inode *inode;

			leave(names[j], heirs[i].left);
			inode = make_as(&heirs[i].user, names[j], heirs[i].mode);
			if (is_late())
				inherits = inherits && *keys();
			expected = inherits ? "1234\n" : "";
			/* Before it is opened by its maker, while, and when it was saved. */
			cr_expect_str_eq(content_of(path_of(names[j])), expected, "%zu: %s", i,
					 names[j]);
			handle = open_inode(inode, O_RDWR);
			cr_expect_str_eq(read_by(handle), "", "%zu: %s", i, names[j]);
			cr_expect_str_eq(content_of(path_of(names[j])), expected, "%zu: %s", i,
					 names[j]);
			cr_expect_eq(*keys() != '\0', inherits, "%zu: %s", i, names[j]);
			reader = open_at(path_of(names[j]), O_RDONLY);
			write_at(handle, 0, BYTES("56\n"));
			close_handle(handle);
			close_handle(reader);
			cr_expect_str_eq(content_of(path_of(names[j])), "56\n");
			forget(inode);
			cr_assert_eq(unlinked(path_of(names[j])), 0);
			world_settle();
			cr_assert_str_eq(keys(), "");
		}
}

static void open_mode(const char *path)
{
	const struct stat st = { .st_mode = 0644 };

	cr_assert_eq(set_attr(path, &st, TREE_SET_MODE), 0);
}

static void give_away(const char *path)
{
	const struct stat st = { .st_uid = 1001, .st_gid = 1000 };

	cr_assert_eq(set_attr(path, &st, TREE_SET_UID), 0);
}

static void give_to_group(const char *path)
{
	const struct stat st = { .st_mode = 0640, .st_gid = 1001 };

	cr_assert_eq(set_attr(path, &st, TREE_SET_GID | TREE_SET_MODE), 0);
}

static void move_there(const char *path)
{
	char to[48];

	snprintf(to, sizeof(to), "s/moved%s", strrchr(path, '.'));
	cr_assert_eq(renamed(path, to, 0), 0);
	cr_expect_str_eq(content_of(to), "", "%s", to);
	cr_assert_eq(renamed(to, path, 0), 0);
}

static void move_to_ordinary(const char *path)
{
	cr_assert_eq(renamed(path, "s/ordinary", 0), 0);
	cr_expect_str_eq(content_of("s/ordinary"), "");
	cr_assert_eq(renamed("s/ordinary", path, 0), 0);
}

static void (*const openings[])(const char *path) = {
	open_mode, give_away, give_to_group, move_there, move_to_ordinary,
};

/* A list is unlinked, a fifo gets its name, and another file is exchanged with the fifo. */
static void exchange_ghost(const char *from, const char *content, const char *rows)
{
	save("s/g.jsonl", "[1]\n");
	cr_assert_eq(unlinked("s/g.jsonl"), 0);
	cr_assert_eq(make_file("s/g.jsonl", S_IFIFO | 0644), 0);
	save(from, content);
	cr_assert_eq(renamed(from, "s/g.jsonl", RENAME_EXCHANGE), 0);
	cr_expect_str_eq(content_of("s/g.jsonl"), content, "from %s", from);
	cr_expect_str_eq(rows_of("s", "g"), rows, "from %s", from);
	world_settle();
	cr_expect_str_eq(rows_of("s", "g"), rows, "from %s", from);
	world_check();
	cr_assert_eq(unlinked(from), 0);
	cr_assert_eq(unlinked("s/g.jsonl"), 0);
	world_settle();
}

EveryStore(ghosts, leave_nothing_to_who_is_exchanged_with_what_has_their_name)
{
	exchange_ghost("s/c", "torn", "");
	exchange_ghost("s/c", "[2]\n[3]\n", "0=[2] 1=[3]");
	exchange_ghost("s/l.jsonl", "[2]\n", "0=[2]");
}

/* What is renamed over a fifo of their name may be read by more, and has a row that they had. */
EveryStore(ghosts, take_no_row_along_that_who_has_their_name_has_too)
{
	const struct stat secret = { .st_mode = 0600 };

	save("s/g.jsonl", "[1]\n[2]\n");
	cr_assert_eq(set_attr("s/g.jsonl", &secret, TREE_SET_MODE), 0);
	cr_assert_eq(unlinked("s/g.jsonl"), 0);
	cr_assert_eq(make_file("s/g.jsonl", S_IFIFO | 0644), 0);
	save("s/c", "[1]\n[3]\n");
	cr_assert_eq(renamed("s/c", "s/g.jsonl", 0), 0);
	cr_expect_str_eq(rows_of("s", "g"), "0=[1] 1=[3]");
	cr_expect_str_eq(content_of("s/g.jsonl"), "[1]\n[3]\n");
}

EveryStore(ghosts, leave_nothing_to_who_makes_the_file_to_append_to_it)
{
	struct handle *handle;

	save("s/g.jsonl", "1\n2\n");
	cr_assert_eq(unlinked("s/g.jsonl"), 0);
	handle = open_at("s/g.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	cr_expect_str_eq(content_of("s/g.jsonl"), "");
	cr_expect_str_eq(rows_of("s", "g"), "");
	save("s/g.jsonl", "3\n");
	append("s/g.jsonl", "4\n");
	append_to(handle, "5\n");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/g.jsonl"), "3\n4\n5\n");
}

EveryStore(ghosts, are_not_shown_to_more_before_the_new_file_is_saved)
{
	for (size_t i = 0; i < ARRAY_SIZE(openings); i++)
		for (size_t j = 0; j < ARRAY_SIZE(names); j++) {
			const char *path = path_of(names[j]);
			struct handle *handle;
			struct inode *inode;

			leave(names[j], 0600);
			inode = make_as(&owner, names[j], 0600);
			handle = open_inode(inode, O_WRONLY);
			cr_assert(is_late() || strcmp(content_of(path), "1234\n") == 0);
			openings[i](path);
			cr_expect_str_eq(content_of(path), "", "%zu: %s", i, path);
			cr_expect_eq(stat_of(path).st_size, 0, "%zu: %s", i, path);
			write_at(handle, 0, BYTES("56\n"));
			close_handle(handle);
			cr_expect_str_eq(content_of(path), "56\n", "%zu: %s", i, path);
			/* What is its own stays, whatever its owner does. */
			openings[0](path);
			cr_expect_str_eq(content_of(path), "56\n", "%zu: %s", i, path);
			forget(inode);
			world_check();
			cr_assert_eq(unlinked(path), 0);
			world_settle();
			cr_assert_str_eq(keys(), "");
		}
}

/* Files of another user that get the name, whole at once: nothing of the old one is compared. */
SqliteStore(ghosts, leave_nothing_to_a_file_that_another_user_moves_there)
{
	static const struct caller other = { .uid = 1001, .gid = 1001 };

	for (size_t j = 0; j < ARRAY_SIZE(names); j++)
		for (unsigned nameless = 0; nameless < 2; nameless++) {
			struct inode *dir = inode_at("s"), *inode;
			struct handle *handle;

			leave(names[j], 0600);
			sql_runs("UPDATE agentscope_sessions SET created_at = '2001-01-01'");
			if (nameless)
				cr_assert_eq(tree_make_nameless(world_tree, &other, dir,
								S_IFREG | 0666, &inode),
					     0);
			else
				inode = make_as(&other, "mine", 0666);
			handle = open_inode(inode, O_WRONLY);
			write_at(handle, 0, BYTES("1234\n"));
			close_handle(handle);
			cr_assert_eq(nameless ? named(inode, path_of(names[j])) :
						renamed("s/mine", path_of(names[j]), 0),
				     0);
			cr_expect_str_eq(content_of(path_of(names[j])), "1234\n");
			cr_expect_str_eq(sql_asks("SELECT count(*) FROM agentscope_sessions "
						  "WHERE created_at = '2001-01-01'"),
					 "0", "%s, %u", names[j], nameless);
			forget(inode);
			forget(dir);
			cr_assert_eq(unlinked(path_of(names[j])), 0);
			world_settle();
		}
}

SqliteStore(ghosts, leave_neither_pieces_nor_drafts_nor_attributes_behind)
{
	struct inode *inode;

	save("s/l.jsonl", "1\nsecret\n2\n");
	save("s/k.json", "1");
	save("s/k.json", "secret draft");
	inode = inode_at("s/l.jsonl");
	cr_assert_eq(tree_set_xattr(world_tree, inode, BYTES("user.x"), BYTES("y"), 0), 0);
	forget(inode);
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	cr_assert_eq(unlinked("s/k.json"), 0);
	inode = make_as(&owner, "l.jsonl", 0600);
	cr_expect_null(strstr(content_of("s/l.jsonl"), "secret"));
	forget(inode);
	inode = make_as(&owner, "k.json", 0600);
	cr_expect_null(strstr(content_of("s/k.json"), "secret"));
	forget(inode);
	cr_expect_str_eq(sql_asks("SELECT (SELECT count(*) FROM sessfs_piece) + (SELECT count(*) "
				  "FROM sessfs_chunk) + (SELECT count(*) FROM sessfs_xattr)"),
			 "0");
}

EveryStore(ghosts, stay_when_a_directory_elsewhere_is_renamed)
{
	struct handle *handle;

	make_dir("other");
	make_dir("other/below");
	save("s/a.json", "1");
	cr_assert_eq(unlinked("s/a.json"), 0);
	cr_assert_eq(renamed("other/below", "other/moved", 0), 0);
	handle = open_at("s/a.json", O_WRONLY | O_CREAT);
	cr_assert_str_eq(content_of("s/a.json"), "1");
	write_at(handle, 0, BYTES("2"));
	close_handle(handle);
	cr_assert_str_eq(content_of("s/a.json"), "2");
}

SqliteStore(ghosts, of_a_directory_that_another_program_emptied_take_no_rows_of_the_next_one)
{
	struct inode *below;

	make_dir("s/a");
	make_dir("s/b");
	save("s/a/x.json", "\"mine\"");
	save("s/b/x.json", "1");
	save("s/b/y.json", "1");
	below = inode_at("s/b");
	cr_assert_eq(unlinked("s/b/x.json"), 0);
	sql_runs("DELETE FROM agentscope_sessions WHERE state_key = 'b/y'");
	cr_assert_eq(looked_up("s/b"), -ENOENT);
	cr_assert_eq(renamed("s/a", "s/b", 0), 0);
	forget(below);
	world_settle();
	cr_assert_str_eq(content_of("s/b/x.json"), "\"mine\"");
}

/* What other programs do to the rows of a file that was its owner's alone. */
static const struct {
	const char *sql;
	const char *path;
} touches[] = {
	{ "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
	  "VALUES ('s', 'g', 3, '9')",
	  "s/g.jsonl" },
	{ "UPDATE agentscope_sessions SET state_data = '7' WHERE item_index = 1", "s/g.jsonl" },
	{ "DELETE FROM agentscope_sessions WHERE item_index > 0", "s/g.json" },
	{ "DELETE FROM agentscope_sessions WHERE item_index < 2", "s/g.jsonl" },
};

static void unlink_secret(void)
{
	const struct stat st = { .st_mode = 0600, .st_uid = 1000, .st_gid = 1001 };

	save("s/g.jsonl", "1\n\"secret\"\n3\n");
	cr_assert_eq(set_attr("s/g.jsonl", &st, TREE_SET_MODE | TREE_SET_UID | TREE_SET_GID), 0);
	cr_assert_eq(unlinked("s/g.jsonl"), 0);
}

static void expect_secret(const char *path, const char *when)
{
	const struct stat st = stat_of(path);

	cr_expect_eq(st.st_mode, S_IFREG | 0600, "%s has the mode %o %s", path, st.st_mode, when);
	cr_expect_eq(st.st_uid, 1000, "%s is user %u's %s", path, st.st_uid, when);
	cr_expect_eq(st.st_gid, 1001, "%s is group %u's %s", path, st.st_gid, when);
	world_settle();
	world_check();
	cr_assert_eq(unlinked(path), 0);
	world_settle();
}

SqliteStore(ghosts, whose_rows_another_program_changes_are_shown_to_nobody_else)
{
	for (size_t i = 0; i < ARRAY_SIZE(touches); i++) {
		unlink_secret();
		sql_runs(touches[i].sql);
		expect_secret(touches[i].path, touches[i].sql);

		world_kill_after(unlink_secret);
		sql_runs(touches[i].sql);
		cr_assert_eq(world_try(NULL), 0);
		expect_secret(touches[i].path, "after a kill");
	}
}
