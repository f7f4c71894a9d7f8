/* SPDX-License-Identifier: MIT */
#ifndef FS_API_LAYOUT_H
#define FS_API_LAYOUT_H

/*
 * Which path of a store is which session (fs/base/layout.h), as a setting of the store
 * (SETTING_LAYOUT).  A set of layouts is one number there; 0 is none.
 */

#include <stdint.h>

#include "backend/backend.h"

/* Gives a store without files its layout, with rows or without; -ENOTEMPTY when there is a file.
 * No other process has the store open. */
int layout_begin(struct backend *backend, uint64_t set);

struct layout_changed {
	uint64_t files; /* that have another session and key now, or have become states, */
	uint64_t moved; /* or another path */
};

/*
 * Gives a store another layout; takes the store over, and closes it.  No other process has it open.
 *
 * Paths, modes and bytes stay as they are, and what each file is follows from its path as if it had
 * been made there.  Two kinds of states get the path of their session and key instead: those at a
 * path where the new layout has no state, since rows never leave the table; and those with rows
 * that another program has written, which reads them under that id.  An ordinary file with several
 * names stays one.
 *
 * Each file is one transaction.  Until all is done, a tree that writes cannot be opened; an
 * interrupted change goes on when this is called again.  On failure *ret_why is a sentence for the
 * user, owned by the caller.
 */
int layout_change(struct backend *backend, uint64_t set, struct layout_changed *ret_changed,
		  char **ret_why);

#endif
