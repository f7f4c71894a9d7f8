/* SPDX-License-Identifier: MIT */
/*
 * History on a server.
 *
 * On our connections the triggers are silent, and so statements of the packet keep, in front of
 * those that take something away.  What is kept is locked as it is read, so that nothing comes in
 * between.
 */
#include "backend/sql/past.h"

#include <errno.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/sql/cursor.h"
#include "backend/sql/read.h"
#include "backend/sql/slots.h"

/* In microseconds, as rows have it. */
static struct sql_value fine(int64_t time)
{
	return sql_number(time / 1000);
}

/* One time for all that a transaction keeps. */
static void say_moment(struct sql_packet *packet, struct sql_applied *applied)
{
	const struct sql_driver *driver = packet->store->texts.driver;
	const bool forgets = packet->store->backend.forgets;

	if (applied->moment)
		return;
	applied->moment = true;
	if (forgets && driver->moment_forget)
		packet_say_plain(packet, driver->moment_forget);
	else if (driver->moment)
		packet_say_plain(packet, driver->moment);
}

static void say_keep(struct sql_packet *packet, enum sql_text text, const struct backend_op *op,
		     struct sql_value more)
{
	packet_say(packet, -EIO, text,
		   SQL_VALUES(sql_text(bytes_given(op->session)), sql_text(bytes_given(op->key)),
			      sql_number(op->at), sql_number(op->to),
			      sql_blob(bytes_given(op->session)), sql_blob(bytes_given(op->key)),
			      sql_number(getpid()), more));
}

static void say_note(struct sql_packet *packet, const struct backend_op *op,
		     enum backend_past_what what, int64_t index, int64_t last)
{
	packet_say(packet, -EIO, SQL_PAST_NOTE,
		   SQL_VALUES(sql_id(0), sql_blob(bytes_given(op->session)),
			      sql_blob(bytes_given(op->key)), sql_number(what), sql_number(index),
			      sql_number(last), sql_number(getpid())));
}

static void say_move(struct sql_packet *packet, const struct backend_op *op)
{
	struct backend_op to = {
		.session = op->session_to, .key = op->key_to, .at = INT64_MIN, .to = INT64_MAX
	};
	const struct sql_value values[] = {
		sql_id(0),
		sql_blob(bytes_given(op->session)),
		sql_blob(bytes_given(op->key)),
		sql_blob(bytes_given(op->session_to)),
		sql_blob(bytes_given(op->key_to)),
		sql_number(getpid()),
	};

	if (bytes_equal(op->session, op->session_to) && bytes_equal(op->key, op->key_to))
		return;
	say_keep(packet, SQL_PAST_KEEP, &to, sql_number(0));
	packet_say(packet, -EIO, SQL_PAST_COMES, values, ARRAY_SIZE(values));
	packet_say(packet, -EIO, SQL_PAST_MOVE, values, ARRAY_SIZE(values));
	packet_say(packet, -EIO, SQL_PAST_FORGET,
		   SQL_VALUES(values[0], values[1], values[2], sql_number(INT64_MAX)));
}

/* A history goes with the file, also where none is being kept. */
static void go_along(struct sql_packet *packet, const struct backend_op *op)
{
	const struct sql_value session = sql_blob(bytes_given(op->session)),
			       key = sql_blob(bytes_given(op->key));

	if (op->type == BACKEND_KEY_HIDE)
		packet_say(packet, -EIO, SQL_PAST_HIDE,
			   SQL_VALUES(sql_id(0), session, key, sql_id(op->ino)));
	else if (op->type == BACKEND_KEY_SHOW)
		packet_say(packet, -EIO, SQL_PAST_SHOW, SQL_VALUES(sql_id(op->ino), session, key));
	else if (op->type == BACKEND_HIDDEN_DELETE && op->at == INT64_MIN)
		packet_say(packet, -EIO, SQL_PAST_GONE, SQL_VALUES(sql_id(op->ino)));
}

void sql_past_keep(struct sql_packet *packet, const struct backend_op *op,
		   struct sql_applied *applied)
{
	const struct sql *store = packet->store;
	const struct sql_layout *layout = &store->texts.layout;
	const bool tells = layout->has_created && !layout->whole_seconds && !op->created;
	struct backend_op put = *op;

