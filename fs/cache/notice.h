/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_NOTICE_H
#define FS_CACHE_NOTICE_H

/* Inside this room: notices that notes.c makes of a change of a file, and notify.c sends. */

#include "fs/cache/cache.h"

/* The notice for one face. */
struct notice_face {
	unsigned number;
	bool pages; /* forget pages from offset on, and attributes; otherwise attributes only */
	int64_t offset;
	bool grown; /* then store the last byte */
	bool stale;
	bool renew;
};

struct notice {
	struct inode *inode; /* counted */
	uint64_t change;     /* its number */
	uint64_t size;	     /* when it was noted */
	char last;	     /* byte, if the file grew */
	size_t count;
	struct notice_face face[];
};

#endif
