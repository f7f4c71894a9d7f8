/* SPDX-License-Identifier: MIT */

/*
 * One workload of the benchmark in a folder: `work NAME PATH NUMBER...`, see the table at the end.
 * What is timed is only the loop.  It prints the nanoseconds that one operation took, which is the
 * time of the loop divided by its operations.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, PROCESSES = 16, PAGE = 4096 };

static void fail(const char *format, ...)
{
	va_list args;

	fputs("work: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t started;

static void start(void)
{
	started = now();
}

static void stop(uint64_t operations)
{
	printf("%.1f\n", (double)(now() - started) / (double)operations);
}

static void *need(void *memory)
{
	if (!memory)
		fail("memory");
	return memory;
}

/* A line of a transcript, size bytes with its newline; they differ by their number. */
static size_t line_make(char *line, size_t size, uint64_t number)
{
	static const char *const roles[] = { "user", "assistant", "tool", "assistant" };
	int head = snprintf(line, size, "{\"id\":%" PRIu64 ",\"role\":\"%s\",\"content\":\"",
			    number, roles[number % 4]);
	size_t at = (size_t)head;

	for (; at + 3 < size; at++)
		line[at] = (char)('a' + (number + at) % 26);
	memcpy(line + at, "\"}\n", 3);
	return at + 3;
}

/* A document of about size bytes. */
static char *document_make(size_t size, uint64_t number)
{
	char *text = need(malloc(size + 64));

	line_make(text, size, number);
	return text;
}

static int open_or_fail(const char *path, int flags)
{
	int fd = open(path, flags, 0644);

	if (fd < 0)
		fail("%s", path);
	return fd;
}

static void write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n <= 0)
			fail("write");
		data += n;
		size -= (size_t)n;
	}
}

/* Appending. */

enum append { HELD, OPENED, SYNCED };

static void append_lines(const char *path, size_t size, uint64_t count, enum append how)
{
	char *line = need(malloc(size + 64));
	int fd = open_or_fail(path, O_WRONLY | O_APPEND | O_CREAT);

	for (uint64_t i = 0; i < count; i++) {
		size_t length = line_make(line, size, i);

		if (how == OPENED) {
			close(fd);
			fd = open_or_fail(path, O_WRONLY | O_APPEND | O_CREAT);
		}
		write_all(fd, line, length);
		if (how == SYNCED && fsync(fd) < 0)
			fail("fsync");
	}
	close(fd);
	free(line);
}

static void work_append(const char *path, const uint64_t *number)
{
	start();
	append_lines(path, number[0], number[1], (enum append)number[2]);
	stop(number[1]);
}

/* For so many milliseconds from a moment of the clock on, at which others begin, too: prints how
 * many there were, and how many microseconds the longest took. */
static void work_append_for(const char *path, const uint64_t *number)
{
	const uint64_t begin = number[1] * 1000000, end = begin + number[2] * 1000000;
	char *line = need(malloc(number[0] + 64));
	int fd = open_or_fail(path, O_WRONLY | O_APPEND | O_CREAT);
	uint64_t count = 0, longest = 0, before, after;

	while (now() < begin)
		usleep(100);
	for (before = now(); before < end; before = after) {
		write_all(fd, line, line_make(line, number[0], count++));
		after = now();
		if (after - before > longest)
			longest = after - before;
	}
	close(fd);
	free(line);
	printf("%" PRIu64 " %" PRIu64 "\n", count, longest / 1000);
}

/* Each process its own list, PATH0, PATH1, ... */
static void work_append_many(const char *path, const uint64_t *number)
{
	uint64_t processes = number[2];
	pid_t pid[PROCESSES];

	if (processes > PROCESSES)
		fail("at most %d processes", PROCESSES);
	start();
	for (uint64_t i = 0; i < processes; i++) {
		char *name = NULL;

		pid[i] = fork();
		if (pid[i] < 0)
			fail("fork");
		if (pid[i] > 0)
			continue;
		if (asprintf(&name, "%s%" PRIu64 ".jsonl", path, i) < 0)
			fail("memory");
		append_lines(name, number[0], number[1], HELD);
		_exit(0);
	}
	for (uint64_t i = 0; i < processes; i++) {
		int status;

		if (waitpid(pid[i], &status, 0) < 0 || status)
			fail("a writer");
	}
	stop(number[1] * processes);
}

static void execute(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		fail("%s: %s", sql, sqlite3_errmsg(db));
}

