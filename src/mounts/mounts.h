/* SPDX-License-Identifier: MIT */
#ifndef MOUNTS_H
#define MOUNTS_H

/*
 * What is mounted where, and how to end it.
 *
 * A mount whose daemon was killed answers ENOTCONN to everything, and one that hangs does not
 * answer at all, so the functions here take absolute paths and look into the table of the kernel.
 */

#include <stdbool.h>
#include <sys/types.h>

/* The type that the kernel shows for our mounts. */
#define MOUNTS_TYPE "fuse.sessfs"

struct mount_entry {
	char *type;
	char *source;
	char *root;  /* the part of the filesystem that is mounted; "/": all of it */
	char *point; /* the mount point */
	bool read_only;
	int id;		 /* the kernel's number of the mount */
	unsigned device; /* the minor number of st_dev, and for FUSE of the connection */
	uid_t user;	 /* user that has mounted it, for FUSE; otherwise -1 */
};

/* All mounts of the kernel's table, in its order: a later one hides an earlier one on the same
 * path.  The entry is borrowed.  fn returns 0 to go on; any other value is the result. */
typedef int mounts_fn(void *arg, const struct mount_entry *entry);
int mounts_each(mounts_fn *fn, void *arg);
/* The same for the mounts that another process sees, with paths as it sees them. */
int mounts_each_of(long pid, mounts_fn *fn, void *arg);

/* The path from the root.  Links are followed, also in the last component if it answers; it need
 * not exist.  0 or -errno. */
int mounts_absolute(const char *path, char **ret_path);
/* The name of a store in the table: the path, or for a URL its name (backend_name()).  0, or -errno
 * and a sentence. */
int mounts_store(const char *store, char **ret_name, char **ret_why);
/* As mounts_absolute(), without touching what the last component names.  -EINVAL when that is not a
 * name. */
int mounts_absolute_unasked(const char *path, char **ret_path);

/* The mounts of the table that fit, in its order, behind those that a list has. */
struct mount_list {
	struct mount_entry *entries;
	size_t count, room;
};
typedef bool mounts_fits(const void *arg, const struct mount_entry *entry);
int mounts_list(mounts_fits *fits, const void *arg, struct mount_list *list);
void mount_list_done(struct mount_list *list);
/* The last one that fits.  -ENOENT: none does.  Free with mount_entry_done(). */
int mounts_last(mounts_fits *fits, const void *arg, struct mount_entry *ret_entry);
/* Likewise the topmost one on this absolute path. */
int mounts_find(const char *path, struct mount_entry *ret_entry);
void mount_entry_done(struct mount_entry *entry);

/* The root of the mount as a descriptor, if its path still leads to it and its daemon lives:
 * -ENOTCONN otherwise, -EACCES when it does not let us in. */
int mounts_open(const struct mount_entry *entry);

/* Have the daemon sync all that was written.  0; 1 when it cannot be asked, since it is dead or
 * does not let us in; -ETIMEDOUT when it has not answered after limit milliseconds, and then the
 * mount may stay busy until it does; another -errno when it fails. */
int mounts_sync(const struct mount_entry *entry, int limit);

/* Unmount; with lazily also when it is busy or its daemon is dead.  0, -EBUSY, or another -errno
 * with a sentence in *ret_why (owned by the caller; also for -EBUSY). */
int mounts_end(const char *path, bool lazily, char **ret_why);

/* Detach the topmost mount on the path if it is one of ours whose daemon is dead, and not one that
 * another process puts there meanwhile.  1 when there was one; 0; -errno as above. */
int mounts_end_dead(const char *path, char **ret_why);

/* Detach the topmost mount on the path if it is one of ours, dead or alive, and the path still
 * leads to it: the owner of a directory above it may have put a link there.  0, -errno. */
int mounts_end_ours(const char *path, char **ret_why);

/* Fits a mount of ours of the store with this name (mounts_store()). */
bool mounts_is_of(const void *store, const struct mount_entry *entry);
/* For mounts_last(): whether an entry is a mount of the same daemon as another, of which the device
 * may be 0: not known.  The kernel gives a number that is free to the next mount, and a daemon may
 * end later than that, so the stores count, too. */
bool mounts_same(const void *known, const struct mount_entry *entry);
/* True when the filesystem with this st_dev is a mount of ours that shows this store; it does not
 * matter where it is mounted, or by which path the store was named. */
bool mounts_shows(dev_t device, const char *store);

/* The user that has mounted something can give it the name of any store, so trust only root,
 * ourselves, and the owner of the store, which may do anything with the store anyway. */
bool mounts_is_believed(const struct mount_entry *entry);

/* Abort the connection with this number (struct mount_entry, device): the mount stays, and answers
 * ENOTCONN.  0; -EPERM when only root can; another -errno. */
int mounts_abort(unsigned device);

/* Wait until no mount owns the store any longer; false when one still does after limit
 * milliseconds. */
bool mounts_wait_unowned(const char *store, int limit);

#endif
