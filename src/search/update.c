/* SPDX-License-Identifier: MIT */
/*
 * What has changed since the index was brought up to date.
 *
 * The store tells: a node's generation moves with every change of its file but lines that are added
 * behind its end (backend.h).  So a file of which session, key and generation are those that the
 * index knows is what it was, and a list of which the last row is another one has more lines.  What
 * other programs have changed and nobody has taken in yet waits in a log; keys that do are read
 * again each time, as long as they do.
 *
 * Whoever writes to the store does nothing for that.  Who looks reads all nodes, and of each list
 * the index of its last row.
 *
 * All is read in snapshots.  A long one would be in the way of who writes, so one that lasts is
 * given up for a newer one, and all nodes are looked at again, until all of them are found
 * to be known in one snapshot.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/api/text.h"
#include "src/base/array.h"
#include "src/base/tick.h"
#include "src/search/internal.h"
#include "src/user/stop.h"

enum {
	WAITING_MOST = 1000, /* keys that are remembered; of more any may have changed */
	DEAD_MOST = 20000,   /* besides as many as there are alive */
};
static const int64_t SNAPSHOT_MOST = INT64_C(5000000000);

/* A key that other programs have changed. */
struct waiting {
	char *session;
	char *key;
	size_t session_size;
	size_t key_size;
	bool seen; /* it has a file */
};

struct updating {
	struct search *search;
	struct backend *backend;
	struct backend_snapshot *snapshot;
	struct progress *progress;
	int64_t until; /* when the snapshot has lasted too long */
	bool late;     /* it has, and something is left */
	int64_t seen;  /* files that the index knows */
	bool all;      /* anything may have changed */
	struct waiting *waiting;
	size_t count, room;
	/* Of the key that is read. */
	int64_t key;
	struct buf said, role, agent;
};

static void bind_bytes(sqlite3_stmt *statement, int place, struct bytes bytes)
{
	sqlite3_bind_blob64(statement, place, bytes.data ? bytes.data : "", bytes.size,
			    SQLITE_STATIC);
}

/* ---- One item ---- */

static int add_words(struct updating *updating, int64_t id, struct bytes said)
{
	int r = 0;
	sqlite3_stmt *add = search_say(updating->search, TEXT_SAID_ADD, &r);

	if (!add)
		return r;
	sqlite3_bind_int64(add, 1, id);
	sqlite3_bind_text64(add, 2, said.data ? said.data : "", said.size, SQLITE_STATIC,
			    SQLITE_UTF8);
	return search_run(updating->search, add);
}

static int add_item(struct updating *updating, int64_t item, int64_t made, struct bytes data)
{
	int r = 0;
	sqlite3_stmt *add = search_say(updating->search, TEXT_ITEM_ADD, &r);
	/* Numbers only rise: words of items that are gone stay. */
	int64_t id = updating->search->dead + updating->search->alive + 1;

	if (!add)
		return r;
	sqlite3_bind_int64(add, 1, id);
	sqlite3_bind_int64(add, 2, updating->key);
	sqlite3_bind_int64(add, 3, item);
	sqlite3_bind_int64(add, 4, made);
	sqlite3_bind_int64(add, 5, search_sum(data));
	sqlite3_bind_text64(add, 6, updating->role.data ? updating->role.data : "",
			    updating->role.size, SQLITE_STATIC, SQLITE_UTF8);
	r = search_run(updating->search, add);
	if (r == 0)
		updating->search->alive++;
	return r < 0 ? r : add_words(updating, id, buf_bytes(&updating->said));
}

static int on_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct updating *updating = arg;
	int r;

	buf_clear(&updating->said);
	buf_clear(&updating->role);
	buf_clear(&updating->agent);
	progress_add(updating->progress, 1, data.size);
	r = stop_wanted() ? -EINTR : text_said(data, &updating->said);
	if (r == 0)
		r = text_made_by(data, &updating->role, &updating->agent);
	return r < 0 ? r : add_item(updating, index, times.created, data);
}

/* ---- One file ---- */

struct known {
	int64_t id; /* 0: it is not */
	bool same;  /* session, key, kind, generation */
	int64_t last, created, updated;
	bool rows; /* these are there */
};

static bool is_column(sqlite3_stmt *statement, int column, struct bytes bytes)
{
	return bytes_equal(bytes_make(sqlite3_column_blob(statement, column),
				      (size_t)sqlite3_column_bytes(statement, column)),
			   bytes);
}

static int find_known(struct updating *updating, const struct backend_node *node,
		      struct known *known)
{
	int r = 0;
	sqlite3_stmt *get = search_say(updating->search, TEXT_KEY_BY_INO, &r);

