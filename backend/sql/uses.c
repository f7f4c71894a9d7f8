/* SPDX-License-Identifier: MIT */
/*
 * Which files are in use on which mounts: rows of sessfs_use.  One is written under a shared lock
 * of the row of the store, so either who removes the file sees it, or the note of the removal is
 * seen behind it.
 *
 * A mount that is alone says in its row that it does not tell, and to open a file costs it no
 * question.  When it notices another one it tells what it has; until then the other one cannot
 * know (-EAGAIN).
 */
#include <errno.h>

#include "backend/sql/mounts.h"
#include "backend/sql/packet.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/thread.h"

int sql_uses_guard(struct sql *store, uint64_t ino)
{
	WITH_MUTEX(&store->state.lock);

	return uses_has(&store->state.uses, ino) ? -EBUSY : 0;
}

static void set(struct sql *store, bool *flag, bool value)
{
	WITH_MUTEX(&store->state.lock);

	*flag = value;
}

/* The rows of all that are in use, in one transaction. */
int sql_uses_tell(struct sql *store, struct sql_link *link)
{
	_cleanup_(packet_done) struct sql_packet packet = { .store = store };
	size_t failed;
	int r;
	WITH_MUTEX(&store->telling);

	packet_say_plain(&packet, store->texts.driver->begin_write);
	packet_say(&packet, -EIO, SQL_STATE_SHARE, SQL_NO_VALUES);
	packet_say(&packet, -EIO, SQL_MOUNT_USES, SQL_VALUES(sql_id(store->number)));
	pthread_mutex_lock(&store->state.lock);
	for (size_t i = 0; i < store->state.uses.count; i++)
		packet_say(&packet, -EIO, SQL_USE_PUT,
			   SQL_VALUES(sql_id(store->state.uses.ino[i]), sql_id(store->number)));
	pthread_mutex_unlock(&store->state.lock);
	packet_say(&packet, -EIO, SQL_MOUNT_UNTOLD,
		   SQL_VALUES(sql_id(store->number), sql_number(0)));
	packet_say(&packet, -EIO, SQL_COMMIT, SQL_NO_VALUES);
	r = packet_flush(&packet, link, &failed);
	if (r == 0) {
		set(store, &store->state.untold, false);
		set(store, &store->state.stale_uses, false);
	}
	return r;
}

/* Whoever joins before that is told sees what was told last. */
int sql_uses_untell(struct sql *store, struct sql_link *link)
{
	int r;
	WITH_MUTEX(&store->telling);

	r = sql_ask_text(store, link, SQL_MOUNT_UNTOLD,
			 SQL_VALUES(sql_id(store->number), sql_number(1)), NULL);
	if (r == 0)
		set(store, &store->state.untold, true);
	return r;
}

static int say_use(struct sql *store, struct buf *buf, uint64_t ino)
{
	int r = buf_append_str(buf, store->texts.driver->begin_write);

	if (r == 0)
		r = sql_say(buf, &store->texts, SQL_STATE_SHARE, SQL_NO_VALUES);
	if (r == 0)
		r = sql_say(buf, &store->texts, SQL_USE_PUT,
			    SQL_VALUES(sql_id(ino), sql_id(store->number)));
	if (r == 0)
		r = sql_say(buf, &store->texts, SQL_COMMIT, SQL_NO_VALUES);
	return r < 0 ? r : sql_state_say(store, buf);
}

/* Where nobody can remove a file, nobody has to know that it is in use: it is told when the server
 * takes writes again (watch.c). */
static int tell_later(struct sql *store, struct sql_answer **ret_answer)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = buf_append_str(&buf, "ROLLBACK");

	set(store, &store->state.untold, true);
	if (r == 0)
		r = sql_state_say(store, &buf);
	return r < 0 ? r : sql_aside(store, buf_bytes(&buf), ret_answer);
}

/* Write it, and look for what was left until then: as backend_use(). */
static int tell(struct sql *store, uint64_t ino)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	struct sql_state state;
	int r = say_use(store, &buf, ino);

	if (r == 0)
		r = sql_aside(store, buf_bytes(&buf), &answer);
	if (r == -EROFS)
		r = tell_later(store, &answer);
	if (r == 0)
		r = sql_need_row(store, answer, columns);
	if (r == 0) {
		state = sql_state_read(columns);
		sql_state_learn(store, &state);
		r = state.feed ? -ESTALE : state.changes;
	}
	store->texts.driver->answer_done(answer);
	return r;
}

static void end(struct sql *store, uint64_t ino)
{
	bool told;

	pthread_mutex_lock(&store->telling);
	pthread_mutex_lock(&store->state.lock);
	uses_remove(&store->state.uses, ino);
	told = !store->state.untold;
	pthread_mutex_unlock(&store->state.lock);
	pthread_mutex_unlock(&store->telling);
	/* If the server is away for long, all that are in use are told anew then (watch.c). */
	if (told && sql_aside_text(store, SQL_USE_DELETE,
				   SQL_VALUES(sql_id(ino), sql_id(store->number)), NULL) < 0)
		set(store, &store->state.stale_uses, true);
}

int sql_use(struct backend *backend, uint64_t ino, bool on)
{
	struct sql *store = sql_of(backend);
	bool told;
	int r;

	if (!sql_is_mount(store))
		return on;
	if (!on) {
		end(store, ino);
		return 0;
	}
	pthread_mutex_lock(&store->telling);
	pthread_mutex_lock(&store->state.lock);
	r = uses_add(&store->state.uses, ino);
	told = !store->state.untold;
	/* What others have left before they went. */
	if (r == 0 && !told && store->state.waiting.any)
		r = -ESTALE;
	pthread_mutex_unlock(&store->state.lock);
	pthread_mutex_unlock(&store->telling);
	if (r == 0)
		r = told ? tell(store, ino) : 1;
	if (r < 0)
		end(store, ino);
	return r;
}
