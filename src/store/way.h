/* SPDX-License-Identifier: MIT */
#ifndef ACCESS_WAY_H
#define ACCESS_WAY_H

/*
 * The two ways to the files of a store: through its mount (mount.c), and by a tree in this process
 * (tree.c).  access.c chooses one, and builds its own functions on these calls.
 */

#include "src/store/access.h"
#include "backend/base/cleanup.h"

struct inode;
struct handle;
struct access_news;

/* A name in a directory: what the calls below work on.  The name is empty for the root. */
struct access_place {
	struct access *access;
	const char *name; /* in the path */
	int fd;		  /* the directory: an open descriptor, or an inode of the tree */
	struct inode *dir;
	struct access_file *file; /* or a file that is open: for calls about attributes */
};

struct access_file {
	struct access *access;
	int fd;
	struct handle *handle;
	uint64_t offset; /* of the next read or write */
	/* ACCESS_FILE_REPLACE: */
	char *path;	  /* its path in the end; NULL: not replacing */
	char *temporary;  /* its name until then, in the same directory; NULL: none */
	size_t made;	  /* so many directories of the path, the last ones, were made for it */
	struct stat like; /* attributes that it will have: */
	unsigned set;	  /* enum access_set; 0: nothing to keep */
	bool dated;	  /* access_file_date() */
	bool hole;	  /* it ends in a hole */
	bool later;	  /* it need not be durable yet */
	bool compacts;	  /* its first byte is written last */
	char first;
};

struct access_way {
	void (*close)(struct access *access);
	/* A way has either place() or step(); each place ends with done().
	 * place(): the directory that a path is in.  step(): the root (from is NULL), or a
	 * directory in from; it stays open for the paths that follow, even if it is moved. */
	int (*place)(struct access *access, const char *path, struct access_place *ret_place);
	int (*step)(struct access *access, const struct access_place *from, struct bytes name,
		    struct access_place *ret_place);
	void (*done)(struct access *access, struct access_place *place);

	int (*stat)(const struct access_place *place, struct stat *ret_stat);
	int (*list)(const struct access_place *place, bool with_stat, access_entry_fn *fn,
		    void *arg);
	int (*remove)(const struct access_place *place, bool dir);
	/* Anything but a regular file; see access_make(). */
	int (*make)(const struct access_place *place, const struct access_new *what);
	int (*link)(const struct access_place *from, const struct access_place *to);
	/* Appended to target. */
	int (*read_link)(const struct access_place *place, struct buf *target);
	int (*set_attr)(const struct access_place *place, const struct stat *st, unsigned mask);
	/* As access_list_xattr() and so on; a value without data removes the attribute. */
	int (*list_xattr)(const struct access_place *place, struct buf *names);
	int (*get_xattr)(const struct access_place *place, const char *name, struct buf *value);
	int (*set_xattr)(const struct access_place *place, const char *name,
			 const struct bytes *value);
	/* Make all that was done durable. */
	int (*sync)(struct access *access);
	/* From one name to another in the same directory. */
	int (*rename)(const struct access_place *from, const char *to);

	int (*order)(struct access *access, struct bytes order);

	/* flags are those of open(2); the mode is for a new file, as the umask leaves it. */
	int (*open)(const struct access_place *place, int flags, mode_t mode,
		    struct access_file *file);
	/* A new file that take_place() will put at this place. */
	int (*begin)(const struct access_place *place, mode_t mode, struct access_file *file);
	/* Have all that was written accepted, and synced if that is wanted. */
	int (*settle)(struct access_file *file, bool sync);
	/* Put the file at its place, instead of the one that was there. */
	int (*take_place)(struct access_file *file, const struct access_place *place);
	/* From file->offset on; as read(2) and write(2). */
	ssize_t (*read)(struct access_file *file, void *data, size_t size);
	ssize_t (*write)(struct access_file *file, struct bytes data);
	/* Append the bytes that a stream has by then to data. */
	int (*next)(struct access_file *file, size_t size, int milliseconds, struct buf *data);
	/* To this size. */
	int (*resize)(struct access_file *file, uint64_t size);
	/* Publish, and sync if that is wanted; an error of either.  Closes in any case. */
	int (*finish)(struct access_file *file, bool sync);
	/* Close without publishing what is not published. */
	void (*drop)(struct access_file *file);
};

/* The directories from the root to the one that the last path was in. */
struct access_chain {
	struct buf path; /* of its last directory */
	struct access_dir **dirs;
	size_t count;
	size_t room;
};

struct access {
	const struct access_way *way;
	int root; /* of the mount, or of the folder */
	bool is_folder;
	/* access_beside(); is_beside() then says whether the file with the temporary name is itself
	 * a copy, since the source has that name, too. */
	struct access *beside;
	const char *below;
	bool (*is_beside)(const struct access_file *file);
	struct tree *tree; /* or NULL */
	struct access_chain chain;
	int64_t newest;		  /* change of others when it was opened; 0: not looked for yet */
	struct access_news *news; /* news.c: what has happened; NULL: events are not followed */
};

/* A directory that several targets share. */
struct access_dir {
	unsigned users;
	struct access_place place;
	size_t size; /* of its path, in the chain */
};
/* Call it when a directory is removed: the chain forgets it. */
void access_forget_dir(struct access *access, const char *path);

/* A path, cleaned, with its place.  A zeroed one needs no access_target_done(). */
struct access_target {
	struct access *access;
	char *path;
	bool is_dir; /* the path ended with a slash, "." or nothing */
	struct access_place place;
	struct access_dir *dir; /* NULL: not placed */
};

/* Its path alone. */
int access_target_name(struct access *access, const char *path, struct access_target *target);
int access_target_find(struct access *access, const char *path, struct access_target *target);
/* The same for one that has its path already. */
int access_target_place(struct access_target *target);
int access_target_stat(struct access_target *target, struct stat *ret_stat);
void access_target_done(struct access_target *target);

/* A call of the way, at a path. */
#define ACCESS_AT(access, path, call, ...)                                                         \
	({                                                                                         \
		_cleanup_(access_target_done) struct access_target target_ = { 0 };                \
		int found_ = access_target_find((access), (path), &target_);                       \
		found_ < 0 ? found_ : (access)->way->call(&target_.place, __VA_ARGS__);            \
	})

/* Make the directories on a path that are missing; *made counts them. */
int access_make_parents(struct access *access, const char *path, size_t *made);

/* A file, or an empty directory. */
int access_remove_one(struct access *access, const char *path, bool dir);

enum { ACCESS_TO_SETTLE = 1 << 8 /* a mount that is a view will do: nothing is read there */ };
/* -ENOENT when the store has no mount that can be used for this; *ret_why may then say which one
 * cannot be used.  flags: also of enum access_flags. */
int access_mount_open(struct access *access, const char *store, unsigned flags, char **ret_why);
int access_tree_open(struct access *access, const char *store, unsigned flags,
		     const struct options *options, char **ret_why);

/* news.c: next() of a tree, and its end. */
int access_tree_next(struct access_file *file, size_t size, int milliseconds, struct buf *data);
void access_news_end(struct access *access);

/* Split a path at its last component: the directory's length, and the name behind it.  Slashes at
 * the end have gone already. */
static inline const char *access_split(const char *path, size_t *ret_dir)
{
	const char *slash = strrchr(path, '/');

	*ret_dir = slash ? (size_t)(slash - path) : 0;
	return slash ? slash + 1 : path;
}

#endif
