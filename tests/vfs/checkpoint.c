/* SPDX-License-Identifier: MIT */

/*
 * A checkpoint and a writer beside it (disk/join.c), in all orders: the writer comes, or
 * commits what it has begun before, at each call that the checkpoint makes.  Whatever SQLite makes
 * of it, what is noted as copied is in the log that there is; a writer of ours does not begin the
 * log anew while the checkpoint has its lock; and in the end all is there that was committed.  One
 * of both may be another program, with no layer of ours.
 */

#include <stdio.h>
#include <string.h>

#include "backend/sqlite/disk/join.h"
#include "tests/vfs/place.h"

enum {
	FIRST = 12,  /* rows before, of about a page each */
	FEW = 3,     /* at the step */
	MANY = 24,   /* behind it: more than there were before */
	STEPS = 200, /* no checkpoint of so little makes more */
};

enum how { AUTOMATIC = SQLITE_CHECKPOINT_TRUNCATE + 1, CLOSING, HOWS };

/* One order. */
struct order {
	int how;     /* a mode of SQLite's, or one of the above */
	bool ours;   /* the writer has the layer */
	bool theirs; /* the checkpoint has it not */
	bool begun;  /* the writer has begun before, and commits at the step */
	bool copied; /* another checkpoint has just copied all there was */
	unsigned at; /* the step */
};

static const char *db_path;
static struct order order;
static sqlite3 *checkpointer, *writer, *another;
static unsigned rows; /* committed */
static unsigned steps;
static bool has_lock; /* the checkpoint has the lock of those */
static char stopped[64];

static void describe(char text[256])
{
	static const char *const names[HOWS] = { "passive",  "full",	  "restart",
						 "truncate", "automatic", "at the last close" };

	snprintf(text, 256, "%s%s, %s writer%s%s, at step %u, %s", names[order.how],
		 order.theirs ? " of another program" : "", order.ours ? "our" : "another",
		 order.begun ? " that has begun" : "", order.copied ? ", all copied" : "", order.at,
		 stopped);
}

static void must(int code)
{
	char text[256];

	describe(text);
	cr_assert_eq(code, SQLITE_OK, "%s: %s", text, sqlite3_errstr(code));
}

static int run(sqlite3 *db, const char *text)
{
	return sqlite3_exec(db, text, NULL, NULL, NULL);
}

static sqlite3 *open_db(bool ours)
{
	sqlite3 *db;

	must(sqlite3_open_v2(db_path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
			     ours ? sqlite_join_name() : NULL));
	sqlite3_extended_result_codes(db, 1);
	sqlite3_wal_autocheckpoint(db, 0);
	return db;
}

/* A number in the index of the log, as https://www.sqlite.org/walformat.html has it. */
static uint32_t in_index(size_t at)
{
	enum { BLOCK = 32768 };
	sqlite3_file *file;
	void volatile *index;

	must(sqlite3_file_control(writer, "main", SQLITE_FCNTL_FILE_POINTER, &file));
	must(file->pMethods->xShmMap(file, 0, BLOCK, 0, &index));
	return *(const volatile uint32_t *)((const volatile char *)index + at);
}

static uint32_t frames(void)
{
	return in_index(16);
}

static uint32_t copied(void)
{
	return in_index(96);
}

/* Of the log: it moves when that is begun anew. */
static uint32_t salt(void)
{
	return in_index(32);
}

static int add_rows(sqlite3 *db, unsigned count)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %u) "
		 "INSERT INTO rows SELECT NULL, zeroblob(400) FROM n",
		 count);
	return run(db, text);
}

/* Whoever commits may be refused, and then nothing has happened. */
static void commit_rows(sqlite3 *db, unsigned count)
{
	int code = sqlite3_get_autocommit(db) ? run(db, "BEGIN IMMEDIATE") : SQLITE_OK;

	if (code == SQLITE_OK && count)
		code = add_rows(db, count);
	if (code == SQLITE_OK)
		code = run(db, "COMMIT");
	if (code == SQLITE_OK)
		rows += count ? count : FEW;
	else
		run(db, "ROLLBACK");
	/* The second is what who reads is told in the end. */
	if ((code & 0xff) != SQLITE_BUSY && code != SQLITE_PROTOCOL)
		must(code);
}

static void come_between(void)
{
	char text[256];
	bool apart = writer && order.ours && has_lock && frames();
	uint32_t before = apart ? salt() : 0;

	if (order.how == CLOSING)
		writer = open_db(order.ours);
	commit_rows(writer, order.begun ? 0 : FEW);
	describe(text);
	if (apart)
		cr_assert_eq(salt(), before, "%s: the log was begun anew", text);
}

static void at_step(void *arg, const char *name)
{
	(void)arg;
	if (steps++ == order.at) {
		snprintf(stopped, sizeof(stopped), "%s", name);
		come_between();
	}
	/* That it is asked for is not that it is had; but nobody else checkpoints here. */
	if (strcmp(name, "ShmLock 1") == 0)
		has_lock = true;
	if (strcmp(name, "ShmUnlock 1") == 0)
		has_lock = false;
}

