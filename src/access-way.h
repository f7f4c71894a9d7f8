/* SPDX-License-Identifier: MIT */
#ifndef ACCESS_WAY_H
#define ACCESS_WAY_H

/*
 * The two ways to the files of a store: through its mount (access-mount.c), and by a tree in this
 * process (access-tree.c).  access.c chooses one, and makes of these calls what it offers.
 */

#include "src/access.h"

struct inode;
struct handle;

/* A name in a directory: what the calls below work on.  The name is empty for the root. */
struct access_place {
	const char *name; /* in the path */
	int fd;		  /* the directory, each way in its own terms */
	struct inode *dir;
};

struct access_file {
	struct access *access;
	int fd;
	struct handle *handle;
	uint64_t offset; /* of what comes next */
	/* ACCESS_FILE_REPLACE: */
	char *path;	  /* that it is to have; NULL: not replacing */
	char *temporary;  /* that it has until then */
	size_t made;	  /* so many of the path's directories were made for it, the last ones */
	struct stat like; /* attributes that it will have: */
	unsigned set;	  /* enum access_set; 0: nothing to keep */
	bool later;	  /* it need not be durable yet */
};

struct access_way {
	/* A directory may be kept for what comes next (access_target_place()): nobody else moves
	 * it. */
	bool keeps_dirs;
	void (*close)(struct access *access);
	/* The directory that a path is in; each one ends with done(). */
	int (*place)(struct access *access, const char *path, struct access_place *ret_place);
	void (*done)(struct access *access, struct access_place *place);

	int (*stat)(struct access *access, const struct access_place *place, struct stat *ret_stat);
	int (*list)(struct access *access, const struct access_place *place, bool with_stat,
		    access_entry_fn *fn, void *arg);
	int (*make_dir)(struct access *access, const struct access_place *place, mode_t mode);
	int (*remove)(struct access *access, const struct access_place *place, bool dir);
	/* Anything but a regular file; see access_make(). */
	int (*make)(struct access *access, const struct access_place *place,
		    const struct access_new *what);
	int (*link)(struct access *access, const struct access_place *from,
		    const struct access_place *to);
	/* Appended to target. */
	int (*read_link)(struct access *access, const struct access_place *place,
			 struct buf *target);
	int (*set_attr)(struct access *access, const struct access_place *place,
			const struct stat *st, unsigned mask);
	/* As access_list_xattr() and so on have it; a value without data is removed. */
	int (*list_xattr)(struct access *access, const struct access_place *place,
			  struct buf *names);
	int (*get_xattr)(struct access *access, const struct access_place *place, const char *name,
			 struct buf *value);
	int (*set_xattr)(struct access *access, const struct access_place *place, const char *name,
			 const struct bytes *value);
	/* All that was done is to survive power loss. */
	int (*sync)(struct access *access);
	/* From one name to another in the same directory. */
	int (*rename)(struct access *access, const struct access_place *from, const char *to);

	int (*order)(struct access *access, struct bytes order);

	/* flags are those of open(2); the mode is for a new file, as the umask leaves it. */
	int (*open)(struct access *access, const struct access_place *place, int flags, mode_t mode,
		    struct access_file *file);
	/* From file->offset on; as read(2) and write(2). */
	ssize_t (*read)(struct access_file *file, void *data, size_t size);
	ssize_t (*write)(struct access_file *file, struct bytes data);
	/* Attributes as another file has them. */
	int (*dress)(struct access_file *file, const struct stat *like, unsigned mask);
	/* Publish, and sync if that is wanted; an error of either.  Closes in any case. */
	int (*finish)(struct access_file *file, bool sync);
	/* Close without publishing what is not published. */
	void (*drop)(struct access_file *file);
};

struct access {
	const struct access_way *way;
	int root;		 /* of the mount */
	struct tree *tree;	 /* or NULL */
	struct access_dir *kept; /* that the last path was in, or NULL */
};

/* "a//b/./c/" becomes "a/b/c". */
int access_clean(const char *path, char **ret_clean);

/* A directory that several targets share. */
struct access_dir {
	unsigned users;
	struct access_place place;
	char path[]; /* of it */
};
/* A directory goes: none is kept. */
void access_forget_dir(struct access *access);

/* A path, cleaned, with its place.  A zeroed one is done with. */
struct access_target {
	struct access *access;
	char *path;
	struct access_place place;
	struct access_dir *dir; /* NULL: not placed */
};

int access_target_find(struct access *access, const char *path, struct access_target *target);
/* The same for one that has its path already. */
int access_target_place(struct access_target *target);
int access_target_stat(struct access_target *target, struct stat *ret_stat);
void access_target_done(struct access_target *target);

/* Make the directories on a path that are missing; *made counts them. */
int access_make_parents(struct access *access, const char *path, size_t *made);

/* A file, or an empty directory. */
int access_remove_one(struct access *access, const char *path, bool dir);

/* -ENOENT when there is no mount of the store that can be used for this; *ret_why may then say
 * which one there is that cannot. */
int access_mount_open(struct access *access, const char *store, unsigned flags, char **ret_why);
/* Have the daemon put into the store's file what it holds back. */
int access_mount_settle(struct access *access);
int access_tree_open(struct access *access, const char *store, unsigned flags,
		     const struct options *options, char **ret_why);

/* Split a path at its last component: the directory's length, and the name behind it.  Slashes at
 * the end have gone already. */
static inline const char *access_split(const char *path, size_t *ret_dir)
{
	const char *slash = strrchr(path, '/');

	*ret_dir = slash ? (size_t)(slash - path) : 0;
	return slash ? slash + 1 : path;
}

#endif
