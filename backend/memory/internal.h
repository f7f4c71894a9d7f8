/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_INTERNAL_H
#define BACKEND_MEMORY_INTERNAL_H

/* What the files of the memory backend share: memory.c opens, read.c reads, commit.c writes. */

#include <pthread.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/memory/key.h"
#include "backend/memory/map.h"

struct backend_snapshot {
	struct map *map;
};

struct memory {
	struct backend backend; /* must be first */
	uint64_t max_size;
	int wake;		     /* an eventfd */
	pthread_mutex_t commit_lock; /* one batch after the other; before map_lock */
	pthread_mutex_t map_lock;    /* what follows */
	struct map *map;
	uint64_t used; /* bytes of keys and values */
	void *kept;
};

static inline struct memory *memory_of(struct backend *backend)
{
	return (struct memory *)backend;
}

/* A row's value: times, then the data. */
struct memory_row {
	int64_t created;
	int64_t updated;
};

/* A node's value: the struct, then the bytes of session, key and target.  Borrows from value. */
struct backend_node memory_node(struct bytes value);
/* A number that is a whole value. */
int64_t memory_number(struct bytes value);

int memory_commit(struct backend *backend, struct backend_batch *batch, unsigned flags);

int memory_snapshot_begin(struct backend *backend, unsigned flags,
			  struct backend_snapshot **ret_snapshot);
void memory_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot);
int memory_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct backend_node *ret_node);
int memory_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct backend_node *ret_node);
int memory_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		     bool orphans_only, backend_node_fn *fn, void *arg);
int memory_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      struct bytes name, uint64_t *ret_id, struct backend_node *ret_node);
int memory_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t id, struct buf *name);
int memory_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t after, backend_entry_fn *fn, void *arg);
int memory_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     struct bytes name, struct buf *value);
int memory_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      backend_name_fn *fn, void *arg);
int memory_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_fn *fn, void *arg);
int memory_chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg);
int memory_row_read(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
		    void *arg);
int memory_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_key_stat *ret_stat);
int memory_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		    void *arg);
int memory_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_session_fn *fn, void *arg);
int memory_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat);
int memory_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		    void *arg);
int memory_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg);
int memory_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     uint64_t offset, struct backend_mark *ret_mark);
int memory_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   int64_t index, struct backend_mark *ret_mark);
int memory_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		    uint64_t *ret_entry);
int memory_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_change_fn *fn, void *arg);

#endif
