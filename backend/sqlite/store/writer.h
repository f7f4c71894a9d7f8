/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_WRITER_H
#define BACKEND_SQLITE_WRITER_H

/* The writer's connection: its user alone has the store's write lock. */

#include <semaphore.h>
#include <stdbool.h>

#include "backend/backend.h"

struct sqlite;
struct sqlite_conn;

/* A thread that wants its batch committed, or the connection; lives on its stack. */
struct sqlite_request {
	struct backend_batch *batch; /* NULL: it wants to use the connection itself */
	unsigned flags;		     /* of commit() */
	int result;		     /* of the batch, when it is done */
	bool done;		     /* by another thread, which was the writer */
	sem_t turn;		     /* posted once: it is done, or its thread is the writer now */
	struct sqlite_request *next;
};

/* A request comes to the end of the queue, with queue.lock held. */
void sqlite_queue_join(struct sqlite *store, struct sqlite_request *request);
/* Wait until a request is done or its thread is the writer.  With queue.lock held; drops it.  A
 * request is not touched any more once its semaphore was posted. */
void sqlite_queue_wait(struct sqlite *store, struct sqlite_request *request);
/* The requests before end leave the queue, with queue.lock held.  They stay linked. */
void sqlite_queue_leave(struct sqlite *store, struct sqlite_request *end);

/* Apply the first of count operations, or several at once, in the transaction of the writer: how
 * many, or -errno. */
int sqlite_apply(struct sqlite_conn *conn, const struct backend_op *ops, size_t count);
/* Become the writer, the only user of store->writer; waits for the present one. */
void sqlite_writer_take(struct sqlite *store);
/* The same, unless it would have to wait. */
bool sqlite_writer_try(struct sqlite *store);
/* The next one may write. */
void sqlite_writer_give(struct sqlite *store);
/* Take the writer and mend the schema. */
int sqlite_writer_mend(struct sqlite *store);

#endif
