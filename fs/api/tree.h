/* SPDX-License-Identifier: MIT */
#ifndef FS_API_TREE_H
#define FS_API_TREE_H

/*
 * The tree: sessions as directories and files, over a store.
 *
 * The kernel side calls nothing else.  A struct inode is a file that is in memory; it is counted:
 * functions that hand one out (ret_inode) count it once more, inode_forget() gives counts back.  A
 * struct handle is an open file; it counts its inode.
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

#include "fs/api/tree-options.h"
#include "backend/base/buf.h"

struct inode;
struct handle;

/* Nodeids: a state file that is read and written at once has several (fs/cache/cache.h); the first
 * face's is the inode's number. */
uint64_t nodeid_ino(uint64_t nodeid);
unsigned nodeid_face(uint64_t nodeid);
uint64_t inode_nodeid(const struct inode *inode, unsigned face);

/* What a name is answered with. */
struct shown {
	uint64_t nodeid;
	struct stat st;
	bool own;   /* the kernel must not cache the attributes */
	bool just;  /* but it may for a moment */
	bool brief; /* nor what the name leads to */
};

/* The user that asks. */
struct caller {
	uid_t uid;
	gid_t gid;
};

/*
 * Is notified of changes to what the kernel may have cached; set with tree_set_watcher().  Called
 * from a thread of the tree or of the caller, never with a lock of the tree held.  The watcher
 * knows whether the kernel holds a nodeid.
 */
struct tree_watcher {
	/* Forget the attributes, and the pages from offset on unless that is negative.  Returns
	 * whether the kernel holds the nodeid.  If not, the kernel may be about to receive an
	 * answer with old attributes, so this is called once more, a second later. */
	bool (*forget)(void *arg, uint64_t nodeid, int64_t offset);
	/* The file is size bytes long and ends in this one. */
	void (*grown)(void *arg, uint64_t nodeid, uint64_t size, char last);
	/* The name now means something else, or something where nothing was; same: the same file,
	 * but perhaps by another nodeid. */
	void (*entry)(void *arg, uint64_t parent, struct bytes name, bool same);
	/* Whether the kernel holds the nodeid; notifies nothing. */
	bool (*holds)(void *arg, uint64_t nodeid);
	/* Any name may mean something else. */
	void (*all_names)(void *arg);
	unsigned at_once; /* how many callers of the tree may call these at a time */
	void *arg;
};
/* Without arg: returns when no thread calls the previous watcher any more. */
void tree_set_watcher(struct tree *tree, const struct tree_watcher *watcher);
/* Whether a thread calls the watcher, or is about to. */
bool tree_is_notifying(struct tree *tree);
/* Notify the watcher once more of changes to a file that the kernel did not hold then: an answer
 * from before the change may have reached it since. */
void tree_tell_missed(struct tree *tree, uint64_t ino);
/* Call a function when the watcher has been notified of all that was noted before: at once, or in a
 * thread of the tree.  The bytes of arg are copied. */
typedef void tree_notified_fn(void *owner, void *arg);
void tree_when_notified(struct tree *tree, tree_notified_fn *function, void *owner, const void *arg,
			size_t size);
/* Say that the kernel can map files with handles that bypass the page cache. */
void tree_set_direct_mmap(struct tree *tree, bool can);

/* Reading a list through a question may take long: this thread then calls the function now and
 * then, and the read fails with -EINTR once it returns true, i.e. once the request is given up.
 * NULL: that is not known. */
typedef bool tree_given_up_fn(void *arg);
void tree_give_up_when(tree_given_up_fn *fn, void *arg);

bool tree_is_read_only(const struct tree *tree);
/* Whether other mounts have the store, so that a name may appear without a request to this one. */
bool tree_is_shared(struct tree *tree);
/* Whether another mount has removed a name of a file by which a thread may have reached it: the
 * thread must look the name up again (-ESTALE), which this says once.  flags: those of its open;
 * O_PATH: it changes attributes.  If it has a descriptor of the file, it came by that, and cannot
 * look up again. */
bool tree_was_left(struct tree *tree, struct inode *inode, uint64_t nodeid, int flags, pid_t pid);
/* A thread has looked a name up.  If that leads nowhere (NULL), the thread does not come back for
 * the file; if it leads to another file, it comes back for that one. */
