/* SPDX-License-Identifier: MIT */
/* Scans of a store that has none of its own: by its other reads. */
#include "backend/defaults.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/days.h"

struct sizing {
	backend_chunk_size_fn *fn;
	void *arg;
};

static int on_chunk(void *arg, int64_t chunk, struct bytes data)
{
	const struct sizing *sizing = arg;

	return sizing->fn(sizing->arg, chunk, data.size);
}

static int chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg)
{
	struct sizing sizing = { fn, arg };

	return backend->ops->chunk_read(backend, snapshot, ino, first, last, on_chunk, &sizing);
}

struct timing {
	uint64_t left;
	backend_row_time_fn *fn;
	void *arg;
};

static int on_row(void *arg, int64_t index, struct bytes data)
{
	struct timing *timing = arg;
	int r = timing->fn(timing->arg, index, (struct backend_times){ 0 }, data);

	return r != 0 ? r : --timing->left == 0;
}

static int row_read_times(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, int64_t from, bool back,
			  uint64_t most, backend_row_time_fn *fn, void *arg)
{
	struct timing timing = { most, fn, arg };

	if (!most)
		return 0;
	return back ? backend->ops->row_read_back(backend, snapshot, session, key, from, most,
						  on_row, &timing) :
		      backend->ops->row_read(backend, snapshot, session, key, from, on_row,
					     &timing);
}

/* ---- What the rows of keys come to ---- */

enum { SUM_TRIES = 20 };

struct summing {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	struct backend_session_stat stat;
	struct buf session; /* of which the rows are */
	/* Directories of sessions, in the order of their ids; those before next are told. */
	struct backend_node *dirs;
	size_t count, room, next;
	struct backend_days days;
	backend_session_fn *fn;
	void *arg;
	bool stopped;
};

static int sum_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct summing *summing = arg;
	struct backend_session_stat *stat = &summing->stat;

	(void)index;
	stat->created = stat->items ? MIN(stat->created, times.created) : times.created;
	stat->updated = MAX(stat->updated, times.updated);
	stat->items++;
	stat->bytes += data.size;
	return backend_days_add(&summing->days, times.created, data.size);
}

static int sum_key(void *arg, struct bytes session, struct bytes key,
		   const struct backend_key_stat *stat)
{
	struct summing *summing = arg;
	struct backend_session_stat before;
	int r = -ESTALE;

	(void)stat;
	summing->stat.keys++;
	before = summing->stat;
	/* Rows that were replaced meanwhile are read again (BACKEND_LATEST); a store that says so
	 * has no times of rows, so no day has counted them. */
	for (int tries = 0; r == -ESTALE && tries < SUM_TRIES; tries++) {
		summing->stat = before;
		r = backend_row_read_times(summing->backend, summing->snapshot, session, key,
					   INT64_MIN, false, UINT64_MAX, sum_row, summing);
	}
	return r;
}

static int summing_tell(struct summing *summing, struct bytes session,
			const struct backend_session_stat *stat)
{
	int r = summing->stopped ? 1 : summing->fn(summing->arg, session, stat);

	summing->stopped |= r > 0;
	return r;
}

/* The session of the rows so far, and the directories before another one (data NULL: all). */
static int tell_before(struct summing *summing, struct bytes session)
{
	const struct bytes known = buf_given(&summing->session);
	int r = summing->stat.keys ? summing_tell(summing, known, &summing->stat) : 0;

	for (; r == 0 && summing->next < summing->count; summing->next++) {
		const struct backend_node *dir = &summing->dirs[summing->next];
		const struct backend_session_stat empty = { .updated = dir->mtime };

		if (session.data && bytes_compare(dir->session, session) >= 0)
			break;
		if (!summing->stat.keys || !bytes_equal(dir->session, known))
			r = summing_tell(summing, dir->session, &empty);
	}
	summing->stat = (struct backend_session_stat){ 0 };
	buf_clear(&summing->session);
	return r;
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	struct summing *summing = arg;
	int r = 0;

	if (!summing->stat.keys || !bytes_equal(buf_bytes(&summing->session), session)) {
		r = tell_before(summing, session);
		if (r == 0)
			r = buf_append_bytes(&summing->session, session);
	}
	return r != 0 ? r : sum_key(summing, session, key, stat);
}

static int on_node(void *arg, const struct backend_node *node)
{
	struct summing *summing = arg;

	if (node->kind != BACKEND_SESSION || !node->nlink || !node->session.data)
		return 0;
	if (ARRAY_ROOM(summing->dirs, summing->count, summing->room) < 0)
		return -ENOMEM;
	return backend_node_copy(node, &summing->dirs[summing->count++]);
}

static int compare(const void *a, const void *b)
{
	const struct backend_node *one = a, *other = b;

	return bytes_compare(one->session, other->session);
}

static int session_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_session_fn *fn, void *arg)
{
	struct summing summing = { .backend = backend, .snapshot = snapshot, .fn = fn, .arg = arg };
	const struct bytes none = { 0 };
	int r = backend->ops->node_list(backend, snapshot, 0, false, on_node, &summing);

	if (r == 0 && summing.count)
		qsort(summing.dirs, summing.count, sizeof(*summing.dirs), compare);
	if (r == 0)
		r = backend->ops->key_list(backend, snapshot, none, none, on_key, &summing);
	if (r == 0)
		r = tell_before(&summing, none);
	for (size_t i = 0; i < summing.count; i++)
		backend_node_done(&summing.dirs[i]);
	free(summing.dirs);
	backend_days_done(&summing.days);
	buf_done(&summing.session);
	return MIN(r, 0);
}

static int session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat)
{
	struct summing summing = { .backend = backend, .snapshot = snapshot };
	int r = backend_session_keys(backend, snapshot, session, (struct bytes){ 0 }, sum_key,
				     &summing);

	backend_days_done(&summing.days);
	if (r == 0)
		*ret_stat = summing.stat;
	return r < 0 ? r : summing.stat.keys ? 0 : -ENOENT;
}

static int day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		    void *arg)
{
	struct summing summing = { .backend = backend, .snapshot = snapshot };
	const struct bytes none = { 0 };
	int r = backend->ops->key_list(backend, snapshot, none, none, sum_key, &summing);

	if (r == 0)
		r = backend_days_tell(&summing.days, fn, arg);
	backend_days_done(&summing.days);
	return r;
}

const struct backend_scans default_scans = {
	.chunk_list = chunk_list,
	.row_read_times = row_read_times,
	.session_list = session_list,
	.session_stat = session_stat,
	.day_list = day_list,
};
