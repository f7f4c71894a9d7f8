/* SPDX-License-Identifier: MIT */
#include "backend/sql/gates.h"

#include <inttypes.h>

#include "backend/base/cleanup.h"
#include "backend/base/thread.h"

static unsigned count_uses(const struct feed_gates *gates, unsigned use)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FEED_GATES; i++)
		count += !!(gates->uses[i] & use);
	return count;
}

/* Those that are used so, as a list. */
static int list(struct buf *buf, const struct feed_gates *gates, unsigned use)
{
	bool first = true;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < FEED_GATES; i++)
		if (gates->uses[i] & use) {
			r = buf_printf(buf, "%s%u", first ? "" : ", ", i);
			first = false;
		}
	return r;
}

void sql_gates_say_lock(struct sql_packet *packet, const struct feed_gates *gates, bool at_once)
{
	_cleanup_(buf_done) struct buf all = { 0 };
	int r = list(&all, gates, GATE_LOCKED);

	packet_say(packet, at_once ? -EBUSY : -EIO, at_once ? SQL_GATES_AT_ONCE : SQL_GATES_LOCK,
		   SQL_VALUES(sql_words(buf_bytes(&all))));
	if (packet->r == 0)
		packet->r = r;
}

/* A condition that a gate is used so, in parentheses, with what stands in front. */
static int say_used(struct buf *words, const struct feed_gates *gates, unsigned use,
		    const char *before)
{
	int r = buf_printf(words, "%sgate IN (", before);

	if (r == 0)
		r = list(words, gates, use);
	return r < 0 ? r : buf_append_byte(words, ')');
}

/* That a stamp is of a transaction of which this mount knows nothing. */
static int say_unread(struct sql *store, struct buf *words, const char *mount, const char *number)
{
	WITH_MUTEX(&store->state.lock);

	return sql_lanes_say(words, &store->state.seen, mount, number);
}

/* That something has changed of which it knows nothing. */
static int say_changed(struct sql *store, const struct feed_gates *gates, struct buf *words)
{
	const unsigned whole = count_uses(gates, GATE_WHOLE);
	int r = say_unread(store, words, "mount", "number");

	if (r == 0 && whole)
		r = buf_append_str(words, " OR (");
	if (r == 0 && whole)
		r = say_unread(store, words, "appender", "appended");
	if (r == 0 && whole && whole != gates->count)
		r = say_used(words, gates, GATE_WHOLE, " AND ");
	return r < 0 || !whole ? r : buf_append_byte(words, ')');
}

static int say_stamp(struct buf *words, const struct feed_gates *gates, unsigned uses,
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
static int say_appender(struct sql *store, struct buf *words, const struct feed_gates *gates,
			bool checked)
{
	const unsigned uses = GATE_APPENDED | GATE_SET | GATE_CHANGED;
	int r;

	if (!checked || !count_uses(gates, GATE_SET))
		return say_stamp(words, gates, uses, "appender", store->number);
	r = say_used(words, gates, GATE_SET, ", appender = CASE WHEN ");
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

void sql_gates_say(struct sql_packet *packet, const struct feed_gates *gates, int64_t number,
		   bool checked)
{
	struct sql *store = packet->store;
	const uint64_t mount = store->number, n = (uint64_t)number;
	_cleanup_(buf_done) struct buf all = { 0 };
	_cleanup_(buf_done) struct buf stamps = { 0 };
	_cleanup_(buf_done) struct buf unread = { 0 };
	int r = list(&all, gates, GATE_LOCKED);

	if (r == 0)
		r = say_stamp(&stamps, gates, GATE_CHANGED, "mount", mount);
	if (r == 0)
		r = say_stamp(&stamps, gates, GATE_CHANGED, "number", n);
	if (r == 0)
		r = say_appender(store, &stamps, gates, checked);
	if (r == 0)
		r = say_stamp(&stamps, gates, GATE_APPENDED | GATE_SET | GATE_CHANGED, "appended",
			      n);
	if (r == 0 && checked)
		r = say_changed(store, gates, &unread);
	packet_say(packet, SQL_HEAD_FAILED, checked ? SQL_GATES_ENTER : SQL_GATES_STAMP,
		   SQL_VALUES(sql_words(buf_bytes(&all)), sql_words(buf_bytes(&stamps)),
			      sql_words(buf_bytes(&unread))));
	if (packet->r == 0)
		packet->r = r;
}
