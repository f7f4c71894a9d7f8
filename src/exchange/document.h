/* SPDX-License-Identifier: MIT */
#ifndef DOCUMENT_H
#define DOCUMENT_H

/*
 * A document that holds a whole session: one JSON object, each member of which is to be a state of
 * its own.  An array becomes a list, an element a line; everything else a single state.  Texts are
 * taken over as they are, without the white space between tokens: no number and no string is
 * written anew.
 */

#include <stdint.h>

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
 * same.  -EINVAL: the text is no JSON, or no object; *ret_error says where, in the given text. */
int document_parse(struct bytes text, struct document *document, struct json_error *ret_error);
void document_done(struct document *document);

bool document_is_list(struct bytes value);
/* The content of the file that shows it. */
int document_content(struct bytes value, struct buf *content);

#endif
