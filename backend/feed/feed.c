/* SPDX-License-Identifier: MIT */
#include "backend/feed/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/base/cleanup.h"

enum flag {
	MOVED = 1,
	BYTES_TOO = 2,
	ADDED = 4,
	GONE = 8,
	FOREIGN = 16,
	DATED = 32,
	CONTENT = 64,
	ATTRIBUTES = 128,
	WAITS = 256,
	FIELDS = 9,	   /* from this bit on */
	FIELD_BITS = 0xff, /* so many */
	BEHIND = 1 << 24,
};

int64_t feed_flags(const struct backend_feed *feed)
{
	return (feed->moved ? MOVED : 0) | (feed->bytes ? BYTES_TOO : 0) |
	       (feed->added ? ADDED : 0) | (feed->behind ? BEHIND : 0) | (feed->gone ? GONE : 0) |
	       (feed->foreign ? FOREIGN : 0) | (feed->dated ? DATED : 0) |
	       (feed->content ? CONTENT : 0) | (feed->waits ? WAITS : 0) |
	       (feed->attributes ? ATTRIBUTES : 0) | (int64_t)(feed->fields & FIELD_BITS) << FIELDS;
}

void feed_set_flags(struct backend_feed *feed, int64_t flags)
{
	feed->moved = flags & MOVED;
	feed->bytes = flags & BYTES_TOO;
	feed->added = flags & ADDED;
	feed->behind = flags & BEHIND;
	feed->gone = flags & GONE;
	feed->foreign = flags & FOREIGN;
	feed->dated = flags & DATED;
	feed->content = flags & CONTENT;
	feed->waits = flags & WAITS;
	feed->attributes = flags & ATTRIBUTES;
	feed->fields = (unsigned)(flags >> FIELDS) & FIELD_BITS;
}

/* The pointers only say whether there was something. */
static void unpack(struct bytes *text, const char **bytes)
{
	text->data = text->data ? *bytes : NULL;
	*bytes += text->size;
}

/* A note as it is kept: this, then the bytes of session, key, name and path. */
struct backend_feed feed_unpack(const char *bytes)
{
	struct backend_feed feed;

	memcpy(&feed, bytes, sizeof(feed));
	bytes += sizeof(feed);
	unpack(&feed.session, &bytes);
	unpack(&feed.key, &bytes);
	unpack(&feed.name, &bytes);
	unpack(&feed.path, &bytes);
	return feed;
}

void feed_notes_done(struct feed_notes *notes)
{
	buf_done(&notes->buf);
	*notes = (struct feed_notes){ 0 };
}

int feed_each(const struct feed_notes *notes, backend_feed_fn *fn, void *arg)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < notes->buf.size;) {
		struct backend_feed feed = feed_unpack(notes->buf.data + at);

		r = fn(arg, &feed);
		at += sizeof(feed) + feed.session.size + feed.key.size + feed.name.size +
		      feed.path.size;
	}
	return r;
}

int feed_pack(const struct backend_feed *feed, struct buf *bytes)
{
	int r = buf_append(bytes, feed, sizeof(*feed));

	if (r == 0)
		r = buf_append_bytes(bytes, feed->session);
	if (r == 0)
		r = buf_append_bytes(bytes, feed->key);
	if (r == 0)
		r = buf_append_bytes(bytes, feed->name);
	return r < 0 ? r : buf_append_bytes(bytes, feed->path);
}

int feed_add(void *arg, const struct backend_feed *feed)
{
	struct feed_notes *notes = arg;
	const struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING, .n = feed->n };
	size_t at;
	int r;

	if (notes->buf.size > FEED_MOST) {
		buf_clear(&notes->buf);
		notes->count = 0;
		notes->much = true;
		feed = &anything;
	} else if (notes->much) {
		/* Who has digested it has digested this one, too. */
		memcpy(notes->buf.data, &anything, sizeof(anything));
		notes->last = anything.n;
		return 0;
	}
	at = notes->buf.size;
	r = feed_pack(feed, &notes->buf);
	if (r < 0)
		return r;
	notes->recent[notes->count++ % ARRAY_SIZE(notes->recent)] = at;
	notes->last = feed->n;
	notes->any = true;
	return 0;
}

