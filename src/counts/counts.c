/* SPDX-License-Identifier: MIT */
/*
 * The keys that have rows are asked for one by one, each with its last row: so all that counts is
 * among them, whatever file has it or has not.  What is known of a key holds if its file is the
 * same, of the same generation, if no other program's change of it waits, and if its last row is
 * the same; if that is another one, and the one that was the last still is what it was, what came
 * behind is added.  Everything else is counted anew, and so, each time, is what has no file, and
 * a list of which the last row has no time.
 */
#include "src/counts/counts.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "src/index/walk.h"

/* Where the first keys have fewer rows than that, all rows are read as soon as all keys. */
enum { SOME_KEYS = 1000, SOME_ROWS = 16 * SOME_KEYS };

enum counts_text {
	TEXT_KEY_FIND = INDEX_TEXTS,
	TEXT_KEY_PUT,
	TEXT_DAY_DROP,
	TEXT_DAY_ADD,
	TEXT_SEEN_ADD,
	TEXT_UNSEEN,
	TEXT_DIR_ADD,
	TEXT_SESSIONS,
	TEXT_DAYS,
	COUNTS_TEXTS,
};

static const char schema[] =
	"CREATE TABLE key (id INTEGER PRIMARY KEY, session BLOB NOT NULL, key BLOB NOT NULL, "
	"ino INTEGER NOT NULL, kind INTEGER NOT NULL, generation INTEGER NOT NULL, "
	"last INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, "
	"items INTEGER NOT NULL, bytes INTEGER NOT NULL, "
	"oldest INTEGER NOT NULL, newest INTEGER NOT NULL, UNIQUE (session, key));"
	"CREATE TABLE day (key INTEGER, day INTEGER, items INTEGER NOT NULL, "
	"bytes INTEGER NOT NULL, PRIMARY KEY (key, day)) WITHOUT ROWID;";

/* Of this time: the keys that are there, and the directories of sessions. */
static const char temporary[] =
	"CREATE TEMP TABLE IF NOT EXISTS seen (id INTEGER PRIMARY KEY);"
	"CREATE TEMP TABLE IF NOT EXISTS dir (session BLOB PRIMARY KEY, updated INTEGER NOT NULL);"
	"DELETE FROM temp.seen; DELETE FROM temp.dir";

static const char drop_unseen[] = "DELETE FROM day WHERE key NOT IN (SELECT id FROM temp.seen);"
				  "DELETE FROM key WHERE id NOT IN (SELECT id FROM temp.seen)";

static const char *const texts[COUNTS_TEXTS] = {
	INDEX_META_TEXTS,
	[TEXT_KEY_FIND] = "SELECT id, ino, kind, generation, last, created, updated, items, bytes, "
			  "oldest, newest FROM key WHERE session = ?1 AND key = ?2",
	[TEXT_KEY_PUT] = "INSERT OR REPLACE INTO key (id, session, key, ino, kind, generation, "
			 "last, created, updated, items, bytes, oldest, newest) "
			 "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
	[TEXT_DAY_DROP] = "DELETE FROM day WHERE key = ?1",
	[TEXT_DAY_ADD] = "INSERT INTO day (key, day, items, bytes) VALUES (?1, ?2, ?3, ?4) "
			 "ON CONFLICT (key, day) DO UPDATE SET items = items + excluded.items, "
			 "bytes = bytes + excluded.bytes",
	[TEXT_SEEN_ADD] = "INSERT INTO temp.seen (id) VALUES (?1)",
	[TEXT_UNSEEN] = "SELECT 1 FROM key WHERE id NOT IN (SELECT id FROM temp.seen)",
	[TEXT_DIR_ADD] = "INSERT OR IGNORE INTO temp.dir (session, updated) VALUES (?1, ?2)",
	[TEXT_SESSIONS] = "SELECT session, count(*), sum(items), sum(bytes), min(oldest), "
			  "max(0, max(newest)) FROM key GROUP BY session UNION ALL "
			  "SELECT session, 0, 0, 0, 0, updated FROM temp.dir "
			  "WHERE session NOT IN (SELECT session FROM key) ORDER BY 1",
	[TEXT_DAYS] = "SELECT day, sum(items), sum(bytes) FROM day GROUP BY day ORDER BY day",
};

