/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SETTING_H
#define BACKEND_SQLITE_SETTING_H

/* What the store says for all its mounts: setting.c. */

#include "backend/base/buf.h"

struct sqlite_conn;

/* Inside a write transaction: the rows' table is another one.  Errors as BACKEND_SETTING. */
int sqlite_setting_table(struct sqlite_conn *conn, struct bytes data);

#endif
