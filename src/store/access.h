/* SPDX-License-Identifier: MIT */
#ifndef ACCESS_H
#define ACCESS_H

/*
 * The files of a store, mounted or not: what every verb works with.
 *
 *	access_open(store, ACCESS_WRITE, &options, &access, &why)
 *	access_file_open(access, "s/k.jsonl", ACCESS_FILE_APPEND, &file)
 *	access_file_write(file, bytes) ...
 *	access_file_save(file)          or access_file_drop(file)
 *	access_close(access)
 *
 * access.c begins with how the files are reached, and what is safe beside a mount; file.c
 * with how one is replaced.
 *
 * A path is relative to the root of the store: "s/k.json"; "" is the root.  Symbolic links are not
 * followed.  Functions return 0 or -errno as POSIX has it for files; besides,
 *	-ELOOP   there is a symbolic link on the path, or at its end
 *	-EXDEV   the path has a "..", or leads out of the store
 *	-EINTR   a signal has come (src/user/stop.h); nothing of what was begun is left
 * Not for several threads at a time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "backend/backend.h"
#include "backend/base/buf.h"
#include "src/user/options.h"

struct access;
struct access_file;

enum access_flags {
	ACCESS_WRITE = 1 << 0,	/* otherwise nothing can be changed */
	ACCESS_CREATE = 1 << 1, /* make the store when there is none */
	/* access_file_next() will be called: without a mount, this process is one meanwhile. */
	ACCESS_FOLLOW = 1 << 2,
};

/* Of the options, table, strict and exact count, and only where it is not done through a mount;
 * -EINVAL when the store says something else.  On failure *ret_why is a sentence for the user, or
 * NULL when there was no memory for one; owned by the caller. */
int access_open(const char *store, unsigned flags, const struct options *options,
		struct access **ret_access, char **ret_why);
/* A folder, in the same way; its descriptor is taken over, also when that fails.  Mounts in it are
 * entered. */
int access_folder_open(int fd, struct access **ret_access);
/* What the other one is copied from, to a path here ("": the root): what has a name in both is not
 * taken for what a killed process has left.  The path is borrowed. */
void access_beside(struct access *access, struct access *from, const char *path);
/* NULL is fine. */
void access_close(struct access *access);
static inline void access_closep(struct access **access)
{
	access_close(*access);
}

/* The name that mounts have for a store, unless it is in memory; one that is to be written must not
 * be one to which another user leads us.  0, or -errno and a sentence. */
int access_name(const char *store, bool writes, char **ret_name, char **ret_why);

/* Have everything that was answered before the call put into the store's file, if it is mounted.
 * -ENOTCONN: the mount is out of reach; it does so by itself, within half a second. */
int access_settle(const char *store, char **ret_why);

/* The rows themselves, for reading, also beside a mount: for questions that no path answers.  Rows
 * that others have just written are among them.  log_only: as in struct backend_options.  Close it
 * with backend_close(). */
int access_backend(const char *store, const struct options *options, bool log_only,
		   struct backend **ret_backend, char **ret_why);

/* "a//b/./c/" becomes "a/b/c". */
int access_clean(const char *path, char **ret_clean);

int access_stat(struct access *access, const char *path, struct stat *ret_stat);

/* An order as fs/api/trash.h has them; -EOPNOTSUPP: the mount is one of an older version. */
int access_order(struct access *access, struct bytes order);

/* The entries of a directory without "." and "..", in the order in which they were made.  Without
 * with_stat only the type in st_mode is told.  fn returns 0 to go on; what else it returns is the
 * result.  It may call other functions here; memory does not grow with the directory. */
typedef int access_entry_fn(void *arg, const char *name, const struct stat *st);
int access_list(struct access *access, const char *path, bool with_stat, access_entry_fn *fn,
		void *arg);

/* A file, or with recursive also a directory and all that is in it, file by file; each is ticked
 * off (backend/base/tick.h). */
int access_remove(struct access *access, const char *path, bool recursive);

