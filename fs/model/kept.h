/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_KEPT_H
#define FS_MODEL_KEPT_H

/*
 * The memory that outlives a kill (backend_ops.keep): what was answered and is not in the store
 * yet.  Bytes of ordinary files (file.c) and removals of names (removal.c).
 *
 * Of what a killed process leaves, ready and removals are looked at first, so they are written
 * last: a kill may come between any two stores of the processor.
 */

#include "fs/model/internal.h"
#include "src/base/digest.h"

enum {
	HELD_MAX = 8,	   /* files at a time */
	REMOVALS_MAX = 64, /* names, in one transaction */
};

/* One chunk of a file. */
struct held {
	_Atomic uint32_t ready;
	uint32_t size;	 /* bytes of it */
	uint32_t stored; /* of these the store has so many */
	uint32_t unused;
	uint64_t ino;
	int64_t chunk;
	uint8_t base[DIGEST_SIZE]; /* of what the store has */
	char data[BACKEND_CHUNK];
};

struct kept_removal {
	uint64_t parent;
	uint64_t entry;
	uint64_t ino;
	int64_t ctime; /* of the file, when it was removed */
};

struct kept {
	struct held held[HELD_MAX];
	_Atomic uint32_t removals;
	uint32_t unused;
	struct kept_removal removal[REMOVALS_MAX];
};

/* The memory, as tree->kept from then on; NULL: there is none.  make: otherwise only if a killed
 * process has left some. */
struct kept *kept_open(struct tree *tree, bool make);
/* What was left could not be taken in: it is kept for the next mount, and nothing is held in this
 * one. */
void kept_leave(struct tree *tree, int error);

#endif