static void checkpoint(void)
{
	int code = SQLITE_OK;

	if (order.how == CLOSING) {
		must(sqlite3_close(checkpointer));
		checkpointer = NULL;
	} else if (order.how == AUTOMATIC) {
		must(run(checkpointer, "PRAGMA wal_autocheckpoint = 1"));
		commit_rows(checkpointer, 1);
	} else {
		code = sqlite3_wal_checkpoint_v2(checkpointer, "main", order.how, NULL, NULL);
	}
	if ((code & 0xff) != SQLITE_BUSY)
		must(code);
}

static void begin_order(void)
{
	db_path = place_store(place_fresh("orders"));
	rows = steps = 0;
	has_lock = false;
	strcpy(stopped, "never");
	writer = NULL;
	checkpointer = open_db(!order.theirs);
	must(run(checkpointer, "PRAGMA page_size = 512; PRAGMA journal_mode = WAL;"
			       "CREATE TABLE rows (id INTEGER PRIMARY KEY, data)"));
	if (order.how != CLOSING) {
		writer = open_db(order.ours);
		another = open_db(true);
		/* Who has not read knows of no log to copy. */
		must(run(another, "SELECT 1 FROM rows"));
	}
	commit_rows(writer ? writer : checkpointer, FIRST);
	if (order.copied)
		must(sqlite3_wal_checkpoint_v2(writer ? another : checkpointer, "main",
					       SQLITE_CHECKPOINT_PASSIVE, NULL, NULL));
	if (order.begun) {
		must(run(writer, "BEGIN IMMEDIATE"));
		must(add_rows(writer, FEW));
	}
}

/* Nothing of what was committed is lost, also when the log is begun anew and copied once more. */
static void end_order(void)
{
	sqlite3_stmt *statement;
	char text[256];

	if (!writer)
		writer = open_db(order.ours);
	if (!sqlite3_get_autocommit(writer))
		must(run(writer, "ROLLBACK"));
	if (!another)
		another = open_db(true);
	commit_rows(writer, MANY);
	must(sqlite3_wal_checkpoint_v2(another, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL));
	commit_rows(writer, 1);
	sqlite3_close(checkpointer);
	sqlite3_close(another);
	sqlite3_close(writer);
	another = NULL;

	writer = open_db(false);
	describe(text);
	must(sqlite3_prepare_v2(writer,
				"SELECT count(*), (SELECT integrity_check FROM "
				"pragma_integrity_check) FROM rows",
				-1, &statement, NULL));
	cr_assert_eq(sqlite3_step(statement), SQLITE_ROW, "%s: %s", text, sqlite3_errmsg(writer));
	cr_assert_eq(sqlite3_column_int(statement, 0), (int)rows, "%s: %d rows of %u", text,
		     sqlite3_column_int(statement, 0), rows);
	cr_assert_str_eq((const char *)sqlite3_column_text(statement, 1), "ok", "%s", text);
	sqlite3_finalize(statement);
	sqlite3_close(writer);
}

/* Whether there is such a step. */
static bool try_order(void)
{
	char text[256];
	bool come;

	begin_order();
	shim_watch(SHIM_THIS_THREAD, at_step, NULL);
	checkpoint();
	shim_watch(SHIM_THIS_THREAD, NULL, NULL);
	come = steps > order.at;
	describe(text);
	if (order.how != CLOSING)
		cr_assert_leq(copied(), frames(), "%s: %u of %u frames are copied", text, copied(),
			      frames());
	end_order();
	return come;
}

static void try_steps(void)
{
	order.at = 0;
	while (try_order())
		cr_assert_lt(++order.at, STEPS);
}

static int hows[HOWS];

ParameterizedTestParameters(checkpoint, copies_the_log_that_there_is)
{
	for (int i = 0; i < HOWS; i++)
		hows[i] = i;
	return cr_make_param_array(int, hows, HOWS, NULL);
}

ParameterizedTest(const int *how, checkpoint, copies_the_log_that_there_is, .init = place_begin,
		  .fini = place_end)
{
	for (unsigned i = 0; i < 16; i++) {
		order = (struct order){
			.how = *how, .ours = i & 1, .theirs = i & 2, .begun = i & 4, .copied = i & 8
		};
		/* Between two programs that have it not it is SQLite's own affair. */
		if ((order.ours || !order.theirs) && (*how != CLOSING || !order.begun))
			try_steps();
	}
}

static unsigned cuts;

static void count_cut(void *arg, const char *name)
{
	(void)arg;
	cuts += strcmp(name, "Truncate") == 0;
}

static unsigned cuts_of(int how)
{
	cuts = 0;
	order.how = how;
	shim_watch(SHIM_THIS_THREAD, count_cut, NULL);
	checkpoint();
	shim_watch(SHIM_THIS_THREAD, NULL, NULL);
	return cuts;
}

