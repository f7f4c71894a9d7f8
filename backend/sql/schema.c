/* SPDX-License-Identifier: MIT */
/*
 * Our tables, and the rows' table as we find it.
 *
 * The table of a service is never altered.  All of ours begin with "sessfs_", and stand beside it
 * in the same database; the row of sessfs_store is made last, so a store that is half made is
 * made on.
 */
#include "backend/sql/schema.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/base/moment.h"

static const char default_table[] = "agentscope_sessions";
static const char reserved[] = "sessfs_";

struct found {
	bool there; /* the store is */
	int64_t version;
	bool made;
	bool rows; /* the rows' table is there */
};

static bool is_name(const char *name)
{
	if (!isalpha((unsigned char)*name) && *name != '_')
		return false;
	for (const char *at = name; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("_-", *at))
			return false;
	return strlen(name) <= 64 && strncasecmp(name, reserved, strlen(reserved)) != 0;
}

static int ask(struct sql *store, const char *text, const struct sql_value *values, size_t count,
	       struct sql_answer **ret_answer)
{
	_cleanup_(freep) char *expanded = sql_texts_expand(&store->texts, text);
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = expanded ? 0 : -ENOMEM;

	if (r == 0)
		r = sql_say_text(&buf, &store->texts, expanded, values, count);
	return r < 0 ? r : sql_ask(store, store->writer.link, buf_bytes(&buf), ret_answer);
}

static int set_table(struct sql_layout *layout, const struct sql_driver *driver, const char *name)
{
	_cleanup_(buf_done) struct buf quoted = { 0 };
	int r = driver->quote_name(&quoted, name);

	if (r == 0)
		r = buf_append_byte(&quoted, '\0');
	if (r < 0)
		return r;
	free(layout->name);
	free(layout->quoted);
	layout->name = strdup(name);
	layout->quoted = steal_ptr(quoted.data);
	return layout->name ? 0 : -ENOMEM;
}

/* What sessfs_store says, if there is one. */
static int find_store(struct sql *store, const char *table, struct found *found)
{
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	_cleanup_(freep) char *served = NULL;
	int r = ask(store, "SELECT version, rows_table, made FROM sessfs_store WHERE id = 1", NULL,
		    0, &answer);

	if (r == -ENOENT) {
		r = 0;
	} else if (r == 0 && sql_row(store, answer, columns)) {
		found->there = true;
		found->version = sql_int(columns[0]);
		served = bytes_dup(columns[1]);
		found->made = sql_int(columns[2]);
		r = served ? 0 : -ENOMEM;
	}
	store->texts.driver->answer_done(answer);
	if (r < 0)
		return r;
	return set_table(&store->texts.layout, store->texts.driver,
			 served ? served :
			 table	? table :
				  default_table);
}

static int take_column(struct sql *store, const struct bytes *columns, unsigned *seen,
		       char **ret_why)
{
	static const char *const needed[] = { "session_id", "state_key", "item_index",
					      "state_data" };
	struct sql_layout *layout = &store->texts.layout;
	bool ours = false;

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (bytes_equal(columns[0], bytes_str(needed[i]))) {
			*seen |= 1U << i;
			ours = true;
		}
	if (ours && sql_int(columns[5]))
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "%s: the column %.*s of its table %s cannot hold any text: it "
				   "is %.*s%s%.*s, which has to be %s",
				   store->database, (int)columns[0].size, columns[0].data,
				   layout->name, (int)columns[1].size, columns[1].data,
				   columns[2].data ? " in " : "", (int)columns[2].size,
				   columns[2].data ? columns[2].data : "",
				   store->texts.driver->any_text);
	if (bytes_equal(columns[0], BYTES("session_id")) && columns[2].data) {
		free(layout->collation);
		layout->collation = bytes_dup(columns[2]);
	}
	if (bytes_equal(columns[0], BYTES("state_data")))
		layout->most = columns[4].data ? (uint64_t)sql_int(columns[4]) : UINT64_MAX;
	layout->has_version |= bytes_equal(columns[0], BYTES("version"));
	layout->has_updated |= bytes_equal(columns[0], BYTES("updated_at"));
	if (bytes_equal(columns[0], BYTES("created_at"))) {
		layout->has_created = true;
		layout->whole_seconds = sql_int(columns[3]) == 0;
	}
	return 0;
}

/* -ENOENT: there is no such table. */
static int look_at_rows(struct sql *store, const char *wanted, char **ret_why)
{
	struct sql_layout *layout = &store->texts.layout;
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	unsigned seen = 0;
	bool any = false;
	int r = ask(store, store->texts.driver->columns,
		    SQL_VALUES(sql_text(bytes_str(layout->name))), &answer);

	while (r == 0 && sql_row(store, answer, columns)) {
		any = true;
		r = take_column(store, columns, &seen, ret_why);
	}
	store->texts.driver->answer_done(answer);
	if (r < 0)
		return r;
	if (any && seen != 15)
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "%s: its table %s is not one of sessions: it has no columns "
				   "session_id, state_key, item_index and state_data",
				   store->database, layout->name);
	if (!layout->collation)
		layout->collation = strdup(wanted);
	layout->exact = layout->collation && strcmp(layout->collation, wanted) == 0;
	return !layout->collation ? -ENOMEM : any ? 0 : -ENOENT;
}

/* The collation that a table of ours has, for which each id has one spelling. */
static int best_collation(struct sql *store, char **ret_name)
{
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	int r = ask(store, store->texts.driver->collation, NULL, 0, &answer);

	if (r == 0)
		r = sql_row(store, answer, columns) ? 0 : -EIO;
	if (r == 0) {
		*ret_name = bytes_dup(columns[0]);
		r = *ret_name ? 0 : -ENOMEM;
	}
	store->texts.driver->answer_done(answer);
	return r;
}

