/* SPDX-License-Identifier: MIT */
#include "src/bucket/sync.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "fs/base/lines.h"

enum { FLUSH = 16 << 10, LINE_FIELDS = 5, LINES_LEAST = 1000 };

enum text {
	ADD,
	KNOW,
	KNOW_FILE,
	DROP,
	COUNT,
	NEXT,
	PARTS,
	KNOWN,
};

/* A file has the key ''; now and known are its stamps, or an object's ETags. */
static const char schema[] =
	"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;"
	"CREATE TABLE entry (path TEXT, key TEXT, now TEXT, size INTEGER, known TEXT, digest TEXT,"
	" lines INTEGER, PRIMARY KEY (path, key)) WITHOUT ROWID;"
	"CREATE TABLE task (folder TEXT, rank INTEGER, path TEXT, need INTEGER); BEGIN";

static const char forget[] = "UPDATE entry SET now = NULL, size = NULL WHERE now IS NOT NULL";

static const char find[] = "DELETE FROM task; INSERT INTO task SELECT folder, row_number() OVER "
			   "(PARTITION BY folder ORDER BY length(path), path), path, need FROM "
			   "(SELECT path, rtrim(path, replace(path, '/', '')) AS folder, "
			   "sum(iif(key = '' OR now IS NOT known, size, 0)) AS need "
			   "FROM entry GROUP BY path HAVING max(now IS NOT known))";

static const char *const texts[PLAN_TEXTS] = {
	[ADD] = "INSERT INTO entry (path, key, now, size) VALUES (?, ?, ?, ?) "
		"ON CONFLICT DO UPDATE SET now = excluded.now, size = excluded.size",
	[KNOW] = "INSERT INTO entry (path, key, known, digest, lines) VALUES (?, ?, ?, ?, ?) "
		 "ON CONFLICT DO UPDATE SET known = excluded.known, digest = excluded.digest, "
		 "lines = excluded.lines",
	[KNOW_FILE] = "INSERT INTO entry (path, key, known) VALUES (?, '', nullif(?, '')) "
		      "ON CONFLICT DO UPDATE SET known = excluded.known",
	[DROP] = "DELETE FROM entry WHERE path = ? AND key = ?",
	[COUNT] = "SELECT (SELECT count(*) FROM task), count(DISTINCT path) FROM entry "
		  "WHERE now IS NOT NULL AND path NOT IN (SELECT path FROM task)",
	[NEXT] = "SELECT rank, path, need FROM task ORDER BY iif(?1, rank, folder), "
		 "iif(?1, folder, rank)",
	[PARTS] = "SELECT key, now, size, known, digest, lines FROM entry WHERE path = ? AND "
		  "ifnull(now, known) IS NOT NULL ORDER BY key",
	[KNOWN] = "SELECT printf('%s\t%s\t%s\t%d\t%s\n', key, known, digest, lines, (SELECT known "
		  "FROM entry AS file WHERE file.path = entry.path AND file.key = '')) "
		  "FROM entry WHERE key <> '' AND known IS NOT NULL",
};

/* ---- Statements ---- */

static int plan_error(const struct plan *plan)
{
	const int code = sqlite3_errcode(plan->db) & 0xff;

	return code == SQLITE_FULL ? -ENOSPC : code == SQLITE_NOMEM ? -ENOMEM : -EIO;
}

static int plan_step(struct plan *plan, enum text text)
{
	const int code = sqlite3_step(plan->statements[text]);

	if (code != SQLITE_ROW)
		sqlite3_reset(plan->statements[text]);
	return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : plan_error(plan);
}

/* Each letter of types is one value: s: a string, i: int64_t.  1: there is a row. */
static int plan_ask(struct plan *plan, enum text text, const char *types, ...)
{
	sqlite3_stmt **statement = &plan->statements[text];
	va_list args;

	if (!*statement && sqlite3_prepare_v3(plan->db, texts[text], -1, SQLITE_PREPARE_PERSISTENT,
					      statement, NULL) != SQLITE_OK)
		return plan_error(plan);
	sqlite3_reset(*statement);
	va_start(args, types);
	for (int i = 1; types[i - 1]; i++) {
		if (types[i - 1] == 's')
			sqlite3_bind_text(*statement, i, va_arg(args, const char *), -1,
					  SQLITE_TRANSIENT);
		else
			sqlite3_bind_int64(*statement, i, va_arg(args, int64_t));
	}
	va_end(args);
	return plan_step(plan, text);
}

static const char *column(struct plan *plan, enum text text, int place)
{
	const unsigned char *value = sqlite3_column_text(plan->statements[text], place);

	return value ? (const char *)value : "";
}

