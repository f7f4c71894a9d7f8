/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_TREE_H
#define FS_MODEL_TREE_H

/*
 * The tree: sessions as directories and files, over a store.
 *
 * This is all that the kernel side calls.  A struct inode is a file that somebody knows; it is
 * counted: functions that hand one out (ret_inode) count it once more, inode_forget() gives counts
 * back.  A struct handle is an open file; it counts its inode.
 *
 * Every function returns 0, a count where it says so, or -errno as POSIX has it for the system call
 * of that name; permission checks are the kernel's (default_permissions).  All functions may be
 * called from any thread; calls on one handle exclude each other.  Inputs are borrowed.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "fs/model/tree-options.h"
#include "src/base/buf.h"

struct inode;
struct handle;

/* Who asks. */
struct caller {
	uid_t uid;
	gid_t gid;
};

/*
 * What the tree tells about changes that the kernel may have cached, set with tree_set_watcher().
 * Called from a thread of the tree or of the caller, never with a lock of the tree held.  An inode
 * number is that of inode_number(); the watcher knows whether the kernel holds it.
 */
struct tree_watcher {
	/* The attributes, and the bytes from offset to the end.  now: the caller waits until the
	 * kernel knows, because the change must be seen when its request is answered; otherwise the
	 * caller may be serving a request that the kernel would have to finish first. */
	void (*content)(void *arg, uint64_t ino, uint64_t offset, bool now);
	/* The name now means something else, or something where nothing was; never now. */
	void (*entry)(void *arg, uint64_t parent, struct bytes name);
	void *arg;
};
void tree_set_watcher(struct tree *tree, const struct tree_watcher *watcher);

bool tree_is_read_only(const struct tree *tree);

/* Inodes. */
/* The inode with this number, not counted again: for callers that hold a count already.  NULL when
 * nobody counts it. */
struct inode *tree_inode(struct tree *tree, uint64_t ino);
uint64_t inode_number(const struct inode *inode);
/* Whether the file is a view over rows: its handles that write must bypass the page cache. */
bool inode_is_state(const struct inode *inode);
/* Whether a reader of a state file should bypass the page cache: a document, of which each reader
 * sees one version; or a list that somebody has open for writing, since the kernel's idea of its
 * size is then that of the writer. */
bool inode_reads_direct(struct tree *tree, struct inode *inode);
/* Say that the kernel may keep pages of the file from now on, so that writers tell it of
 * changes. */
void inode_set_cached(struct inode *inode);
/* Remember that somebody has asked for a lock of the file. */
void inode_set_locked(struct inode *inode);
bool inode_was_locked(const struct inode *inode);
void inode_forget(struct tree *tree, struct inode *inode, uint64_t count);

/* Names. */
int tree_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode);
/* A file of the type and permissions in mode; target is a symbolic link's, otherwise empty.
 * will_write: the caller opens it for writing next, so that its first save may follow on a file of
 * that name that was unlinked a moment ago. */
struct tree_new {
	mode_t mode;
	dev_t rdev;
	struct bytes target;
	bool will_write;
};
int tree_make(struct tree *tree, const struct caller *caller, struct inode *dir, struct bytes name,
	      const struct tree_new *what, struct inode **ret_inode);
int tree_link(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name);
int tree_unlink(struct tree *tree, struct inode *dir, struct bytes name);
int tree_rmdir(struct tree *tree, struct inode *dir, struct bytes name);
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE. */
int tree_rename(struct tree *tree, struct inode *dir, struct bytes name, struct inode *dir_to,
		struct bytes name_to, unsigned flags);
int tree_readlink(struct tree *tree, struct inode *inode, struct buf *target);

/* One entry of a directory, position is where to go on.  Returns 0 to go on, 1 to stop before
 * this entry. */
typedef int tree_entry_fn(void *arg, struct bytes name, struct inode *inode, const struct stat *st,
			  uint64_t position);
/* Entries behind position (0: from the beginning), "." and ".." first.  With with_inodes each
 * entry but "." and ".." is handed out with its inode, counted once if fn returns 0; without, inode
 * is NULL and only st_ino and the type in st_mode are set. */
