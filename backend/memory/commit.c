/* SPDX-License-Identifier: MIT */
/*
 * Batches: each operation makes a new map out of the one before; the last one becomes the store, or
 * all are dropped.
 */
#include <errno.h>

#include "backend/memory/transaction.h"
#include "backend/memory/walk.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

static struct bytes number_bytes(const int64_t *number)
{
	return bytes_make(number, sizeof(*number));
}

static int apply_row(struct transaction *transaction, const struct backend_op *op)
{
	struct memory_row row = {
		.created = op->created ? op->created : transaction->now,
		.updated = op->updated ? op->updated : transaction->now,
	};
	const int64_t updated = row.updated;
	_cleanup_(key_done) struct key key = key_of_state(KEY_ROW, op->session, op->key);
	_cleanup_(buf_done) struct buf value = { 0 };
	const struct map_entry *old;
	int r;

	key_add_number(&key, op->at);
	old = transaction_find(transaction, &key);
	if (old && op->type == BACKEND_ROW_INSERT)
		return -EEXIST;
	if (old) {
		memcpy(&row, old->value.data, sizeof(row));
		row.updated = updated;
		if (bytes_equal(bytes_make(old->value.data + sizeof(row),
					   old->value.size - sizeof(row)),
				op->data))
			return 0;
	}
	r = buf_append(&value, &row, sizeof(row));
	if (r == 0)
		r = buf_append_bytes(&value, op->data);
	return r < 0 ? r : transaction_put(transaction, &key, buf_bytes(&value));
}

static int apply_row_delete(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key from = key_of_state(KEY_ROW, op->session, op->key);
	_cleanup_(key_done) struct key to = key_of_state(KEY_ROW, op->session, op->key);

	if (op->at > op->to)
		return 0;
	key_add_number(&from, op->at);
	key_add_number(&to, op->to);
	return transaction_erase_range(transaction, &from, &to);
}

/* Put all entries behind one prefix behind another, where none of the same rest may be. */
static int move_all(struct transaction *transaction, const struct key *from, const struct key *to)
{
	const struct map_entry *entry;
	int r = from->error < 0 ? from->error : to->error;

	while (r == 0 && (entry = map_after(transaction->map, key_bytes(from), true)) &&
	       bytes_starts_with(entry->key, key_bytes(from))) {
		_cleanup_(key_done) struct key key = { 0 };

		key.error = buf_append_bytes(&key.buf, key_bytes(to));
		if (key.error == 0)
			key.error = buf_append(&key.buf, entry->key.data + from->buf.size,
					       entry->key.size - from->buf.size);
		if (transaction_find(transaction, &key))
			return -EEXIST;
		r = transaction_put(transaction, &key, entry->value);
		/* Found again: the map that held the first is gone. */
		entry = map_after(transaction->map, key_bytes(from), true);
		if (r == 0)
			r = transaction_erase(transaction, entry->key);
	}
	return r;
}

static int apply_key_move(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key from = key_of_state(KEY_ROW, op->session, op->key);
	_cleanup_(key_done) struct key to = key_of_state(KEY_ROW, op->session_to, op->key_to);
	int r;

	if (bytes_equal(op->session, op->session_to) && bytes_equal(op->key, op->key_to))
		return 0;
	r = transaction_erase_range(transaction, &to, &to);
	return r < 0 ? r : move_all(transaction, &from, &to);
}

/* All rows of a key to a node, or back. */
static int apply_key_hide(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key rows = key_of_state(KEY_ROW, op->session, op->key);
	_cleanup_(key_done) struct key hidden = key_of_node(KEY_HIDDEN, op->ino);

	if (op->type == BACKEND_KEY_HIDE)
		return move_all(transaction, &rows, &hidden);
	return move_all(transaction, &hidden, &rows);
}

/* The key in the index of live state files and session directories; empty: it is in none. */
static struct key index_key(const struct backend_node *node)
{
	struct key key = { 0 };

	if (node->nlink == 0 || !node->session.data)
		return key;
	if (node->kind >= BACKEND_SINGLE && node->key.data)
		return key_of_state(KEY_FILE, node->session, node->key);
	if (node->kind == BACKEND_SESSION) {
		key = key_make(KEY_SESSION);
		key_add_text(&key, node->session);
	}
	return key;
}

