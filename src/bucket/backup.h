/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_BACKUP_H
#define BUCKET_BACKUP_H

/*
 * A store's copy as one object.  It gets its name when it is whole, with its SHA-256 beside it, and
 * is read back.  An object that exists stays, unless it is to be replaced.
 */

#include "src/bucket/bucket.h"
#include "src/exchange/copy.h"

/* keep: 0, or of how many backups of this name the latest stay; then each has the time in its name.
 * 0, or -errno after a sentence. */
int backup_put(const struct bucket *bucket, struct copy *copy, uint64_t keep);
/* The object of that name, or the latest backup that was made with keep. */
int backup_get(const struct bucket *bucket, struct copy *copy);

#endif
