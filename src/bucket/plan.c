/* SPDX-License-Identifier: MIT */
#include "src/bucket/plan.h"

#include <ctype.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

enum { FLUSH = 64 << 10, LINE_FIELDS = 6 };

enum text {
	FORGET,
	FORGET_FILES,
	FILE_ADD,
	FILE_HERE,
	OBJECT_THERE,
	OBJECT_KNOWN,
	FILE_KNOWN,
	OBJECT_DROP,
	TASKS_DROP,
	TASKS_FIND,
	TASKS_COUNT,
	TASK_NEXT,
	TASK_FIRST,
	TASK_ITEMS,
	KNOWN_ALL,
	FILES_COUNT,
};

static const char schema[] =
	"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;"
	"CREATE TABLE file (path BLOB PRIMARY KEY, folder BLOB, place BLOB, form INTEGER,"
	" size INTEGER, ctime INTEGER, known_size INTEGER, known_ctime INTEGER) WITHOUT ROWID;"
	"CREATE TABLE object (path BLOB, key BLOB, etag TEXT, size INTEGER, modified TEXT,"
	" known_etag TEXT, md5 TEXT, lines INTEGER, PRIMARY KEY (path, key)) WITHOUT ROWID;"
	"CREATE TABLE task (folder BLOB, place BLOB, path BLOB, form INTEGER, size INTEGER,"
	" ctime INTEGER, PRIMARY KEY (folder, place, path)) WITHOUT ROWID; BEGIN";

static const char *const texts[PLAN_TEXTS] = {
	[FORGET] = "UPDATE object SET etag = NULL WHERE etag IS NOT NULL",
	[FORGET_FILES] = "UPDATE file SET size = NULL, ctime = NULL WHERE size IS NOT NULL",
	[FILE_ADD] = "INSERT OR IGNORE INTO file (path, folder, place, form) VALUES (?, ?, ?, ?)",
	[FILE_HERE] = "UPDATE file SET size = ?2, ctime = ?3 WHERE path = ?1",
	[OBJECT_THERE] = "INSERT INTO object (path, key, etag, size, modified) VALUES "
			 "(?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET etag = excluded.etag, "
			 "size = excluded.size, modified = excluded.modified",
	[OBJECT_KNOWN] = "INSERT INTO object (path, key, known_etag, md5, lines) VALUES "
			 "(?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET known_etag = ?3, "
			 "md5 = ?4, lines = ?5",
	[FILE_KNOWN] = "UPDATE file SET known_size = ?2, known_ctime = ?3 WHERE path = ?1",
	[OBJECT_DROP] = "DELETE FROM object WHERE path = ? AND key = ?",
	[TASKS_DROP] = "DELETE FROM task",
	[TASKS_FIND] = "INSERT INTO task SELECT folder, place, path, form, size, ctime FROM file "
		       "AS f WHERE size IS NOT known_size OR ctime IS NOT known_ctime OR EXISTS "
		       "(SELECT 1 FROM object AS o WHERE o.path = f.path AND "
		       "o.etag IS NOT o.known_etag)",
	[TASKS_COUNT] = "SELECT count(*) FROM task",
	[TASK_NEXT] = "SELECT folder, place, path, form, size, ctime FROM task "
		      "WHERE folder = ?1 AND (place, path) > (?2, ?3) "
		      "ORDER BY place, path LIMIT 1",
	[TASK_FIRST] = "SELECT folder, place, path, form, size, ctime FROM task WHERE folder > ? "
		       "ORDER BY folder, place, path LIMIT 1",
	[TASK_ITEMS] = "SELECT key, etag, size, modified, known_etag, md5, lines FROM object "
		       "WHERE path = ? ORDER BY key",
	[KNOWN_ALL] = "SELECT key, known_etag, md5, lines, known_size, known_ctime FROM object "
		      "JOIN file USING (path) WHERE known_etag IS NOT NULL",
	[FILES_COUNT] =
		"SELECT count(*) FROM file AS f WHERE (size IS NOT NULL OR EXISTS (SELECT 1 "
		"FROM object AS o WHERE o.path = f.path AND etag IS NOT NULL)) AND NOT "
		"EXISTS (SELECT 1 FROM task AS t WHERE t.folder = f.folder AND "
		"t.place = f.place AND t.path = f.path)",
};

/* ---- Statements ---- */

