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

#include "backend/base/cleanup.h"
#include "backend/sql/cursor.h"
#include "backend/sql/read.h"
#include "backend/sql/slots.h"

/* Rows from one to another, and what statements that keep them say of them (texts-past.h). */
#define ROWS "sk@txyPf"
/* A note: which is in parent. */
#define NOTE "0xyp@tP"

/* One time for all that a transaction keeps. */
static void say_moment(struct sql_packet *packet, struct sql_applied *applied)
{
	const struct sql_driver *driver = packet->store->texts.driver;
	const bool forgets = packet->store->backend.forgets;

	packet->moment = !forgets;
	if (applied->moment)
		return;
	applied->moment = true;
	if (forgets && driver->moment_forget)
		packet_say_plain(packet, driver->moment_forget);
	else
		packet_say_plain(packet, driver->moment);
}

/* Whether an operation takes rows away, or adds some that do not say from when on they are. */
static bool keeps(const struct sql *store, const struct backend_op *op)
{
	const struct sql_layout *layout = &store->texts.layout;
	const bool tells = layout->has_created && !layout->whole_seconds && !op->created;

	return op->type <= BACKEND_HIDDEN_DELETE &&
	       !(op->type == BACKEND_ROW_INSERT && tells && !store->rows_only);
}

void sql_past_begin(struct sql_packet *packet, const struct backend_op *ops, size_t count,
		    struct sql_applied *applied)
{
	const struct sql *store = packet->store;

	packet->moment = applied->moment && !store->backend.forgets;
	for (size_t i = 0; i < count && !applied->moment; i++)
		if (keeps(store, &ops[i]) && (store->rows_only || !store->backend.forgets))
			say_moment(packet, applied);
}

static void say_move(struct sql_packet *packet, const struct backend_op *op)
{
	const struct backend_op to = {
		.session = op->session_to, .key = op->key_to, .at = INT64_MIN, .to = INT64_MAX
	};
	const struct backend_op from = { .session = op->session, .key = op->key, .at = INT64_MAX };

	if (bytes_equal(op->session, op->session_to) && bytes_equal(op->key, op->key_to))
		return;
	packet_say_op(packet, -EIO, SQL_PAST_KEEP, ROWS, &to);
	packet_say_op(packet, -EIO, SQL_PAST_COMES, "0xyXYP", op);
	packet_say_op(packet, -EIO, SQL_PAST_MOVE, "0xyXY", op);
	packet_say_op(packet, -EIO, SQL_PAST_FORGET, "0xy@", &from);
}

/* A history goes with the file, also where none is being kept. */
static void go_along(struct sql_packet *packet, const struct backend_op *op)
{
	if (op->type == BACKEND_KEY_HIDE)
		packet_say_op(packet, -EIO, SQL_PAST_HIDE, "0xyi", op);
	else if (op->type == BACKEND_KEY_SHOW)
		packet_say_op(packet, -EIO, SQL_PAST_SHOW, "ixy", op);
	else if (op->type == BACKEND_HIDDEN_DELETE && op->at == INT64_MIN)
		packet_say_op(packet, -EIO, SQL_PAST_GONE, "i", op);
}

void sql_past_keep(struct sql_packet *packet, const struct backend_op *op,
		   struct sql_applied *applied)
{
	const struct sql *store = packet->store;
	const struct sql_layout *layout = &store->texts.layout;
	const bool tells = layout->has_created && !layout->whole_seconds && !op->created;
	struct backend_op kept = *op;

