/* SPDX-License-Identifier: MIT */
#ifndef HOLDERS_H
#define HOLDERS_H

/* Which processes have to do with a mount, as /proc tells; the mount itself is not asked. */

#include "src/base/buf.h"
#include "src/mounts.h"

/* The daemon that serves it; 0 when it has ended, or cannot be seen. */
long holders_daemon(const struct mount_entry *entry);

/* Who keeps it from being unmounted, in words: "bash (812) works in it, python3 (900) has a file of
 * it open".  Nothing is appended when nobody can be seen. */
int holders_tell(const struct mount_entry *entry, struct buf *words);

#endif
