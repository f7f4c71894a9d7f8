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
/* End another mount's ghost that has the key: delete its rows and its node. */
int ghost_end_elsewhere(struct view *view, const struct backend_node *node, struct batch *batch);
/* Another mount has ended a ghost of this one. */
void ghost_lost(struct tree *tree, const struct inode *inode);
/* Whether a new file inherits its rows: one of the same kind, place and owner that is not readable
 * by more users. */
bool ghost_leaves_to(const struct ghost *ghost, const struct backend_node *node);
/* Whether every user that may read a file may read the other one, too. */
bool node_shows_no_more(const struct backend_node *node, const struct backend_node *other);
/* Another program has changed the rows of a key: if there is a ghost, they stay when it ends. */
void ghost_set_theirs(struct tree *tree, struct bytes session, struct bytes key);
bool ghost_is_theirs(const struct ghost *ghost);
/* The file that was unlinked. */
const struct backend_node *ghost_node(const struct ghost *ghost);
/* Drop what a file has inherited and not replaced by a save: it is empty then, as it was made.
 * Under inode.lock, or tree.lock for writing. */
int inherited_drop(struct tree *tree, struct inode *inode, struct notes *notes);
/* What happens to the rows of a ghost that ends. */
enum ghost_rows {
	GHOST_LEAVE, /* a new file inherits them */
	GHOST_TRASH, /* into the trash with the node, if removed files are kept */
	GHOST_DELETE,
};
/* For a ghost that ends because a new file has its key: whether that is the same file again, or
 * another. */
enum ghost_rows ghost_rows_for(const struct ghost *ghost, const struct backend_node *node,
			       bool takes_over);
/* Operations that end a ghost: delete its node and its rows.  Open handles keep its bytes. */
struct ghost_end;
int ghost_end_begin(struct tree *tree, struct view *view, struct ghost *ghost, enum ghost_rows rows,
		    struct batch *batch, struct ghost_end **ret_end);
/* After a successful commit; frees. */
void ghost_end_apply(struct tree *tree, struct ghost_end *end);
/* Instead, without a commit; frees.  NULL is fine. */
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
/* Free those that could not end because of the store. */
void ghosts_done(struct tree *tree);

/* Before a rename: write back what is buffered, drop what was inherited, and end the ghosts below a
 * directory, since its keys move and may be given to other files.  over may be NULL; the view
 * begins anew if need be.  Under tree.lock for writing. */
int rename_settle(struct tree *tree, struct view *view, struct inode *inode, struct inode *over,
		  bool exchange, struct notes *notes);

#endif
