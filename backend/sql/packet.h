/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_PACKET_H
#define BACKEND_SQL_PACKET_H

/* Statements that are sent together, and what it means if one of them fails. */

#include <errno.h>

#include "backend/sql/conn.h"

enum {
	/* Of the head of a transaction: what is known of the store is not true any more. */
	SQL_HEAD_FAILED = -100001,
	SQL_LANE_FAILED = -100002, /* what this mount has sent before came after all */
	SQL_LOST = -100003,	   /* the lease of this mount has ended */
	SQL_NOTE_FAILED = -100007, /* that, or other programs have changed what is written */
};

struct sql_statement {
	size_t request; /* number of the batch it belongs to */
	int guard;	/* what it is told as if it fails as a guard does (driver.h) */
	struct backend_append *append; /* that its answer places, or NULL */
};

struct sql_packet {
	struct sql *store;
	struct buf text;
	struct sql_statement *statements;
	size_t count, room;
	size_t request; /* of those that are said now */
	/* For joining inserts: the number of statements up to the last one that inserts rows, its
	 * rows, and their bytes. */
	size_t inserts, rows, row_bytes;
	bool moment; /* rows that are added have the time of what is kept */
	int r;	     /* why some could not be said */
};

void packet_done(struct sql_packet *packet);
/* Append a statement. */
void packet_say(struct sql_packet *packet, int guard, enum sql_text text,
		const struct sql_value *values, size_t count);
/* With fields of an operation, a letter each (backend/fields.h). */
void packet_say_op(struct sql_packet *packet, int guard, enum sql_text text, const char *fields,
		   const struct backend_op *op);
void packet_say_plain(struct sql_packet *packet, const char *text);
/* Append to the last one. */
void packet_say_on(struct sql_packet *packet, enum sql_text text, const struct sql_value *values,
		   size_t count);
void packet_add(struct sql_packet *packet, const char *text);
/* Send what was said, read the answers, and begin anew.  Of an error that is of one statement
 * *ret_failed is its request. */
int packet_flush(struct sql_packet *packet, struct sql_link *link, size_t *ret_failed);

#endif
