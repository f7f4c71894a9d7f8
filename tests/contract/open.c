/* SPDX-License-Identifier: MIT */
/* Opening: what is made, what is refused and how, who owns. */
#include "tests/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/base/log.h"

static const struct backend_options owner = { .create = true, .owner = "the test" };
static const struct backend_options guest = { 0 };

TestSuite(opening, .fini = close_stores);

static void write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, size), (ssize_t)size);
	close(fd);
}

/* It is refused with this error and a sentence that has these words and names the file. */
static void expect_refusal(const char *path, const struct backend_options *options, int error,
			   const char *words)
{
	_cleanup_(freep) char *why = NULL;

	cr_assert_eq(refused_at(path, options, &why), error, "%s", why);
	cr_assert(strstr(why, words), "\"%s\" does not say \"%s\"", why, words);
	cr_assert(strstr(why, path), "\"%s\" does not name the file", why);
}

static void make_other(const char *path, const char *sql)
{
	sqlite3 *db = other_open(path);

	other_runs(db, sql);
	other_close(db);
}

static void make_store(const char *path)
{
	struct backend *backend = open_at(path, &owner);

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("{}"))), 0);
	shut(backend);
}

Test(opening, makes_a_store_that_nobody_else_may_read)
{
	const char *path = scratch_path("store.db");
	struct stat st;

	umask(0);
	make_store(path);

	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
}

Test(opening, makes_a_store_that_explains_itself)
{
	const char *path = scratch_path("store.db");
	sqlite3 *db;

	make_store(path);
	db = other_open(path);

	cr_assert_str_eq(other_asks(db, "PRAGMA application_id"), "1936028518");
	cr_assert_str_eq(other_asks(db, "PRAGMA user_version"), "7");
	cr_assert_str_eq(other_asks(db, "PRAGMA journal_mode"), "wal");
	cr_assert_str_eq(other_asks(db, "SELECT sql LIKE '%-- One row a file or directory%' FROM "
					"sqlite_schema WHERE name = 'sessfs_node'"),
			 "1");
	cr_assert_str_eq(other_asks(db, "SELECT state_data FROM agentscope_sessions WHERE "
					"session_id = 'sess' AND state_key = 'messages'"),
			 "{}");
	other_runs(db, "INSERT INTO agentscope_sessions (session_id, state_key, state_data) "
		       "VALUES ('s', 'k', '1')");
	cr_assert_str_eq(other_asks(db, "SELECT item_index || (created_at = updated_at) FROM "
					"agentscope_sessions WHERE session_id = 's'"),
			 "01");
	other_close(db);
}

Test(opening, finds_again_what_was_committed)
{
	const char *path = scratch_path("store.db");
	struct backend *backend;

	make_store(path);
	backend = open_at(path, &guest);

	cr_assert_str_eq(rows_of(backend, S, K), "0={}");
	cr_assert_eq(snapshot_error(backend), 0);
}

Test(opening, goes_through_a_symbolic_link)
{
	const char *path = scratch_path("store.db"), *link = scratch_path("link");

	make_store(path);
	cr_assert_eq(symlink(path, link), 0);

	cr_assert_str_eq(rows_of(open_at(link, &guest), S, K), "0={}");
}

Test(opening, refuses_a_link_to_nowhere)
{
	const char *link = scratch_path("link");

	cr_assert_eq(symlink("/nonexistent/x", link), 0);
	expect_refusal(link, &owner, -EEXIST, "leads nowhere");
}

Test(opening, refuses_a_store_that_is_not_there)
{
	expect_refusal(scratch_path("none.db"), &guest, -ENOENT, "no store");
	cr_assert_eq(access(scratch_path("none.db"), F_OK), -1);
}

Test(opening, refuses_a_directory_that_is_missing)
{
	expect_refusal(scratch_path("no/where/store.db"), &owner, -ENOENT, "make it first");
}

Test(opening, refuses_a_directory)
{
	const char *path = scratch_path("dir");

	cr_assert_eq(mkdir(path, 0700), 0);
	expect_refusal(path, &owner, -EISDIR, "is a directory");
}

Test(opening, refuses_a_pipe)
{
	const char *path = scratch_path("pipe");

	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_refusal(path, &owner, -EMEDIUMTYPE, "regular file");
}