/* Take a node out of the table and the indexes. */
static int forget_node(struct transaction *transaction, uint64_t ino)
{
	_cleanup_(key_done) struct key key = key_of_node(KEY_NODE, ino);
	_cleanup_(key_done) struct key orphan = key_of_node(KEY_ORPHAN, ino);
	_cleanup_(key_done) struct key index = { 0 };
	const struct map_entry *entry = transaction_find(transaction, &key);
	struct backend_node node;
	int r;

	if (!entry)
		return key.error;
	node = memory_node(entry->value);
	index = index_key(&node);
	r = transaction_erase_key(transaction, &key);
	if (r == 0)
		r = transaction_erase_key(transaction, &index);
	return r < 0 ? r : transaction_erase_key(transaction, &orphan);
}

static int apply_node_put(struct transaction *transaction, const struct backend_op *op)
{
	const struct backend_node *node = op->node;
	_cleanup_(key_done) struct key key = key_of_node(KEY_NODE, node->ino);
	_cleanup_(key_done) struct key orphan = key_of_node(KEY_ORPHAN, node->ino);
	_cleanup_(key_done) struct key index = index_key(node);
	_cleanup_(buf_done) struct buf value = { 0 };
	const int64_t ino = (int64_t)node->ino;
	int r = forget_node(transaction, node->ino);

	if (node->ino > transaction->store->last_ino)
		transaction->store->last_ino = node->ino;
	if (r == 0 && (index.buf.size || index.error)) {
		if (transaction_find(transaction, &index))
			return -EEXIST;
		r = transaction_put(transaction, &index, number_bytes(&ino));
	}
	if (r == 0 && node->nlink == 0)
		r = transaction_put(transaction, &orphan, bytes_make(NULL, 0));
	if (r == 0)
		r = buf_append(&value, node, sizeof(*node));
	if (r == 0)
		r = buf_append_bytes(&value, node->session);
	if (r == 0)
		r = buf_append_bytes(&value, node->key);
	if (r == 0)
		r = buf_append_bytes(&value, node->target);
	return r < 0 ? r : transaction_put(transaction, &key, buf_bytes(&value));
}

static int apply_node_set(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key key = key_of_node(KEY_NODE, op->node->ino);
	_cleanup_(backend_node_done) struct backend_node before = { 0 };
	const struct map_entry *entry = transaction_find(transaction, &key);
	const struct backend_node *from = op->node;
	struct backend_node node;
	int r;

	if (!entry)
		return key.error;
	node = memory_node(entry->value);
	r = backend_node_copy(&node, &before);
	if (r < 0)
		return r;
	node = before;
	node.owned = NULL;
	node.atime = op->at & BACKEND_ATIME ? from->atime : node.atime;
	node.mtime = op->at & BACKEND_MTIME ? from->mtime : node.mtime;
	node.ctime = op->at & BACKEND_CTIME ? from->ctime : node.ctime;
	node.mode = op->at & BACKEND_MODE ? from->mode : node.mode;
	node.uid = op->at & BACKEND_UID ? from->uid : node.uid;
	node.gid = op->at & BACKEND_GID ? from->gid : node.gid;
	node.generation = op->at & BACKEND_GENERATION ? from->generation : node.generation;
	node.nlink = (uint32_t)(node.nlink + op->to);
	return apply_node_put(transaction, &(struct backend_op){ .node = &node });
}

static int apply_node_delete(struct transaction *transaction, const struct backend_op *op)
{
	static const enum key_table tables[] = { KEY_XATTR, KEY_CHUNK,	    KEY_PIECE,
						 KEY_MARK,  KEY_MARK_INDEX, KEY_LOCK };
	int r = forget_node(transaction, op->ino);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(tables); i++) {
		_cleanup_(key_done) struct key key = key_of_node(tables[i], op->ino);

		r = transaction_erase_range(transaction, &key, &key);
	}
	return r;
}

static int apply_entry_put(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	_cleanup_(key_done) struct key name = key_of_node(KEY_NAME, op->parent);
	_cleanup_(key_done) struct key key = key_of_node(KEY_ENTRY, op->parent);
	const int64_t ino = (int64_t)op->ino;
	int r = buf_append(&value, &ino, sizeof(ino));

	if (r == 0)
		r = buf_append_bytes(&value, op->name);
	key_add_number(&key, op->at);
	key_add_text(&name, op->name);
	if (transaction_find(transaction, &key) || transaction_find(transaction, &name))
		return -EEXIST;
	if ((uint64_t)op->at > transaction->store->last_entry)
		transaction->store->last_entry = (uint64_t)op->at;
	if (r == 0)
		r = transaction_put(transaction, &key, buf_bytes(&value));
	return r < 0 ? r : transaction_put(transaction, &name, number_bytes(&op->at));
}

