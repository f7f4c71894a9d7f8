/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_LANES_H
#define BACKEND_SQL_LANES_H

/*
 * How far the notes of other mounts were read.
 *
 * The transactions of one mount are its lane: each has a number that is higher by one than that of
 * the transaction before, and its notes have the same number.  Once a note was read, all notes of
 * earlier transactions in its lane have been read; other lanes do not matter.  A mount that has
 * ended leaves no more notes; one that has come since has a number above the newest.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/base/buf.h"

struct sql_lane {
	uint64_t mount;
	uint64_t number; /* of the last transaction that was read */
};

/* Zeroed at first; of those that are not among them nothing is left to be read. */
struct sql_lanes {
	struct sql_lane *lane;
	size_t count, room;
	uint64_t newest; /* nothing was read of a mount with a higher number */
};

void sql_lanes_done(struct sql_lanes *lanes);
/* 0 or -ENOMEM, here and below. */
int sql_lanes_copy(const struct sql_lanes *from, struct sql_lanes *to);
/* So far it was read, and maybe further. */
int sql_lanes_raise(struct sql_lanes *lanes, uint64_t mount, uint64_t number);
/* So far it was read; 0 of one that is not among them. */
uint64_t sql_lanes_number(const struct sql_lanes *lanes, uint64_t mount);
/* Append a condition: that a transaction, of which two columns have the mount and the number, was
 * not read. */
int sql_lanes_say(struct buf *buf, const struct sql_lanes *lanes, const char *mount,
		  const char *number);

#endif
