/* SPDX-License-Identifier: MIT */
/*
 * A transaction of several batches.
 *
 * Its head locks what it depends on (head.c).
 *
 * What it depends on of other programs' changes is asked for behind what it writes; and so is
 * whether this mount is there, and the transaction not one that is known to have failed.  Its
 * notes, or if there are none a number in the row of the mount (its lane), are what tells that it
 * was committed: see commit.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/sql/transaction-parts.h"
#include "backend/sql/feed.h"
#include "backend/sql/past.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"
#include "backend/base/thread.h"

enum {
	KEYS_GUARDED = 64, /* by one statement */
	PACKET_PART = 16,  /* of what a server takes at once */
	REST = 1 << 16,	   /* bytes of an operation beside its data, at the most */
};

int transaction_flush(struct transaction *transaction)
{
	int r = packet_flush(&transaction->packet, transaction->store->writer.link,
			     &transaction->failed);

	transaction->begun = r == 0 || transaction->begun;
	if (r < 0)
		transaction->store->writer.silent = -1; /* what was set may be undone */
	return r;
}

/* What more is to come after.  A server that answers is not away, however long all of it takes. */
static int flush_part(struct transaction *transaction)
{
	struct sql *store = transaction->store;
	int r = transaction_flush(transaction);

	if (r == 0)
		store->texts.driver->until(store->writer.link,
					   tick_ms() + store->timeout * INT64_C(1000));
	return r;
}

static bool is_full(const struct transaction *transaction)
{
	return transaction->packet.text.size >
	       MIN((uint64_t)SQL_PACKET, transaction->store->most_packet / PACKET_PART);
}

/* Whether an operation still goes with what was said; bytes that have to be escaped take two. */
static bool fits(const struct transaction *transaction, const struct backend_op *op)
{
	return transaction->packet.text.size + 2 * op->data.size + REST <
	       transaction->store->most_packet;
}

/* Whether what others have left concerns a block: -ESTALE. */
static int judge_block(struct transaction *transaction, const struct backend_batch *batch)
{
	const struct feed_state state = before_state(&transaction->before);
	struct sql *store = transaction->store;
	int r = 0;
	WITH_MUTEX(&store->state.lock);

	for (size_t i = 0; r == 0 && i < batch->count && store->state.waiting.any; i++)
		r = feed_judge(&store->state.waiting, &state, &batch->ops[i], batch->append);
	return r;
}

static int note_op(struct transaction *transaction, const struct backend_op *op,
		   const struct sql_digest *digest)
{
	const struct feed_state state = before_state(&transaction->before);
	int r;

	if (!transaction->applied.shared)
		return 0;
	transaction->before.change = digest && digest->count ? &digest->change : NULL;
	r = feed_note(&transaction->notes, &state, op);
	return r < 0 ? r : before_apply(&transaction->before, op);
}

/* Say an operation, and those that go with it. */
static int apply_op(struct transaction *transaction, const struct backend_op *ops, size_t count,
		    const struct sql_digest *digest)
{
	int r = 0;
	int done = sql_apply(&transaction->packet, ops, count, sql_is_digest(ops) ? digest : NULL,
			     &transaction->applied);

	for (int i = 0; r == 0 && i < done; i++)
		r = note_op(transaction, &ops[i], digest);
	return r < 0 ? r : done;
}

/* What other programs have changed and nobody has digested may not be overwritten: the keys of a
 * block, several in a statement. */
struct guarding {
	struct transaction *transaction;
	unsigned keys;		   /* in transaction->changed, for a statement */
	struct bytes session, key; /* the last one */
	int r;
};

static void guard_end(struct guarding *guarding)
{
	struct transaction *transaction = guarding->transaction;

	if (guarding->r == 0 && guarding->keys)
		packet_say(&transaction->packet, -ESTALE, SQL_GUARD_CHANGED,
			   SQL_VALUES(sql_words(buf_bytes(&transaction->changed))));
	guarding->keys = 0;
	buf_clear(&transaction->changed);
	if (guarding->r == 0 && is_full(transaction))
		guarding->r = transaction_flush(transaction);
}

static void guard_key(struct guarding *guarding, struct bytes session, struct bytes key)
{
	const struct sql_value values[] = { sql_blob(session), sql_blob(key) };
	struct transaction *transaction = guarding->transaction;
	bool same = guarding->key.data && bytes_equal(session, guarding->session) &&
		    bytes_equal(key, guarding->key);

	if (!session.data || !key.data || same)
		return;
	guarding->session = session;
	guarding->key = key;
	guarding->r = sql_say_on(&transaction->changed, &transaction->store->texts,
				 SQL_GUARD_CHANGED_KEY, values, ARRAY_SIZE(values));
	if (++guarding->keys == KEYS_GUARDED)
		guard_end(guarding);
}

