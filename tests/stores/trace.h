/* SPDX-License-Identifier: MIT */
#ifndef STORES_TRACE_H
#define STORES_TRACE_H

/*
 * A wrapper that counts what would be round trips if the store inside were on a server, for tests.
 * A snapshot begins with its first read.
 * Takes over inner and closes it.  All of its functions may be called from any thread.
 */

#include "backend/backend.h"
#include "backend/slots.h"

/* Calls, by slot: lock_find, row_read, ... */
struct trace_counts {
	uint64_t snapshot_begin;
	uint64_t commit;
#define CALL(slot, ...) uint64_t slot;
#define READ CALL
#define READ_ROWS CALL
	BACKEND_CALLS
	BACKEND_READS
	BACKEND_SCANS
	BACKEND_CHANGES
	BACKEND_SHARED
	BACKEND_UPKEEP
	BACKEND_JOINED
#undef CALL
#undef READ
#undef READ_ROWS
	uint64_t rows; /* handed over by row_read() and the like */
	/* Reads by a thread that has read in another snapshot, which has not ended.  What wants the
	 * tables for itself waits for that one, and the read waits for it. */
	uint64_t beside;
	/* Each read, and each commit; and a snapshot that has to begin at once (BACKEND_BEGUN), if
	 * nothing is read in it. */
	uint64_t trips;
};

int trace_backend_open(struct backend *inner, struct backend **ret_backend);

/* Count from zero; with only_here what the calling thread does and no other. */
void trace_backend_reset(struct backend *backend, bool only_here);
struct trace_counts trace_backend_counts(struct backend *backend);

#endif
