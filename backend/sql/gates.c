/* SPDX-License-Identifier: MIT */
#include "backend/sql/gates.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "backend/base/cleanup.h"

enum use {
	LOCKED = 1,   /* by all */
	APPENDED = 2, /* rows come behind those that are there, which are known then */
	SET = 4,      /* fields of a file are set, and others may be, of which nothing is known */
	WHOLE = 8,    /* depends on what was appended and set, too */
	CHANGED = 16,
};

/* Fowler, Noll and Vo's hash 1a, of 64 bits.  It is stored nowhere, but all mounts need the same.
 */
static uint64_t hash(uint64_t hash, const void *data, size_t size)
{
	for (const unsigned char *at = data; size; at++, size--)
		hash = (hash ^ *at) * UINT64_C(1099511628211);
	return hash;
}

static const uint64_t hash_begin = UINT64_C(14695981039346656037);

static void use_gate(struct sql_gates *gates, uint64_t hash, unsigned uses)
{
	unsigned char *gate = &gates->uses[(hash ^ hash >> 32) % SQL_GATES];

	gates->count += !*gate;
	*gate |= LOCKED | uses;
}

static void use_node(struct sql_gates *gates, uint64_t ino, unsigned uses)
{
	use_gate(gates, hash(hash_begin, &ino, sizeof(ino)), uses);
}

/* Without a session nothing has a key. */
static void use_key(struct sql_gates *gates, struct bytes session, struct bytes key, unsigned uses)
{
	uint64_t of_key;

	if (!session.data)
		return;
	of_key = hash(hash_begin, session.data, session.size);
	of_key = hash(of_key, key.data ? "k" : "s", 2);
	use_gate(gates, hash(of_key, key.data, key.size), uses);
}

static void use_stored_key(struct sql_gates *gates, const struct before *before, uint64_t ino,
			   unsigned uses)
{
	const struct backend_node *node = before_node(before, ino);

	if (node)
		use_key(gates, node->session, node->key, uses);
}

static void use_all(struct sql_gates *gates)
{
	for (size_t i = 0; i < SQL_GATES; i++)
		gates->uses[i] |= LOCKED | WHOLE | CHANGED;
	gates->count = SQL_GATES;
}

static void add_op(struct sql_gates *gates, const struct backend_op *op, bool append, bool placed,
		   const struct before *before)
{
	const unsigned changed = WHOLE | CHANGED;
	const uint64_t ino = before_needs(op);

	/* Its note is of the node, and of the key that this has in the store. */
	if (ino) {
		use_node(gates, ino, changed);
		use_stored_key(gates, before, ino, changed);
	}
	switch (op->type) {
	case BACKEND_ROW_INSERT:
		use_key(gates, op->session, op->key,
			!append ? changed :
			placed	? WHOLE | APPENDED :
				  APPENDED);
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
		use_node(gates, op->node->ino, S_ISDIR(op->node->mode) ? changed : SET);
		if (S_ISDIR(op->node->mode))
			use_key(gates, op->node->session, op->node->key, changed);
		return;
	case BACKEND_ENTRY_PUT:
	case BACKEND_ENTRY_DELETE:
		use_node(gates, op->parent, changed);
		return;
	case BACKEND_CLAIM:
	case BACKEND_UNCLAIM:
	case BACKEND_LOCK:
		use_node(gates, op->ino, WHOLE);
		return;
	case BACKEND_MARK_PUT:
		/* What a list is changes under the gate of its key, too. */
		if (!append)
			use_node(gates, op->ino, WHOLE);
		return;
	case BACKEND_GUARD:
		if (op->session.data)
			use_key(gates, op->session, op->key, WHOLE);
		else if (op->ino && (op->at || !append))
			use_node(gates, op->ino, WHOLE);
		return;
	case BACKEND_CHANGE_DONE:
	case BACKEND_CHANGE_APART:
		if (op->session.data)
			use_key(gates, op->session, op->key, changed);
		else
			use_all(gates);
		return;
	default: /* nothing else, or nothing that another mount could be in the way of */
		return;
	}
}

void sql_gates_add(struct sql_gates *gates, const struct backend_batch *batch, bool placed,
		   const struct before *before)
{
	for (size_t i = 0; i < batch->count; i++)
		add_op(gates, &batch->ops[i], batch->append, placed, before);
}

bool sql_gates_are_in(const struct sql_gates *gates, const struct sql_gates *others)
{
	for (size_t i = 0; i < SQL_GATES; i++)
		if (gates->uses[i] && !others->uses[i])
			return false;
	return true;
}

static unsigned count_uses(const struct sql_gates *gates, unsigned use)
{
	unsigned count = 0;

	for (unsigned i = 0; i < SQL_GATES; i++)
		count += !!(gates->uses[i] & use);
	return count;
}

