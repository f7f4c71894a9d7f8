/* SPDX-License-Identifier: MIT */
/*
 * Writes.  There is one writer's connection and a queue of those who want it.  Whoever finds nobody
 * writing becomes the writer: takes the batches that wait, applies all of them in one transaction,
 * hands the connection on to the first who has come meanwhile, and wakes each owner of a batch with
 * his own result.  So committers that come together share the cost of a commit.
 *
 * To sleep and to be woken costs as much as a good part of a commit.  So who waits lets others have
 * the processor a few times before he sleeps, and is woken once at the most.  And where several
 * commit, the one whose turn it is lets others run first: they bring more to his transaction.  With
 * nobody else to run, or one committer alone, neither takes time.
 *
 * A failure is rare, and then the whole transaction is given up and each batch is tried again in
 * one of its own: this finds the one that failed, lets it fail alone, and needs no savepoint (which
 * would copy every page that a batch touches).  It also covers a COMMIT that fails and a
 * transaction that SQLite has rolled back by itself.  A batch with more() cannot be repeated; it
 * runs in a transaction of its own from the start.
 *
 * Where the disk is full, room is made before anything fails, and who frees gets the reserve
 * (room.c).
 */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>

#include "backend/sqlite/internal.h"
#include "src/base/cleanup.h"
#include "src/base/tick.h"

enum {
	GROUP_MAX = 64, /* batches in one transaction: nobody waits for ever more of the others */
	ROW_LARGE = 1 << 20, /* bytes of a row that is not to be held many times */
	YIELDS = 40,	     /* before a committer sleeps */
};

struct sqlite_request {
	struct backend_batch *batch; /* NULL: wants to use the connection himself */
	unsigned flags;
	int result;
	bool done;
	sem_t turn; /* posted once: it is done, or its owner is the writer now */
	struct sqlite_request *next;
};

typedef int apply_fn(struct sqlite_conn *conn, const struct backend_op *op, const char *now);

/*
 * How an operation becomes SQL: the statements, and which of its fields their parameters are, one
 * letter each from ?1 on:
 *	s session  k key  S session_to  K key_to  (text)    n name  d data  (blob)   D data (text)
 *	i ino  p parent  o offset  @ at  t to  q seq        T the time
 */
struct recipe {
	enum sqlite_sql statements[6]; /* ends with SQL_NONE */
	const char *fields;
	bool rows;	 /* changes the rows' table */
	apply_fn *apply; /* instead */
};

static apply_fn apply_row_put, apply_node_put, apply_change_done;

static const struct recipe recipes[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = { { SQL_ROW_INSERT }, "sk@DT", true, NULL },
	[BACKEND_ROW_PUT] = { { SQL_ROW_PUT }, "sk@DT", true, apply_row_put },
	[BACKEND_ROW_DELETE] = { { SQL_ROW_DELETE }, "sk@t", true, NULL },
	[BACKEND_KEY_MOVE] = { { SQL_KEY_CLEAR_TARGET, SQL_KEY_MOVE }, "skSK", true, NULL },
	[BACKEND_KEY_HIDE] = { { SQL_TRASH_MAKE, SQL_KEY_HIDE, SQL_KEY_HIDDEN },
			       "ski",
			       true,
			       NULL },
	[BACKEND_KEY_SHOW] = { { SQL_TRASH_MAKE, SQL_KEY_SHOW, SQL_KEY_SHOWN }, "ski", true, NULL },
	[BACKEND_HIDDEN_DELETE] = { { SQL_TRASH_MAKE, SQL_HIDDEN_DELETE }, "i@t", true, NULL },
	[BACKEND_NODE_PUT] = { { SQL_NONE }, "", false, apply_node_put },
	[BACKEND_NODE_DELETE] = { { SQL_NODE_DELETE, SQL_NODE_XATTRS_DELETE, SQL_NODE_CHUNKS_DELETE,
				    SQL_NODE_PIECES_DELETE, SQL_NODE_MARKS_DELETE },
				  "i",
				  false,
				  NULL },
	[BACKEND_ENTRY_PUT] = { { SQL_ENTRY_PUT }, "p@ni", false, NULL },
	[BACKEND_ENTRY_DELETE] = { { SQL_ENTRY_DELETE }, "p@", false, NULL },
	[BACKEND_XATTR_PUT] = { { SQL_XATTR_PUT }, "ind", false, NULL },
	[BACKEND_XATTR_DELETE] = { { SQL_XATTR_DELETE }, "in", false, NULL },
	[BACKEND_CHUNK_PUT] = { { SQL_CHUNK_PUT }, "i@d", false, NULL },
	[BACKEND_CHUNK_DELETE] = { { SQL_CHUNK_DELETE }, "i@t", false, NULL },
	[BACKEND_PIECE_PUT] = { { SQL_PIECE_PUT }, "i@qd", false, NULL },
	[BACKEND_PIECE_DELETE] = { { SQL_PIECE_DELETE }, "i@tq", false, NULL },
	[BACKEND_MARK_PUT] = { { SQL_MARK_PUT }, "io@", false, NULL },
	[BACKEND_MARK_DELETE] = { { SQL_MARK_DELETE }, "io", false, NULL },
	[BACKEND_CHANGE_DONE] = { { SQL_NONE }, "", false, apply_change_done },
};

