/* SPDX-License-Identifier: MIT */
/*
 * What has changed since the index was brought up to date (src/index/walk.h).  Who looks reads all
 * nodes, and of each list the index of its last row.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/api/text.h"
#include "src/index/walk.h"
#include "src/search/internal.h"
#include "src/user/stop.h"

enum { DEAD_MOST = 20000 }; /* besides as many as there are alive */

struct updating {
	struct walk walk;
	struct progress *progress;
	int64_t seen; /* files that the index knows */
	/* Of the key that is read. */
	int64_t key;
	struct buf said, role, agent;
};

/* ---- One item ---- */

static int add_words(struct updating *updating, int64_t id, struct bytes said)
{
	int r = 0;
	sqlite3_stmt *add = index_say(updating->walk.index, TEXT_SAID_ADD, &r);

	if (!add)
		return r;
	sqlite3_bind_int64(add, 1, id);
	sqlite3_bind_text64(add, 2, said.data ? said.data : "", said.size, SQLITE_STATIC,
			    SQLITE_UTF8);
	return index_run(updating->walk.index, add);
}

static int add_item(struct updating *updating, int64_t item, int64_t made, struct bytes data)
{
	int r = 0;
	sqlite3_stmt *add = index_say(updating->walk.index, TEXT_ITEM_ADD, &r);
	/* Numbers only rise: words of items that are gone stay. */
	int64_t id = updating->walk.index->dead + updating->walk.index->alive + 1;

	if (!add)
		return r;
	sqlite3_bind_int64(add, 1, id);
	sqlite3_bind_int64(add, 2, updating->key);
	sqlite3_bind_int64(add, 3, item);
	sqlite3_bind_int64(add, 4, made);
	sqlite3_bind_int64(add, 5, index_sum(data));
	sqlite3_bind_text64(add, 6, updating->role.data ? updating->role.data : "",
			    updating->role.size, SQLITE_STATIC, SQLITE_UTF8);
	r = index_run(updating->walk.index, add);
	if (r == 0)
		updating->walk.index->alive++;
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
	return r < 0 ? r : add_item(updating, index, text_time(data, times.created), data);
}

/* ---- One file ---- */

struct known {
	int64_t id; /* 0: it is not */
	bool same;  /* session, key, kind, generation */
	int64_t last, created, updated;
	bool rows; /* these are there */
};

static int find_known(struct updating *updating, const struct backend_node *node,
		      struct known *known)
{
	int r = 0;
	sqlite3_stmt *get = index_say(updating->walk.index, TEXT_KEY_BY_INO, &r);

