/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_QUESTION_RECORDS_H
#define FS_VIEWS_QUESTION_RECORDS_H

/*
 * The table of records: which of a client are messages, whose they are and where their parts are.
 * The others are plumbing: what a client notes for itself, and what it has told the model in the
 * name of a person.  records.c has the table.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/views/question/parts.h"

enum { ROLE_MAX = 32 };

struct record {
	bool known;	      /* to the table; otherwise it is a message if it looks like one */
	bool plumbing;	      /* neither a person nor a model has said it, but it may have a role */
	bool several;	      /* message is an array of messages */
	bool restates;	      /* which stand before it, unless it is at the beginning of its list */
	bool grows;	      /* later records with its id have more of it */
	struct bytes word;    /* the role as the record spells it, between quotes; no data: none */
	struct bytes role;    /* as it is called here; static, or in lower */
	struct bytes message; /* where the parts are */
	char lower[ROLE_MAX];
};

/* Of a valid record; any other bytes are safe.  No memory. */
void record_read(struct bytes line, struct record *ret);
/* The same without the table: all that there is counts as a message. */
void record_read_any(struct bytes line, struct record *ret);

/* Whether a person or a model has said something in it; index: its place in a list, or below 0. */
bool record_is_talk(const struct record *record, int64_t index);

/* Whose parts they are. */
enum parts_by record_by(const struct record *record);

/* A word for a role in lower case, and what it means. */
struct bytes role_read(struct bytes word, char lower[static ROLE_MAX]);

#endif