static int plan_error(const struct plan *plan)
{
	switch (sqlite3_errcode(plan->db) & 0xff) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

/* Each letter of types is one value: b: struct bytes, s: a string or NULL, i: int64_t.  1: there is
 * a row. */
static int plan_ask(struct plan *plan, enum text text, const char *types, ...)
{
	sqlite3_stmt **statement = &plan->statements[text];
	va_list args;
	int code;

	if (!*statement && sqlite3_prepare_v3(plan->db, texts[text], -1, SQLITE_PREPARE_PERSISTENT,
					      statement, NULL) != SQLITE_OK)
		return plan_error(plan);
	sqlite3_reset(*statement);
	va_start(args, types);
	for (int i = 1; *types; types++, i++) {
		if (*types == 'b') {
			const struct bytes bytes = va_arg(args, struct bytes);

			sqlite3_bind_blob64(*statement, i, bytes.data ? bytes.data : "", bytes.size,
					    SQLITE_TRANSIENT);
		} else if (*types == 's') {
			sqlite3_bind_text(*statement, i, va_arg(args, const char *), -1,
					  SQLITE_TRANSIENT);
		} else {
			sqlite3_bind_int64(*statement, i, va_arg(args, int64_t));
		}
	}
	va_end(args);
	code = sqlite3_step(*statement);
	if (code != SQLITE_ROW)
		sqlite3_reset(*statement);
	return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : plan_error(plan);
}

static int plan_step(struct plan *plan, enum text text)
{
	const int code = sqlite3_step(plan->statements[text]);

	return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : plan_error(plan);
}

static struct bytes column(struct plan *plan, enum text text, int place)
{
	const void *data = sqlite3_column_blob(plan->statements[text], place);

	return bytes_make(data, (size_t)sqlite3_column_bytes(plan->statements[text], place));
}

static int64_t column_number(struct plan *plan, enum text text, int place)
{
	return sqlite3_column_int64(plan->statements[text], place);
}

static void column_copy(struct plan *plan, enum text text, int place, char *to, size_t room)
{
	const char *value = (const char *)sqlite3_column_text(plan->statements[text], place);

	snprintf(to, room, "%s", value ? value : "");
}

/* ---- Both sides ---- */

/* "message_12" as "message_b12": so many digits before them. */
static int place_of(struct bytes name, struct buf *place)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < name.size;) {
		size_t size = i;

		while (size < name.size && isdigit((unsigned char)name.data[size]))
			size++;
		if (size == i) {
			r = buf_append_byte(place, name.data[i++]);
			continue;
		}
		for (; i < size - 1 && name.data[i] == '0'; i++)
			;
		r = buf_append_byte(place, (char)MIN('a' + (int)(size - i), 127));
		if (r == 0)
			r = buf_append(place, name.data + i, size - i);
		i = size;
	}
	return r;
}

static int file_add(struct plan *plan, struct bytes path, enum bucket_form form)
{
	_cleanup_(buf_done) struct buf place = { 0 };
	size_t size = path.size;
	int r;

	while (size && path.data[size - 1] != '/')
		size--;
	r = place_of(bytes_make(path.data + size, path.size - size), &place);
	return r < 0 ? r :
		       plan_ask(plan, FILE_ADD, "bbbi", path, bytes_make(path.data, size),
				buf_bytes(&place), (int64_t)form);
}

int plan_add_object(struct plan *plan, const struct s3_object *object)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	struct bytes key = object->key;
	enum bucket_form form;
	int r;

	if (!bytes_starts_with(key, buf_bytes(&plan->base)))
		return 0;
	key = bytes_make(key.data + plan->base.size, key.size - plan->base.size);
	r = layout_path_of(plan->layout, plan->root, key, &path, &form);
	if (r <= 0 || !layout_is_asked(plan->layout, key, plan->glob))
		return r;
	r = file_add(plan, buf_bytes(&path), form);
	if (r == 0)
		r = plan_ask(plan, OBJECT_THERE, "bbsis", buf_bytes(&path), key, object->etag,
			     (int64_t)object->size, object->modified);
	return r < 0 ? r : 1;
}

int plan_add_file(struct plan *plan, const char *path, const struct stat *st)
{
	_cleanup_(buf_done) struct buf key = { 0 };
	enum bucket_form form;
	int r = layout_key_of(plan->layout, plan->root, bytes_str(path), &key, &form);

	if (r <= 0 || !layout_is_asked(plan->layout, buf_bytes(&key), plan->glob))
		return r;
	r = file_add(plan, bytes_str(path), form);
	if (r == 0)
		r = plan_ask(plan, FILE_HERE, "bii", bytes_str(path), (int64_t)st->st_size,
			     time_join(st->st_ctim));
	return r < 0 ? r : 1;
}

int plan_begin(struct plan *plan)
{
	int r = plan_ask(plan, FORGET, "");

	return r < 0 ? r : plan_ask(plan, FORGET_FILES, "");
}

