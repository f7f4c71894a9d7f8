/* SPDX-License-Identifier: MIT */
#ifndef TRANSFER_H
#define TRANSFER_H

/*
 * Copying all of a store into another one of any kind: names, modes, owners, times, attributes,
 * links, bytes of ordinary files, lines that are not rows, rows with their times, settings, and
 * inode numbers.  The trash is left out, and so are files that are open and have no name.
 *
 * It is read in one snapshot, so it is as it was at one instant.  Memory does not grow with the
 * stores, but for some bytes for each directory that is still to be listed and each file with
 * several names.
 */

#include "backend/backend.h"
#include "src/user/progress.h"

struct transfer {
	const char *from; /* their names in sentences */
	const char *to;
	struct progress *progress;
};

/* 1 when the store is complete, and has neither files nor rows; 0; or -errno. */
int transfer_is_empty(struct backend *backend);

/*
 * From a snapshot without pending changes of others.  First all of the target is deleted for good,
 * its trash, too.  Only this process may use the target.  Until it is complete it says so
 * (setting_incomplete), and cannot be mounted.  At the end it is read and compared; on failure it
 * is empty.  0, or -errno; a sentence may have been printed.
 */
int transfer_run(const struct transfer *transfer, struct backend *from,
		 struct backend_snapshot *snapshot, struct backend *to);

#endif
