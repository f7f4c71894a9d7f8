/* SPDX-License-Identifier: MIT */
/*
 * What has changed since the index was brought up to date (walk.h).  An update reads all nodes, and
 * of each list the index of its last row.
 */
#include <errno.h>
#include <string.h>

#include "fs/api/text.h"
#include "fs/api/trash.h"
#include "fs/base/packed.h"
#include "backend/base/log.h"
#include "src/search/search.h"
#include "src/search/walk.h"
#include "src/user/stop.h"

enum { DEAD_MOST = 20000 }; /* more dead items than alive ones that the index may have */

struct updating {
	struct walk walk;
	struct index *index;
	uint64_t layout;
	struct progress *progress;
	int64_t seen; /* files that the index knows */
	/* Of the key that is read. */
	int64_t key;
	struct buf said, role, agent;
};

/* ---- One item ---- */

static int add_item(struct updating *updating, int64_t item, int64_t made)
{
	struct index *index = updating->index;
	/* Numbers only rise: the words of removed items stay in the index. */
	const int64_t id = index->dead + ++index->alive;
	const struct rows_value words = rows_string(buf_bytes(&updating->said));
	const struct rows_value none = rows_string(BYTES(""));
	const bool talk = !bytes_starts_with(buf_bytes(&updating->role), BYTES(SEARCH_NO_TALK));
	int r = ROWS_ASK(&index->rows, INDEX_ITEM_ADD, rows_number(id), rows_number(updating->key),
			 rows_number(item), rows_number(made),
			 rows_string(buf_bytes(&updating->role)));

	return r < 0 ? r :
		       ROWS_ASK(&index->rows, INDEX_SAID_ADD, rows_number(id), talk ? words : none,
				talk ? none : words);
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
	/* What is not talk is found only if it is asked for. */
	if (r == 0)
		r = buf_append_str(&updating->role, SEARCH_NO_TALK);
	if (r == 0)
		r = text_made_by(data, index, &updating->role, &updating->agent);
	if (r > 0)
		buf_consume(&updating->role, strlen(SEARCH_NO_TALK));
	return r < 0 ? r : add_item(updating, index, text_time(data, times.created));
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
	const enum index_text text = INDEX_KEY_BY_INO;
	struct index *index = updating->index;
	int r = ROWS_ASK(&index->rows, text, rows_number((int64_t)node->ino));

	*known = (struct known){ 0 };
	if (r <= 0)
		return r;
	known->id = rows_column(&index->rows, text, 0);
	known->same = bytes_equal(rows_column_bytes(&index->rows, text, 1), node->session) &&
		      bytes_equal(rows_column_bytes(&index->rows, text, 2), node->key) &&
		      rows_column(&index->rows, text, 3) == (int64_t)node->kind &&
		      rows_column(&index->rows, text, 4) == (int64_t)node->generation;
	known->rows = sqlite3_column_type(index->rows.statements[text], 5) != SQLITE_NULL;
	known->last = rows_column(&index->rows, text, 5);
	known->created = rows_column(&index->rows, text, 6);
	known->updated = rows_column(&index->rows, text, 7);
	return 0;
}

static int drop_key(struct updating *updating, int64_t id)
{
	struct index *index = updating->index;
	int r = ROWS_ASK(&index->rows, INDEX_ITEM_DROP, rows_number(id));

	if (r < 0)
		return r;
	index->dead += sqlite3_changes(index->rows.db);
	index->alive -= sqlite3_changes(index->rows.db);
	return ROWS_ASK(&index->rows, INDEX_KEY_DROP, rows_number(id));
}

/* ino 0: there is no file. */
static int add_key(struct updating *updating, uint64_t ino, struct bytes session, struct bytes key,
		   uint32_t kind)
{
	const struct rows_value none = { .type = SQLITE_NULL };
	int r = ROWS_ASK(&updating->index->rows, INDEX_KEY_ADD,
			 ino ? rows_number((int64_t)ino) : none, rows_blob(session), rows_blob(key),
			 rows_number(kind));

	updating->key = sqlite3_last_insert_rowid(updating->index->rows.db);
	return r;
}

