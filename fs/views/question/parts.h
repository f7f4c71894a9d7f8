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

/* Whose the parts of a message are. */
enum parts_by {
	BY_ANY,
	BY_TOOL, /* texts are results */
	BY_USER, /* texts may be a client's */
};

/* The members of a message that have parts, each as its kind, in the order in which they read.
 * skip: all but its calls were put already, and so many of these. */
enum { PARTS_ALL = -1 };
bool parts_put(struct put *put, struct bytes message, enum parts_by by, int skip);
/* The calls that a message has, as parts_put() counts them. */
int parts_calls(struct bytes message);

/* Whether there would be anything. */
bool parts_any(struct bytes message, enum parts_by by);

/* Whether a message is nothing but results of tools. */
bool parts_are_results(struct bytes message);

/* The first text of a message that a person has written, and that is not all in tags, between its
 * quotes; no data if there is none. */
struct bytes parts_text(struct bytes message);

/* What a person has written, of the text between the quotes of a string that a client has sent in
 * their name: without what the client has put around it; no data: it is the client's alone. */
struct bytes person_text(struct bytes inside);

/* Whether a part of a person's message, by its text, is one of those that a client has put there;
 * *within: whether the part before it was, and more of them follow. */
bool person_inserted(struct bytes inside, bool *within);

#endif