int tree_list(struct tree *tree, struct inode *dir, uint64_t position, bool with_inodes,
	      tree_entry_fn *fn, void *arg);

/* Attributes. */
int tree_stat(struct tree *tree, struct inode *inode, struct stat *ret_stat);
/* As tree_stat(), as the thread pid sees it: a process that is saving the file sees the size of
 * what it has written so far.  *ret_own tells that this is so, and that the answer is nobody
 * else's. */
int tree_stat_for(struct tree *tree, struct inode *inode, pid_t pid, struct stat *ret_stat,
		  bool *ret_own);

enum tree_set {
	TREE_SET_MODE = 1 << 0,
	TREE_SET_UID = 1 << 1,
	TREE_SET_GID = 1 << 2,
	TREE_SET_SIZE = 1 << 3,
	TREE_SET_ATIME = 1 << 4,
	TREE_SET_MTIME = 1 << 5,
	TREE_SET_ATIME_NOW = 1 << 6,
	TREE_SET_MTIME_NOW = 1 << 7,
	TREE_SET_CTIME = 1 << 8,
};
/* Set what the mask says from st.  handle is the open file by which the size is set, or NULL; pid
 * and ret_own as for tree_stat_for(). */
int tree_set_attr(struct tree *tree, struct inode *inode, struct handle *handle, pid_t pid,
		  const struct stat *st, unsigned mask, struct stat *ret_stat, bool *ret_own);
int tree_statfs(struct tree *tree, struct statvfs *ret_statvfs);

/* flags: XATTR_CREATE, XATTR_REPLACE. */
int tree_set_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct bytes value,
		   int flags);
/* Appended to value. */
int tree_get_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct buf *value);
/* Names, each with a NUL behind it, appended to names. */
int tree_list_xattr(struct tree *tree, struct inode *inode, struct buf *names);
int tree_remove_xattr(struct tree *tree, struct inode *inode, struct bytes name);

/* Open files; flags are those of open(2).  -ESTALE when the file was replaced since it was looked
 * up: its name leads to another one by now. */
/* pid: the thread that opens. */
int tree_open_file(struct tree *tree, struct inode *inode, int flags, pid_t pid,
		   struct handle **ret_handle);
/* At most size bytes from offset, appended to out. */
int handle_read(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out);
/* Returns how many bytes were taken: all, or less when the rest was refused.  pid: the thread that
 * writes. */
ssize_t handle_write(struct tree *tree, struct handle *handle, pid_t pid, uint64_t offset,
		     struct bytes data);
/* Publish what the handle holds back: at each close of a descriptor by thread pid.  A process that
 * has only inherited the descriptor from the one that writes publishes nothing when it closes
 * it. */
int handle_flush(struct tree *tree, struct handle *handle, pid_t pid);
/* The process has got a lock of the file by this handle: what the handle reads next, wherever, is
 * the newest content. */
void handle_lock_granted(struct tree *tree, struct handle *handle);
/* The process is about to give up its lock: publish what it has staged by this handle, if that is
 * whole.  The lock may go when it returns and the watcher has done what it was told; with an error,
 * too, as at a close. */
int handle_unlocking(struct tree *tree, struct handle *handle);
/* handle may be NULL (a directory). */
int handle_sync(struct tree *tree, struct handle *handle);
int handle_allocate(struct tree *tree, struct handle *handle, int mode, uint64_t offset,
		    uint64_t size);
/* whence: SEEK_DATA or SEEK_HOLE. */
int handle_seek(struct tree *tree, struct handle *handle, uint64_t offset, int whence,
		uint64_t *ret_offset);
/* Publish what is left and free. */
void handle_free(struct tree *tree, struct handle *handle);
/* Free at the end of a mount, when the writer has not closed: a save that is not finished is
 * dropped, so that the previous content stays whole; an unfinished line is kept as it is. */
void handle_abandon(struct tree *tree, struct handle *handle);
struct inode *handle_inode(struct handle *handle);

#endif