Test(opening, refuses_what_is_not_sqlite_and_leaves_it_alone)
{
	const char *path = scratch_path("notes.txt");
	char text[32] = "";
	int fd;

	write_file(path, "dear diary", 10);
	expect_refusal(path, &owner, -EMEDIUMTYPE, "not a SQLite database");

	fd = open(path, O_RDONLY);
	cr_assert_eq(read(fd, text, sizeof(text)), 10);
	cr_assert_str_eq(text, "dear diary");
	close(fd);
}

Test(opening, refuses_an_empty_file_unless_it_may_make_a_store)
{
	const char *path = scratch_path("empty.db");

	write_file(path, "", 0);
	expect_refusal(path, &guest, -EMEDIUMTYPE, "empty");

	make_store(path);
	cr_assert_str_eq(rows_of(open_at(path, &guest), S, K), "0={}");
}

Test(opening, refuses_a_truncated_store)
{
	const char *path = scratch_path("store.db");

	make_store(path);
	cr_assert_eq(truncate(path, 20000), 0);
	expect_refusal(path, &owner, -EIO, "damaged");
	cr_assert_eq(truncate(path, 50), 0);
	expect_refusal(path, &owner, -EIO, "damaged");
}

Test(opening, refuses_a_store_whose_schema_is_garbage)
{
	const char *path = scratch_path("store.db");
	char garbage[4000];
	int fd;

	make_store(path);
	memset(garbage, 0x5a, sizeof(garbage));
	fd = open(path, O_WRONLY);
	cr_assert_eq(pwrite(fd, garbage, sizeof(garbage), 100), (ssize_t)sizeof(garbage));
	close(fd);

	expect_refusal(path, &owner, -EIO, "damaged");
}

Test(opening, refuses_the_database_of_another_program)
{
	const char *path = scratch_path("browser.db");

	make_other(path, "CREATE TABLE bookmarks (url TEXT)");
	expect_refusal(path, &owner, -EMEDIUMTYPE, "another program");
}

Test(opening, refuses_an_empty_database_with_the_mark_of_another_program)
{
	const char *path = scratch_path("other.db");

	make_other(path, "PRAGMA application_id = 77; CREATE TABLE t (x); DROP TABLE t");
	expect_refusal(path, &owner, -EMEDIUMTYPE, "another program");
}

Test(opening, refuses_an_older_format_and_leaves_it_as_it_is)
{
	static const char *const marks[] = { "UPDATE sessfs_meta SET value = 4 WHERE key = "
					     "'schema_version'; PRAGMA user_version = 4",
					     "UPDATE sessfs_meta SET value = 1 WHERE key = "
					     "'schema_version'; PRAGMA user_version = 0" };
	static const struct backend_options reader = { .read_only = true };
	const char *path = scratch_path("store.db");

	make_store(path);
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		make_other(path, marks[i]);
		expect_refusal(path, &owner, -EPROTONOSUPPORT, "an older sessfs");
		expect_refusal(path, &reader, -EPROTONOSUPPORT, i ? "format 1," : "format 4,");
	}
}

Test(opening, refuses_a_newer_format)
{
	const char *path = scratch_path("store.db");

	make_store(path);
	make_other(path, "UPDATE sessfs_meta SET value = 8 WHERE key = 'schema_version'");
	expect_refusal(path, &owner, -EPROTONOSUPPORT, "newer");
	make_other(path, "UPDATE sessfs_meta SET value = 7 WHERE key = 'schema_version'; "
			 "PRAGMA user_version = 9");
	expect_refusal(path, &owner, -EPROTONOSUPPORT, "format 9");
}

