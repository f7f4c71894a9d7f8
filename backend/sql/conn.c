/* SPDX-License-Identifier: MIT */
#include "backend/sql/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

/* One call of a program may be several requests, as the kernel looks a name up again that it could
 * not be told: those that follow at once on one that has given up do not wait as long again. */
enum { AGAIN_MS = 500, AGAIN_WAIT_MS = 100 };

/* That a call waits for a connection to end where the server has as many as it takes. */
enum { FULL_MS = 3000 };

int64_t sql_until(struct sql *store)
{
	int64_t now = tick_ms(), gave_up = store->gave_up_at;

	return now + (gave_up && now - gave_up < AGAIN_MS ? AGAIN_WAIT_MS :
							    store->timeout * INT64_C(1000));
}

int sql_connect(struct sql *store, bool writer, int64_t until, struct sql_link **ret_link,
		char **ret_why)
{
	const struct sql_driver *driver = store->texts.driver;
	const char *hello = writer ? driver->hello_writer : driver->hello_reader;
	char *why = NULL;
	int r = driver->open(store->url, until, ret_link, &why);

	if (why && ret_why) {
		free(*ret_why);
		*ret_why = why;
	} else {
		free(why);
	}
	if (r < 0)
		return r;
	r = sql_ask(store, *ret_link, bytes_str(hello), NULL);
	if (r < 0)
		sql_disconnect(store, ret_link);
	if (r < 0)
		return r;
	driver->until(*ret_link, 0);
	store->gave_up_at = 0;
	return 0;
}

void sql_disconnect(struct sql *store, struct sql_link **link)
{
	if (*link)
		store->texts.driver->close(*link);
	*link = NULL;
}

/* What goes on by itself fails again and again for as long as the cause lasts. */
static bool is_to_say(struct sql *store, const struct sql_link *link)
{
	if (link && link != store->watch.link && link != store->aside.link)
		return true;
	WITH_MUTEX(&store->state.lock);
	return log_pause_over(&store->state.failing, tick_now());
}

int sql_error(struct sql *store, struct sql_link *link, int error)
{
	error = error == -ENOMSG ? -EIO : error;
	switch (error) {
	case -ENOENT:
		/* A missing table must not look like a missing file (-ENOENT). */
		if (!store->tables)
			return error;
		error = -EIO;
		break;
	case -EROFS:
		store->barred = true; /* until a heartbeat comes through */
		break;
	case -EIO:
	case -ENOSPC:
	case -EBUSY:
	case -EACCES:
		break;
	default:
		return error;
	}
	if (is_to_say(store, link))
		log_error("%s: %s", store->database, store->texts.driver->sentence(link));
	return error;
}

int sql_ask(struct sql *store, struct sql_link *link, struct bytes statements,
	    struct sql_answer **ret_answer)
{
	const struct sql_driver *driver = store->texts.driver;
	struct sql_answer *answer = NULL, *last = NULL;
	int r = driver->send(link, statements);

	while (r >= 0 && (r = driver->next(link, &answer)) > 0) {
		driver->answer_done(last);
		last = answer;
	}
	if (r < 0 || !ret_answer) {
		driver->answer_done(last);
		return sql_error(store, link, r);
	}
	*ret_answer = last;
	return 0;
}

int sql_answers(struct sql *store, struct sql_link *link, struct sql_answer **ret_answers,
		size_t count)
{
	const struct sql_driver *driver = store->texts.driver;
	size_t done = 0;
	int r = 0;

	while (done < count && (r = driver->next(link, &ret_answers[done])) > 0)
		done++;
	if (r > 0 || !count)
		return 0;
	while (done) {
		driver->answer_done(ret_answers[--done]);
		ret_answers[done] = NULL;
	}
	if (r == 0)
		log_error("%s: the server has answered fewer statements than it was sent",
			  store->database);
	return r < 0 ? sql_error(store, link, r) : -EIO;
}

int sql_ask_each(struct sql *store, struct sql_link *link, struct bytes statements,
		 struct sql_answer **ret_answers, size_t count)
{
	int r = store->texts.driver->send(link, statements);

	return r < 0 ? sql_error(store, link, r) : sql_answers(store, link, ret_answers, count);
}

