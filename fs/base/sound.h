/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_SOUND_H
#define FS_BASE_SOUND_H

/*
 * What the model relies on in a name and in a node.  Another program or a damaged medium may have
 * put anything into a store; an unsound node or name is not shown: a lookup of it answers -EIO, a
 * listing leaves it out and says so, and check_store() names it.
 */

#include "backend/backend.h"

/* Inode numbers and entry ids above this are not used, so that a next one always exists. */
#define SOUND_NUMBER_MAX (UINT64_MAX >> 2)

/* Whether an entry of a directory can have this name: 1 to 255 bytes without '/' and NUL, and not
 * "."  or "..". */
bool sound_name(struct bytes name);
/* Whether a mode has a type of file. */
bool sound_type(mode_t mode);
/* What is wrong with a node, as the end of a sentence; NULL when it is sound. */
const char *sound_node(const struct backend_node *node);
/* Whether an entry may lead to a node: a directory has one place, and the root has none. */
bool sound_entry(uint64_t parent, uint64_t id, const struct backend_node *node);

#endif
