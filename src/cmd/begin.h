/* SPDX-License-Identifier: MIT */
#ifndef BEGIN_H
#define BEGIN_H

/* What a store can only get by options while it is new: its layout. */

#include "src/user/options.h"

/* Before a mount opens a store: if it is new, and nobody else has it, it is made with that.  What
 * is in the way is told by begin_opened(). */
void begin_store(const char *store, const struct options *options);
/* When it is open: as settings_agree(). */
int begin_opened(const char *store, struct backend *backend, const struct options *options,
		 char **ret_why);

#endif