int plan_find(struct plan *plan, uint64_t *ret_count)
{
	int r = plan_ask(plan, TASKS_DROP, "");

	if (r == 0)
		r = plan_ask(plan, TASKS_FIND, "");
	if (r == 0)
		r = plan_ask(plan, TASKS_COUNT, "");
	if (r == 1) {
		*ret_count = (uint64_t)column_number(plan, TASKS_COUNT, 0);
		r = plan_ask(plan, FILES_COUNT, "");
	}
	if (r == 1)
		plan->unchanged = (uint64_t)column_number(plan, FILES_COUNT, 0);
	return MIN(r, 0);
}

/* ---- Tasks ---- */

void task_done(struct task *task)
{
	for (size_t i = 0; i < task->count; i++)
		buf_done(&task->items[i].key);
	free(task->items);
	buf_done(&task->place);
	free(task->path);
	free(task->folder);
	*task = (struct task){ 0 };
}

int task_add(struct task *task, struct item **ret_item)
{
	if (ARRAY_ROOM(task->items, task->count, task->room) < 0)
		return -ENOMEM;
	*ret_item = &task->items[task->count++];
	**ret_item = (struct item){ 0 };
	return 0;
}

static int read_items(struct plan *plan, struct task *task)
{
	struct item *item;
	int r = plan_ask(plan, TASK_ITEMS, "b", bytes_str(task->path));

	for (; r == 1; r = plan_step(plan, TASK_ITEMS)) {
		r = task_add(task, &item);
		if (r == 0)
			r = buf_append_bytes(&item->key, buf_bytes(&plan->base));
		if (r == 0)
			r = buf_append_bytes(&item->key, column(plan, TASK_ITEMS, 0));
		if (r < 0)
			return r;
		column_copy(plan, TASK_ITEMS, 1, item->etag, sizeof(item->etag));
		item->size = (uint64_t)column_number(plan, TASK_ITEMS, 2);
		column_copy(plan, TASK_ITEMS, 3, item->modified, sizeof(item->modified));
		column_copy(plan, TASK_ITEMS, 4, item->known_etag, sizeof(item->known_etag));
		column_copy(plan, TASK_ITEMS, 5, item->known_md5, sizeof(item->known_md5));
		item->lines = column_number(plan, TASK_ITEMS, 6);
	}
	return r;
}

int plan_next(struct plan *plan, struct task *task, bool in_folder)
{
	const enum text text = in_folder ? TASK_NEXT : TASK_FIRST;
	const struct bytes folder = task->folder ? bytes_str(task->folder) : BYTES("");
	struct task next = { 0 };
	sqlite3_stmt *statement;
	int r = in_folder ? plan_ask(plan, text, "bbb", folder, buf_bytes(&task->place),
				     bytes_str(task->path)) :
			    plan_ask(plan, text, "b", folder);

	if (r <= 0)
		return r;
	statement = plan->statements[text];
	next.folder = bytes_dup(column(plan, text, 0));
	next.path = bytes_dup(column(plan, text, 2));
	next.form = (enum bucket_form)column_number(plan, text, 3);
	next.stamp = (struct stamp){ column_number(plan, text, 4), column_number(plan, text, 5) };
	if (sqlite3_column_type(statement, 4) == SQLITE_NULL)
		next.stamp.size = -1;
	r = next.folder && next.path ? buf_append_bytes(&next.place, column(plan, text, 1)) :
				       -ENOMEM;
	sqlite3_reset(statement);
	if (r == 0)
		r = read_items(plan, &next);
	if (r < 0) {
		task_done(&next);
		return r;
	}
	task_done(task);
	*task = next;
	return 1;
}

/* ---- What is kept ---- */

static int known_set(struct plan *plan, struct bytes path, struct bytes key, const char *etag,
		     const char *md5, int64_t lines, const struct stamp *stamp)
{
	int r = *etag ? plan_ask(plan, OBJECT_KNOWN, "bbssi", path, key, etag, md5, lines) :
			plan_ask(plan, OBJECT_DROP, "bb", path, key);

	if (r == 0 && stamp->size < 0)
		r = plan_ask(plan, FILE_KNOWN, "bss", path, NULL, NULL);
	else if (r == 0)
		r = plan_ask(plan, FILE_KNOWN, "bii", path, stamp->size, stamp->ctime);
	return r;
}

static int news_add(struct plan *plan, struct bytes key, const char *etag, const char *md5,
		    int64_t lines, const struct stamp *stamp)
{
	plan->lines++;
	return buf_printf(&plan->news, "%.*s\t%s\t%s\t%lld\t%lld\t%lld\n", (int)key.size, key.data,
			  etag, md5, (long long)lines, (long long)stamp->size,
			  (long long)stamp->ctime);
}

