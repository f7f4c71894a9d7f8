/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_FILE_H
#define BACKEND_SQLITE_FILE_H

/* The store's file: finding and making it, its header, its owner, whether it is still there. */

#include "backend/backend.h"

struct sqlite;
struct sqlite_file; /* the store's file, once a process however often it is opened */

struct sqlite_place {
	char *path;    /* without symbolic links; owned */
	int dir;       /* its directory (O_PATH), wherever that is moved to; 0: not known */
	bool created;  /* we made the file just now */
	bool no_log;   /* nothing was in a write-ahead log when it was opened read-only */
	bool writable; /* the system lets us write to it */
	struct sqlite_file *file;
};

/* Find the file, or make it if the options say so, and look at its header.  0, or -errno as
 * backend_open() with a sentence in *ret_why (unless ret_why is NULL). */
int sqlite_place_find(const char *path, const struct backend_options *options,
		      struct sqlite_place *ret_place, char **ret_why);
/* True while the path leads to the file: until the file is removed, moved or replaced. */
bool sqlite_place_stands(const struct sqlite_place *place);
/* Only when all connections are closed (file.c says why). */
void sqlite_place_done(struct sqlite_place *place);
/* Become the owner of the file, or one of several that share it, until it is disowned or its last
 * place is done; -EBUSY: it has one that does not share it, that has it under another name, or one
 * at all.  As often as it was owned it is to be disowned. */
int sqlite_place_own(const struct sqlite_place *place, bool shared);
void sqlite_file_disown(struct sqlite_file *file);
/* True when its owner in this process shares it; it is never shared on a filesystem of several
 * machines. */
bool sqlite_file_shared(struct sqlite_file *file);
/* sqlite_owner_tell() and sqlite_owner_told(). */
void sqlite_file_tell(struct sqlite_file *file, const char *called);
bool sqlite_file_told(struct sqlite_file *file, const char *called);
/* Own a file by its path, with any content, without a store; and give it up.  No connection to it
 * may be open then. */
int sqlite_file_take(const char *path, struct sqlite_file **ret_file);
void sqlite_file_leave(struct sqlite_file *file);
/* Allocate blocks for so many bytes, without changing its size; -ENOSPC, -EOPNOTSUPP. */
int sqlite_file_allocate(struct sqlite_file *file, uint64_t size);
/* True when this process or another one owns it, and in doubt. */
bool sqlite_file_owned(struct sqlite_file *file);
/* Whether another process owns it, too. */
bool sqlite_file_owned_elsewhere(struct sqlite_file *file);
/* 0 while the store's file has its name in the directory where it was opened, also when that was
 * moved; -EIO when it has not, and then the log says so, since bytes that are written to it cannot
 * be found.  An owner logs it once, not at every call. */
int sqlite_file_there(struct sqlite *store);
/* The same, of the store's log as well: without it nothing is durable. */
int sqlite_file_durable(struct sqlite *store);

#endif
