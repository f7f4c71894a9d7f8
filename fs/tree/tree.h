/* SPDX-License-Identifier: MIT */
#ifndef FS_TREE_TREE_H
#define FS_TREE_TREE_H

/* The door of this room: names, and what lies under them. */

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
/* The same for a batch that depends on it: who is known to have the name is not asked for, and the
 * view may not have begun then. */
int entry_recall(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		 uint64_t *ret_id, struct inode **ret_inode);
/* entry_look(), with the size of a state file that nobody is using. */
int entry_look_measured(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
			uint64_t *ret_id, struct inode **ret_inode);
/* The same of a name alone; no lock is held. */
int name_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode);
/* The two entries of a rename, in a view that begins with them and has what it reads of small
 * files. */
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
/* What an overlay puts where a name was to hide one below: a device of the number 0. */
int entry_leave_whiteout(struct tree *tree, const struct inode *dir, struct bytes name,
			 struct batch *batch);

/* happened.c, under tree.lock for writing */

/* A name has come (EVENT_SAVE), or gone. */
void name_happened(struct notes *notes, struct tree *tree, enum event_what what,
		   struct inode *inode, const struct inode *dir, struct bytes name);
/* A rename, also to the kernel.  One that replaces what a file has is a save of that file. */
void pair_happened(struct notes *notes, struct tree *tree, const struct entry_pair *pair);

/* entry.c again */

/* key_heed() for all of the session that a directory is or lies in, if any. */
int session_heed(struct tree *tree, const struct view *view, struct inode *dir);
/* 0; -ESTALE: the session that a directory is or lies in may have rows without files. */
int rest_heed_session(struct tree *tree, struct inode *dir);
bool rest_may_come(struct tree *tree, struct inode *dir);
/* 1 when a directory has no entries. */
int dir_is_empty(struct view *view, uint64_t ino);

/* namespace.c: a change of a name answers this; what a question shows can only be read. */
int name_refused(struct bytes name, int error);

/* listing.c */

enum { LIST_DOTS = 2 /* "." and ".." have the positions 1 and 2 */ };
int list_dots(uint64_t ino, uint64_t parent, uint64_t position, tree_entry_fn *fn, void *arg);
/* tree_list() of what is no window, without inodes. */
int list_names(struct tree *tree, struct inode *dir, uint64_t position, uint64_t end,
	       tree_entry_fn *fn, void *arg);
/* rename.c: the file of a name becomes what its path says, as if it had been moved there: 1, or 0
 * when it is that already.  No lock is held. */
int tree_place_anew(struct tree *tree, struct inode *dir, struct bytes name);
/* namespace.c: the directories of a path, and its last name, which may be missing.  Of those that
 * are made, the last one gets the mode and owner of a directory, and so on upwards.  *ret_dir is
 * counted; -ENOTDIR.  No lock is held. */
int tree_make_above(struct tree *tree, struct bytes path, const struct inode *like,
		    struct inode **ret_dir, struct bytes *ret_name);
struct away;
/* away.c: a file of its name has the content of a save; counted.  No lock is held. */
int away_put(struct tree *tree, struct away *away, enum notify_how how, struct inode **ret_inode);
/* A name that is not there, but by which the thread's process has a save open that is not in the
 * file any more: it is there from now on.  -ENOENT. */
int away_find(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
	      struct inode **ret_inode);
struct taking;
/* Before and behind a rename: what the thread takes, in a view that ends and begins again, under
 * tree.lock for writing; and what others have closed by the name and not renamed yet is there
 * again, no lock is held. */
int away_take(struct tree *tree, struct view *view, const struct entry_pair *pair, pid_t pid,
	      struct taking *taking, struct notes *notes);
void away_put_others(struct tree *tree, struct inode *dir, struct bytes name,
		     struct taking *taking);
/* move-dir.c: a directory becomes a session or none; clear: only if it is none any more, or another
 * one.  And whether a file of a name is a state there. */
int tree_place_dir(struct tree *tree, struct inode *dir, struct bytes name, bool clear);
bool tree_place_is_state(struct tree *tree, struct inode *dir, struct bytes name);

/* place.c: what a regular file of that name is there. */
uint32_t place_kind(const struct tree *tree, struct inode *dir, struct bytes name);
/* A node as it is under a name in a directory, with bytes of its own.  -EINVAL: a state
 * file would be none there, or an ordinary one would be one. */
int node_placed(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		const struct backend_node *node, struct backend_node *ret_node);

/* A directory's node after a change of its entries, and taking it over after the commit. */
void dir_changed(struct inode *dir, int links, struct backend_node *ret_node);
/* Put that into a batch, and nothing else of the directory. */
void batch_dir(struct batch *batch, const struct backend_node *before,
	       const struct backend_node *node);
void dir_apply(struct inode *dir, const struct backend_node *node);

/* What is made or moved into a directory depends on where that lies, up to the root. */
void guard_dirs(const struct inode *dir, struct batch *batch);

/* move-dir.c: what a file or directory comes to goes from a directory (NULL: it has no name yet) to
 * another one, for quotas. */
int move_grows(struct tree *tree, struct view *view, struct inode *inode, struct inode *from,
	       struct inode *to, struct batch *batch);

void node_unlinked(struct backend_node *node);
/* After the commit: an inode's node is this one now, of which the bytes are borrowed. */
void node_apply(struct inode *inode, const struct backend_node *node);
/* One name less for an inode. */
struct unlinking {
	struct tree *tree;
	struct inode *inode;
	uint64_t left;		  /* the directory in which it counts further on, or 0 */
	uint64_t entry;		  /* set before: of the name that goes */
	struct backend_node node; /* as it will be */
	bool gone;		  /* it will be deleted from the store */
	bool empty;		  /* set before: a state file's rows are gone already */
	bool hide;		  /* set before: only its name goes for now, and its content
				   * when nobody counts the inode any more */
	bool look;		  /* set before: something of that path is looked for */
	bool orphaned;		  /* stage has its bytes, for handles of it */
	bool claimed;		  /* other mounts leave it to this one */
	struct bytes path;	  /* set before: it goes into the trash under it; data NULL: no */
	struct stage stage;
};
/* Add the operations; inode may be a ghost already; keep_rows: another file takes the rows over. */
int unlinking_begin(struct tree *tree, struct view *view, struct inode *inode, bool keep_rows,
		    struct unlinking *unlinking, struct batch *batch);
void unlinking_apply(struct unlinking *unlinking);
void unlinking_done(struct unlinking *unlinking);

#endif
