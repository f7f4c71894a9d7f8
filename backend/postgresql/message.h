/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_POSTGRESQL_MESSAGE_H
#define BACKEND_POSTGRESQL_MESSAGE_H

/*
 * What some statements are sent as.
 *
 * The server plans each statement of a message anew, which takes longer than to run those of a
 * commit.  So statements that come again and again, but for their literals, are prepared, and what
 * is sent is EXECUTE with these.
 *
 * The server holds the locks of a transaction until its commit is on the disk.  So ours commit
 * without waiting for that; an empty transaction behind them does wait, and with it all that is
 * before it in the log gets there.  Its answer is the last one: what was answered is on the disk,
 * and others may have seen it a moment before.
 *
 * For one thread at a time.
 */

#include "backend/base/buf.h"

struct pg_shape; /* a statement without its literals */

struct pg_message {
	bool flushes; /* commits do not wait for the disk, but what is behind them does */
	bool later;   /* the transaction is such a one */
	struct pg_shape *shapes;
	unsigned count;
	/* Answers to what was put in between, by their number, and the next one's number. */
	unsigned hidden[2];
	unsigned hidden_count;
	unsigned answered;
};

/* Prepare a statement at once, or with shape NULL forget all that are: 0, or a negative errno. */
typedef int pg_prepare_fn(void *arg, unsigned number, const char *shape);

/* Append what is sent for statements that are separated by ";".  prepare: or NULL in the middle of
 * a transaction, where nothing new may fail. */
int pg_message_say(struct pg_message *message, struct bytes statements, pg_prepare_fn *prepare,
		   void *arg, struct buf *buf);
/* An answer has come; whether it is to none of these statements. */
bool pg_message_hides(struct pg_message *message);
void pg_message_done(struct pg_message *message);

#endif