static int set_key(struct updating *updating, int64_t generation,
		   const struct backend_key_stat *stat)
{
	const struct rows_value none = { .type = SQLITE_NULL };

	return ROWS_ASK(&updating->index->rows, INDEX_KEY_SET, rows_number(updating->key),
			rows_number(generation), stat ? rows_number(stat->last) : none,
			stat ? rows_number(stat->created) : none,
			stat ? rows_number(stat->updated) : none);
}

/* Read the rows of a key from an index on. */
static int read_key(struct updating *updating, struct bytes session, struct bytes key, int64_t from,
		    int64_t generation)
{
	struct backend *backend = updating->walk.backend;
	struct backend_key_stat stat = { 0 };
	int r = backend->ops->key_stat(backend, updating->walk.snapshot, session, key, &stat);

	if (r == -ENOENT)
		return set_key(updating, generation, NULL);
	if (r == 0)
		r = backend_row_read_times(backend, updating->walk.snapshot, session, key, from,
					   false, UINT64_MAX, on_row, updating);
	/* What was replaced meanwhile is read the next time. */
	if (r == -ESTALE)
		return set_key(updating, -1, NULL);
	return r < 0 && r != -ENOENT ? r : set_key(updating, generation, &stat);
}

/* 1: the last row has changed.  *ret_adds: and it has another number, so the list has grown. */
static int has_grown(struct updating *updating, const struct backend_node *node,
		     const struct known *known, bool *ret_adds)
{
	struct backend *backend = updating->walk.backend;
	struct backend_key_stat stat;
	int r;

	*ret_adds = false;
	if (node->kind != BACKEND_LIST)
		return 0;
	r = backend->ops->key_stat(backend, updating->walk.snapshot, node->session, node->key,
				   &stat);
	if (r < 0)
		return r == -ENOENT ? known->rows : r;
	*ret_adds = known->rows && stat.last > known->last;
	return !known->rows || stat.last != known->last || stat.created != known->created ||
	       stat.updated != known->updated;
}

static int on_line(void *arg, int64_t index, struct bytes line)
{
	return on_row(arg, index, (struct backend_times){ 0 }, line);
}

/* What cannot be read is passed over until it changes. */
static int read_packed(struct updating *updating, const struct backend_node *node)
{
	int r = packed_read(updating->walk.backend, updating->walk.snapshot, node, on_line,
			    updating);

	if (r == -EBADMSG || r == -EOPNOTSUPP) {
		log_warning("a packed transcript of session %.*s cannot be read to its end: %s",
			    (int)node->session.size, node->session.data,
			    r == -EBADMSG ? "it is damaged" : "this build has no libzstd");
		r = 0;
	}
	return r < 0 ? r : set_key(updating, (int64_t)node->generation, NULL);
}

/* Of interest, or packed.  waits: a change of another program does. */
static int update_file(struct updating *updating, const struct backend_node *node, bool waits)
{
	struct known known;
	bool adds = false;
	int r = stop_wanted() ? -EINTR : find_known(updating, node, &known);

	if (r == 0 && known.same && !waits) {
		r = has_grown(updating, node, &known, &adds);
		if (r <= 0) {
			updating->seen += r == 0;
			return r;
		}
		r = 0;
	}
	if (r < 0)
		return r;
	if (walk_is_late(&updating->walk))
		return 1;
	updating->key = known.id;
	if (known.id && !adds)
		r = drop_key(updating, known.id);
	/* Until all of it is read, the key has the generation -1, so that after an interruption it
	 * is read anew. */
	if (r == 0 && adds)
		r = set_key(updating, -1, NULL);
	else if (r == 0)
		r = add_key(updating, node->ino, node->session, node->key, node->kind);
	if (r == 0 && node->kind == BACKEND_ORDINARY)
		r = read_packed(updating, node);
	else if (r == 0)
		r = read_key(updating, node->session, node->key, adds ? known.last + 1 : INT64_MIN,
			     waits ? -1 : (int64_t)node->generation);
	updating->seen += r == 0;
	return r;
}

static bool is_of_interest(const struct backend_node *node)
{
	return node->session.data && node->key.data && node->nlink &&
	       (node->kind == BACKEND_SINGLE || node->kind == BACKEND_LIST);
}

static int on_node(void *arg, const struct backend_node *node)
{
	struct updating *updating = arg;

	return !is_of_interest(node) ?
		       0 :
		       update_file(updating, node,
				   walk_is_waiting(&updating->walk, node->session, node->key));
}

