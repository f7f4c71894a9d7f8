/* SPDX-License-Identifier: MIT */
#ifndef FS_QUESTION_SHAPES_H
#define FS_QUESTION_SHAPES_H

/* Where the lines of different programs have their role and their agent. */

#include "backend/base/buf.h"

enum shape {
	SHAPE_ROLE,
	SHAPE_AGENT,
	SHAPES,
};

/* Paths of members, with '.' between the keys; the first that leads to a string counts, and NULL
 * ends them. */
extern const char *const *const shape_paths[SHAPES];

/* The nth word, from 0, by which some program means this role, which is in lower case; no data when
 * there are no more. */
struct bytes role_spelling(struct bytes role, unsigned n);
/* The role that a word in lower case means; the word itself if it is not in the table. */
struct bytes role_meant(struct bytes word);

#endif