	if (!keeps(store, op))
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
		packet_say_op(packet, -EIO, SQL_PAST_CAME, ROWS, op);
		break;
	case BACKEND_ROW_PUT:
		/* What is put differs, as a rule; to say it twice would double the packet. */
		kept.to = op->at;
		packet_say_op(packet, -EIO, SQL_PAST_KEEP, ROWS, &kept);
		if (!tells)
			packet_say_op(packet, -EIO, SQL_PAST_CAME, ROWS, op);
		break;
	case BACKEND_ROW_DELETE:
		packet_say_op(packet, -EIO, op->created ? SQL_PAST_KEEP_LATER : SQL_PAST_KEEP, ROWS,
			      op);
		break;
	case BACKEND_KEY_MOVE:
		say_move(packet, op);
		break;
	case BACKEND_ROWS_SHIFT:
		kept.parent = PAST_MOVED;
		packet_say_op(packet, -EIO, SQL_PAST_NOTE, NOTE, &kept);
		break;
	default:
		go_along(packet, op);
	}
}

/* ---- Operations ---- */

static void say_copy(struct sql_packet *packet, enum sql_text text, const struct backend_op *op)
{
	const bool none = text == SQL_PAST_NONE || text == SQL_PAST_TOLD;

	packet_say_op(packet, -EEXIST, text,
		      none		    ? "SK@tqXYP" :
		      text == SQL_ROWS_COPY ? "SK@tqskfND" :
					      "SK@tqxyfND",
		      op);
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
	const bool silent = store->rows_only && store->texts.driver->triggers_write_apart;

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

int sql_past_apply(struct sql_packet *packet, const struct backend_op *op,
		   struct sql_applied *applied)
{
	static const char times[] = "ixy@tP";

	say_moment(packet, applied);
	switch (op->type) {
	case BACKEND_ROW_DELETE:
		packet_say_op(packet, -EIO, op->created ? SQL_ROW_DELETE_LATER : SQL_ROW_DELETE,
			      ROWS, op);
		return 0;
	case BACKEND_PAST_COPY:
		say_rows_back(packet, op);
		return 0;
	case BACKEND_ROWS_COPY:
		say_copy(packet, SQL_ROWS_COPY, op);
		return 0;
	case BACKEND_PAST_NOTE:
		if (!packet->store->backend.forgets)
			packet_say_op(packet, -EIO, SQL_PAST_NOTE, NOTE, op);
		return 0;
	case BACKEND_PAST_MERGE:
		packet_say_op(packet, -EIO, SQL_PAST_MERGED, times, op);
		packet_say_op(packet, -EIO, SQL_PAST_UNMERGED, times, op);
		packet_say_op(packet, -EIO, SQL_PAST_DOUBLES, times, op);
		packet_say_op(packet, -EIO, SQL_PAST_MERGE, times, op);
		return 0;
	case BACKEND_PAST_SAME:
		packet_say_op(packet, -EIO, SQL_PAST_HOLD, "sk", op);
		packet_say_op(packet, -ESTALE, SQL_PAST_SAME, "ixy@tq", op);
		return 0;
	case BACKEND_PAST_FORGET:
		if (op->at < INT64_MAX)
			packet_say_op(packet, -EIO, SQL_PAST_DROPPED, "ixy@P", op);
		packet_say_op(packet, -EIO, SQL_PAST_FORGET, "ixy@", op);
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
	return list_past(snapshot, SQL_PAST_LIST, key, after, fn, arg);
}

int sql_past_times(struct backend *backend, struct backend_snapshot *snapshot,
		   const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		   void *arg)
{
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

	return sql_pages_read(snapshot, &pages, SQL_VALUES(SQL_PAGE(from, 0), sql_id(ino)));
}

int sql_past_keys(struct backend *backend, struct backend_snapshot *snapshot,
		  const struct backend_past_key *after, backend_past_key_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, name = { 0 };
	struct backend_past_key key = { .session = BYTES(""), .key = BYTES("") };
	bool more = true;
	int r = 0;

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

	*ret_bytes = 0;
	*ret_last = 0;
	if (sql_cursor_only(&cursor, 0)) {
		*ret_bytes = (uint64_t)sql_cursor_number(&cursor, 0);
		*ret_last = sql_cursor_number(&cursor, 1);
	}
	return sql_cursor_end(&cursor);
}