	if (op->type > BACKEND_HIDDEN_DELETE ||
	    (op->type == BACKEND_ROW_INSERT && tells && !store->rows_only))
		return;
	/* The triggers are loud, and are told the time. */
	if (store->rows_only)
		say_moment(packet, applied);
	if (store->rows_only || store->backend.forgets) {
		go_along(packet, op);
		return;
	}
	say_moment(packet, applied);
	switch (op->type) {
	case BACKEND_ROW_INSERT:
		say_keep(packet, SQL_PAST_CAME, op, sql_number(0));
		break;
	case BACKEND_ROW_PUT:
		/* What is put differs, as a rule; to say it twice would double the packet. */
		put.to = op->at;
		say_keep(packet, SQL_PAST_KEEP, &put, sql_number(0));
		if (!tells)
			say_keep(packet, SQL_PAST_CAME, op, sql_number(0));
		break;
	case BACKEND_ROW_DELETE:
		say_keep(packet, op->created ? SQL_PAST_KEEP_LATER : SQL_PAST_KEEP, op,
			 fine(op->created));
		break;
	case BACKEND_KEY_MOVE:
		say_move(packet, op);
		break;
	case BACKEND_ROWS_SHIFT:
		say_note(packet, op, PAST_MOVED, op->at, op->to);
		break;
	default:
		go_along(packet, op);
	}
}

/* ---- Operations ---- */

static void say_copy(struct sql_packet *packet, enum sql_text text, const struct backend_op *op)
{
	const bool rows = text == SQL_ROWS_COPY;
	const bool none = text == SQL_PAST_NONE || text == SQL_PAST_TOLD;
	const struct bytes session = bytes_given(none ? op->session_to : op->session);
	const struct bytes key = bytes_given(none ? op->key_to : op->key);

	packet_say(packet, -EEXIST, text,
		   SQL_VALUES(sql_text(bytes_given(op->session_to)),
			      sql_text(bytes_given(op->key_to)), sql_number(op->at),
			      sql_number(op->to), sql_number(op->seq),
			      rows ? sql_text(session) : sql_blob(session),
			      rows ? sql_text(key) : sql_blob(key),
			      none ? sql_number(getpid()) : fine(op->created),
			      sql_text(bytes_given(op->name)), sql_text(bytes_given(op->data))));
	if (!none && op->version && packet->store->versions == SQL_VERSIONS_RISE)
		packet_say(packet, -EIO, SQL_PAST_COPIED,
			   SQL_VALUES(sql_text(bytes_given(op->session_to)),
				      sql_text(bytes_given(op->key_to)),
				      sql_number(op->version > packet->store->version_most ?
							 1 :
							 op->version)));
}

/* MariaDB has no trigger write to a table that the statement reads: there it is silent, and what it
 * would say is said. */
static void say_rows_back(struct sql_packet *packet, const struct backend_op *op)
{
	const struct sql *store = packet->store;
	const bool silent = store->rows_only && store->texts.driver->moment;

	if ((silent || !store->rows_only) && !store->backend.forgets)
		say_copy(packet, SQL_PAST_NONE, op);
	if (silent)
		packet_say_plain(packet, store->texts.driver->silent);
	say_copy(packet, SQL_PAST_COPY, op);
	if (!silent)
		return;
	say_copy(packet, SQL_PAST_TOLD, op);
	packet_say_plain(packet, store->texts.driver->loud);
}

static void say_times(struct sql_packet *packet, enum sql_text text, const struct backend_op *op)
{
	packet_say(packet, -EIO, text,
		   SQL_VALUES(sql_id(op->ino), sql_blob(bytes_given(op->session)),
			      sql_blob(bytes_given(op->key)), sql_number(op->at),
			      sql_number(op->to), sql_number(getpid())));
}

static void say_forget(struct sql_packet *packet, const struct backend_op *op)
{
	const struct sql_value values[] = {
		sql_id(op->ino),
		sql_blob(bytes_given(op->session)),
		sql_blob(bytes_given(op->key)),
		sql_number(op->at),
		sql_number(getpid()),
	};

	if (op->at < INT64_MAX)
		packet_say(packet, -EIO, SQL_PAST_DROPPED, values, ARRAY_SIZE(values));
	packet_say(packet, -EIO, SQL_PAST_FORGET, values, ARRAY_SIZE(values) - 1);
}

int sql_past_apply(struct sql_packet *packet, const struct backend_op *op,
		   struct sql_applied *applied)
{
	const struct sql *store = packet->store;

	say_moment(packet, applied);
	switch (op->type) {
	case BACKEND_ROW_DELETE:
		say_keep(packet, op->created ? SQL_ROW_DELETE_LATER : SQL_ROW_DELETE, op,
			 fine(op->created));
		return 0;
	case BACKEND_PAST_COPY:
		say_rows_back(packet, op);
		return 0;
	case BACKEND_ROWS_COPY:
		say_copy(packet, SQL_ROWS_COPY, op);
		return 0;
	case BACKEND_PAST_NOTE:
		if (!store->backend.forgets)
			say_note(packet, op, (enum backend_past_what)op->parent, op->at, op->to);
		return 0;
	case BACKEND_PAST_MERGE:
		say_times(packet, SQL_PAST_MERGED, op);
		say_times(packet, SQL_PAST_UNMERGED, op);
		say_times(packet, SQL_PAST_DOUBLES, op);
		say_times(packet, SQL_PAST_MERGE, op);
		return 0;
	case BACKEND_PAST_FORGET:
		say_forget(packet, op);
		return 0;
	default:
		return -EINVAL;
	}
}