/* What appending costs at least: the same rows, so many a transaction, in this process. */
static void work_rows(const char *path, const uint64_t *number)
{
	static const char make[] =
		"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
		"CREATE TABLE IF NOT EXISTS rows (session_id TEXT NOT NULL, state_key TEXT NOT "
		"NULL,"
		" item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL,"
		" created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
		" updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
		" PRIMARY KEY (session_id, state_key, item_index))";
	static const char insert[] =
		"INSERT INTO rows (session_id, state_key, item_index, state_data)"
		" VALUES ('session', 'messages', ?, ?)";
	char *line = need(malloc(number[0] + 64));
	sqlite3_stmt *statement;
	sqlite3 *db;

	if (sqlite3_open(path, &db) || sqlite3_exec(db, make, NULL, NULL, NULL) ||
	    sqlite3_prepare_v2(db, insert, -1, &statement, NULL))
		fail("%s: %s", path, sqlite3_errmsg(db));
	start();
	for (uint64_t i = 0; i < number[1]; i++) {
		size_t size = line_make(line, number[0], i);

		if (number[2] > 1 && i % number[2] == 0)
			execute(db, i ? "COMMIT; BEGIN" : "BEGIN");
		sqlite3_bind_int64(statement, 1, (sqlite3_int64)i);
		sqlite3_bind_text(statement, 2, line, (int)size - 1, SQLITE_STATIC);
		if (sqlite3_step(statement) != SQLITE_DONE || sqlite3_reset(statement))
			fail("%s: %s", path, sqlite3_errmsg(db));
	}
	if (number[1] && number[2] > 1)
		execute(db, "COMMIT");
	stop(number[1]);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	free(line);
}

/* Saving. */

static void save(const char *path, const char *data, size_t size)
{
	int fd = open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC);

	write_all(fd, data, size);
	if (close(fd) < 0)
		fail("%s: close", path);
}

/* Waits for the lock as a store does. */
static int wait_for_lock(void *arg, int times)
{
	(void)arg;
	if (times < 20)
		sched_yield();
	else
		usleep(times < 60 ? 50 : times < 80 ? 200 : 1000);
	return 1;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL))
		fail("%s: %s", sql, sqlite3_errmsg(db));
	return statement;
}

/* As append-for: what several mounts cost at least that append to a list each, or to one.  Each
 * writer is a program, and of what a mount does it has the statements alone: the lock, the row
 * behind the last one, a note for the others, the end. */
static void work_rows_for(const char *path, const uint64_t *number)
{
	static const char make[] =
		"PRAGMA journal_mode = WAL;"
		"CREATE TABLE IF NOT EXISTS bare_rows (state_key INTEGER, item_index INTEGER, "
		"state_data TEXT, created_at TEXT, updated_at TEXT, "
		"PRIMARY KEY (state_key, item_index)) WITHOUT ROWID;"
		"CREATE TABLE IF NOT EXISTS bare_note (n INTEGER PRIMARY KEY, mount INTEGER, "
		"what INTEGER, ino INTEGER, flags INTEGER, first_index INTEGER, session TEXT, "
		"key TEXT, pid INTEGER, at INTEGER)";
	const uint64_t begin = number[1] * 1000000, end = begin + number[2] * 1000000;
	char *line = need(malloc(number[0] + 64));
	uint64_t count = 0, longest = 0, before, after;
	sqlite3_stmt *statement[4];
	sqlite3 *db;

	if (sqlite3_open(path, &db) || sqlite3_busy_handler(db, wait_for_lock, NULL))
		fail("%s: %s", path, sqlite3_errmsg(db));
	execute(db, make);
	execute(db, "PRAGMA synchronous = NORMAL");
	statement[0] = prepare(db, "BEGIN IMMEDIATE");
	statement[1] =
		prepare(db, "INSERT INTO bare_rows SELECT ?1, coalesce(max(item_index) + 1, 0), "
			    "?2, '2026-01-01 00:00:00', '2026-01-01 00:00:00' "
			    "FROM bare_rows WHERE state_key = ?1");
	statement[2] =
		prepare(db, "INSERT INTO bare_note (mount, what, ino, flags, first_index, "
			    "session, key, pid, at) VALUES (?1, 2, 3, 4, 5, 's', 'k', 6, 7)");
	statement[3] = prepare(db, "COMMIT");
	sqlite3_bind_int64(statement[1], 1, (sqlite3_int64)number[3]);
	sqlite3_bind_int64(statement[2], 1, (sqlite3_int64)number[3]);
	while (now() < begin)
		usleep(100);
	for (before = now(); before < end; before = after) {
		const size_t size = line_make(line, number[0], count++);

		sqlite3_bind_text(statement[1], 2, line, (int)size - 1, SQLITE_STATIC);
		for (size_t i = 0; i < 4; i++)
			if (sqlite3_step(statement[i]) != SQLITE_DONE ||
			    sqlite3_reset(statement[i]))
				fail("%s: %s", path, sqlite3_errmsg(db));
		after = now();
		if (after - before > longest)
			longest = after - before;
	}
	for (size_t i = 0; i < 4; i++)
		sqlite3_finalize(statement[i]);
	sqlite3_close(db);
	free(line);
	printf("%" PRIu64 " %" PRIu64 "\n", count, longest / 1000);
}

