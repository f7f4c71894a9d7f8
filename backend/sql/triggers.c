/* SPDX-License-Identifier: MIT */
#include "backend/sql/triggers.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/setup.h"
#include "backend/sql/schema.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

enum { SHORT_MS = 2000 }; /* that the watching thread may wait for a connection */

static int count_triggers(struct sql *store, struct sql_link *link, int64_t *ret_count)
{
	struct sql_cursor cursor =
		sql_schema_look(store, link, store->texts.driver->trigger_count,
				SQL_VALUES(sql_text(bytes_str(store->texts.layout.name))));

	if (sql_cursor_only(&cursor, -EIO))
		*ret_count = sql_cursor_number(&cursor, 0);
	return sql_cursor_end(&cursor);
}

/*
 * A user who may make none may not be told of those that there are, either.  So one row is put,
 * changed and taken away as another program would, and given up: each has to be in the log.
 */
static int try_triggers(struct sql *store)
{
	static const char *const tries[] = {
		"INSERT INTO {rows} (session_id, state_key, item_index, state_data) VALUES "
		"('sessfs probe', 'sessfs probe', 0, '0')",
		"UPDATE {rows} SET state_data = '1' WHERE {is 1 1}",
		"DELETE FROM {rows} WHERE {is 1 1}",
	};
	static const char seen[] = "SELECT COUNT(DISTINCT what) FROM sessfs_change WHERE "
				   "session_id = ?2";
	const struct sql_driver *driver = store->texts.driver;
	struct sql_link *link = store->writer.link;
	const struct sql_value values[] = { sql_text(BYTES("sessfs probe")),
					    sql_blob(BYTES("sessfs probe")) };
	struct sql_cursor cursor;
	int r = sql_ask(store, link, bytes_str(driver->loud), NULL), done;

	if (r == 0)
		r = sql_ask(store, link, bytes_str(driver->begin_write), NULL);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(tries); i++)
		r = sql_schema_ask(store, store->writer.link, tries[i], values, ARRAY_SIZE(values),
				   NULL);
	if (r == 0) {
		cursor = sql_schema_look(store, link, seen, values, ARRAY_SIZE(values));
		store->triggers = sql_cursor_next(&cursor) &&
				  sql_cursor_number(&cursor, 0) == (int64_t)ARRAY_SIZE(tries);
		r = sql_cursor_end(&cursor);
	}
	done = sql_ask(store, link, BYTES("ROLLBACK"), NULL);
	if (done == 0)
		done = sql_ask(store, link, bytes_str(driver->silent), NULL);
	return r == -ENOTCONN || done < 0 ? -ENOTCONN : 0;
}

static const char anything[] = "INSERT INTO sessfs_change (item_index, what) VALUES (0, '*')";

/* Those that this user may not make. */
static int miss_triggers(struct sql *store, const struct backend_options *options)
{
	_cleanup_(freep) char *why =
		bytes_dup(bytes_str(store->texts.driver->sentence(store->writer.link)));
	int r = store->texts.driver->trigger_count_tells_all ? 0 : try_triggers(store);

	if (r < 0 || store->triggers)
		return r;
	/* What was changed until now is taken in by this one. */
	r = sql_schema_ask(store, store->writer.link, anything, NULL, 0, NULL);
	if (options->owner)
		log_warning("%s: this user may not make triggers (%s), so you see what other "
			    "programs change in %s only after the next mount; run 'sessfs setup' "
			    "as a user who may make them",
			    store->database, why ? why : "", store->texts.layout.name);
	return r == -ENOTCONN ? r : 0;
}

static int64_t wanted_triggers(const struct sql *store)
{
	int64_t wanted = 0;

	while (store->texts.driver->triggers[wanted])
		wanted++;
	return wanted;
}

/* Also those that another table of that name has taken along.  What was changed while there were
 * none is not known.  Another mount may have made them meanwhile. */
