/* SPDX-License-Identifier: MIT */
#ifndef FS_API_LAYOUT_H
#define FS_API_LAYOUT_H

/*
 * Which path of a store is which session (fs/base/layout.h), as a setting of the store
 * (SETTING_LAYOUT).  A set of layouts is one number there; 0 is none.
 */

#include <stdint.h>

#include "backend/backend.h"

/* A store without files gets its layout, whatever rows there are; -ENOTEMPTY when there is one,
 * whatever layout it has.  Nobody else has the store. */
int layout_begin(struct backend *backend, uint64_t set);

struct layout_changed {
	uint64_t files; /* that have other sessions and keys now, or have become states, */
	uint64_t moved; /* or another path */
};

/*
 * Another layout for a store, which nobody else has; takes the store over, and closes it.
 *
 * Paths, modes and bytes stay as they are, and what each file is follows from its path as if it had
 * been made there.  Two kinds of states get the path of their session and key instead: those whose
 * path is that of no state any more, since rows never leave the table; and those whose rows another
 * program has written, which looks for them under that id.  An ordinary file with several names
 * stays one.
 *
 * Each file is one transaction.  Until all is done no tree that writes can be opened; what was
 * interrupted goes on when this is called again.  On failure *ret_why is a sentence for the user,
 * owned by the caller.
 */
int layout_change(struct backend *backend, uint64_t set, struct layout_changed *ret_changed,
		  char **ret_why);

#endif
