/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_WORLD_H
#define TESTS_UNIT_WORLD_H

/*
 * A store with its tree, and files in it by their paths ("s/l.jsonl", "" is the root).
 *
 * A case has one world, which lives in the variables below, since Criterion runs each case in a
 * process of its own.  Whatever is not asked for its error must succeed.  Text that is returned
 * stays until the eighth call from then.  Bytes are shown as they are, but NULs as "\0".
 */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fs/api/tree.h"
#include "backend/base/cleanup.h"

enum { WORLD_MEMORY, WORLD_SQLITE, WORLD_SERVER };

extern struct tree *world_tree;
extern struct backend *world_store; /* what the tree works on */
/* Of the next tree: zero unless set, but that a writer that pauses publishes nothing, which would
 * be by the clock. */
extern struct tree_options world_options;

void world_open(int kind);
/* Set before: other mounts may have the store.  One more handle of it. */
extern bool world_shared;
struct backend *world_join(void);
/* Lay something between the tree and each store that is opened from now on. */
typedef int world_wrapper(struct backend *inner, struct backend **ret_backend);
void world_wrap(world_wrapper *wrapper);
/* Open a tree on the store of the tree that was closed by tree_close(); the error, and its
 * sentence, to be freed. */
int world_try(char **ret_why);
/* A tree as after an unmount and a mount. */
void world_reopen(void);
/* Let a process of its own open the tree and do something, and kill it; then a tree as after that,
 * unless the store is to be changed before: world_try(). */
void world_kill_after(void something(void));
/* The path of a SQLite store. */
const char *world_path(void);
/* Assert that nobody is known but who has a handle (the root counts as one), that the store is
 * whole, and close it for good. */
void world_close(void);
/* Rows of unlinked files go, times are written: what the tree does in a second at the latest. */
void world_settle(void);
/* Wait until what other programs have changed is taken in; by itself each look waits for what it is
 * about, and for the rest only if that does not take long. */
void world_take_in(void);
/* Inodes in memory, after settling: at least the root. */
size_t world_inodes(void);
/* Assert that check_store() finds no violation, beside the open tree. */
void world_check(void);

/* A case for each kind of store, with a session "s". */
struct criterion_test_params every_kind(void);
#define EveryStore(suite, name)                                                                    \
	static void suite##_##name##_body(void);                                                   \
	ParameterizedTestParameters(suite, name)                                                   \
	{                                                                                          \
		return every_kind();                                                               \
	}                                                                                          \
	ParameterizedTest(const int *kind, suite, name)                                            \
	{                                                                                          \
		world_open(*kind);                                                                 \
		make_dir("s");                                                                     \
		suite##_##name##_body();                                                           \
		world_close();                                                                     \
	}                                                                                          \
	static void suite##_##name##_body(void)
/* A case with a SQLite store, which other mounts may have, and the session "s". */
#define SqliteStore(suite, name)                                                                   \
	static void suite##_##name##_body(void);                                                   \
	Test(suite, name)                                                                          \
	{                                                                                          \
		world_shared = true;                                                               \
		world_open(WORLD_SQLITE);                                                          \
		make_dir("s");                                                                     \
		suite##_##name##_body();                                                           \
		world_close();                                                                     \
	}                                                                                          \
	static void suite##_##name##_body(void)

/* Another program at the SQLite file. */
void sql_runs(const char *sql);
/* It adds a row to session "s", key "l"; the index is an expression. */
void sql_adds(const char *index, const char *data);
/* The first column of the first row as text, "NULL" for null, "" for no row. */
const char *sql_asks(const char *sql);

/* Names; what returns an int returns the error. */
void make_dir(const char *path);
int make_file(const char *path, mode_t mode);
int looked_up(const char *path);
int unlinked(const char *path);
int removed_dir(const char *path);
int linked(const char *path, const char *path_to);
int renamed(const char *path, const char *path_to, unsigned flags);
int renamed_by(const char *path, const char *path_to, pid_t pid);
/* A file without a name, counted. */
int make_nameless(const char *dir, struct inode **ret_inode);
int named(struct inode *inode, const char *path_to);
int named_over(struct inode *inode, const char *path_to);
/* The inode, counted: to be given back with forget(). */
int find_inode(const char *path, struct inode **ret_inode);
struct inode *inode_at(const char *path);
void forget(struct inode *inode);
/* Names in a directory, with blanks between them, without "." and "..", in the order listed. */
const char *names_in(const char *path);

/* Attributes. */
struct stat stat_of(const char *path);
struct stat stat_of_inode(struct inode *inode);
int set_attr(const char *path, const struct stat *st, unsigned mask);
/* By an open file. */
int set_attr_by(struct handle *handle, const struct stat *st, unsigned mask);
int64_t nanoseconds(struct timespec time);

/* Open files; flags as open(2), O_CREAT and O_EXCL among them. */
int try_open(const char *path, int flags, struct handle **ret_handle);
struct handle *open_at(const char *path, int flags);
struct handle *open_by(const char *path, int flags, pid_t pid);
struct handle *open_inode(struct inode *inode, int flags);
int open_error(const char *path, int flags);
void write_at(struct handle *handle, uint64_t offset, struct bytes data);
void append_to(struct handle *handle, const char *text);
/* Flush and free: both ends of a close. */
void close_handle(struct handle *handle);
void close_by(struct handle *handle, pid_t pid);
const char *read_by(struct handle *handle);

/* Whole files. */
void save(const char *path, const char *text);
void append(const char *path, const char *text);
struct bytes bytes_of(const char *path);
const char *content_of(const char *path);

/* Rows as "0=... 1=...", and pieces as "0.0=... ". */
const char *rows_of(const char *session, const char *key);
const char *pieces_of(const char *path);
/* All keys that have rows, as "session/key[first-last] ...". */
const char *keys(void);

#endif