	*known = (struct known){ 0 };
	if (!get)
		return r;
	sqlite3_bind_int64(get, 1, (int64_t)node->ino);
	r = search_step(updating->search, get);
	if (r > 0) {
		known->id = sqlite3_column_int64(get, 0);
		known->same = is_column(get, 1, node->session) && is_column(get, 2, node->key) &&
			      sqlite3_column_int64(get, 3) == (int64_t)node->kind &&
			      sqlite3_column_int64(get, 4) == (int64_t)node->generation;
		known->rows = sqlite3_column_type(get, 5) != SQLITE_NULL;
		known->last = sqlite3_column_int64(get, 5);
		known->created = sqlite3_column_int64(get, 6);
		known->updated = sqlite3_column_int64(get, 7);
	}
	sqlite3_reset(get);
	return MIN(r, 0);
}

static int drop_key(struct updating *updating, int64_t id)
{
	struct search *search = updating->search;
	int r = search_unseal(search), dropped;
	sqlite3_stmt *drop = r == 0 ? search_say(search, TEXT_ITEM_DROP, &r) : NULL;

	if (!drop)
		return r;
	sqlite3_bind_int64(drop, 1, id);
	r = search_run(search, drop);
	dropped = sqlite3_changes(search->db);
	search->dead += dropped;
	search->alive -= dropped;
	drop = r == 0 ? search_say(search, TEXT_KEY_DROP, &r) : NULL;
	if (!drop)
		return r;
	sqlite3_bind_int64(drop, 1, id);
	return search_run(search, drop);
}

/* ino 0: there is no file. */
static int add_key(struct updating *updating, uint64_t ino, struct bytes session, struct bytes key,
		   uint32_t kind)
{
	struct search *search = updating->search;
	int r = 0;
	sqlite3_stmt *add = search_say(search, TEXT_KEY_ADD, &r);

	if (!add)
		return r;
	if (ino)
		sqlite3_bind_int64(add, 1, (int64_t)ino);
	else
		sqlite3_bind_null(add, 1);
	bind_bytes(add, 2, session);
	bind_bytes(add, 3, key);
	sqlite3_bind_int64(add, 4, kind);
	r = search_run(search, add);
	updating->key = sqlite3_last_insert_rowid(search->db);
	return r;
}

static int set_key(struct updating *updating, int64_t generation, bool rows,
		   const struct backend_key_stat *stat)
{
	int r = 0;
	sqlite3_stmt *set = search_say(updating->search, TEXT_KEY_SET, &r);

	if (!set)
		return r;
	sqlite3_clear_bindings(set);
	sqlite3_bind_int64(set, 1, updating->key);
	sqlite3_bind_int64(set, 2, generation);
	if (rows) {
		sqlite3_bind_int64(set, 3, stat->last);
		sqlite3_bind_int64(set, 4, stat->created);
		sqlite3_bind_int64(set, 5, stat->updated);
	}
	return search_run(updating->search, set);
}

/* What has come since the snapshot was begun can wait. */
static int is_late(struct updating *updating)
{
	updating->late = updating->until && tick_now() > updating->until;
	return updating->late;
}

/* Read the rows of a key from an index on. */
static int read_key(struct updating *updating, struct bytes session, struct bytes key, int64_t from,
		    int64_t generation)
{
	struct backend *backend = updating->backend;
	struct backend_key_stat stat = { 0 };
	int r = search_unseal(updating->search), found;

	if (r < 0)
		return r;
	found = backend->ops->key_stat(backend, updating->snapshot, session, key, &stat);
	r = found == 0 ? backend->ops->row_read_times(backend, updating->snapshot, session, key,
						      from, false, UINT64_MAX, on_row, updating) :
			 found;
	if (r == -ENOENT)
		r = 0;
	return r < 0 ? r : set_key(updating, generation, found == 0, &stat);
}

/* 1: the last row is another one. */
static int has_grown(struct updating *updating, const struct backend_node *node,
		     const struct known *known)
{
	struct backend *backend = updating->backend;
	struct backend_key_stat stat;
	int r;

	if (node->kind != BACKEND_LIST)
		return 0;
	r = backend->ops->key_stat(backend, updating->snapshot, node->session, node->key, &stat);
	if (r < 0)
		return r == -ENOENT ? known->rows : r;
	return !known->rows || stat.last != known->last || stat.created != known->created ||
	       stat.updated != known->updated;
}

