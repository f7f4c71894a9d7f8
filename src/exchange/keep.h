/* SPDX-License-Identifier: MIT */
#ifndef KEEP_H
#define KEEP_H

/*
 * A folder of a client that is kept in a mount: a symbolic link, or a bind mount, stands where it
 * was and leads to its copy there.
 *
 * Nothing of the folder is ever deleted.  A run that was interrupted is finished by the next one,
 * and a second run changes nothing.
 */

#include <stdbool.h>
#include <time.h>

#include "backend/base/buf.h"

struct keep {
	const char *folder; /* both absolute, without links but in the last component of folder */
	const char *target; /* in a mount */
	bool bind;
	struct timespec since; /* what was changed before has been copied as it is; 0: unknown */
	/* What came of it, for who tells; released by keep_done(): */
	unsigned long files;  /* that were copied */
	unsigned long stale;  /* that an earlier run had copied, and the folder has no more */
	unsigned long late;   /* that were added to, or came, while the others were copied */
	struct buf old;	      /* where the folder is now */
	struct buf conflicts; /* files that were changed meanwhile in another way, by commas */
};

enum keep_state {
	KEEP_NOT,	 /* it is a folder, or not there */
	KEEP_UNFINISHED, /* a run was interrupted behind the change */
	KEEP_KEPT,
};

/* Of the folder now, or -errno. */
int keep_look(const struct keep *keep);
/* All return 0, 1 when there was nothing to do, or -errno after a sentence; with conflicts nothing
 * is lost, both versions stay, and the result is -EEXIST. */
int keep_move(struct keep *keep);
int keep_undo(struct keep *keep);
void keep_done(struct keep *keep);

#endif
