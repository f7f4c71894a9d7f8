/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_JUDGE_H
#define BACKEND_SQLITE_JUDGE_H

/* What kind of database is it, may it be our store, and what is said if not. */

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

struct sqlite;
struct sqlite_conn;

/* What the database says about itself. */
struct look {
	int64_t application;
	int64_t user_version;
	int64_t tables;	 /* and views */
	int64_t version; /* of our schema; 0: none */
	bool made;	 /* by us, not adopted */
	bool new_store;	 /* nothing is in it yet */
	bool rows_lost;	 /* ours, but the rows' table was dropped */
};

/* Ask the database by its writer's connection; nobody else knows the store yet. */
int sqlite_look(struct sqlite_conn *conn, struct look *look);
/* Whether it can be opened as the options say; names and describes the rows' table of the store.
 * -errno with a sentence in *ret_why. */
int sqlite_judge(struct sqlite *store, const struct backend_options *options, const char *path,
		 struct look *look, char **ret_why);
/* What a table of rows is called unless somebody wants otherwise, and whether it may be called so.
 */
extern const char sqlite_judge_default[];
bool sqlite_judge_name(const char *name);
/* Say why a store could not be opened, if nobody has said it: the error, or a better one. */
int sqlite_refuse_unreadable(int error, const char *path, char **ret_why);

#endif