void tree_found(struct tree *tree, pid_t pid, const struct inode *inode);
/* Take in what other mounts have changed by now: 0; or -errno, and what is cached may be old. */
int tree_take_in(struct tree *tree);
/* Tell other mounts which locks this mount holds of a file, an array of struct backend_lock;
 * checked: -EAGAIN when one of theirs is in the way, and then nothing has changed. */
int tree_tell_locks(struct tree *tree, uint64_t ino, struct bytes locks, bool checked);
/* A lock of another mount that is in the way.  -ENOENT. */
int tree_find_lock(struct tree *tree, uint64_t ino, const struct backend_lock *lock,
		   struct backend_lock *ret_lock);
/* Whether this mount holds locks that other mounts do not know yet: backend_shared.hold. */
int tree_hold_locks(struct tree *tree, bool pending);
/* A number that changes when other mounts have ended this one, with its locks
 * (backend_ops.lease). */
uint64_t tree_lease(struct tree *tree);

/* Inodes. */
/* The inode that the kernel knows under this nodeid, not counted again: for callers that hold a
 * count already.  NULL when it has no count. */
struct inode *tree_inode(struct tree *tree, uint64_t nodeid);
uint64_t inode_number(const struct inode *inode);
/* Whether the file is a view over rows. */
bool inode_is_state(const struct inode *inode);
/* Whether it shows another file through a question: names may appear in such a directory without a
 * notice to the watcher. */
bool inode_is_window(const struct inode *inode);
/* What an ordinary file is, judged by its name. */
enum tree_memory {
	TREE_NO_MEMORY,
	TREE_MEMORY,	   /* only memory that processes share by mapping it */
	TREE_BESIDE_MEMORY /* written under locks that are in such memory */
};
enum tree_memory tree_memory_by_name(struct tree *tree, struct inode *inode);
/* Remember that a process has asked for a lock of the file. */
void inode_set_locked(struct inode *inode);
bool inode_was_locked(const struct inode *inode);
/* Drop so many counts; inode may be NULL. */
void inode_forget(struct tree *tree, struct inode *inode, uint64_t count);
/* The kernel will get a nodeid of the inode, which it counts; and has forgotten so many, which are
 * counts of the inode, too.  From these the tree knows that file watches, bind mounts and
 * descriptors hold the inode beside its name. */
void inode_hold(struct inode *inode, uint64_t nodeid);
/* The kernel will not get the nodeid after all. */
void inode_let_go(struct inode *inode, uint64_t nodeid);
void tree_forget(struct tree *tree, struct inode *inode, uint64_t nodeid, uint64_t count);

/* Names. */
int tree_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode);
/* The same for thread pid: a thread that must look a view up again gets a window of its own. */
int tree_lookup_by(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
		   struct inode **ret_inode);
/* The file that has this nodeid, and the directory that such a directory is in, also when they have
 * no count.  -ESTALE: there is no such file (any more). */
int tree_find(struct tree *tree, uint64_t nodeid, struct inode **ret_inode);
int tree_find_parent(struct tree *tree, uint64_t nodeid, struct inode **ret_inode);
/* What the last name of a file leads to now.  -ESTALE: that name is not known. */
int tree_find_again(struct tree *tree, struct inode *inode, struct inode **ret_inode);
/* Whether this is the second try of a thread that got ESTALE: it comes to the nodeid that a name
 * has led it to since, or without a look-up to the same.  If it comes elsewhere, the second try has
 * ended without an open (the name was gone), and this is a first one. */
bool tree_opens_again(struct tree *tree, pid_t pid, uint64_t nodeid);
/* A file of the type and permissions in mode; target is a symbolic link's, otherwise empty.
 * will_save: the caller opens it next for writing that does not only append, so its first save may
 * continue a file of that name that was unlinked a moment ago. */
struct tree_new {
	mode_t mode;
	dev_t rdev;
	struct bytes target;
	bool will_save;
	bool will_open; /* the caller opens it next: it stays until then, also without a name */
};
int tree_make(struct tree *tree, const struct caller *caller, struct inode *dir, struct bytes name,
	      const struct tree_new *what, struct inode **ret_inode);
/* An ordinary file without a name, which the caller opens next: dir decides only its group and
 * which quota counts it.  The first tree_link() may give it any name, also that of a state file. */
int tree_make_nameless(struct tree *tree, const struct caller *caller, struct inode *dir,
		       mode_t mode, struct inode **ret_inode);
