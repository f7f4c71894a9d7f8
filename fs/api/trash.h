/* SPDX-License-Identifier: MIT */
#ifndef FS_API_TRASH_H
#define FS_API_TRASH_H

/*
 * Sessions that were removed and may come back (fs/upkeep/trash.c tells how), and how long they
 * live.
 *
 * What is asked of a store works on any snapshot of it, beside a mount or not.  What is done to it
 * is done by who owns it, and so is an order, in words: through a mount it is the value that is set
 * for the attribute TRASH_ORDERS of the root.
 */

#include "backend/backend.h"

struct tree;

/* Of a session's directory: how long it lives after its last change. */
#define TRASH_TTL "user.sessfs.ttl"
/* Likewise: when it came back, in seconds; that counts as a change. */
#define TRASH_RESTORED "user.sessfs.restored"
/* Of the root of a mount, never listed.  Its value says that orders are understood. */
#define TRASH_ORDERS "user.sessfs.orders"

enum { TRASH_GRACE_DAYS = 7 };
#define TRASH_GRACE ((int64_t)TRASH_GRACE_DAYS * 86400 * 1000000000)

/* What matters of a session to who thinks of removing it. */
struct session_look {
	int64_t changed; /* nanoseconds since 1970 */
	uint64_t bytes;	 /* rows and ordinary files */
	bool has_ttl;	 /* of its own; */
	int64_t ttl;	 /* 0: never */
};
/* dir is its directory; rows are what session_stat() says, or NULL. */
int session_look(struct backend *backend, struct backend_snapshot *snapshot,
		 const struct backend_node *dir, const struct backend_session_stat *rows,
		 struct session_look *ret_look);
/* Its own ttl as somebody wrote it, appended to text; -ENODATA. */
int session_ttl(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		struct buf *text);

struct trash_item {
	uint64_t id;
	uint64_t ino;
	int64_t removed;
	int64_t until;	   /* 0: it is going already, and cannot come back */
	struct bytes name; /* that it had in the root; borrowed */
};
typedef int trash_fn(void *arg, const struct trash_item *item);
/* In the order in which they were removed, of each mount that has removed some. */
int trash_list(struct backend *backend, struct backend_snapshot *snapshot, trash_fn *fn, void *arg);

/* Into the trash, for grace, unless something in the session has changed since (-ECANCELED; the
 * kernel makes something else of -EAGAIN) or somebody has a file of it open, on any mount (-EBUSY).
 * name: of its directory. */
int tree_trash(struct tree *tree, struct bytes name, int64_t since, int64_t grace);
/* Back to where it was; -EEXIST when there is a session of that name or id. */
int tree_trash_undo(struct tree *tree, uint64_t id);
/* For good. */
int tree_trash_purge(struct tree *tree, uint64_t id);

/* An order in words, and what came of it; -EINVAL when it is not understood. */
int tree_order(struct tree *tree, struct bytes order);
int order_trash(struct buf *order, struct bytes name, int64_t since, int64_t grace);
int order_undo(struct buf *order, uint64_t id);
int order_purge(struct buf *order, uint64_t id);

#endif