static int64_t clip(uint64_t number)
{
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static void bind_field(sqlite3_stmt *statement, int index, char field, const struct backend_op *op,
		       const char *now)
{
	switch (field) {
	case 's':
		sqlite_bind_text(statement, index, op->session);
		break;
	case 'k':
		sqlite_bind_text(statement, index, op->key);
		break;
	case 'S':
		sqlite_bind_text(statement, index, op->session_to);
		break;
	case 'K':
		sqlite_bind_text(statement, index, op->key_to);
		break;
	case 'n':
		sqlite_bind_blob(statement, index, op->name);
		break;
	case 'd':
		sqlite_bind_blob(statement, index, op->data);
		break;
	case 'D':
		sqlite_bind_text(statement, index, op->data);
		break;
	case 'T':
		/* Tables without times have no parameter for it; SQLite then says no, and we do
		 * not mind. */
		sqlite_bind_text(statement, index, bytes_str(now));
		break;
	case 'i':
		sqlite3_bind_int64(statement, index, clip(op->ino));
		break;
	case 'p':
		sqlite3_bind_int64(statement, index, clip(op->parent));
		break;
	case 'o':
		sqlite3_bind_int64(statement, index, clip(op->offset));
		break;
	case '@':
		sqlite3_bind_int64(statement, index, op->at);
		break;
	case 't':
		sqlite3_bind_int64(statement, index, op->to);
		break;
	case 'q':
		sqlite3_bind_int64(statement, index, op->seq);
		break;
	}
}

static int finish(struct sqlite_conn *conn, sqlite3_stmt *statement)
{
	int r = sqlite_result(conn, sqlite3_step(statement));

	sqlite3_reset(statement);
	return r;
}

static int apply_recipe(struct sqlite_conn *conn, const struct recipe *recipe,
			const struct backend_op *op, const char *now)
{
	int r = 0;

	for (const enum sqlite_sql *sql = recipe->statements; r == 0 && *sql != SQL_NONE; sql++) {
		sqlite3_stmt *statement = sqlite_conn_take(conn, *sql, &r);

		if (!statement)
			return r;
		for (int i = 0; recipe->fields[i]; i++)
			bind_field(statement, i + 1, recipe->fields[i], op, now);
		r = finish(conn, statement);
	}
	return r;
}

static int row_is_same(struct sqlite_conn *conn, const struct backend_op *op)
{
	int r = 0, code;
	sqlite3_stmt *statement = sqlite_conn_take(conn, SQL_ROW_SAME, &r);

	if (!statement)
		return r;
	for (int i = 0; "sk@D"[i]; i++)
		bind_field(statement, i + 1, "sk@D"[i], op, NULL);
	code = sqlite3_step(statement);
	r = sqlite_result(conn, code);
	sqlite3_reset(statement);
	return r < 0 ? r : code == SQLITE_ROW;
}

/* An insert that turns into an update has the old row, the new one, and two records in memory: for
 * a large one it is better done in steps. */
static int apply_row_put(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	static const struct recipe put = { { SQL_ROW_PUT }, "sk@DT", true, NULL };
	static const struct recipe update = { { SQL_ROW_UPDATE }, "sk@DT", true, NULL };
	static const struct recipe ensure = { { SQL_ROW_ENSURE }, "sk@DT", true, NULL };
	int r;

	if (op->data.size < ROW_LARGE)
		return apply_recipe(conn, &put, op, now);
	r = row_is_same(conn, op);
	if (r != 0)
		return MIN(r, 0);
	r = apply_recipe(conn, &update, op, now);
	if (r < 0 || sqlite3_changes(conn->db) > 0)
		return r;
	return apply_recipe(conn, &ensure, op, now);
}

static void bind_optional(sqlite3_stmt *statement, int index, struct bytes text, bool blob)
{
	if (!text.data)
		sqlite3_bind_null(statement, index);
	else if (blob)
		sqlite_bind_blob(statement, index, text);
	else
		sqlite_bind_text(statement, index, text);
}

static int put_node(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_node *node)
{
	const int64_t numbers[] = {
		clip(node->ino), clip(node->parent), clip(node->entry), node->kind,
		node->flags,	 node->mode,	     node->uid,		node->gid,
		node->nlink,	 clip(node->rdev),   clip(node->size),	node->atime,
		node->mtime,	 node->ctime,	     node->btime,
	};
	int r = 0, index = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, sql, &r);

	if (!statement)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sqlite3_bind_int64(statement, ++index, numbers[i]);
	bind_optional(statement, ++index, node->session, false);
	bind_optional(statement, ++index, node->key, false);
	bind_optional(statement, ++index, node->target, true);
	return finish(conn, statement);
}