static void guard_batch(struct guarding *guarding, const struct backend_batch *batch,
			unsigned flags)
{
	const struct backend_op *ops = batch->ops;

	if ((flags & BACKEND_ANYWAY) || !guarding->transaction->store->triggers)
		return;
	for (size_t i = 0; guarding->r == 0 && i < batch->count; i++) {
		guard_key(guarding, ops[i].session, ops[i].key);
		guard_key(guarding, ops[i].session_to, ops[i].key_to);
		if (ops[i].node)
			guard_key(guarding, ops[i].node->session, ops[i].node->key);
	}
}

static int guard_changes(struct transaction *transaction, const struct backend_batch *batch,
			 unsigned flags)
{
	struct guarding guarding = { .transaction = transaction };

	guard_batch(&guarding, batch, flags);
	guard_end(&guarding);
	return guarding.r;
}

/* A guest's own changes are logged as soon as they are made; and of a batch that is made bit by bit
 * only one bit is known at a time. */
static bool guarded_by_itself(const struct sql *store, const struct sql_request *request)
{
	return store->guest || request->batch->more;
}

/* The keys of the batches that are not guarded yet, up to one, together: behind what they change,
 * so that a change of the same that was made before is seen.  by_note: the last of them become a
 * condition of the first note.  That fails in the same way if the mount has ended, so the
 * transaction is then made once more with a statement for each. */
static int guard_requests(struct transaction *transaction, const struct sql_request *end,
			  bool by_note)
{
	struct guarding guarding = { .transaction = transaction };

	for (; transaction->unguarded != end; transaction->unguarded = transaction->unguarded->next)
		if (!guarded_by_itself(transaction->store, transaction->unguarded))
			guard_batch(&guarding, transaction->unguarded->batch,
				    transaction->unguarded->flags);
	if (!by_note)
		guard_end(&guarding);
	return guarding.r;
}

/* What is digested is waiting no longer, but for the batches before. */
static bool digests(const struct backend_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		if (sql_is_digest(&batch->ops[i]))
			return true;
	return false;
}

/* Of the batch's operations, what waits of the keys that they digest; NULL if none does. */
static int ask_digests(struct transaction *transaction, const struct backend_batch *batch,
		       struct sql_digest **ret_digests)
{
	struct sql *store = transaction->store;
	int r = 0;

	*ret_digests = NULL;
	if (!digests(batch))
		return 0;
	*ret_digests = calloc(batch->count, sizeof(**ret_digests));
	if (!*ret_digests)
		return -ENOMEM;
	if (transaction->begun && transaction->packet.count)
		r = transaction_flush(transaction);
	return r < 0 ? r :
		       sql_digests_ask(store, store->writer.link, batch->ops, batch->count,
				       *ret_digests);
}

/* Rows come behind those that are there, wherever that is. */
static int say_append(struct transaction *transaction, const struct backend_batch *batch)
{
	struct sql_packet *packet = &transaction->packet;
	struct backend_append *append = batch->append;
	const struct sql_value number = sql_id(packet->request);
	size_t rows = 0;
	int r = 0;

	packet_say(packet, -EIO, SQL_APPEND_FIND,
		   SQL_VALUES(sql_text(append->session), sql_text(append->key),
			      sql_number(append->expected), number));
	if (packet->r == 0)
		packet->statements[packet->count - 1].append = append;
	for (size_t i = 0; r == 0 && i < batch->count; i++) {
		const struct backend_op *op = &batch->ops[i];
		const struct sql_value values[] = {
			sql_text(op->session),
			sql_text(op->key),
			sql_number(op->at - append->expected),
			sql_text(bytes_given(op->data)),
			packet->moment && !op->created ? sql_kept_at() : sql_time(op->created),
			packet->moment && !op->updated ? sql_kept_at() : sql_time(op->updated),
			number,
		};

		if (op->type != BACKEND_ROW_INSERT)
			continue;
		if (!fits(transaction, op)) {
			r = flush_part(transaction);
			rows = 0;
		}
		if (rows++ % SQL_ROWS_TOGETHER)
			packet_say_on(packet, SQL_APPEND_NEXT, values, ARRAY_SIZE(values));
		else
			packet_say(packet, -EEXIST, SQL_APPEND, values, ARRAY_SIZE(values));
	}
	for (size_t i = 0; r == 0 && i < batch->count; i++)
		if (batch->ops[i].type == BACKEND_MARK_PUT)
			packet_say(packet, -EIO, SQL_APPEND_MARK,
				   SQL_VALUES(sql_id(batch->ops[i].ino),
					      sql_id(batch->ops[i].offset),
					      sql_number(batch->ops[i].at), number,
					      sql_number(append->expected)));
	return r;
}