static int apply_entry_delete(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key name = key_of_node(KEY_NAME, op->parent);
	_cleanup_(key_done) struct key key = key_of_node(KEY_ENTRY, op->parent);
	const struct map_entry *entry;
	int r;

	key_add_number(&key, op->at);
	entry = transaction_find(transaction, &key);
	if (!entry)
		return key.error;
	key_add_text(&name, bytes_make(entry->value.data + sizeof(int64_t),
				       entry->value.size - sizeof(int64_t)));
	r = transaction_erase_key(transaction, &name);
	return r < 0 ? r : transaction_erase_key(transaction, &key);
}

static int apply_xattr(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key key = key_of_node(KEY_XATTR, op->ino);

	key_add_text(&key, op->name);
	if (op->type == BACKEND_XATTR_PUT)
		return transaction_put(transaction, &key, op->data);
	return transaction_erase_key(transaction, &key);
}

static int apply_setting(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key key = key_make(KEY_SETTING);

	key_add_text(&key, op->name);
	return op->data.size ? transaction_put(transaction, &key, op->data) :
			       transaction_erase_key(transaction, &key);
}

static int apply_chunk_put(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key key = key_of_node(KEY_CHUNK, op->ino);

	if (op->data.size > BACKEND_CHUNK)
		return -EINVAL;
	key_add_number(&key, op->at);
	return transaction_put(transaction, &key, op->data);
}

static int apply_piece_put(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key key = key_of_node(KEY_PIECE, op->ino);

	key_add_number(&key, op->at);
	key_add_number(&key, op->seq);
	return transaction_put(transaction, &key, op->data);
}

/* Chunks or hidden rows from at to to; pieces from (at, seq) to the last of to. */
static int apply_range_delete(struct transaction *transaction, const struct backend_op *op)
{
	bool pieces = op->type == BACKEND_PIECE_DELETE;
	enum key_table table = pieces				 ? KEY_PIECE :
			       op->type == BACKEND_HIDDEN_DELETE ? KEY_HIDDEN :
								   KEY_CHUNK;
	_cleanup_(key_done) struct key from = key_of_node(table, op->ino);
	_cleanup_(key_done) struct key to = key_of_node(table, op->ino);

	if (op->at > op->to)
		return 0;
	key_add_number(&from, op->at);
	if (pieces)
		key_add_number(&from, op->seq);
	key_add_number(&to, op->to);
	return transaction_erase_range(transaction, &from, &to);
}

static int apply_lock(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key key = key_of_node(KEY_LOCK, op->ino);
	int r = op->at ? memory_feed_judge_locks(transaction->memory, transaction->map, op->ino,
						 op->data) :
			 0;

	if (r < 0)
		return r;
	key_add_number(&key, (int64_t)transaction->memory->mount);
	return op->data.size ? transaction_put(transaction, &key, op->data) :
			       transaction_erase_key(transaction, &key);
}

static int apply_lease(struct transaction *transaction, const struct backend_op *op)
{
	struct memory_store *store = transaction->store;

	if (store->last_ino > op->ino || store->last_entry > (uint64_t)op->at)
		return -ESTALE;
	store->last_ino = op->ino + (uint64_t)op->to;
	store->last_entry = (uint64_t)(op->at + op->to);
	return 0;
}

static int apply_guard(struct transaction *transaction, const struct backend_op *op)
{
	return memory_feed_guard(transaction->memory, transaction->map, op, transaction->shared);
}

struct recipe {
	int (*apply)(struct transaction *transaction, const struct backend_op *op); /* or NULL */
	bool rows; /* changes rows */
};

static const struct recipe recipes[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = { apply_row, true },
	[BACKEND_ROW_PUT] = { apply_row, true },
	[BACKEND_ROW_DELETE] = { apply_row_delete, true },
	[BACKEND_KEY_MOVE] = { apply_key_move, true },
	[BACKEND_ROWS_SHIFT] = { memory_shift, true },
	[BACKEND_KEY_HIDE] = { apply_key_hide, true },
	[BACKEND_KEY_SHOW] = { apply_key_hide, true },
	[BACKEND_HIDDEN_DELETE] = { apply_range_delete, true },
	[BACKEND_NODE_PUT] = { apply_node_put, false },
	[BACKEND_NODE_SET] = { apply_node_set, false },
	[BACKEND_NODE_DELETE] = { apply_node_delete, false },
	[BACKEND_ENTRY_PUT] = { apply_entry_put, false },
	[BACKEND_ENTRY_DELETE] = { apply_entry_delete, false },
	[BACKEND_XATTR_PUT] = { apply_xattr, false },
	[BACKEND_XATTR_DELETE] = { apply_xattr, false },
	[BACKEND_CHUNK_PUT] = { apply_chunk_put, false },
	[BACKEND_CHUNK_DELETE] = { apply_range_delete, false },
	[BACKEND_PIECE_PUT] = { apply_piece_put, false },
	[BACKEND_PIECE_DELETE] = { apply_range_delete, false },
	[BACKEND_MARK_PUT] = { memory_mark_put, false },
	[BACKEND_MARK_DELETE] = { memory_mark_delete, false },
	[BACKEND_GUARD] = { apply_guard, false },
	[BACKEND_LEASE] = { apply_lease, false },
	[BACKEND_LOCK] = { apply_lock, false },
	[BACKEND_SETTING] = { apply_setting, false },
};

