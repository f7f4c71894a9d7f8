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

#include "backend/setup.h"
#include "backend/sql/triggers.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"

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

/* A statement, with its words and values filled in. */
static int schema_say(const struct sql *store, const char *text, const struct sql_value *values,
		      size_t count, struct buf *buf)
{
	_cleanup_(freep) char *expanded = sql_texts_expand(&store->texts, text);

	return expanded ? sql_say_text(buf, &store->texts, expanded, values, count) : -ENOMEM;
}

int sql_schema_ask(struct sql *store, struct sql_link *link, const char *text,
		   const struct sql_value *values, size_t count, struct sql_answer **ret_answer)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = schema_say(store, text, values, count, &buf);

	return r < 0 ? r : sql_ask(store, link, buf_bytes(&buf), ret_answer);
}

struct sql_cursor sql_schema_look(struct sql *store, struct sql_link *link, const char *text,
				  const struct sql_value *values, size_t count)
{
	struct sql_cursor cursor = { .store = store };

	cursor.r = sql_schema_ask(store, link, text, values, count, &cursor.answer);
	return cursor;
}

int sql_schema_text(struct sql *store, const char *text, const struct sql_value *values,
		    size_t count, char **ret_text)
{
	struct sql_cursor cursor = sql_schema_look(store, store->writer.link, text, values, count);

	if (sql_cursor_next(&cursor)) {
		*ret_text = bytes_dup(cursor.columns[0]);
		cursor.r = *ret_text ? 0 : -ENOMEM;
	}
	return sql_cursor_end(&cursor);
}

static int schema_tell(const struct sql *store, struct bytes statement, bool rights)
{
	const char *const *script = store->texts.driver->script;
	const bool several = memchr(statement.data, ';', statement.size);
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = several ? buf_append_str(&buf, script[0]) : 0;

	if (r == 0)
		r = buf_append_bytes(&buf, statement);
	if (r == 0)
		r = buf_append_str(&buf, several ? script[1] : ";\n");
	if (r == 0)
		r = buf_append_byte(&buf, '\0');
	if (r == 0)
		store->setup->statement(store->setup->arg, buf.data, rights);
	return r;
}

/* *ret_answer is NULL where a setup only reports. */
static int bring_answer(struct sql *store, struct sql_link *link, const char *text,
			const struct sql_value *values, size_t count,
			struct sql_answer **ret_answer)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = schema_say(store, text, values, count, &buf);

	if (r == 0 && store->setup)
		r = schema_tell(store, buf_bytes(&buf), false);
	if (r < 0 || (store->setup && store->setup->dry_run))
		return r;
	return sql_ask(store, link, buf_bytes(&buf), ret_answer);
}

int sql_schema_bring(struct sql *store, struct sql_link *link, const char *text,
		     const struct sql_value *values, size_t count)
{
	return bring_answer(store, link, text, values, count, NULL);
}

static int bring(struct sql *store, const char *text, const struct sql_value *values, size_t count)
{
	return sql_schema_bring(store, store->writer.link, text, values, count);
}

static int set_table(struct sql_layout *layout, const struct sql_driver *driver, const char *name)
{
	_cleanup_(buf_done) struct buf quoted = { 0 };
	int r = sql_quote_name(driver, &quoted, name);

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
	static const char text[] =
		"SELECT version, rows_table, made FROM sessfs_store WHERE id = 1";
	struct sql_cursor cursor = sql_schema_look(store, store->writer.link, text, NULL, 0);
	_cleanup_(freep) char *served = NULL;
	int r;

	if (sql_cursor_next(&cursor)) {
		found->there = true;
		found->version = sql_cursor_number(&cursor, 0);
		served = bytes_dup(cursor.columns[1]);
		found->made = sql_cursor_number(&cursor, 2);
		cursor.r = served ? 0 : -ENOMEM;
	}
	r = sql_cursor_end(&cursor);
	if (r < 0 && r != -ENOENT)
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
				   "%s: the column %.*s of the table %s cannot hold every text: it "
				   "is %.*s%s%.*s, but must be %s",
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
	layout->has_updated |= bytes_equal(columns[0], BYTES("updated_at"));
	if (bytes_equal(columns[0], BYTES("created_at"))) {
		layout->has_created = true;
		layout->whole_seconds = sql_int(columns[3]) == 0;
	}
	return 0;
}

/* Where a statement that is ended half-way leaves half of it, no line is whole. */
static int judge_engine(struct sql *store, char **ret_why)
{
	const struct sql_driver *driver = store->texts.driver;
	const char *name = store->texts.layout.name;
	_cleanup_(freep) char *engine = NULL;
	int r = driver->careless_engine ?
			sql_schema_text(store, driver->careless_engine,
					SQL_VALUES(sql_text(bytes_str(name))), &engine) :
			0;

	return engine ? str_explain(ret_why, -EMEDIUMTYPE,
				    "%s: the table %s has the engine %s, which has no "
				    "transactions; give it another one with 'ALTER TABLE %s ENGINE "
				    "= InnoDB'",
				    store->database, name, engine, name) :
			r;
}

