/* SPDX-License-Identifier: MIT */
#ifndef TERMINAL_H
#define TERMINAL_H

/*
 * The standard output as people see it: how wide it is, a pager, and texts (fs/api/text.h) in lines
 * that fit and in colours.
 */

#include <stdbool.h>

#include "backend/base/buf.h"

/* Columns of the terminal, or what COLUMNS in the environment says; otherwise, or if there are
 * fewer than least, that. */
int terminal_columns(int otherwise, int least);

/* From now on stdout goes through a pager, if it is a terminal: $PAGER, or less.  Once in a
 * process; pager_end() waits until the reader has quit it. */
void pager_begin(void);
void pager_end(void);

/* Zeroed: as it is.  Lines come in whole or in parts. */
struct paint {
	int columns; /* lines are no longer; 0: as they are */
	bool colours;
	struct buf line; /* the beginning of one */
};
/* For a terminal, as it is and as NO_COLOR and TERM in the environment say; otherwise zeroed. */
void paint_begin(struct paint *paint);
/* 0 or -ENOMEM. */
int paint_text(struct paint *paint, struct bytes text);
void paint_end(struct paint *paint);

#endif