static int make(struct sql *store, const struct found *found)
{
	static const char root[] = "INSERT {unless} INTO sessfs_node (ino, parent, entry, kind, "
				   "flags, mode, uid, gid, "
				   "nlink, rdev, size, atime, mtime, ctime, btime, generation) "
				   "VALUES (?1, ?1, 0, 0, 0, "
				   "?2, ?3, ?4, 2, 0, 0, ?5, ?5, ?5, ?5, 0) {there}";
	static const char row[] =
		"INSERT {unless} INTO sessfs_store (id, version, rows_table, made, last_ino, "
		"last_entry) VALUES (1, ?1, ?2, ?3, 1, 0) {there}";
	static const char before[] = "INSERT {unless} INTO sessfs_setting (name, value) SELECT ?1, "
				     "?2 FROM (SELECT 1 AS one FROM {rows} LIMIT 1) x {there}";
	const char *const *table = store->texts.driver->tables;
	int r = 0;

	for (; r == 0 && *table; table++)
		r = ask(store, *table, NULL, 0, NULL);
	if (r == 0)
		r = ask(store, root,
			SQL_VALUES(sql_number(BACKEND_ROOT), sql_number(S_IFDIR | 0755),
				   sql_number(geteuid()), sql_number(getegid()),
				   sql_number(time_now())),
			NULL);
	if (r == 0)
		r = ask(store, before,
			SQL_VALUES(sql_blob(BYTES(BACKEND_UNADOPTED)), sql_blob(BYTES("1"))), NULL);
	if (r == 0)
		r = ask(store, row,
			SQL_VALUES(sql_number(SQL_VERSION),
				   sql_text(bytes_str(store->texts.layout.name)),
				   sql_number(!found->rows)),
			NULL);
	return r;
}

static int count_triggers(struct sql *store, int64_t *ret_count)
{
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	int r = ask(store, store->texts.driver->trigger_count,
		    SQL_VALUES(sql_text(bytes_str(store->texts.layout.name))), &answer);

	if (r == 0 && sql_row(store, answer, columns))
		*ret_count = sql_int(columns[0]);
	store->texts.driver->answer_done(answer);
	return r;
}

/* What was changed while there were none is not known. */
static int bring_triggers(struct sql *store, bool is_new)
{
	const char *const *trigger = store->texts.driver->triggers;
	int64_t count = 0, wanted = 0;
	int r = count_triggers(store, &count);

	while (trigger[wanted])
		wanted++;
	if (r < 0)
		return r;
	store->triggers = count == wanted;
	if (store->triggers || store->backend.read_only)
		return 0;
	if (count)
		r = ask(store, store->texts.driver->no_triggers, NULL, 0, NULL);
	for (; r == 0 && *trigger; trigger++)
		r = ask(store, *trigger, NULL, 0, NULL);
	if (r == 0 && !is_new)
		r = ask(store, "INSERT INTO sessfs_change (item_index, what) VALUES (0, '*')", NULL,
			0, NULL);
	store->triggers = r == 0;
	if (r == 0)
		return 0;
	log_warning("%s: without the right to make triggers (%s), what other programs change in %s "
		    "is not seen until it is mounted anew",
		    store->database, store->texts.driver->sentence(store->writer.link),
		    store->texts.layout.name);
	return r == -ENOTCONN ? r : 0;
}

static int refuse(struct sql *store, const struct found *found,
		  const struct backend_options *options, char **ret_why)
{
	const char *table = store->texts.layout.name;

	if (found->there && found->version > SQL_VERSION)
		return str_explain(ret_why, -EPROTONOSUPPORT,
				   "%s was written by a newer sessfs: its version is %lld",
				   store->database, (long long)found->version);
	if (options->table && strcasecmp(options->table, table) != 0)
		return str_explain(ret_why, -EINVAL, "%s serves the table %s", store->database,
				   table);
	if (found->there && !found->rows)
		return str_explain(ret_why, -EMEDIUMTYPE, "%s: its table %s is gone",
				   store->database, table);
	if (!found->there && !found->rows && !options->create)
		return str_explain(ret_why, -ENOENT, "%s has no table %s", store->database, table);
	if (!found->there && options->read_only)
		return str_explain(ret_why, -EROFS,
				   "%s is no store yet, and is not made one to be read only",
				   store->database);
	return 0;
}

int sql_schema_open(struct sql *store, const struct backend_options *options, char **ret_why)
{
	_cleanup_(freep) char *collation = NULL;
	struct found found = { 0 };
	int r;

	if (options->table && !is_name(options->table))
		return str_explain(ret_why, -EINVAL,
				   "%s is no name for a table: letters, digits, - and _, and none "
				   "that begins with sessfs_",
				   options->table);
	r = find_store(store, options->table, &found);
	if (r == 0)
		r = best_collation(store, &collation);
	if (r == 0)
		r = look_at_rows(store, collation, ret_why);
	found.rows = r == 0;
	if (r == -ENOENT)
		r = 0;
	if (r == 0)
		r = refuse(store, &found, options, ret_why);
	if (r < 0)
		return r;
	if (!found.rows)
		store->texts.layout.has_created = store->texts.layout.has_updated = true;
	if (!found.rows)
		store->texts.layout.most = UINT64_MAX;
	if (!found.there)
		r = make(store, &found);
	if (r == 0)
		r = sql_texts_make(&store->texts);
	if (r == 0)
		r = bring_triggers(store, !found.there);
	return r;
}