static int apply_node_put(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	int r = put_node(conn, SQL_NODE_TOUCH, op->node);

	(void)now;
	if (r == 0 && sqlite3_changes(conn->db) == 0)
		r = put_node(conn, SQL_NODE_PUT, op->node);
	return r;
}

static int apply_change_done(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	static const struct recipe one = { { SQL_CHANGE_DONE }, "sk@", false, NULL };
	static const struct recipe everything = { { SQL_EVERYTHING_DONE }, "@", false, NULL };
	static const struct recipe aside = { { SQL_DIGESTED_SET }, "@", false, NULL };

	if (op->session.data)
		return apply_recipe(conn, &one, op, now);
	if (conn->store->mode == MODE_ASIDE)
		return apply_recipe(conn, &aside, op, now);
	return apply_recipe(conn, &everything, op, now);
}

static int check_op(const struct sqlite *store, const struct backend_op *op)
{
	if ((unsigned)op->type >= BACKEND_OP_TYPES)
		return -EINVAL;
	if (recipes[op->type].rows ? store->mode != MODE_WHOLE : store->rows_only)
		return -EROFS;
	if (op->data.size > store->backend.max_item)
		return -EFBIG;
	if (op->type == BACKEND_CHUNK_PUT && op->data.size > BACKEND_CHUNK)
		return -EINVAL;
	return 0;
}

static int apply_op(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	const struct recipe *recipe;
	int r = check_op(conn->store, op);

	if (r < 0)
		return r;
	recipe = &recipes[op->type];
	return recipe->apply ? recipe->apply(conn, op, now) : apply_recipe(conn, recipe, op, now);
}

static bool is_next_row(const struct backend_op *op, const struct backend_op *next)
{
	return next->type == BACKEND_ROW_INSERT && next->at - 1 == op->at &&
	       bytes_equal(next->session, op->session) && bytes_equal(next->key, op->key);
}

/* Whether the next SQLITE_ROWS operations append to one list. */
static bool are_rows(const struct backend_op *ops, size_t count)
{
	if (count < SQLITE_ROWS || ops->type != BACKEND_ROW_INSERT)
		return false;
	for (size_t i = 1; i < SQLITE_ROWS; i++)
		if (!is_next_row(&ops[i - 1], &ops[i]))
			return false;
	return true;
}

/* In one statement that takes half the time: the place in the tables is looked for once. */
static int apply_rows(struct sqlite_conn *conn, const struct backend_op *ops, const char *now)
{
	static const char fields[] = "sk@DT"; /* of the first; the data of the others follow */
	const int count = sizeof(fields) - 1;
	sqlite3_stmt *statement;
	int r = 0;

	for (size_t i = 0; r == 0 && i < SQLITE_ROWS; i++)
		r = check_op(conn->store, &ops[i]);
	if (r < 0)
		return r;
	statement = sqlite_conn_take(conn, SQL_ROWS_INSERT, &r);
	if (!statement)
		return r;
	for (int i = 0; i < count; i++)
		bind_field(statement, i + 1, fields[i], ops, now);
	for (int i = 1; i < SQLITE_ROWS; i++)
		bind_field(statement, count + i, 'D', &ops[i], now);
	return finish(conn, statement);
}

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

static int apply_batch(struct sqlite_conn *conn, struct backend_batch *batch, const char *now)
{
	int r;

	for (;;) {
		uint64_t bytes = weigh(batch);

		for (size_t i = 0; i < batch->count;) {
			const struct backend_op *op = &batch->ops[i];
			/* With triggers, SQLite would hold all of them at once. */
			bool rows = !conn->store->writer_triggers && are_rows(op, batch->count - i);

			r = rows ? apply_rows(conn, op, now) : apply_op(conn, op, now);
			if (r < 0)
				return r;
			i += rows ? SQLITE_ROWS : 1;
		}
		r = sqlite_room_check(conn->store, bytes);
		if (r < 0 || !batch->more)
			return r;
		tick(batch->count);
		r = batch->more(batch);
		if (r <= 0)
			return r;
	}
}

