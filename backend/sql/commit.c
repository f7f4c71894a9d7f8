/* SPDX-License-Identifier: MIT */
/*
 * Writes.  There is one writer's connection and a queue of those who want it.  Whoever finds
 * nobody writing becomes the writer, takes the batches that wait, and sends all of them as one
 * transaction in one packet: one round trip.  The rows that they insert go in one statement, and
 * so does what they depend on of other programs' changes.
 *
 * The head of a transaction locks what it depends on (transaction.c), and fails if something of
 * that has changed that this mount has not read: then that is read, with all still locked, and the
 * transaction is made anew behind it.
 *
 * The transactions of a mount have numbers.  When the connection is lost, notes with the number of
 * the last one tell whether it was committed, or of one that leaves none the number in the row of
 * this mount in sessfs_mount (its lane).  If it was not, that is set to the number behind it, which
 * no transaction has: so one that is still on its way will not be, since each needs a lower number
 * there than its own.
 *
 * A caller that has waited for the timeout gets -EIO, and the lane is asked later.  If the commit
 * was there all the same, anything may have changed for this mount: memory does not have it.
 *
 * A failure is rare.  Then the whole transaction is given up, and each batch is tried again in
 * one of its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/sql/transaction.h"
#include "backend/sql/cursor.h"
#include "backend/sql/feed.h"
#include "backend/sql/mounts.h"
#include "backend/sql/schema.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

enum {
	GROUP_MAX = 64,	     /* batches in one transaction */
	TRIES = 20,	     /* of a transaction that the server gives up */
	TURN_MS = 10000,     /* that one mount may have the turn */
	SQL_DOUBT = -100004, /* nobody knows what has become of what was sent: -EIO, said already */
	GATHER_PART = 4,     /* of what a transaction takes: gather(), */
	GATHER_US = 2000,    /* and at most */
};

static void rollback(struct sql *store)
{
	if (store->writer.link &&
	    sql_ask(store, store->writer.link, bytes_str("ROLLBACK"), NULL) < 0)
		sql_disconnect(store, &store->writer.link);
}

/* Whether the last transaction was committed, of which nothing was heard: 1, 0, or -EOWNERDEAD if
 * nobody can know, since the mount was ended.  told: who waits for it will hear; otherwise it was
 * given up, and if it was committed, what is remembered here is not what is stored. */
static int ask_lane(struct sql *store, bool told)
{
	const struct sql_value mount = sql_id(store->number);
	const int64_t number = store->writer.lane + 1;
	struct sql_link *link = store->writer.link;
	int64_t lane = -1, notes = 0;
	bool done;
	int r = sql_ask(store, link, bytes_str(store->texts.driver->begin_write), NULL);

	if (r == 0)
		r = sql_ask_number(store, link, SQL_LANE_ASK, &mount, 1, &lane);
	if (r == 0)
		r = sql_ask_number(store, link, SQL_LANE_NOTES,
				   SQL_VALUES(mount, sql_number(number)), &notes);
	done = notes || lane == number;
	if (r == 0 && lane >= 0 && !done)
		r = sql_ask_text(store, link, SQL_LANE_SET,
				 SQL_VALUES(mount, sql_number(number + 1)), NULL);
	if (r == 0)
		r = sql_ask(store, link, BYTES("COMMIT"), NULL);
	if (r < 0)
		return r == -EROFS ? r : -ENOTCONN;
	store->writer.lane = done ? number : number + 1;
	if (done && !told)
		sql_feed_lost(store);
	return lane < 0 && !done ? -EOWNERDEAD : done;
}

/* A new connection; 1: and what was sent last is committed. */
static int reconnect(struct sql *store, int64_t until, bool sent, char **ret_why)
{
	int r = sql_connect(store, true, until, &store->writer.link, ret_why);

	store->writer.silent = 1;
	if (r < 0 || !store->writer.unsure)
		return r;
	store->texts.driver->until(store->writer.link, until);
	r = ask_lane(store, sent);
	if (r == -ENOTCONN || r == -EROFS) {
		sql_disconnect(store, &store->writer.link);
		return r;
	}
	store->writer.unsure = false;
	if (r == -EOWNERDEAD && sent)
		log_error("%s: other mounts ended this one while the server did not answer, so its "
			  "last change may be lost",
			  store->database);
	if (!sent)
		return 0;
	return r == -EOWNERDEAD ? SQL_DOUBT : r;
}

