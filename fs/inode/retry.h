/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_RETRY_H
#define FS_INODE_RETRY_H

/* Operations that run again when others have changed something (locks.h, waiting.h). */

#include "fs/inode/tree.h"

/* An operation that is run again. */
struct catching_up {
	unsigned tries;
	uint64_t applied; /* tree.applying.done before it ran */
	bool passed;	  /* it was run again for that alone the last time */
	uint64_t asked;	  /* the taker, in vain so far (taker.asked); 0: nothing */
	unsigned stuck;	  /* times that it waited for the taker, which made no progress
			     (waiting.h) */
	bool late;	  /* the taker was late when it was run the last time (waiting.h) */
	bool turn;	  /* it has the store's turn */
};

/* Run an operation again as long as changes of others come in between. */
#define TREE_RETRY(tree, call)                                                                     \
	({                                                                                         \
		struct catching_up up_ = { .applied = (tree)->applying.done };                     \
		__typeof__(call) r_;                                                               \
		while ((r_ = (call)) == -ESTALE) {                                                 \
			int caught_up_ = tree_catch_up((tree), &up_);                              \
			if (caught_up_ < 0) {                                                      \
				r_ = caught_up_;                                                   \
				break;                                                             \
			}                                                                          \
		}                                                                                  \
		tree_caught_up((tree), &up_);                                                      \
		r_;                                                                                \
	})
/* Take in the changes, unless it was tried too often (-EBUSY); after some tries the operation runs
 * with the store's turn. */
int tree_catch_up(struct tree *tree, struct catching_up *up);
/* It has succeeded, or was given up. */
void tree_caught_up(struct tree *tree, struct catching_up *up);

#endif
