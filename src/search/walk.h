/* SPDX-License-Identifier: MIT */
#ifndef SEARCH_WALK_H
#define SEARCH_WALK_H

/*
 * Bringing an index up to the state of one snapshot.
 *
 * The store shows what has changed: a node's generation moves with every change of its file, but
 * not with lines that are appended (backend.h).  So a file whose session, key and generation are
 * those in the index has not changed, but for lines that were appended if it is a list whose last
 * row is another one.  Changes by other programs that no mount has taken in yet are in a log; the
 * keys in it are read again each time.
 *
 * Programs that write to the store need not do anything for that.
 *
 * A long snapshot would be in the way of writers.  So after a while it is given up for a newer one
 * and the walk begins again, until one snapshot shows nothing new.  Each snapshot may last longer
 * than the one before, since the first files of the walk may take all of the time, or change all
 * the time.
 */

#include <stdbool.h>

#include "backend/backend.h"

/* A key that other programs have changed. */
struct waiting {
	struct bytes session, key; /* owned */
	bool seen;		   /* it has a file */
};

/* Zero all but backend and look. */
struct walk {
	struct backend *backend;
	/* Look at everything, after walk_changes(): 0, 1 when walk_is_late(), -errno. */
	int (*look)(struct walk *walk);
	struct backend_snapshot *snapshot;
	int64_t most;  /* how long a snapshot may last; the longer, the more have been too short */
	int64_t until; /* when the snapshot has lasted too long; 0: never */
	bool late;     /* it has lasted too long, and something is left */
	bool all;      /* anything may have changed */
	struct waiting *waiting;
	size_t count, room;
};

/* On success the snapshot is the caller's to end. */
int walk_bring_up(struct walk *walk);

/* For look(): read which keys have changes in the log. */
int walk_changes(struct walk *walk);
bool walk_is_waiting(struct walk *walk, struct bytes session, struct bytes key);
/* True when the snapshot has lasted too long; what has come since it began can wait. */
bool walk_is_late(struct walk *walk);

#endif
