/* SPDX-License-Identifier: MIT */
#include "backend/feed/gates.h"

#include <sys/stat.h>

/* It is stored nowhere, but all mounts need the same. */
static unsigned gate_of(uint64_t hash)
{
	return (unsigned)((hash ^ hash >> 32) % FEED_GATES);
}

unsigned feed_gate_of_node(uint64_t ino)
{
	return gate_of(bytes_hash(BYTES_HASH, bytes_make(&ino, sizeof(ino))));
}

unsigned feed_gate_of_key(struct bytes session, struct bytes key)
{
	const uint64_t hash = bytes_hash(BYTES_HASH, session);

	return gate_of(bytes_hash(bytes_hash(hash, bytes_make(key.data ? "k" : "s", 2)), key));
}

static void use_gate(struct feed_gates *gates, unsigned number, unsigned uses)
{
	unsigned char *gate = &gates->uses[number];

	gates->count += !*gate;
	*gate |= GATE_LOCKED | uses;
}

static void use_node(struct feed_gates *gates, uint64_t ino, unsigned uses)
{
	use_gate(gates, feed_gate_of_node(ino), uses);
}

/* Without a session nothing has a key. */
static void use_key(struct feed_gates *gates, struct bytes session, struct bytes key, unsigned uses)
{
	if (session.data)
		use_gate(gates, feed_gate_of_key(session, key), uses);
}

static void add_op(struct feed_gates *gates, const struct backend_op *op, bool append, bool placed,
		   const struct before *before)
{
	const unsigned changed = GATE_WHOLE | GATE_CHANGED;
	const uint64_t ino = before_needs(op);
	const struct backend_node *stored = ino ? before_node(before, ino) : NULL;

	/* Its note is of the node, and of the key that this has in the store. */
	if (ino)
		use_node(gates, ino, changed);
	if (stored)
		use_key(gates, stored->session, stored->key, changed);
	switch (op->type) {
	case BACKEND_ROW_INSERT:
		use_key(gates, op->session, op->key,
			!append ? changed :
			placed	? GATE_WHOLE | GATE_APPENDED :
				  GATE_APPENDED);
		return;
	case BACKEND_ROW_PUT:
	case BACKEND_ROW_DELETE:
	case BACKEND_ROWS_SHIFT:
		use_key(gates, op->session, op->key, changed);
		return;
	case BACKEND_PAST_COPY:
	case BACKEND_ROWS_COPY:
	case BACKEND_KEY_MOVE:
		use_key(gates, op->session, op->key, changed);
		use_key(gates, op->session_to, op->key_to, changed);
		return;
	case BACKEND_KEY_HIDE:
	case BACKEND_KEY_SHOW:
		use_key(gates, op->session, op->key, changed);
		use_node(gates, op->ino, changed);
		return;
	case BACKEND_NODE_PUT:
		use_key(gates, op->node->session, op->node->key, changed);
		return;
	case BACKEND_NODE_SET:
		use_node(gates, op->node->ino, S_ISDIR(op->node->mode) ? changed : GATE_SET);
		if (S_ISDIR(op->node->mode))
			use_key(gates, op->node->session, op->node->key, changed);
		return;
	case BACKEND_ENTRY_PUT:
	case BACKEND_ENTRY_DELETE:
		use_node(gates, op->parent, changed);
		return;
	case BACKEND_LOCK:
		use_node(gates, op->ino, GATE_WHOLE);
		return;
	case BACKEND_MARK_PUT:
		/* What a list is changes under the gate of its key, too. */
		if (!append)
			use_node(gates, op->ino, GATE_WHOLE);
		return;
	case BACKEND_GUARD:
		if (op->session.data)
			use_key(gates, op->session, op->key, GATE_WHOLE);
		else if (op->ino && (op->at || !append))
			use_node(gates, op->ino, GATE_WHOLE);
		return;
	case BACKEND_CHANGE_DONE:
	case BACKEND_CHANGE_APART:
		use_key(gates, op->session, op->key, changed);
		for (unsigned i = 0; !op->session.data && i < FEED_GATES; i++)
			use_gate(gates, i, changed);
		return;
	default: /* nothing else, or nothing that another mount could be in the way of */
		return;
	}
}

void feed_gates_add(struct feed_gates *gates, const struct backend_batch *batch, bool placed,
		    const struct before *before)
{
	for (size_t i = 0; i < batch->count; i++)
		add_op(gates, &batch->ops[i], batch->append, placed, before);
}

bool feed_gates_are_in(const struct feed_gates *gates, const struct feed_gates *others)
{
	for (size_t i = 0; i < FEED_GATES; i++)
		if (gates->uses[i] && !others->uses[i])
			return false;
	return true;
}
