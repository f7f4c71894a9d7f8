/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_MANY_H
#define TESTS_UNIT_MANY_H

/* Several mounts of one store, each with its tree; world.h works on the one in use. */

#include "tests/unit/world.h"

enum { MANY_MAX = 8 };

/* With a session "s"; the first is in use. */
void many_open(int kind, int count);
/* As world_close(), of all. */
void many_close(void);
void many_use(int number);
/* The last one ends, and commits nothing any more: as if it had been killed, with nothing of it in
 * memory but what it leaves to the store.  The first is in use then. */
void many_kill_last(void);
/* The next time that a mount is about to commit, something is done on another one before. */
typedef void many_fn(void);
void many_meanwhile(int number, int other, many_fn *fn);
/* Whether it is still to come, which it is not then any more. */
bool many_forget_meanwhile(void);
/* How often the mount in use has tried to commit in this thread since they were counted. */
void many_count_commits(void);
unsigned many_commits(void);
/* Ghosts end and what nobody needs is deleted, on all mounts or on the one in use. */
void many_settle(void);
void many_settle_here(void);
/* What nobody needs is deleted, if the mount in use is on duty. */
void many_reap_here(void);
/* Nodes without a name that are left. */
unsigned many_orphans(void);

#endif