/* Those that are used so, as a list. */
static int list(struct buf *buf, const struct sql_gates *gates, unsigned use)
{
	bool first = true;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < SQL_GATES; i++)
		if (gates->uses[i] & use) {
			r = buf_printf(buf, "%s%u", first ? "" : ", ", i);
			first = false;
		}
	return r;
}

void sql_gates_say_lock(struct sql_packet *packet, const struct sql_gates *gates, bool at_once)
{
	_cleanup_(buf_done) struct buf all = { 0 };
	int r = list(&all, gates, LOCKED);

	packet_say(packet, at_once ? -EBUSY : -EIO, at_once ? SQL_GATES_AT_ONCE : SQL_GATES_LOCK,
		   SQL_VALUES(sql_words(buf_bytes(&all))));
	if (packet->r == 0)
		packet->r = r;
}

/* A condition that a gate is used so, in parentheses, with what stands in front. */
static int say_used(struct buf *words, const struct sql_gates *gates, unsigned use,
		    const char *before)
{
	int r = buf_append_str(words, before);

	if (r == 0)
		r = buf_append_str(words, "gate IN (");
	if (r == 0)
		r = list(words, gates, use);
	return r < 0 ? r : buf_append_byte(words, ')');
}

/* That a stamp is of a transaction of which this mount knows nothing. */
static int say_unread(struct sql *store, struct buf *words, const char *mount, const char *number)
{
	int r;

	pthread_mutex_lock(&store->state.lock);
	r = sql_lanes_say(words, &store->state.seen, mount, number);
	pthread_mutex_unlock(&store->state.lock);
	return r;
}

/* That something has changed of which it knows nothing. */
static int say_changed(struct sql *store, const struct sql_gates *gates, struct buf *words)
{
	const unsigned whole = count_uses(gates, WHOLE);
	int r = say_unread(store, words, "mount", "number");

	if (r == 0 && whole)
		r = buf_append_str(words, " OR (");
	if (r == 0 && whole)
		r = say_unread(store, words, "appender", "appended");
	if (r == 0 && whole && whole != gates->count)
		r = say_used(words, gates, WHOLE, " AND ");
	return r < 0 || !whole ? r : buf_append_byte(words, ')');
}

static int say_stamp(struct buf *words, const struct sql_gates *gates, unsigned uses,
		     const char *column, uint64_t value)
{
	const unsigned count = count_uses(gates, uses);
	int r;

	if (!count)
		return 0;
	if (count == gates->count)
		return buf_printf(words, ", %s = %" PRIu64, column, value);
	r = buf_printf(words, ", %s = CASE WHEN ", column);
	if (r == 0)
		r = say_used(words, gates, uses, "");
	return r < 0 ? r : buf_printf(words, " THEN %" PRIu64 " ELSE %s END", value, column);
}

/* Where fields are set, and something that was appended or set before was not read, the stamp must
 * not hide that: it is one that nobody has read. */
static int say_appender(struct sql *store, struct buf *words, const struct sql_gates *gates,
			bool checked)
{
	const unsigned uses = APPENDED | SET | CHANGED;
	int r;

	if (!checked || !count_uses(gates, SET))
		return say_stamp(words, gates, uses, "appender", store->number);
	r = buf_append_str(words, ", appender = CASE WHEN ");
	if (r == 0)
		r = say_used(words, gates, SET, "");
	if (r == 0)
		r = buf_append_str(words, " AND (");
	if (r == 0)
		r = say_unread(store, words, "appender", "appended");
	if (r == 0)
		r = buf_printf(words, ") THEN %" PRId64 " WHEN ", INT64_MAX);
	if (r == 0)
		r = say_used(words, gates, uses, "");
	return r < 0 ? r : buf_printf(words, " THEN %" PRIu64 " ELSE appender END", store->number);
}

void sql_gates_say(struct sql_packet *packet, const struct sql_gates *gates, int64_t number,
		   bool checked)
{
	struct sql *store = packet->store;
	const uint64_t mount = store->number, n = (uint64_t)number;
	_cleanup_(buf_done) struct buf all = { 0 };
	_cleanup_(buf_done) struct buf stamps = { 0 };
	_cleanup_(buf_done) struct buf unread = { 0 };
	int r = list(&all, gates, LOCKED);

	if (r == 0)
		r = say_stamp(&stamps, gates, CHANGED, "mount", mount);
	if (r == 0)
		r = say_stamp(&stamps, gates, CHANGED, "number", n);
	if (r == 0)
		r = say_appender(store, &stamps, gates, checked);
	if (r == 0)
		r = say_stamp(&stamps, gates, APPENDED | SET | CHANGED, "appended", n);
	if (r == 0 && checked)
		r = say_changed(store, gates, &unread);
	packet_say(packet, SQL_HEAD_FAILED, checked ? SQL_GATES_ENTER : SQL_GATES_STAMP,
		   SQL_VALUES(sql_words(buf_bytes(&all)), sql_words(buf_bytes(&stamps)),
			      sql_words(buf_bytes(&unread))));
	if (packet->r == 0)
		packet->r = r;
}
