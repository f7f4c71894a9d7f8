/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_READ_H
#define BACKEND_SQLITE_READ_H

/* What is read by other connections than those of snapshots, too; as the slots in backend.h. */

#include "backend/sqlite/rows/cursor.h"

int sqlite_read_node(struct sqlite_conn *conn, uint64_t ino, struct backend_node *ret_node);
/* The name of an entry, and the number of the node to which it leads. */
int sqlite_read_entry(struct sqlite_conn *conn, uint64_t parent, uint64_t id, struct buf *name,
		      uint64_t *ret_node);
int sqlite_read_orphan(struct sqlite_conn *conn, struct bytes session, struct bytes key,
		       struct backend_node *ret_node);
/* Hand over an answer whose columns are an index, data, created_at and updated_at, and end it. */
int sqlite_tell_times(struct cursor *cursor, int64_t from, bool back, backend_row_time_fn *fn,
		      void *arg);

#endif