/* Whether a batch is said so: a mount that is alone, or was when it appended last, knows where its
 * rows come. */
static bool comes_behind(const struct transaction *transaction, const struct backend_batch *batch)
{
	return batch->append && transaction->applied.shared && !transaction->placed;
}

static int apply_append(struct transaction *transaction, const struct backend_batch *batch)
{
	const struct sql *store = transaction->store;
	int r = 0;

	for (size_t i = 0; r == 0 && i < batch->count; i++)
		r = sql_apply_check(store, &batch->ops[i]);
	if (r == 0)
		r = say_append(transaction, batch);
	/* Where an operation's row comes may decide what it does. */
	for (size_t i = 0; r == 0 && i < batch->count; i++)
		r = batch->ops[i].type == BACKEND_ROW_INSERT ||
				    batch->ops[i].type == BACKEND_MARK_PUT ?
			    note_op(transaction, &batch->ops[i], NULL) :
			    MIN(0, apply_op(transaction, &batch->ops[i], 1, NULL));
	return r == 0 && is_full(transaction) ? flush_part(transaction) : r;
}

/* Of which file the rows of a note are that come behind others, and where they begin. */
static int say_first(void *arg, const struct backend_feed *feed, struct buf *words,
		     uint64_t *ret_node)
{
	const struct transaction *transaction = arg;
	const struct sql_request *request = transaction->first;
	_cleanup_(buf_done) struct buf text = { 0 };
	_cleanup_(freep) char *expanded = NULL;
	unsigned number = 0;
	int r;

	if (!feed->behind || !feed->added)
		return 0;
	for (; request; request = request->next, number++) {
		const struct backend_append *append = request->batch->append;

		if (append && feed_same_bytes(append->session, feed->session) &&
		    feed_same_bytes(append->key, feed->key))
			break;
	}
	if (!request)
		return 0;
	*ret_node = request->batch->append->ino;
	if (!comes_behind(transaction, request->batch))
		return 0;
	r = buf_printf(&text, "{first %u} + %lld%c", number,
		       (long long)(feed->first - request->batch->append->expected), '\0');
	expanded = r == 0 ? sql_texts_expand(&transaction->store->texts, text.data) : NULL;
	return expanded ? buf_append_str(words, expanded) : -ENOMEM;
}

static int apply_block(struct transaction *transaction, const struct sql_request *request)
{
	const struct backend_batch *batch = request->batch;
	const struct sql *store = transaction->store;
	const unsigned flags = request->flags;
	const struct backend_op *ops = batch->ops;
	const size_t count = batch->count;
	struct sql_digest *asked;
	int r;

	if (comes_behind(transaction, batch))
		return apply_append(transaction, batch);
	if (batch->append) {
		batch->append->first = batch->append->expected;
		batch->append->bytes = 0;
		transaction->store->writer.placed |= transaction->placed;
	}
	r = ask_digests(transaction, batch, &asked);
	if (r == 0 && store->guest)
		r = guard_changes(transaction, batch, flags);
	if (r == 0)
		sql_past_begin(&transaction->packet, ops, count, &transaction->applied);
	for (size_t i = 0; r >= 0 && i < count; i += (size_t)MAX(r, 0)) {
		if (transaction->packet.count && !fits(transaction, &ops[i]))
			r = flush_part(transaction);
		if (r < 0)
			break;
		r = apply_op(transaction, &ops[i], count - i, asked ? &asked[i] : NULL);
		if (r > 0 && is_full(transaction)) {
			int sent = flush_part(transaction);

			r = sent < 0 ? sent : r;
		}
	}
	if (r >= 0 && !store->guest && guarded_by_itself(store, request))
		r = guard_changes(transaction, batch, flags);
	sql_digests_done(asked, batch->count);
	return MIN(r, 0);
}

/* What one batch comes to; a failure of its own is its result, and then it has said nothing. */
static int run_batch(struct transaction *transaction, struct sql_request *request)
{
	struct backend_batch *batch = request->batch;
	int r = digests(batch) ? guard_requests(transaction, request, false) : 0;

	while (r == 0) {
		r = judge_block(transaction, batch);
		if (r == 0)
			r = apply_block(transaction, request);
		if (r < 0 || !batch->more)
			return r;
		r = flush_part(transaction);
		if (r < 0)
			return r;
		tick(batch->count);
		r = batch->more(batch);
		if (r <= 0)
			return r;
		r = transaction_go_on(transaction, batch);
	}
	return r;
}