static int apply_op(struct transaction *transaction, const struct backend_op *op,
		    const struct backend_append *append)
{
	const struct backend *backend = &transaction->memory->backend;

	if ((unsigned)op->type >= BACKEND_OP_TYPES)
		return -EINVAL;
	if (recipes[op->type].rows && backend->read_only)
		return -EROFS;
	if (op->data.size > backend->max_item)
		return -EFBIG;
	if (transaction->shared) {
		const struct feed_state state = memory_feed_state(transaction->map);
		int r = feed_judge(&transaction->waiting, &state, op, append);

		if (r == 0)
			r = feed_note(&transaction->notes, &state, op);
		if (r < 0)
			return r;
	}
	return recipes[op->type].apply ? recipes[op->type].apply(transaction, op) : 0;
}

static int apply_ops(struct transaction *transaction, const struct backend_op *ops, size_t count,
		     const struct backend_append *append)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = apply_op(transaction, &ops[i], append);
	return r;
}

static int apply_append(struct transaction *transaction, const struct backend_batch *batch)
{
	struct backend_append *append = batch->append;
	_cleanup_(freep) struct backend_op *ops = NULL;
	struct walk walk =
		walk_in(transaction->map, key_of_state(KEY_ROW, append->session, append->key));
	size_t count;
	int r;

	append->first = append->expected;
	append->bytes = 0;
	key_add_number(&walk.key, append->expected);
	while (transaction->waiting.any && walk_next(&walk)) {
		append->first = key_take_number(&walk.rest) + 1;
		append->bytes += walk.entry->value.size - sizeof(struct memory_row) + 1;
	}
	r = walk_end(&walk);
	if (r == 0 && append->first == append->expected)
		return apply_ops(transaction, batch->ops, batch->count, append);
	if (r == 0)
		r = feed_move_append(batch, &ops, &count);
	return r < 0 ? r : apply_ops(transaction, ops, count, append);
}

static int apply_batch(struct transaction *transaction, struct backend_batch *batch)
{
	int r;

	if (batch->append)
		return apply_append(transaction, batch);
	for (;;) {
		r = apply_ops(transaction, batch->ops, batch->count, NULL);
		if (r < 0 || !batch->more)
			return r;
		r = batch->more(batch);
		if (r <= 0)
			return r;
	}
}

/* The new map becomes the store's. */
static void publish(struct transaction *transaction, uint64_t last_feed)
{
	struct memory_store *store = transaction->store;
	struct map *old = store->map;

	pthread_mutex_lock(&store->map_lock);
	store->map = transaction->map;
	store->used = transaction->used;
	memory_feed_wake(transaction->memory);
	store->last_feed = last_feed;
	pthread_mutex_unlock(&store->map_lock);
	transaction->map = old;
}

int memory_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct memory *memory = memory_of(backend);
	struct memory_store *store = memory->store;
	struct transaction transaction = { .memory = memory, .store = store, .now = time_now() };
	uint64_t last_feed;
	int r;

	pthread_mutex_lock(&store->commit_lock);
	/* Other threads do not write these while we hold the lock. */
	transaction.map = map_ref(store->map);
	transaction.used = store->used;
	transaction.shared = memory_is_shared(backend);
	last_feed = store->last_feed;
	r = memory_feed_collect(memory, store->map, &transaction.waiting);
	if (r == 0)
		r = apply_batch(&transaction, batch);
	if (r == 0)
		r = memory_feed_put(memory, &transaction.notes, transaction.now, &transaction.map,
				    &last_feed);
	if (r == 0 && batch->visible)
		batch->visible(batch->visible_arg);
	if (r == 0)
		publish(&transaction, last_feed);
	pthread_mutex_unlock(&store->commit_lock);
	map_unref(transaction.map);
	feed_notes_done(&transaction.notes);
	feed_notes_done(&transaction.waiting);
	return r;
}
