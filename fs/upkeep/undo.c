/* SPDX-License-Identifier: MIT */

/* Rows go back to where they were, or to another key, or for good (fs/api/history.h). */

#include "fs/api/history.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/base/batch.h"
#include "fs/base/names.h"
#include "fs/upkeep/session-keys.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"

/* So long an undo is tried again, when something changes what it puts back. */
static const int64_t PATIENCE = 10 * INT64_C(1000000000);

/* ---- Putting back ---- */

struct undoing {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	struct as_of as_of;
	struct batch *batch;
	struct history_undone undone;
	struct bytes session;
	struct bytes key;
};

static struct backend_op *add_op(struct undoing *undoing, enum backend_op_type type, int64_t at,
				 int64_t to)
{
	return BATCH_PUT(undoing->batch, type, .session = undoing->session, .key = undoing->key,
			 .session_to = undoing->session, .key_to = undoing->key, .at = at,
			 .to = to);
}

static int64_t run_end(const struct as_of *as_of, size_t i)
{
	return i + 1 < as_of->count ? as_of->run[i + 1].index - 1 : INT64_MAX;
}

/* Where the last row of a run is now. */
static int64_t run_end_now(const struct as_of *as_of, size_t i)
{
	const struct as_of_run *run = &as_of->run[i];
	int64_t end =
		(int64_t)((uint64_t)run->at + (uint64_t)run_end(as_of, i) - (uint64_t)run->index);

	return end < run->at ? INT64_MAX : end;
}

/* The run that a row of now is in. */
static bool stays(const struct as_of *as_of, int64_t index, int64_t created)
{
	if (created > as_of->time && created <= as_of->now)
		return false;
	for (size_t i = 0; i < as_of->count; i++)
		if (as_of->run[i].where == RUN_ROWS && index >= as_of->run[i].at &&
		    index <= run_end_now(as_of, i))
			return true;
	return false;
}

static int count_now(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct undoing *undoing = arg;

	(void)data;
	undoing->undone.removed += !stays(&undoing->as_of, index, times.created);
	return 0;
}

static int count_past(void *arg, int64_t n, struct backend_times times, struct bytes data)
{
	struct undoing *undoing = arg;

	(void)n;
	(void)data;
	undoing->undone.restored += times.created <= undoing->as_of.time;
	return 0;
}

/* What is not there then goes; what is, goes to its place. */
static void emit_now(struct undoing *undoing)
{
	const struct as_of *as_of = &undoing->as_of;
	struct backend_op *op = add_op(undoing, BACKEND_ROW_DELETE, INT64_MIN, INT64_MAX);
	int64_t next = INT64_MIN, moved = 0;
	bool more = true;

	if (op)
		op->created = as_of->time;
	for (size_t i = 0; i < as_of->count && more; i++) {
		if (as_of->run[i].where != RUN_ROWS)
			continue;
		if (as_of->run[i].at > next)
			add_op(undoing, BACKEND_ROW_DELETE, next, as_of->run[i].at - 1);
		more = run_end_now(as_of, i) < INT64_MAX;
		next = run_end_now(as_of, i) + more;
	}
	if (more)
		add_op(undoing, BACKEND_ROW_DELETE, next, INT64_MAX);
	for (size_t i = 0; i < as_of->count; i++) {
		const struct as_of_run *run = &as_of->run[i];
		int64_t by;

		if (run->where != RUN_ROWS)
			continue;
		by = (int64_t)((uint64_t)run->index - (uint64_t)run->at) - moved;
		if (by)
			add_op(undoing, BACKEND_ROWS_SHIFT, run->at + moved, by);
		moved += by;
	}
}

static void emit_past(struct undoing *undoing)
{
	const struct as_of *as_of = &undoing->as_of;

	for (size_t i = 0; i < as_of->count; i++) {
		const struct as_of_run *run = &as_of->run[i];
		struct backend_op *op;

		if (run->where != RUN_PAST)
			continue;
		op = add_op(undoing, BACKEND_PAST_COPY, run->at, run_end_now(as_of, i));
		if (!op)
			return;
		op->seq = run->index;
		op->created = as_of->time;
		op->version = batch_version_above_all();
	}
}

