/* SPDX-License-Identifier: MIT */
#ifndef FS_TREE_TREE_H
#define FS_TREE_TREE_H

/* The door of this room: names, and the files under them. */

#include "fs/base/batch.h"
#include "fs/cache/cache.h"
#include "fs/events/events.h"
#include "fs/inode/called.h"
#include "fs/inode/inodes.h"
#include "fs/inode/window.h"
#include "fs/tree/ghost.h"

/* entry.c, all under tree.lock for writing */

/* -ENOTDIR, -ENAMETOOLONG; -ENOENT: the directory was removed. */
int entry_check(const struct inode *dir, struct bytes name);
/* The entry of a name, with its inode counted. */
int entry_open(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode);
/* The same in a view that begins with it. */
int entry_look(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode);
/* The same for a batch with a condition on it: a known name is not read from the store, and then
 * the view may not have begun. */
int entry_recall(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		 uint64_t *ret_id, struct inode **ret_inode);
/* The same for one name; no lock is held. */
int name_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode);
/* The two entries of a rename, in a view that begins with them and has the bytes of small files. */
struct entry_pair {
	struct inode *dir;
	struct bytes name;
	struct inode *dir_to;
	struct bytes name_to;
	bool exchange;
	/* What was found. */
	struct inode *inode; /* counted, as over */
	uint64_t id;
	struct inode *over; /* NULL: there is none, and no over_id */
	uint64_t over_id;
};
int entry_look_pair(struct tree *tree, struct view *view, struct entry_pair *pair);
/* What an overlay leaves in place of a name to hide one below: a device with the number 0. */
int entry_leave_whiteout(struct tree *tree, const struct inode *dir, struct bytes name,
			 struct batch *batch);

/* happened.c, under tree.lock for writing */

/* A name has come (EVENT_SAVE), or gone. */
void name_happened(struct notes *notes, struct tree *tree, enum event_what what,
		   struct inode *inode, const struct inode *dir, struct bytes name);
/* A rename, also for the kernel.  One that replaces the content of a file is a save of that
 * file. */
void pair_happened(struct notes *notes, struct tree *tree, const struct entry_pair *pair);

/* entry.c again */

/* key_heed() for all of the session that a directory is or lies in, if any. */
int session_heed(struct tree *tree, const struct view *view, struct inode *dir);
/* 0; -ESTALE: the session that a directory is or lies in may have rows without files. */
int rest_heed_session(struct tree *tree, struct inode *dir);
bool rest_may_come(struct tree *tree, struct inode *dir);
/* 1 when a directory has no entries. */
int dir_is_empty(struct view *view, uint64_t ino);

/* namespace.c: the error of a change of a name; what a question shows is read-only. */
int name_refused(struct bytes name, int error);

/* listing.c */

enum { LIST_DOTS = 2 /* "." and ".." have the positions 1 and 2 */ };
int list_dots(uint64_t ino, uint64_t parent, uint64_t position, tree_entry_fn *fn, void *arg);
struct dates;
/* rename-dates.c: how rows of this kind are dated that come to be by a rename to a name. */
int dates_of_moved(struct tree *tree, struct view *view, struct inode *inode, uint32_t kind,
		   struct inode *dir, struct bytes name, struct dates *ret_dates,
		   struct batch *batch);
/* A transcript that gets the name of the packed or the plain one beside it gets the session's
 * ttl. */
int ttl_of_moved(struct tree *tree, struct view *view, struct inode *inode, struct inode *dir,
		 struct bytes name, struct batch *batch);

/* rename.c: make the file of a name what its path says, as if it had been moved there: 1, or 0 when
 * it is that already.  No lock is held. */
int tree_place_anew(struct tree *tree, struct inode *dir, struct bytes name);
/* namespace.c: make the directories of a path but for its last name.  Of those that are made, the
 * last one gets the mode and owner of the directory like, and so on upwards.  *ret_dir is counted;
 * -ENOTDIR.  No lock is held. */
