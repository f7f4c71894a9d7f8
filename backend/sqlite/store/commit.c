/* SPDX-License-Identifier: MIT */
/*
 * Writes.  There is one writer's connection and a queue of threads that want it.  A thread that
 * finds the connection free becomes the writer: it takes the pending batches, applies all of them
 * in one transaction, hands the connection on to the first thread that has come meanwhile, and
 * wakes the thread of each batch with its own result.  So committers that come together share the
 * cost of a commit.
 *
 * To sleep and to be woken costs as much as a good part of a commit.  So a waiting thread yields
 * the processor a few times before it sleeps, and is woken at most once.  Where several commit,
 * the next writer yields first, too: the others add more to its transaction.  Without other
 * threads to run, or with one committer alone, neither takes time.
 *
 * A failure is rare, and then the whole transaction is given up and each batch is tried again in
 * one of its own: this finds the one that failed, lets it fail alone, and needs no savepoint (which
 * would copy every page that a batch touches).  It also covers a COMMIT that fails and a
 * transaction that SQLite has rolled back by itself.  A batch with more() is large, and runs in a
 * transaction of its own from the start.
 *
 * On a full disk, room is made before a commit fails, and a transaction that frees space gets the
 * reserve (room.c).
 */
#include <errno.h>
#include <sched.h>

#include "backend/sqlite/rows/cursor.h"
#include "backend/base/cleanup.h"
#include "backend/sqlite/store/changes.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/feed.h"
#include "backend/sqlite/disk/join.h"
#include "backend/sqlite/disk/keeper.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/disk/reserve.h"
#include "backend/sqlite/disk/room.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/rows/past.h"
#include "backend/sqlite/store/writer.h"
#include "backend/base/moment.h"
#include "backend/base/tick.h"

enum {
	GROUP_MAX = 64, /* batches in one transaction: nobody waits for ever more of the others */
};

/* What a block of operations writes, about. */
static uint64_t weigh(const struct backend_batch *batch)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < batch->count; i++)
		bytes += batch->ops[i].data.size + SQLITE_PAGE;
	return bytes;
}

static uint64_t weigh_all(const struct sqlite_request *first, const struct sqlite_request *end)
{
	uint64_t bytes = 0;

	if (first->batch->more)
		return UINT64_MAX;
	for (; first != end; first = first->next)
		bytes += weigh(first->batch);
	return bytes;
}

/* The writer's transaction. */
struct transaction {
	struct sqlite_conn *conn;
	unsigned pending; /* SQLITE_PENDING_CHANGES and its like */
	bool shared;	  /* other mounts are there */
	/* What they have left and this one has not digested, and what this one leaves for them. */
	struct feed_notes *waiting;
	struct feed_notes notes;
};

/* Whether what others have changed concerns a batch: -ESTALE. */
static int judge_batch(struct transaction *transaction, const struct backend_batch *batch,
		       unsigned flags)
{
	const struct feed_state state = sqlite_feed_state(transaction->conn);
	bool changes = (transaction->pending & SQLITE_PENDING_CHANGES) && !(flags & BACKEND_ANYWAY);
	int r = 0;

	if (!changes && !transaction->waiting->any)
		return 0;
	for (size_t i = 0; r == 0 && i < batch->count; i++) {
		if (transaction->waiting->any)
			r = feed_judge(transaction->waiting, &state, &batch->ops[i], batch->append);
		if (r == 0 && changes)
			r = sqlite_changes_judge(transaction->conn, &batch->ops[i]);
	}
	return r;
}

static int apply_ops(struct transaction *transaction, const struct backend_op *ops, size_t count)
{
	struct sqlite_conn *conn = transaction->conn;
	const struct feed_state state = sqlite_feed_state(conn);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < count; i += (size_t)MAX(r, 0)) {
		/* Of several that are applied as one, the first tells of the others. */
		r = transaction->shared ? feed_note(&transaction->notes, &state, &ops[i]) : 0;
		if (r == 0)
			r = sqlite_apply(conn, &ops[i], count - i);
	}
	return MIN(r, 0);
}