/* ---- Both sides ---- */

int plan_turn(const struct plan *plan, struct bytes from, bool to_path, struct buf *to,
	      enum bucket_form *ret_form)
{
	_cleanup_(buf_done) struct buf turned = { 0 };
	const size_t size = strlen(plan->below);
	int r;

	if (!to_path && !bytes_starts_with(from, bytes_str(plan->below)))
		return 0;
	if (!to_path)
		from = bytes_make(from.data + size, from.size - size);
	r = layout_turn(plan->layout, from, to_path, plan->glob, &turned, ret_form);
	if (r == 1 && buf_printf(to, "%s%s", to_path ? plan->below : "", turned.data) < 0)
		r = -ENOMEM;
	return r;
}

static int plan_exec(struct plan *plan, const char *sql)
{
	return sqlite3_exec(plan->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : plan_error(plan);
}

int plan_begin(struct plan *plan)
{
	return plan_exec(plan, forget);
}

int plan_add(struct plan *plan, const char *path, const char *key, const char *version,
	     uint64_t size)
{
	return plan_ask(plan, ADD, "sssi", path, key, version, (int64_t)size);
}

int plan_find(struct plan *plan, uint64_t *ret_count, uint64_t *ret_unchanged)
{
	int r = plan_exec(plan, find);

	plan->waits = false;
	if (r == 0)
		r = plan_ask(plan, COUNT, "");
	if (r == 1) {
		*ret_count = (uint64_t)sqlite3_column_int64(plan->statements[COUNT], 0);
		*ret_unchanged = (uint64_t)sqlite3_column_int64(plan->statements[COUNT], 1);
		r = plan_ask(plan, NEXT, "i", (int64_t)plan->up);
		plan->waits = r == 1;
	}
	return MIN(r, 0);
}

/* ---- Tasks ---- */

void task_done(struct task *task)
{
	for (size_t i = 0; i < task->count; i++) {
		buf_done(&task->parts[i].key);
		buf_done(&task->parts[i].there);
		free(task->parts[i].why);
	}
	free(task->parts);
	free(task->path);
	buf_done(&task->local);
	*task = (struct task){ 0 };
}

int task_add(struct task *task, struct part **ret_part)
{
	if (ARRAY_ROOM(task->parts, task->count, task->room) < 0)
		return -ENOMEM;
	*ret_part = &task->parts[task->count++];
	**ret_part = (struct part){ 0 };
	return 0;
}

/* The file, or a part of it. */
static int take_row(struct plan *plan, struct task *task)
{
	const char *key = column(plan, PARTS, 0);
	struct part *part;

	if (!*key) {
		snprintf(task->stamp, SYNC_STAMP, "%s", column(plan, PARTS, 1));
		return 0;
	}
	if (task_add(task, &part) < 0 ||
	    buf_printf(&part->key, "%.*s%s", (int)plan->base.size, plan->base.data, key) < 0)
		return -ENOMEM;
	snprintf(part->etag, S3_ETAG, "%s", column(plan, PARTS, 1));
	part->size = (uint64_t)sqlite3_column_int64(plan->statements[PARTS], 2);
	snprintf(part->known, S3_ETAG, "%s", column(plan, PARTS, 3));
	snprintf(part->digest, SYNC_DIGEST, "%s", column(plan, PARTS, 4));
	part->lines = sqlite3_column_int64(plan->statements[PARTS], 5);
	return 0;
}

int plan_next(struct plan *plan, bool is_first, struct task *task)
{
	_cleanup_(buf_done) struct buf key = { 0 };
	int r;

	if (!plan->waits || (plan->up && !is_first &&
			     sqlite3_column_int64(plan->statements[NEXT], 0) != plan->rank))
		return 0;
	plan->rank = sqlite3_column_int64(plan->statements[NEXT], 0);
	*task = (struct task){ .path = strdup(column(plan, NEXT, 1)),
			       .need = (uint64_t)sqlite3_column_int64(plan->statements[NEXT], 2) };
	r = plan_step(plan, NEXT);
	plan->waits = r == 1;
	if (r >= 0)
		r = task->path ? plan_turn(plan, bytes_str(task->path), false, &key, &task->form) :
				 -ENOMEM;
	if (r >= 0)
		r = plan_ask(plan, PARTS, "s", task->path);
	for (; r == 1; r = r < 0 ? r : plan_step(plan, PARTS))
		r = take_row(plan, task);
	return r < 0 ? r : 1;
}

/* ---- What is kept ---- */

static int know(struct plan *plan, const char *path, const char *key, const char *etag,
		const char *digest, int64_t lines, const char *stamp)
{
	int r = *etag ? plan_ask(plan, KNOW, "ssssi", path, key, etag, digest, lines) :
			plan_ask(plan, DROP, "ss", path, key);

	return r < 0 ? r : plan_ask(plan, KNOW_FILE, "ss", path, stamp);
}

int plan_keep(struct plan *plan, const struct task *task, const struct part *part)
{
	const char *key = part->key.data + plan->base.size;
	int r = know(plan, task->path, key, part->known, part->digest, part->lines, task->stamp);

	plan->lines++;
	if (r == 0)
		r = buf_printf(&plan->news, "%s\t%s\t%s\t%lld\t%s\n", key, part->known,
			       part->digest, (long long)part->lines, task->stamp);
	return r == 0 && plan->news.size >= FLUSH ? plan_flush(plan) : r;
}

/* Adds the news, or writes all anew. */
static int write_lines(struct plan *plan, enum access_how how)
{
	struct access_file *file = NULL;
	int r = access_file_open(plan->access, plan->file, how, &file);

	if (r == 0) {
		access_file_sync_later(file);
		r = access_file_write(file, buf_bytes(&plan->news));
	}
	if (r == 0 && how == ACCESS_FILE_REPLACE)
		r = plan_ask(plan, KNOWN, "");
	for (; r == 1; r = r < 0 ? r : plan_step(plan, KNOWN))
		r = access_file_write(file, bytes_str(column(plan, KNOWN, 0)));
	if (r < 0)
		access_file_drop(file);
	else
		r = access_file_save(file);
	buf_clear(&plan->news);
	return r;
}

int plan_flush(struct plan *plan)
{
	return plan->access && plan->news.size ? write_lines(plan, ACCESS_FILE_APPEND) : 0;
}

static int read_line(struct plan *plan, char *line)
{
	char *fields[LINE_FIELDS];
	_cleanup_(buf_done) struct buf path = { 0 };
	enum bucket_form form;
	int r;

	plan->lines++;
	for (size_t i = 0; i < LINE_FIELDS; i++)
		if (!(fields[i] = strsep(&line, "\t")))
			return 0;
	r = plan_turn(plan, bytes_str(fields[0]), true, &path, &form);
	if (r <= 0)
		return r == -ENOMEM ? r : 0;
	return know(plan, path.data, fields[0], fields[1], fields[2], strtoll(fields[3], NULL, 10),
		    fields[4]);
}

static int read_lines(struct plan *plan)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	_cleanup_(buf_done) struct buf text = { 0 };
	size_t before, whole;
	int r = access_file_open(plan->access, plan->file, ACCESS_FILE_READ, &file);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	do {
		before = text.size;
		r = access_file_read(file, FLUSH, &text);
		before = text.size - before;
		whole = lines_whole(buf_bytes(&text)).size;
		for (char *line = text.data, *end; r == 0 && line < text.data + whole; line = end) {
			end = (char *)memchr(line, '\n', whole) + 1;
			end[-1] = '\0';
			r = read_line(plan, line);
		}
		buf_consume(&text, whole);
	} while (r == 0 && before);
	return r;
}

