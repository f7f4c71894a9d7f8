/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_MOUNTS_H
#define BACKEND_SQLITE_MOUNTS_H

/* Which mounts have the store: mounts.c. */

#include <stdbool.h>
#include <stdint.h>

struct sqlite;

enum { SQLITE_MOUNTS = 200 }; /* at a time */

/* Register this mount, whose number is set, with what backend_options call an owner.  0 or -errno.
 */
int sqlite_mounts_join(struct sqlite *store, const char *owner);
/* And take it away, if it is there; the file goes with the last one. */
void sqlite_mounts_leave(struct sqlite *store);
/* The owners that are registered, in words: "process 812, mounted on /a and process 900, mounted on
 * /b".  NULL: none, or it is not known. */
char *sqlite_mounts_owners(const struct sqlite *store);
/* Whether others are registered; in doubt, they are. */
bool sqlite_mounts_shared(const struct sqlite *store);
/* Look, now and then, whether one has ended without leaving. */
void sqlite_mounts_sweep(struct sqlite *store);
/* Tell how far this one has digested what others have left; and how far each has, the least. */
void sqlite_mounts_tell(struct sqlite *store, uint64_t cursor);
uint64_t sqlite_mounts_least(const struct sqlite *store);
/* Tell up to which stamp this one has seen what other programs have changed; and the newest of any,
 * for one that is not registered. */
void sqlite_mounts_see(struct sqlite *store, int64_t stamp);
int64_t sqlite_mounts_seen(const struct sqlite *store);
/* Tell whether this one holds locks that are not in the store; and whether another one does. */
void sqlite_mounts_hold(struct sqlite *store, bool untold);
bool sqlite_mounts_untold(const struct sqlite *store);
/* Whether the mount of a number has the store. */
bool sqlite_mounts_lives(const struct sqlite *store, uint64_t number);

/* Whether this one is on duty (backend_ops.on_duty). */
bool sqlite_mounts_duty(const struct sqlite *store);

/* A sync has failed here; and whether one has on another mount. */
void sqlite_mounts_fail(const struct sqlite *store);
bool sqlite_mounts_failed(const struct sqlite *store);

/* Ask all to let go of snapshots that they keep; and whether one has asked since the last time. */
void sqlite_mounts_ask(const struct sqlite *store);
bool sqlite_mounts_asked(struct sqlite *store);

/* Among mounts, writers take turns: wait for it, and give it on.  The one waits no longer than
 * SQLite does for its own lock, which is what counts. */
void sqlite_mounts_turn(struct sqlite *store);
/* The same for who has it over several commits: he does not join threads of this mount that have
 * had it for long, so that it comes to others. */
void sqlite_mounts_turn_begin(struct sqlite *store);
void sqlite_mounts_turn_end(struct sqlite *store);

#endif