/* -ENOENT: there is no such table. */
static int look_at_rows(struct sql *store, const char *wanted, char **ret_why)
{
	struct sql_layout *layout = &store->texts.layout;
	struct sql_cursor cursor =
		sql_schema_look(store, store->writer.link, store->texts.driver->columns,
				SQL_VALUES(sql_text(bytes_str(layout->name))));
	unsigned seen = 0;
	bool any = false;
	int r;

	while (sql_cursor_next(&cursor)) {
		any = true;
		cursor.r = take_column(store, cursor.columns, &seen, ret_why);
	}
	r = sql_cursor_end(&cursor);
	if (r < 0)
		return r;
	if (any && seen != 15)
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "%s: the table %s does not hold sessions: it needs the columns "
				   "session_id, state_key, item_index and state_data",
				   store->database, layout->name);
	if (any)
		r = judge_engine(store, ret_why);
	if (r < 0)
		return r;
	if (!layout->collation)
		layout->collation = strdup(wanted);
	layout->exact = layout->collation && strcmp(layout->collation, wanted) == 0;
	return !layout->collation ? -ENOMEM : any ? 0 : -ENOENT;
}

/* The statements that make tables, without the lock around them. */
static int make_tables(struct sql *store)
{
	const char *const *table = store->texts.driver->tables + 1;
	int r = 0;

	for (; r == 0 && table[1]; table++)
		r = bring(store, *table, NULL, 0);
	return r;
}

int sql_schema_lock(struct sql *store, struct sql_link *link, bool lock)
{
	const char *const *table = store->texts.driver->tables;
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	int r;

	while (!lock && table[1])
		table++;
	r = bring_answer(store, link, *table, NULL, 0, &answer);
	/* MariaDB answers "0" after its limit, which is below that of a connection. */
	if (r == 0 && lock && sql_row(store, answer, columns) &&
	    bytes_equal(columns[0], bytes_str("0"))) {
		log_warning("%s: another mount has been making its tables for twenty seconds",
			    store->database);
		r = -EBUSY;
	}
	store->texts.driver->answer_done(answer);
	return r;
}

/* The only column is how many mounts of an older program have the store; where their table is gone,
 * the store was left half-way. */
static int judge_older_mounts(struct sql *store, char **ret_why)
{
	_cleanup_(freep) char *count = NULL;
	int r = sql_schema_text(store,
				"SELECT COUNT(*) FROM sessfs_mount WHERE guest = 0 AND "
				"seen_at >= {ago ?1}",
				SQL_VALUES(sql_number(SQL_LEASE_S)), &count);

	if (r == -ENOENT)
		return 0;
	return r == 0 && count && strcmp(count, "0") != 0 ?
		       str_explain(ret_why, -EBUSY,
				   "%s is mounted by an older sessfs; unmount it, and mount it by "
				   "this one then",
				   store->database) :
		       r;
}

/* From a format before: what mounts leave for each other is made anew.  A mount of the older
 * program that was stopped meanwhile was ended, and cannot join again: it tells no format. */
static int upgrade_tables(struct sql *store)
{
	static const char *const statements[] = {
		"UPDATE sessfs_store SET epoch = epoch + 1, turn = 0, duty = 0",
		"DROP TABLE IF EXISTS sessfs_mount",
		"DROP TABLE IF EXISTS sessfs_feed",
		"DROP TABLE IF EXISTS sessfs_known",
		"DROP TABLE IF EXISTS sessfs_claim",
		"DELETE FROM sessfs_use",
		"DELETE FROM sessfs_lock",
		/* How long what is removed is kept; now it is the history's. */
		"UPDATE sessfs_setting SET name = 'history' WHERE name = 'trash'",
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(statements); i++)
		r = bring(store, statements[i], NULL, 0);
	if (r == 0)
		r = make_tables(store);
	/* Those of the format before keep nothing. */
	if (r == 0)
		r = bring(store, store->texts.driver->no_triggers, NULL, 0);
	return r < 0 ? r :
		       bring(store, "UPDATE sessfs_store SET version = ?1",
			     SQL_VALUES(sql_number(SQL_FORMAT)));
}

static int upgrade(struct sql *store, char **ret_why)
{
	_cleanup_(freep) char *version = NULL;
	int r = sql_schema_lock(store, store->writer.link, true), ended;

	if (r == 0)
		r = sql_schema_text(store, "SELECT version FROM sessfs_store WHERE id = 1", NULL, 0,
				    &version);
	/* Somebody else may have done it. */
	if (r == 0 && version && atoi(version) < SQL_FORMAT) {
		r = judge_older_mounts(store, ret_why);
		if (r == 0)
			r = upgrade_tables(store);
	}
	ended = sql_schema_lock(store, store->writer.link, false);
	return r < 0 ? r : ended;
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
	int r = sql_schema_lock(store, store->writer.link, true);

	if (r == 0)
		r = make_tables(store);
	if (r == 0)
		r = sql_schema_lock(store, store->writer.link, false);
	if (r == 0)
		r = bring(store, root,
			  SQL_VALUES(sql_number(BACKEND_ROOT), sql_number(S_IFDIR | 0755),
				     sql_number(geteuid()), sql_number(getegid()),
				     sql_number(time_now())));
	if (r == 0)
		r = bring(store, before,
			  SQL_VALUES(sql_blob(BYTES(BACKEND_UNADOPTED)), sql_blob(BYTES("1"))));
	if (r == 0)
		r = bring(store, row,
			  SQL_VALUES(sql_number(SQL_FORMAT),
				     sql_text(bytes_str(store->texts.layout.name)),
				     sql_number(!found->rows)));
	return r;
}