/* Whether a note of a node says no more than that fields of it have changed. */
static bool is_of_fields(const struct backend_feed *feed)
{
	return feed->what == BACKEND_FEED_NODE && !feed->moved && !feed->bytes && !feed->gone;
}

static bool is_of_rows(const struct backend_feed *feed, const struct backend_feed *rows)
{
	return rows->what == BACKEND_FEED_ROWS && feed->key.data &&
	       feed_same_bytes(rows->session, feed->session) &&
	       feed_same_bytes(rows->key, feed->key);
}

/* Of the file whose rows another note is about, or of the directory whose name. */
static bool date(struct backend_feed *kept, const struct backend_feed *feed)
{
	bool entry = kept->what == BACKEND_FEED_ENTRY && kept->ino == feed->ino;
	bool rows = is_of_rows(feed, kept) && (!kept->dated || kept->node == feed->ino);

	if (!is_of_fields(feed) || (!entry && !rows))
		return false;
	kept->dated = true;
	kept->fields |= feed->fields;
	if (rows)
		kept->node = feed->ino;
	return true;
}

/* The other way round. */
static bool date_behind(struct backend_feed *kept, const struct backend_feed *feed)
{
	const unsigned fields = kept->fields;
	const uint64_t node = kept->ino;

	if (!is_of_fields(kept) || !is_of_rows(kept, feed))
		return false;
	*kept = *feed;
	kept->dated = true;
	kept->fields = fields;
	kept->node = node;
	return true;
}

/* Whether a note could be made to tell of another one, too: both are about one commit. */
static bool join(struct backend_feed *kept, const struct backend_feed *feed)
{
	if (date(kept, feed) || date_behind(kept, feed))
		return true;
	if (kept->what != feed->what || kept->ino != feed->ino ||
	    !feed_same_bytes(kept->session, feed->session) ||
	    !feed_same_bytes(kept->key, feed->key) || !feed_same_bytes(kept->name, feed->name))
		return false;
	/* Rows that have moved with their file are no longer what they were if others come, too. */
	kept->moved = kept->what == BACKEND_FEED_ROWS ? kept->moved && feed->moved :
							kept->moved || feed->moved;
	kept->bytes |= feed->bytes;
	kept->added &= feed->added;
	kept->behind &= feed->behind;
	kept->foreign |= feed->foreign;
	kept->waits = feed->waits;
	kept->content |= feed->content;
	kept->attributes |= feed->attributes;
	kept->fields |= feed->fields;
	kept->first = MIN(kept->first, feed->first);
	kept->deleted = MIN(kept->deleted, feed->deleted);
	/* Where rows end is asked when it is not said. */
	kept->end = kept->end == feed->end ? kept->end : 0;
	kept->count += feed->count;
	/* Of an entry that goes and comes the last is true. */
	kept->gone = feed->gone;
	if (feed->what == BACKEND_FEED_ENTRY)
		kept->node = feed->node;
	return true;
}

/* One more note, unless one of the newest can tell of it. */
static int note(struct feed_notes *notes, const struct backend_feed *feed)
{
	const unsigned size = ARRAY_SIZE(notes->recent);

	for (unsigned i = notes->count; i && i + size > notes->count; i--) {
		char *at = notes->buf.data + notes->recent[(i - 1) % size];
		struct backend_feed kept = feed_unpack(at);

		if (join(&kept, feed)) {
			memcpy(at, &kept, sizeof(kept));
			return 0;
		}
	}
	return feed_add(notes, feed);
}

static int note_rows(struct feed_notes *notes, struct bytes session, struct bytes key,
		     struct backend_feed feed)
{
	feed.what = BACKEND_FEED_ROWS;
	feed.session = session;
	feed.key = key;
	return note(notes, &feed);
}

