/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_STAGE_H
#define FS_BASE_STAGE_H

/*
 * A stage: bytes that are not in the store, of a file that one writer is replacing, of a line that
 * is not finished, or of a version that a reader still needs.
 *
 * They lie in memory while they fit the budget of the process, and otherwise in a temporary file
 * (spool.h).  A zeroed struct stage is empty.  All functions return 0 or -errno (-ENOSPC when the
 * temporary file's disk is full); after an error the bytes are as before.  Not thread-safe.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/base/json.h"
#include "fs/base/spool.h"

struct stage {
	uint64_t size; /* bytes */
	char *memory;  /* while spooled is NULL */
	size_t room;   /* bytes allocated there, and counted */
	struct spooled *spooled;
	void *map; /* of what is spooled, while mapped */
	size_t map_size;
	bool is_json; /* the bytes were found to be one document, and have not changed since */
};

int stage_write(struct stage *stage, uint64_t offset, struct bytes data);
/* At most size bytes from offset, appended to out. */
int stage_read(struct stage *stage, uint64_t offset, size_t size, struct buf *out);
/* Append to a stage what another one has behind as many bytes. */
int stage_copy(struct stage *from, struct stage *to);
int stage_truncate(struct stage *stage, uint64_t size);
/* All bytes at once; valid until they are unmapped or the stage is changed. */
int stage_map(struct stage *stage, struct bytes *ret_bytes);
void stage_unmap(struct stage *stage);
/* The mapped bytes before offset are not needed again soon: let the system take their memory. */
void stage_passed(struct stage *stage, uint64_t offset);
/* Whether the mapped bytes are one JSON document, which they are parsed for once; error: what is
 * wrong, or NULL. */
bool stage_is_json(struct stage *stage, struct bytes mapped, struct json_error *error);
void stage_done(struct stage *stage);

#endif