static int apply_append(struct transaction *transaction, const struct backend_batch *batch)
{
	struct backend_append *append = batch->append;
	_cleanup_(freep) struct backend_op *ops = NULL;
	struct cursor cursor;
	size_t count;
	int r;

	append->first = append->expected;
	append->bytes = 0;
	if (!transaction->waiting->any)
		return apply_ops(transaction, batch->ops, batch->count);
	cursor = cursor_open(transaction->conn, SQL_KEY_BEHIND,
			     SQL_VALUES(sql_given(append->session), sql_given(append->key),
					sql_number(append->expected)));
	if (cursor_only(&cursor, 0)) {
		append->first = cursor_number(&cursor, 0);
		append->bytes = (uint64_t)cursor_number(&cursor, 1);
	}
	r = cursor_end(&cursor);
	if (r == 0 && append->first == append->expected)
		return apply_ops(transaction, batch->ops, batch->count);
	if (r == 0)
		r = feed_move_append(batch, &ops, &count);
	return r < 0 ? r : apply_ops(transaction, ops, count);
}

static int apply_batch(struct transaction *transaction, struct backend_batch *batch, unsigned flags)
{
	struct sqlite_conn *conn = transaction->conn;
	int r;

	for (;;) {
		uint64_t bytes = weigh(batch);

		r = batch->append ? apply_append(transaction, batch) :
				    apply_ops(transaction, batch->ops, batch->count);
		if (r < 0)
			return r;
		r = sqlite_room_check(conn->store, bytes);
		if (r < 0 || !batch->more)
			return r;
		tick(batch->count);
		r = batch->more(batch);
		if (r <= 0)
			return r;
		r = judge_batch(transaction, batch, flags);
		if (r < 0)
			return r;
	}
}

/*
 * If there is an owner, it must be notified of the changes of a guest (import, gc ... beside a
 * mount), so these go through the triggers.  A new owner takes the owner's lock first and then
 * this store's write lock, which we hold now: either we see its lock, or it reads the rows after
 * our commit.  A guest that changes rows only does not touch nodes and marks, so even a later
 * owner must be notified of it.
 */
static void set_triggers(struct sqlite *store)
{
	bool on = store->guest && store->mode == MODE_WHOLE &&
		  (store->rows_only || sqlite_file_owned(store->place.file));

	if (on == store->writer_triggers)
		return;
	sqlite3_db_config(store->writer.db, SQLITE_DBCONFIG_ENABLE_TRIGGER, (int)on, NULL);
	store->writer_triggers = on;
}

/* A caller that has asked for one sync will ask again.  On a disk that is nearly full nothing grows
 * that need not. */
static void set_ahead(struct sqlite *store)
{
	bool ahead = atomic_load_explicit(&store->keeper.asked, memory_order_relaxed) &&
		     !store->room.nearly_full;

	if (ahead == store->writer_ahead)
		return;
	sqlite_join_ahead(store->writer.db, ahead);
	store->writer_ahead = ahead;
}

static int pending_now(struct sqlite *store, unsigned *ret_pending)
{
	int64_t digested = -1, version = 0;
	bool cut = false;
	int r;

	if (store->mode != MODE_ASIDE) {
		r = sqlite_schema_pending(&store->writer, true, ret_pending, &cut);
		if (r == 0 && cut)
			r = sqlite_schema_mend(&store->writer);
		if (r == 0 && cut) {
			sqlite_conn_renew(&store->writer);
			*ret_pending |= SQLITE_PENDING_CHANGES;
		}
		return r;
	}
	r = sqlite_conn_number(&store->writer, SQL_DIGESTED, &digested);
	if (r == 0)
		r = sqlite_version(store, &version);
	if (r == 0)
		*ret_pending = version != digested ? SQLITE_PENDING_CHANGES : 0;
	return r;
}

/* What one batch comes to. */
static int run_batch(struct transaction *transaction, struct sqlite_request *request)
{
	int r = judge_batch(transaction, request->batch, request->flags);

	request->result = r == -ESTALE ? r : 0;
	if (r == 0)
		r = apply_batch(transaction, request->batch, request->flags);
	return request->result ? 0 : r;
}

