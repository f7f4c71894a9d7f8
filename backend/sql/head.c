/* SPDX-License-Identifier: MIT */
/*
 * The head of a transaction.
 *
 * A mount that is alone locks the one row of sessfs_store, and fails if another mount has come.
 * Otherwise it locks the gates of what the transaction depends on, and fails if one of them has
 * changed that this mount has not read (gates.h).  Then the transaction is made anew, with all of
 * that locked before anything is read.
 */
#include "backend/sql/transaction-parts.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/sql/feed.h"
#include "backend/base/thread.h"

/* Whether there are notes of other mounts that the model has not digested. */
static bool others_wait(struct sql *store)
{
	WITH_MUTEX(&store->state.lock);

	return store->state.waiting.any;
}

bool transaction_needs_before(struct transaction *transaction)
{
	return others_wait(transaction->store) || transaction->applied.shared;
}

/* Lock what a block depends on, and read what others have done to it; the more is known of the
 * state before, the more gates that may be. */
static int lock_gates(struct transaction *transaction, const struct backend_batch *const *batches,
		      size_t count, struct sql_state *ret_state)
{
	struct sql *store = transaction->store;
	struct feed_gates gates = { 0 }, locked = { 0 };
	int r = transaction->packet.count ? transaction_flush(transaction) : 0;

	for (;;) {
		for (size_t i = 0; i < count; i++)
			feed_gates_add(&gates, batches[i], false, &transaction->before);
		if (r < 0 || (locked.count && feed_gates_are_in(&gates, &locked)))
			break;
		locked = gates;
		if (gates.count)
			sql_gates_say_lock(&transaction->packet, &gates, false);
		r = transaction_flush(transaction);
		if (r == 0)
			r = sql_others_read(store, store->writer.link, ret_state);
		if (r == 0)
			r = sql_before_ask(store, &transaction->before, store->writer.link, batches,
					   count);
		if (!gates.count)
			break;
	}
	transaction->gates = gates;
	return r;
}

static void say_gates(struct transaction *transaction, bool checked)
{
	if (transaction->gates.count)
		sql_gates_say(&transaction->packet, &transaction->gates,
			      transaction->applied.number, checked);
}

int transaction_go_on(struct transaction *transaction, const struct backend_batch *batch)
{
	struct sql_state state;
	int r = transaction->applied.shared ? lock_gates(transaction, &batch, 1, &state) : 0;

	if (r == 0 && transaction->applied.shared)
		say_gates(transaction, false);
	if (r == 0 && !transaction->applied.shared && transaction_needs_before(transaction))
		r = sql_before_ask(transaction->store, &transaction->before,
				   transaction->store->writer.link, &batch, 1);
	return r;
}

/* The triggers are for changes of a guest if there are mounts to hear of them. */
static void say_triggers(struct transaction *transaction)
{
	struct sql *store = transaction->store;
	bool loud = store->guest && !store->backend.read_only &&
		    (store->rows_only || !sql_mounts_alone(store));

	if (store->writer.silent == !loud)
		return;
	packet_say_plain(&transaction->packet,
			 loud ? store->texts.driver->loud : store->texts.driver->silent);
	store->writer.silent = !loud;
}

/* What of the transactions of others is known decides what it is checked for.  The epoch as of
 * then. */
static uint64_t begin(struct transaction *transaction)
{
	struct sql *store = transaction->store;
	WITH_MUTEX(&store->state.lock);

	transaction->applied.number = store->writer.lane + 1;
	transaction->applied.shared = !store->guest && !store->state.alone;
	store->writer.placed = false;
	return store->state.epoch;
}

/* Whether another mount was seen to have the turn: then this one asks before it goes on. */
static bool others_turn(struct sql *store)
{
	WITH_MUTEX(&store->state.lock);

	return store->state.turn && store->state.turn != store->number;
}

int transaction_say_head(struct transaction *transaction,
			 const struct backend_batch *const *batches, size_t count, bool at_once)
{
	struct sql *store = transaction->store;
	struct sql_packet *packet = &transaction->packet;
	const uint64_t epoch = begin(transaction);
	int r = 0;

	if (transaction->applied.shared && others_turn(store))
		return SQL_NOTE_FAILED;
	/* What other programs have changed must be known. */
	transaction->placed = store->triggers && !store->writer.crowded && !others_wait(store);
	/* Before it begins: that it is so still is checked then. */
	if (transaction_needs_before(transaction))
		r = sql_before_ask(store, &transaction->before, store->writer.link, batches, count);
	say_triggers(transaction);
	packet_say_plain(packet, store->texts.driver->begin_write);
	if (!transaction->applied.shared) {
		if (at_once)
			packet_say(packet, -EBUSY, SQL_STATE_LOCK_AT_ONCE, SQL_NO_VALUES);
		packet_say(packet, SQL_HEAD_FAILED, SQL_HEAD,
			   SQL_VALUES(sql_id(epoch), sql_id(store->number)));
		return r;
	}
	for (size_t i = 0; i < count; i++)
		feed_gates_add(&transaction->gates, batches[i], transaction->placed,
			       &transaction->before);
	if (at_once && transaction->gates.count)
		sql_gates_say_lock(packet, &transaction->gates, at_once);
	say_gates(transaction, true);
	return r;
}

int transaction_enter(struct transaction *transaction, const struct backend_batch *const *batches,
		      size_t count, struct sql_turn *turn)
{
	struct sql *store = transaction->store;
	struct sql_state state = { 0 };
	int r = 0;

	begin(transaction);
	if (store->texts.driver->failure_ends) {
		packet_say_plain(&transaction->packet, "ROLLBACK");
		packet_say_plain(&transaction->packet, store->texts.driver->begin_write);
	}
	if (!transaction->applied.shared)
		packet_say(&transaction->packet, -EIO, SQL_STATE_LOCK, SQL_NO_VALUES);
	if (transaction->applied.shared) {
		r = lock_gates(transaction, batches, count, &state);
	} else {
		r = transaction_flush(transaction);
		if (r == 0)
			r = sql_others_read(store, store->writer.link, &state);
		if (r == 0 && others_wait(store))
			r = sql_before_ask(store, &transaction->before, store->writer.link, batches,
					   count);
	}
	transaction->begun = true;
	if (r < 0)
		return r;
	if (sql_mounts_lost(store))
		return SQL_LOST;
	/* What is to be locked depends on that. */
	if (!store->guest && sql_mounts_alone(store) == transaction->applied.shared)
		return SQL_AGAIN;
	if (state.turn && state.turn != store->number && !sql_turn_is_idle(turn, &state))
		return SQL_TURN_TAKEN;
	if (state.turn && state.turn != store->number)
		r = sql_ask_text(store, store->writer.link, SQL_TURN_GIVE,
				 SQL_VALUES(sql_id(state.turn)), NULL);
	say_triggers(transaction);
	say_gates(transaction, false);
	return r;
}
