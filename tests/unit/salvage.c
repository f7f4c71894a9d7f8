/* SPDX-License-Identifier: MIT */
/*
 * Records of a database that nobody trusts: whatever its bytes are, reading them ends and stays in
 * bounds, and what no byte of which was touched is found.
 *
 * SESSFS_SALVAGES=N tries N damaged images of each kind.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/repair/salvage.h"
#include "backend/base/cleanup.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/unit/scratch.h"

enum { ROWS = 600, TRIES = 20, TRIES_SOAK = 150 };

struct file {
	char path[256];
	uint8_t *bytes;
	size_t size;
	uint8_t *log;
	size_t log_size;
};

static void read_file(const char *path, uint8_t **ret_bytes, size_t *ret_size)
{
	int fd = open(path, O_RDONLY);
	struct stat st;

	cr_assert(fd >= 0 && fstat(fd, &st) == 0);
	*ret_bytes = malloc((size_t)st.st_size + 1);
	*ret_size = (size_t)st.st_size;
	cr_assert_eq(pread(fd, *ret_bytes, *ret_size, 0), st.st_size);
	close(fd);
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	close(fd);
}

static void exec(sqlite3 *db, const char *sql)
{
	cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
}

/* Rows of which a third has overflow pages, and two tables of ours; the last rows are in the log
 * only. */