static void work_save(const char *path, const uint64_t *number)
{
	char *data = document_make(number[0], 0);

	save(path, data, number[0]);
	start();
	for (uint64_t i = 1; i <= number[1]; i++) {
		line_make(data, number[0], i);
		save(path, data, number[0]);
	}
	stop(number[1]);
	free(data);
}

static void work_replace(const char *path, const uint64_t *number)
{
	char *data = document_make(number[0], 0), *other = NULL;

	if (asprintf(&other, "%s.tmp", path) < 0)
		fail("memory");
	save(path, data, number[0]);
	start();
	for (uint64_t i = 1; i <= number[1]; i++) {
		line_make(data, number[0], i);
		save(other, data, number[0]);
		if (rename(other, path) < 0)
			fail("%s: rename", path);
	}
	stop(number[1]);
	free(other);
	free(data);
}

/* Rewrites a list of so many lines with one more, so many times. */
static void work_rewrite(const char *path, const uint64_t *number)
{
	enum { SIZE = 200 };
	uint64_t lines = number[0], count = number[1];
	char *data = need(malloc((lines + count) * SIZE + 64));

	for (uint64_t i = 0; i < lines + count; i++)
		line_make(data + i * SIZE, SIZE, i);
	save(path, data, lines * SIZE);
	start();
	for (uint64_t i = 1; i <= count; i++)
		save(path, data, (lines + i) * SIZE);
	stop(count);
	free(data);
}

/* Many files. */

static void path_in(char *path, size_t room, const char *folder, uint64_t i, const char *rest)
{
	if ((size_t)snprintf(path, room, "%s/session-%06" PRIu64 "%s", folder, i, rest) >= room)
		fail("%s: too long a path", folder);
}

/* Sessions of three files each: a document, a list of ten lines, and a hash. */
static void work_create(const char *folder, const uint64_t *number)
{
	static const char digest[] = "0123456789abcdef0123456789abcdef";
	char path[PAGE], list[10 * 200 + 64];
	char *document = document_make(300, 1);

	for (uint64_t i = 0; i < 10; i++)
		line_make(list + i * 200, 200, i);
	start();
	for (uint64_t i = 0; i < number[0]; i++) {
		path_in(path, sizeof(path), folder, i, "");
		if (mkdir(path, 0755) < 0)
			fail("%s", path);
		path_in(path, sizeof(path), folder, i, "/agent.json");
		save(path, document, 300);
		path_in(path, sizeof(path), folder, i, "/messages.jsonl");
		save(path, list, sizeof(list) - 64);
		path_in(path, sizeof(path), folder, i, "/messages.hash");
		save(path, digest, sizeof(digest) - 1);
	}
	stop(number[0] * 4);
	free(document);
}

static void make_files(const char *folder, uint64_t count, const char *ending)
{
	char *document = document_make(300, 1);
	char path[PAGE];

	for (uint64_t i = 0; i < count; i++) {
		path_in(path, sizeof(path), folder, i, ending);
		save(path, document, 300);
	}
	free(document);
}

/* Small files of one folder: .json if number[1], otherwise ordinary ones. */
static void work_files(const char *folder, const uint64_t *number)
{
	start();
	make_files(folder, number[0], number[1] ? ".json" : ".txt");
	stop(number[0]);
}

/* The same are removed again. */
static void work_unlink(const char *folder, const uint64_t *number)
{
	char path[PAGE];

	make_files(folder, number[0], ".json");
	start();
	for (uint64_t i = 0; i < number[0]; i++) {
		path_in(path, sizeof(path), folder, i, ".json");
		if (unlink(path) < 0)
			fail("%s", path);
	}
	stop(number[0]);
}

static void work_mkdir(const char *folder, const uint64_t *number)
{
	char path[PAGE];

	start();
	for (uint64_t i = 0; i < number[0]; i++) {
		path_in(path, sizeof(path), folder, i, "");
		if (mkdir(path, 0755) < 0)
			fail("%s", path);
	}
	stop(number[0]);
}

