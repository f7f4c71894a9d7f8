/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_OWNER_H
#define BACKEND_SQLITE_OWNER_H

/* The locks by which a process owns a store's file: owner.c.  Whoever calls these sees to it that
 * one thread does. */

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
/* Whether all who can open the file of this descriptor are under one kernel, as far as that can be
 * known: then they may share it. */
bool sqlite_owner_is_local(int fd);
/* Own the file of this descriptor, once more; name is for who shares it.  -EBUSY: others own it who
 * do not share it, or by another name. */
int sqlite_owner_take(struct sqlite_owner *owner, int fd, bool shared, off_t name);
void sqlite_owner_give(struct sqlite_owner *owner, int fd);
/* Say that the store calls its owner so, who does not share it; and whether the owner of now has
 * said that, and not one that has ended. */
void sqlite_owner_tell(struct sqlite_owner *owner, int fd, const char *called);
bool sqlite_owner_told(const struct sqlite_owner *owner, int fd, const char *called);
/* Whether another process owns it. */
bool sqlite_owner_there(int fd);

#endif
