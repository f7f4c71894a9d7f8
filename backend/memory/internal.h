/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_INTERNAL_H
#define BACKEND_MEMORY_INTERNAL_H

/* What the files of the memory backend share: memory.c opens, read.c reads, commit.c writes. */

#include <pthread.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/memory/key.h"
#include "backend/memory/map.h"
#include "backend/slots.h"

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
	uint64_t used;		   /* bytes of keys and values */
	_Atomic uint64_t last_ino; /* the highest number that a node has had */
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
/* Each slot that reads: memory_node_get(), memory_row_read() and the others. */
#define READ(slot, parameters, ...)                                                                \
	int memory_##slot(struct backend *backend,                                                 \
			  struct backend_snapshot *snapshot SLOTS_BEHIND parameters);
#define READ_ROWS READ
BACKEND_READS
#undef READ
#undef READ_ROWS

#endif
