/* SPDX-License-Identifier: MIT */
#ifndef FS_API_CHECK_H
#define FS_API_CHECK_H

#include "backend/backend.h"

/*
 * Check a store: the backend's own invariants and those of the model (every name leads to a node,
 * every node to a name, every row is JSON, marks and sizes agree with the rows, ...).  Safe beside
 * a running mount.  report is called with one sentence a finding; each file and directory that was
 * checked is ticked off (backend/base/tick.h).
 */
struct check_result {
	uint64_t violations; /* broken invariants: the store is damaged */
	uint64_t damage;     /* of these: what the backend found, before the model was checked */
	uint64_t notes;	     /* drafts, lines that are not JSON: kept bytes, no damage */
	uint64_t sessions;
	uint64_t files;
	uint64_t rows;
};

int check_store(struct backend *backend, backend_report_fn *report, void *arg,
		struct check_result *ret_result);

#endif
