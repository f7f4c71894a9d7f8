/* SPDX-License-Identifier: MIT */
#ifndef INDEX_H
#define INDEX_H

/*
 * The search index: a database of SQLite in a file of its own beside a store.
 *
 *	index_beside("/home/a/s.db", NULL, backend, &index, &why)	(place.c)
 *	ROWS_ASK(&index->rows, INDEX_KEY_DROP, rows_number(id))
 *	index_commit(index)
 *	index_close(index)
 *
 * The file has nothing that the store has not: it can be deleted at any time.  One process at a
 * time has it open (index.c).  Functions return 0 or -errno; -EUCLEAN with
 * index.rows.damaged: SQLite calls the file corrupt, and the caller calls index_anew().
 */

#include "backend/backend.h"
#include "src/rows/rows.h"

/* Stands before the role of an item that is not talk (fs/api/text.h). */
#define SEARCH_NO_TALK "-"

enum index_text {
	INDEX_META_GET,
	INDEX_META_SET,
	INDEX_KEY_BY_INO,
	INDEX_KEY_ADD,
	INDEX_KEY_SET,
	INDEX_KEY_DROP,
	INDEX_KEY_COUNT,
	INDEX_KEY_LOOSE,
	INDEX_KEY_GET,
	INDEX_SEEN_ADD,
	INDEX_KEY_UNSEEN,
	INDEX_ITEM_ADD,
	INDEX_ITEM_DROP,
	INDEX_ITEM_GET,
	INDEX_SAID_ADD,
	INDEX_SAID_FIND,
	INDEX_TEXTS,
};

struct index {
	int fd; /* of the file, locked */
	char *path;
	struct buf identity;
	struct rows rows;
	int64_t dead;  /* removed items whose words are still in it */
	int64_t alive; /* other items */
	struct backend *backend;
	struct backend_snapshot *snapshot; /* the state that it has, until it is closed */
};

/* The identity stands for the format and the store.  ours: only an index can have that name;
 * otherwise -EEXIST when the file is not an index.  On failure *ret_why is a sentence, or NULL. */
int index_open(const char *path, struct bytes identity, bool ours, struct index **ret_index,
	       char **ret_why);
/* place.c: beside the store; of one on a server, or where nothing can be put beside it, in the
 * user's cache. */
int index_beside(const char *store, const char *table, struct backend *backend,
		 struct index **ret_index, char **ret_why);
/* Rolls back changes that were not committed.  NULL is fine. */
void index_close(struct index *index);
static inline void index_closep(struct index **index)
{
	index_close(*index);
}
/* Release the file for other processes; the snapshot stays. */
void index_release(struct index *index);
/* Commit the changes so far, and begin the next transaction. */
int index_commit(struct index *index);
/* Empty the index, and end the snapshot. */
int index_anew(struct index *index);

/* score.c: give a connection score(), the higher the better; a code of SQLite. */
int search_score(sqlite3 *db);

#endif
