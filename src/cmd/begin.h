/* SPDX-License-Identifier: MIT */
#ifndef BEGIN_H
#define BEGIN_H

/* The layout, an option that a store can only get while it is new. */

#include "src/user/options.h"

/* Before a mount opens a store: a new one that nobody else has is made with the layout.
 * begin_opened() reports anything that stands against it. */
void begin_store(const char *store, const struct options *options);
/* When it is open: as settings_agree(). */
int begin_opened(const char *store, struct backend *backend, const struct options *options,
		 char **ret_why);

#endif