static int on_packed(void *arg, struct bytes path, const struct backend_node *node)
{
	(void)path;
	return update_file(arg, node, false);
}

/* ---- What other programs have changed ---- */

static int read_loose(struct updating *updating, struct bytes session, struct bytes key, bool list)
{
	int r;

	if (bytes_ends_with(key, BYTES(":_hash")))
		return 0;
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
		struct backend_key_stat stat;

		if (waiting->seen)
			continue;
		r = backend->ops->key_stat(backend, updating->walk.snapshot, waiting->session,
					   waiting->key, &stat);
		r = r == 0 ? read_loose(updating, waiting->session, waiting->key, stat.last > 0) :
		    r == -ENOENT ? 0 :
				   r;
	}
	return r;
}

/* ---- Removed files ---- */

/* Drop the keys that a statement finds. */
static int drop_found(struct updating *updating, enum index_text text)
{
	int r;

	while ((r = rows_ask(&updating->index->rows, text, NULL)) > 0) {
		r = drop_key(updating, rows_column(&updating->index->rows, text, 0));
		if (r < 0)
			break;
	}
	return r;
}

static int note_seen(void *arg, const struct backend_node *node)
{
	struct updating *updating = arg;

	return is_of_interest(node) ? ROWS_ASK(&updating->index->rows, INDEX_SEEN_ADD,
					       rows_number((int64_t)node->ino)) :
				      0;
}

static int note_packed(void *arg, struct bytes path, const struct backend_node *node)
{
	struct updating *updating = arg;

	(void)path;
	return ROWS_ASK(&updating->index->rows, INDEX_SEEN_ADD, rows_number((int64_t)node->ino));
}

/* The index knows more files than were seen. */
static int forget_gone(struct updating *updating)
{
	struct backend *backend = updating->walk.backend;
	struct index *index = updating->index;
	int r = rows_ask(&index->rows, INDEX_KEY_COUNT, NULL);

	if (r < 0 || rows_column(&index->rows, INDEX_KEY_COUNT, 0) == updating->seen)
		return r;
	r = rows_exec(&index->rows,
		      "CREATE TEMP TABLE IF NOT EXISTS seen (ino INTEGER PRIMARY KEY); "
		      "DELETE FROM temp.seen");
	if (r == 0)
		r = backend->ops->node_list(backend, updating->walk.snapshot, 0, false, note_seen,
					    updating);
	if (r == 0)
		r = packed_list(backend, updating->walk.snapshot, updating->layout, note_packed,
				updating);
	return r < 0 ? r : drop_found(updating, INDEX_KEY_UNSEEN);
}

/* ---- All of it ---- */

static int update_look(struct walk *walk)
{
	struct updating *updating = (struct updating *)walk;
	struct backend *backend = walk->backend;
	int r;

	updating->seen = 0;
	r = drop_found(updating, INDEX_KEY_LOOSE);
	if (r == 0)
		r = walk_changes(walk);
	if (r == 0)
		r = backend->ops->node_list(backend, walk->snapshot, 0, false, on_node, updating);
	if (r == 0 && !walk->late)
		r = packed_list(backend, walk->snapshot, updating->layout, on_packed, updating);
	if (r == 0 && walk->late)
		return 1;
	if (r == 0)
		r = forget_gone(updating);
	return r < 0 ? r : read_all_loose(updating);
}

int search_update(struct index *index, struct backend *backend, uint64_t layout,
		  struct progress *progress)
{
	struct updating updating = { .walk = { .backend = backend, .look = update_look },
				     .index = index,
				     .layout = layout,
				     .progress = progress };
	/* Words of removed items go only when the whole index is made anew. */
	int r = index->dead > index->alive + DEAD_MOST ? index_anew(index) : 0;

	if (r == 0)
		r = walk_bring_up(&updating.walk);
	if (r == 0) {
		index->backend = backend;
		index->snapshot = updating.walk.snapshot;
	}
	/* After a signal, what was read so far need not be read again. */
	if (r == -EINTR)
		(void)index_commit(index);
	else if (r == 0)
		r = index_commit(index);
	buf_done(&updating.said);
	buf_done(&updating.role);
	buf_done(&updating.agent);
	return r;
}
