/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_WATCH_H
#define BACKEND_SQL_WATCH_H

#include "backend/sql/store.h"

/* The thread that asks the server what is new, and says that this mount lives. */
int sql_watch_start(struct sql *store);
void sql_watch_stop(struct sql *store);

#endif
