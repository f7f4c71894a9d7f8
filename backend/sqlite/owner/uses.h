/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_USES_H
#define BACKEND_SQLITE_USES_H

/* Which files are in use on which mounts: uses.c. */

#include <pthread.h>

#include "backend/uses.h"

struct backend;
struct sqlite;

struct sqlite_uses {
	pthread_mutex_t lock; /* a leaf */
	struct uses own;      /* that this mount has in use */
	struct uses removing; /* that no mount can begin to use until the transaction ends */
	bool any;	      /* this mount may have any file in use, as far as others can tell */
	bool known;	      /* and knows of all that was removed before */
};

void sqlite_uses_init(struct sqlite *store);
/* Look, now and then, whether it is alone; nothing_waits: to be digested, as of a moment ago. */
void sqlite_uses_look(struct sqlite *store, bool nothing_waits);
/* For the writer: until the transaction ends no mount can begin to use a file.  -EBUSY: one uses
 * it; -EAGAIN: a mount that was alone until now has not told. */
int sqlite_uses_exclude(struct sqlite *store, uint64_t ino);
/* Whether a mount uses it, or may come to without telling. */
bool sqlite_uses_any(struct sqlite *store, uint64_t ino);
/* The transaction is over. */
void sqlite_uses_admit(struct sqlite *store);
void sqlite_uses_done(struct sqlite *store);

#endif
