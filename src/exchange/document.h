/* SPDX-License-Identifier: MIT */
#ifndef DOCUMENT_H
#define DOCUMENT_H

/*
 * A document that holds a whole session: one JSON object, each member of which becomes a state.  An
 * array becomes a list, a line for each element; everything else a single state.  Texts are copied
 * byte for byte, but without the white space between tokens: numbers and strings stay as they are
 * written.
 */

#include "backend/base/buf.h"
#include "fs/base/json.h"

struct document_member {
	char *key; /* decoded; may hold NULs */
	size_t key_size;
	struct bytes value; /* in the text */
	size_t place;	    /* among the members */
};

struct document {
	struct buf text;
	struct document_member *members; /* in the order of their keys, each key once */
	size_t count;
	size_t room;
};

/* Lone surrogates that Python has written as if they were characters become escapes, which mean the
 * same.  -EINVAL: the text is not a JSON object; *ret_error says where, in the given text. */
int document_parse(struct bytes text, struct document *document, struct json_error *ret_error);
void document_done(struct document *document);

/* The content of the file that shows it. */
int document_content(struct bytes value, struct buf *content);

#endif
