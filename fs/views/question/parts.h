/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_QUESTION_PARTS_H
#define FS_VIEWS_QUESTION_PARTS_H

/* What a message is made of, in the words of different programs. */

#include "fs/views/question/put.h"

enum part {
	PART_NONE,
	PART_SEVERAL, /* a text, a part, or an array of them */
	PART_TEXT,
	PART_THOUGHT,
	PART_CALL,   /* of a tool */
	PART_RESULT, /* of one */
	PART_BLOB,
};

/* The members of a message that have parts, each as its kind, in the order in which they read. */
bool parts_put(struct put *put, struct bytes message, bool tool);

/* Whether a message is nothing but results of tools. */
bool parts_are_results(struct bytes message);

/* The first text of a message that is not all in tags, between its quotes; no data if there is
 * none. */
struct bytes parts_text(struct bytes message);

#endif
