/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_KEY_H
#define BACKEND_MEMORY_KEY_H

/*
 * Keys of the one map that a memory store consists of: a letter that stands for a table, then the
 * columns of its key, written so that the order of the bytes is the order of the columns.  A text
 * column ends in 00 00 and has 00 FF for each NUL, so that a shorter text is before a longer one
 * and nothing in it looks like the end.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

enum key_table {
	KEY_ROW = 'R',	      /* session, key, index -> created, updated, data */
	KEY_HIDDEN = 'H',     /* ino, index -> created, updated, data */
	KEY_NODE = 'N',	      /* ino -> node */
	KEY_FILE = 'F',	      /* session, key -> ino, of the state file */
	KEY_SESSION = 'S',    /* session -> ino, of its directory */
	KEY_ORPHAN = 'O',     /* ino -> nothing */
	KEY_LOCK = 'B',	      /* ino, mount -> struct backend_lock, several */
	KEY_FEED = 'D',	      /* number -> a note for other mounts */
	KEY_ENTRY = 'E',      /* parent, id -> ino, name */
	KEY_NAME = 'L',	      /* parent, name -> id */
	KEY_XATTR = 'X',      /* ino, name -> value */
	KEY_CHUNK = 'C',      /* ino, chunk -> data */
	KEY_PIECE = 'P',      /* ino, index, seq -> data */
	KEY_MARK = 'M',	      /* ino, offset -> index */
	KEY_MARK_INDEX = 'I', /* ino, index, offset -> nothing */
	KEY_SETTING = 'T',    /* name -> data */
	/* redis/ alone: */
	KEY_ORPHAN_FILE = 'Q', /* session, key, ino -> ino, of an orphan */
	KEY_USE = 'U',	       /* ino, mount -> nothing */
	KEY_HASH = 'K',	       /* session, key that is a sidecar with rows -> nothing */
};

/* A key under construction; an allocation that failed is remembered in error. */
struct key {
	struct buf buf;
	int error;
};

struct key key_make(enum key_table table);
/* Of most tables: the number of a node and what follows. */
struct key key_of_node(enum key_table table, uint64_t ino);
/* Of what is kept by session and key. */
struct key key_of_state(enum key_table table, struct bytes session, struct bytes state);
void key_add_number(struct key *key, int64_t number);
void key_add_text(struct key *key, struct bytes text);
void key_done(struct key *key);
static inline struct bytes key_bytes(const struct key *key)
{
	return buf_bytes(&key->buf);
}

/* Reading them back, from the front; the caller knows what was written. */
int64_t key_take_number(struct bytes *bytes);
int key_take_text(struct bytes *bytes, struct buf *text);

#endif
