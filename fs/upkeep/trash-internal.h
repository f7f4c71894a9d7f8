/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_TRASH_INTERNAL_H
#define FS_UPKEEP_TRASH_INTERNAL_H

/* What trash.c, trash-look.c and trash-return.c share. */

#include "fs/api/trash.h"
#include "fs/base/batch.h"
#include "fs/base/entries.h"
#include "fs/inode/locks.h"

#define TRASH_SECOND INT64_C(1000000000) /* nanoseconds */

/* homes.c */

/* All homes of a session, of which one may be known, as entries that know only the nodes. */
int homes_of(struct view *view, uint64_t layout, const struct backend_node *home,
	     struct bytes session, struct entries *homes);

/* trash-look.c */

/* A number with a blank behind it is taken off the text. */
bool word_take(struct bytes *text, int64_t *ret_number);
/* All that is in a directory, each before what it holds. */
int family_find(struct view *view, uint64_t dir, struct entries *family);
/* What a session looks like that has these homes, and this family below them.  rows: what
 * session_stat() says, or NULL. */
int family_look(struct view *view, const struct entries *homes,
		const struct backend_session_stat *rows, const struct entries *family,
		struct session_look *look);
/* The name of an entry in the trash in parts; false when it is no such name. */
bool trash_parse(uint64_t id, uint64_t ino, struct bytes name, struct trash_item *item);

/* trash-return.c */

/* Rows are hidden with a node, or shown. */
void emit_key(struct batch *batch, enum backend_op_type type, const struct backend_node *node);
/* An entry of the trash; until 0: it cannot come back. */
void emit_trashed(struct batch *batch, uint64_t id, int64_t removed, int64_t until,
		  struct bytes name, uint64_t ino);

#endif
