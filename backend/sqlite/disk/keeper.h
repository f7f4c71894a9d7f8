/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_KEEPER_H
#define BACKEND_SQLITE_KEEPER_H

/* The thread that syncs and checkpoints. */

struct sqlite;

/* Start it, where there is a log of ours to sync; nothing otherwise.  0 or -errno, and then
 * sqlite_keeper_stop() is due as well. */
int sqlite_keeper_start(struct sqlite *store);
/* Let it finish its work; the store must no longer be in use. */
void sqlite_keeper_stop(struct sqlite *store);
/* A commit has succeeded: have it synced within a second.  Where the log grows faster than it can
 * be brought into the database, this waits for a moment.  Takes keeper.lock. */
void sqlite_keeper_committed(struct sqlite *store);
/* A snapshot was read: when nobody has read or written for a while, give its memory back. */
void sqlite_keeper_used(struct sqlite *store);
/* Others have committed: the mount on duty tidies behind them, too. */
void sqlite_keeper_others(struct sqlite *store);
/* Why nothing can be synced any more, here or on another mount (a negative errno), or 0. */
int sqlite_keeper_failed(struct sqlite *store);
/* What is committed and not synced shall be on its way to the disk. */
void sqlite_sync_soon(struct sqlite *store);

#endif