/* All that there was, and is.  moved: that is the rows of a file that has come with them. */
static int note_all_rows(struct feed_notes *notes, struct bytes session, struct bytes key,
			 bool moved)
{
	const struct backend_feed feed = {
		.first = INT64_MIN,
		.deleted = INT64_MIN,
		.moved = moved,
	};

	return note_rows(notes, session, key, feed);
}

static int note_op_rows(struct feed_notes *notes, const struct backend_op *op)
{
	bool deletes = op->type == BACKEND_ROW_DELETE;
	const struct backend_feed feed = {
		.first = op->at,
		.deleted = deletes ? op->at : INT64_MAX,
		.count = !deletes,
		.added = op->type == BACKEND_ROW_INSERT,
		.behind = op->behind,
	};

	return note_rows(notes, op->session, op->key, feed);
}

/* Where rows have come from there are none any more, or others. */
static int note_shift(struct feed_notes *notes, const struct backend_op *op)
{
	const int64_t first =
		op->to < 0 && op->at < INT64_MIN - op->to ? INT64_MIN : op->at + MIN(op->to, 0);

	return note_rows(notes, op->session, op->key,
			 (struct backend_feed){ .first = first, .deleted = first });
}

/* Fields that what is made in a directory takes from it are of what that is. */
static bool hands_down(const struct backend_node *node, unsigned fields)
{
	return S_ISDIR(node->mode) && (fields & (BACKEND_MODE | BACKEND_GID));
}

/* Whether two nodes of one number are the same thing in the same place. */
static bool stays(const struct backend_node *a, const struct backend_node *b)
{
	unsigned differ =
		(a->mode != b->mode ? BACKEND_MODE : 0U) | (a->gid != b->gid ? BACKEND_GID : 0U);

	return a->parent == b->parent && a->entry == b->entry && a->kind == b->kind &&
	       a->flags == b->flags && !a->nlink == !b->nlink && !hands_down(b, differ) &&
	       feed_same_bytes(a->session, b->session) && feed_same_bytes(a->key, b->key);
}

static int note_node(struct feed_notes *notes, const struct feed_state *state,
		     const struct backend_op *op)
{
	const struct backend_node *node = op->node;
	struct backend_feed feed = {
		.what = BACKEND_FEED_NODE,
		.ino = node->ino,
		.session = node->session,
		.key = node->key,
		.behind = op->behind,
	};
	_cleanup_(backend_node_done) struct backend_node before = { 0 };
	int r = state->node(state->arg, node->ino, &before);

	if (r < 0 && r != -ENOENT)
		return r;
	feed.moved = r < 0 || !stays(&before, node);
	/* Zeros behind an ordinary file have no chunks. */
	feed.content = r == 0 && S_ISREG(node->mode) && node->kind == BACKEND_ORDINARY &&
		       before.kind == node->kind && before.size != node->size;
	feed.gone = !node->nlink;
	return note(notes, &feed);
}

static int note_fields(struct feed_notes *notes, const struct backend_op *op)
{
	const unsigned fields = (unsigned)op->at;
	const struct backend_node *node = op->node;

	return note(notes, &(struct backend_feed){
				   .what = BACKEND_FEED_NODE,
				   .behind = op->behind,
				   .ino = node->ino,
				   .session = node->session,
				   .key = node->key,
				   .moved = hands_down(node, fields),
				   .fields = fields,
				   .gone = !node->nlink,
			   });
}

/* A mark tells only where something is, and pieces are not of a draft but of what stands below. */
static bool is_content(enum backend_op_type type, const struct backend_node *node)
{
	return type == BACKEND_CHUNK_PUT || type == BACKEND_CHUNK_DELETE ||
	       ((type == BACKEND_PIECE_PUT || type == BACKEND_PIECE_DELETE) &&
		!(node->flags & BACKEND_DRAFT));
}