int tree_link(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name);
/* Its first name; another file that has this name loses it, as by a rename. */
int tree_name(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name);
int tree_unlink(struct tree *tree, struct inode *dir, struct bytes name);
int tree_rmdir(struct tree *tree, struct inode *dir, struct bytes name);
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE. */
int tree_rename(struct tree *tree, struct inode *dir, struct bytes name, struct inode *dir_to,
		struct bytes name_to, unsigned flags);
/* The same by thread pid: of several saves by one temporary name it takes its own. */
int tree_rename_by(struct tree *tree, struct inode *dir, struct bytes name, struct inode *dir_to,
		   struct bytes name_to, unsigned flags, pid_t pid);
int tree_readlink(struct tree *tree, struct inode *inode, struct buf *target);

/* One entry of a directory, position is where to go on.  Returns 0 to go on, 1 to stop before
 * this entry. */
typedef int tree_entry_fn(void *arg, struct bytes name, struct inode *inode,
			  const struct shown *shown, uint64_t position);
/* Entries behind position (0: from the beginning) up to the position end, "."  and ".."  first.
 * With with_inodes each entry but "."  and ".."  is handed out with its inode, counted once if fn
 * returns 0; without, inode is NULL and only st_ino and the type in st_mode are set.  Entries that
 * cannot be shown (sound.h) are left out; then -EUCLEAN is returned after the others. */
int tree_list(struct tree *tree, struct inode *dir, uint64_t position, uint64_t end,
	      bool with_inodes, tree_entry_fn *fn, void *arg);
/* The same for a caller that has room for so many at the most: no more are read at a time.  A file
 * that is being saved at that moment is listed without an inode, instead of waiting for the
 * save. */
int tree_list_some(struct tree *tree, struct inode *dir, uint64_t position, uint64_t end,
		   size_t most, bool with_inodes, tree_entry_fn *fn, void *arg);
/* The position of the newest entry: a listing that goes no further ends, although others enter and
 * rename files meanwhile. */
uint64_t tree_list_end(struct tree *tree);

/* Attributes. */
/* As published. */
int tree_stat(struct tree *tree, struct inode *inode, struct stat *ret_stat);
/* As a face shows it: a writer that is saving sees the size of what was written so far.  pid: the
 * thread that asks, or 0.  *ret_own: the kernel must not cache the answer.  -ESTALE: look the name
 * up again. */
int tree_stat_face(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
		   struct stat *ret_stat, bool *ret_own);
/* The answer to a lookup by thread pid: by a name (FACE_ANY), or of a face. */
int tree_enter(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
	       struct shown *ret_shown);

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
struct set_attr {
	unsigned face;
	struct handle *handle; /* by which the size is set, or NULL */
	pid_t pid;
	const struct stat *st;
	unsigned mask;
};
/* -ESTALE: look the name up again.  *ret_own as for tree_stat_face(). */
int tree_set_attr(struct tree *tree, struct inode *inode, const struct set_attr *set,
		  struct stat *ret_stat, bool *ret_own);
/* A user other than root has changed the bytes: setuid and setgid go.  in_group tells whether the
 * user is in a group; it is called with locks of the tree held. */
typedef bool tree_group_fn(void *arg, gid_t gid);
int tree_drop_setuid(struct tree *tree, struct inode *inode, tree_group_fn *in_group, void *arg);
/* Of the session that the file belongs to, if that has a quota; otherwise, or for NULL, of the
 * store. */
int tree_statfs(struct tree *tree, struct inode *inode, struct statvfs *ret_statvfs);

/* Of the root of a mount that is a view, never listed: the question. */
#define VIEW_ATTRIBUTE "user.sessfs.view"
/* flags: XATTR_CREATE, XATTR_REPLACE. */
int tree_set_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct bytes value,
		   int flags);
/* Appended to value. */
int tree_get_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct buf *value);
/* Names, each with a NUL behind it, appended to names. */
int tree_list_xattr(struct tree *tree, struct inode *inode, struct buf *names);
int tree_remove_xattr(struct tree *tree, struct inode *inode, struct bytes name);

/* Before a file is opened on a store that other mounts have as well: take in what they have changed
 * by now, and mark the file as in use, so that none of them removes it.  -errno: it is not marked,
 * and what is cached may be old. */
int tree_use(struct tree *tree, struct inode *inode);
void tree_use_end(struct tree *tree, struct inode *inode);

