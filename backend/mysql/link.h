/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MYSQL_LINK_H
#define BACKEND_MYSQL_LINK_H

/* What the driver is made of (mysql.c); backend/sql/driver.h describes each. */

#include "backend/sql/driver.h"

int mysql_link_open(const struct url *url, int64_t until, struct sql_link **ret_link,
		    char **ret_why);
void mysql_link_until(struct sql_link *link, int64_t until);
void mysql_link_close(struct sql_link *link);
int mysql_link_send(struct sql_link *link, struct bytes statements);
int mysql_link_next(struct sql_link *link, struct sql_answer **ret_answer);
const char *mysql_link_sentence(struct sql_link *link);
bool mysql_answer_row(struct sql_answer *answer, struct bytes columns[SQL_COLUMNS]);
void mysql_answer_done(struct sql_answer *answer);
uint64_t mysql_link_packet(struct sql_link *link);
int mysql_quote(struct buf *buf, struct bytes bytes, bool text);

#endif
