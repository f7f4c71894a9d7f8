/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_PACK_H
#define BACKEND_REDIS_PACK_H

/*
 * Nodes and notes as the server keeps them, the same on every machine.
 *
 * A node is the length of its key in an index, that key, then its numbers, eight or four bytes each
 * with the most significant one first, then its texts.  store.lua cuts numbers out of it: by the
 * places that pack_place() tells, which never change.
 */

#include "backend/backend.h"
#include "backend/memory/key.h"

/* The key under which a node is found by what it is; empty: none.  That of an orphan is for
 * orphan_find(). */
struct key pack_index(const struct backend_node *node);
int pack_node(const struct backend_node *node, struct buf *buf);
/* For backend_node_done().  -EIO: it is none. */
int unpack_node(struct bytes value, struct backend_node *ret_node);

/* Where a field stands in a node, and its bytes. */
struct pack_field {
	unsigned place;
	char bytes[8];
	size_t size;
};
/* Of those that at names (enum backend_fields), as many as there are. */
size_t pack_fields(const struct backend_node *node, unsigned at, struct pack_field fields[7]);

int pack_note(const struct backend_feed *feed, struct buf *buf);
/* Borrows from value. */
int unpack_note(struct bytes value, struct backend_feed *ret_feed);

/* Eight bytes with the most significant one first. */
void pack_number(uint64_t number, char bytes[8]);
uint64_t unpack_number(const char *bytes);

#endif
