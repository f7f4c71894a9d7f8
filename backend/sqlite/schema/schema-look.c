/* SPDX-License-Identifier: MIT */
/*
 * The rows' table while the store is open: another program may put another one in its place, and
 * give it columns or take them away.
 */
#include <errno.h>

#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"

/* The columns as they are now, and whether statements have to be made anew for them: version is
 * named by the writer's alone. */
static int look_now(struct sqlite_conn *conn, struct sqlite_layout *ret_now, bool *ret_moved,
		    char **ret_why)
{
	struct sqlite *store = conn->store;
	const struct sqlite_layout *known = &store->layout;
	int r;

	*ret_now = (struct sqlite_layout){ .name = known->name, .quoted = known->quoted };
	r = sqlite_layout_look(conn, ret_now, store->place.path, ret_why);
	*ret_moved =
		r == 0 && (known->has_created > ret_now->has_created ||
			   known->has_updated > ret_now->has_updated ||
			   (conn == &store->writer && known->has_version != ret_now->has_version));
	return r;
}

/*
 * A column that is gone must not be named any more.  The flags of times only ever become false, so
 * a statement made from them fits the table as it was as well as the table as it will be; and they
 * do before the transaction ends, so nobody sees the new table with the old flags.  A time that has
 * come along does not matter.
 */
static int look_again(struct sqlite_conn *conn, char **ret_why)
{
	struct sqlite *store = conn->store;
	struct sqlite_layout now;
	bool moved;
	int r = look_now(conn, &now, &moved, ret_why);

	if (r < 0 || !moved)
		return r;
	store->layout.has_created = store->layout.has_created && now.has_created;
	store->layout.has_updated = store->layout.has_updated && now.has_updated;
	store->layout.has_version = now.has_version;
	atomic_fetch_add(&store->generation, 1);
	return 0;
}

int sqlite_schema_mend(struct sqlite_conn *conn)
{
	struct sqlite *store = conn->store;
	_cleanup_(freep) char *why = NULL;
	bool intact = false;
	int r = sqlite_schema_intact(conn, &intact);

	if (r == 0 && intact)
		r = look_again(conn, NULL);
	if (r < 0 || intact)
		return r == -ENOENT || r == -EMEDIUMTYPE ? 0 : r;
	log_warning("%s: another program has replaced the table %s; sessfs reads all of it again",
		    store->place.path, store->layout.name);
	r = look_again(conn, &why);
	if (r == -ENOENT) {
		log_warning("%s: the table %s is gone; sessfs makes a new, empty one",
			    store->place.path, store->layout.name);
		r = sqlite_schema_put_rows(conn);
		if (r == 0)
			r = look_again(conn, &why);
	}
	if (why)
		log_error("%s", why);
	if (r == 0)
		r = sqlite_schema_put_triggers(conn);
	if (r == 0)
		r = sqlite_schema_log_everything(conn);
	return r == -EMEDIUMTYPE ? -EIO : r;
}

static int columns_intact(struct sqlite_conn *conn, bool *ret_intact)
{
	struct sqlite_layout now;
	bool moved;
	int r = look_now(conn, &now, &moved, NULL);

	*ret_intact = !moved;
	return r == -ENOENT || r == -EMEDIUMTYPE ? 0 : r;
}

/* Only mounts read the notes that mounts leave for each other; and a batch may depend on what was
 * seen. */
static int ask_pending(struct sqlite_conn *conn, bool commits, int64_t *ret_pending)
{
	const struct sqlite *store = conn->store;
	const int64_t known =
		store->mounts.fd < 0 ? INT64_MAX / 2 : (int64_t)atomic_load(&store->mounts.cursor);

	return sqlite_conn_ask(conn, SQL_PENDING,
			       SQL_VALUES(sql_number(known), sql_id(store->mounts.number),
					  sql_number(commits ? 0 : atomic_load(&store->seen))),
			       ret_pending);
}

int sqlite_schema_pending(struct sqlite_conn *conn, bool commits, unsigned *ret_pending,
			  bool *ret_cut)
{
	bool intact = true, first;
	int64_t pending = 0;
	int r;

	sqlite_conn_renew(conn);
	first = !conn->statements[SQL_PENDING];
	r = ask_pending(conn, commits, &pending);
	if (r < 0)
		return r;
	/* If SQLite had to prepare the statement again, somebody has changed the schema.  Asking
	 * for this costs nothing where nobody did. */
	if (sqlite3_stmt_status(conn->statements[SQL_PENDING], SQLITE_STMTSTATUS_REPREPARE, 1) > 0)
		first = true;
	if (first)
		r = sqlite_schema_intact(conn, &intact);
	if (r == 0 && first && intact)
		r = columns_intact(conn, &intact);
	if (r < 0)
		return r;
	*ret_pending = (unsigned)pending;
	*ret_cut = !intact;
	return 0;
}
