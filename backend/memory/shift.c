/* SPDX-License-Identifier: MIT */
/* Marks, and what goes to other indexes with the rows: by offset and by index. */
#include <errno.h>

#include "backend/memory/transaction.h"
#include "backend/memory/walk.h"
#include "backend/base/cleanup.h"

static void mark_keys(struct key *key, struct key *index, uint64_t ino, int64_t offset, int64_t at)
{
	*key = key_of_node(KEY_MARK, ino);
	key_add_number(key, offset);
	*index = key_of_node(KEY_MARK_INDEX, ino);
	key_add_number(index, at);
	key_add_number(index, offset);
}

static int erase_mark(struct transaction *transaction, uint64_t ino, int64_t offset, int64_t at)
{
	_cleanup_(key_done) struct key key = { 0 };
	_cleanup_(key_done) struct key index = { 0 };
	int r;

	mark_keys(&key, &index, ino, offset, at);
	r = transaction_erase_key(transaction, &key);
	return r < 0 ? r : transaction_erase_key(transaction, &index);
}

int memory_mark_put(struct transaction *transaction, const struct backend_op *op)
{
	int64_t offset = (int64_t)MIN(op->offset, (uint64_t)INT64_MAX);
	_cleanup_(key_done) struct key key = { 0 };
	_cleanup_(key_done) struct key index = { 0 };
	const struct map_entry *old;
	int r = 0;

	mark_keys(&key, &index, op->ino, offset, op->at);
	old = transaction_find(transaction, &key);
	if (old)
		r = erase_mark(transaction, op->ino, offset, memory_number(old->value));
	if (r == 0)
		r = transaction_put(transaction, &key, bytes_make(&op->at, sizeof(op->at)));
	return r < 0 ? r : transaction_put(transaction, &index, bytes_make(NULL, 0));
}

int memory_mark_delete(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key from = key_of_node(KEY_MARK, op->ino);
	_cleanup_(key_done) struct key table = key_of_node(KEY_MARK, op->ino);
	const struct map_entry *entry;
	int r = 0;

	key_add_number(&from, (int64_t)MIN(op->offset, (uint64_t)INT64_MAX));
	if (from.error < 0 || table.error < 0)
		return -ENOMEM;
	while (r == 0 && (entry = map_after(transaction->map, key_bytes(&from), true)) &&
	       bytes_starts_with(entry->key, key_bytes(&table))) {
		struct bytes rest = bytes_make(entry->key.data + table.buf.size,
					       entry->key.size - table.buf.size);
		int64_t offset = key_take_number(&rest);

		if (op->to && offset >= op->to)
			break;
		r = erase_mark(transaction, op->ino, offset, memory_number(entry->value));
	}
	return r;
}

static bool mark_is_free(const struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(key_done) struct key key = { 0 };
	_cleanup_(key_done) struct key index = { 0 };

	mark_keys(&key, &index, op->ino, (int64_t)op->offset, op->at);
	return !transaction_find(transaction, &key);
}

/* Those of rows from an index on, in a buffer of struct backend_mark. */
static int collect_marks(const struct transaction *transaction, const struct backend_op *op,
			 struct buf *ret_marks)
{
	struct walk walk = walk_in(transaction->map, key_of_node(KEY_MARK, op->ino));

	while (walk_next(&walk)) {
		const struct backend_mark mark = {
			.offset = (uint64_t)key_take_number(&walk.rest),
			.index = memory_number(walk.entry->value),
		};

		if (mark.index >= op->at)
			walk.r = buf_append(ret_marks, &mark, sizeof(mark));
	}
	return walk_end(&walk);
}

/* All are taken away before the first is put back. */
static int shift_marks(struct transaction *transaction, const struct backend_op *op)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = collect_marks(transaction, op, &buf);
	size_t count = buf.size / sizeof(struct backend_mark);

	for (size_t i = 0; r == 0 && i < 2 * count; i++) {
		struct backend_op put = { .ino = op->ino };
		struct backend_mark mark;
		int64_t offset;

		memcpy(&mark, buf.data + i % count * sizeof(mark), sizeof(mark));
		if (i < count) {
			r = erase_mark(transaction, op->ino, (int64_t)mark.offset, mark.index);
			continue;
		}
		if (__builtin_add_overflow((int64_t)mark.offset, op->seq, &offset) || offset < 0 ||
		    __builtin_add_overflow(mark.index, op->to, &put.at))
			return -EFBIG;
		put.offset = (uint64_t)offset;
		r = mark_is_free(transaction, &put) ? memory_mark_put(transaction, &put) : -EEXIST;
	}
	return r;
}

/* Put an entry of a table under a number that is so much higher. */
static int shift_entry(struct transaction *transaction, const struct key *table,
		       const struct map_entry *entry, int64_t by)
{
	struct bytes rest =
		bytes_make(entry->key.data + table->buf.size, entry->key.size - table->buf.size);
	_cleanup_(key_done) struct key key = { 0 };
	_cleanup_(key_done) struct key old = { 0 };
	int64_t number;
	int r;

	if (__builtin_add_overflow(key_take_number(&rest), by, &number))
		return -EFBIG;
	old.error = buf_append_bytes(&old.buf, entry->key);
	key.error = buf_append_bytes(&key.buf, key_bytes(table));
	key_add_number(&key, number);
	if (key.error == 0)
		key.error = buf_append_bytes(&key.buf, rest);
	if (transaction_find(transaction, &key))
		return -EEXIST;
	r = transaction_put(transaction, &key, entry->value);
	return r < 0 ? r : transaction_erase_key(transaction, &old);
}

/* From the end that they go to, so that each finds its place free; what a step leaves behind is not
 * seen again. */
static int shift_table(struct transaction *transaction, struct key taken, int64_t first, int64_t by)
{
	_cleanup_(key_done) struct key at = { 0 };
	_cleanup_(key_done) struct key table = taken;
	_cleanup_(key_done) struct key from = { 0 };
	const struct map_entry *entry;
	int r = 0;

	from.error = buf_append_bytes(&from.buf, key_bytes(&table));
	key_add_number(&from, first);
	at.error = buf_append_bytes(&at.buf, key_bytes(by > 0 ? &table : &from));
	/* Behind the highest number of any entry of the table. */
	for (int i = 0; by > 0 && i < 3; i++)
		key_add_number(&at, INT64_MAX);
	if (table.error < 0 || from.error < 0 || at.error < 0)
		return -ENOMEM;
	while (r == 0) {
		entry = by > 0 ? map_before(transaction->map, key_bytes(&at), true) :
				 map_after(transaction->map, key_bytes(&at), true);
		if (!entry || !bytes_starts_with(entry->key, key_bytes(&table)) ||
		    bytes_compare(entry->key, key_bytes(&from)) < 0)
			return 0;
		buf_clear(&at.buf);
		r = buf_append_bytes(&at.buf, entry->key);
		if (r == 0)
			r = shift_entry(transaction, &table, entry, by);
	}
	return r;
}

int memory_shift(struct transaction *transaction, const struct backend_op *op)
{
	int r = 0;

	if (op->to)
		r = shift_table(transaction, key_of_state(KEY_ROW, op->session, op->key), op->at,
				op->to);
	if (r == 0 && op->to && op->ino)
		r = shift_table(transaction, key_of_node(KEY_PIECE, op->ino), op->at, op->to);
	return r < 0 || !op->ino ? r : shift_marks(transaction, op);
}
