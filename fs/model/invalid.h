/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_INVALID_H
#define FS_MODEL_INVALID_H

/*
 * Bytes that are no rows: finding them, and saying so.
 */

#include "fs/model/internal.h"
#include "src/base/json.h"

/* Text of an id for a sentence: in quotes, on one line, cut when long. */
enum { INVALID_ID_MAX = 820 };
const char *invalid_show_id(struct bytes id, char *text);
#define SHOWN(id) invalid_show_id((id), (char[INVALID_ID_MAX]){ 0 })

/* A place that is not JSON; line and column count from 1, in bytes. */
struct invalid_place {
	uint64_t line;
	uint64_t column;
	const char *reason;
};
typedef int invalid_fn(void *arg, const struct invalid_place *place);

/* Every such line of a list that is no draft; or the one place of a draft.  Blank lines do not
 * count. */
int invalid_find(struct view *view, const struct inode *inode, invalid_fn *fn, void *arg);

/* The attribute user.sessfs.invalid: -ENODATA when there is nothing to tell. */
int invalid_describe(struct view *view, const struct inode *inode, struct buf *text);

/* One line of the log; where is "line 7" or "before item 7". */
void invalid_log(const struct backend_node *node, const char *where, uint64_t number,
		 const struct json_error *error);
/* Likewise for a line that is refused (-o strict). */
void invalid_log_refused(const struct backend_node *node, uint64_t line,
			 const struct json_error *error);

#endif
