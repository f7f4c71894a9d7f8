/* SPDX-License-Identifier: MIT */
#ifndef TESTS_VFS_LOG_H
#define TESTS_VFS_LOG_H

/* The shim's log, from the inside. */

#include <stdio.h>
#include <stdlib.h>

#include "backend/base/buf.h"
#include "tests/vfs/shim.h"

/* The machine that tests may fail, too: then there is nothing to be learnt. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

enum { SHIM_FILES = 256 }; /* made while one log is kept */

struct shim_event {
	enum shim_entry entry;
	unsigned file;	 /* a number; names come and go */
	uint64_t offset; /* or the size, or the mark */
	char *data;	 /* the bytes, or the name; owned */
	size_t size;
};

struct shim_log {
	struct shim_event *event;
	size_t count;
	size_t room;
	char *dir;
	unsigned files;
	/* As it was at first. */
	unsigned first_files;
	char *first_name[SHIM_FILES];
	struct buf first_bytes[SHIM_FILES];
	/* As it is now, while it is kept: NULL: without a name. */
	char *name[SHIM_FILES];
};

/* Add an entry; data is copied. */
void shim_log_add(struct shim_log *log, enum shim_entry entry, unsigned file, uint64_t offset,
		  struct bytes data);

#endif