static int make_triggers(struct sql *store, struct sql_link *link, bool is_new)
{
	const char *const *trigger = store->texts.driver->triggers;
	int64_t count = 0;
	int r = count_triggers(store, link, &count);

	if (r == 0 && count == wanted_triggers(store)) {
		store->triggers = store->counts_triggers = true;
		return 0;
	}
	if (r == 0 && !is_new)
		r = sql_schema_bring(store, link, store->texts.driver->no_triggers, NULL, 0);
	for (; r == 0 && *trigger; trigger++)
		r = sql_schema_bring(store, link, *trigger, NULL, 0);
	if (r == 0 && !is_new)
		r = sql_schema_bring(store, link, anything, NULL, 0);
	store->triggers = store->counts_triggers = r == 0;
	return r;
}

int sql_triggers_make(struct sql *store, bool is_new, const struct backend_options *options)
{
	int64_t count = 0;
	int r = count_triggers(store, store->writer.link, &count), ended;

	if (r < 0)
		return r;
	store->triggers = store->counts_triggers = count == wanted_triggers(store);
	if (store->triggers || store->backend.read_only)
		return 0;
	r = sql_schema_lock(store, store->writer.link, true);
	if (r < 0)
		return r;
	r = make_triggers(store, store->writer.link, is_new);
	if (r < 0 && r != -ENOTCONN && !store->setup)
		r = miss_triggers(store, options);
	ended = sql_schema_lock(store, store->writer.link, false);
	return r < 0 ? r : ended;
}

/* A snapshot lasts from one heartbeat to the next one: so this is how a table is found to be
 * another one, or emptied. */
static int watch_table(struct sql *store)
{
	static const char look[] = "SELECT 1 FROM {rows} LIMIT 1";
	/* TRUNCATE, while no mount was there to see it. */
	static const char none[] =
		"INSERT INTO sessfs_change (item_index, what) SELECT 0, '*' FROM sessfs_store "
		"WHERE NOT EXISTS (SELECT 1 FROM {rows}) AND EXISTS (SELECT 1 FROM sessfs_node "
		"WHERE kind >= 2 AND nlink > 0) AND NOT EXISTS (SELECT 1 FROM sessfs_change WHERE "
		"session_id IS NULL)";
	const struct sql_driver *driver = store->texts.driver;
	struct sql_link **still = &store->watch.still;
	bool fresh = !*still, another;
	int r = fresh ? sql_connect(store, false, tick_ms() + SHORT_MS, still, NULL) :
			sql_schema_ask(store, *still, look, NULL, 0, NULL);

	/* It is locked: ask the next time, by the same snapshot. */
	if (r == -EBUSY)
		return 0;
	another = r == -EDEADLK;
	if (fresh && r == 0)
		r = sql_ask(store, *still, bytes_str(driver->truncation), NULL);
	else if (r == 0 || another)
		r = sql_ask(store, *still, BYTES("ROLLBACK"), NULL);
	if (r == 0)
		r = sql_ask(store, *still, bytes_str(driver->begin_read), NULL);
	if (r < 0)
		sql_disconnect(store, still);
	return another || fresh ? sql_schema_ask(store, store->watch.link,
						 another ? anything : none, NULL, 0, NULL) :
				  0;
}

/* Some that were there are gone. */
static int restore_triggers(struct sql *store)
{
	const char *table = store->texts.layout.name;
	struct sql_link *link = store->watch.link;
	int r, ended;

	log_warning("%s: the triggers on the table %s are gone: making them again", store->database,
		    table);
	r = sql_schema_lock(store, link, true);
	if (r < 0)
		return r;
	r = make_triggers(store, link, false);
	/* But for what passes, this is how it stays until the next mount. */
	store->counts_triggers = r != -EACCES && r != -EIO;
	if (!store->counts_triggers) {
		log_warning("%s: you see what other programs change in %s only after the next "
			    "mount, since the triggers cannot be made: %s",
			    store->database, table, store->texts.driver->sentence(link));
		r = sql_schema_ask(store, link, anything, NULL, 0, NULL);
	}
	ended = sql_schema_lock(store, link, false);
	return r < 0 ? r : ended;
}

int sql_triggers_watch(struct sql *store)
{
	int64_t count = 0;
	int r = 0;

	if (store->counts_triggers) {
		r = count_triggers(store, store->watch.link, &count);
		if (r == 0 && count < wanted_triggers(store))
			r = restore_triggers(store);
	}
	return r == 0 && store->texts.driver->truncation ? watch_table(store) : r;
}