int plan_keep(struct plan *plan, const struct task *task, const struct item *item,
	      const struct stamp *stamp)
{
	const struct bytes key =
		bytes_make(item->key.data + plan->base.size, item->key.size - plan->base.size);
	int r = known_set(plan, bytes_str(task->path), key, item->known_etag, item->known_md5,
			  item->lines, stamp);

	if (r == 0)
		r = news_add(plan, key, item->known_etag, item->known_md5, item->lines, stamp);
	return r == 0 && plan->news.size >= FLUSH ? plan_flush(plan) : r;
}

static int write_news(struct plan *plan, enum access_how how)
{
	struct access_file *file = NULL;
	int r = access_file_open(plan->access, plan->file, how, &file);

	if (r == 0) {
		access_file_sync_later(file);
		r = access_file_write(file, buf_bytes(&plan->news));
	}
	if (r < 0)
		access_file_drop(file);
	else
		r = access_file_save(file);
	buf_clear(&plan->news);
	return r;
}

int plan_flush(struct plan *plan)
{
	return plan->access && plan->news.size ? write_news(plan, ACCESS_FILE_APPEND) : 0;
}

static int read_line(struct plan *plan, char *line)
{
	char *fields[LINE_FIELDS];
	_cleanup_(buf_done) struct buf path = { 0 };
	enum bucket_form form;
	struct stamp stamp;
	int r = 0;

	plan->lines++;
	for (size_t i = 0; i < LINE_FIELDS; i++)
		if (!(fields[i] = strsep(&line, "\t")))
			return 0;
	r = layout_path_of(plan->layout, plan->root, bytes_str(fields[0]), &path, &form);
	if (r <= 0 || !layout_is_asked(plan->layout, bytes_str(fields[0]), plan->glob))
		return r == -ENOMEM ? r : 0;
	stamp = (struct stamp){ strtoll(fields[4], NULL, 10), strtoll(fields[5], NULL, 10) };
	r = file_add(plan, buf_bytes(&path), form);
	return r < 0 ? r :
		       known_set(plan, buf_bytes(&path), bytes_str(fields[0]), fields[1], fields[2],
				 strtoll(fields[3], NULL, 10), &stamp);
}

static int read_known(struct plan *plan)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	_cleanup_(buf_done) struct buf text = { 0 };
	size_t before, begun;
	char *end;
	int r = access_file_open(plan->access, plan->file, ACCESS_FILE_READ, &file);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	do {
		before = text.size;
		r = access_file_read(file, FLUSH, &text);
		for (begun = 0; r == 0 && text.size > begun &&
				(end = memchr(text.data + begun, '\n', text.size - begun));
		     begun = (size_t)(end + 1 - text.data)) {
			*end = '\0';
			r = read_line(plan, text.data + begun);
		}
		before = text.size > before;
		buf_consume(&text, begun);
	} while (r == 0 && before);
	return r;
}

/* When most of its lines say what is no longer so, it is written anew. */
static int shorten(struct plan *plan)
{
	uint64_t alive = 0;
	struct stamp stamp;
	int r = plan_ask(plan, KNOWN_ALL, "");
	char etag[S3_ETAG], md5[S3_HASH];

	for (; r == 1 && plan->lines > 1000; r = plan_step(plan, KNOWN_ALL))
		alive++;
	if (r < 0 || plan->lines < 2 * alive + 1000)
		return MIN(r, 0);
	plan->lines = 0;
	for (r = plan_ask(plan, KNOWN_ALL, ""); r == 1; r = plan_step(plan, KNOWN_ALL)) {
		column_copy(plan, KNOWN_ALL, 1, etag, sizeof(etag));
		column_copy(plan, KNOWN_ALL, 2, md5, sizeof(md5));
		stamp = (struct stamp){ column_number(plan, KNOWN_ALL, 4),
					column_number(plan, KNOWN_ALL, 5) };
		r = news_add(plan, column(plan, KNOWN_ALL, 0), etag, md5,
			     column_number(plan, KNOWN_ALL, 3), &stamp);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : write_news(plan, ACCESS_FILE_REPLACE);
}

int plan_open(struct plan *plan)
{
	int r;

	if (sqlite3_open_v2("", &plan->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
		    SQLITE_OK ||
	    sqlite3_exec(plan->db, schema, NULL, NULL, NULL) != SQLITE_OK)
		return plan->db ? plan_error(plan) : -ENOMEM;
	r = plan->access ? read_known(plan) : 0;
	/* Lines of other sessions are not known here, and stay. */
	return r == 0 && plan->access && !plan->glob ? shorten(plan) : r;
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
