/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_LAYOUT_H
#define BACKEND_SQLITE_LAYOUT_H

/* The rows' table as we find it: may we use it, which columns it has. */

#include <stdatomic.h>
#include <stdbool.h>

struct sqlite_conn;

struct sqlite_layout {
	char *name;   /* of the rows' table; sqlite3_free() */
	char *quoted; /* the same as SQL wants it; sqlite3_free() */
	/* Whether it has these two columns.  They may become false while the store is open:
	 * sqlite_schema_mend(). */
	atomic_bool has_created; /* created_at */
	atomic_bool has_updated; /* updated_at */
	/* And AgentScope's version, for the writer alone: it comes and goes as the table does. */
	bool has_version;
	bool has_past;	    /* the store keeps rows (rows/past.c) */
	bool runs_triggers; /* of other programs, when a guest writes (sqlite/commit.c) */
};

/* Call the rows' table so; it counts as one of ours until it was looked at.  0 or -ENOMEM. */
int sqlite_layout_name(struct sqlite_layout *layout, const char *name);
void sqlite_layout_done(struct sqlite_layout *layout);
/* Look at the rows' table in conn.  0, or -ENOENT when there is none, or -EMEDIUMTYPE with a reason
 * why it cannot serve. */
int sqlite_layout_look(struct sqlite_conn *conn, struct sqlite_layout *layout, const char *path,
		       char **ret_why);

#endif
