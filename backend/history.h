/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_HISTORY_H
#define BACKEND_HISTORY_H

/*
 * History: rows as they were (a part of backend.h, which has this one).
 *
 * What a change of rows takes away is kept, also where SQL makes the change: our own commits keep
 * it in the transaction that takes it away, and triggers do for other programs.  Each such
 * *record* says what stood at an index of a key until a time; a row that was added leaves none,
 * since its created_at says from when on it is there, but for a row that comes with a time of its
 * own.  So the rows as of T are those of now, with all records that ended behind T taken back,
 * the newest first, and without what was made later than T.
 *
 *	PAST_ROW	the row at index
 *	PAST_NONE	no row from index to last
 *	PAST_MOVED	the rows from index on stood by last places before where they came to
 *	PAST_MERGED	nothing is kept between the times index and last (until): as of index, or,
 *			where that is INT64_MIN, as of last
 *	PAST_UNDONE	index: the time as of which all was put back.  Changes nothing
 *	PAST_GONE	nothing was there from the time index on: it was removed then, and came back
 *
 * Records of a file that is hidden (BACKEND_KEY_HIDE) are of its number, and come back with it.
 * They move with a key (BACKEND_KEY_MOVE), unless it comes to where something was: then that has a
 * history of its own, and the key that has moved none from before.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum backend_past_what { PAST_ROW, PAST_NONE, PAST_MOVED, PAST_MERGED, PAST_UNDONE, PAST_GONE };

struct backend_past {
	int64_t n; /* rises with each record */
	enum backend_past_what what;
	int64_t index;
	int64_t last;
	int64_t until;	 /* nanoseconds since 1970 */
	int64_t created; /* of a row, or 0 */
	uint64_t bytes;	 /* of a row */
	int64_t pid;	 /* of the mount; 0: SQL */
};

/* Whose past: a key, or with ino that of a hidden file. */
struct backend_past_key {
	uint64_t ino;
	struct bytes session;
	struct bytes key;
};

typedef int backend_past_fn(void *arg, const struct backend_past *past);
typedef int backend_past_key_fn(void *arg, const struct backend_past_key *key);

/* What a store need not have: without it nothing is kept. */
struct backend_history {
	/* What ended behind a time, the newest record first. */
	int (*past_list)(struct backend *backend, struct backend_snapshot *snapshot,
			 const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
			 void *arg);
	/* Each time of that, the newest first: n says how many records have it, and bytes of how
	 * many bytes; all else is 0. */
	int (*past_times)(struct backend *backend, struct backend_snapshot *snapshot,
			  const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
			  void *arg);
	/* The rows among the records from one to another, rising or (with back) falling. */
	int (*past_read)(struct backend *backend, struct backend_snapshot *snapshot,
			 const struct backend_past_key *key, int64_t first, int64_t last, bool back,
			 backend_row_time_fn *fn, void *arg);
	/* Each key that has a past, in an order of the store's, behind one (or from the first). */
	int (*past_keys)(struct backend *backend, struct backend_snapshot *snapshot,
			 const struct backend_past_key *after, backend_past_key_fn *fn, void *arg);
	/* The bytes of all rows that are kept, and the highest number of a record. */
	int (*past_size)(struct backend *backend, struct backend_snapshot *snapshot,
			 uint64_t *ret_bytes, int64_t *ret_last);
	/* row_read_times() of the rows of a hidden file. */
	int (*hidden_read)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   int64_t from, bool back, backend_row_time_fn *fn, void *arg);
};

int backend_past_list(struct backend *backend, struct backend_snapshot *snapshot,
		      const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		      void *arg);
int backend_past_times(struct backend *backend, struct backend_snapshot *snapshot,
		       const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		       void *arg);
int backend_past_read(struct backend *backend, struct backend_snapshot *snapshot,
		      const struct backend_past_key *key, int64_t first, int64_t last, bool back,
		      backend_row_time_fn *fn, void *arg);
int backend_past_keys(struct backend *backend, struct backend_snapshot *snapshot,
		      const struct backend_past_key *after, backend_past_key_fn *fn, void *arg);
int backend_past_size(struct backend *backend, struct backend_snapshot *snapshot,
		      uint64_t *ret_bytes, int64_t *ret_last);
int backend_hidden_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			int64_t from, bool back, backend_row_time_fn *fn, void *arg);

/*
 * The rows of a key as of a time: where each is now.  Runs in the order of their indexes, without a
 * gap from INT64_MIN to INT64_MAX.
 */
struct as_of_run {
	int64_t index; /* of its first row then; it goes as far as the next run */
	enum { RUN_NONE, RUN_ROWS, RUN_PAST } where;
	int64_t at; /* where that row is now: its index, or the number of its record */
};

struct as_of {
	struct backend_past_key key; /* borrowed */
	int64_t time;		     /* as of which it is: where that is not kept, another one */
	int64_t now;
	struct as_of_run *run;
	size_t count;
	size_t room;
	bool whole; /* the rows of now, but for those that were made later */
	bool came;  /* rows have come since that have times of their own: of a file that was made
		       for them that time says nothing, either */
	bool cut;   /* as_of_cut() */
};

/* Free with as_of_done(). */
int as_of_find(struct backend *backend, struct backend_snapshot *snapshot,
	       const struct backend_past_key *key, int64_t time, struct as_of *ret_as_of);
void as_of_done(struct as_of *as_of);
/* Make the runs end where the rows do, *ret_end behind the last one (INT64_MIN: there is none).
 * What was made later and has no record came behind all that was there, so the end is searched for
 * by created_at; reads leave nothing out from then on. */
int as_of_cut(struct backend *backend, struct backend_snapshot *snapshot, struct as_of *as_of,
	      int64_t *ret_end);
/* As row_read_times(). */
int as_of_read(struct backend *backend, struct backend_snapshot *snapshot,
	       const struct as_of *as_of, int64_t from, bool back, backend_row_time_fn *fn,
	       void *arg);
/* Whether a key had any rows then, or a file that was made by then (made) had none yet. */
int as_of_any(struct backend *backend, struct backend_snapshot *snapshot,
	      const struct backend_past_key *key, int64_t time, bool made, bool *ret_any);
/* A number that differs with the places of the rows. */
uint64_t as_of_sum(const struct as_of *as_of);

#endif