static void say_end(struct transaction *transaction)
{
	struct sql_packet *packet = &transaction->packet;
	const struct sql_applied *applied = &transaction->applied;
	const struct sql *store = transaction->store;
	const struct sql_value number = sql_id(store->number);

	if (applied->ino > MAX(store->writer.ino, applied->leased_ino) ||
	    applied->entry > MAX(store->writer.entry, applied->leased_entry))
		packet_say(packet, -EIO, SQL_TAKEN,
			   SQL_VALUES(sql_id(applied->ino), sql_id(applied->entry)));
	if (transaction->notes.any) {
		sql_feed_say(packet, &transaction->notes, applied->number,
			     transaction->changed.size ? &transaction->changed : NULL, say_first,
			     transaction);
	} else {
		/* Last, so that the mount's row is locked for a moment only, and says that it lives
		 * as of now. */
		packet_say(packet, SQL_LANE_FAILED, SQL_LANE,
			   SQL_VALUES(number, sql_number(applied->number)));
		packet_say(packet, SQL_LOST, SQL_LANE_HERE, SQL_VALUES(number));
	}
	packet_say(packet, -EIO, SQL_COMMIT, SQL_NO_VALUES);
}

/* The batches of some requests, as an array for free(). */
static int list_batches(struct sql_request *first, const struct sql_request *end,
			const struct backend_batch ***ret_batches, size_t *ret_count)
{
	size_t count = 0;

	for (const struct sql_request *request = first; request != end; request = request->next)
		count++;
	*ret_batches = calloc(count + 1, sizeof(struct backend_batch *));
	if (!*ret_batches)
		return -ENOMEM;
	*ret_count = 0;
	for (struct sql_request *request = first; request != end; request = request->next) {
		if (request->batch->more && request->batch->rewind)
			request->batch->rewind(request->batch);
		(*ret_batches)[(*ret_count)++] = request->batch;
	}
	return 0;
}

/* An append that has found others' rows before its own will do so again. */
static void learn_crowd(struct transaction *transaction, const struct sql_request *end)
{
	enum { CROWDED = 16 };
	unsigned *crowded = &transaction->store->writer.crowded;

	for (const struct sql_request *request = transaction->first; request != end;
	     request = request->next)
		if (comes_behind(transaction, request->batch)) {
			const struct backend_append *append = request->batch->append;

			if (append->first != append->expected)
				*crowded = CROWDED;
			else if (*crowded)
				--*crowded;
		}
}

static void transaction_done(struct transaction *transaction)
{
	packet_done(&transaction->packet);
	before_done(&transaction->before);
	buf_done(&transaction->changed);
	feed_notes_done(&transaction->notes);
}

int sql_transaction(struct sql *store, struct sql_request *first, struct sql_request *end,
		    struct sql_turn *turn, struct sql_request **ret_failed)
{
	struct transaction transaction = { .store = store, .first = first, .unguarded = first };
	_cleanup_(freep) const struct backend_batch **batches = NULL;
	size_t number = 0, count;
	int r = list_batches(first, end, &batches, &count);

	transaction.packet.store = store;
	transaction.failed = SIZE_MAX;
	transaction.packet.request = SIZE_MAX;
	*ret_failed = NULL;
	if (r == 0)
		r = turn ? transaction_enter(&transaction, batches, count, turn) :
			   transaction_say_head(&transaction, batches, count,
						first->flags & BACKEND_AT_ONCE);
	for (struct sql_request *request = first; r == 0 && request != end;
	     request = request->next) {
		transaction.packet.request = number++;
		r = run_batch(&transaction, request);
		if (r < 0 && transaction.failed == SIZE_MAX)
			*ret_failed = request;
	}
	if (r == 0)
		r = guard_requests(&transaction, end, !turn && transaction.notes.any);
	transaction.packet.request = SIZE_MAX;
	for (struct sql_request *request = first; r == 0 && request != end; request = request->next)
		if (request->batch->visible)
			request->batch->visible(request->batch->visible_arg);
	if (r == 0) {
		say_end(&transaction);
		r = transaction_flush(&transaction);
	}
	if (r == 0) {
		store->writer.lane = transaction.applied.number;
		store->writer.ino = MAX(store->writer.ino, transaction.applied.leased_ino);
		store->writer.entry = MAX(store->writer.entry, transaction.applied.leased_entry);
		learn_crowd(&transaction, end);
	}
	if (transaction.failed < number) {
		*ret_failed = first;
		for (size_t i = 0; i < transaction.failed; i++)
			*ret_failed = (*ret_failed)->next;
	}
	transaction_done(&transaction);
	return r;
}

int sql_transaction_guard(struct sql *store, const struct sql_request *request)
{
	struct transaction transaction = { .store = store };
	int r;

	transaction.packet.store = store;
	r = guard_changes(&transaction, request->batch, request->flags);
	if (r == 0 && transaction.packet.count)
		r = transaction_flush(&transaction);
	transaction_done(&transaction);
	return r;
}
