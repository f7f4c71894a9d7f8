/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_APARTS_H
#define FS_INODE_APARTS_H

/*
 * The keys that are set apart: what another program did to them could not be taken in.
 *
 *   While a change of another program waits, no request is served, since marks and pieces may not
 *   fit the rows any more.  A change that cannot be taken in must not wait, then: the store logs it
 *   as set apart (BACKEND_CHANGE_APART) and goes on without it.  The tree knows the keys: the bytes
 *   of their files answer EIO, and nothing gets such a key.  A key comes back when it is changed
 *   once more, or from time to time, and at the next mount, and what is wrong with it is over.
 *
 * Under tree.lock.
 */

#include "fs/inode/tree.h"

struct apart {
	struct bytes session; /* both lie behind the struct */
	struct bytes key;
	int64_t first; /* as in struct changed_key */
	int64_t stamp;
	int64_t again; /* when it is tried again, by a clock that nobody sets */
	int64_t pause; /* before it is tried again after that */
	struct apart *next;
	struct apart **link;
};

/* NULL when the key is not set apart. */
struct apart *apart_find(const struct tree *tree, struct bytes session, struct bytes key);
bool apart_has(const struct tree *tree, struct bytes session, struct bytes key);
/* A key that is none yet; NULL when there is no memory. */
struct apart *apart_make(struct tree *tree, struct bytes session, struct bytes key);
void apart_free(struct tree *tree, struct apart *apart);
/* All, when the tree is freed. */
void aparts_done(struct tree *tree);

#endif