static const struct index_kind counts_kind = {
	.suffix = "counts",
	.application = 0x73657363, /* sesc */
	.format = "1",
	.schema = schema,
	.texts = texts,
	.count = COUNTS_TEXTS,
};

/* ---- One key ---- */

struct known {
	int64_t id; /* 0: it is not */
	int64_t ino, kind, generation;
	struct backend_key_stat stat; /* without first */
	int64_t items, bytes;
	int64_t oldest, newest; /* 0: of no row it is known when */
};

struct counting {
	struct walk walk;
	struct known key; /* that is counted */
	struct backend_days days;
	bool follows; /* its next row is the one that was the last */
	bool moved;   /* but it is not */
};

static int find_known(struct index *index, struct bytes session, struct bytes key,
		      struct known *known)
{
	int r = 0;
	sqlite3_stmt *find = index_say(index, TEXT_KEY_FIND, &r);

	*known = (struct known){ 0 };
	if (!find)
		return r;
	index_bind_bytes(find, 1, session);
	index_bind_bytes(find, 2, key);
	r = index_step(index, find);
	if (r > 0)
		*known = (struct known){
			.id = sqlite3_column_int64(find, 0),
			.ino = sqlite3_column_int64(find, 1),
			.kind = sqlite3_column_int64(find, 2),
			.generation = sqlite3_column_int64(find, 3),
			.stat.last = sqlite3_column_int64(find, 4),
			.stat.created = sqlite3_column_int64(find, 5),
			.stat.updated = sqlite3_column_int64(find, 6),
			.items = sqlite3_column_int64(find, 7),
			.bytes = sqlite3_column_int64(find, 8),
			.oldest = sqlite3_column_int64(find, 9),
			.newest = sqlite3_column_int64(find, 10),
		};
	sqlite3_reset(find);
	return MIN(r, 0);
}

static int put_key(struct index *index, struct bytes session, struct bytes key,
		   struct known *counted)
{
	const int64_t values[] = {
		counted->ino,	    counted->kind,	   counted->generation,
		counted->stat.last, counted->stat.created, counted->stat.updated,
		counted->items,	    counted->bytes,	   counted->oldest,
		counted->newest,
	};
	int r = 0;
	sqlite3_stmt *put = index_say(index, TEXT_KEY_PUT, &r);

	if (!put)
		return r;
	if (counted->id)
		sqlite3_bind_int64(put, 1, counted->id);
	else
		sqlite3_bind_null(put, 1);
	index_bind_bytes(put, 2, session);
	index_bind_bytes(put, 3, key);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		sqlite3_bind_int64(put, (int)i + 4, values[i]);
	r = index_run(index, put);
	counted->id = sqlite3_last_insert_rowid(index->db);
	return r;
}

static int say_number(struct index *index, unsigned text, int64_t number)
{
	int r = 0;
	sqlite3_stmt *say = index_say(index, text, &r);

	if (!say)
		return r;
	sqlite3_bind_int64(say, 1, number);
	return index_run(index, say);
}

static int add_day(void *arg, const struct backend_day *day)
{
	struct counting *counting = arg;
	struct index *index = counting->walk.index;
	int r = 0;
	sqlite3_stmt *add = index_say(index, TEXT_DAY_ADD, &r);

	if (!add)
		return r;
	sqlite3_bind_int64(add, 1, counting->key.id);
	sqlite3_bind_int64(add, 2, day->day);
	sqlite3_bind_int64(add, 3, (int64_t)day->items);
	sqlite3_bind_int64(add, 4, (int64_t)day->bytes);
	return index_run(index, add);
}

