/* SPDX-License-Identifier: MIT */
/* Which sessions and keys there are, and what their rows come to. */
#include <errno.h>

#include "backend/days.h"
#include "backend/memory/internal.h"
#include "backend/memory/walk.h"
#include "backend/base/cleanup.h"

/* The bytes of a buffer, of which an empty one may have none. */
static struct bytes present(const struct buf *buf)
{
	return bytes_make(buf->data ? buf->data : "", buf->size);
}

int memory_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		    void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };
	bool first = !after_session.data;
	struct backend_key_stat stat;
	int r = 0;

	if (!first)
		r = buf_append_bytes(&session, after_session);
	if (!first && r == 0)
		r = buf_append_bytes(&key, after_key);
	while (r == 0) {
		struct walk walk = walk_in(snapshot->map, key_make(KEY_ROW));
		bool found;

		/* Behind the last row of the key before. */
		if (!first) {
			key_add_text(&walk.key, buf_bytes(&session));
			key_add_text(&walk.key, buf_bytes(&key));
			key_add_number(&walk.key, INT64_MAX);
			walk.behind = true;
		}
		found = walk_next(&walk);
		buf_clear(&session);
		buf_clear(&key);
		if (found)
			walk.r = key_take_text(&walk.rest, &session);
		if (found && walk.r == 0)
			walk.r = key_take_text(&walk.rest, &key);
		r = walk_end(&walk);
		if (r < 0 || !found)
			return r;
		r = memory_key_stat(backend, snapshot, present(&session), present(&key), &stat);
		if (r == 0)
			r = fn(arg, present(&session), present(&key), &stat);
		first = false;
	}
	return MIN(r, 0);
}

/* The first session behind another one (NULL: of all) that a table has: 1, or 0 without one. */
static int next_session(struct map *map, enum key_table table, const struct buf *after,
			struct buf *session)
{
	struct walk walk = walk_in(map, key_make(table));
	bool found;
	int r;

	walk.behind = true;
	if (after)
		key_add_text(&walk.key, present(after));
	/* Behind all that begins with this text, before any that it is the beginning of. */
	if (after && !walk.key.error)
		walk.key.buf.data[walk.key.buf.size - 1] = 1;
	found = walk_next(&walk);
	if (found) {
		buf_clear(session);
		walk.r = key_take_text(&walk.rest, session);
	}
	r = walk_end(&walk);
	return r < 0 ? r : found;
}

/* All rows of a session; -ENOENT when there are none. */
static int add_session(struct map *map, struct bytes session, struct backend_session_stat *stat)
{
	_cleanup_(buf_done) struct buf key = { 0 }, last = { 0 };
	struct key prefix = key_make(KEY_ROW);
	struct memory_row row;
	struct walk walk;
	int r;

	key_add_text(&prefix, session);
	walk = walk_in(map, prefix);
	while (walk_next(&walk)) {
		buf_clear(&key);
		walk.r = key_take_text(&walk.rest, &key);
		if (walk.r == 0 &&
		    (!stat->items || !bytes_equal(buf_bytes(&key), buf_bytes(&last)))) {
			stat->keys++;
			buf_clear(&last);
			walk.r = buf_append_bytes(&last, buf_bytes(&key));
		}
		memcpy(&row, walk.entry->value.data, sizeof(row));
		stat->created = stat->items ? MIN(stat->created, row.created) : row.created;
		stat->updated = MAX(stat->updated, row.updated);
		stat->items++;
		stat->bytes += walk.entry->value.size - sizeof(row);
	}
	r = walk_end(&walk);
	return r < 0 ? r : stat->items ? 0 : -ENOENT;
}

static int stat_session(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat)
{
	struct backend_session_stat stat = { 0 };
	struct backend_node node;
	int r = add_session(snapshot->map, session, &stat);

	if (r == -ENOENT) {
		r = memory_node_find(backend, snapshot, session, (struct bytes){ 0 }, &node);
		if (r == 0) {
			stat.updated = node.mtime;
			backend_node_done(&node);
		}
	}
	if (r == 0)
		*ret_stat = stat;
	return r;
}

int memory_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat)
{
	struct backend_session_stat stat = { 0 };
	int r = add_session(snapshot->map, session, &stat);

	(void)backend;
	if (r == 0)
		*ret_stat = stat;
	return r;
}

/* The next session that either table has. */
static int next_of_both(struct map *map, const struct buf *after, struct buf *session)
{
	_cleanup_(buf_done) struct buf named = { 0 };
	int rows = next_session(map, KEY_ROW, after, session);
	int r = rows < 0 ? rows : next_session(map, KEY_SESSION, after, &named);

	if (r < 0)
		return r;
	if (r > 0 && (!rows || bytes_compare(buf_bytes(&named), buf_bytes(session)) < 0)) {
		struct buf swapped = *session;

		*session = named;
		named = swapped;
	}
	return rows || r;
}

int memory_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_session_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, next = { 0 };
	struct backend_session_stat stat;
	int r = next_of_both(snapshot->map, NULL, &next);

	while (r > 0) {
		struct buf swapped = session;

		session = next;
		next = swapped;
		r = stat_session(backend, snapshot, present(&session), &stat);
		if (r == 0)
			r = fn(arg, present(&session), &stat);
		if (r)
			return MIN(r, 0);
		r = next_of_both(snapshot->map, &session, &next);
	}
	return r;
}

int memory_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		    void *arg)
{
	_cleanup_(backend_days_done) struct backend_days days = { 0 };
	struct walk walk = walk_in(snapshot->map, key_make(KEY_ROW));
	struct memory_row row;
	int r;

	(void)backend;
	while (walk_next(&walk)) {
		struct bytes value = walk.entry->value;

		memcpy(&row, value.data, sizeof(row));
		walk.r = backend_days_add(&days, row.created, value.size - sizeof(row));
	}
	r = walk_end(&walk);
	return r < 0 ? r : backend_days_tell(&days, fn, arg);
}
