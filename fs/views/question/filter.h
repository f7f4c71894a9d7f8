/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_QUESTION_FILTER_H
#define FS_VIEWS_QUESTION_FILTER_H

/*
 * The part of a question about the bytes of a line, as fits.c uses it: all paths of members are one
 * tree of keys, with those of roles and agents.
 */

#include <stdint.h>

#include "fs/views/question/question.h"
#include "fs/views/question/shapes.h"

enum side {
	INCLUDES,
	EXCLUDES,
	SIDES,
};

/* Values of one kind and side, linked in the order of the question; 0 is the end. */
struct value {
	struct bytes text;
	uint32_t next;
};

/* A key on the path to a member that the question names.  Node 0 is the line itself, so an index of
 * a child, a sibling or a value is never 0. */
struct node {
	struct bytes key;
	uint32_t parent;
	uint32_t child;
	uint32_t sibling;
	uint32_t values[SIDES];
	uint8_t rank[SHAPES]; /* its place in shape_paths, from 1; 0: it is not there */
};

enum { BYTE_CLASSES = 32 };

/* A word in lower case, and how far to go on from a place whose last byte is of this class. */
struct word {
	struct bytes text;
	uint8_t skip[BYTE_CLASSES];
};

struct question_filter {
	struct buf text; /* decoded parts of the question; never moves */
	struct node *nodes;
	size_t node_count, node_room;
	struct value *values;
	size_t value_count, value_room;
	struct word *words;
	size_t word_count, word_room;
	uint32_t made_by[SHAPES][SIDES]; /* the values of role= and agent= */
	/* Whether anything is asked for. */
	bool asks[SIDES];
	bool asks_shape[SHAPES];
	bool asks_members;
	bool asks_items; /* items=, which does not depend on the line */
};

/* For a question whose text has so many bytes; NULL: no memory. */
struct question_filter *filter_new(size_t size);
void filter_free(struct question_filter *filter);

/* 0 or -ENOMEM.  The bytes are the filter's, or static. */

/* The node below this one that has the key. */
int filter_key(struct question_filter *filter, uint32_t parent, struct bytes key,
	       uint32_t *ret_node);
int filter_member(struct question_filter *filter, uint32_t node, enum side side,
		  struct bytes value);
/* A role is in lower case. */
int filter_shape(struct question_filter *filter, enum shape shape, enum side side,
		 struct bytes value);
/* A word is in lower case and has 1 to QUESTION_WORD_MAX bytes. */
int filter_word(struct question_filter *filter, struct bytes text);

static inline unsigned char byte_fold(unsigned char byte)
{
	return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

/* Letters in either case are of one class. */
static inline unsigned char byte_class(char byte)
{
	return (unsigned char)byte % BYTE_CLASSES;
}

#endif
