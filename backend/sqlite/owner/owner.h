/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_OWNER_H
#define BACKEND_SQLITE_OWNER_H

/* The locks by which a process owns a store's file: owner.c.  The caller makes sure that only one
 * thread calls them. */

#include <stdbool.h>
#include <sys/types.h>

struct sqlite_owner {
	unsigned count; /* how often this process owns the file */
	bool shared;	/* others may, too */
	off_t name;	/* the byte that stands for the name by which it is shared, or 0 */
	off_t told;	/* the byte that stands for what the store calls its owner, or 0 */
};

/* The byte for a name in a directory; 0: the directory is not known (dir is 0). */
off_t sqlite_owner_name(int dir, const char *name);
/* True if, as far as we can know, all programs that can open the file run under one kernel: then
 * they may share it. */
bool sqlite_owner_is_local(int fd);
/* Own the file of this descriptor, once more; name counts when it is shared.  -EBUSY: the other
 * owner does not share it, or uses another name. */
int sqlite_owner_take(struct sqlite_owner *owner, int fd, bool shared, off_t name);
void sqlite_owner_give(struct sqlite_owner *owner, int fd);
/* Lock the byte of the owner's name that the store has, as its sole owner; and find out if that
 * name is the present owner's, and not one of an owner that has ended. */
void sqlite_owner_tell(struct sqlite_owner *owner, int fd, const char *called);
bool sqlite_owner_told(const struct sqlite_owner *owner, int fd, const char *called);
/* Whether another process owns it. */
bool sqlite_owner_there(int fd);

#endif
