/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_READ_H
#define BACKEND_SQL_READ_H

#include "backend/sql/cursor.h"

enum { SQL_NODE_COLUMNS = 19 }; /* in front of what else a statement returns */

/* Borrows from the row. */
struct backend_node sql_node_at(const struct bytes *columns);
struct backend_feed sql_feed_at(const struct bytes *columns);
struct backend_key_stat sql_key_stat_at(const struct bytes *columns);
/* What only one node is, as it is in the table: an empty buffer for one that is nothing of that. */
int sql_slot(const struct backend_node *node, struct buf *slot);
struct bytes sql_present(const struct buf *buf);

#endif
