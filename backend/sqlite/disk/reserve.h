/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_RESERVE_H
#define BACKEND_SQLITE_RESERVE_H

/* The reserve for deletions.  For the writer alone, as room.h. */

#include <stdbool.h>
#include <stdint.h>

struct sqlite;

enum { SQLITE_WAL_LEAST = 384 << 10 }; /* bytes of blocks that the WAL keeps */

/* Bytes that the filesystem has in all, and free for us; false when it does not tell. */
bool sqlite_reserve_free(const struct sqlite *store, uint64_t *ret_total, uint64_t *ret_free);
/* How large a file may become (ulimit -f).  A larger write may cause a signal. */
uint64_t sqlite_reserve_limit(void);
/* Find or make the reserve. */
void sqlite_reserve_open(struct sqlite *store);
void sqlite_reserve_close(struct sqlite *store);
/* Let it have what it lacks, as far as there is room. */
void sqlite_reserve_build(struct sqlite *store);
/* Share it with the WAL where pages of the database are free that it does not give back. */
void sqlite_reserve_yield(struct sqlite *store);
/* Let the database have blocks for what lies between from and end, those of the reserve if no
 * others are free; or -errno. */
int sqlite_reserve_to_database(struct sqlite *store, uint64_t from, uint64_t end);
/* Let the WAL have the blocks that it always keeps, in the same way. */
void sqlite_reserve_keep_wal(struct sqlite *store);
/* Let the WAL have most of the reserve, behind its end, until it is begun anew. */
void sqlite_reserve_to_wal(struct sqlite *store);
/* Give all of it up, to any program.  False when there is nothing to give up. */
bool sqlite_reserve_give_up(struct sqlite *store);
/* The store could not be opened for want of room: the bytes of its reserve that were given up;
 * part: what its index needs, and not all. */
uint64_t sqlite_reserve_lend_unopened(const char *path, bool part);
/* So many bytes back, as far as there is room. */
void sqlite_reserve_return(const char *path, uint64_t size);

#endif
