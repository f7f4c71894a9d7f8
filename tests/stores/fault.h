/* SPDX-License-Identifier: MIT */
#ifndef STORES_FAULT_H
#define STORES_FAULT_H

/*
 * A wrapper that makes calls of the store inside fail, for tests.  It counts every call that can
 * fail (snapshot_begin, each read, commit, sync, space, ...).  A batch with more() is given up in
 * its middle, and applied from its start then.  Takes over inner and closes it.
 */

#include "backend/backend.h"

int fault_backend_open(struct backend *inner, struct backend **ret_backend);

/* Let the count-th call from now on (1: the next) fail with error (a negative errno), and with
 * lasting every one after it too; 0: none.  A failing commit applies nothing. */
void fault_backend_set(struct backend *backend, uint64_t count, int error, bool lasting);
/* The same for one call of those that this thread makes, which alone are counted. */
void fault_backend_set_mine(struct backend *backend, uint64_t count, int error);
/* Let every read of the rows of a key fail; error 0: none.  The text is borrowed until then. */
void fault_backend_set_key(struct backend *backend, const char *key, int error);
/* Calls counted since the last fault_backend_set(). */
uint64_t fault_backend_calls(struct backend *backend);

#endif
