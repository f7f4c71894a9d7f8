/* SPDX-License-Identifier: MIT */

/*
 * The layer that joins the writes of a transaction (disk/join.c): random transactions
 * that are larger than SQLite's cache, so that it writes, reads and corrects frames before the
 * commit, with savepoints, by turns on connections with and without the layer.  What each of them
 * commits is what the others see, and what is rolled back has never been; also where the layer
 * grows the WAL ahead.
 */

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "backend/sqlite/disk/join.h"
#include "tests/contract/contract.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"

enum { CONNECTIONS = 3, ROWS = 300, MOST = 3000, TRANSACTIONS = 100, TRANSACTIONS_SOAK = 400 };

static sqlite3 *connections[CONNECTIONS];
static uint64_t chance;

/* What is committed, and what the transaction under way has made of it; 0: no such row. */
struct content {
	uint64_t row[ROWS];
};
static struct content committed;

static void must(sqlite3 *db, int code)
{
	cr_assert(code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE, "%s",
		  sqlite3_errmsg(db));
}

static void run(sqlite3 *db, const char *text)
{
	must(db, sqlite3_exec(db, text, NULL, NULL, NULL));
}

/* The last one is another program: it has SQLite's own layer. */
static void open_all(void)
{
	for (size_t i = 0; i < CONNECTIONS; i++) {
		const char *name = i + 1 < CONNECTIONS ? sqlite_join_name() : NULL;

		must(connections[i],
		     sqlite3_open_v2(scratch_path("join.db"), &connections[i],
				     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, name));
		run(connections[i], "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL;"
				    "PRAGMA synchronous = NORMAL; PRAGMA cache_size = 5;"
				    "PRAGMA wal_autocheckpoint = 200");
	}
}

static void close_all(void)
{
	for (size_t i = 0; i < CONNECTIONS; i++)
		cr_assert_eq(sqlite3_close(connections[i]), SQLITE_OK);
}

/* Bytes that follow from the number. */
static size_t content_of(uint64_t number, char data[MOST])
{
	size_t size = (size_t)(number % MOST);

	for (size_t i = 0; i < size; i++)
		data[i] = (char)random_next(&number);
	return size;
}

static void put(sqlite3 *db, struct content *content)
{
	static const char put_text[] = "INSERT OR REPLACE INTO rows VALUES (?, ?)";
	static const char delete_text[] = "DELETE FROM rows WHERE id = ?";
	size_t id = random_below(&chance, ROWS);
	uint64_t number = random_below(&chance, 5) ? random_next(&chance) | 1 : 0;
	sqlite3_stmt *statement;
	char data[MOST];

	must(db, sqlite3_prepare_v2(db, number ? put_text : delete_text, -1, &statement, NULL));
	must(db, sqlite3_bind_int64(statement, 1, (sqlite3_int64)id));
	if (number)
		must(db, sqlite3_bind_blob(statement, 2, data, (int)content_of(number, data),
					   SQLITE_STATIC));
	must(db, sqlite3_step(statement));
	must(db, sqlite3_finalize(statement));
	content->row[id] = number;
}

static void expect(sqlite3 *db, const struct content *content, const char *who)
{
	struct content found = { 0 };
	sqlite3_stmt *statement;
	char data[MOST];

	must(db, sqlite3_prepare_v2(db, "SELECT id, data FROM rows", -1, &statement, NULL));
	while (sqlite3_step(statement) == SQLITE_ROW) {
		size_t id = (size_t)sqlite3_column_int64(statement, 0);
		size_t size = content_of(content->row[id], data);

		found.row[id] = content->row[id];
		cr_assert_eq((size_t)sqlite3_column_bytes(statement, 1), size, "%s: row %zu", who,
			     id);
		if (size)
			cr_assert_arr_eq(sqlite3_column_blob(statement, 1), data, size,
					 "%s: row %zu", who, id);
	}
	must(db, sqlite3_finalize(statement));
	cr_assert_arr_eq(&found, content, sizeof(found), "%s: which rows there are", who);
}

static void change(sqlite3 *db, struct content *content)
{
	struct content before;

	for (size_t i = random_below(&chance, 30); i > 0; i--)
		put(db, content);
	before = *content;
	run(db, "SAVEPOINT here");
	for (size_t i = random_below(&chance, 30); i > 0; i--)
		put(db, content);
	if (random_below(&chance, 2)) {
		run(db, "ROLLBACK TO here");
		*content = before;
	}
	run(db, "RELEASE here");
	for (size_t i = random_below(&chance, 10); i > 0; i--)
		put(db, content);
}

static void transact(void)
{
	size_t who = random_below(&chance, CONNECTIONS);
	sqlite3 *db = connections[who];
	struct content content = committed;

	run(db, "BEGIN IMMEDIATE");
	sqlite_join_ahead(db, random_below(&chance, 2));
	change(db, &content);
	if (random_below(&chance, 2))
		expect(db, &content, "who writes");
	if (random_below(&chance, 3)) {
		run(db, "COMMIT");
		committed = content;
	} else {
		run(db, "ROLLBACK");
	}
	if (!random_below(&chance, 20))
		run(connections[random_below(&chance, CONNECTIONS)],
		    "PRAGMA wal_checkpoint(TRUNCATE)");
	/* Who wrote may look later, when others have written. */
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (i != who || random_below(&chance, 2))
			expect(connections[i], &committed, i == who ? "who wrote" : "another");
}

static int check_row(void *arg, int count, char **values, char **names)
{
	(void)count;
	(void)names;
	*(bool *)arg = strcmp(values[0], "ok") == 0;
	return 0;
}

Test(join, what_is_committed_is_what_all_see, .fini = close_stores)
{
	bool sound = false;

	chance = random_seed("join");
	open_all();
	run(connections[0], "CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)");
	for (unsigned long i = rounds("SESSFS_JOINS", TRANSACTIONS, TRANSACTIONS_SOAK); i > 0; i--)
		transact();

	close_all();
	open_all();
	expect(connections[0], &committed, "who opens it again");
	must(connections[0],
	     sqlite3_exec(connections[0], "PRAGMA integrity_check", check_row, &sound, NULL));
	cr_assert(sound, "the database is sound");
	close_all();
}

Test(join, knows_which_versions_lose_logs)
{
	static const struct {
		int version;
		bool flawed;
	} versions[] = {
		{ 3006023, false }, { 3007000, true },	{ 3040001, true }, { 3044005, true },
		{ 3044006, false }, { 3044009, false }, { 3045000, true }, { 3050006, true },
		{ 3050007, false }, { 3051000, true },	{ 3051002, true }, { 3051003, false },
		{ 3052000, false }, { 4000000, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		cr_expect_eq(sqlite_join_mends(versions[i].version), versions[i].flawed, "%d",
			     versions[i].version);
}