/* Open files; flags are those of open(2), with O_CREAT if the file was made for this open, pid is
 * the thread that opens.  -ESTALE: look the name up again, since the file was replaced or the
 * thread must open another face.  FACE_ANY: the tree chooses the face, and handle_show() says
 * which. */
enum { FACE_ANY = 0x10000 };
int tree_open_file(struct tree *tree, struct inode *inode, unsigned face, int flags, pid_t pid,
		   struct handle **ret_handle);
uint64_t handle_nodeid(const struct handle *handle);
/* The answer for a file that was created or found, and opened. */
int handle_show(struct tree *tree, struct handle *handle, struct shown *ret_shown);
/* Whether reads and writes must bypass the page cache. */
bool handle_is_direct(const struct handle *handle);
/* A thread is about to read by the handle. */
void handle_read_by(struct handle *handle, pid_t pid);
/* At most size bytes from offset, appended to out. */
int handle_read(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out);
/* As handle_read(), for a page of the kernel's cache. */
int handle_fill(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out);
/* Returns how many bytes were taken: all, or less when the rest was refused.  pid: the thread that
 * writes; HANDLE_PAGES: the kernel writes back pages of a shared mapping. */
enum { HANDLE_PAGES = -1 };
/* For a process of another pid namespace the kernel does not say a pid, but at a write and at a
 * close it says the owner of its locks.  This stands for its threads then; PROCESS_UNSEEN where the
 * kernel does not say that either. */
enum { PROCESS_UNSEEN = -2 };
static inline pid_t process_unseen(uint64_t owner)
{
	return PROCESS_UNSEEN - 1 - (pid_t)(owner % (1 << 30));
}
ssize_t handle_write(struct tree *tree, struct handle *handle, pid_t pid, uint64_t offset,
		     struct bytes data);
/* flags: those of the descriptor by now, since fcntl(2) can give it O_APPEND and take it away. */
enum { HANDLE_AS_BEFORE = -1 };
ssize_t handle_write_as(struct tree *tree, struct handle *handle, int flags, pid_t pid,
			uint64_t offset, struct bytes data);
/* Publish what the handle holds back: at each close of a descriptor by thread pid.  A process that
 * has only inherited the descriptor from the one that writes publishes nothing when it closes
 * it. */
int handle_flush(struct tree *tree, struct handle *handle, pid_t pid);
/* The same; and what was written to a temporary file that others have renamed away gets its
 * name. */
int tree_flush(struct tree *tree, struct handle *handle, pid_t pid);
/* The process has got a lock of the file by this handle: the handle's next read, at any offset,
 * sees the newest content. */
void handle_lock_granted(struct tree *tree, struct handle *handle);
/* The lease of the mount under which the lock was got, while it is held or if it was lost with that
 * lease; 0: there was none. */
uint64_t handle_lock_lease(struct handle *handle);
/* The process holds no lock by the handle any more.  A handle that has lost one with the lease is
 * refused all writes until it is closed. */
void handle_locks_over(struct tree *tree, struct handle *handle);
/* The process is about to give up its lock: publish what it has staged by this handle, if that is
 * whole.  The lock may be released when the kernel is notified (tree_when_notified()), also after
 * an error, as at a close. */
int handle_unlocking(struct tree *tree, struct handle *handle);
/* handle may be NULL (a directory). */
int handle_sync(struct tree *tree, struct handle *handle);
/* As fdatasync(2): times may come later. */
int handle_sync_data(struct tree *tree, struct handle *handle);
int handle_allocate(struct tree *tree, struct handle *handle, int mode, uint64_t offset,
		    uint64_t size);
/* whence: SEEK_DATA or SEEK_HOLE. */
int handle_seek(struct tree *tree, struct handle *handle, uint64_t offset, int whence,
		uint64_t *ret_offset);
/* Publish what is left.  Returns the handle if it must be freed later, when the kernel has been
 * answered, since the kernel holds the file until then; NULL: it is freed. */
struct handle *handle_finish(struct tree *tree, struct handle *handle);
/* Both at once. */
void handle_free(struct tree *tree, struct handle *handle);
/* Free at the end of a mount, when the writer has not closed: a save that is not finished is
 * dropped, so that the previous content stays whole; an unfinished line is kept as it is. */
void handle_abandon(struct tree *tree, struct handle *handle);
struct inode *handle_inode(struct handle *handle);
/* The inode by which it was opened: for a file that is shown through a question, the window, not
 * the file that has the bytes. */
struct inode *handle_opened(struct handle *handle);

#endif
