/* SPDX-License-Identifier: MIT */
#ifndef SEARCH_INTERNAL_H
#define SEARCH_INTERNAL_H

#include <sqlite3.h>

#include "src/search/search.h"

/* What is said to the index, each prepared when it is first used. */
enum search_text {
	TEXT_META_GET,
	TEXT_META_PUT,
	TEXT_KEY_BY_INO,
	TEXT_KEY_ADD,
	TEXT_KEY_SET,
	TEXT_KEY_DROP,
	TEXT_KEY_COUNT,
	TEXT_KEY_LOOSE,
	TEXT_KEY_GET,
	TEXT_SEEN_ADD,
	TEXT_KEY_UNSEEN,
	TEXT_ITEM_ADD,
	TEXT_ITEM_DROP,
	TEXT_ITEM_GET,
	TEXT_SAID_ADD,
	TEXT_SAID_FIND,
	SEARCH_TEXTS,
};

struct search {
	int fd; /* of the file, locked */
	char *path;
	struct buf identity;
	sqlite3 *db;
	sqlite3_stmt *statements[SEARCH_TEXTS];
	bool sealed;   /* the file is as it was left, and nothing was written yet */
	int64_t dead;  /* items that are in the words and nowhere else */
	int64_t alive; /* those that are in both, at least */
	struct backend *backend;
	struct backend_snapshot *snapshot; /* that it is up to date with */
};

/* index.c.  Errors of SQLite: -EUCLEAN, the file is not to be used any more; -ENOSPC, -ENOMEM,
 * -EIO. */
int search_error(const struct search *search, int code);
/* A statement that is ready to be bound; NULL: *ret_error says why. */
sqlite3_stmt *search_say(struct search *search, enum search_text text, int *ret_error);
/* 1: a row, 0: no more. */
int search_step(struct search *search, sqlite3_stmt *statement);
/* Run one that returns nothing. */
int search_run(struct search *search, sqlite3_stmt *statement);
int search_exec(struct search *search, const char *sql);
/* Before the first write, and behind the last one. */
int search_unseal(struct search *search);
int search_seal(struct search *search);
/* Give the file up, for others. */
void search_release(struct search *search);
/* An empty file, and an empty index in it. */
int search_empty(struct search *search);
int search_anew(struct search *search);

/* pages.c: open a file that tells whether it is damaged; a code of SQLite.  The caller closes it in
 * any case. */
int search_open_pages(const char *path, sqlite3 **ret_db);

/* 64 bits that tell whether a row is the one that was read. */
int64_t search_sum(struct bytes data);

#endif