static bool same_last(const struct known *known, int64_t last, int64_t created, int64_t updated)
{
	return known->stat.last == last && known->stat.created == created &&
	       known->stat.updated == updated;
}

static int on_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct counting *counting = arg;
	struct known *key = &counting->key;

	if (counting->follows) {
		counting->follows = false;
		counting->moved = !same_last(key, index, times.created, times.updated);
		return counting->moved;
	}
	key->items++;
	key->bytes += (int64_t)data.size;
	if (times.created && (!key->oldest || times.created < key->oldest))
		key->oldest = times.created;
	if (times.updated && (!key->newest || times.updated > key->newest))
		key->newest = times.updated;
	return backend_days_add(&counting->days, times.created, data.size);
}

static int read_rows(struct counting *counting, struct bytes session, struct bytes key,
		     int64_t from)
{
	struct walk *walk = &counting->walk;

	backend_days_done(&counting->days);
	return walk->backend->ops->row_read_times(walk->backend, walk->snapshot, session, key, from,
						  false, UINT64_MAX, on_row, counting);
}

/* From what is known on, or from the start. */
static int count_rows(struct counting *counting, struct bytes session, struct bytes key,
		      const struct known *known)
{
	int r = 0;

	counting->key = *known;
	counting->follows = known->items;
	counting->moved = false;
	if (known->items)
		r = read_rows(counting, session, key, known->stat.last);
	if (r < 0 || (known->items && !counting->moved && !counting->follows))
		return r;
	counting->key = (struct known){ .id = known->id };
	counting->follows = false;
	r = known->id ? say_number(counting->walk.index, TEXT_DAY_DROP, known->id) : 0;
	return r < 0 ? r : read_rows(counting, session, key, INT64_MIN);
}

/* What a key is: the number, kind and generation of its file; zeros if there is none. */
static int find_file(const struct walk *walk, struct bytes session, struct bytes key,
		     struct known *ret_file)
{
	struct backend_node node;
	int r = walk->backend->ops->node_find(walk->backend, walk->snapshot, session, key, &node);

	*ret_file = (struct known){ .generation = -1 };
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	*ret_file = (struct known){ .ino = (int64_t)node.ino,
				    .kind = node.kind,
				    .generation = (int64_t)node.generation };
	backend_node_done(&node);
	return 0;
}

static int count_key(struct counting *counting, struct bytes session, struct bytes key,
		     const struct backend_key_stat *stat, const struct known *file,
		     const struct known *known)
{
	struct index *index = counting->walk.index;
	struct known *counted = &counting->key;
	int r = index_unseal(index);

	if (r == 0)
		r = count_rows(counting, session, key, known);
	if (r < 0)
		return r;
	counted->ino = file->ino;
	counted->kind = file->kind;
	counted->generation = file->generation;
	counted->stat = *stat;
	r = put_key(index, session, key, counted);
	return r < 0 ? r : backend_days_tell(&counting->days, add_day, counting);
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	struct counting *counting = arg;
	struct walk *walk = &counting->walk;
	struct known known, file;
	int r = find_file(walk, session, key, &file);

	if (r == 0)
		r = find_known(walk->index, session, key, &known);
	if (r < 0)
		return r;
	if (walk_is_waiting(walk, session, key) || (file.kind == BACKEND_LIST && !stat->updated))
		file.generation = -1;
	if (known.ino != file.ino || known.kind != file.kind ||
	    known.generation != file.generation || file.generation < 0)
		known = (struct known){ .id = known.id };
	if (known.items && same_last(&known, stat->last, stat->created, stat->updated))
		return say_number(walk->index, TEXT_SEEN_ADD, known.id);
	if (walk_is_late(walk))
		return 1;
	r = count_key(counting, session, key, stat, &file, &known);
	return r < 0 ? r : say_number(walk->index, TEXT_SEEN_ADD, counting->key.id);
}

/* ---- All of them ---- */

