/* SPDX-License-Identifier: MIT */
#ifndef FS_TREE_GHOST_H
#define FS_TREE_GHOST_H

/* Rows of files that were unlinked a moment ago (ghost.c); all under tree.lock for writing. */

#include "fs/base/batch.h"
#include "fs/cache/cache.h"
#include "fs/inode/locks.h"

struct ghost;
/* Make a ghost of a state file that has lost its name; after the commit.  Takes over a count. */
int ghost_add(struct tree *tree, struct inode *inode, uint64_t parent);
/* The ghost that has the rows of a key, or NULL. */
struct ghost *ghost_find(struct tree *tree, struct bytes session, struct bytes key);
/* Another mount's ghost that has the key ends: its rows go, and its node. */
int ghost_end_elsewhere(struct view *view, const struct backend_node *node, struct batch *batch);
/* Another mount has ended a ghost of this one. */
void ghost_lost(struct tree *tree, const struct inode *inode);
/* Whether a new file gets its rows: one of the same kind, place and owner that shows no more. */
bool ghost_leaves_to(const struct ghost *ghost, const struct backend_node *node);
/* Whether a file shows its bytes to nobody but whom the other one does. */
bool node_shows_no_more(const struct backend_node *node, const struct backend_node *other);
/* Another program has changed the rows of a key: if there is a ghost, they stay when it ends. */
void ghost_set_theirs(struct tree *tree, struct bytes session, struct bytes key);
bool ghost_is_theirs(const struct ghost *ghost);
/* The file that was unlinked. */
const struct backend_node *ghost_node(const struct ghost *ghost);
/* What a file has inherited and not replaced by a save goes: it is empty then, as it was made.
 * Under inode.lock, or tree.lock for writing. */
int inherited_drop(struct tree *tree, struct inode *inode, struct notes *notes);
/* What becomes of the rows of a ghost that ends. */
enum ghost_rows {
	GHOST_LEAVE, /* somebody takes them over */
	GHOST_TRASH, /* into the trash with the node, if the file is to be kept */
	GHOST_DELETE,
};
/* Of a ghost that ends since a new file has the key: which is the same one again, or another. */
enum ghost_rows ghost_rows_for(const struct ghost *ghost, const struct backend_node *node,
			       bool takes_over);
/* Operations that end a ghost: its node goes, and its rows.  Those who have it open keep its
 * bytes. */
struct ghost_end;
int ghost_end_begin(struct tree *tree, struct view *view, struct ghost *ghost, enum ghost_rows rows,
		    struct batch *batch, struct ghost_end **ret_end);
/* After the commit; frees. */
void ghost_end_apply(struct tree *tree, struct ghost_end *end);
/* Instead, when there was none; frees.  NULL is fine. */
void ghost_end_free(struct ghost_end *end);
static inline void ghost_end_freep(struct ghost_end **end)
{
	ghost_end_free(*end);
}
/* End ghosts whose time has come; with now all of them; dir: those of a directory and below it, or
 * NULL. */
int ghosts_end(struct tree *tree, bool now, const struct inode *dir);
/* Milliseconds until the next one's time has come, at most limit. */
int ghosts_wait(struct tree *tree, int limit);
/* Free those that the store did not let end. */
void ghosts_done(struct tree *tree);

/* What a file becomes is made of what the store has.  A directory takes keys along, and other files
 * may get them: no ghost may wait for them.  over may be NULL; the view begins anew if need be.
 * Under tree.lock for writing. */
int rename_settle(struct tree *tree, struct view *view, struct inode *inode, struct inode *over,
		  bool exchange, struct notes *notes);

#endif
