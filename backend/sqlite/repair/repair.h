/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_REPAIR_H
#define BACKEND_SQLITE_REPAIR_H

/*
 * A damaged store into a new one: repair.c brings the records over (salvage.h says which), and
 * repair-mend.c makes fit together what was brought.
 */

#include "backend/sqlite/store/error.h"
#include "backend/sqlite/repair/salvage.h"
#include "backend/sqlite/store/store.h"

struct repairing {
	const struct backend_repair *repair;
	struct backend_repaired repaired;
	struct salvage salvage;
	struct sqlite *store; /* the new one */
	sqlite3_stmt *insert[SALVAGE_TABLES];
	uint64_t waiting; /* bytes since the last commit */
	bool root;	  /* was brought */
};

/* Say that something is lost. */
#define repair_tell(repairing, ...) sqlite_tell(repair_report, repairing, __VA_ARGS__)
backend_report_fn repair_report;

/* After all records are there, in a transaction that is under way. */
int repair_mend(struct repairing *repairing);

#endif