static int forget_gone(struct index *index)
{
	int r = 0, unseen;
	sqlite3_stmt *find = index_say(index, TEXT_UNSEEN, &r);

	if (!find)
		return r;
	unseen = index_step(index, find);
	sqlite3_reset(find);
	if (unseen <= 0)
		return unseen;
	r = index_unseal(index);
	return r < 0 ? r : index_exec(index, drop_unseen);
}

static int note_dir(void *arg, const struct backend_node *node)
{
	struct index *index = arg;
	int r = 0;
	sqlite3_stmt *add;

	if (node->kind != BACKEND_SESSION || !node->nlink || !node->session.data)
		return 0;
	add = index_say(index, TEXT_DIR_ADD, &r);
	if (!add)
		return r;
	index_bind_bytes(add, 1, node->session);
	sqlite3_bind_int64(add, 2, node->mtime);
	return index_run(index, add);
}

struct comparing {
	struct index *index;
	sqlite3_stmt *sessions;
	bool differs;
};

static struct backend_session_stat stat_at(sqlite3_stmt *sessions)
{
	return (struct backend_session_stat){
		.keys = (uint64_t)sqlite3_column_int64(sessions, 1),
		.items = (uint64_t)sqlite3_column_int64(sessions, 2),
		.bytes = (uint64_t)sqlite3_column_int64(sessions, 3),
		.created = sqlite3_column_int64(sessions, 4),
		.updated = sqlite3_column_int64(sessions, 5),
	};
}

static int compare(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	struct comparing *comparing = arg;
	struct backend_session_stat ours;
	int r = index_step(comparing->index, comparing->sessions);

	if (r < 0)
		return r;
	ours = stat_at(comparing->sessions);
	comparing->differs = !r || !bytes_equal(index_bytes(comparing->sessions, 0), session) ||
			     memcmp(&ours, stat, sizeof(ours)) != 0;
	return comparing->differs;
}

/* A store may count otherwise than we do: bytes, if it has its text in UTF-16.  So what was counted
 * anew is compared with what it says, once; where it differs, that is remembered, and nothing
 * else. */
static int compare_all(struct walk *walk)
{
	struct index *index = walk->index;
	struct comparing comparing = { .index = index };
	int r = 0;

	comparing.sessions = index_say(index, TEXT_SESSIONS, &r);
	if (!comparing.sessions)
		return r;
	r = walk->backend->ops->session_list(walk->backend, walk->snapshot, compare, &comparing);
	if (r == 0 && !comparing.differs)
		r = index_step(index, comparing.sessions);
	sqlite3_reset(comparing.sessions);
	if (r < 0)
		return r;
	comparing.differs |= r;
	r = 0;
	if (comparing.differs)
		r = index_anew(index);
	index->alive = !comparing.differs;
	index->dead = comparing.differs;
	return r;
}

static int look(struct walk *walk)
{
	struct counting *counting = (struct counting *)walk;
	const struct bytes none = { 0 };
	struct backend *backend = walk->backend;
	int r = index_exec(walk->index, temporary);

	if (r == 0)
		r = walk_changes(walk);
	if (r == 0 && walk->all)
		r = -EAGAIN;
	if (r == 0)
		r = backend->ops->key_list(backend, walk->snapshot, none, none, on_key, counting);
	if (r == 0 && walk->late)
		return 1;
	if (r == 0)
		r = forget_gone(walk->index);
	if (r == 0)
		r = backend->ops->node_list(backend, walk->snapshot, 0, false, note_dir,
					    walk->index);
	return r < 0 || walk->index->alive ? r : compare_all(walk);
}

struct sample {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	int64_t keys, rows;
};

