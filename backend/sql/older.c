/* SPDX-License-Identifier: MIT */
/*
 * Tables of an older layout, one row a session, which are only ever read: by a connection of its
 * own, in one transaction.  The ids come first, then the rows one by one, so memory does not grow
 * with what the sessions hold.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sql/conn.h"
#include "backend/sql/schema.h"
#include "backend/sql/sql.h"
#include "backend/url/url.h"
#include "backend/base/cleanup.h"

/* Which of the columns are there: enum backend_older. */
static int find_columns(struct sql *store, struct sql_link *link, const char *table,
			unsigned *ret_found)
{
	static const char *const names[] = { "session_id", "state_data", "updated_at",
					     "item_index" };
	struct sql_cursor cursor = sql_schema_look(store, link, store->texts.driver->columns,
						   SQL_VALUES(sql_text(bytes_str(table))));

	while (sql_cursor_next(&cursor))
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (bytes_equal(cursor.columns[0], bytes_str(names[i])))
				*ret_found |= 1U << i;
	return sql_cursor_end(&cursor);
}

/* The rows of one id; *ret_stopped: what fn() has returned. */
static int read_session(struct sql *store, struct sql_link *link, const char *text,
			struct bytes session, backend_older_fn *fn, void *arg, int *ret_stopped)
{
	struct sql_cursor cursor =
		sql_schema_look(store, link, text, SQL_VALUES(sql_text(session)));

	while (*ret_stopped == 0 && sql_cursor_next(&cursor))
		*ret_stopped = fn(arg, cursor.columns[0], cursor.columns[1],
				  sql_moment(cursor.columns[2]));
	return sql_cursor_end(&cursor);
}

static int read_rows(struct sql *store, struct sql_link *link, unsigned found, backend_older_fn *fn,
		     void *arg, int *ret_stopped)
{
	const char *text =
		found & BACKEND_OLDER_UPDATED ?
			"SELECT session_id, state_data, {seconds updated_at} "
			"FROM {rows} WHERE session_id = ?1" :
			"SELECT session_id, state_data, 0 FROM {rows} WHERE session_id = "
			"?1";
	struct sql_cursor ids;
	int r = sql_ask(store, link, bytes_str(store->texts.driver->begin_read), NULL);

	if (r < 0)
		return r;
	ids = sql_schema_look(store, link, "SELECT session_id FROM {rows}", SQL_NO_VALUES);
	while (*ret_stopped == 0 && sql_cursor_next(&ids))
		if (ids.columns[0].data)
			ids.r = read_session(store, link, text, ids.columns[0], fn, arg,
					     ret_stopped);
		else /* which no other statement finds */
			*ret_stopped = fn(arg, ids.columns[0], (struct bytes){ 0 }, 0);
	return sql_cursor_end(&ids);
}

int sql_read_older(const struct sql_driver *driver, const struct url *url, const char *table,
		   backend_older_fn *fn, void *arg, char **ret_why)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(url_done) struct url copy = { 0 };
	struct sql store = { .texts.driver = driver, .url = &copy, .timeout = url->timeout };
	const char *place = url->database ? url->database : "the database";
	struct sql_link *link = NULL;
	unsigned found = 0;
	int stopped = 0, r = url_copy(url, &copy);

	if (r == 0)
		r = sql_quote_name(driver, &name, table);
	if (r == 0)
		r = buf_append_byte(&name, '\0');
	if (r < 0)
		return r;
	store.database = (char *)place;
	store.texts.layout.quoted = name.data;
	r = sql_connect(&store, false, sql_until(&store), &link, ret_why);
	if (r == 0)
		r = find_columns(&store, link, table, &found);
	if (r == 0)
		r = backend_judge_older(place, table, found, ret_why);
	if (r == 0)
		r = read_rows(&store, link, found, fn, arg, &stopped);
	if (r < 0 && !*ret_why)
		*ret_why = str_printf("cannot read %s: %s", place,
				      link ? driver->sentence(link) : strerror(-r));
	sql_disconnect(&store, &link);
	return r < 0 ? r : MIN(stopped, 0);
}