Test(opening, brings_the_format_before_forward_unless_older_programs_have_it)
{
	static const struct backend_options shared = { .owner = "one of before", .shared = true };
	const char *path = scratch_path("store.db");
	struct backend *older;
	sqlite3 *db;

	make_store(path);
	older = open_at(path, &shared);
	make_other(path, "UPDATE sessfs_meta SET value = 6 WHERE key = 'schema_version'; "
			 "PRAGMA user_version = 6; CREATE TABLE sessfs_claim (ino, mount, n)");
	expect_refusal(path, &shared, -EBUSY, "is mounted by an older sessfs (one of before)");
	expect_refusal(path, &guest, -EBUSY, "is mounted by an older sessfs (one of before)");
	shut(older);
	shut(open_at(path, &shared));
	db = other_open(path);
	cr_expect_str_eq(other_asks(db, "PRAGMA user_version"), "7");
	cr_expect_str_eq(other_asks(db, "SELECT value FROM sessfs_meta WHERE key = "
					"'schema_version'"),
			 "7");
	cr_expect_str_eq(other_asks(db, "SELECT count(*) FROM sqlite_schema WHERE name = "
					"'sessfs_claim'"),
			 "0");
	cr_expect_str_eq(other_asks(db, "SELECT count(*) FROM agentscope_sessions"), "1");
	other_close(db);
}

Test(opening, refuses_the_older_layout_with_a_hint)
{
	const char *path = scratch_path("old.db");

	make_other(path, "CREATE TABLE agentscope_sessions (session_id TEXT PRIMARY KEY, "
			 "session_data TEXT)");
	expect_refusal(path, &owner, -EMEDIUMTYPE, "sessfs import");
}

Test(opening, refuses_rows_without_a_unique_key)
{
	const char *path = scratch_path("foreign.db");

	make_other(path, "CREATE TABLE agentscope_sessions (session_id TEXT, state_key TEXT, "
			 "item_index INTEGER, state_data TEXT); CREATE UNIQUE INDEX i ON "
			 "agentscope_sessions (session_id, state_key)");
	expect_refusal(path, &owner, -EMEDIUMTYPE, "unique index");
}

Test(opening, refuses_keys_that_do_not_tell_letters_apart)
{
	const char *path = scratch_path("foreign.db");

	make_other(path, "CREATE TABLE agentscope_sessions (session_id TEXT COLLATE NOCASE, "
			 "state_key TEXT, item_index INTEGER, state_data TEXT, PRIMARY KEY "
			 "(session_id, state_key, item_index))");
	expect_refusal(path, &owner, -EMEDIUMTYPE, "unique index");
}

Test(opening, refuses_columns_that_would_change_what_is_written)
{
	const char *path = scratch_path("foreign.db");

	make_other(path, "CREATE TABLE agentscope_sessions (session_id STRING, state_key TEXT, "
			 "item_index INTEGER, state_data TEXT, PRIMARY KEY (session_id, state_key, "
			 "item_index))");
	expect_refusal(path, &owner, -EMEDIUMTYPE, "STRING");
}

Test(opening, refuses_a_table_that_takes_no_rows_of_ours)
{
	const char *path = scratch_path("foreign.db");

	make_other(path, "CREATE TABLE agentscope_sessions (session_id TEXT, state_key TEXT, "
			 "item_index INTEGER, state_data TEXT, tenant TEXT NOT NULL, PRIMARY KEY "
			 "(session_id, state_key, item_index))");
	expect_refusal(path, &owner, -EMEDIUMTYPE, "tenant");
}

Test(opening, refuses_another_table_than_the_one_it_serves)
{
	const struct backend_options named = { .table = "other", .create = true };
	const char *path = scratch_path("store.db");

	make_store(path);
	expect_refusal(path, &named, -EINVAL, "agentscope_sessions");
}

Test(opening, makes_a_table_of_another_name)
{
	const struct backend_options named = { .table = "chats", .create = true };
	const char *path = scratch_path("store.db");
	struct backend *backend = open_at(path, &named);
	sqlite3 *db;

	COMMIT(backend, row_insert(S, K, 0, BYTES("{}")));
	db = other_open(path);
	cr_assert_str_eq(other_asks(db, "SELECT count(*) FROM chats"), "1");
	other_close(db);
}

Test(opening, puts_back_a_table_of_rows_that_was_lost)
{
	const char *path = scratch_path("store.db");
	struct backend *backend;

	make_store(path);
	make_other(path, "DROP TABLE agentscope_sessions");
	backend = open_at(path, &owner);

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("{}"))), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0={}");
}

/* Owners. */

