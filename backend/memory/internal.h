/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_INTERNAL_H
#define BACKEND_MEMORY_INTERNAL_H

/* What the files of the memory backend share: memory.c opens, read.c reads, commit.c writes. */

#include <pthread.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/feed/feed.h"
#include "backend/memory/key.h"
#include "backend/memory/map.h"
#include "backend/uses.h"

struct backend_snapshot {
	struct map *map;
};

/* What all mounts of a store have together. */
struct memory_store {
	unsigned mounts; /* map_lock, as what follows it */
	struct memory *first;
	uint64_t last_mount; /* the number of the newest one */
	uint64_t max_size;
	pthread_mutex_t commit_lock; /* one batch after the other; before map_lock */
	pthread_mutex_t map_lock;
	struct map *map;
	uint64_t used;		     /* bytes of keys and values */
	uint64_t last_feed;	     /* the newest note for other mounts */
	_Atomic uint64_t last_ino;   /* the highest number that a node has had */
	_Atomic uint64_t last_entry; /* and the highest id of an entry */
};

/* One mount's handle of it. */
struct memory {
	struct backend backend; /* must be first */
	struct memory_store *store;
	struct memory *next; /* of the store's mounts */
	uint64_t mount;
	_Atomic uint64_t cursor; /* how far it has digested what the others have left */
	_Atomic bool untold;	 /* it holds locks that are not in the store */
	struct uses uses;	 /* files that it has in use; commit_lock */
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

/* feed.c */

/* The state that a map is, as the feed asks it; borrows the map. */
struct feed_state memory_feed_state(const struct map *map);
/* Put notes into the map, with numbers behind the store's last one; *ret_last is the last of them.
 * Takes over the reference to *map. */
int memory_feed_put(const struct memory *memory, const struct feed_notes *notes, int64_t at,
		    struct map **map, uint64_t *ret_last);
/* What others have left and this mount has not digested; and whether there is anything. */
int memory_feed_collect(const struct memory *memory, const struct map *map,
			struct feed_notes *notes);
bool memory_feed_waits(const struct memory *memory, const struct map *map);
/* What of BACKEND_GUARD is not judged by notes. */
int memory_feed_guard(const struct memory *memory, const struct map *map,
		      const struct backend_op *op, bool shared);
/* A mount is going: nothing is locked by it any more. */
void memory_feed_leave(struct memory *memory);
/* Wake the other mounts.  Under map_lock. */
void memory_feed_wake(const struct memory *memory);

/* -EAGAIN when locks of other mounts are in the way of these, or not known. */
int memory_feed_judge_locks(const struct memory *memory, const struct map *map, uint64_t ino,
			    struct bytes locks);

/* A node's value: the struct, then the bytes of session, key and target.  Borrows from value. */
struct backend_node memory_node(struct bytes value);
/* A number that is a whole value. */
int64_t memory_number(struct bytes value);

/* The node of a number; borrows from the map.  -ENOENT. */
int memory_find_node(const struct map *map, uint64_t ino, struct backend_node *ret_node);

#define SLOT(slot) memory_##slot
#include "backend/slots-declare.h"
#undef SLOT

#endif
