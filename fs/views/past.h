/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_PAST_H
#define FS_VIEWS_PAST_H

/* Inside this room: past.c, all of a list as of a time (at= alone), which is not read at the
 * open. */

#include "fs/views/windows.h"

/* Where the rows of then are; of a struct version, by whose last user it is freed. */
struct window_past {
	uint64_t version; /* inode.version of the list that it is of */
	int64_t time;	  /* as of which the rows are */
	uint64_t size;
	bool again; /* it was found again, since the list has changed while it was open */
	/* The row where the last read ended: the offset where it begins, and its index. */
	uint64_t offset;
	int64_t index;
	uint64_t large; /* offset of a large row, which is in version.stage */
	size_t count;
	struct as_of_run *run; /* as of struct as_of, and where each begins */
	struct past_place {
		int64_t row; /* at the offset of this row of now, if it were a list of rows only, */
		int64_t by;  /* and so many bytes behind that */
	} place[];
};

/* As window_view_begin(), of a file that may be such a list. */
int past_begin(struct tree *tree, struct inode *of, struct window_view *view);
/* As window_choose(), but the version may be one with a past; and as window_fill_again(). */
int past_choose(struct window_view *view, struct version **ret_version);
int past_fill_again(struct window_view *view, const struct window_rows *rows,
		    struct version **ret_version);
/* window_read() of such a version.  1: what it was is not there any more.  Under window.lock. */
int past_read(struct tree *tree, struct window *window, uint64_t offset, size_t size,
	      struct buf *out);

/* The rights that something removed does not give: only its owner may read it, since the directory
 * that it was in may have been closed to others. */
static inline mode_t removed_hides(const struct window_rows *rows)
{
	return rows->removed ? S_IRWXG | S_IRWXO : 0;
}

#endif