/* What a copy of a tree needs besides files (attr.c). */
struct access_new {
	mode_t mode;	    /* the type, any but a regular file's, and permissions */
	const char *target; /* of a symbolic link */
};
/* With replace, what has the name already is replaced, unless one of both is a directory. */
int access_make(struct access *access, const char *path, const struct access_new *what,
		bool replace);
/* Another name for an ordinary file; -EPERM for a state's. */
int access_link(struct access *access, const char *path, const char *to, bool replace);
/* Appended to target. */
int access_read_link(struct access *access, const char *path, struct buf *target);

enum access_set {
	ACCESS_SET_MODE = 1 << 0,
	ACCESS_SET_OWNER = 1 << 1,
	ACCESS_SET_TIMES = 1 << 2, /* of the last access and change of content */
};
int access_set_attr(struct access *access, const char *path, const struct stat *st, unsigned mask);
/* Attributes: names with a NUL behind each, and a value, appended to a buffer; -ENODATA. */
int access_list_xattr(struct access *access, const char *path, struct buf *names);
int access_get_xattr(struct access *access, const char *path, const char *name, struct buf *value);
int access_set_xattr(struct access *access, const char *path, const char *name, struct bytes value);
int access_remove_xattr(struct access *access, const char *path, const char *name);
/* What was done survives power loss when this has returned 0. */
int access_sync(struct access *access);

enum access_how {
	ACCESS_FILE_READ,
	/* As a descriptor with O_APPEND: whole lines of a list are rows when they are written. */
	ACCESS_FILE_APPEND,
	/* The content is replaced by what is written, in one transaction, when it is saved.  Mode
	 * and owner stay, attributes do not. */
	ACCESS_FILE_REPLACE,
	/* Through a question (if=) that names items and the version of their list: what is written
	 * takes their place when it is saved (access_file_compact()). */
	ACCESS_FILE_COMPACT,
};
/* Only regular files.  For writing, the file is made, and the directories above it, if need be. */
int access_file_open(struct access *access, const char *path, enum access_how how,
		     struct access_file **ret_file);
/* After writing many files sync once: access_sync(). */
void access_file_sync_later(struct access_file *file);
/* The file will have these attributes when it is saved, at once with the content if that is
 * replaced. */
void access_file_dress(struct access_file *file, const struct stat *like, unsigned mask);
/* Rows that are written have the times that their records name; those that name none have this
 * one.  Before the first byte is written. */
int access_file_date(struct access_file *file, const struct timespec *other);
/* What comes next, at most size bytes, put into data; 0 bytes are the end. */
int access_file_read(struct access_file *file, size_t size, struct buf *data);
/* Read on until data has size bytes, or to the end. */
int access_file_fill(struct access_file *file, size_t size, struct buf *data);
/* What comes next in a file that never ends, a stream of events (fs/api/events.h), whose path has
 * such a question as its name: nothing, when there was nothing for a while. */
int access_file_next(struct access_file *file, struct buf *data);
/* Read on at another offset. */
void access_file_seek(struct access_file *file, uint64_t offset);
/* As lseek(2) has it with SEEK_DATA and SEEK_HOLE, without moving; -ENXIO also where that is not
 * known. */
off_t access_file_extent(struct access_file *file, uint64_t offset, int whence);
/* An attribute, set while nobody sees the file that is replaced. */
int access_file_set_xattr(struct access_file *file, const char *name, struct bytes value);
/* What comes next are so many zeros: a hole, where the file is ordinary. */
void access_file_skip(struct access_file *file, uint64_t size);
/* All of it, or -errno. */
int access_file_write(struct access_file *file, struct bytes data);
/* Durable when it returns 0, unless later; -errno: not saved.  The file is closed in any case. */
int access_file_save(struct access_file *file);
/* The same of ACCESS_FILE_COMPACT; the version that the list has then is appended.  -ESTALE: it has
 * had another one.  -EINVAL: not whole lines of JSON. */
int access_file_compact(struct access_file *file, struct buf *version);
/* Close without saving: what was to be replaced stays, and so do lines that were appended.  NULL is
 * fine. */
void access_file_drop(struct access_file *file);
static inline void access_file_dropp(struct access_file **file)
{
	access_file_drop(*file);
}

#endif
