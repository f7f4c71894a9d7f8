/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_CONN_H
#define BACKEND_SQL_CONN_H

/* Connections and answers. */

#include "backend/sql/store.h"

/* When a call that begins now gives up: a moment of tick_ms(). */
int64_t sql_until(struct sql *store);
/* *ret_why, which may be NULL, is exchanged when there is something to say. */
int sql_connect(struct sql *store, bool writer, int64_t until, struct sql_link **ret_link,
		char **ret_why);
/* NULL is fine. */
void sql_disconnect(struct sql *store, struct sql_link **link);

/* Send statements and read all answers; the last one is handed over if ret_answer is not NULL
 * (NULL: it has no rows).  For an error that is of the server the sentence goes to the log. */
int sql_ask(struct sql *store, struct sql_link *link, struct bytes statements,
	    struct sql_answer **ret_answer);
/* Send statements and read so many answers, one of each; owned by the caller. */
int sql_ask_each(struct sql *store, struct sql_link *link, struct bytes statements,
		 struct sql_answer **ret_answers, size_t count);
/* Read them when they have been sent. */
int sql_answers(struct sql *store, struct sql_link *link, struct sql_answer **ret_answers,
		size_t count);
/* sql_ask() with a statement of the table. */
int sql_ask_text(struct sql *store, struct sql_link *link, enum sql_text text,
		 const struct sql_value *values, size_t count, struct sql_answer **ret_answer);
/* The -errno that the caller of the store gets. */
int sql_error(struct sql *store, struct sql_link *link, int error);

/* Whether another try may come through: the connection or the transaction was lost, or there is
 * none to be had. */
bool sql_is_passing(int error);
/* Whether a call that began then has waited long enough, if this is why it waits. */
bool sql_has_waited(int64_t until, int error, int64_t begun);
/* Say so, now and then, of what goes on by itself. */
void sql_full(struct sql *store);
/* It has: -EIO, and a sentence.  why: what was heard of the server last, or NULL. */
int sql_gave_up(struct sql *store, int error, const char *why);

/* A small question or change on a connection of its own, made anew if it was lost.  What is changed
 * may be changed twice. */
int sql_aside(struct sql *store, struct bytes statements, struct sql_answer **ret_answer);
int sql_aside_text(struct sql *store, enum sql_text text, const struct sql_value *values,
		   size_t count, struct sql_answer **ret_answer);

static inline bool sql_row(const struct sql *store, struct sql_answer *answer,
			   struct bytes columns[SQL_COLUMNS])
{
	return answer && store->texts.driver->row(answer, columns);
}

/* The row that an answer must have, or -EIO and a sentence. */
int sql_need_row(const struct sql *store, struct sql_answer *answer,
		 struct bytes columns[SQL_COLUMNS]);

int64_t sql_int(struct bytes column);
/* Of seconds with a fraction: nanoseconds. */
int64_t sql_moment(struct bytes column);

#endif
