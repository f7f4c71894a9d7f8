/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_FEED_FEED_H
#define BACKEND_FEED_FEED_H

/*
 * What a commit leaves for other mounts, and what may not be committed before that was digested.
 * Both follow from the operations of a batch and from the state that each of them meets, in the
 * same way for every store.  backend.h has the rules.
 *
 * Nothing here is shared between threads.
 */

#include "backend/backend.h"

/* What has been noted; zeroed at first, ended with feed_notes_done(). */
struct feed_notes {
	struct buf buf;
	size_t recent[8]; /* where the newest begin, in turn */
	unsigned count;	  /* of all that were added */
	uint64_t last;	  /* number of the last, if they have one */
	bool any;
	bool much; /* there were more than FEED_MOST bytes: what is noted is "anything" */
};

enum { FEED_MOST = 8 << 20 };

/* How the state is asked, in the transaction that the operation belongs to, before it.  Each
 * returns 0, -ENOENT or another error. */
struct feed_state {
	int (*node)(void *arg, uint64_t ino,
		    struct backend_node *ret_node); /* for backend_node_done() */
	int (*entry)(void *arg, uint64_t parent, int64_t id, struct buf *name, uint64_t *ret_node);
	/* What a change was that BACKEND_CHANGE_DONE ends; session.data NULL: any.  NULL: the store
	 * has none. */
	int (*change)(void *arg, const struct backend_op *op, struct backend_change *ret_change);
	void *arg;
};

/* Whether an operation changes what is kept under the number of a node, or takes that away. */
bool feed_is_below(enum backend_op_type type);
/* Note what an operation is about to change.  Of the fields for events only those are set whose
 * values are gone after the commit, or are known from the operations alone. */
int feed_note(struct feed_notes *notes, const struct feed_state *state,
	      const struct backend_op *op);
/* Note one thing, as another mount has left it, in struct feed_notes; a backend_feed_fn. */
int feed_add(void *arg, const struct backend_feed *feed);
/* Each note, in order; until fn returns something else than 0, which is returned. */
int feed_each(const struct feed_notes *notes, backend_feed_fn *fn, void *arg);
void feed_notes_done(struct feed_notes *notes);
/* One as bytes, for a store that keeps it so; and from them, borrowed. */
int feed_pack(const struct backend_feed *feed, struct buf *bytes);
struct backend_feed feed_unpack(const char *bytes);

/* What is true or false in it, and the fields, as a number for a store that keeps it so. */
int64_t feed_flags(const struct backend_feed *feed);
void feed_set_flags(struct backend_feed *feed, int64_t flags);

/* Bytes that are equal, or of both there are none. */
static inline bool feed_same_bytes(struct bytes a, struct bytes b)
{
	return !a.data == !b.data && bytes_equal(a, b);
}

/* Of which node a note says that it is dated. */
static inline uint64_t feed_dated(const struct backend_feed *feed)
{
	return feed->what == BACKEND_FEED_ENTRY ? feed->ino : feed->node;
}

/* -ESTALE if one of these notes is about what an operation changes or depends on.  append: of the
 * batch that it belongs to, or NULL. */
int feed_judge(const struct feed_notes *notes, const struct feed_state *state,
	       const struct backend_op *op, const struct backend_append *append);
/* The operations of a batch whose rows begin at append->first, as an array for free(). */
int feed_move_append(const struct backend_batch *batch, struct backend_op **ret_ops,
		     size_t *ret_count);

#endif