/* 0: what is known of the columns of the rows' table is true now; last: unless it was before, when
 * a statement failed.  A column may have come and gone between the two. */
static int look_at_columns(struct sql *store, bool last)
{
	const enum sql_versions before = store->versions;
	_cleanup_(freep) char *why =
		bytes_dup(bytes_str(store->texts.driver->sentence(store->writer.link)));
	int r;

	rollback(store);
	r = store->writer.link ? sql_schema_versions(store) : -ENOTCONN;
	if (r < 0 || !last || store->versions != before)
		return r;
	log_error("%s: %s", store->database, why ? why : "a column is missing");
	return -EIO;
}

/* Once, and if something stands against it of which this mount may not know, once more behind that;
 * -ENOMSG: a column of the rows' table has gone, or has come. */
static int commit_try(struct sql *store, struct sql_request *first, struct sql_request *end,
		      struct sql_turn *turn, struct sql_request **ret_failed)
{
	int r = sql_transaction(store, first, end, NULL, ret_failed);

	if (r == SQL_NOTE_FAILED || (r == -EEXIST && store->writer.placed)) {
		rollback(store);
		r = store->writer.link ?
			    sql_ask(store, store->writer.link,
				    bytes_str(store->texts.driver->begin_write), NULL) :
			    -ENOTCONN;
		r = r < 0 ? r : SQL_HEAD_FAILED;
	}
	return r == SQL_HEAD_FAILED ? sql_transaction(store, first, end, turn, ret_failed) : r;
}

static int run_once(struct sql *store, struct sql_request *first, struct sql_request *end,
		    struct sql_request **ret_failed)
{
	int64_t until = tick_ms() + TURN_MS;
	struct sql_turn turn = { 0 };
	int r, looks = 0;

	for (;;) {
		r = commit_try(store, first, end, &turn, ret_failed);
		if (r == -ENOMSG) {
			r = look_at_columns(store, ++looks >= TRIES || tick_ms() > until);
			if (r < 0)
				return r;
			continue;
		}
		if (r == SQL_LOST) {
			rollback(store);
			r = store->writer.link ? sql_mounts_rejoin(store) : -ENOTCONN;
			return r < 0 ? r : -ESTALE;
		}
		if (r != SQL_TURN_TAKEN && r != SQL_AGAIN)
			return r;
		if (tick_ms() > until)
			return -EBUSY;
		rollback(store);
		if (!store->writer.link)
			return -ENOTCONN;
		if (r == SQL_TURN_TAKEN)
			tick_pause(2);
	}
}

/* As long as it is not the fault of the requests. */
static int run_all(struct sql *store, struct sql_request *first, struct sql_request *end,
		   struct sql_request **ret_failed)
{
	int64_t until = MAX(sql_until(store), store->gave_up_at ? first->until : 0);
	const int64_t begun = tick_ms();
	_cleanup_(freep) char *why = NULL;
	bool sent = false;
	int r;

	for (int tries = 0;;) {
		r = store->writer.link ? 0 : reconnect(store, until, sent, &why);
		if (r == 1)
			return 0;
		if (r == 0) {
			store->texts.driver->until(store->writer.link, until);
			r = run_once(store, first, end, ret_failed);
			sent = true;
		}
		if (store->writer.link)
			store->texts.driver->until(store->writer.link, 0);
		if (r == 0 || r == SQL_DOUBT)
			return r;
		/* What keeps the server from telling what has become of what was sent is no answer
		 * to that. */
		if ((r != -EDEADLK && sql_is_passing(r)) || (sent && store->writer.unsure)) {
			sql_disconnect(store, &store->writer.link);
			store->writer.unsure |= sent;
			if (r == -EROFS || sql_has_waited(until, r, begun)) {
				sql_gave_up(store, r, why);
				return SQL_DOUBT;
			}
			tick_pause(50);
		} else {
			rollback(store);
			if (r == SQL_LANE_FAILED) {
				log_error("%s: another process has committed as this mount",
					  store->database);
				return -EIO;
			}
			if (r != -EDEADLK || ++tries > TRIES)
				return r == -EDEADLK ? -EBUSY : r;
			tick_pause(tries + (int)(random() % 8));
		}
	}
}

