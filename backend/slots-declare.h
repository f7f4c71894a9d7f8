/* SPDX-License-Identifier: MIT */
/* Declares the slots of a store; SLOT(slot) is the name of its function.  Of the optional ones it
 * need not have all. */
#include "backend/slots.h"

#define CALL(slot, parameters, ...)                                                                \
	int SLOT(slot)(struct backend * backend SLOTS_BEHIND parameters);
#define READ SLOTS_READ
#define READ_ROWS READ
#define OTHER(type, capability, slot, parameters, ...)                                             \
	type SLOT(slot)(struct backend * backend SLOTS_BEHIND parameters);
BACKEND_READS
BACKEND_CALLS
BACKEND_SCANS
BACKEND_JOINED
BACKEND_CHANGES
BACKEND_SHARED
BACKEND_HISTORY
BACKEND_UPKEEP
BACKEND_OTHERS
int SLOT(commit)(struct backend *backend, struct backend_batch *batch, unsigned flags);
int SLOT(snapshot_begin)(struct backend *backend, unsigned flags,
			 struct backend_snapshot **ret_snapshot);
void SLOT(snapshot_end)(struct backend *backend, struct backend_snapshot *snapshot);
int SLOT(snapshot_begun)(struct backend *backend, struct backend_snapshot *snapshot,
			 backend_begun_fn *fn, void *arg);
void SLOT(set_quota)(struct backend *backend, uint64_t max_size);
#undef OTHER
#undef READ_ROWS
#undef READ
#undef CALL