/* A list that has as many rows as before and another last one is none that has grown. */
static bool goes_on(struct updating *updating, const struct backend_node *node,
		    const struct known *known)
{
	struct backend *backend = updating->backend;
	struct backend_key_stat stat;

	return known->rows && known->last < INT64_MAX &&
	       backend->ops->key_stat(backend, updating->snapshot, node->session, node->key,
				      &stat) == 0 &&
	       stat.last > known->last;
}

static bool is_waiting(struct updating *updating, const struct backend_node *node)
{
	bool waits = updating->all;

	for (size_t i = 0; i < updating->count; i++) {
		struct waiting *waiting = &updating->waiting[i];

		if (bytes_equal(bytes_make(waiting->session, waiting->session_size),
				node->session) &&
		    bytes_equal(bytes_make(waiting->key, waiting->key_size), node->key))
			waits = waiting->seen = true;
	}
	return waits;
}

static bool is_of_interest(const struct backend_node *node)
{
	return node->session.data && node->key.data && node->nlink &&
	       (node->kind == BACKEND_SINGLE || node->kind == BACKEND_LIST);
}

static int on_node(void *arg, const struct backend_node *node)
{
	struct updating *updating = arg;
	struct known known;
	bool waits, adds = false;
	int r;

	if (!is_of_interest(node))
		return 0;
	if (stop_wanted())
		return -EINTR;
	waits = is_waiting(updating, node);
	r = find_known(updating, node, &known);
	if (r == 0 && known.same && !waits) {
		r = has_grown(updating, node, &known);
		if (r <= 0) {
			updating->seen += r == 0;
			return r;
		}
		adds = goes_on(updating, node, &known);
		r = 0;
	}
	if (r < 0)
		return r;
	if (is_late(updating))
		return 1;
	updating->key = known.id;
	if (known.id && !adds)
		r = drop_key(updating, known.id);
	if (r == 0)
		r = search_unseal(updating->search);
	if (r == 0 && !adds)
		r = add_key(updating, node->ino, node->session, node->key, node->kind);
	if (r == 0)
		r = read_key(updating, node->session, node->key, adds ? known.last + 1 : INT64_MIN,
			     waits ? -1 : (int64_t)node->generation);
	updating->seen += r == 0;
	return r;
}

/* ---- What other programs have changed ---- */

static int on_change(void *arg, const struct backend_change *change)
{
	struct updating *updating = arg;
	struct waiting *waiting;

	if (!change->session.data || updating->count == WAITING_MOST) {
		updating->all = true;
		return 0;
	}
	if (ARRAY_ROOM(updating->waiting, updating->count, updating->room) < 0)
		return -ENOMEM;
	waiting = &updating->waiting[updating->count++];
	*waiting = (struct waiting){
		.session = bytes_dup(change->session),
		.session_size = change->session.size,
		.key = bytes_dup(change->key),
		.key_size = change->key.size,
	};
	return waiting->session && waiting->key ? 0 : -ENOMEM;
}

static int read_loose(struct updating *updating, struct bytes session, struct bytes key, bool list)
{
	int r = search_unseal(updating->search);

	if (bytes_ends_with(key, BYTES(":_hash")))
		return 0;
	if (r == 0)
		r = add_key(updating, 0, session, key, list ? BACKEND_LIST : BACKEND_SINGLE);
	return r < 0 ? r : read_key(updating, session, key, INT64_MIN, -1);
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	struct updating *updating = arg;
	struct backend *backend = updating->backend;
	struct backend_node node;
	int r = backend->ops->node_find(backend, updating->snapshot, session, key, &node);

	if (r == 0)
		backend_node_done(&node);
	return r == -ENOENT ? read_loose(updating, session, key, stat->last > 0) : r;
}

/* Keys that have no file yet. */
static int read_all_loose(struct updating *updating)
{
	struct backend *backend = updating->backend;
	const struct bytes none = { 0 };
	int r = 0;

	if (updating->all)
		return backend->ops->key_list(backend, updating->snapshot, none, none, on_key,
					      updating);
	for (size_t i = 0; r == 0 && i < updating->count; i++) {
		const struct waiting *waiting = &updating->waiting[i];
		struct bytes session = bytes_make(waiting->session, waiting->session_size);
		struct bytes key = bytes_make(waiting->key, waiting->key_size);
		struct backend_key_stat stat;

		if (waiting->seen)
			continue;
		r = backend->ops->key_stat(backend, updating->snapshot, session, key, &stat);
		r = r == 0	 ? read_loose(updating, session, key, stat.last > 0) :
		    r == -ENOENT ? 0 :
				   r;
	}
	return r;
}

/* ---- What is gone ---- */