/*
 * A guest (import, gc ... beside a mount) must be heard by the owner, so its changes of rows go
 * through the triggers - if there is an owner.  Who becomes the owner takes the lock first
 * and then this store's write lock, in which we are now: either we see him, or he reads the
 * rows after our commit.  A guest that changes rows only leaves nodes and marks as they are, so the
 * next owner has to hear of it, too.
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

/* Who has asked for one sync will ask again.  On a disk that is nearly full nothing grows that need
 * not. */
static void set_ahead(struct sqlite *store)
{
	bool ahead = atomic_load_explicit(&store->keeper.asked, memory_order_relaxed) &&
		     !store->room.nearly_full;

	if (ahead == store->writer_ahead)
		return;
	sqlite_join_ahead(store->writer.db, ahead);
	store->writer_ahead = ahead;
}

static int pending_now(struct sqlite *store, bool *ret_pending)
{
	int64_t digested = -1, version = 0;
	bool cut = false;
	int r;

	if (store->mode != MODE_ASIDE) {
		r = sqlite_conn_pending(&store->writer, ret_pending, &cut);
		if (r == 0 && cut)
			r = sqlite_schema_mend(&store->writer);
		if (r == 0 && cut) {
			sqlite_conn_renew(&store->writer);
			*ret_pending = true;
		}
		return r;
	}
	r = sqlite_conn_number(&store->writer, SQL_DIGESTED, &digested);
	if (r == 0)
		r = sqlite_version(store, &version);
	if (r == 0)
		*ret_pending = version != digested;
	return r;
}

/*
 * One transaction for the requests from first on, as far as end (exclusive).  Returns 0 when each
 * has its result; a failure says that nothing was applied and who failed is unknown.
 */
static int run_group(struct sqlite *store, struct sqlite_request *first, struct sqlite_request *end)
{
	struct sqlite_conn *conn = &store->writer;
	char now[SQLITE_STAMP];
	bool pending = false;
	int r = pending_now(store, &pending);

	sqlite_room_begin(store);
	store->room.written = 0;
	sqlite_stamp_now(now);
	set_triggers(store);
	set_ahead(store);
	for (struct sqlite_request *request = first; r == 0 && request != end;
	     request = request->next) {
		/* A batch before this one may have digested the changes. */
		if (pending && request != first)
			r = pending_now(store, &pending);
		request->result = pending && !(request->flags & BACKEND_ANYWAY) ? -ESTALE : 0;
		if (r == 0 && request->result == 0)
			r = apply_batch(conn, request->batch, now);
	}
	if (r == 0)
		r = sqlite_conn_run(conn, SQL_COMMIT);
	if (r < 0)
		sqlite_conn_rollback(conn);
	return r;
}

static void set_result(struct sqlite_request *first, struct sqlite_request *end, int result)
{
	for (struct sqlite_request *request = first; request != end; request = request->next)
		request->result = result;
}

static int run_alone(struct sqlite *store, struct sqlite_request *request)
{
	int r = sqlite_conn_begin(&store->writer, SQL_BEGIN_IMMEDIATE);

	return r < 0 ? r : run_group(store, request, request->next);
}

/* One request alone.  The disk is full: what failed has left its pages in the WAL, and with them
 * gone there may be room for something smaller, such as deleting a file. */
static int try_harder(struct sqlite *store, struct sqlite_request *request)
{
	bool made = sqlite_room_make(store);
	int r = -ENOSPC;

	if (request->batch->more)
		return r;
	if (made)
		r = run_alone(store, request);
	if (r == -ENOSPC && (request->flags & BACKEND_FREES) && sqlite_room_lend(store)) {
		r = run_alone(store, request);
		sqlite_room_return(store);
	}
	return r;
}

/* A batch that cannot be repeated gets the reserve beforehand, where it may come to need it. */
static bool lend_before(struct sqlite *store, const struct sqlite_request *request)
{
	return request->batch->more && (request->flags & BACKEND_FREES) &&
	       store->room.nearly_full && sqlite_room_make(store) && sqlite_room_lend(store);
}