/* Also where the file stays as long as it is, a cut takes the blocks behind its end. */
Test(checkpoint, cuts_the_database_only_when_nobody_writes, .init = place_begin, .fini = place_end)
{
	order = (struct order){ .ours = true };
	begin_order();
	must(run(writer, "BEGIN IMMEDIATE"));
	must(add_rows(writer, MANY));
	cr_expect_eq(cuts_of(SQLITE_CHECKPOINT_PASSIVE), 0, "beside a transaction");
	must(run(writer, "COMMIT; BEGIN IMMEDIATE"));
	cr_expect_eq(cuts_of(SQLITE_CHECKPOINT_RESTART), 0, "where that was to be waited for");
	must(run(writer, "COMMIT"));
	must(run(writer, "DELETE FROM rows; VACUUM"));
	cr_expect_eq(cuts_of(SQLITE_CHECKPOINT_RESTART), 1, "with the lock for writing");
	must(sqlite3_close(checkpointer));
	must(sqlite3_close(another));
	must(sqlite3_close(writer));
	another = NULL;
}

/* ---- of a store ---- */

enum {
	BIG = 5 << 20, /* a checkpoint is due */
	TRIES = 100,   /* of which one must meet a store that is at rest */
};

static sqlite3 *foreign;
static _Atomic bool overtaken;

static void foreign_runs(const char *text)
{
	cr_assert_eq(run(foreign, text), SQLITE_OK, "%s: %s", text, sqlite3_errmsg(foreign));
}

/* False: somebody else writes. */
static bool foreign_adds(unsigned count)
{
	char text[256];
	int code;

	snprintf(text, sizeof(text),
		 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %u) "
		 "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "SELECT 's', 'l', i + %u, '\"' || hex(zeroblob(4000)) || '\"' FROM n",
		 count, rows - 1);
	code = run(foreign, text);
	cr_assert(code == SQLITE_OK || code == SQLITE_BUSY, "%s", sqlite3_errmsg(foreign));
	rows += code == SQLITE_OK ? count : 0;
	return code == SQLITE_OK;
}

/* Another program checkpoints right before ours, and writes when ours has read the length. */
static void overtake(void *arg, const char *name)
{
	static _Thread_local bool asked;
	uint32_t before;

	(void)arg;
	if (overtaken)
		return;
	if (asked && strcmp(name, "Unfetch") == 0 && copied() == frames()) {
		before = salt();
		overtaken = foreign_adds(1) && salt() != before;
	}
	asked = strcmp(name, "ShmLock 1") == 0 || (asked && strncmp(name, "Shm", 3) == 0);
	if (strcmp(name, "ShmLock 1") == 0)
		foreign_runs("PRAGMA wal_checkpoint");
}

Test(checkpoint, of_a_mount_is_not_overtaken_by_another_program, .init = place_begin,
     .fini = place_end)
{
	_cleanup_(buf_done) struct buf big = { 0 };
	sqlite3_stmt *statement;

	cr_assert_eq(buf_append_zeros(&big, BIG), 0);
	place_must_open(place_fresh("store"));
	make_dir("s");
	cr_assert_eq(sqlite3_open(place_store(place_path("store")), &foreign), SQLITE_OK);
	sqlite3_busy_timeout(foreign, 10000);
	sqlite3_wal_autocheckpoint(foreign, 0);
	writer = foreign;
	foreign_adds(1);
	shim_watch(SHIM_OTHER_THREADS, overtake, NULL);
	for (unsigned i = 0; !overtaken; i++) {
		struct handle *handle = open_at("big.bin", O_WRONLY | O_CREAT);

		write_at(handle, 0, buf_bytes(&big));
		close_handle(handle);
		cr_assert_lt(i, TRIES);
		for (unsigned j = 0; !overtaken && j < 1000; j++)
			usleep(1000);
	}
	shim_watch(SHIM_OTHER_THREADS, NULL, NULL);
	/* The log becomes longer than the one before, and is copied and begun anew. */
	for (unsigned i = 0; i < 20; i++)
		cr_assert(foreign_adds(200));
	foreign_runs("PRAGMA wal_checkpoint");
	place_close();
	cr_assert_eq(sqlite3_close(foreign), SQLITE_OK);

	place_must_open(place_path("store"));
	world_check();
	place_close();
	cr_assert_eq(sqlite3_open(place_store(place_path("store")), &foreign), SQLITE_OK);
	cr_assert_eq(sqlite3_prepare_v2(foreign,
					"SELECT count(*), (SELECT integrity_check FROM "
					"pragma_integrity_check) FROM agentscope_sessions",
					-1, &statement, NULL),
		     SQLITE_OK);
	cr_assert_eq(sqlite3_step(statement), SQLITE_ROW, "%s", sqlite3_errmsg(foreign));
	cr_expect_eq(sqlite3_column_int(statement, 0), (int)rows);
	cr_expect_str_eq((const char *)sqlite3_column_text(statement, 1), "ok");
	sqlite3_finalize(statement);
	cr_assert_eq(sqlite3_close(foreign), SQLITE_OK);
}
