/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_STAGE_H
#define FS_MODEL_STAGE_H

/*
 * A stage: the bytes of a file that one writer is replacing, seen by nobody else.
 *
 * Small content lies in memory, content above STAGE_MEMORY in an unlinked temporary file ($TMPDIR
 * or /var/tmp), so that the size of a save is bounded by disk and not by memory.  A zeroed struct
 * stage is empty.  All functions return 0 or -errno (-ENOSPC when the temporary file's disk is
 * full); after an error the bytes are as before.  Not thread-safe.
 */

#include <stdint.h>

#include "src/base/buf.h"

enum { STAGE_MEMORY = 4 << 20 };

struct stage {
	struct buf memory; /* while spilled is false */
	bool spilled;
	int fd;	       /* the temporary file, when spilled */
	uint64_t size; /* bytes */
	void *map;     /* of the temporary file, while mapped */
	size_t map_size;
};

int stage_write(struct stage *stage, uint64_t offset, struct bytes data);
/* At most size bytes from offset, appended to out. */
int stage_read(struct stage *stage, uint64_t offset, size_t size, struct buf *out);
int stage_truncate(struct stage *stage, uint64_t size);
/* All bytes at once; valid until the next call that changes the stage. */
int stage_map(struct stage *stage, struct bytes *ret_bytes);
/* The mapped bytes before offset are not needed again soon: let the system take their memory. */
void stage_passed(struct stage *stage, uint64_t offset);
void stage_done(struct stage *stage);

#endif