/* Once the transaction is committed: if nothing of others waits, all notes so far are known. */
static int finish_group(struct transaction *transaction, struct sqlite_request *first,
			const struct sqlite_request *end)
{
	uint64_t last = 0;
	bool told = transaction->notes.any;
	int r = told ? sqlite_feed_put(transaction->conn, &transaction->notes, &last) : 0;

	for (struct sqlite_request *request = first; r == 0 && request != end;
	     request = request->next)
		if (request->result == 0 && request->batch->visible)
			request->batch->visible(request->batch->visible_arg);
	if (r == 0)
		r = sqlite_conn_run(transaction->conn, SQL_COMMIT);
	if (r == 0 && told && !transaction->waiting->any)
		sqlite_feed_known(transaction->conn->store, last);
	return r;
}

/*
 * One transaction for the requests from first on, as far as end (exclusive).  Returns 0 when each
 * has its result; after a failure nothing was applied, and it is unknown which request has failed.
 */
static int run_group(struct sqlite *store, struct sqlite_request *first, struct sqlite_request *end)
{
	struct transaction transaction = { .conn = &store->writer,
					   .waiting = &store->mounts.waiting };
	/* With the lock for writing held, behind which a store is put in the place of another.
	 * That is refused while there is an owner; the owner checks now and then and before each
	 * sync. */
	int r = store->owner && !atomic_load(&store->gone) ? 0 : sqlite_file_there(store);

	if (r == 0)
		r = pending_now(store, &transaction.pending);
	if (r == 0 && (transaction.pending & SQLITE_PENDING_FEED))
		r = sqlite_feed_collect(store);
	else
		feed_notes_done(transaction.waiting);
	transaction.shared = sqlite_mounts_shared(store);
	/* The mount that had the reserve may have ended. */
	if (store->mounts.shared && !transaction.shared)
		sqlite_reserve_open(store);
	store->mounts.shared = transaction.shared;
	sqlite_room_begin(store);
	store->room.written = 0;
	sqlite_stamp(time_now(), store->writer.now);
	store->writer.until = moment_read(store->writer.now);
	set_triggers(store);
	set_ahead(store);
	if (r == 0 && store->writer_triggers)
		r = sqlite_past_moment(&store->writer);
	if (r == 0 && store->rows_only && store->backend.forgets)
		r = sqlite_conn_exec(&store->writer, "PRAGMA secure_delete = ON");
	for (struct sqlite_request *request = first; r == 0 && request != end;
	     request = request->next) {
		/* A batch before this one may have digested the changes. */
		if ((transaction.pending & SQLITE_PENDING_CHANGES) && request != first)
			r = pending_now(store, &transaction.pending);
		if (r == 0)
			r = run_batch(&transaction, request);
	}
	if (r == 0 && store->writer_triggers)
		r = sqlite_conn_run(&store->writer, SQL_PAST_MOMENT_OVER);
	if (r == 0)
		r = finish_group(&transaction, first, end);
	if (r < 0) {
		sqlite_conn_rollback(&store->writer);
		store->ino_noted = 0; /* for sure */
	}
	sqlite_uses_admit(store);
	feed_notes_done(&transaction.notes);
	return r;
}

static int run_alone(struct sqlite *store, struct sqlite_request *request)
{
	int r = sqlite_conn_begin(&store->writer, SQL_BEGIN_IMMEDIATE);

	if (request->batch->more)
		request->batch->rewind(request->batch);
	return r < 0 ? r : run_group(store, request, request->next);
}

/* One request alone.  The disk is full, or the WAL as large as a file may be: what failed has left
 * its pages in the WAL, and with them gone there may be room for something smaller, such as
 * deleting a file. */
static int try_harder(struct sqlite *store, struct sqlite_request *request, int r)
{
	bool made = sqlite_room_make(store);

	if (made)
		r = run_alone(store, request);
	store->writer_forgets = true;
	if (r == -ENOSPC)
		r = run_alone(store, request);
	if (r == -ENOSPC && (request->flags & BACKEND_FREES) && sqlite_room_lend(store)) {
		r = run_alone(store, request);
		sqlite_room_return(store);
	}
	store->writer_forgets = false;
	return r;
}

