/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_MOUNTS_H
#define BACKEND_SQL_MOUNTS_H

/* Which mounts there are, and what the store says of itself in one row. */

#include "backend/sql/store.h"

struct sql_state {
	uint64_t epoch; /* moves when a mount comes or goes */
	uint64_t turn;
	uint64_t n; /* the number of the last transaction of the mount that has the turn */
	uint64_t settings;
	bool feed;    /* others have left notes that were not digested */
	bool changes; /* other programs' wait */
	bool apart;   /* some were set apart */
};

/* Ask for it; and read it out of a row. */
int sql_state_say(struct sql *store, struct buf *buf);
struct sql_state sql_state_read(const struct bytes *columns);
/* What a snapshot or a poll has found: who waits is woken if there is something new. */
void sql_state_learn(struct sql *store, struct sql_state *state);

/* The turn of another mount, as who waits for it sees it. */
struct sql_turn {
	uint64_t mount, n;
	int64_t since; /* it is so */
};
/* Whether nothing was committed in it for so long that it may be taken away: who has it may be
 * dead, or stopped. */
bool sql_turn_is_idle(struct sql_turn *turn, const struct sql_state *state);

/* Come and go. */
int sql_mounts_join(struct sql *store, bool shared, char **ret_why);
/* The lease has ended: come again, as the writer.  What was not digested is still to be. */
int sql_mounts_rejoin(struct sql *store);
void sql_mounts_leave(struct sql *store);
/* Whether this one is known to have been ended. */
bool sql_mounts_lost(struct sql *store);
/* Say that this mount lives. */
int sql_mounts_beat(struct sql *store, struct sql_link *link);
/* End those that do not, if this one was heard of just now. */
int sql_mounts_judge(struct sql *store, struct sql_link *link);

/* When the server has heard that this mount lives, and since when it did so in time. */
struct sql_beats {
	int64_t last, steady;
};
/* It has heard so, now; whether this mount may judge others: who was silent itself, or could not
 * reach the server, does not know who else could not. */
bool sql_beats_heard(struct sql_beats *beats, int64_t now);
bool sql_mounts_alone(struct sql *store);

/* Files in use (uses.c). */
int sql_uses_guard(struct sql *store, uint64_t ino);
/* Tell the server which files are in use here, once there are others. */
int sql_uses_tell(struct sql *store, struct sql_link *link);
/* The other way round, once it is alone again. */
int sql_uses_untell(struct sql *store, struct sql_link *link);

#endif