Test(opening, refuses_what_is_planted_where_the_log_belongs)
{
	const char *path = scratch_path("store.db"), *wal = scratch_path("store.db-wal");

	make_store(path);
	log_set_level(LOG_CRIT);
	cr_assert_eq(symlink(scratch_path("target"), wal), 0);
	expect_refusal(path, &owner, -ELOOP, "a link; find out what");
	cr_assert_neq(access(scratch_path("target"), F_OK), 0, "the link was followed");

	cr_assert_eq(unlink(wal), 0);
	cr_assert_eq(mkdir(wal, 0700), 0);
	expect_refusal(path, &owner, -ELOOP, "a special file or directory; find out what");
	cr_assert_eq(rmdir(wal), 0);
	shut(open_at(path, &owner));
}

Test(opening, refuses_a_link_where_any_file_of_sqlite_belongs)
{
	static const char *const names[] = { "store.db-wal", "store.db-shm", "store.db-journal" };
	const char *path = scratch_path("store.db"), *target = scratch_path("target");
	struct stat st;

	make_store(path);
	log_set_level(LOG_CRIT);
	cr_assert_eq(close(creat(target, 0600)), 0);
	cr_assert_eq(truncate(target, 4096), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *link = scratch_path(names[i]);

		cr_assert_eq(symlink(target, link), 0);
		expect_refusal(path, &owner, -ELOOP, "a link; find out what");
		expect_refusal(path, &guest, -ELOOP, "a link; find out what");
		cr_assert_eq(unlink(link), 0);
	}
	cr_assert_eq(stat(target, &st), 0);
	cr_assert_eq(st.st_size, 4096, "the link was followed");
	shut(open_at(path, &owner));
}

Test(opening, is_refused_while_another_owns_the_store)
{
	const char *path = scratch_path("store.db");
	struct backend *first = open_at(path, &owner);

	expect_refusal(path, &owner, -EBUSY, "in use by the test");
	cr_assert_str_eq(rows_of(open_at(path, &guest), S, K), "", "guests are welcome");
	cr_assert_eq(COMMIT(first, row_insert(S, K, 0, BYTES("{}"))), 0);
	shut(first);
	open_at(path, &owner);
}