int sql_ask_text(struct sql *store, struct sql_link *link, enum sql_text text,
		 const struct sql_value *values, size_t count, struct sql_answer **ret_answer)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = sql_say(&buf, &store->texts, text, values, count);

	return r < 0 ? r : sql_ask(store, link, buf_bytes(&buf), ret_answer);
}

bool sql_is_passing(int error)
{
	return error == -ENOTCONN || error == -ECONNREFUSED || error == -EUSERS ||
	       error == -EDEADLK;
}

bool sql_has_waited(int64_t until, int error, int64_t begun)
{
	int64_t now = tick_ms();

	return now >= until || (error == -EUSERS && now - begun >= FULL_MS);
}

void sql_full(struct sql *store)
{
	if (is_to_say(store, NULL))
		log_error("%s: the server accepts no more connections, so changes by others are "
			  "not seen",
			  store->database);
}

int sql_gave_up(struct sql *store, int error, const char *why)
{
	if (error == -EUSERS) {
		log_error("%s: the server accepts no more connections: %s", store->database,
			  why ? why : "it has reached its limit");
		return -EIO;
	}
	if (error == -EROFS) {
		log_error("%s: the server accepts no writes, so it is unknown whether the last "
			  "change was saved",
			  store->database);
		return -EIO;
	}
	/* One that has waited long itself. */
	if (sql_until(store) > tick_ms() + AGAIN_WAIT_MS)
		store->gave_up_at = tick_ms();
	log_error("%s: the server was away for %u seconds: %s", store->database, store->timeout,
		  why ? why : "it does not answer");
	return -EIO;
}

/* Once; a connection that was idle may have been lost without a word. */
static int ask_aside(struct sql *store, struct bytes statements, int64_t until,
		     struct sql_answer **ret_answer, char **ret_why)
{
	bool fresh = !store->aside.link;
	int r = fresh ? sql_connect(store, true, until, &store->aside.link, ret_why) : 0;

	if (r == 0) {
		store->texts.driver->until(store->aside.link, until);
		r = sql_ask(store, store->aside.link, statements, ret_answer);
		store->texts.driver->until(store->aside.link, 0);
	}
	if (r < 0)
		sql_disconnect(store, &store->aside.link);
	return r == -ENOTCONN && !fresh ? ask_aside(store, statements, until, ret_answer, ret_why) :
					  r;
}

int sql_aside(struct sql *store, struct bytes statements, struct sql_answer **ret_answer)
{
	_cleanup_(freep) char *why = NULL;
	int64_t begun = tick_ms(), until = sql_until(store);
	int r;

	for (;;) {
		pthread_mutex_lock(&store->aside.lock);
		r = ask_aside(store, statements, until, ret_answer, &why);
		pthread_mutex_unlock(&store->aside.lock);
		if (!sql_is_passing(r))
			return r;
		if (sql_has_waited(until, r, begun))
			return sql_gave_up(store, r, why);
		tick_pause(100);
	}
}

int sql_aside_text(struct sql *store, enum sql_text text, const struct sql_value *values,
		   size_t count, struct sql_answer **ret_answer)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = sql_say(&buf, &store->texts, text, values, count);

	return r < 0 ? r : sql_aside(store, buf_bytes(&buf), ret_answer);
}

int sql_need_row(const struct sql *store, struct sql_answer *answer,
		 struct bytes columns[SQL_COLUMNS])
{
	if (sql_row(store, answer, columns))
		return 0;
	log_error("%s: the row that describes the store is missing", store->database);
	return -EIO;
}

int64_t sql_int(struct bytes column)
{
	return column.data ? strtoll(column.data, NULL, 10) : 0;
}

int64_t sql_moment(struct bytes column)
{
	const int64_t second = 1000000000;
	int64_t seconds = sql_int(column), part = 0, unit = second;
	const char *point = column.data ? memchr(column.data, '.', column.size) : NULL;

	for (; point && unit > 1 && point[1] >= '0' && point[1] <= '9'; point++) {
		unit /= 10;
		part += (point[1] - '0') * unit;
	}
	if (seconds > INT64_MAX / second - 1 || seconds < INT64_MIN / second + 1)
		return 0;
	return seconds * second + (column.size && *column.data == '-' ? -part : part);
}
