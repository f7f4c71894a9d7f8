/* SPDX-License-Identifier: MIT */
#ifndef INDEX_H
#define INDEX_H

/*
 * What follows from a store and is asked often, in a file of its own beside it.
 *
 *	index_beside(&kind, "/home/a/s.db", NULL, backend, &index, &why)	(place.c)
 *	walk_bring_up(&walk)					(walk.h)
 *	index_say(index, TEXT_..., &r)
 *	index_close(index)
 *
 * The file has nothing that the store has not: it can be deleted at any time, and is made anew
 * when it is not what was left (file.c).  It is of one process at a time.  Functions return 0 or
 * -errno; -EUCLEAN: the file is not to be used any more.
 */

#include <sqlite3.h>
#include <stdbool.h>

#include "backend/backend.h"

struct index_kind {
	const char *suffix;   /* its name is that of the store, '-', and this */
	uint32_t application; /* by which such a file is known */
	const char *format;   /* another one is made anew */
	const char *schema;
	/* What is said to it, INDEX_TEXTS first. */
	const char *const *texts;
	size_t count;
};

enum index_text {
	INDEX_META_GET,
	INDEX_META_PUT,
	INDEX_TEXTS,
};
#define INDEX_META_TEXTS                                                                           \
	[INDEX_META_GET] = "SELECT value FROM meta WHERE name = ?1",                               \
	[INDEX_META_PUT] = "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)"

struct index {
	const struct index_kind *kind;
	int fd; /* of the file, locked */
	char *path;
	struct buf identity;
	sqlite3 *db;
	sqlite3_stmt **statements;
	bool sealed;   /* the file is as it was left, and nothing was written yet */
	int64_t dead;  /* items that were taken away and are in it still */
	int64_t alive; /* those that are not, at least */
	struct backend *backend;
	struct backend_snapshot *snapshot; /* that it is up to date with, until it is closed */
};

/* The identity tells stores apart.  ours: nothing but an index can have that name; otherwise
 * -EEXIST when the file is something else.  On failure *ret_why is a sentence, or NULL. */
int index_open(const struct index_kind *kind, const char *path, struct bytes identity, bool ours,
	       struct index **ret_index, char **ret_why);
/* place.c: beside the store; of one on a server, or where nothing can be put beside it, in the
 * user's cache. */
int index_beside(const struct index_kind *kind, const char *store, const char *table,
		 struct backend *backend, struct index **ret_index, char **ret_why);
/* NULL is fine. */
void index_close(struct index *index);
static inline void index_closep(struct index **index)
{
	index_close(*index);
}
/* Give the file up, for others; the snapshot stays. */
void index_release(struct index *index);

/* Errors of SQLite: -EUCLEAN, -ENOSPC, -ENOMEM, -EIO. */
int index_error(const struct index *index, int code);
/* A statement that is ready to be bound, prepared when it is first used; NULL: *ret_error says
 * why. */
sqlite3_stmt *index_say(struct index *index, unsigned text, int *ret_error);
/* 1: a row, 0: no more. */
int index_step(struct index *index, sqlite3_stmt *statement);
/* Run one that returns nothing. */
int index_run(struct index *index, sqlite3_stmt *statement);
int index_exec(struct index *index, const char *sql);
void index_bind_bytes(sqlite3_stmt *statement, int place, struct bytes bytes);
struct bytes index_bytes(sqlite3_stmt *statement, int column);

/* Before the first write, and behind the last one. */
int index_unseal(struct index *index);
int index_seal(struct index *index);
/* An empty file, and an empty index in it. */
int index_empty(struct index *index);
int index_anew(struct index *index);

/* pages.c: open a file that tells whether it is damaged; a code of SQLite.  The caller closes it in
 * any case. */
int index_open_pages(const char *path, sqlite3 **ret_db);

/* 64 bits that tell whether bytes are those that were read. */
int64_t index_sum(struct bytes data);

#endif