static void build(struct file *file, const char *pragmas, const char *how)
{
	static const char fill[] =
		"WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 599) "
		"INSERT INTO agentscope_sessions SELECT printf('session %03d', i / 9), 'key', "
		"i % 9, printf('[%d,\"%s\"]', i, printf('%.*c', CASE i % 3 WHEN 0 THEN 3000 ELSE "
		"20 END, 'x')), NULL, NULL FROM c WHERE (i % 7 = 0) = ";
	char sql[1024], log[272];
	sqlite3 *db;

	scratch_template(file->path, sizeof(file->path), "salvage");
	close(mkstemp(file->path));
	cr_assert_eq(sqlite3_open(file->path, &db), SQLITE_OK);
	exec(db, pragmas);
	exec(db, "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
	snprintf(sql, sizeof(sql),
		 "CREATE TABLE agentscope_sessions (session_id TEXT NOT NULL, state_key TEXT NOT "
		 "NULL, item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL, "
		 "created_at, updated_at, PRIMARY KEY (session_id, state_key, item_index)) %s",
		 how);
	exec(db, sql);
	exec(db, "CREATE TABLE sessfs_chunk (ino INTEGER NOT NULL, chunk INTEGER NOT NULL, data "
		 "BLOB NOT NULL, PRIMARY KEY (ino, chunk)) WITHOUT ROWID");
	snprintf(sql, sizeof(sql), "%s 0", fill);
	exec(db, sql);
	exec(db, "PRAGMA wal_checkpoint(TRUNCATE)");
	snprintf(sql, sizeof(sql), "%s 1", fill);
	exec(db, sql);
	read_file(file->path, &file->bytes, &file->size);
	snprintf(log, sizeof(log), "%s-wal", file->path);
	read_file(log, &file->log, &file->log_size);
	sqlite3_close(db);
}

static void done(struct file *file)
{
	char log[272];

	snprintf(log, sizeof(log), "%s-wal", file->path);
	unlink(log);
	unlink(file->path);
	free(file->bytes);
	free(file->log);
}

struct counted {
	unsigned rows;
};

/* Every byte of a record is looked at. */
static int count(void *arg, const struct salvage_record *record)
{
	struct counted *counted = arg;
	volatile unsigned sum = 0;

	for (int i = SALVAGE_FIRST; i < SALVAGE_FIRST + record->count; i++) {
		const unsigned char *bytes = sqlite3_column_blob(record->row, i);

		for (int at = 0; at < sqlite3_column_bytes(record->row, i); at++)
			sum += bytes[at];
	}
	(void)sum;
	counted->rows += record->table == SALVAGE_ROW;
	return 0;
}

static void ignore(void *arg, const char *sentence)
{
	unsigned *sentences = arg;

	cr_assert(sentence[0]);
	++*sentences;
}

static int salvage(const char *path, struct counted *counted, unsigned *sentences)
{
	_cleanup_(freep) char *why = NULL;
	struct salvage it;
	int r = salvage_open(path, NULL, ignore, sentences, &it, &why);

	*counted = (struct counted){ 0 };
	if (r < 0)
		return r;
	r = salvage_run(&it, count, counted);
	salvage_close(&it);
	return r;
}

static void damage(uint8_t *bytes, size_t size, uint64_t *random)
{
	static const size_t sizes[] = { 1, 1, 1, 2, 16, 512, 4096 };
	size_t times = 1 + random_below(random, 4);

	while (size && times--) {
		size_t part = sizes[random_below(random, ARRAY_SIZE(sizes))];
		size_t at = random_below(random, size);
		int way = (int)random_below(random, 4);

		for (; part-- && at < size; at++)
			bytes[at] = way == 0 ? 0 :
				    way == 1 ? 0xff :
				    way == 2 ? bytes[at] ^ (uint8_t)(1 << random_below(random, 8)) :
					       (uint8_t)random_next(random);
	}
}

static void fuzz(const char *name, const char *pragmas, const char *how)
{
	unsigned long tries = rounds("SESSFS_SALVAGES", TRIES, TRIES_SOAK);
	uint64_t random = random_seed(name), rescued = 0;
	struct file file = { 0 };
	struct counted counted;
	unsigned sentences = 0;
	char log[272];

	build(&file, pragmas, how);
	snprintf(log, sizeof(log), "%s-wal", file.path);
	write_file(file.path, file.bytes, file.size);
	write_file(log, file.log, file.log_size);
	cr_assert_eq(salvage(file.path, &counted, &sentences), 0);
	cr_assert_eq(counted.rows, ROWS, "%u rows of a sound database", counted.rows);
	cr_assert_eq(sentences, 0);
	for (unsigned long i = 0; i < tries; i++) {
		uint8_t *bytes = malloc(file.size), *frames = malloc(file.log_size + 1);
		size_t size = file.size;
		int r;

		memcpy(bytes, file.bytes, file.size);
		memcpy(frames, file.log, file.log_size);
		damage(bytes, size, &random);
		if (random_below(&random, 2))
			damage(frames, file.log_size, &random);
		if (random_below(&random, 8) == 0)
			size = random_below(&random, size);
		write_file(file.path, bytes, size);
		write_file(log, frames, file.log_size);
		r = salvage(file.path, &counted, &sentences);
		cr_assert(r == 0 || r == -EIO, "try %lu: %s", i, strerror(-r));
		rescued += counted.rows;
		free(bytes);
		free(frames);
	}
	cr_assert(rescued > tries * ROWS / 3, "only %llu rows", (unsigned long long)rescued);
	fprintf(stderr, "%s: %llu of %llu rows in %lu images\n", name, (unsigned long long)rescued,
		(unsigned long long)tries * ROWS, tries);
	done(&file);
}

Test(salvage, any_bytes_of_a_store_of_ours_are_read_in_bounds)
{
	fuzz("ours", "PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL", "WITHOUT ROWID");
}

Test(salvage, any_bytes_of_a_database_of_another_program_are_read_in_bounds)
{
	fuzz("another's", "PRAGMA page_size = 1024", "");
}

Test(salvage, any_bytes_of_a_database_in_utf_16_are_read_in_bounds)
{
	fuzz("utf-16", "PRAGMA page_size = 512; PRAGMA encoding = 'UTF-16le'", "WITHOUT ROWID");
}

/* Leaves below an upper page that is gone are found by their shape; freed ones are not. */
Test(salvage, leaves_are_found_without_the_pages_above_and_free_pages_are_not)
{
	struct file file = { 0 };
	struct counted counted;
	unsigned sentences = 0;
	sqlite3 *db;
	uint32_t interior = 0;

	build(&file, "PRAGMA page_size = 1024", "");
	cr_assert_eq(sqlite3_open(file.path, &db), SQLITE_OK);
	exec(db, "DELETE FROM agentscope_sessions WHERE session_id >= 'session 040'");
	exec(db, "PRAGMA wal_checkpoint(TRUNCATE)");
	sqlite3_close(db);
	free(file.bytes);
	read_file(file.path, &file.bytes, &file.size);
	for (size_t at = 1024; at < file.size; at += 1024)
		if (file.bytes[at] == IMAGE_TABLE_INTERIOR) {
			memset(file.bytes + at, 0, 1024);
			interior++;
		}
	cr_assert(interior > 0, "the tree is too small");
	write_file(file.path, file.bytes, file.size);

	cr_assert_eq(salvage(file.path, &counted, &sentences), 0);

	cr_assert_eq(counted.rows, 40 * 9, "%u rows", counted.rows);
	cr_assert(sentences > 0, "nothing was said");
	done(&file);
}