static int count_rows(struct undoing *undoing)
{
	const struct as_of *as_of = &undoing->as_of;
	int r = backend_row_read_times(undoing->backend, undoing->snapshot, undoing->session,
				       undoing->key, INT64_MIN, false, UINT64_MAX, count_now,
				       undoing);

	for (size_t i = 0; r == 0 && i < as_of->count; i++)
		if (as_of->run[i].where == RUN_PAST)
			r = backend_past_read(undoing->backend, undoing->snapshot, &as_of->key,
					      as_of->run[i].at, run_end_now(as_of, i), false,
					      count_past, undoing);
	return r;
}

static bool moves(const struct as_of *as_of)
{
	for (size_t i = 0; i < as_of->count; i++)
		if (as_of->run[i].where == RUN_ROWS && as_of->run[i].index != as_of->run[i].at)
			return true;
	return false;
}

/* 1: the key changes. */
static int undo_key(struct undoing *undoing, int64_t time)
{
	const struct backend_past_key key = { 0, undoing->session, undoing->key };
	struct backend_op *op;
	int r = as_of_find(undoing->backend, undoing->snapshot, &key, time, &undoing->as_of);

	undoing->undone = (struct history_undone){ .key = undoing->key };
	if (r == 0)
		r = count_rows(undoing);
	undoing->undone.time = undoing->as_of.time;
	if (r < 0 ||
	    (!undoing->undone.removed && !undoing->undone.restored && !moves(&undoing->as_of)))
		return r;
	batch_guard_past(undoing->batch, &undoing->as_of);
	emit_now(undoing);
	emit_past(undoing);
	op = add_op(undoing, BACKEND_PAST_NOTE, time, 0);
	if (op)
		op->parent = PAST_UNDONE;
	return undoing->batch->error < 0 ? undoing->batch->error : 1;
}

struct undone_list {
	struct history_undone *item;
	size_t count;
	size_t room;
};

static int undo_once(struct undoing *undoing, struct session_keys *keys, struct bytes key,
		     int64_t time, bool dry_run, struct undone_list *undone)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend *backend = undoing->backend;
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &undoing->snapshot);

	if (r < 0)
		return r;
	undoing->batch = &batch;
	r = session_keys_find(backend, undoing->snapshot, undoing->session, key, keys);
	for (size_t i = 0; r == 0 && i < keys->count; i++) {
		undoing->key = keys->item[i].key;
		r = undo_key(undoing, time);
		as_of_done(&undoing->as_of);
		if (r <= 0)
			continue;
		r = ARRAY_ROOM(undone->item, undone->count, undone->room);
		if (r == 0)
			undone->item[undone->count++] = undoing->undone;
	}
	backend->ops->snapshot_end(backend, undoing->snapshot);
	if (r == 0 && !undone->count)
		r = -ENODATA;
	return r < 0 || dry_run ? r : batch_commit(&batch, backend, BACKEND_ANYWAY);
}

int history_undo(struct backend *backend, struct bytes session, struct bytes key, int64_t time,
		 bool dry_run, history_undone_fn *fn, void *arg)
{
	const int64_t end = tick_now() + PATIENCE;
	struct undoing undoing = { .backend = backend, .session = session };
	struct undone_list undone = { 0 };
	struct session_keys keys = { 0 };
	int r;

	/* What somebody changes in between, or thins, is looked at again. */
	do {
		session_keys_done(&keys);
		keys = (struct session_keys){ 0 };
		undone.count = 0;
		r = undo_once(&undoing, &keys, key, time, dry_run, &undone);
	} while (r == -ESTALE && tick_now() < end);
	for (size_t i = 0; r == 0 && i < undone.count; i++)
		r = fn(arg, &undone.item[i]);
	session_keys_done(&keys);
	free(undone.item);
	return r == -ESTALE ? -EBUSY : r;
}

