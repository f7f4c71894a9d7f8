/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_BATCH_H
#define FS_BASE_BATCH_H

/*
 * Builds an array of store operations for one commit.
 *
 * A zeroed struct batch is empty.  The first error sticks: later calls do nothing and
 * batch_commit() returns it, so a sequence of calls needs one check at its end.  Bytes and nodes
 * handed in are borrowed until the commit, except where a function says that it copies.
 */

#include "backend/backend.h"

/* The content of a directory becomes so many bytes larger, for quotas (fs/inode/quota.h), which
 * keep the other fields here during the commit. */
struct batch_growth {
	uint64_t dir;
	int64_t by;
	int64_t net;
	uint64_t counts;
	struct inode *home;
	bool unsure; /* whether it is this directory */
	bool taken;
	bool less;
};

struct batch {
	struct backend_op *ops;
	size_t count;
	size_t room;
	void **owned; /* copies, freed with the batch */
	size_t owned_count;
	size_t owned_room;
	int error;
	bool behind;		       /* sets backend_op.behind of all that is added from now on */
	struct backend_append *append; /* of the commit, or NULL */
	struct batch_growth growth[4];
	size_t growths;
};

/* The next operation, zeroed but for its type; NULL when memory is short. */
struct backend_op *batch_add(struct batch *batch, enum backend_op_type type);
/* The same with all of its fields: its type, and those that are not zero. */
struct backend_op *batch_put(struct batch *batch, const struct backend_op *op);
#define BATCH_PUT(batch, ...) batch_put(batch, &(const struct backend_op){ .type = __VA_ARGS__ })
/* The operation that was added last, or NULL. */
static inline struct backend_op *batch_last(struct batch *batch)
{
	return batch->count && !batch->error ? &batch->ops[batch->count - 1] : NULL;
}
/* A copy that lives as long as the batch. */
struct bytes batch_keep(struct batch *batch, struct bytes bytes);

void batch_row_put(struct batch *batch, struct bytes session, struct bytes key, int64_t index,
		   struct bytes data);
void batch_row_insert(struct batch *batch, struct bytes session, struct bytes key, int64_t index,
		      struct bytes data);
void batch_row_delete(struct batch *batch, struct bytes session, struct bytes key, int64_t first,
		      int64_t last);
/* Of a row that was put or inserted just now: it is a state of this kind. */
void batch_row_kind(struct batch *batch, uint32_t kind);
/* For backend_op.version of a row that may replace one that the batch does not know: the version
 * differs from that row's, so that a service that has read it notices. */
int64_t batch_version_above_all(void);
/* All rows of a file, from the key that it has to that which it will have. */
void batch_key_move(struct batch *batch, const struct backend_node *from,
		    const struct backend_node *to);
/* What was kept of the key goes, for good. */
void batch_past_forget(struct batch *batch, const struct backend_node *node);
/* No row of a key was there before. */
void batch_past_none(struct batch *batch, struct bytes session, struct bytes key);
/* Both: the key begins with what it has now. */
void batch_past_anew(struct batch *batch, const struct backend_node *node);
/* Hide rows with a node (BACKEND_KEY_HIDE), show them again (BACKEND_KEY_SHOW), or delete the
 * hidden ones from an index on. */
void batch_key(struct batch *batch, enum backend_op_type type, const struct backend_node *node);
void batch_hidden_delete(struct batch *batch, uint64_t ino, int64_t first);
/* Copies the struct, not the bytes that it refers to. */
void batch_node_put(struct batch *batch, const struct backend_node *node);
/* Only some fields of it (enum backend_fields), and how many links it has more. */
void batch_node_set(struct batch *batch, const struct backend_node *node, unsigned fields,
		    int64_t links);
void batch_node_delete(struct batch *batch, uint64_t ino);
void batch_entry_put(struct batch *batch, uint64_t parent, uint64_t id, struct bytes name,
		     uint64_t ino);
void batch_entry_delete(struct batch *batch, uint64_t parent, uint64_t id);
void batch_xattr_put(struct batch *batch, uint64_t ino, struct bytes name, struct bytes value);
void batch_xattr_delete(struct batch *batch, uint64_t ino, struct bytes name);
void batch_chunk_put(struct batch *batch, uint64_t ino, int64_t chunk, struct bytes data);
void batch_chunk_delete(struct batch *batch, uint64_t ino, int64_t first, int64_t last);
void batch_piece_put(struct batch *batch, uint64_t ino, int64_t index, int64_t seq,
		     struct bytes data);
/* Bytes of any size in as many pieces as they need, from *seq on, which rises. */
void batch_pieces_put(struct batch *batch, uint64_t ino, int64_t index, int64_t *seq,
		      struct bytes data);
/* Pieces from (index, seq) on, all of them. */
void batch_piece_delete(struct batch *batch, uint64_t ino, int64_t index, int64_t seq);
void batch_mark_put(struct batch *batch, uint64_t ino, uint64_t offset, int64_t index);
void batch_mark_delete(struct batch *batch, uint64_t ino, uint64_t offset);
void batch_change_done(struct batch *batch, struct bytes session, struct bytes key, int64_t stamp);
void batch_change_apart(struct batch *batch, struct bytes session, struct bytes key, int64_t first,
			int64_t stamp);

/* The batch depends on a node: on what it is and where it lies, or on everything about it. */
void batch_guard(struct batch *batch, uint64_t ino, bool all);
/* It depends on everything about a file, and on no mount having it in use: -EBUSY, -EAGAIN
 * (BACKEND_UNUSED). */
void batch_guard_unused(struct batch *batch, uint64_t ino);
/* It depends on the rows of a key, whether or not it changes any. */
void batch_guard_rows(struct batch *batch, struct bytes session, struct bytes key);
/* And on no file having been unlinked that has left the key: -EEXIST. */
void batch_guard_key(struct batch *batch, struct bytes session, struct bytes key);
/* It depends on what was found to be kept. */
void batch_guard_past(struct batch *batch, const struct as_of *as_of);
/* It depends on this mount being alone. */
void batch_guard_alone(struct batch *batch);
/* Lease the numbers behind these two for this mount. */
void batch_lease(struct batch *batch, uint64_t ino, uint64_t entry, uint64_t count);

/* For quotas; INT64_MIN: it becomes smaller.  At most four. */
void batch_grows(struct batch *batch, uint64_t dir, int64_t by);

/* Commit what was added; an empty batch is committed without asking the store. */
int batch_commit(struct batch *batch, struct backend *backend, unsigned flags);
void batch_clear(struct batch *batch);
void batch_done(struct batch *batch);

#endif
