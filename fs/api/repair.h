/* SPDX-License-Identifier: MIT */
#ifndef FS_API_REPAIR_H
#define FS_API_REPAIR_H

#include "backend/backend.h"

/*
 * Repair a damaged store, into a new one.
 *
 * The store hands over every record that is whole (backend_repair()); here a tree is made of them
 * again, in which every name leads to a node and every node can be reached:
 *
 *   - what a node is follows from where it lies: a directory at the root is a session, a file of a
 *     session whose name ends in .json, .jsonl or .hash is a state of the key that its path gives;
 *   - a session or a state that has lost its name gets the one that its id or key makes;
 *   - any other file that has lost its name or its directory is put at the root as
 *     "recovered-NUMBER"; a directory that cannot be reached is not kept, its files are;
 *   - a key that has rows and no file gets one, as if another program had written it;
 *   - a state that has no rows any more goes; a row that is not JSON is lost.
 *
 * After it, check_store() finds nothing broken in the new store.  repair says what backend_repair()
 * is told, but for is_row.  report is called with one sentence for each thing that is lost or that
 * is no longer where it was; each record that was rescued is ticked off (backend/base/tick.h).
 */
int repair_store(const char *store, const char *new_store, const struct backend_repair *repair,
		 struct backend_repaired *ret_repaired, char **ret_why);

#endif
