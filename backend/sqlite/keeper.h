/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_KEEPER_H
#define BACKEND_SQLITE_KEEPER_H

/* The thread that syncs and checkpoints. */

struct sqlite;

int sqlite_keeper_start(struct sqlite *store);
void sqlite_keeper_stop(struct sqlite *store);
/* A commit has succeeded: have it synced within a second. */
void sqlite_keeper_committed(struct sqlite *store);
/* A snapshot was read: when nobody has read or written for a while, give its memory back. */
void sqlite_keeper_used(struct sqlite *store);
/* What is committed and not synced shall be on its way to the disk. */
void sqlite_sync_soon(struct sqlite *store);

#endif