static int look_at_key(void *arg, struct bytes session, struct bytes key,
		       const struct backend_key_stat *stat)
{
	struct sample *sample = arg;
	struct backend_node node;
	int64_t rows;
	int r = sample->backend->ops->node_find(sample->backend, sample->snapshot, session, key,
						&node);

	if (r == 0) {
		backend_node_done(&node);
		if (__builtin_sub_overflow(stat->last, stat->first, &rows) || rows > SOME_ROWS)
			rows = SOME_ROWS;
		sample->rows += rows + 1;
	} else if (r != -ENOENT) {
		return r;
	}
	return ++sample->keys == SOME_KEYS || sample->rows >= SOME_ROWS;
}

static int is_worth_it(struct backend *backend)
{
	const struct bytes none = { 0 };
	struct sample sample = { .backend = backend };
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &sample.snapshot);

	if (r < 0)
		return r;
	r = backend->ops->key_list(backend, sample.snapshot, none, none, look_at_key, &sample);
	backend->ops->snapshot_end(backend, sample.snapshot);
	return r < 0 ? r : sample.rows >= SOME_ROWS;
}

/* ---- What they come to ---- */

static int read_sessions(struct index *index, struct counts *counts)
{
	int r = 0;
	sqlite3_stmt *sessions = index_say(index, TEXT_SESSIONS, &r);

	if (!sessions)
		return r;
	while ((r = index_step(index, sessions)) > 0) {
		const struct bytes id = index_bytes(sessions, 0);
		struct counts_session *session;

		r = ARRAY_ROOM(counts->sessions, counts->count, counts->room);
		if (r < 0)
			break;
		session = &counts->sessions[counts->count];
		*session = (struct counts_session){ .id = bytes_dup(id),
						    .size = id.size,
						    .stat = stat_at(sessions) };
		r = session->id ? 0 : -ENOMEM;
		if (r < 0)
			break;
		counts->count++;
	}
	sqlite3_reset(sessions);
	return r;
}

static int read_days(struct index *index, struct counts *counts)
{
	int r = 0;
	sqlite3_stmt *days = index_say(index, TEXT_DAYS, &r);

	if (!days)
		return r;
	while ((r = index_step(index, days)) > 0) {
		r = ARRAY_ROOM(counts->days.day, counts->days.count, counts->days.room);
		if (r < 0)
			break;
		counts->days.day[counts->days.count++] = (struct backend_day){
			.day = sqlite3_column_int64(days, 0),
			.items = (uint64_t)sqlite3_column_int64(days, 1),
			.bytes = (uint64_t)sqlite3_column_int64(days, 2),
		};
	}
	sqlite3_reset(days);
	return r;
}

int counts_read(const char *store, const char *table, struct backend *backend,
		struct counts *ret_counts)
{
	_cleanup_(counts_done) struct counts counts = { 0 };
	_cleanup_(index_closep) struct index *index = NULL;
	_cleanup_(freep) char *why = NULL;
	struct counting counting = { .walk = { .backend = backend, .look = look } };
	int r = backend_has_path(store) ? is_worth_it(backend) : 0;

	if (r <= 0)
		return r < 0 ? r : -EOPNOTSUPP;
	r = index_beside(&counts_kind, store, table, backend, &index, &why);
	if (r < 0 || index->dead)
		return r < 0 ? r : -EOPNOTSUPP;
	counting.walk.index = index;
	r = walk_bring_up(&counting.walk);
	backend_days_done(&counting.days);
	if (r == 0)
		r = index->dead ? -EOPNOTSUPP : read_sessions(index, &counts);
	if (r == 0)
		r = read_days(index, &counts);
	if (r < 0)
		return r;
	*ret_counts = counts;
	counts = (struct counts){ 0 };
	return 0;
}

int counts_sessions(const struct counts *counts, backend_session_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < counts->count; i++) {
		const struct counts_session *session = &counts->sessions[i];

		r = fn(arg, bytes_make(session->id, session->size), &session->stat);
	}
	return MIN(r, 0);
}

void counts_done(struct counts *counts)
{
	for (size_t i = 0; i < counts->count; i++)
		free(counts->sessions[i].id);
	free(counts->sessions);
	backend_days_done(&counts->days);
}
