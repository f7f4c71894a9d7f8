/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_VIEWS_H
#define FS_VIEWS_VIEWS_H

/* The door of this room: views, which are windows (fs/inode/window.h) through questions
 * (fs/views/question/question.h). */

#include "fs/inode/tree.h"

/* For tree.views. */
extern const struct views views;

/* Show the root through these clauses from now on; errors as tree_judge_view(). */
int root_shown_through(struct tree *tree, const char *clauses, char **ret_why);

#endif