/* Without waiting for another program, and without a word if it writes. */
static int begin_at_once(struct sqlite_conn *conn)
{
	sqlite3_stmt *statement;
	int r = 0, code;

	sqlite_conn_rollback(conn);
	statement = sqlite_conn_take(conn, SQL_BEGIN_IMMEDIATE, &r);
	if (!statement)
		return r;
	sqlite_conn_set_patience(conn, 0);
	code = sqlite3_step(statement);
	sqlite_conn_set_patience(conn, SQLITE_BUSY_MS);
	r = (code & 0xff) == SQLITE_BUSY ? -EBUSY : sqlite_result(conn, code);
	sqlite3_reset(statement);
	return r;
}

static void run(struct sqlite *store, struct sqlite_request *first, struct sqlite_request *end)
{
	bool at_once = first->flags & BACKEND_AT_ONCE;
	bool turn = store->mounts.shared && !at_once, begun;
	int r;

	if (store->room.nearly_full)
		sqlite_room_prepare(store, weigh_all(first, end));
	if (turn)
		sqlite_mounts_turn(store);
	r = at_once ? begin_at_once(&store->writer) :
		      sqlite_conn_begin(&store->writer, SQL_BEGIN_IMMEDIATE);
	begun = r == 0;
	if (begun)
		r = run_group(store, first, end);
	if (turn)
		sqlite_mounts_turn_end(store);
	if ((r == -ENOSPC || r == -EFBIG) && first->next == end)
		r = try_harder(store, first, r);
	if (r == 0)
		sqlite_keeper_committed(store);
	else if (!begun && r != -ENOSPC)
		/* No request would fare better alone, and each would wait as long again. */
		for (struct sqlite_request *request = first; request != end;
		     request = request->next)
			request->result = r;
	else if (first->next == end)
		first->result = r;
	else
		for (struct sqlite_request *request = first; request != end;
		     request = request->next)
			run(store, request, request->next);
}

/* The requests that go together, from the front of the queue. */
static struct sqlite_request *group_end(const struct sqlite *store)
{
	struct sqlite_request *request = store->queue.first;
	unsigned count = 0;

	if (request->batch->more || (request->flags & BACKEND_AT_ONCE))
		return request->next;
	while (request && request->batch && !request->batch->more && count++ < GROUP_MAX)
		request = request->next;
	return request;
}

/* The writer commits the pending requests, its own first. */
static void lead(struct sqlite *store, struct sqlite_request *own)
{
	struct sqlite_request *end, *next;

	if (store->queue.crowded)
		sched_yield();
	pthread_mutex_lock(&store->queue.lock);
	end = group_end(store);
	store->queue.crowded = own->next;
	sqlite_queue_leave(store, end);
	pthread_mutex_unlock(&store->queue.lock);
	run(store, own, end);
	for (struct sqlite_request *request = own->next; request != end; request = next) {
		next = request->next;
		request->done = true;
		sem_post(&request->turn);
	}
	sqlite_writer_give(store);
}

int sqlite_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct sqlite *store = sqlite_of(backend);
	struct sqlite_request request = { .batch = batch, .flags = flags };

	if (store->mode == MODE_FROZEN || store->damaged)
		return -EROFS;
	pthread_mutex_lock(&store->queue.lock);
	if ((flags & BACKEND_AT_ONCE) && store->queue.writing) {
		pthread_mutex_unlock(&store->queue.lock);
		return -EBUSY;
	}
	sqlite_queue_join(store, &request);
	sqlite_queue_wait(store, &request);
	if (!request.done)
		lead(store, &request);
	sem_destroy(&request.turn);
	if (request.result == 0 && (flags & BACKEND_SYNC_SOON))
		sqlite_sync_soon(store);
	return request.result;
}

int sqlite_writer_mend(struct sqlite *store)
{
	struct sqlite_conn *conn = &store->writer;
	int r;

	sqlite_writer_take(store);
	r = sqlite_conn_begin(conn, SQL_BEGIN_IMMEDIATE);
	if (r == 0)
		r = sqlite_conn_end(conn, sqlite_schema_mend(conn));
	sqlite_writer_give(store);
	return r;
}