/* ---- Another key ---- */

struct copying {
	int64_t first;
	int64_t last;
	uint64_t rows;
};

static int count_copied(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct copying *copying = arg;

	(void)times;
	(void)data;
	if (index > copying->last)
		return 1;
	copying->rows++;
	return 0;
}

int history_copy(struct backend *backend, struct backend_snapshot *snapshot,
		 const struct history_fork *fork, const struct backend_node *from,
		 const struct backend_node *to, struct batch *batch, uint64_t *ret_rows)
{
	const bool list = from->kind == BACKEND_LIST;
	const int64_t first = list ? fork->first : INT64_MIN, last = list ? fork->last : INT64_MAX;
	const struct backend_past_key key = { 0, from->session, from->key };
	struct copying copying = { .first = first, .last = last };
	const int64_t by = first > INT64_MIN ? -first : 0;
	struct backend_op *op;
	struct as_of as_of;
	int r = as_of_find(backend, snapshot, &key, fork->time, &as_of);

	if (r < 0)
		return r;
	batch_past_none(batch, to->session, to->key);
	if (as_of.records)
		batch_guard_past(batch, &as_of);
	for (size_t i = 0; i < as_of.count; i++) {
		const struct as_of_run *run = &as_of.run[i];
		const int64_t begin = MAX(run->index, first), end = MIN(run_end(&as_of, i), last);
		const int64_t at =
			(int64_t)((uint64_t)run->at + (uint64_t)begin - (uint64_t)run->index);

		if (run->where == RUN_NONE || begin > end)
			continue;
		op = BATCH_PUT(batch,
			       run->where == RUN_PAST ? BACKEND_PAST_COPY : BACKEND_ROWS_COPY,
			       .session = from->session, .key = from->key,
			       .session_to = to->session, .key_to = to->key, .at = at,
			       .created = fork->time == INT64_MAX ? 0 : as_of.time, .version = 1);
		if (!op)
			break;
		if (fork->rewrites) {
			op->name = fork->part;
			op->data = fork->part_to;
		}
		op->to = end == INT64_MAX ?
				 INT64_MAX :
				 (int64_t)((uint64_t)at + (uint64_t)end - (uint64_t)begin);
		op->seq = run->where == RUN_PAST ? begin + by : begin - at + by;
		if (run->where == RUN_ROWS && begin == INT64_MIN)
			op->seq = by;
	}
	r = batch->error;
	if (r == 0)
		r = as_of_read(backend, snapshot, &as_of, first, false, count_copied, &copying);
	as_of_done(&as_of);
	*ret_rows = copying.rows;
	return r;
}

/* ---- For good ---- */

static void forget_key(struct undoing *undoing, int64_t first, int64_t last)
{
	const bool some = first > INT64_MIN || last < INT64_MAX;

	add_op(undoing, BACKEND_ROW_DELETE, first, last);
	if (some && last < INT64_MAX)
		add_op(undoing, BACKEND_ROWS_SHIFT, last + 1, first - last - 1);
	add_op(undoing, BACKEND_PAST_FORGET, INT64_MAX, 0);
}

int history_forget(struct backend *backend, struct bytes session, struct bytes key, int64_t first,
		   int64_t last)
{
	_cleanup_(session_keys_done) struct session_keys keys = { 0 };
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct undoing undoing = { .backend = backend, .session = session, .batch = &batch };
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &undoing.snapshot);

	if (r < 0)
		return r;
	r = session_keys_find(backend, undoing.snapshot, session, key, &keys);
	backend->ops->snapshot_end(backend, undoing.snapshot);
	for (size_t i = 0; r == 0 && i < keys.count; i++) {
		undoing.key = keys.item[i].key;
		forget_key(&undoing, first, last);
	}
	if (r == 0 && !keys.count)
		r = -ENOENT;
	backend->forgets = true;
	return r < 0 ? r : batch_commit(&batch, backend, BACKEND_ANYWAY | BACKEND_FREES);
}
