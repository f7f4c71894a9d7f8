/* SPDX-License-Identifier: MIT */
/*
 * What is known of both sides lies in a temporary database, so memory does not grow with it.  What
 * was last the same is kept in the store, in an ordinary file at its root with a line for each
 * change.  It is no more than a help: where a line is missing or wrong, contents are compared.
 *
 * What differs is carried over by many files at a time, each of which asks the bucket in a thread,
 * and the store before and after that, in its turn, so numbered messages appear in their order.  In
 * an export a thread has all files of a folder.
 */
#include "src/bucket/bucket.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "backend/base/array.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "backend/base/thread.h"
#include "fs/base/layout.h"
#include "fs/base/lines.h"
#include "src/user/stop.h"

enum {
	BATCH = 2048,	     /* files at a time */
	HELD_MAX = 16 << 20, /* bytes of contents in memory before no file is added to a batch */
	FLUSH = 16 << 10,    /* bytes of lines that are kept at once */
	LINE_FIELDS = 5,
	LINES_LEAST = 1000, /* before they are written anew */
};

static const char kept_names[] = ".sessfs-s3-"; /* of files at the root begin so */

enum text { ADD, KNOW, SEE, TELL, COUNT, NEXT, PARTS, KNOWN };

/* A file has the key ''; now, known and seen are stamps. */
static const char schema[] =
	"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -2048;"
	"CREATE TABLE entry (path TEXT, key TEXT, now TEXT, known TEXT, digest TEXT, lines INTEGER,"
	" seen TEXT, shows TEXT, PRIMARY KEY (path, key)) WITHOUT ROWID; "
	"CREATE TABLE told (sentence TEXT PRIMARY KEY) WITHOUT ROWID; BEGIN";

static const char *const texts[ROWS_TEXTS] = {
	[ADD] = "INSERT INTO entry (path, key, now) VALUES (?, ?, ?) "
		"ON CONFLICT DO UPDATE SET now = excluded.now",
	[KNOW] = "INSERT INTO entry (path, key, known, digest, lines) VALUES "
		 "(?1, ?2, nullif(?3, ''), ?4, ?5), (?1, '', nullif(?6, ''), '', 0) "
		 "ON CONFLICT DO UPDATE SET known = excluded.known, digest = excluded.digest, "
		 "lines = excluded.lines, seen = NULL",
	[SEE] = "INSERT INTO entry (path, key, seen, shows) VALUES (?, ?, ?, ?) "
		"ON CONFLICT DO UPDATE SET seen = excluded.seen, shows = excluded.shows",
	[TELL] = "INSERT OR IGNORE INTO told VALUES (?)",
	[COUNT] = "SELECT sum(differs), sum(is_there AND NOT differs), sum(known) FROM (SELECT "
		  "max(now IS NOT known) AS differs, max(now IS NOT NULL) AS is_there, "
		  "sum(key <> '' AND known IS NOT NULL) + sum(ifnull(now = seen, 0)) AS known "
		  "FROM entry GROUP BY path)",
	[NEXT] = "SELECT path, sum(iif(key = '' OR now IS NOT known, cast(now AS INTEGER), 0)), "
		 "dense_rank() OVER (ORDER BY rtrim(path, replace(path, '/', '')), "
		 "iif(?1 = 'export', '', path)), max(iif(key = '', now, '')) FROM entry "
		 "GROUP BY path HAVING max(now IS NOT known) "
		 "ORDER BY rtrim(path, replace(path, '/', '')), length(path), path",
	[PARTS] = "SELECT key, now, known, digest, lines, seen, shows FROM entry WHERE path = ? "
		  "AND key <> '' AND ifnull(now, known) IS NOT NULL ORDER BY key",
	[KNOWN] =
		"SELECT printf('%s\t%s\t%s\t%d\t%s\n', key, known, digest, lines, (SELECT known "
		"FROM entry AS file WHERE file.path = entry.path AND file.key = '')) "
		"FROM entry WHERE key <> '' AND known IS NOT NULL UNION ALL "
		"SELECT printf('%s\t%s\t%s\t-1\t\n', key, seen, shows) FROM entry WHERE now = seen",
};

int sync_say(struct sync *sync, uint64_t *count, char *sentence)
{
	_cleanup_(freep) char *said = sentence;
	int r = said ? ROWS_ASK(&sync->rows, TELL, rows_text(said)) : -ENOMEM;

	++*count;
	if (r < 0 || !sqlite3_changes(sync->rows.db))
		return r;
	sync->told++;
	log_error("%s", said);
	return 0;
}

