/* SPDX-License-Identifier: MIT */
#include "backend/sql/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sql/clock.h"
#include "src/base/cleanup.h"
#include "src/base/log.h"

int sql_connect(struct sql *store, bool writer, struct sql_link **ret_link, char **ret_why)
{
	const struct sql_driver *driver = store->texts.driver;
	const char *hello = writer ? driver->hello_writer : driver->hello_reader;
	int r = driver->open(store->url, ret_link, ret_why);

	if (r < 0)
		return r;
	r = sql_ask(store, *ret_link, bytes_str(hello), NULL);
	if (r < 0)
		sql_disconnect(store, ret_link);
	return r;
}

void sql_disconnect(struct sql *store, struct sql_link **link)
{
	if (*link)
		store->texts.driver->close(*link);
	*link = NULL;
}

int sql_error(struct sql *store, struct sql_link *link, int error)
{
	if (error == -EIO || error == -ENOSPC || error == -EBUSY)
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

int sql_ask_text(struct sql *store, struct sql_link *link, enum sql_text text,
		 const struct sql_value *values, size_t count, struct sql_answer **ret_answer)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = sql_say(&buf, &store->texts, text, values, count);

	return r < 0 ? r : sql_ask(store, link, buf_bytes(&buf), ret_answer);
}

int sql_gave_up(struct sql *store)
{
	_cleanup_(freep) char *why = NULL;
	struct sql_link *link = NULL;
	int r = sql_connect(store, true, &link, &why);

	sql_disconnect(store, &link);
	log_error("%s: the server was away for %u seconds: %s", store->database, store->timeout,
		  r == 0 ? "it has just come back" :
		  why	 ? why :
			   strerror(-r));
	return -EIO;
}

/* Once; a connection that was idle may have been lost without a word. */
static int ask_aside(struct sql *store, struct bytes statements, struct sql_answer **ret_answer)
{
	bool fresh = !store->aside.link;
	int r = fresh ? sql_connect(store, true, &store->aside.link, NULL) : 0;

	if (r == 0)
		r = sql_ask(store, store->aside.link, statements, ret_answer);
	if (r < 0)
		sql_disconnect(store, &store->aside.link);
	return r == -ENOTCONN && !fresh ? ask_aside(store, statements, ret_answer) : r;
}

int sql_aside(struct sql *store, struct bytes statements, struct sql_answer **ret_answer)
{
	int64_t until = sql_milliseconds() + store->timeout * INT64_C(1000);
	int r;

	for (;;) {
		pthread_mutex_lock(&store->aside.lock);
		r = ask_aside(store, statements, ret_answer);
		pthread_mutex_unlock(&store->aside.lock);
		if (r != -ENOTCONN && r != -ECONNREFUSED)
			return r;
		if (sql_milliseconds() > until)
			return sql_gave_up(store);
		sql_pause(100);
	}
}

int sql_aside_text(struct sql *store, enum sql_text text, const struct sql_value *values,
		   size_t count, struct sql_answer **ret_answer)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = sql_say(&buf, &store->texts, text, values, count);

	return r < 0 ? r : sql_aside(store, buf_bytes(&buf), ret_answer);
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
	return seconds > INT64_MAX / second - 1 ? 0 : seconds * second + part;
}
