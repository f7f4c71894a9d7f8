/* SPDX-License-Identifier: MIT */
#ifndef DUMP_H
#define DUMP_H

/*
 * The rows of one table in a file that mysqldump(1) or mariadb-dump(1) has written: INSERT and
 * REPLACE statements, with the columns that they name, or those of the CREATE TABLE before them.
 * The file is read as it comes; memory grows with one row.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

enum { DUMP_COLUMNS = 64 };

struct dump_place {
	uint64_t line; /* from 1 */
	uint64_t byte; /* from 0 */
};

struct dump_row {
	size_t count;
	struct bytes names[DUMP_COLUMNS];
	struct bytes values[DUMP_COLUMNS]; /* data NULL: NULL */
	struct dump_place place;	   /* where the row begins */
};

struct dump {
	const char *table;
	/* 0, or -errno to stop. */
	int (*row)(void *arg, const struct dump_row *row);
	/* What is there cannot be understood; the rest of the statement is left out.  Likewise. */
	int (*broken)(void *arg, const struct dump_place *place, const char *reason);
	void *arg;
};

/* 0, what the functions return, or -errno of reading. */
int dump_read(int fd, const struct dump *dump);

#endif