	*known = (struct known){ 0 };
	if (!get)
		return r;
	sqlite3_bind_int64(get, 1, (int64_t)node->ino);
	r = index_step(updating->walk.index, get);
	if (r > 0) {
		known->id = sqlite3_column_int64(get, 0);
		known->same = bytes_equal(index_bytes(get, 1), node->session) &&
			      bytes_equal(index_bytes(get, 2), node->key) &&
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
	struct index *index = updating->walk.index;
	int r = index_unseal(index), dropped;
	sqlite3_stmt *drop = r == 0 ? index_say(index, TEXT_ITEM_DROP, &r) : NULL;

	if (!drop)
		return r;
	sqlite3_bind_int64(drop, 1, id);
	r = index_run(index, drop);
	dropped = sqlite3_changes(index->db);
	index->dead += dropped;
	index->alive -= dropped;
	drop = r == 0 ? index_say(index, TEXT_KEY_DROP, &r) : NULL;
	if (!drop)
		return r;
	sqlite3_bind_int64(drop, 1, id);
	return index_run(index, drop);
}

/* ino 0: there is no file. */
static int add_key(struct updating *updating, uint64_t ino, struct bytes session, struct bytes key,
		   uint32_t kind)
{
	struct index *index = updating->walk.index;
	int r = 0;
	sqlite3_stmt *add = index_say(index, TEXT_KEY_ADD, &r);

	if (!add)
		return r;
	if (ino)
		sqlite3_bind_int64(add, 1, (int64_t)ino);
	else
		sqlite3_bind_null(add, 1);
	index_bind_bytes(add, 2, session);
	index_bind_bytes(add, 3, key);
	sqlite3_bind_int64(add, 4, kind);
	r = index_run(index, add);
	updating->key = sqlite3_last_insert_rowid(index->db);
	return r;
}

static int set_key(struct updating *updating, int64_t generation, bool rows,
		   const struct backend_key_stat *stat)
{
	int r = 0;
	sqlite3_stmt *set = index_say(updating->walk.index, TEXT_KEY_SET, &r);

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
	return index_run(updating->walk.index, set);
}

/* Read the rows of a key from an index on. */
static int read_key(struct updating *updating, struct bytes session, struct bytes key, int64_t from,
		    int64_t generation)
{
	struct backend *backend = updating->walk.backend;
	struct backend_key_stat stat = { 0 };
	int r = index_unseal(updating->walk.index), found;

	if (r < 0)
		return r;
	found = backend->ops->key_stat(backend, updating->walk.snapshot, session, key, &stat);
	r = found == 0 ?
		    backend->ops->row_read_times(backend, updating->walk.snapshot, session, key,
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
	struct backend *backend = updating->walk.backend;
	struct backend_key_stat stat;
	int r;

	if (node->kind != BACKEND_LIST)
		return 0;
	r = backend->ops->key_stat(backend, updating->walk.snapshot, node->session, node->key,
				   &stat);
	if (r < 0)
		return r == -ENOENT ? known->rows : r;
	return !known->rows || stat.last != known->last || stat.created != known->created ||
	       stat.updated != known->updated;
}

/* A list that has as many rows as before and another last one is none that has grown. */
static bool goes_on(struct updating *updating, const struct backend_node *node,
		    const struct known *known)
{
	struct backend *backend = updating->walk.backend;
	struct backend_key_stat stat;

	return known->rows && known->last < INT64_MAX &&
	       backend->ops->key_stat(backend, updating->walk.snapshot, node->session, node->key,
				      &stat) == 0 &&
	       stat.last > known->last;
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
	waits = walk_is_waiting(&updating->walk, node->session, node->key);
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
	if (walk_is_late(&updating->walk))
		return 1;
	updating->key = known.id;
	if (known.id && !adds)
		r = drop_key(updating, known.id);
	if (r == 0)
		r = index_unseal(updating->walk.index);
	/* Until all of it is read it is known as no generation, so that it is read anew if that is
	 * ended in the middle. */
	if (r == 0 && adds)
		r = set_key(updating, -1, false, NULL);
	else if (r == 0)
		r = add_key(updating, node->ino, node->session, node->key, node->kind);
	if (r == 0)
		r = read_key(updating, node->session, node->key, adds ? known.last + 1 : INT64_MIN,
			     waits ? -1 : (int64_t)node->generation);
	updating->seen += r == 0;
	return r;
}

/* ---- What other programs have changed ---- */

static int read_loose(struct updating *updating, struct bytes session, struct bytes key, bool list)
{
	int r = index_unseal(updating->walk.index);

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
	struct backend *backend = updating->walk.backend;
	struct backend_node node;
	int r = backend->ops->node_find(backend, updating->walk.snapshot, session, key, &node);

	if (r == 0)
		backend_node_done(&node);
	return r == -ENOENT ? read_loose(updating, session, key, stat->last > 0) : r;
}

/* Keys that have no file yet. */
static int read_all_loose(struct updating *updating)
{
	struct backend *backend = updating->walk.backend;
	const struct bytes none = { 0 };
	int r = 0;

	if (updating->walk.all)
		return backend->ops->key_list(backend, updating->walk.snapshot, none, none, on_key,
					      updating);
	for (size_t i = 0; r == 0 && i < updating->walk.count; i++) {
		const struct waiting *waiting = &updating->walk.waiting[i];
		struct bytes session = bytes_make(waiting->session, waiting->session_size);
		struct bytes key = bytes_make(waiting->key, waiting->key_size);
		struct backend_key_stat stat;

		if (waiting->seen)
			continue;
		r = backend->ops->key_stat(backend, updating->walk.snapshot, session, key, &stat);
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
	struct index *index = updating->walk.index;
	int64_t id = 0;
	int r = 0, found;

	do {
		sqlite3_stmt *find = index_say(index, text, &r);

		if (!find)
			return r;
		found = index_step(index, find);
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
	add = index_say(updating->walk.index, TEXT_SEEN_ADD, &r);
	if (!add)
		return r;
	sqlite3_bind_int64(add, 1, (int64_t)node->ino);
	return index_run(updating->walk.index, add);
}

static int64_t count_keys(struct index *index)
{
	int r = 0;
	sqlite3_stmt *count = index_say(index, TEXT_KEY_COUNT, &r);
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
	struct backend *backend = updating->walk.backend;
	int r;

	if (count_keys(updating->walk.index) == updating->seen)
		return 0;
	r = index_exec(updating->walk.index, "CREATE TEMP TABLE IF NOT EXISTS seen (ino INTEGER "
					     "PRIMARY KEY); DELETE FROM temp.seen");
	if (r == 0)
		r = backend->ops->node_list(backend, updating->walk.snapshot, 0, false, note_seen,
					    updating);
	return r < 0 ? r : drop_found(updating, TEXT_KEY_UNSEEN);
}

/* ---- All of it ---- */

static int look(struct walk *walk)
{
	struct updating *updating = (struct updating *)walk;
	struct backend *backend = walk->backend;
	int r;

	updating->seen = 0;
	r = drop_found(updating, TEXT_KEY_LOOSE);
	if (r == 0)
		r = walk_changes(walk);
	if (r == 0)
		r = backend->ops->node_list(backend, walk->snapshot, 0, false, on_node, updating);
	if (r == 0 && walk->late)
		return 1;
	if (r == 0)
		r = forget_gone(updating);
	return r < 0 ? r : read_all_loose(updating);
}

/* Words of what is gone are taken away by making all of it anew. */
static int judge_dead(struct index *index)
{
	return index->dead > index->alive + DEAD_MOST ? index_anew(index) : 0;
}

int search_update(struct index *index, struct backend *backend, struct progress *progress)
{
	struct updating updating = { .walk = { .index = index, .backend = backend, .look = look },
				     .progress = progress };
	int r = judge_dead(index);

	if (r == 0)
		r = walk_bring_up(&updating.walk);
	buf_done(&updating.said);
	buf_done(&updating.role);
	buf_done(&updating.agent);
	return r == -EUCLEAN ? -EIO : r;
}
