/* SPDX-License-Identifier: MIT */
#ifndef IMPORT_H
#define IMPORT_H

/*
 * Importing files: afterwards the store has the content of the source (copier.h).
 *
 * These functions return 0 also when a file cannot be imported; they have reported and counted it.
 * -errno ends the import: the store is full, the medium fails, a signal has come.
 */

#include "src/exchange/copier.h"

struct import {
	struct copier copier; /* must be first */
	uint64_t layout; /* of the store (fs/base/layout.h), which says where its sessions are */
	const char *from_table; /* of the database that is taken in; NULL: the usual one */
	const char *to;		/* the destination, a path in the store; NULL: the root */
	/* Of the folder: */
	char *path;   /* of the store, without links, or its name (mounts_store()) */
	dev_t judged; /* the device that is known to be a mount of the store, or not: */
	bool own;
};

/* 1 when the path is only a view of something else in the store (sessfs-views(7)), so that writing
 * there would change that; 0 or -errno. */
int import_is_view(struct copier *copier, const char *path);

/* What is in a folder, or one file. */
int import_operand(struct copier *copier, const char *operand);

/* A session that is one JSON text, each member of it a state.  If the text is not valid, nothing is
 * imported. */
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
	int (*take)(struct import *import, const char *operand);
	/* Files and bytes that will come, or NULL. */
	int (*count)(struct import *import, const char *operand);
};
extern const struct import_layout import_tree;
extern const struct import_layout import_documents;
extern const struct import_layout import_rows;

#endif