static void run(struct sqlite *store, struct sqlite_request *first, struct sqlite_request *end)
{
	bool lent = lend_before(store, first);
	int r;
	bool begun;

	if (store->room.nearly_full)
		sqlite_room_prepare(store, weigh_all(first, end));
	r = sqlite_conn_begin(&store->writer, SQL_BEGIN_IMMEDIATE);
	begun = r == 0;
	if (begun)
		r = run_group(store, first, end);
	if (lent)
		sqlite_room_return(store);
	if (r == -ENOSPC && first->next == end)
		r = try_harder(store, first);
	if (r == 0)
		sqlite_keeper_committed(store);
	else if (!begun && r != -ENOSPC)
		/* Nobody would fare better alone, and each would wait as long again. */
		set_result(first, end, r);
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

	if (request->batch->more)
		return request->next;
	while (request && request->batch && !request->batch->more && count++ < GROUP_MAX)
		request = request->next;
	return request;
}

/* Out of the queue, as far as end (exclusive).  They stay linked. */
static void take_out(struct sqlite *store, struct sqlite_request *end)
{
	store->queue.first = end;
	if (!end)
		store->queue.last = &store->queue.first;
}

/*
 * Wait until a request is done or its owner is the writer.  With queue.lock held; drops it.  A
 * request is not touched any more once its semaphore was posted.
 */
static void wait_for_turn(struct sqlite *store, struct sqlite_request *request)
{
	if (!store->queue.writing) {
		store->queue.writing = true;
		pthread_mutex_unlock(&store->queue.lock);
		return;
	}
	pthread_mutex_unlock(&store->queue.lock);
	for (int i = 0; i < YIELDS; i++) {
		if (sem_trywait(&request->turn) == 0)
			return;
		sched_yield();
	}
	while (sem_wait(&request->turn) < 0)
		;
}

/* The writer lets the next one write. */
static void hand_on(struct sqlite *store)
{
	struct sqlite_request *next;

	pthread_mutex_lock(&store->queue.lock);
	next = store->queue.first;
	store->queue.writing = next;
	pthread_mutex_unlock(&store->queue.lock);
	if (next)
		sem_post(&next->turn);
}

/* The writer's: commit what waits, with his own request in front. */
static void lead(struct sqlite *store, struct sqlite_request *own)
{
	struct sqlite_request *end, *next;

	if (store->queue.crowded)
		sched_yield();
	pthread_mutex_lock(&store->queue.lock);
	end = group_end(store);
	store->queue.crowded = own->next;
	take_out(store, end);
	pthread_mutex_unlock(&store->queue.lock);
	run(store, own, end);
	for (struct sqlite_request *request = own->next; request != end; request = next) {
		next = request->next;
		request->done = true;
		sem_post(&request->turn);
	}
	hand_on(store);
}

/* Joins the queue, with queue.lock held. */
static void join_queue(struct sqlite *store, struct sqlite_request *request)
{
	sem_init(&request->turn, 0, 0);
	*store->queue.last = request;
	store->queue.last = &request->next;
}

int sqlite_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct sqlite *store = sqlite_of(backend);
	struct sqlite_request request = { .batch = batch, .flags = flags };

	if (store->mode == MODE_FROZEN || store->damaged)
		return -EROFS;
	pthread_mutex_lock(&store->queue.lock);
	join_queue(store, &request);
	wait_for_turn(store, &request);
	if (!request.done)
		lead(store, &request);
	sem_destroy(&request.turn);
	if (request.result == 0 && (flags & BACKEND_SYNC_SOON))
		sqlite_sync_soon(store);
	return request.result;
}

void sqlite_writer_take(struct sqlite *store)
{
	struct sqlite_request request = { 0 };

	pthread_mutex_lock(&store->queue.lock);
	join_queue(store, &request);
	wait_for_turn(store, &request);
	pthread_mutex_lock(&store->queue.lock);
	take_out(store, request.next);
	pthread_mutex_unlock(&store->queue.lock);
	sem_destroy(&request.turn);
}

void sqlite_writer_give(struct sqlite *store)
{
	hand_on(store);
}

int sqlite_writer_mend(struct sqlite *store)
{
	struct sqlite_conn *conn = &store->writer;
	int r;

	sqlite_writer_take(store);
	r = sqlite_conn_begin(conn, SQL_BEGIN_IMMEDIATE);
	if (r == 0) {
		r = sqlite_schema_mend(conn);
		if (r == 0)
			r = sqlite_conn_run(conn, SQL_COMMIT);
		if (r < 0)
			sqlite_conn_rollback(conn);
	}
	sqlite_writer_give(store);
	return r;
}
