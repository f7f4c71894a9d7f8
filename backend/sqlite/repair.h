/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_REPAIR_H
#define BACKEND_SQLITE_REPAIR_H

/*
 * A damaged store into a new one: repair.c brings the records over (salvage.h says which), and
 * repair-mend.c makes fit together what was brought.
 */

#include "backend/sqlite/internal.h"
#include "backend/sqlite/salvage.h"

struct repairing {
	const struct backend_repair *repair;
	struct backend_repaired repaired;
	struct salvage salvage;
	struct sqlite *store; /* the new one */
	sqlite3_stmt *insert[SALVAGE_TABLES];
	sqlite3_stmt *text; /* makes UTF-8 of what is bound to it */
	uint64_t waiting;   /* bytes since the last commit */
	bool root;	    /* was brought */
};

/* Say that something is lost. */
void repair_tell(struct repairing *repairing, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* After all records are there, in a transaction that is under way. */
int repair_mend(struct repairing *repairing);

#endif
