/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_FEED_H
#define BACKEND_SQLITE_FEED_H

/* What mounts leave for each other, in the table sessfs_feed: feed.c. */

#include "backend/feed/feed.h"
#include "backend/sqlite/store/conn.h"

/* Number this mount, as no other was; and once it has joined, take note of how far others are: what
 * they commit behind this is left for it. */
int sqlite_feed_number(struct sqlite *store);
int sqlite_feed_begin(struct sqlite *store);
/* The state that the writer's connection sees. */
struct feed_state sqlite_feed_state(struct sqlite_conn *conn);
/* In a transaction of the writer: have in mounts.waiting what others have left and this mount has
 * not digested. */
int sqlite_feed_collect(struct sqlite *store);
/* Put notes into the table, in the transaction that they are about; *ret_last is the number of the
 * last. */
int sqlite_feed_put(struct sqlite_conn *conn, const struct feed_notes *notes, uint64_t *ret_last);
/* The number of the last note of all. */
int sqlite_feed_last(struct sqlite_conn *conn, uint64_t *ret_last);
/* -EAGAIN when locks of other mounts are in the way of these, or not known. */
int sqlite_locks_judge(struct sqlite_conn *conn, uint64_t ino, struct bytes locks);
/* All up to this one is known here. */
void sqlite_feed_known(struct sqlite *store, uint64_t n);

#endif
