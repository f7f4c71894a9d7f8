/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_QUESTION_VALUES_H
#define FS_VIEWS_QUESTION_VALUES_H

/* Values as people write them.  What is returned is written on success only. */

#include "fs/views/question/question.h"

/* The decimal number, or the byte, that a text begins with; the text is what is behind it then. */
bool number_read(struct bytes *text, int64_t *ret_number);
bool byte_read(struct bytes *text, char byte);

/* A whole text: "2026-01-31", "2026-01-31T18:30", "12h". */
bool time_read(struct bytes text, struct question_time *ret_time);

#endif
