/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SQL_H
#define BACKEND_SQLITE_SQL_H

/* Every statement that runs more than once; words in them differ from store to store. */

enum sqlite_sql {
	SQL_NONE, /* ends a list */
#define SQL(name, ...) name,
#include "backend/sqlite/store/sql-texts.h"
#undef SQL
	SQL_COUNT,
};

/* The rows of singles, each sought by its key. */
#define SQLITE_SINGLES                                                                             \
	"(session_id, state_key, item_index) IN (SELECT session_id, state_key, 0 FROM "            \
	"sessfs_node WHERE kind = 2 AND nlink > 0)"
/* Those that have no version begin with one. */
#define SQLITE_VERSIONS_BEGIN "UPDATE {rows} SET version = 1 WHERE version = 0 AND " SQLITE_SINGLES

struct sqlite_layout;

/* The text with the names of this store put in for {rows} and its like; sqlite3_free() it.  NULL
 * when there is no memory. */
char *sqlite_sql_expand(const char *text, const struct sqlite_layout *layout, const char *schema);
const char *sqlite_sql_text(enum sqlite_sql sql);

#endif