/* Drop the keys that a statement finds. */
static int drop_found(struct updating *updating, enum search_text text)
{
	struct search *search = updating->search;
	int64_t id = 0;
	int r = 0, found;

	do {
		sqlite3_stmt *find = search_say(search, text, &r);

		if (!find)
			return r;
		found = search_step(search, find);
		if (found > 0)
			id = sqlite3_column_int64(find, 0);
		sqlite3_reset(find);
		r = found > 0 ? drop_key(updating, id) : found;
	} while (r == 0 && found > 0);
	return r;
}

static int note_seen(void *arg, const struct backend_node *node)
{
	struct updating *updating = arg;
	int r = 0;
	sqlite3_stmt *add;

	if (!is_of_interest(node))
		return 0;
	add = search_say(updating->search, TEXT_SEEN_ADD, &r);
	if (!add)
		return r;
	sqlite3_bind_int64(add, 1, (int64_t)node->ino);
	return search_run(updating->search, add);
}

static int64_t count_keys(struct search *search)
{
	int r = 0;
	sqlite3_stmt *count = search_say(search, TEXT_KEY_COUNT, &r);
	int64_t counted = -1;

	if (count && sqlite3_step(count) == SQLITE_ROW)
		counted = sqlite3_column_int64(count, 0);
	if (count)
		sqlite3_reset(count);
	return counted;
}

/* More files are known than were seen. */
static int forget_gone(struct updating *updating)
{
	struct backend *backend = updating->backend;
	int r;

	if (count_keys(updating->search) == updating->seen)
		return 0;
	r = search_exec(updating->search, "CREATE TEMP TABLE IF NOT EXISTS seen (ino INTEGER "
					  "PRIMARY KEY); DELETE FROM temp.seen");
	if (r == 0)
		r = backend->ops->node_list(backend, updating->snapshot, 0, false, note_seen,
					    updating);
	return r < 0 ? r : drop_found(updating, TEXT_KEY_UNSEEN);
}

/* ---- All of it ---- */

static void waiting_done(struct updating *updating)
{
	for (size_t i = 0; i < updating->count; i++) {
		free(updating->waiting[i].session);
		free(updating->waiting[i].key);
	}
	updating->count = 0;
	updating->all = false;
}

/* 1: the snapshot has lasted too long. */
static int look(struct updating *updating)
{
	struct backend *backend = updating->backend;
	int r;

	updating->seen = 0;
	updating->late = false;
	r = drop_found(updating, TEXT_KEY_LOOSE);
	if (r == 0)
		r = backend->ops->change_list(backend, updating->snapshot, on_change, updating);
	/* What may be anything is read as a whole. */
	updating->until = updating->count || updating->all ? 0 : tick_now() + SNAPSHOT_MOST;
	if (r == 0)
		r = backend->ops->node_list(backend, updating->snapshot, 0, false, on_node,
					    updating);
	if (r == 0 && updating->late)
		return 1;
	if (r == 0)
		r = forget_gone(updating);
	return r < 0 ? r : read_all_loose(updating);
}

/* Words of what is gone are taken away by making all of it anew. */
static int judge_dead(struct search *search)
{
	return search->dead > search->alive + DEAD_MOST ? search_anew(search) : 0;
}

static int bring_up(struct updating *updating)
{
	struct search *search = updating->search;
	struct backend *backend = updating->backend;
	int r = judge_dead(search);

	if (r < 0)
		return r;
	do {
		r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &updating->snapshot);
		if (r < 0)
			return r;
		r = look(updating);
		waiting_done(updating);
		if (r == 0)
			break;
		backend->ops->snapshot_end(backend, updating->snapshot);
	} while (r > 0);
	if (r == 0) {
		r = search_seal(search);
		if (r < 0)
			backend->ops->snapshot_end(backend, updating->snapshot);
	} else if (r == -EINTR) {
		/* What was read so far need not be read again. */
		(void)search_seal(search);
	}
	return r;
}

int search_update(struct search *search, struct backend *backend, struct progress *progress)
{
	struct updating updating = { .search = search, .backend = backend, .progress = progress };
	int r = bring_up(&updating);

	/* What was left was damaged after all. */
	if (r == -EUCLEAN) {
		r = search_anew(search);
		if (r == 0)
			r = bring_up(&updating);
	}
	/* Others need the room more. */
	if (r == -ENOSPC)
		(void)search_empty(search);
	free(updating.waiting);
	buf_done(&updating.said);
	buf_done(&updating.role);
	buf_done(&updating.agent);
	if (r < 0)
		return r == -EUCLEAN ? -EIO : r;
	search->backend = backend;
	search->snapshot = updating.snapshot;
	return 0;
}
