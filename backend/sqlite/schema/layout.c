/* SPDX-License-Identifier: MIT */
/*
 * The rows' table as we find it.  Ours is made by schema.c; one that another program made may
 * differ in types, in the order of its columns and in columns that we do not know, as long as what
 * we write is read back as the same bytes.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "backend/sqlite/store/conn.h"
#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/schema/layout.h"
#include "backend/base/cleanup.h"

int sqlite_layout_name(struct sqlite_layout *layout, const char *name)
{
	char *copy = sqlite3_mprintf("%s", name);
	char *quoted = sqlite3_mprintf("\"%w\"", name);

	if (!copy || !quoted) {
		sqlite3_free(copy);
		sqlite3_free(quoted);
		return -ENOMEM;
	}
	sqlite_layout_done(layout);
	layout->name = copy;
	layout->quoted = quoted;
	/* As in a table of our own, until we look. */
	layout->has_created = layout->has_updated = layout->has_version = true;
	return 0;
}

void sqlite_layout_done(struct sqlite_layout *layout)
{
	sqlite3_free(layout->name);
	sqlite3_free(layout->quoted);
	layout->name = layout->quoted = NULL;
}

enum {
	AFFINITY_INTEGER = 1 << 0,
	AFFINITY_TEXT = 1 << 1,
	AFFINITY_BLOB = 1 << 2,
	AFFINITY_REAL = 1 << 3,
	AFFINITY_NUMERIC = 1 << 4,
};

/* What SQLite does to values in a column of this type; its documented rules, in their order. */
static unsigned affinity_of(const char *type)
{
	static const struct {
		const char *part;
		unsigned affinity;
	} rules[] = {
		{ "int", AFFINITY_INTEGER }, { "char", AFFINITY_TEXT }, { "clob", AFFINITY_TEXT },
		{ "text", AFFINITY_TEXT },   { "blob", AFFINITY_BLOB }, { "real", AFFINITY_REAL },
		{ "floa", AFFINITY_REAL },   { "doub", AFFINITY_REAL },
	};

	if (!*type)
		return AFFINITY_BLOB;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (strcasestr(type, rules[i].part))
			return rules[i].affinity;
	return AFFINITY_NUMERIC;
}

struct column {
	const char *name;
	bool needed;
	unsigned affinities; /* that keep what we write */
};

enum { COLUMN_ITEM_INDEX = 2, COLUMN_CREATED = 4, COLUMN_UPDATED = 5, COLUMNS = 6 };

static const struct column columns[COLUMNS] = {
	{ "session_id", true, AFFINITY_TEXT | AFFINITY_BLOB },
	{ "state_key", true, AFFINITY_TEXT | AFFINITY_BLOB },
	{ "item_index", true, AFFINITY_INTEGER | AFFINITY_NUMERIC | AFFINITY_BLOB },
	{ "state_data", true, AFFINITY_TEXT | AFFINITY_BLOB },
	{ "created_at", false, ~0u },
	{ "updated_at", false, ~0u },
};

/* One column of the table: name, type, "notnull", dflt_value, pk, hidden. */
static int look_at_column(sqlite3_stmt *row, struct sqlite_layout *layout, const char *path,
			  bool found[COLUMNS], char **ret_why)
{
	const char *name = (const char *)sqlite3_column_text(row, 0);
	const char *type = (const char *)sqlite3_column_text(row, 1);
	const bool hidden = sqlite3_column_int(row, 5) != 0;
	int known = 0;

	if (!name || !type)
		return -ENOMEM;
	/* AgentScope's column; another program may have one of that name that does not count. */
	layout->has_version |= strcasecmp(name, "version") == 0 && !hidden &&
			       (affinity_of(type) & (AFFINITY_INTEGER | AFFINITY_NUMERIC));
	while (known < COLUMNS && strcasecmp(columns[known].name, name) != 0)
		known++;
	if (known == COLUMNS) {
		bool filled = sqlite3_column_type(row, 3) != SQLITE_NULL || hidden ||
			      (sqlite3_column_int(row, 4) && strcasecmp(type, "INTEGER") == 0);

		if (!sqlite3_column_int(row, 2) || filled)
			return 0;
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "the table %s in %s has a column %s that is NOT NULL without "
				   "a default, so sessfs cannot add rows",
				   layout->name, path, name);
	}
	if (hidden || !(affinity_of(type) & columns[known].affinities))
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "the column %s of the table %s in %s has the type '%s', which "
				   "changes what sessfs writes to it",
				   name, layout->name, path, type);
	found[known] = true;
	return 0;
}

