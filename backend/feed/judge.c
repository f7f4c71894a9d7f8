/* SPDX-License-Identifier: MIT */

/* What may not be committed, and where it comes. */

#include <errno.h>
#include <stdlib.h>

#include "backend/feed/feed.h"
#include "backend/base/cleanup.h"

struct judging {
	const struct backend_op *op;
	const struct backend_append *append; /* or NULL */
	struct bytes name;		     /* of the entry that the operation deletes */
};

static bool is_key(const struct backend_feed *feed, struct bytes session, struct bytes key)
{
	return feed->session.data && bytes_equal(feed->session, session) &&
	       feed_same_bytes(feed->key, key);
}

/* Whether rows of a key, what lies between them, or which file it is, have changed. */
static bool hits_rows(const struct backend_feed *feed, struct bytes session, struct bytes key)
{
	return (feed->what == BACKEND_FEED_ROWS ||
		(feed->what == BACKEND_FEED_NODE && (feed->moved || feed->bytes))) &&
	       is_key(feed, session, key);
}

static bool hits_node(const struct backend_feed *feed, uint64_t ino, bool moved)
{
	if (feed->dated && !moved && ino == feed_dated(feed))
		return true;
	return feed->what == BACKEND_FEED_NODE && feed->ino == ino && (feed->moved || !moved);
}

static bool hits_entry(const struct backend_feed *feed, uint64_t parent, struct bytes name)
{
	return hits_node(feed, parent, true) ||
	       (feed->what == BACKEND_FEED_ENTRY && feed->ino == parent &&
		(!name.data || bytes_equal(feed->name, name)));
}

/* Whether a list to which rows are appended is another one, or may end in something else than a
 * whole line. */
static bool hits_append(const struct backend_feed *feed, const struct backend_append *append)
{
	bool appended = feed->what == BACKEND_FEED_ROWS && feed->added && feed->behind;

	return !appended && hits_rows(feed, append->session, append->key);
}

static bool hits(const struct backend_feed *feed, const struct judging *judging)
{
	const struct backend_op *op = judging->op;

	switch (op->type) {
	case BACKEND_ROW_INSERT:
		return judging->append ? hits_append(feed, judging->append) :
					 hits_rows(feed, op->session, op->key);
	case BACKEND_ROW_PUT:
	case BACKEND_ROW_DELETE:
		return hits_rows(feed, op->session, op->key);
	case BACKEND_KEY_MOVE:
		return hits_rows(feed, op->session, op->key) ||
		       hits_rows(feed, op->session_to, op->key_to);
	case BACKEND_PAST_COPY:
	case BACKEND_ROWS_COPY:
		return hits_rows(feed, op->session_to, op->key_to);
	case BACKEND_ROWS_SHIFT:
	case BACKEND_KEY_HIDE:
	case BACKEND_KEY_SHOW:
		return hits_rows(feed, op->session, op->key) || hits_node(feed, op->ino, false);
	case BACKEND_NODE_PUT:
		return hits_node(feed, op->node->ino, false) ||
		       (op->node->session.data && feed->what == BACKEND_FEED_NODE && feed->moved &&
			is_key(feed, op->node->session, op->node->key));
	case BACKEND_NODE_SET:
		return hits_node(feed, op->node->ino, true);
	case BACKEND_ENTRY_PUT:
		return hits_entry(feed, op->parent, op->name);
	case BACKEND_ENTRY_DELETE:
		return hits_entry(feed, op->parent, judging->name);
	case BACKEND_GUARD:
		return op->session.data ? hits_rows(feed, op->session, op->key) :
					  hits_node(feed, op->ino, !op->at);
	case BACKEND_MARK_PUT:
		return hits_node(feed, op->ino, judging->append);
	default:
		return feed_is_below(op->type) && hits_node(feed, op->ino, false);
	}
}

static int judge_note(void *arg, const struct backend_feed *feed)
{
	const struct judging *judging = arg;

	if (feed->what == BACKEND_FEED_ANYTHING)
		return judging->op->type == BACKEND_LEASE || judging->op->type == BACKEND_LOCK ||
				       judging->op->type == BACKEND_SETTING ?
			       0 :
			       -ESTALE;
	return hits(feed, judging) ? -ESTALE : 0;
}

int feed_judge(const struct feed_notes *notes, const struct feed_state *state,
	       const struct backend_op *op, const struct backend_append *append)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	struct judging judging = { .op = op, .append = append };
	uint64_t node;
	int r = 0;

	if (!notes->buf.size)
		return 0;
	if (op->type == BACKEND_ENTRY_DELETE)
		r = state->entry(state->arg, op->parent, op->at, &name, &node);
	if (r == 0 && op->type == BACKEND_ENTRY_DELETE)
		judging.name = buf_given(&name);
	if (r < 0 && r != -ENOENT)
		return r;
	return feed_each(notes, judge_note, &judging);
}

int feed_move_append(const struct backend_batch *batch, struct backend_op **ret_ops,
		     size_t *ret_count)
{
	const struct backend_append *append = batch->append;
	struct backend_op *ops = calloc(batch->count + 1, sizeof(*ops));
	size_t count = 0;

	if (!ops)
		return -ENOMEM;
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->ops[i].type == BACKEND_MARK_PUT)
			continue;
		ops[count] = batch->ops[i];
		if (ops[count].type == BACKEND_ROW_INSERT)
			ops[count].at += append->first - append->expected;
		count++;
	}
	*ret_ops = ops;
	*ret_count = count;
	return 0;
}