/* When most of its lines say what is no longer so, it is written anew.  Lines of other sessions are
 * not known in a run for some, and stay. */
static int shorten(struct plan *plan)
{
	uint64_t alive = 0;
	int r = 1;

	if (plan->glob || plan->lines < LINES_LEAST)
		return 0;
	for (r = plan_ask(plan, KNOWN, ""); r == 1; r = plan_step(plan, KNOWN))
		alive++;
	if (r < 0 || plan->lines < 2 * alive + LINES_LEAST)
		return r;
	plan->lines = alive;
	return write_lines(plan, ACCESS_FILE_REPLACE);
}

int plan_open(struct plan *plan)
{
	int r;

	if (sqlite3_open_v2("", &plan->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
	    SQLITE_OK)
		return plan->db ? plan_error(plan) : -ENOMEM;
	r = plan_exec(plan, schema);
	if (r == 0 && plan->access)
		r = read_lines(plan);
	return r == 0 && plan->access ? shorten(plan) : r;
}

int plan_close(struct plan *plan)
{
	int r = plan->db ? plan_flush(plan) : 0;

	for (size_t i = 0; i < PLAN_TEXTS; i++)
		sqlite3_finalize(plan->statements[i]);
	sqlite3_close(plan->db);
	buf_done(&plan->base);
	buf_done(&plan->news);
	return r;
}
