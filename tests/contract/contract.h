/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CONTRACT_CONTRACT_H
#define TESTS_CONTRACT_CONTRACT_H

/*
 * One suite for every store.  A case that holds for all of them is an EveryStore(); it gets
 * `backend`, a fresh store.  What is shown is text, so that a failed case tells what it saw.
 */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <sqlite3.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/base/cleanup.h"

/* A fresh store of a kind; closed, and its files removed, at the end of the case.  The program has
 * these two in a file of its own, beside the cases that it runs: stores.c, servers.c. */
struct backend *fresh_store(int kind);
struct criterion_test_params every_kind(void);
/* The same for cases of several mounts: a fresh store, or one more mount of what is there. */
struct backend *shared_store(int kind, struct backend *first);
struct criterion_test_params every_shared_kind(void);
void close_stores(void);
/* Called when they are closed, unless it is NULL. */
extern void (*after_stores)(void);

#define EveryStore(suite, name)                                                                    \
	static void suite##_##name##_body(struct backend *backend);                                \
	ParameterizedTestParameters(suite, name)                                                   \
	{                                                                                          \
		return every_kind();                                                               \
	}                                                                                          \
	ParameterizedTest(const int *kind, suite, name, .fini = close_stores)                      \
	{                                                                                          \
		suite##_##name##_body(fresh_store(*kind));                                         \
	}                                                                                          \
	static void suite##_##name##_body(struct backend *backend)

/* For a case of what a store need not have: it is skipped where that is missing. */
#define NEEDS(backend, capability, slot)                                                           \
	do {                                                                                       \
		if ((backend)->ops->capability && (backend)->ops->capability->slot)                \
			break;                                                                     \
		close_stores();                                                                    \
		cr_skip("the store has no %s", #slot);                                             \
	} while (0)

/* A directory for the files of a case, removed by close_stores(); paths in it live as long. */
const char *scratch_path(const char *name);
/* Open a SQLite store at a path; it must succeed.  Closed by close_stores() unless closed before
 * by shut(). */
struct backend *open_at(const char *path, const struct backend_options *options);
void shut(struct backend *backend);
/* Have a store closed by close_stores(), too; and lay a wrapper around one. */
struct backend *remember(struct backend *backend);
struct backend *wrap(struct backend *inner, int (*wrapper)(struct backend *, struct backend **));
/* Open one in vain: the error, and the sentence in *ret_why (to be freed). */
int refused_at(const char *path, const struct backend_options *options, char **ret_why);

/* The other program: plain SQLite. */
sqlite3 *other_open(const char *path);
void other_close(sqlite3 *db);
void other_runs(sqlite3 *db, const char *sql);
/* The first column of the first row as text, "NULL" for null, "" for no row. */
const char *other_asks(sqlite3 *db, const char *sql);

/* Operations. */
struct backend_op row_insert(struct bytes session, struct bytes key, int64_t at, struct bytes data);
struct backend_op row_put(struct bytes session, struct bytes key, int64_t at, struct bytes data);
struct backend_op row_delete(struct bytes session, struct bytes key, int64_t at, int64_t to);
struct backend_op node_put(const struct backend_node *node);
/* Fields of it (enum backend_fields), and so many links more. */
struct backend_op node_set(const struct backend_node *node, unsigned fields, int64_t links);
struct backend_op node_delete(uint64_t ino);
struct backend_op entry_put(uint64_t parent, int64_t id, struct bytes name, uint64_t ino);
struct backend_op xattr_put(uint64_t ino, struct bytes name, struct bytes data);
struct backend_op chunk_put(uint64_t ino, int64_t at, struct bytes data);
struct backend_op piece_put(uint64_t ino, int64_t at, int64_t seq, struct bytes data);
struct backend_op mark_put(uint64_t ino, uint64_t offset, int64_t at);
struct backend_op setting(struct bytes name, struct bytes data);

/* A plain file's node. */
struct backend_node plain_node(uint64_t ino);
struct backend_node state_node(uint64_t ino, struct bytes session, struct bytes key);

/* Apply operations, without BACKEND_ANYWAY; the result. */
#define COMMIT(backend, ...)                                                                       \
	({                                                                                         \
		const struct backend_op ops_[] = { __VA_ARGS__ };                                  \
		backend_commit((backend), ops_, ARRAY_SIZE(ops_), 0);                              \
	})

/* What a store holds, as text in a buffer that a later call but four overwrites. */
const char *rows_of(struct backend *backend, struct bytes session, struct bytes key);
const char *rows_seen(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, int64_t first);
const char *rows_back(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, int64_t last, uint64_t most);
/* As "index@seconds=data", with the seconds of their times since 1970. */
const char *rows_timed(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes key, int64_t from, bool back,
		       uint64_t most);
const char *keys_of(struct backend *backend);
const char *keys_after(struct backend *backend, struct bytes session, struct bytes key);
const char *entries_of(struct backend *backend, uint64_t parent, uint64_t after);
const char *nodes_of(struct backend *backend, uint64_t after, bool orphans_only);
const char *xattrs_of(struct backend *backend, uint64_t ino);
const char *chunks_of(struct backend *backend, uint64_t ino, int64_t first, int64_t last);
const char *chunk_sizes_of(struct backend *backend, uint64_t ino, int64_t first, int64_t last);
const char *pieces_of(struct backend *backend, uint64_t ino, int64_t first);
const char *pieces_from(struct backend *backend, uint64_t ino, int64_t first, int64_t first_seq);
const char *changes_of(struct backend *backend);
/* Without the rows' table. */
const char *settings_of(struct backend *backend);
const char *settings_seen(struct backend *backend, struct backend_snapshot *snapshot);

/* A snapshot that must succeed, with BACKEND_ANYWAY. */
struct backend_snapshot *look(struct backend *backend);
int snapshot_error(struct backend *backend);
void unlook(struct backend *backend, struct backend_snapshot *snapshot);

extern const struct bytes S, K; /* a session and a key */

#endif