int sql_schema_versions(struct sql *store)
{
	static const struct {
		const char *type;
		int64_t most;
	} types[] = {
		{ "bigint", INT64_MAX },  { "int", INT32_MAX },	     { "integer", INT32_MAX },
		{ "mediumint", 8388607 }, { "smallint", INT16_MAX },
	};
	_cleanup_(freep) char *type = NULL; /* "": of one that does not count */
	int r = sql_schema_text(store, store->texts.driver->version,
				SQL_VALUES(sql_text(bytes_str(store->texts.layout.name))), &type);

	if (r < 0)
		return r;
	store->versions = type ? SQL_VERSIONS_OTHER : SQL_VERSIONS_NONE;
	for (size_t i = 0; type && i < ARRAY_SIZE(types); i++) {
		if (strcmp(type, types[i].type) != 0)
			continue;
		store->versions = SQL_VERSIONS_RISE;
		store->version_most = types[i].most;
	}
	return 0;
}

static int tell_rights(struct sql *store)
{
	const char *const *right = store->texts.driver->rights;
	int r = 0;

	for (; r == 0 && *right; right++) {
		_cleanup_(buf_done) struct buf buf = { 0 };
		const char *at = strchr(*right, '?');

		r = buf_append(&buf, *right, at ? (size_t)(at - *right) : strlen(*right));
		if (r == 0 && at)
			r = sql_quote_name(store->texts.driver, &buf, store->database);
		if (r == 0 && at)
			r = buf_append_str(&buf, at + 1);
		if (r == 0)
			r = schema_tell(store, buf_bytes(&buf), true);
	}
	return r;
}

/* Whether it is of a format from which this one can be made. */
static bool is_upgraded(const struct found *found)
{
	return found->version >= SQL_FORMAT_OLDEST && found->version < SQL_FORMAT;
}

static int refuse(struct sql *store, const struct found *found,
		  const struct backend_options *options, char **ret_why)
{
	const char *table = store->texts.layout.name;

	if (found->there && is_upgraded(found) && options->read_only)
		return str_explain(ret_why, -EROFS,
				   "%s is a store of an older sessfs; mount it once for writing",
				   store->database);
	if (found->there && found->version != SQL_FORMAT && !is_upgraded(found))
		return str_explain(ret_why, -EPROTONOSUPPORT,
				   "%s has the format %lld, and this sessfs knows the format %d "
				   "alone; use %s sessfs",
				   store->database, (long long)found->version, SQL_FORMAT,
				   found->version > SQL_FORMAT ? "a newer" : "an older");
	if (options->table && strcasecmp(options->table, table) != 0)
		return str_explain(ret_why, -EINVAL,
				   "%s keeps its sessions in the table %s, not in %s",
				   store->database, table, options->table);
	if (found->there && !found->rows)
		return str_explain(ret_why, -EMEDIUMTYPE, "%s has lost its table %s",
				   store->database, table);
	if (!found->there && !found->rows && !options->create)
		return str_explain(ret_why, -ENOENT, "%s has no table %s", store->database, table);
	if (!found->there && options->read_only)
		return str_explain(ret_why, -EROFS,
				   "%s is not a store yet; mount it once for writing",
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
				   "%s cannot be the name of a table: use letters, digits, - and "
				   "_, and do not begin with sessfs_",
				   options->table);
	r = find_store(store, options->table, &found);
	if (r == 0)
		r = sql_schema_text(store, store->texts.driver->collation, NULL, 0, &collation);
	if (r == 0 && !collation)
		r = -EIO;
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
	if (store->setup)
		r = schema_tell(store, bytes_str(store->texts.driver->hello_writer), false);
	if (r == 0 && !found.there)
		r = make(store, &found);
	else if (r == 0 && found.version != SQL_FORMAT)
		r = upgrade(store, ret_why);
	if (r == -EACCES)
		return str_explain(
			ret_why, r,
			"%s: %s; run 'sessfs setup' as a user who may make tables and triggers",
			store->database, store->texts.driver->sentence(store->writer.link));
	if (r == 0)
		r = sql_texts_make(&store->texts);
	if (r == 0)
		r = sql_schema_versions(store);
	if (r == 0)
		r = sql_triggers_make(store, !found.there, options);
	return r == 0 && store->setup ? tell_rights(store) : r;
}
