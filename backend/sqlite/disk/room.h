/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_ROOM_H
#define BACKEND_SQLITE_ROOM_H

/*
 * Full disks: what may still be written, and the reserve for deletions.
 *
 * For the writer, or while only the calling thread knows the store.
 */

#include <stdbool.h>
#include <stdint.h>

struct sqlite;

/* Find or make the reserve, if this store is to have one. */
void sqlite_room_open(struct sqlite *store);
/* The quota from now on, in bytes; 0: none. */
void sqlite_room_quota(struct sqlite *store, uint64_t max_size);
/* Before the connections are closed. */
void sqlite_room_ending(struct sqlite *store);
/* Before a transaction that will write about so many bytes. */
void sqlite_room_prepare(struct sqlite *store, uint64_t bytes);
/* At the beginning of one. */
void sqlite_room_begin(struct sqlite *store);
/* Inside a write transaction that has written about so many bytes since the last call, and before
 * it commits: 0 to go on, -ENOSPC when what it has written could not be brought into the database
 * any more. */
int sqlite_room_check(struct sqlite *store, uint64_t bytes);
/* Outside of one, after -ENOSPC: empty the WAL.  True when that may have helped. */
bool sqlite_room_make(struct sqlite *store);
/* Let the next transaction have the reserve and a little above the quota; false when nothing can
 * help it.  And take it back. */
bool sqlite_room_lend(struct sqlite *store);
void sqlite_room_return(struct sqlite *store);
/* For idle times: give unused pages back to the filesystem.  Takes the writer by itself. */
void sqlite_room_tidy(struct sqlite *store);

/* A store of ours that was copied as SQL text, which nobody else has open: it is written anew if it
 * is not large, so that it can shrink, or is said not to. */
void sqlite_room_let_shrink(struct sqlite *store, const char *path);

#endif
