/* SPDX-License-Identifier: MIT */
#ifndef FS_API_TRASH_H
#define FS_API_TRASH_H

/*
 * Sessions that were removed and may come back (fs/upkeep/trash.c tells how), and how long they
 * live; and what was removed through a mount or by name (fs/inode/trashed.h).
 *
 * Questions work on any snapshot of a store, beside a mount or not.  Changes are made by the tree
 * that owns the store.  An order is a change in words: through a mount, it is the value that is set
 * for the attribute TRASH_ORDERS of the root.
 */

#include <stdint.h>

#include "backend/backend.h"

struct tree;

/* Of a home: how long it lives after its last change. */
#define TRASH_TTL "user.sessfs.ttl"
/* Likewise: when it came back, in seconds; that counts as a change. */
#define TRASH_RESTORED "user.sessfs.restored"
/* Of the root of a mount, never listed.  Its value says that orders are understood. */
#define TRASH_ORDERS "user.sessfs.orders"

/* Of a session's directory: how many bytes its files may have, and how many they have
 * (fs/inode/quota.h). */
#define QUOTA_ATTRIBUTE "user.sessfs.quota"
#define USED_ATTRIBUTE "user.sessfs.used"

enum { TRASH_GRACE_DAYS = 7 };
#define TRASH_GRACE ((int64_t)TRASH_GRACE_DAYS * 86400 * 1000000000)

/*
 * A *home* of a session: its directory, which has all its files but in a store with a layout, or
 * one of its files that lie in no such directory (fs/base/layout.h), also one that is packed
 * (fs/base/packed.h), whose node is told with the session.  What is done to one is done to the
 * whole session.
 */
typedef int home_fn(void *arg, struct bytes path, const struct backend_node *node);
/* One home of each session, with its path, in any order: the directory if there is one. */
int home_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
	      home_fn *fn, void *arg);

/* Those of them that are packed transcripts, of sessions that have no other file. */
int packed_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		home_fn *fn, void *arg);

/* The same, some at a time.  Zeroed but for layout, it stands at the beginning. */
struct homes {
	uint64_t layout;
	bool packed; /* no others */
	bool begun;
	struct home_dir *dir; /* those that are still to be listed */
	size_t count;
	size_t room;
};
/* The next ones, at most so many: 1, or 0 when there are no more. */
int homes_next(struct homes *homes, struct backend *backend, struct backend_snapshot *snapshot,
	       size_t most, home_fn *fn, void *arg);
void homes_done(struct homes *homes);

/* The path of any node that has a name, appended; -ENOENT. */
int node_path(struct backend *backend, struct backend_snapshot *snapshot,
	      const struct backend_node *node, struct buf *path);
/* The path of it, appended; -ENOENT. */
int home_path(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
	      struct bytes session, struct buf *path);

/* The file of its packed transcript (fs/base/packed.h); -ENOENT. */
int session_packed(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		   struct bytes session, struct backend_node *ret_node);

/* The paths that a user may mean by a text: those of all homes of the session with this id, or that
 * of the file of its key behind a '/', with the suffix or without.  Returns what fn returns, or
 * 0. */
typedef int session_path_fn(void *arg, struct bytes path, bool is_dir);
int session_paths(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		  struct bytes name, session_path_fn *fn, void *arg);

/* What decides whether a session is removed. */
struct session_look {
	int64_t changed; /* nanoseconds since 1970 */
	uint64_t bytes;	 /* rows and ordinary files */
	bool has_ttl;	 /* of its own; */
	int64_t ttl;	 /* 0: never */
};
/* By one of its homes, and all of them; rows are what session_stat() says, or NULL. */
int session_look(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		 const struct backend_node *home, const struct backend_session_stat *rows,
		 struct session_look *ret_look);
/* Its own ttl as it was written, of any of its homes, appended to text; -ENODATA. */
int session_ttl(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		struct bytes session, struct buf *text);

struct trash_item {
	uint64_t id;
	uint64_t ino;
	int64_t removed;
	int64_t until;	      /* 0: it is being removed for good, and cannot come back */
	int64_t made;	      /* of a single file or directory: when it was made */
	bool single;	      /* a single file or directory, not a session with its content */
	struct bytes name;    /* the path that it had; borrowed, as the next: */
	struct bytes session; /* its session, if it is one or a state of one; otherwise empty */
	bool home;	      /* it is the session's directory */
};
typedef int trash_fn(void *arg, const struct trash_item *item);
/* In the order in which they were removed, of each mount that has removed some. */
int trash_list(struct backend *backend, struct backend_snapshot *snapshot, trash_fn *fn, void *arg);
/* 1 when something was removed and is not in the trash yet; a mount puts it there within a
 * second. */
int trash_awaits(struct backend *backend, struct backend_snapshot *snapshot);

/* Into the trash, for grace, unless something in the session has changed since (-ECANCELED; the
 * kernel makes something else of -EAGAIN) or a file of it is open on any mount (-EBUSY).  name: the
 * path of one of its homes. */
int tree_trash(struct tree *tree, struct bytes name, int64_t since, int64_t grace);
/* Back to where it was; -EEXIST when that name or id is taken, -EISDIR when it is a directory and
 * there is one again, -EBUSY when a file is still open from before the removal, -EINVAL when its
 * path means something else by now. */
int tree_trash_undo(struct tree *tree, uint64_t id);
/* For good. */
int tree_trash_purge(struct tree *tree, uint64_t id);

/* An order in words, and what came of it; -EINVAL when it is not understood. */
int tree_order(struct tree *tree, struct bytes order);
int order_trash(struct buf *order, struct bytes name, int64_t since, int64_t grace);
int order_undo(struct buf *order, uint64_t id);
int order_purge(struct buf *order, uint64_t id);

#endif
