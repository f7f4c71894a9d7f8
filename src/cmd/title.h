/* SPDX-License-Identifier: MIT */
#ifndef CMD_TITLE_H
#define CMD_TITLE_H

#include "backend/backend.h"

/* The title of a session: the first words that a person wrote, in the first of its keys that has
 * any, as far as TITLE_ROWS rows of each tell; appended, tame.  Nothing: there are none. */
enum { TITLE_ROWS = 32, TITLE_KEYS = 16, TITLE_MOST = 60 };
int title_of(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
	     struct bytes session, struct buf *title);

#endif
