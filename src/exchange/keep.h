/* SPDX-License-Identifier: MIT */
#ifndef KEEP_H
#define KEEP_H

/*
 * Keeping a folder of a client in a mount: a symbolic link, or a bind mount, takes its place and
 * leads to the copy there.
 *
 * Nothing of the folder is ever deleted.  After an interruption, the next run finishes the work; a
 * second run changes nothing.
 */

#include <stdbool.h>
#include <time.h>

#include "backend/base/buf.h"

struct keep {
	const char *folder; /* both absolute, without links but in the last component of folder */
	const char *target; /* in a mount */
	bool bind;
	struct timespec since; /* what was changed before has been copied as it is; 0: unknown */
	/* Results, for reports; released by keep_done(): */
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
