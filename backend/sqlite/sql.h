/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SQL_H
#define BACKEND_SQLITE_SQL_H

/* Every statement that runs more than once; words in them differ from store to store. */

enum sqlite_sql {
	SQL_NONE, /* ends a list */
#define SQL(name, ...) name,
#include "backend/sqlite/sql-texts.h"
#undef SQL
	SQL_COUNT,
};

/* Of singles that have none. */
#define SQLITE_VERSIONS_BEGIN                                                                      \
	"UPDATE {rows} SET version = 1 WHERE item_index = 0 AND version = 0 AND EXISTS (SELECT 1 " \
	"FROM sessfs_node n WHERE n.session_id = {rows}.session_id AND n.state_key = "             \
	"{rows}.state_key AND n.kind = 2 AND n.nlink > 0)"

struct sqlite_layout;

/* The text with the names of this store put in for {rows} and its like; sqlite3_free() it.  NULL
 * when there is no memory. */
char *sqlite_sql_expand(const char *text, const struct sqlite_layout *layout, const char *schema);
const char *sqlite_sql_text(enum sqlite_sql sql);

#endif
