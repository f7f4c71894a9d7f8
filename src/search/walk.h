/* SPDX-License-Identifier: MIT */
#ifndef SEARCH_WALK_H
#define SEARCH_WALK_H

/*
 * Bringing an index up to the state of one snapshot.
 *
 * The store tells what has changed: a node's generation moves with every change of its file but
 * lines that are added behind its end (backend.h).  So a file of which session, key and generation
 * are those that the index knows is what it was, and a list of which the last row is another one
 * has more lines.  What other programs have changed and nobody has taken in yet waits in a log;
 * keys that do are read again each time, as long as they do.
 *
 * Whoever writes to the store does nothing for that.
 *
 * A long snapshot would be in the way of who writes, so one that lasts is given up for a newer one,
 * and all is looked at again, until all of it is found to be known in one snapshot.  The next one
 * may last longer: what is looked at first may take all of the time, or change all the time.
 */

#include <stdbool.h>

#include "backend/backend.h"

/* A key that other programs have changed. */
struct waiting {
	char *session;
	char *key;
	size_t session_size;
	size_t key_size;
	bool seen; /* it has a file */
};

/* Zeroed but for the first two. */
struct walk {
	struct backend *backend;
	/* Look at everything, after walk_changes(): 0, 1 when walk_is_late(), -errno. */
	int (*look)(struct walk *walk);
	struct backend_snapshot *snapshot;
	int64_t most;  /* how long a snapshot may last; the longer, the more have been too short */
	int64_t until; /* when the snapshot has lasted too long; 0: it never has */
	bool late;     /* it has, and something is left */
	bool all;      /* anything may have changed */
	struct waiting *waiting;
	size_t count, room;
};

/* On success the snapshot is the caller's to end. */
int walk_bring_up(struct walk *walk);

/* For look(): which keys wait. */
int walk_changes(struct walk *walk);
bool walk_is_waiting(struct walk *walk, struct bytes session, struct bytes key);
/* What has come since the snapshot was begun can wait. */
bool walk_is_late(struct walk *walk);

#endif