int tree_make_above(struct tree *tree, struct bytes path, const struct inode *like,
		    struct inode **ret_dir, struct bytes *ret_name);
/* away.c: a missing name by which the thread's process has a save open that was renamed away: make
 * it again.  -ENOENT. */
int away_find(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
	      struct inode **ret_inode);
struct taking;
/* Before a rename, under tree.lock for writing: put the save that the thread takes into the file,
 * in a view that ends and begins again.  After it, without a lock: saves that others have closed by
 * the name and not renamed yet get it again. */
int away_take(struct tree *tree, struct view *view, const struct entry_pair *pair, pid_t pid,
	      struct taking *taking, struct notes *notes);
void away_put_others(struct tree *tree, struct inode *dir, struct bytes name,
		     struct taking *taking);
/* move-dir.c: make a directory the session that its path says, or none; clear: only if it is none
 * any more, or another one.  And whether a file of a name is a state there. */
int tree_place_dir(struct tree *tree, struct inode *dir, struct bytes name, bool clear);
bool tree_place_is_state(struct tree *tree, struct inode *dir, struct bytes name);

/* place.c: the kind of a regular file of that name. */
uint32_t place_kind(const struct tree *tree, struct inode *dir, struct bytes name);
/* A node as it is under a name in a directory, with bytes of its own.  -EINVAL: a state file would
 * be ordinary there, or an ordinary one a state file. */
int node_placed(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		const struct backend_node *node, struct backend_node *ret_node);

/* A directory's node after a change of its entries, and taking it over after the commit. */
void dir_changed(struct inode *dir, int links, struct backend_node *ret_node);
/* Put only that change into a batch. */
void batch_dir(struct batch *batch, const struct backend_node *before,
	       const struct backend_node *node);
void dir_apply(struct inode *dir, const struct backend_node *node);
/* Directories that names come to or go from, each once. */
struct changed_dirs {
	struct changed_dir *item;
	size_t count;
	size_t room;
};
/* The inode is borrowed. */
int changed_dirs_add(struct changed_dirs *dirs, struct inode *dir, int links);
void changed_dirs_emit(const struct changed_dirs *dirs, struct batch *batch);
/* After the commit. */
void changed_dirs_apply(const struct changed_dirs *dirs);
void changed_dirs_done(struct changed_dirs *dirs);

/* Conditions of a batch that makes or moves something into a directory: where that lies, up to the
 * root. */
void guard_dirs(const struct inode *dir, struct batch *batch);

/* move-dir.c: for quotas, move the size of a file or directory from one directory (NULL: it has no
 * name yet) to another one. */
int move_grows(struct tree *tree, struct view *view, struct inode *inode, struct inode *from,
	       struct inode *to, struct batch *batch);

void node_unlinked(struct backend_node *node);
/* After the commit: set an inode's node; the bytes are borrowed. */
void node_apply(struct inode *inode, const struct backend_node *node);
/* An inode loses a name. */
struct unlinking {
	struct tree *tree;
	struct inode *inode;
	uint64_t left;		  /* the directory where it counts from now on, or 0 */
	uint64_t entry;		  /* set before: of the name that goes */
	struct backend_node node; /* as it will be */
	bool gone;		  /* it will be deleted from the store */
	bool empty;		  /* set before: a state file's rows are gone already */
	bool hide;		  /* set before: only its name goes now, and its content with the
				     last count of the inode */
	bool orphaned;		  /* stage has its bytes, for handles of it */
	struct bytes path;	  /* set before: it goes into the trash under it; data NULL: no */
	struct stage stage;
};
/* Add the operations; inode may be a ghost already; keep_rows: another file takes the rows over. */
int unlinking_begin(struct tree *tree, struct view *view, struct inode *inode, bool keep_rows,
		    struct unlinking *unlinking, struct batch *batch);
void unlinking_apply(struct unlinking *unlinking);
void unlinking_done(struct unlinking *unlinking);

#endif
