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

/* The string at the first of them that leads to one, between its quotes; no data: there is none. */
struct bytes shape_find(struct bytes line, enum shape shape);
/* The role that a word means, as it stands between quotes; the word itself if it is not in the
 * table. */
struct bytes role_meant(struct bytes word);

#endif
