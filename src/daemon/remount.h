/* SPDX-License-Identifier: MIT */
#ifndef REMOUNT_H
#define REMOUNT_H

#include "src/user/options.h"

/* What `mount -o remount` asks for: the flags of a mount become those of the options.  The kernel
 * keeps them, so its daemon is not asked.  For root.  dir is absolute.  0, or -errno after a
 * sentence in the log. */
int remount(const char *dir, const struct options *options);

#endif
