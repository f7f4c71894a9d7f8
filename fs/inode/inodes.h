/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_INODES_H
#define FS_INODE_INODES_H

/* Inodes in memory. */

#include "fs/inode/locks.h"

/* Inode cache.  inode_of_node() takes the node over (also on failure) and counts the inode. */
int inode_of_node(struct tree *tree, struct view *view, struct backend_node *node,
		  struct inode **ret_inode);
/* The same for a node that a name leads to; the inode of a directory keeps the name. */
int inode_of_entry(struct tree *tree, struct view *view, struct backend_node *node,
		   struct bytes name, struct inode **ret_inode);
/* An inode for a node that is new; parent and name are a directory's. */
int inode_create(struct tree *tree, struct backend_node *node, struct inode *parent,
		 struct bytes name, struct inode **ret_inode);
/* Two steps to make an inode: from its node, which it takes over, outside the table (NULL: no
 * memory); and into the table, counted.  If another thread was first, its inode is counted and
 * returned, and this one is not used. */
struct inode *inode_from(struct backend_node *node);
struct inode *inode_enter(struct tree *tree, struct inode *inode);
void inode_destroy(struct inode *inode);
/* Whether a handle that may write is open. */
bool inode_is_written(const struct inode *inode);
/* Replace the copy of the node by this one, which owns its bytes; takes it over. */
void inode_set_node(struct inode *inode, struct backend_node *node);
/* After node.kind was changed in place. */
void inode_node_changed(struct inode *inode);
/* The inode if it has a count, counted once more; or NULL. */
struct inode *inode_known(struct tree *tree, uint64_t ino);
/* A backend_wanted_fn; arg is the tree: wants the tail of a file if its size is not known and the
 * tail tells it.  Under tree.lock. */
unsigned inode_wants_tail(void *arg, const struct backend_node *node);
/* The same, and the row of a document, unless that is known to be large; under tree.lock for
 * writing. */
unsigned inode_wants_row(void *arg, const struct backend_node *node);
/* The inode of a number, from the store if need be. */
int inode_get(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode);
/* The directory of that number; -ESTALE: another mount has removed it; -EIO: there is none that has
 * a place, so the store is damaged. */
int inode_get_dir(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode);
static inline struct inode *inode_ref(struct tree *tree, struct inode *inode)
{
	pthread_mutex_lock(&tree->table_lock);
	inode->count++;
	pthread_mutex_unlock(&tree->table_lock);
	return inode;
}
/* Whether the caller alone has a count of it, so that neither the kernel nor a handle knows it. */
static inline bool inode_is_unshared(struct tree *tree, const struct inode *inode)
{
	WITH_MUTEX(&tree->table_lock);

	return inode->count == 1;
}
/* Free kept saves of a temporary name; *saves becomes NULL. */
void kept_saves_done(struct kept_save **saves);
/* Drop a count of a version, if there is one; *version becomes NULL. */
void version_drop(struct version **version);
/* Counted inodes. */
struct inodes {
	struct inode **inode;
	size_t count;
};
/* Those with a count; wanted may be NULL.  Empty without memory. */
struct inodes inodes_get(struct tree *tree, bool (*wanted)(const struct inode *inode));
void inodes_forget(struct tree *tree, struct inodes *inodes);
/* The table, when a tree is made; it and all inodes, when it is freed. */
int inodes_init(struct tree *tree);
void inodes_done(struct tree *tree);
/* numbers.c: the next number, under tree.lock for writing, which may be given up meanwhile
 * (commit.h). */
int number_ino(struct tree *tree, uint64_t *ret_ino);
int number_entry(struct tree *tree, uint64_t *ret_entry);
/* The node of a new file in a directory, with a number and an entry of its own. */
int number_node(struct tree *tree, uint64_t parent, mode_t mode, uint32_t uid, uint32_t gid,
		struct backend_node *ret_node);
/* times.c: remember that the times in memory are newer than in the store. */
void inode_times_dirty(struct tree *tree, struct inode *inode);
/* The store has them now.  The caller counts the inode. */
void inode_times_written(struct tree *tree, struct inode *inode);
/* Whether they are newer. */
bool inode_has_times(struct tree *tree, const struct inode *inode);

/* What is known of the content does not hold any more. */
static inline void inode_unload(struct inode *inode)
{
	inode->loaded = inode->grown = false;
}

/* Whether what is known of a list ends in a newline, also if it has grown since. */
static inline bool inode_ends_in_lines(const struct inode *inode)
{
	return inode->node.kind == BACKEND_LIST && (inode->loaded || inode->grown) &&
	       !inode->list.tail_size;
}

static inline bool inode_is_dir(const struct inode *inode)
{
	return S_ISDIR(inode->node.mode);
}
static inline bool inode_is_draft(const struct inode *inode)
{
	return inode->node.flags & BACKEND_DRAFT;
}
/* Or will be next: a file that is made to be opened counts as open. */
static inline bool inode_is_opened(const struct inode *inode)
{
	return inode->open || inode->opening;
}
/* What lies in the trash, or is of a session there (fs/upkeep/trash.c). */
static inline bool node_is_trashed(const struct backend_node *node)
{
	return node->kind == BACKEND_ORDINARY &&
	       (node->session.data || (node->parent == BACKEND_TRASH && node->entry));
}
/* The path under which an orphan goes into the trash (trashed.h); data NULL: it is deleted. */
static inline struct bytes node_trash_path(const struct tree *tree, const struct backend_node *node)
{
	const bool kept = tree->history && !node->nlink && !S_ISLNK(node->mode);

	return kept ? node->target : (struct bytes){ 0 };
}
static inline bool kind_is_state(uint32_t kind)
{
	return kind == BACKEND_SINGLE || kind == BACKEND_LIST || kind == BACKEND_HASH;
}
/* The session that a directory belongs to, or NULL. */
struct inode *inode_session(struct inode *dir);
/* Whether a directory is another one or lies below it. */
bool inode_is_below(const struct inode *dir, const struct inode *inode);
/* Appends the names from the root to one in a directory, with '/' between them. */
int inode_path(const struct inode *dir, struct bytes name, struct buf *path);
/* Whether a file in that directory is a transcript that its client has packed (fs/base/packed.h):
 * 1, 0 or -errno. */
int inode_is_packed(const struct tree *tree, struct view *view, const struct inode *inode,
		    const struct inode *dir);
/* Appends the decoded names of the directories below the session, each with '/' behind it. */
int inode_key_dirs(struct inode *dir, struct buf *dirs);

#endif