/* ---- Both sides ---- */

/* A file's path, or an object's key behind the base. */
static int add(struct sync *sync, const char *name, bool is_object, const char *stamp)
{
	const char *why = is_object ? "no file can have this name" :
				      "the layout has another meaning for this name";
	_cleanup_(buf_done) struct buf to = { 0 };
	int r = layout_turn(sync->layout, name, is_object, sync->glob, &to);

	if (r == -EINVAL)
		return sync_say(sync, &sync->copier.failed,
				str_printf("%s: %s, so it is left out", name, why));
	sync->copier.left += r == 0 && (is_object || sync->up);
	if (r > 0)
		r = ROWS_ASK(&sync->rows, ADD, rows_text(is_object ? to.data : name),
			     rows_text(is_object ? name : ""), rows_text(stamp));
	return r < 0 ? say_why(NULL, r) : 0;
}

static int add_object(void *arg, const char *key, const char *etag, uint64_t size)
{
	struct sync *sync = arg;
	char stamp[SYNC_STAMP];

	if (strncmp(key, sync->base.data, sync->base.size) != 0)
		return 0;
	snprintf(stamp, SYNC_STAMP, "%" PRIu64 " %s", size, etag);
	return add(sync, key + sync->base.size, true, stamp);
}

int sync_stamp(struct sync *sync, const char *path, const struct stat *st,
	       char ret_stamp[SYNC_STAMP])
{
	struct stat now;
	int r = st ? 0 : access_stat(sync->access, path, &now);

	st = st ? st : &now;
	*ret_stamp = '\0';
	if (r == 0 && S_ISREG(st->st_mode))
		snprintf(ret_stamp, SYNC_STAMP, "%lld %lld", (long long)st->st_size,
			 (long long)time_join(st->st_ctim));
	return r == -ENOENT ? 0 : r;
}

static int add_file(struct copier *census, struct copier_entry *entry)
{
	char stamp[SYNC_STAMP];

	if (!S_ISREG(entry->st.st_mode) ||
	    strncmp(entry->path, kept_names, strlen(kept_names)) == 0)
		return 0;
	sync_stamp(census->arg, entry->path, &entry->st, stamp);
	return add(census->arg, entry->path, false, stamp);
}

void task_done(struct task *task)
{
	for (size_t i = 0; i < task->count; i++) {
		buf_done(&task->parts[i].key);
		s3_request_done(&task->parts[i].asked);
	}
	free(task->parts);
	free(task->path);
	buf_done(&task->local);
	*task = (struct task){ 0 };
}

struct part *task_add(struct task *task, const char *key)
{
	const struct buf *base = &task->sync->base;
	struct part *part;

	/* Most files have one, and many files are in memory. */
	if (!task->parts && (task->parts = malloc(sizeof(*part))))
		task->room = 1;
	if (ARRAY_ROOM(task->parts, task->count, task->room) < 0)
		return NULL;
	part = &task->parts[task->count++];
	*part = (struct part){ 0 };
	return buf_printf(&part->key, "%.*s%s", (int)base->size, base->data, key) < 0 ? NULL : part;
}

/* ---- What is kept ---- */

/* Adds the news to the file, or writes all anew. */
static int write_lines(struct sync *sync, enum access_how how)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	int r;

	if (!sync->access || (how == ACCESS_FILE_APPEND && !sync->news.size))
		return 0;
	r = access_file_open(sync->access, sync->file, how, &file);
	if (r == 0) {
		access_file_sync_later(file);
		r = access_file_write(file, buf_bytes(&sync->news));
	}
	if (r == 0 && how == ACCESS_FILE_REPLACE)
		r = rows_ask(&sync->rows, KNOWN, NULL);
	while (r == 1) {
		r = access_file_write(file, rows_column_bytes(&sync->rows, KNOWN, 0));
		r = r < 0 ? r : rows_next(&sync->rows, KNOWN);
	}
	if (r == 0)
		r = access_file_save(steal_ptr(file));
	buf_clear(&sync->news);
	return r < 0 ? say_why(NULL, r) : 0;
}

int sync_keep(struct sync *sync, const struct part *part, const char *stamp)
{
	const char *key = part->key.data + sync->base.size;
	int r = buf_printf(&sync->news, "%s\t%s\t%s\t%" PRId64 "\t%s\n", key,
			   stamp ? part->known : part->seen, stamp ? part->digest : part->shows,
			   stamp ? part->lines : -1, stamp ? stamp : "");

	return r == 0 && sync->news.size >= FLUSH ? write_lines(sync, ACCESS_FILE_APPEND) : r;
}

