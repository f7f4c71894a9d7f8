/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_SOUND_H
#define FS_BASE_SOUND_H

/*
 * What the model relies on in a name and in a node.  Another program or a damaged medium may have
 * put anything into a store; what is not sound is not shown: whoever asks for it is told -EIO, a
 * listing leaves it out and says so, and check_store() names it.
 */

#include "backend/backend.h"

/* Inode numbers and ids of entries above it are not used, so that the next one is always known. */
#define SOUND_NUMBER_MAX (UINT64_MAX >> 2)

/* Whether something in a directory can have it: 1 to 255 bytes without '/' and NUL, and not "." or
 * "..". */
bool sound_name(struct bytes name);
/* What is wrong with a node, as the end of a sentence; NULL when it is sound. */
const char *sound_node(const struct backend_node *node);
/* Whether an entry may lead to a node: a directory has one place, and the root has none. */
bool sound_entry(uint64_t parent, uint64_t id, const struct backend_node *node);

#endif
