/* SPDX-License-Identifier: MIT */
#include "src/exchange/transfer.h"

#include <errno.h>
#include <inttypes.h>

#include "fs/api/settings.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/telling.h"

/* ---- What is in a store that goes ---- */

static int forget_entry(void *arg, const struct backend_entry *entry,
			const struct backend_node *node)
{
	struct telling *telling = arg;

	(void)node;
	batch_entry_delete(&telling->batch, entry->parent, entry->id);
	return telling_told(telling, 0);
}

static int forget_xattr(void *arg, struct bytes name)
{
	struct telling *telling = arg;

	batch_xattr_delete(&telling->batch, BACKEND_ROOT, telling_keep(telling, name));
	return telling_told(telling, 0);
}

static int forget_node(void *arg, const struct backend_node *node)
{
	struct telling *telling = arg;
	int r = 0;

	if (S_ISDIR(node->mode))
		r = ASK(telling, entry_list, node->ino, 0, forget_entry, telling);
	if (r < 0)
		return r;
	if (node->ino == BACKEND_ROOT)
		return ASK(telling, xattr_list, node->ino, forget_xattr, telling);
	batch_hidden_delete(&telling->batch, node->ino, INT64_MIN);
	batch_node_delete(&telling->batch, node->ino);
	return telling_told(telling, 0);
}

static int forget_key(void *arg, struct bytes session, struct bytes key,
		      const struct backend_key_stat *stat)
{
	struct telling *telling = arg;

	(void)stat;
	batch_row_delete(&telling->batch, telling_keep(telling, session),
			 telling_keep(telling, key), INT64_MIN, INT64_MAX);
	return telling_told(telling, 0);
}

static int forget_setting(void *arg, struct bytes name, struct bytes data)
{
	struct telling *telling = arg;

	(void)data;
	if (bytes_equal(name, BYTES("table")) || bytes_equal(name, bytes_str(setting_incomplete)))
		return 0;
	BATCH_PUT(&telling->batch, BACKEND_SETTING, .name = telling_keep(telling, name));
	return telling_told(telling, 0);
}

static int clear_store(const struct transfer *transfer, struct backend *backend)
{
	_cleanup_(telling_end) struct telling telling = { .transfer = transfer,
							  .from = backend,
							  .to = backend };
	const struct bytes none = { 0 };
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY | BACKEND_BEGUN,
					     &telling.snapshot);

	if (r == 0)
		r = ASK(&telling, setting_list, forget_setting, &telling);
	if (r == 0)
		r = ASK(&telling, entry_list, BACKEND_TRASH, 0, forget_entry, &telling);
	if (r == 0)
		r = ASK(&telling, node_list, 0, false, forget_node, &telling);
	if (r == 0)
		r = ASK(&telling, key_list, none, none, forget_key, &telling);
	return r < 0 ? r : telling_flush(&telling);
}

/* ---- All of it ---- */

static int say_incomplete(struct backend *backend, bool incomplete)
{
	const struct backend_op op = { .type = BACKEND_SETTING,
				       .name = bytes_str(setting_incomplete),
				       .data = incomplete ? BYTES("1") : (struct bytes){ 0 } };
	int r = backend_commit(backend, &op, 1, BACKEND_ANYWAY);

	return r < 0 ? r : backend->ops->sync(backend);
}

/* The number of a file must never become that of another one. */
static int lease_numbers(struct telling *telling)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend *to = telling->to;
	uint64_t ino, entry, to_ino = 0, to_entry = 0;
	struct backend_snapshot *snapshot;
	int r = ASK(telling, last_ids, &ino, &entry);

	if (r == 0)
		r = to->ops->snapshot_begin(to, BACKEND_ANYWAY, &snapshot);
	if (r < 0)
		return r;
	r = to->ops->last_ids(to, snapshot, &to_ino, &to_entry);
	to->ops->snapshot_end(to, snapshot);
	if (r < 0 || (ino <= to_ino && entry <= to_entry))
		return r;
	batch_lease(&batch, to_ino, to_entry,
		    MAX(ino > to_ino ? ino - to_ino : 0, entry > to_entry ? entry - to_entry : 0));
	return batch_commit(&batch, to, BACKEND_ANYWAY);
}

static int compare(const struct transfer *transfer, const struct sum *sum, struct backend *to)
{
	_cleanup_(telling_end) struct telling telling = { .transfer = transfer, .from = to };
	const struct sum *found = &telling.sum;
	int r = to->ops->snapshot_begin(to, BACKEND_ANYWAY | BACKEND_BEGUN, &telling.snapshot);

	if (r == 0)
		r = telling_all(&telling);
	if (r < 0 ||
	    (found->high == sum->high && found->low == sum->low && found->count == sum->count))
		return r;
	return log_fail(-EIO,
			"%s differs from %s after the copy: %" PRIu64
			" records instead of %" PRIu64,
			transfer->to, transfer->from, found->count, sum->count);
}

static int fill(const struct transfer *transfer, struct backend *from,
		struct backend_snapshot *snapshot, struct backend *to)
{
	struct telling telling = {
		.transfer = transfer, .from = from, .snapshot = snapshot, .to = to
	};
	struct sum sum;
	int r = telling_all(&telling);

	if (r == 0)
		r = lease_numbers(&telling);
	sum = telling.sum;
	telling.snapshot = NULL; /* the caller's */
	telling_end(&telling);
	return r < 0 ? r : compare(transfer, &sum, to);
}

int transfer_run(const struct transfer *transfer, struct backend *from,
		 struct backend_snapshot *snapshot, struct backend *to)
{
	int r = say_incomplete(to, true), undone;

	if (r == 0)
		r = clear_store(transfer, to);
	if (r == 0)
		r = fill(transfer, from, snapshot, to);
	if (r == 0)
		return say_incomplete(to, false);
	undone = clear_store(transfer, to);
	return undone < 0 || say_incomplete(to, false) < 0 ? MIN(undone, r) : r;
}

static int stop_at_key(void *arg, struct bytes session, struct bytes key,
		       const struct backend_key_stat *stat)
{
	(void)session, (void)key, (void)stat;
	*(bool *)arg = false;
	return 1;
}

static int stop_at_entry(void *arg, const struct backend_entry *entry,
			 const struct backend_node *node)
{
	(void)entry, (void)node;
	*(bool *)arg = false;
	return 1;
}

int transfer_is_empty(struct backend *backend)
{
	const struct bytes none = { 0 };
	struct settings settings;
	_cleanup_(freep) char *why = NULL;
	struct backend_snapshot *snapshot;
	bool empty = true;
	int r = settings_read(backend, &settings, NULL, &why);

	if (r == 0)
		r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);
	if (r < 0)
		return r;
	r = backend->ops->entry_list(backend, snapshot, BACKEND_ROOT, 0, stop_at_entry, &empty);
	if (r == 0 && empty)
		r = backend->ops->key_list(backend, snapshot, none, none, stop_at_key, &empty);
	backend->ops->snapshot_end(backend, snapshot);
	return r < 0 ? r : empty && !settings.incomplete;
}