/* What the lines say is known from now on. */
static int read_lines(struct sync *sync)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	_cleanup_(buf_done) struct buf text = { 0 }, path = { 0 };
	struct copier_entry entry = { 0 };
	size_t whole;
	int r;

	if (!sync->access)
		return 0;
	sync->lines = 0;
	r = access_file_open(sync->access, sync->file, ACCESS_FILE_READ, &file);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	entry.file = file;
	while (r == 0 && (r = copier_read(&entry, FLUSH, &text)) == 0 &&
	       (whole = lines_whole(buf_bytes(&text)).size)) {
		char *rest = text.data, *line, *fields[LINE_FIELDS];

		text.data[whole - 1] = '\0';
		while (r == 0 && (line = strsep(&rest, "\n"))) {
			sync->lines++;
			for (size_t i = 0; i < LINE_FIELDS; i++)
				fields[i] = strsep(&line, "\t");
			r = !fields[LINE_FIELDS - 1] ?
				    0 :
				    layout_turn(sync->layout, fields[0], true, sync->glob, &path);
			if (r > 0)
				r = ROWS_ASK(&sync->rows, *fields[3] == '-' ? SEE : KNOW,
					     rows_text(path.data), rows_text(fields[0]),
					     rows_text(fields[1]), rows_text(fields[2]),
					     rows_text(fields[3]), rows_text(fields[4]));
			r = r == -EINVAL ? 0 : r;
		}
		buf_consume(&text, whole);
	}
	return r;
}

/* ---- What differs ---- */

static int look_at_both(struct sync *sync)
{
	static const struct copier_sink sink = { .leaf = add_file };
	const struct bucket *bucket = sync->bucket;
	struct copier census = {
		.from = sync->access, .store = sync->copier.store, .sink = &sink, .arg = sync
	};
	int r = sync->rows.db ?
			rows_exec(&sync->rows, "DELETE FROM entry") :
			rows_open(&sync->rows, "", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
				  texts, schema);

	if (r == 0)
		r = read_lines(sync);
	if (r < 0)
		return say_why(NULL, r);
	r = bucket->ops->list(bucket->s3, sync->base.data, add_object, sync);
	if (r == 0 && sync->access)
		r = copier_run(&census);
	/* What could not be read would look as if it had been removed. */
	return r == 0 && census.failed ? -EIO : r;
}

struct batch {
	struct sync *sync;
	struct task tasks[BATCH];
	unsigned count;
	uint64_t held;
	atomic_uint lanes;
	atomic_bool failed; /* no more is asked */
};

static void batch_done(struct batch *batch)
{
	while (batch->count)
		task_done(&batch->tasks[--batch->count]);
	batch->lanes = batch->held = 0;
}

static void *run_lane(void *arg)
{
	struct batch *batch = arg;
	const unsigned lane = atomic_fetch_add(&batch->lanes, 1);

	for (unsigned i = 0; i < batch->count; i++) {
		struct task *task = &batch->tasks[i];

		if (task->lane != lane)
			continue;
		if (!batch->failed)
			task_ask(task);
		if (task->error)
			batch->failed = true;
		sem_post(&task->asked);
	}
	return NULL;
}

static int run_batch(struct batch *batch)
{
	struct sync *sync = batch->sync;
	pthread_t threads[S3_LANES];
	unsigned started = 0;
	int error = 0;

	for (unsigned i = 0; batch->count && i < S3_LANES; i++)
		if (thread_start(&threads[started], run_lane, batch) == 0)
			started++;
		else
			run_lane(batch); /* by this thread, then */
	/* What is in the bucket already is kept in mind, also when one has failed. */
	for (unsigned i = 0; i < batch->count; i++) {
		struct task *task = &batch->tasks[i];
		int done = 0;

		while (sem_wait(&task->asked) < 0)
			;
		if (!error || (sync->up && !task->error))
			done = task_finish(task);
		error = error ? error : done;
		progress_add(&sync->copier.progress, 1, 0);
	}
	while (started)
		pthread_join(threads[--started], NULL);
	batch_done(batch);
	return stop_wanted() ? -EINTR : error;
}

