/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_TEMPLATE_H
#define FS_BASE_TEMPLATE_H

/* Texts with variables between braces, as layouts have them (layout.h tells their types). */

#include "backend/base/buf.h"

enum { VALUES = 8 };

/* The values of variables; zeroed: none is set. */
struct values {
	struct bytes name[VALUES]; /* borrowed from a template */
	struct buf value[VALUES];  /* with a NUL behind each that does not count */
	size_t count;
};
void values_done(struct values *values);

/* Whether a text fits a template, 1 or 0; then the values are known, in addition to those that were
 * and must be the same.  -ENOMEM. */
int template_read(struct bytes template, struct bytes text, struct values *values);
/* Append what a template says with these values; -EINVAL when one is not known, -ENOMEM. */
int template_write(struct bytes template, const struct values *values, struct buf *text);
/* The same up to the first variable that is not known: 1, or 0 when all are. */
int template_start(struct bytes template, const struct values *values, struct buf *text);

#endif
