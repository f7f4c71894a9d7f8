/* SPDX-License-Identifier: MIT */
#ifndef TRANSFER_H
#define TRANSFER_H

/*
 * All that is in a store put into another one, of whatever kind: names, modes, owners, times,
 * attributes, links, bytes of ordinary files, lines that are no rows, rows with their times,
 * settings, and the numbers of files.  Not what is in the trash, nor what is open and has no name.
 *
 * It is read in one snapshot, so it is as it was at one instant.  Memory does not grow with the
 * stores, but for some bytes for each directory that waits and each file with several names.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/base/digest.h"
#include "src/user/progress.h"

struct transfer {
	const char *from; /* how they are called in sentences */
	const char *to;
	struct progress *progress;
};

/* Whether no file is in the store, and no row, and it is complete: 1, or 0; or -errno. */
int transfer_is_empty(struct backend *backend);

/*
 * From a snapshot in which no changes of others wait.  What is in the target goes first, its trash,
 * too, and for good.  The target is this process's alone; until it is complete it says that it is
 * not (setting_incomplete), and cannot be mounted.  In the end it is read and compared; on failure
 * it is empty.  0, or -errno; a sentence may have been said.
 */
int transfer_run(const struct transfer *transfer, struct backend *from,
		 struct backend_snapshot *snapshot, struct backend *to);

#endif
