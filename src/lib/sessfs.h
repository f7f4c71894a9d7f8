/* SPDX-License-Identifier: MIT */
#ifndef SESSFS_H
#define SESSFS_H

/*
 * libsessfs: the sessions of a store, without a mount.
 *
 * A store is what `sessfs mount` shows as files: a SQLite database, one on a server by its URL
 * (mysql://..., see sessfs(1)), or "memory:" for one that lives as long as its handle.  A session
 * is a set of states under keys.  A state is one JSON text, or a list of them:
 *
 *	state			rows of the table		file of a mount
 *	one	 (S, K)		(S, K, 0)			S/K.json
 *	list	 (S, K)		(S, K, 0 ... n-1), (S, K:_hash, 0)	S/K.jsonl, S/K.hash
 *
 * A session exists as long as one of its states does.
 *
 * Beside others
 *
 *   Any number of handles, in any number of programs, may be open on a store at once, while it is
 *   mounted, too: a mount shows what the library has saved within 100 ms, and what was saved while
 *   nothing was mounted, from the beginning.  Every save and every deletion is one transaction: it
 *   is there whole or not at all, and of two that come at once the later one wins, entire.  Every
 *   read sees one committed state of the store.
 *
 * Durability
 *
 *   What a function has saved when it returns 0 survives the end of the program, however it ends;
 *   power loss it survives after sessfs_sync(), sessfs_close(), or about a second.
 *
 * Conventions
 *
 *   Functions return 0 or -errno, and sessfs_why() then has a sentence for people.  Among the
 *   errors of any function are:
 *     -EINVAL   an argument is wrong: a text that is not JSON, a session or key that is empty or
 *		 not UTF-8, a key that ends in ":_hash"
 *     -EROFS    the handle is for reading only, or the store was found damaged
 *     -EBUSY    another program has held the store's lock for ten seconds
 *     -ENOSPC   no room   -EFBIG one text is above the limit of the store (SQLite's is 1 GB)
 *     -EIO      the medium failed, or the store is damaged; or its file was removed, moved or
 *		 replaced while the handle was open, and nothing more is saved by it   -ENOMEM
 *   After an error of a function that changes something, nothing has changed.
 *
 *   Sessions and keys are UTF-8.  Inputs are borrowed for the call.  Outputs are called ret_x and
 *   written only on success.  A callback gets bytes that live until it returns, without a NUL
 *   behind them where it gets a size.  It returns 0 to go on, a positive number to stop (the
 *   function then returns 0), or -errno to stop with that error.
 *
 * Threads
 *
 *   All functions but sessfs_close() may be called from any thread at any time, with the same
 *   handle.  A callback may call the library; what it reads is of the same committed state as what
 *   it was called for, until it changes something itself.  The store's log cannot be emptied before
 *   it returns, so it should not wait.  A handle has a thread
 *   of its own, which takes no signals; so it is not to be used, nor closed, in a child that fork()
 *   has made.
 */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct sessfs;

/* One text of a list. */
struct sessfs_item {
	const char *data; /* JSON, in UTF-8 */
	size_t size;	  /* bytes of it, without a NUL */
};

enum sessfs_flags {
	SESSFS_CREATE = 1 << 0,	   /* make the store when there is none, for its owner alone */
	SESSFS_READ_ONLY = 1 << 1, /* change nothing */
};

/*
 * Open a store by its path, or "memory:".  table is the name of the table that has the rows; NULL:
 * the one that the store has always served, agentscope_sessions in a new one.
 *   -ENOENT there is none   -EMEDIUMTYPE no store of sessions   -EPROTONOSUPPORT a newer format
 *   -EACCES, -EISDIR ... as the system said
 *
 * A descriptor of the store's file stays open until the program ends, however often it is opened
 * and closed: to close it would take the locks from other connections to the database that the
 * program may have.  Standard streams that the program was started without are opened on /dev/null,
 * the wrong way round, so that reading and writing them fails as before.
 */
int sessfs_open(const char *store, const char *table, unsigned flags, struct sessfs **ret_sessfs);
/* NULL is fine.  No other function may be under way on the handle. */
void sessfs_close(struct sessfs *sessfs);
/* All that was saved before the call survives power loss when this returns. */
int sessfs_sync(struct sessfs *sessfs);

/* Save a state of one JSON text, in the place of whatever was there, a list as well. */
int sessfs_save(struct sessfs *sessfs, const char *session, const char *key, const char *json,
		size_t size);
/*
 * Save a list: afterwards it has these items and no others.  Only rows that differ are written, so
 * a list that has grown gets new rows, and the others keep their times.  Nothing is written when
 * nothing differs.  items may be NULL when count is 0: an empty list.
 */
int sessfs_save_list(struct sessfs *sessfs, const char *session, const char *key,
		     const struct sessfs_item *items, size_t count);

/* The text of a state, with a NUL behind it, to be freed with free(); of a list, the first item.
 * ret_size may be NULL.  -ENOENT. */
int sessfs_get(struct sessfs *sessfs, const char *session, const char *key, char **ret_json,
	       size_t *ret_size);
/* The items of a list in their order, one at a time in memory; none if there is no such list. */
typedef int sessfs_item_fn(void *arg, size_t index, const char *data, size_t size);
int sessfs_get_list(struct sessfs *sessfs, const char *session, const char *key, sessfs_item_fn *fn,
		    void *arg);

/* 1 or 0; or -errno. */
int sessfs_exists(struct sessfs *sessfs, const char *session);
/* All sessions, in the order of their bytes; one that has a NUL in its name is left out. */
typedef int sessfs_session_fn(void *arg, const char *session);
int sessfs_list_sessions(struct sessfs *sessfs, sessfs_session_fn *fn, void *arg);

/* Deleting what is not there is no error.  A key that another program makes while its session is
 * deleted may stay. */
int sessfs_delete_session(struct sessfs *sessfs, const char *session);
int sessfs_delete_key(struct sessfs *sessfs, const char *session, const char *key);

/* Why the last function that this thread has called failed, in one sentence; empty if it did not.
 * It belongs to the library and stays until this thread calls the next function. */
const char *sessfs_why(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
