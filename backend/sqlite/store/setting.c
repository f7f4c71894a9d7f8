/* SPDX-License-Identifier: MIT */
/*
 * The settings of the store, for all its mounts: rows "setting:NAME" of sessfs_meta.
 *
 * A counter beside them tells mounts of a change; they read it after each foreign write to the
 * store.  A program that changes a setting need not be a mount, and leaves no notes then.
 */
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/schema/judge.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/setting.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"

int sqlite_setting_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_setting_fn *fn, void *arg)
{
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_SETTING_LIST, SQL_NO_VALUES);

	while (cursor_next(&cursor))
		cursor.r = fn(arg, cursor_bytes(&cursor, 0), cursor_bytes(&cursor, 1));
	return cursor_end(&cursor);
}

/* An empty table of our own gets the new name, triggers and all.  If a table of that name exists,
 * or the old one is another program's, the next mount that opens the store adds what is missing. */
static int rename_table(struct sqlite_conn *conn, const char *name)
{
	const struct sqlite_layout *layout = &conn->store->layout;
	_cleanup_(freep) char *made = NULL;
	int r = sqlite_meta_get(conn, "made", &made);

	if (r < 0 || !made || strcmp(made, "1") != 0)
		return r;
	return sqlite_conn_exec_made(conn, sqlite3_mprintf("ALTER TABLE main.%s RENAME TO \"%w\"",
							   layout->quoted, name));
}

static int look_at_table(struct sqlite_conn *conn, const char *name)
{
	struct sqlite_layout layout = { 0 };
	_cleanup_(freep) char *why = NULL;
	int r = sqlite_judge_name(name) ? sqlite_layout_name(&layout, name) : -EINVAL;

	if (r == 0)
		r = sqlite_layout_look(conn, &layout, conn->store->place.path, &why);
	sqlite_layout_done(&layout);
	return r == -EMEDIUMTYPE ? -EINVAL : r;
}

int sqlite_setting_table(struct sqlite_conn *conn, struct bytes data)
{
	const struct sqlite *store = conn->store;
	_cleanup_(freep) char *name = bytes_dup(data.size ? data : bytes_str(sqlite_judge_default));
	int r = name ? 0 : -ENOMEM;
	bool any;

	if (r < 0 || strcasecmp(name, store->layout.name) == 0)
		return r;
	if (!store->owner || sqlite_file_shared(store->place.file))
		return -EBUSY;
	r = sqlite_schema_any_rows(conn, &any);
	if (r == 0)
		r = any ? -ENOTEMPTY : look_at_table(conn, name);
	if (r == -ENOENT)
		r = rename_table(conn, name);
	return r < 0 ? r : sqlite_meta_put(conn, "table", name);
}