/* What is kept under a node's number has changed; or the node is gone. */
static int note_of_node(struct feed_notes *notes, const struct feed_state *state,
			const struct backend_op *op)
{
	const enum backend_op_type type = op->type;
	const uint64_t ino = op->ino;
	const bool gone = type == BACKEND_NODE_DELETE;
	_cleanup_(backend_node_done) struct backend_node before = { 0 };
	int r = state->node(state->arg, ino, &before);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return note(notes,
		    &(struct backend_feed){
			    .what = BACKEND_FEED_NODE,
			    .ino = ino,
			    .session = before.session,
			    .key = before.key,
			    .moved = gone,
			    .bytes = !gone,
			    .behind = op->behind,
			    .content = is_content(type, &before),
			    .attributes = type == BACKEND_XATTR_PUT || type == BACKEND_XATTR_DELETE,
			    .gone = gone || !before.nlink,
		    });
}

static int note_entry(struct feed_notes *notes, uint64_t parent, struct bytes name, uint64_t node,
		      bool gone)
{
	return note(notes, &(struct backend_feed){
				   .what = BACKEND_FEED_ENTRY,
				   .ino = parent,
				   .name = name,
				   .node = node,
				   .gone = gone,
			   });
}

/* What other programs had changed is known to the mounts by who digests it. */
static int note_change(struct feed_notes *notes, const struct feed_state *state,
		       const struct backend_op *op)
{
	struct backend_change change = { 0 };
	int r;

	if (!state->change)
		return 0;
	if (!op->session.data)
		return note(notes, &(struct backend_feed){ .what = BACKEND_FEED_ANYTHING,
							   .foreign = true });
	r = state->change(state->arg, op, &change);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return note_rows(notes, op->session, op->key,
			 (struct backend_feed){
				 .first = change.first,
				 .deleted = change.deleted,
				 .added = !change.rewritten,
				 .foreign = true,
				 .waits = change.stamp != op->at,
				 .count = (uint64_t)change.stamp,
				 .end = change.end,
			 });
}

bool feed_is_below(enum backend_op_type type)
{
	switch (type) {
	case BACKEND_NODE_DELETE:
	case BACKEND_XATTR_PUT:
	case BACKEND_XATTR_DELETE:
	case BACKEND_CHUNK_PUT:
	case BACKEND_CHUNK_DELETE:
	case BACKEND_PIECE_PUT:
	case BACKEND_PIECE_DELETE:
	case BACKEND_MARK_DELETE:
	case BACKEND_HIDDEN_DELETE:
		return true;
	default:
		return false;
	}
}

int feed_note(struct feed_notes *notes, const struct feed_state *state, const struct backend_op *op)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	uint64_t node;
	int r;

	switch (op->type) {
	case BACKEND_ROW_INSERT:
	case BACKEND_ROW_PUT:
	case BACKEND_ROW_DELETE:
		return note_op_rows(notes, op);
	case BACKEND_ROWS_SHIFT:
		r = note_shift(notes, op);
		return r < 0 || !op->ino ? r : note_of_node(notes, state, op);
	case BACKEND_KEY_MOVE:
		r = note_all_rows(notes, op->session, op->key, true);
		return r < 0 ? r : note_all_rows(notes, op->session_to, op->key_to, true);
	case BACKEND_KEY_HIDE:
	case BACKEND_KEY_SHOW:
		return note_all_rows(notes, op->session, op->key, true);
	case BACKEND_CHANGE_APART:
		return note_all_rows(notes, op->session, op->key, false);
	case BACKEND_NODE_PUT:
		return note_node(notes, state, op);
	case BACKEND_NODE_SET:
		return note_fields(notes, op);
	case BACKEND_ENTRY_PUT:
		return note_entry(notes, op->parent, op->name, op->ino, false);
	case BACKEND_ENTRY_DELETE:
		r = state->entry(state->arg, op->parent, op->at, &name, &node);
		return r == -ENOENT ? 0 :
		       r < 0	    ? r :
				      note_entry(notes, op->parent, buf_given(&name), node, true);
	case BACKEND_CHANGE_DONE:
		return note_change(notes, state, op);
	case BACKEND_PAST_COPY:
	case BACKEND_ROWS_COPY:
		return note_all_rows(notes, op->session_to, op->key_to, false);
	default:
		/* A mark says where a line begins that is there all the same. */
		return feed_is_below(op->type) ? note_of_node(notes, state, op) : 0;
	}
}