/* A process that owns the store until it is killed. */
static pid_t own_elsewhere(const char *path)
{
	const struct backend_options elsewhere = { .create = true, .owner = "process 4711" };
	int fds[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		struct backend *backend;

		if (backend_open(path, &elsewhere, &backend, NULL) == 0 &&
		    COMMIT(backend, row_insert(S, K, 0, BYTES("{}"))) == 0 &&
		    write(fds[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

Test(opening, is_refused_only_as_long_as_the_owner_lives)
{
	const char *path = scratch_path("store.db");
	pid_t pid = own_elsewhere(path);

	expect_refusal(path, &owner, -EBUSY, "in use by process 4711");
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);

	cr_assert_str_eq(rows_of(open_at(path, &owner), S, K), "0={}");
}

Test(opening, for_reading_is_possible_beside_an_owner_but_writes_nothing)
{
	const struct backend_options read_only = { .read_only = true, .owner = "the test" };
	const char *path = scratch_path("store.db");
	pid_t pid = own_elsewhere(path);
	struct backend_node node = plain_node(5);
	struct backend *backend = open_at(path, &read_only);

	cr_assert_str_eq(rows_of(backend, S, K), "0={}");
	cr_assert_eq(COMMIT(backend, node_put(&node)), -EROFS);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(opening, for_reading_tells_a_frozen_reader_once_that_something_moved)
{
	const struct backend_options read_only = { .read_only = true };
	const char *path = scratch_path("store.db");
	struct backend *writer = open_at(path, &owner), *backend = open_at(path, &read_only);

	cr_assert_str_eq(changes_of(backend), "");
	COMMIT(writer, row_insert(S, K, 0, BYTES("{}")));
	cr_assert_eq(backend_change_wait(backend, 20000), 1);
	cr_assert_eq(snapshot_error(backend), 0);
	cr_assert_str_eq(changes_of(backend), "everything");
	cr_assert_str_eq(changes_of(backend), "");
}

Test(opening, for_reading_writes_our_own_tables_but_no_row)
{
	const struct backend_options read_only = { .read_only = true, .owner = "the test" };
	const char *path = scratch_path("store.db");
	struct backend_node node = plain_node(5);
	struct backend *backend;

	make_store(path);
	backend = open_at(path, &read_only);

	cr_assert_eq(COMMIT(backend, node_put(&node)), 0);
	cr_assert_eq(COMMIT(backend, row_put(S, K, 0, BYTES("no"))), -EROFS);
	cr_assert_eq(COMMIT(backend, row_delete(S, K, 0, 0)), -EROFS);
	cr_assert_str_eq(rows_of(backend, S, K), "0={}");
	cr_assert_str_eq(nodes_of(backend, 1, false), "5");
}

/* Rights are only felt by who is not root. */
static void as_nobody(void (*act)(const char *path), const char *path)
{
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(2);
		act(path);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

static void read_frozen(const char *path)
{
	const struct backend_options read_only = { .read_only = true, .owner = "nobody" };
	struct backend_snapshot *snapshot;
	struct backend_key_stat stat;
	struct backend *backend;
	char *why = NULL;

	if (backend_open(path, &read_only, &backend, &why) < 0)
		_exit(3);
	if (backend->ops->snapshot_begin(backend, 0, &snapshot) < 0 ||
	    backend->ops->key_stat(backend, snapshot, S, K, &stat) < 0)
		_exit(4);
	backend->ops->snapshot_end(backend, snapshot);
	if (COMMIT(backend, row_put(S, K, 0, BYTES("no"))) != -EROFS)
		_exit(5);
	backend_close(backend);
}

static void fail_to_write(const char *path)
{
	struct backend *backend;
	char *why = NULL;

	if (backend_open(path, &owner, &backend, &why) != -EACCES || !strstr(why, path))
		_exit(6);
	free(why);
}

Test(opening, for_reading_needs_no_right_to_write)
{
	const char *path = scratch_path("store.db");

	make_store(path);
	cr_assert_eq(chmod(path, 0444), 0);
	cr_assert_eq(chmod(scratch_path("."), 0555), 0);

	as_nobody(read_frozen, path);
	as_nobody(fail_to_write, path);
	cr_assert_eq(chmod(scratch_path("."), 0700), 0);
}

/* Damage. */

enum { NODES = 8 };

/* In the page of a table or index, which has one, the last record comes in the place of three. */
static void repeat_last(const char *path, const char *table)
{
	sqlite3 *db = other_open(path);
	char *root = sqlite3_mprintf("SELECT rootpage FROM sqlite_schema WHERE name = %Q", table);
	const long page = (strtol(other_asks(db, root), NULL, 10) - 1) *
			  strtol(other_asks(db, "PRAGMA page_size"), NULL, 10);
	unsigned char head[256];
	unsigned count;
	int fd;

	sqlite3_free(root);
	other_runs(db, "PRAGMA journal_mode = DELETE");
	other_close(db);
	fd = open(path, O_RDWR);
	cr_assert_eq(pread(fd, head, sizeof(head), page), (ssize_t)sizeof(head));
	count = head[3] << 8 | head[4];
	cr_assert_geq(count, NODES);
	for (unsigned i = count - 3; i < count - 1; i++)
		memcpy(head + 8 + 2 * i, head + 8 + 2 * (count - 1), 2);
	cr_assert_eq(pwrite(fd, head, sizeof(head), page), (ssize_t)sizeof(head));
	close(fd);
}

static int one_node(void *arg, const struct backend_node *node)
{
	*(uint64_t *)arg = node->ino;
	return 1;
}

static int one_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	(void)node;
	*(uint64_t *)arg = entry->id;
	return 1;
}

/* Whether a listing that asks for the next one again and again comes to an end. */
static bool listing_ends(struct backend *backend, bool entries)
{
	struct backend_snapshot *snapshot;
	uint64_t after = 0;
	int tries = 0, r = 0;

	cr_assert_eq(backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot), 0);
	for (bool more = true; more && r == 0 && tries < 100; tries++) {
		uint64_t found = 0;

		r = entries ? backend->ops->entry_list(backend, snapshot, BACKEND_ROOT, after,
						       one_entry, &found) :
			      backend->ops->node_list(backend, snapshot, after, false, one_node,
						      &found);
		more = found;
		after = found;
	}
	backend->ops->snapshot_end(backend, snapshot);
	return tries < 100;
}

static void damage_and_list(const char *table, bool entries)
{
	static const struct backend_options reader = { .read_only = true };
	const char *path = scratch_path("store.db");
	struct backend *backend = open_at(path, &owner);

	for (uint64_t i = 2; i < 2 + NODES; i++) {
		struct backend_node node = { .ino = i, .mode = S_IFREG | 0600, .nlink = 1 };
		char name[8];

		snprintf(name, sizeof(name), "n%d", (int)i);
		cr_assert_eq(COMMIT(backend, node_put(&node),
				    entry_put(BACKEND_ROOT, (int64_t)i, bytes_str(name), i)),
			     0);
	}
	shut(backend);
	repeat_last(path, table);
	backend = open_at(path, &reader);
	cr_expect(listing_ends(backend, entries), "%s", table);
}

Test(opening, of_a_damaged_store_lists_no_node_for_ever)
{
	damage_and_list("sessfs_node", false);
}

Test(opening, of_a_damaged_store_lists_no_entry_for_ever)
{
	damage_and_list("sessfs_entry", true);
}

/* Room. */

Test(opening, with_a_quota_ends_in_enospc_and_goes_on_after_a_deletion)
{
	const struct backend_options small = { .create = true,
					       .owner = "the test",
					       .max_size = 1 << 20 };
	struct backend *backend = open_at(scratch_path("store.db"), &small);
	static char data[50000];
	struct backend_space space;
	int64_t count = 0;
	int r;

	memset(data, 'x', sizeof(data));
	while ((r = COMMIT(backend, row_insert(S, K, count, bytes_make(data, sizeof(data))))) == 0)
		cr_assert_lt(++count, 30);
	cr_assert_eq(r, -ENOSPC);
	cr_assert_gt(count, 10);
	cr_assert_eq(backend->ops->space(backend, &space), 0);
	cr_assert_eq(space.total, 1 << 20);
	cr_assert_lt(space.free, 60000);

	cr_assert_eq(COMMIT(backend, row_delete(S, K, 0, 3)), 0);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, bytes_make(data, sizeof(data)))), 0);
}

struct reader {
	struct backend *backend;
	struct backend_snapshot *snapshot;
};

static void *end_in_a_second(void *arg)
{
	const struct reader *reader = arg;

	usleep(1000000);
	reader->backend->ops->snapshot_end(reader->backend, reader->snapshot);
	return NULL;
}

/* The log cannot be longer than a file may be, and is begun anew when its readers have ended. */
Test(opening, with_a_full_log_waits_for_readers_of_its_own)
{
	const struct rlimit limit = { .rlim_cur = 4 << 20, .rlim_max = RLIM_INFINITY };
	struct reader reader = { .backend = open_at(scratch_path("store.db"), &owner) };
	static char data[50000];
	struct backend_op put = row_put(S, K, 0, bytes_make(data, sizeof(data)));
	pthread_t thread;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(COMMIT(reader.backend, put), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(reader.backend->ops->snapshot_begin(reader.backend, BACKEND_BEGUN,
							 &reader.snapshot),
		     0);
	cr_assert_eq(pthread_create(&thread, NULL, end_in_a_second, &reader), 0);

	for (int i = 0; i < 300; i++) {
		memset(data, i, sizeof(data));
		cr_assert_eq(COMMIT(reader.backend, put), 0, "commit %d", i);
	}
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(opening, of_a_memory_store_minds_its_quota)
{
	const struct backend_options small = { .max_size = 100000 };
	struct backend *backend = open_at("memory:", &small);
	static char data[60000];

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, bytes_make(data, sizeof(data)))), 0);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 1, bytes_make(data, sizeof(data)))), -ENOSPC);
	cr_assert_eq(COMMIT(backend, row_delete(S, K, 0, 0)), 0);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 1, bytes_make(data, sizeof(data)))), 0);
}

Test(opening, waits_for_a_program_that_holds_a_lock)
{
	const char *path = scratch_path("store.db");
	struct backend *backend = open_at(path, &owner);
	int ready[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		sqlite3 *db = NULL;

		if (sqlite3_open(path, &db) != SQLITE_OK ||
		    sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		usleep(300000);
		_exit(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("{}"))), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
}
