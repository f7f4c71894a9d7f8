/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_SPOOL_H
#define FS_BASE_SPOOL_H

/*
 * The spool: where the bytes of all stages (stage.h) of the process lie.
 *
 * SPOOL_MEMORY bytes of them may lie in memory; they are counted here.  The others lie in one
 * unlinked temporary file ($TMPDIR or /var/tmp), so neither memory nor descriptors grow with the
 * number of stages.  Functions return 0 or -errno and may be called from any thread; each struct
 * spooled has one user at a time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

enum { SPOOL_MEMORY = 64 << 20 };

/* Count more bytes of memory for a stage that has so many; false: they are too many.  The more is
 * in use, the less may one stage have, so that small ones find room when large ones do not. */
bool spool_take_memory(size_t has, size_t more);
void spool_give_memory(size_t size);

/* Bytes in the temporary file, addressed from 0.  Bytes that were never written or filled must not
 * be read or mapped. */
struct spooled;
int spooled_new(struct spooled **ret_spooled);
/* Give the room back.  NULL is fine. */
void spooled_free(struct spooled *spooled);
/* -ENOSPC: the disk is full.  After an error some of the bytes may be written. */
int spooled_write(struct spooled *spooled, uint64_t offset, struct bytes data);
int spooled_read(struct spooled *spooled, uint64_t offset, void *data, size_t size);
/* Fill with zeros, for which the disk has room then: reading them cannot fail any more. */
int spooled_fill(struct spooled *spooled, uint64_t from, uint64_t to);
/* Nothing from there on is needed any more. */
void spooled_cut(struct spooled *spooled, uint64_t from);
/* The first size bytes, to be read; undone by munmap(). */
int spooled_map(struct spooled *spooled, size_t size, void **ret_map);

#endif
