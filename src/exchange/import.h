/* SPDX-License-Identifier: MIT */
#ifndef IMPORT_H
#define IMPORT_H

/*
 * Taking files into a store, one at a time, so that the store has afterwards what the source has:
 * what is the same already is left alone, row by row.
 *
 * A layout (import-tree.c, import-document.c) goes through its source and calls what is declared
 * here for each thing that is to be in the store.  import.c begins with what happens then.
 *
 * These functions return 0 also when something cannot be taken in: they have said so then, and
 * counted it.  -errno ends the whole: there is no room, the medium fails, a signal has come.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "src/store/access.h"
#include "src/user/progress.h"
#include "src/user/say.h"

enum import_did {
	IMPORT_UNCHANGED,
	IMPORT_CREATED,
	IMPORT_REPLACED,
	IMPORT_APPENDED,
	IMPORT_DRESSED, /* only attributes have changed */
	IMPORT_DIDS,
};

enum { IMPORT_NAMED = 3 };

struct import {
	const char *store;
	struct access *access; /* NULL: there is no store, and none is to be made */
	bool dry;	       /* change nothing, and print what would be done */
	bool checksum;	       /* size and time do not tell that a file is the same */
	bool keep_owner;
	uint64_t layout; /* of the store (fs/base/layout.h), which says where its sessions are */
	const char *from_table; /* of the database that is taken in; NULL: the usual one */
	struct progress progress;
	struct say_list list; /* of what would be done */
	uint64_t did[IMPORT_DIDS];
	uint64_t bytes;	  /* that were written */
	uint64_t failed;  /* not taken in */
	uint64_t left;	  /* left out, since the layout has no place for them */
	uint64_t invalid; /* files that hold bytes that are not JSON; IMPORT_NAMED of them: */
	struct buf invalid_names;
};

/* What is to be in the store. */
struct import_file {
	const char *path; /* there */
	const char *name; /* in the source, for sentences */
	struct stat st;	  /* type, size, and attributes: */
	unsigned set;	  /* those that count; enum access_set */
	/* Extended attributes, as list_xattr() lists them, of a file that is open at this place;
	 * xattrs NULL: they do not count. */
	const char *xattr_path;
	/* A regular file's bytes: */
	int fd; /* to be read from its beginning; or -1 and: */
	struct bytes data;
	bool broken; /* set when it cannot be read */
};

/* A regular file.  *ret_taken, which may be NULL: it is there now. */
int import_regular(struct import *import, struct import_file *file, bool *ret_taken);
/* A symbolic link with its target, a FIFO, a socket. */
int import_special(struct import *import, struct import_file *file, const char *target);
/* Another name for what has been taken in as first; 1: there can be none, take in a copy. */
int import_link(struct import *import, struct import_file *file, const char *first);
/* A directory, before and after what is in it; 1: something else is there, leave out what is in
 * it. */
int import_enter(struct import *import, struct import_file *dir);
int import_leave(struct import *import, struct import_file *dir);
/* Make the directories on a path that are missing. */
int import_parents(struct import *import, const char *path);

/* Something cannot be taken in: says and counts it.  0, or -errno when it is of no use to go on. */
int import_fail(struct import *import, const char *path, int error);
/* The same with a sentence. */
int import_refuse(struct import *import, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Whether an error ends the whole. */
bool import_is_fatal(int error);

/* A session that is one JSON text, each member of it a state.  Nothing of it is taken in when the
 * text is not valid. */
struct import_session {
	struct bytes id;
	const char *name; /* where it is from, for sentences */
	struct stat st;	  /* mode, owner and times of its files: */
	unsigned set;	  /* those that count */
};
int import_session(struct import *import, const struct import_session *session, struct bytes text);

/* Layouts.  What a layout takes in, and the name of the operand. */
struct import_layout {
	const char *name;
	const char *help;
	/* One operand; the destination is a path in the store, or "". */
	int (*take)(struct import *import, const char *operand, const char *to);
	/* Files and bytes that will come, or NULL. */
	int (*count)(struct import *import, const char *operand);
	bool has_to;
};
extern const struct import_layout import_tree;
extern const struct import_layout import_documents;
extern const struct import_layout import_rows;

#endif
