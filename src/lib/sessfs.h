/* SPDX-License-Identifier: MIT */
#ifndef SESSFS_H
#define SESSFS_H

/*
 * libsessfs: the sessions of a store, without a mount.
 *
 * A store is what `sessfs mount` shows as files: a SQLite database, a database on a server by its
 * URL (mysql://..., see sessfs(1)), or "memory:", which lasts until you close it.  A session is a
 * set of states under keys.  A state is one JSON text, or a list of JSON texts:
 *
 *	state			rows of the table		file of a mount
 *	one	 (S, K)		(S, K, 0)			S/K.json
 *	list	 (S, K)		(S, K, 0 ... n-1), (S, K:_hash, 0)	S/K.jsonl, S/K.hash
 *
 * You get back the bytes that you saved, unchanged.  A session exists as long as it has a state.
 *
 * Beside others
 *
 *   Any number of programs can use a store at once, each with any number of handles, and beside
 *   mounts.  A mount shows a save within 100 milliseconds, and one that starts later shows it at
 *   once.  Every save and every deletion is one transaction: all of it happens, or nothing.  If two
 *   come at once, the later one wins completely.  Every read sees one committed state of the store.
 *   The quota of a session does not limit what the library saves, but this counts for mounts and
 *   commands.
 *
 * Durability
 *
 *   What a function has saved when it returns 0 survives any end of the program.  It survives a
 *   power loss after sessfs_sync(), sessfs_close(), or about a second.
 *
 * Conventions
 *
 *   A function returns 0, or -errno if it fails; then nothing has changed, and sessfs_why() returns
 *   a sentence for people.  Any function can fail with
 *     -EINVAL   an argument is wrong: a text is not JSON, a session or key is empty or not UTF-8,
 *		 or a key ends in ":_hash"
 *     -EROFS    the handle is read-only, or the library has found damage in the store
 *     -EBUSY    another program has held a lock on the store for ten seconds
 *     -ENOSPC   there is no room
 *     -EFBIG    a text is larger than the store allows: 1 GB in SQLite
 *     -EIO      the medium failed, or the store is damaged; or its file was removed, moved or
 *		 replaced while the handle was open: then this handle saves nothing more
 *     -ENOMEM   there is no memory
 *
 *   Sessions and keys are UTF-8.  The library keeps no pointer that you pass.  Outputs are called
 *   ret_x; only a function that succeeds writes them.
 *
 *   A callback returns 0 to go on, a positive number to stop (the function then returns 0), or
 *   -errno to stop with that error.  Its arguments stay valid until it returns; no NUL follows
 *   bytes that come with a size.
 *
 * Threads
 *
 *   You can call all functions but sessfs_close() from any thread at any time with the same handle.
 *   A callback can call the library with the same handle; until it changes something, it reads the
 *   committed state that it was called for.  It should not wait, because the log of the store grows
 *   until it returns.  A handle has a thread of its own, which takes no signals, so a child that
 *   fork() has made must neither use nor close the handle.
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
	SESSFS_CREATE = 1 << 0,	   /* make the store, with mode 0600, if it does not exist */
	SESSFS_READ_ONLY = 1 << 1, /* change nothing */
};

/*
 * Open a store by its path or URL, or "memory:".  table is the name of the table that holds the
 * rows; NULL means the table that the store uses already, agentscope_sessions in a new one.
 *   -ENOENT the store does not exist   -EMEDIUMTYPE the file is not a store of sessions
 *   -EPROTONOSUPPORT it has a newer format   -ELIBACC its URL needs a package, which the sentence
 *   names   -EACCES, -ECONNREFUSED, -EISDIR ... as the system or the server says
 *
 * A descriptor of the store's file stays open until the program ends, however often you open and
 * close the store: closing it would release the locks of other connections that the program may
 * have to the database.  If the program lacks a standard stream, /dev/null takes its place, so that
 * no message ends up in the store; using that stream still fails.
 */
int sessfs_open(const char *store, const char *table, unsigned flags, struct sessfs **ret_sessfs);
/* NULL is fine.  No other function may be using the handle. */
void sessfs_close(struct sessfs *sessfs);
/* Returns when everything that was saved survives a power loss. */
int sessfs_sync(struct sessfs *sessfs);

/* Save a state of one JSON text.  It replaces all that the key held, even a list. */
int sessfs_save(struct sessfs *sessfs, const char *session, const char *key, const char *json,
		size_t size);
/*
 * Save a list: give it exactly these items.  Pass the whole list each time: the library writes only
 * the rows that differ, and the others keep their times.  items may be NULL if count is 0.
 */
int sessfs_save_list(struct sessfs *sessfs, const char *session, const char *key,
		     const struct sessfs_item *items, size_t count);

/* Get the text of a state, or the first item of a list.  Free it with free().  A NUL follows it,
 * which *ret_size does not count; ret_size may be NULL.  -ENOENT: there is no such state. */
int sessfs_get(struct sessfs *sessfs, const char *session, const char *key, char **ret_json,
	       size_t *ret_size);
/* Call fn for each item of a list, in order, with one item in memory at a time; there are none if
 * the list does not exist. */
typedef int sessfs_item_fn(void *arg, size_t index, const char *data, size_t size);
int sessfs_get_list(struct sessfs *sessfs, const char *session, const char *key, sessfs_item_fn *fn,
		    void *arg);

/* Returns 1 or 0, or -errno. */
int sessfs_exists(struct sessfs *sessfs, const char *session);
/* Call fn for each session, sorted by the bytes of their names, without those that have a NUL. */
typedef int sessfs_session_fn(void *arg, const char *session);
int sessfs_list_sessions(struct sessfs *sessfs, sessfs_session_fn *fn, void *arg);

/* Both succeed if there is nothing to delete.  A key that another program makes while you delete
 * its session may stay. */
int sessfs_delete_session(struct sessfs *sessfs, const char *session);
int sessfs_delete_key(struct sessfs *sessfs, const char *session, const char *key);

/* A sentence that explains the last error of the calling thread; empty if its last call succeeded.
 * It belongs to the library and stays valid until this thread calls another function. */
const char *sessfs_why(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