/* A file that differs.  When there are many, they are carried over. */
static int take_task(struct batch *batch)
{
	struct sync *sync = batch->sync;
	struct task *task = &batch->tasks[batch->count++];
	struct rows *rows = &sync->rows;
	const char *path = rows_column_text(rows, NEXT, 0);
	_cleanup_(buf_done) struct buf key = { 0 };
	int r;

	*task = (struct task){ .sync = sync,
			       .path = strdup(path),
			       .need = (uint64_t)rows_column(rows, NEXT, 1),
			       .lane = (unsigned)rows_column(rows, NEXT, 2) % S3_LANES };
	snprintf(task->stamp, SYNC_STAMP, "%s", rows_column_text(rows, NEXT, 3));
	sem_init(&task->asked, 0, 0);
	batch->held += task->need;
	r = task->path ? layout_turn(sync->layout, path, false, NULL, &key) : -ENOMEM;
	task->form = (enum bucket_form)MAX(r, 0);
	if (r >= 0)
		r = ROWS_ASK(rows, PARTS, rows_text(path));
	while (r == 1) {
		struct part *part = task_add(task, rows_column_text(rows, PARTS, 0));

		if (!part)
			return say_why(NULL, -ENOMEM);
		snprintf(part->now, SYNC_STAMP, "%s", rows_column_text(rows, PARTS, 1));
		snprintf(part->known, SYNC_STAMP, "%s", rows_column_text(rows, PARTS, 2));
		snprintf(part->digest, DIGEST_TEXT, "%s", rows_column_text(rows, PARTS, 3));
		part->lines = rows_column(rows, PARTS, 4);
		snprintf(part->seen, SYNC_STAMP, "%s", rows_column_text(rows, PARTS, 5));
		snprintf(part->shows, DIGEST_TEXT, "%s", rows_column_text(rows, PARTS, 6));
		r = rows_next(rows, PARTS);
	}
	if (r == 0)
		r = task_read(task);
	if (r < 0)
		return say_why(NULL, r);
	return batch->count < BATCH && batch->held < HELD_MAX ? 0 : run_batch(batch);
}

/* The layout as the store has it, and the file of what is kept. */
static int name_file(struct sync *sync)
{
	_cleanup_(freep) char *where = NULL;
	char digest[DIGEST_TEXT];
	uint64_t claude = 0;

	layouts_parse("claude", &claude);
	if (sync->layout == &bucket_layouts[BUCKET_CLAUDE] && sync->store_layouts & claude)
		sync->layout = &bucket_layouts[BUCKET_LAYOUTS];
	where = str_printf("%s\n%s\n%.*s\n%s", sync->bucket->place, sync->bucket->name,
			   (int)sync->base.size, sync->base.data, sync->layout->name);
	if (!where)
		return -ENOMEM;
	digest_show("", bytes_str(where), digest);
	snprintf(sync->file, sizeof(sync->file), "%s%s-%.12s", kept_names, sync->layout->name,
		 digest);
	return 0;
}

int sync_run(struct sync *sync)
{
	_cleanup_(batch_done) struct batch batch = { .sync = sync };
	const char *verb = sync->up ? "export" : "import";
	struct copier *copier = &sync->copier;
	struct rows *rows = &sync->rows;
	int r, row, kept;

	memset(copier->did, 0, sizeof(copier->did));
	copier->failed = copier->bytes = copier->left = sync->told = 0;
	progress_begin(&copier->progress, verb, "file");
	r = *sync->file ? 0 : name_file(sync);
	if (r == 0)
		r = look_at_both(sync);
	if (r == 0 && rows_ask(rows, COUNT, NULL) == 1) {
		progress_set_total(&copier->progress, (uint64_t)rows_column(rows, COUNT, 0), 0);
		copier->did[COPIER_UNCHANGED] = (uint64_t)rows_column(rows, COUNT, 1);
		/* Anew when most lines say what is no longer so.  Those of other sessions are not
		 * known in a run for some, and stay. */
		if (!sync->dry && !sync->glob &&
		    sync->lines > 2 * rows_column(rows, COUNT, 2) + LINES_LEAST)
			r = write_lines(sync, ACCESS_FILE_REPLACE);
	}
	row = r == 0 ? ROWS_ASK(rows, NEXT, rows_text(verb)) : 0;
	while (row == 1 && (r = take_task(&batch)) == 0)
		row = rows_next(rows, NEXT);
	if (row < 0)
		r = say_why(NULL, row);
	if (r == 0)
		r = run_batch(&batch);
	kept = write_lines(sync, ACCESS_FILE_APPEND);
	r = r < 0 ? r : kept;
	if (r == 0 && sync->access && !sync->dry)
		r = access_sync(sync->access);
	progress_end(&copier->progress);
	return stop_wanted() ? -EINTR : r;
}

void sync_close(struct sync *sync)
{
	copier_done(&sync->copier);
	rows_close(&sync->rows);
	buf_done(&sync->base);
	buf_done(&sync->news);
}