static int look_at_columns(struct sqlite_conn *conn, struct sqlite_layout *layout, const char *path,
			   bool found[COLUMNS], char **ret_why)
{
	static const char text[] = "SELECT name, type, \"notnull\", dflt_value, pk, hidden "
				   "FROM pragma_table_xinfo(?1, 'main')";
	struct cursor cursor =
		cursor_open_text(conn, text, SQL_VALUES(sql_text(bytes_str(layout->name))));

	layout->has_version = false;
	while (cursor_next(&cursor))
		cursor.r = look_at_column(cursor.statement, layout, path, found, ret_why);
	return cursor_end(&cursor);
}

/* One of its unique indexes must be over exactly the three columns, bytewise. */
static int look_at_key(struct sqlite_conn *conn, const struct sqlite_layout *layout,
		       bool *ret_keyed)
{
	static const char format[] =
		"SELECT count(*) FROM pragma_index_list(%Q, 'main') AS i WHERE i.\"unique\" "
		"AND NOT i.partial AND 3 = (SELECT count(*) FROM pragma_index_xinfo(i.name, "
		"'main') "
		"WHERE key) AND 3 = (SELECT count(*) FROM pragma_index_xinfo(i.name, 'main') "
		"WHERE key AND coll = 'BINARY' AND lower(name) IN "
		"('session_id', 'state_key', 'item_index'))";
	int64_t count = 0;
	int r = sqlite_conn_query_made(conn, sqlite3_mprintf(format, layout->name), &count);

	if (r == 0)
		*ret_keyed = count > 0;
	return r;
}

static int refuse_missing(const struct sqlite_layout *layout, const char *path,
			  const bool found[COLUMNS], char **ret_why)
{
	if (!found[COLUMN_ITEM_INDEX] && found[0])
		return str_explain(
			ret_why, -EMEDIUMTYPE,
			"the table %s in %s has an older layout, one row a session without "
			"item_index; make a new store and fill it with 'sessfs import'",
			layout->name, path);
	for (int i = 0; i < COLUMNS; i++)
		if (columns[i].needed && !found[i])
			return str_explain(ret_why, -EMEDIUMTYPE,
					   "the table %s in %s has no column %s, so %s is not a "
					   "store",
					   layout->name, path, columns[i].name, path);
	return 0;
}

int sqlite_layout_look(struct sqlite_conn *conn, struct sqlite_layout *layout, const char *path,
		       char **ret_why)
{
	bool found[COLUMNS] = { false };
	bool keyed = false;
	static const char table[] = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND "
				    "name = %Q COLLATE NOCASE";
	int64_t is_table = 0;
	int r = sqlite_conn_query_made(conn, sqlite3_mprintf(table, layout->name), &is_table);

	if (r < 0)
		return r;
	if (!is_table)
		return -ENOENT;
	r = look_at_columns(conn, layout, path, found, ret_why);
	if (r == 0)
		r = refuse_missing(layout, path, found, ret_why);
	if (r == 0)
		r = look_at_key(conn, layout, &keyed);
	if (r < 0)
		return r;
	if (!keyed)
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "the table %s in %s has no primary key or unique index on "
				   "(session_id, state_key, item_index); add one first",
				   layout->name, path);
	layout->has_created = found[COLUMN_CREATED];
	layout->has_updated = found[COLUMN_UPDATED];
	return 0;
}