/* ---- Reading ---- */

static int list_past(struct backend_snapshot *snapshot, enum sql_text text,
		     const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		     void *arg)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, text,
				SQL_VALUES(sql_id(key->ino), sql_blob(bytes_given(key->session)),
					   sql_blob(bytes_given(key->key)), sql_number(after)));

	while (sql_cursor_next(&cursor)) {
		const struct backend_past past = {
			.n = sql_cursor_number(&cursor, 0),
			.what = (enum backend_past_what)sql_cursor_number(&cursor, 1),
			.index = sql_cursor_number(&cursor, 2),
			.last = sql_cursor_number(&cursor, 3),
			.until = sql_cursor_number(&cursor, 4),
			.pid = sql_cursor_number(&cursor, 5),
			.bytes = (uint64_t)sql_cursor_number(&cursor, 6),
			.created = sql_moment(cursor.columns[7]),
		};

		cursor.r = fn(arg, &past);
	}
	return MIN(sql_cursor_end(&cursor), 0);
}

int sql_past_list(struct backend *backend, struct backend_snapshot *snapshot,
		  const struct backend_past_key *key, int64_t after, backend_past_fn *fn, void *arg)
{
	(void)backend;
	return list_past(snapshot, SQL_PAST_LIST, key, after, fn, arg);
}

int sql_past_times(struct backend *backend, struct backend_snapshot *snapshot,
		   const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		   void *arg)
{
	(void)backend;
	return list_past(snapshot, SQL_PAST_TIMES, key, after, fn, arg);
}

int sql_past_read(struct backend *backend, struct backend_snapshot *snapshot,
		  const struct backend_past_key *key, int64_t first, int64_t last, bool back,
		  backend_row_time_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = back ? SQL_PAST_READ_BACK : SQL_PAST_READ,
		.next = back ? sql_pages_falling : NULL,
		.row = sql_pages_timed,
		.timed = fn,
		.arg = arg,
	};

	(void)backend;
	return sql_pages_read(snapshot, &pages,
			      SQL_VALUES(SQL_PAGE(back ? last : first, 0),
					 sql_blob(bytes_given(key->session)),
					 sql_blob(bytes_given(key->key)),
					 sql_number(back ? first : last)));
}

int sql_hidden_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    int64_t from, bool back, backend_row_time_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = back ? SQL_HIDDEN_READ_BACK : SQL_HIDDEN_READ,
		.next = back ? sql_pages_falling : NULL,
		.row = sql_pages_timed,
		.timed = fn,
		.arg = arg,
	};

	(void)backend;
	return sql_pages_read(snapshot, &pages, SQL_VALUES(SQL_PAGE(from, 0), sql_id(ino)));
}

int sql_past_keys(struct backend *backend, struct backend_snapshot *snapshot,
		  const struct backend_past_key *after, backend_past_key_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, name = { 0 };
	struct backend_past_key key = { .session = BYTES(""), .key = BYTES("") };
	bool more = true;
	int r = 0;

	(void)backend;
	if (after)
		key = *after;
	while (r == 0 && more) {
		struct sql_cursor cursor =
			sql_cursor_open(snapshot, SQL_PAST_NEXT,
					SQL_VALUES(sql_id(key.ino),
						   sql_blob(bytes_given(key.session)),
						   sql_blob(bytes_given(key.key))));

		more = sql_cursor_next(&cursor);
		if (more) {
			buf_clear(&session);
			buf_clear(&name);
			key.ino = (uint64_t)sql_cursor_number(&cursor, 0);
			cursor.r = buf_append_bytes(&session, cursor.columns[1]);
			if (cursor.r == 0)
				cursor.r = buf_append_bytes(&name, cursor.columns[2]);
		}
		r = sql_cursor_end(&cursor);
		key.session = buf_given(&session);
		key.key = buf_given(&name);
		if (r == 0 && more)
			r = fn(arg, &key);
	}
	return MIN(r, 0);
}

int sql_past_size(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_bytes,
		  int64_t *ret_last)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_PAST_SIZE, SQL_NO_VALUES);

	(void)backend;
	*ret_bytes = 0;
	*ret_last = 0;
	if (sql_cursor_only(&cursor, 0)) {
		*ret_bytes = (uint64_t)sql_cursor_number(&cursor, 0);
		*ret_last = sql_cursor_number(&cursor, 1);
	}
	return sql_cursor_end(&cursor);
}