static void run(struct sql *store, struct sql_request *first, struct sql_request *end)
{
	struct sql_request *failed, *next;
	int r = run_all(store, first, end, &failed);

	if (first->next == end && r != SQL_DOUBT) {
		/* A row that is there already may be another program's. */
		if (r == -EEXIST && !first->batch->more && store->writer.link &&
		    sql_transaction_guard(store, first) == -ESTALE)
			r = -ESTALE;
		first->result = MIN(r, 0);
		return;
	}
	/* If nobody knows what has become of it, to try a part of it again could do that twice. */
	for (struct sql_request *request = first; request != end; request = next) {
		next = request->next;
		if (r < 0 && r != SQL_DOUBT)
			run(store, request, next);
		else
			request->result = r == SQL_DOUBT ? -EIO : 0;
	}
}

static bool goes_alone(const struct sql_request *request)
{
	return request->batch->more || (request->flags & BACKEND_AT_ONCE);
}

/* The requests that go together, from the front of the queue, and how many they are. */
static struct sql_request *take_group(struct sql *store, unsigned *ret_count)
{
	struct sql_request *request = store->queue.first->next;

	*ret_count = 1;
	if (goes_alone(store->queue.first))
		return request;
	for (; request && !goes_alone(request) && *ret_count < GROUP_MAX; ++*ret_count)
		request = request->next;
	return request;
}

/*
 * Those who have just been answered come again in a moment if they go on at all; and who goes
 * without them has them wait for another transaction, and waits for theirs then.  So the writer
 * waits until as many are there as were before, but only for a part of what a transaction takes,
 * from the end of the last one on: who comes later waits for nobody.  One that took long was held
 * up by something else than the way.
 */
static void gather(struct sql *store)
{
	const int64_t until = store->queue.ended +
			      MIN(store->queue.took / GATHER_PART, GATHER_US * INT64_C(1000));
	const unsigned expected = MIN(store->queue.expected, (unsigned)GROUP_MAX);
	int r = 0;

	if (goes_alone(store->queue.first) || tick_now() >= until)
		return;
	while (r == 0 && store->queue.waiting < expected)
		r = tick_cond_wait(&store->queue.came, &store->queue.lock, until);
}

/* The writer's, with the lock: commit what waits from the front on. */
static void lead(struct sql *store)
{
	struct sql_request *first, *end, *next;
	unsigned count;
	int64_t begun;
	bool alone;

	store->queue.writing = true;
	gather(store);
	first = store->queue.first;
	alone = goes_alone(first);
	end = take_group(store, &count);
	store->queue.first = end;
	store->queue.waiting -= count;
	if (!end)
		store->queue.last = &store->queue.first;
	pthread_mutex_unlock(&store->queue.lock);
	begun = tick_now();
	run(store, first, end);
	pthread_mutex_lock(&store->queue.lock);
	store->queue.ended = tick_now();
	store->queue.took = store->queue.ended - begun;
	store->queue.expected = (alone ? 0 : count) + store->queue.waiting;
	for (; first != end; first = next) {
		next = first->next;
		first->done = true;
	}
	store->queue.writing = false;
	pthread_cond_broadcast(&store->queue.moved);
}

int sql_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct sql *store = sql_of(backend);
	struct sql_request request = { .batch = batch, .flags = flags, .until = sql_until(store) };

	if (!store->number)
		return -EROFS;
	WITH_MUTEX(&store->queue.lock);
	if ((flags & BACKEND_AT_ONCE) && store->queue.writing)
		return -EBUSY;
	*store->queue.last = &request;
	store->queue.last = &request.next;
	store->queue.waiting++;
	pthread_cond_signal(&store->queue.came);
	while (!request.done) {
		if (store->queue.writing)
			pthread_cond_wait(&store->queue.moved, &store->queue.lock);
		else
			lead(store);
	}
	return request.result;
}
