/* SPDX-License-Identifier: MIT */
#include <sqlite3.h>
#include <string.h>

#include "backend/sqlite/schema/layout.h"
#include "backend/sqlite/store/sql.h"
#include "backend/base/cleanup.h"

/* Rows of which ids and index are of the types that we know. */
#define SHOWN_ROWS                                                                                 \
	"session_id < x'' AND session_id >= '' AND state_key < x'' AND state_key >= '' AND "       \
	"typeof(item_index) = 'integer' "

/*
 * Of an integer, as typeof() says it, but without calling a function; in a column of no type, a
 * REAL that is a whole number passes, too, and goes along with its list.  What may fail in the
 * middle of a change, a function or a conflict that is undone, has SQLite keep a copy of every page
 * that the statement changes, in memory.  Nothing needs that here, where a transaction that fails
 * is given up as a whole: so statements that change many rows call none, and are {or_fail}.
 */
#define IS_INTEGER                                                                                 \
	"item_index BETWEEN -9223372036854775808 AND 9223372036854775807 AND "                     \
	"item_index = CAST(item_index AS INTEGER)"

/* A version that is none, is not above 0 or cannot rise begins anew. */
#define RISEN(least)                                                                               \
	"CASE WHEN " least " = 0 AND version NOT NULL THEN version WHEN version BETWEEN " least    \
	" AND 9223372036854775806 THEN version + 1 ELSE " least " END"

/* One of several rows that are inserted: its place behind the first, and the parameter that has its
 * data. */
#define NEXT_ROW(place, data) ", (?1, ?2, ?3 + " #place ", ?" #data "{time_values}{version_none})"

/*
 * Words in braces differ from store to store; sqlite_sql_expand() puts them in.  Ids in the rows'
 * table may be of any type when another program wrote them: text alone is an id to us, and
 * "< x''" bounds a range to text, as every text sorts before every blob (and behind every number).
 * For the same reason "the next id" is written as "id >= previous || NUL": the caller appends the
 * NUL, and '' is before the first.
 */
static const char *const texts[SQL_COUNT] = {
#define SQL(name, ...) [name] = __VA_ARGS__,
#include "backend/sqlite/store/sql-texts.h"
#undef SQL
};

const char *sqlite_sql_text(enum sqlite_sql sql)
{
	return texts[sql];
}

struct word {
	const char *name;
	const char *format; /* of sqlite3_mprintf, with one argument */
	const char *argument;
};

/* The word that text begins with. */
static const struct word *word_at(const char *text, const struct word *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, words[i].name, strlen(words[i].name)) == 0)
			return &words[i];
	return NULL;
}

char *sqlite_sql_expand(const char *text, const struct sqlite_layout *layout, const char *schema)
{
	bool created = layout->has_created, updated = layout->has_updated;
	const struct word words[] = {
		{ "{rows}", "%s", layout->quoted },
		{ "{name}", "%Q", layout->name },
		{ "{schema}", "%s", schema },
		{ "{created}", "%s", created ? "created_at" : "NULL" },
		{ "{updated}", "%s", updated ? "updated_at" : "NULL" },
		/* The newer function does not read what is long. */
		{ "{octets}", "%s",
		  sqlite3_libversion_number() >= 3043000 ? "octet_length(state_data)" :
							   "length(CAST(state_data AS BLOB))" },
		{ "{time_columns}", ", %s",
		  created && updated ? "created_at, updated_at" :
				       (created ? "created_at" : "updated_at") },
		{ "{time_values}", ", %s",
		  created && updated ? "?5, ?6" :
		  created	     ? "?5" :
				       "?6" },
		/* Triggers would resolve their conflicts likewise, not as they say. */
		{ "{or_fail}", "%s", layout->runs_triggers ? "" : "OR FAIL " },
		{ "{set_updated_to}", "%s", updated ? ", updated_at = ?6" : "" },
		{ "{set_updated}", "%s", updated ? ", updated_at = excluded.updated_at" : "" },
		/* Of a single alone, which says to what it rises at least. */
		{ "{version_column}", "%s", layout->has_version ? ", version" : "" },
		{ "{version_value}", "%s", layout->has_version ? ", ?7" : "" },
		{ "{version_none}", "%s", layout->has_version ? ", 0" : "" },
		{ "{version_now}", "%s", layout->has_version ? "version" : "0" },
		{ "{version_shown}", "%s", layout->has_version ? ", " RISEN("?4") : "" },
		{ "{move_version}", "%s", layout->has_version ? ", version = " RISEN("?5") : "" },
		{ "{version_past}", "%s",
		  layout->has_version ? ", CASE WHEN version > 0 THEN ?9 ELSE 0 END" : "" },
		{ "{set_version}", "%s", layout->has_version ? ", version = " RISEN("?7") : "" },
	};
	sqlite3_str *sql = sqlite3_str_new(NULL);
	const char *next;

	for (; (next = strchr(text, '{')); text = next) {
		const struct word *word = word_at(next, words, ARRAY_SIZE(words));

		sqlite3_str_append(sql, text, (int)(next - text));
		if (!word) {
			sqlite3_str_appendchar(sql, 1, '{');
			next++;
			continue;
		}
		next += strlen(word->name);
		if (!created && !updated && strncmp(word->name, "{time_", 6) == 0)
			continue;
		sqlite3_str_appendf(sql, word->format, word->argument);
	}
	sqlite3_str_appendall(sql, text);
	return sqlite3_str_finish(sql);
}
