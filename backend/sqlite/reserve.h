/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_RESERVE_H
#define BACKEND_SQLITE_RESERVE_H

/* The reserve for deletions.  For the writer alone, as room.h. */

#include <stdbool.h>
#include <stdint.h>

struct sqlite;

enum { SQLITE_WAL_LEAST = 384 << 10 }; /* bytes that the reserve leaves to the WAL */

/* Bytes that the filesystem has in all, and free for us; false when it does not tell. */
bool sqlite_reserve_free(const struct sqlite *store, uint64_t *ret_total, uint64_t *ret_free);
/* Find or make the reserve. */
void sqlite_reserve_open(struct sqlite *store);
void sqlite_reserve_close(struct sqlite *store);
/* Let it have what it lacks, as far as there is room. */
void sqlite_reserve_build(struct sqlite *store);
/* Share it with the WAL where pages of the database are free that it does not give back. */
void sqlite_reserve_yield(struct sqlite *store);
/* False when there is nothing to give up. */
bool sqlite_reserve_give_up(struct sqlite *store);
/* The store could not be opened for want of room: true when there was a reserve to give up. */
bool sqlite_reserve_lend_unopened(const char *path);

#endif