/* Reading. */

static void work_stat(const char *path, const uint64_t *number)
{
	struct stat st;

	if (stat(path, &st) < 0)
		fail("%s", path);
	start();
	for (uint64_t i = 0; i < number[0]; i++)
		if (stat(path, &st) < 0)
			fail("%s", path);
	stop(number[0]);
}

static void work_open_read(const char *path, const uint64_t *number)
{
	char data[PAGE];

	start();
	for (uint64_t i = 0; i < number[0]; i++) {
		int fd = open_or_fail(path, O_RDONLY);

		if (read(fd, data, sizeof(data)) <= 0)
			fail("%s: read", path);
		close(fd);
	}
	stop(number[0]);
}

/* Nanoseconds a MiB. */
static void work_read(const char *path, const uint64_t *number)
{
	char *data = need(malloc(BLOCK));
	int fd = open_or_fail(path, O_RDONLY);
	uint64_t sum = 0;
	ssize_t n;

	(void)number;
	start();
	while ((n = read(fd, data, BLOCK)) > 0)
		sum += (uint64_t)n;
	if (n < 0)
		fail("%s: read", path);
	if (sum < BLOCK)
		fail("%s: %" PRIu64 " bytes are too few", path, sum);
	stop(sum / BLOCK);
	close(fd);
	free(data);
}

/* Pages at random offsets that depend on number[1] only. */
static void work_random(const char *path, const uint64_t *number)
{
	int fd = open_or_fail(path, O_RDONLY);
	uint64_t x = number[1] * 2654435761u + 1;
	char data[PAGE];
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size < PAGE)
		fail("%s", path);
	start();
	for (uint64_t i = 0; i < number[0]; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (pread(fd, data, PAGE, (off_t)(x % (uint64_t)(st.st_size - PAGE))) != PAGE)
			fail("%s: pread", path);
	}
	stop(number[0]);
	close(fd);
}

/* Not timed work: a list of so many lines, written in large blocks. */
static void work_list(const char *path, const uint64_t *number)
{
	size_t size = number[0], lines = BLOCK / size;
	char *data = need(malloc(BLOCK + 64));
	int fd = open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC);

	start();
	for (uint64_t i = 0; i < number[1];) {
		size_t used = 0;

		for (size_t j = 0; j < lines && i < number[1]; j++, i++)
			used += line_make(data + used, size, i);
		write_all(fd, data, used);
	}
	if (close(fd) < 0)
		fail("%s: close", path);
	stop(number[1]);
	free(data);
}

static const struct {
	const char *name;
	const char *numbers;
	unsigned count;
	void (*run)(const char *path, const uint64_t *number);
} works[] = {
	{ "append", "SIZE COUNT HOW (0 held, 1 opened each time, 2 synced)", 3, work_append },
	{ "append-many", "SIZE COUNT PROCESSES", 3, work_append_many },
	{ "append-for", "SIZE BEGIN MILLISECONDS", 3, work_append_for },
	{ "rows", "SIZE COUNT EACH", 3, work_rows },
	{ "rows-for", "SIZE BEGIN MILLISECONDS LIST", 4, work_rows_for },
	{ "save", "SIZE COUNT", 2, work_save },
	{ "replace", "SIZE COUNT", 2, work_replace },
	{ "rewrite", "LINES COUNT", 2, work_rewrite },
	{ "create", "SESSIONS", 1, work_create },
	{ "files", "COUNT STATE (0 or 1)", 2, work_files },
	{ "unlink", "COUNT", 1, work_unlink },
	{ "mkdir", "COUNT", 1, work_mkdir },
	{ "stat", "COUNT", 1, work_stat },
	{ "open-read", "COUNT", 1, work_open_read },
	{ "read", "", 0, work_read },
	{ "random", "COUNT SEED", 2, work_random },
	{ "list", "SIZE COUNT", 2, work_list },
};

static int usage(void)
{
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		fprintf(stderr, "work %s PATH %s\n", works[i].name, works[i].numbers);
	return 2;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < sizeof(works) / sizeof(works[0]); i++) {
		uint64_t number[4] = { 0 };

		if (strcmp(works[i].name, argv[1]) != 0 || (unsigned)argc != works[i].count + 3)
			continue;
		for (unsigned j = 0; j < works[i].count; j++)
			number[j] = strtoull(argv[j + 3], NULL, 10);
		works[i].run(argv[2], number);
		return 0;
	}
	return usage();
}
