/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_POSTGRESQL_LINK_H
#define BACKEND_POSTGRESQL_LINK_H

/* What the driver is made of (postgresql.c); backend/sql/driver.h describes each. */

#include "backend/sql/driver.h"

int pg_link_open(const struct url *url, int64_t until, struct sql_link **ret_link, char **ret_why);
void pg_link_until(struct sql_link *link, int64_t until);
void pg_link_close(struct sql_link *link);
int pg_link_send(struct sql_link *link, struct bytes statements);
int pg_link_next(struct sql_link *link, struct sql_answer **ret_answer);
const char *pg_link_sentence(struct sql_link *link);
bool pg_answer_row(struct sql_answer *answer, struct bytes columns[SQL_COLUMNS]);
void pg_answer_done(struct sql_answer *answer);
uint64_t pg_link_packet(struct sql_link *link);
int pg_quote(struct buf *buf, struct bytes bytes, bool text);

#endif
