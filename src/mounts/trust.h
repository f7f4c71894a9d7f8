/* SPDX-License-Identifier: MIT */
#ifndef TRUST_H
#define TRUST_H

/*
 * Whether a path leads where who typed it expects.
 *
 * Every directory and symbolic link on the way may send us elsewhere, if its owner wants.  That is
 * fine as long as he sends us to what is his anyway.  So, from something that belongs neither to us
 * nor to root, a path may lead only to something of the same owner, or of our own unless we are
 * root.  And where everybody may make files, as in /tmp, somebody else may have been there before
 * us: there, a symbolic link and the store itself must be ours or root's.
 *
 * In a user namespace the kernel shows one number for all owners that it does not map, the system's
 * root among them.  Whoever they are, root of the namespace has no power over what is theirs: they
 * can lead it only to what any user may open there, or to its own, as they can lead any user.  So
 * they count as one owner, and root as any user that they lead.
 */

#include <stdbool.h>
#include <sys/types.h>

enum trust_kind {
	TRUST_STORE,
	TRUST_MOUNTPOINT,
};

/* 0, also when the path does not exist; -EPERM with a sentence in *ret_why; -ENOMEM. */
int trust_path(const char *path, enum trust_kind kind, char **ret_why);

/* Whether this number stands for owners that the user namespace does not map. */
bool trust_is_unmapped(uid_t uid);

#endif
