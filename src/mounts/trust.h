/* SPDX-License-Identifier: MIT */
#ifndef TRUST_H
#define TRUST_H

/*
 * Checks that a path leads where the user that typed it expects.
 *
 * The owner of a directory or symbolic link on the way can send us elsewhere.  That is fine as long
 * as it leads to files of the same owner.  So, from something that belongs neither to us nor to
 * root, a path may lead only to something of the same owner, or of our own unless we are root.  And
 * where everybody may make files, as in /tmp, another user may have been there before us: there, a
 * symbolic link and the store itself must be ours or root's.
 *
 * In a user namespace the kernel shows one number for all owners that it does not map, the system's
 * root among them.  Root of the namespace has no power over files of these owners.  They can lead
 * it only to files that any user may open there, or to its own, as they can lead any user.  So they
 * count as one owner, and root counts as any user that they lead.
 */

#include <stdbool.h>
#include <sys/types.h>

enum trust_kind {
	TRUST_STORE,
	TRUST_MOUNTPOINT,
};

/* 0, also when the path does not exist; -EPERM with a sentence in *ret_why; -ENOMEM. */
int trust_path(const char *path, enum trust_kind kind, char **ret_why);

/* True when this number stands for owners that the user namespace does not map. */
bool trust_is_unmapped(uid_t uid);

#endif
