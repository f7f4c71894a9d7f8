/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_IMAGE_H
#define BACKEND_SQLITE_IMAGE_H

/*
 * The pages of a database file as they were last committed: those of the file, and above them the
 * valid frames of the write-ahead log beside it.  Read without SQLite and opened for reading only,
 * so that nothing is recovered, checkpointed or locked, and both files stay as they are.
 *
 * A frame of the log is valid when its checksum is right.  The checksum goes on from that of the
 * frame before, as it stands there; so behind a damaged frame the others can still be judged, while
 * SQLite gives up at the first one that is wrong.  What is behind the last commit is not committed.
 *
 * Memory: six bytes a page.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

enum {
	FILE_HEADER = 100, /* bytes of the database, before what is in its first page */
	LOG_HEADER = 32,   /* bytes of the log's header */
	FRAME_HEADER = 24, /* and of that of each frame, before its page */
};

struct image {
	int fd;		     /* of the database */
	int wal;	     /* of its log; -1: none */
	uint32_t page_size;  /* bytes */
	uint32_t usable;     /* of it, without those reserved for extensions */
	uint32_t pages;	     /* of the database and its log together; numbered from 1 */
	uint32_t expected;   /* that the database should have; 0: not known */
	uint32_t file_pages; /* that the file has */
	bool header;	     /* what follows could be read in the database's header */
	uint32_t freelist;   /* the first page of the list of free ones; 0: none */
	uint8_t encoding;    /* 1 UTF-8, 2 UTF-16le, 3 UTF-16be */
	bool pointer_map;    /* the database has one */
	uint32_t *frame;     /* [page]: the newest valid frame of it, from 1; 0: the file has it */
	uint8_t *stale;	     /* [page]: a newer version of it was in a frame that is damaged */
	uint8_t *map;	     /* the page of the pointer map that was read last, and its number */
	uint32_t map_page;
	struct {		  /* what there is of the log */
		uint64_t frames;  /* up to the last commit */
		uint64_t damaged; /* of these */
		bool header;	  /* is whole */
	} log;
};

/* report is told what is wrong with the files as such. */
int image_open(const char *path, backend_report_fn *report, void *arg, struct image *ret_image,
	       char **ret_why);
void image_close(struct image *image);

/* The page as it was last committed, or (older) as the file has it.  -ENODATA: not there; -EIO. */
int image_read(struct image *image, uint32_t page, uint8_t *bytes);
static inline bool image_has_page(const struct image *image, uint32_t page)
{
	return page >= 1 && page <= image->pages;
}

enum image_type {
	IMAGE_INDEX_INTERIOR = 2,
	IMAGE_TABLE_INTERIOR = 5,
	IMAGE_INDEX_LEAF = 10,
	IMAGE_TABLE_LEAF = 13,
};

/* A page of a b-tree.  bytes are borrowed. */
struct image_page {
	const uint8_t *bytes;
	uint32_t number;
	enum image_type type;
	unsigned cells;	   /* as the header says; their places may be wrong */
	unsigned pointers; /* where the array of places begins */
	unsigned first;	   /* where the first cell can be */
	unsigned last;	   /* and the last one */
	uint32_t right;	   /* interior pages: the last child */
};
/* Whether these bytes can be a page of a b-tree, and its header. */
bool image_page_parse(const uint8_t *bytes, uint32_t number, uint32_t usable,
		      struct image_page *page);
/* Where a cell is; 0: its place is wrong. */
unsigned image_cell(const struct image_page *page, unsigned number);
/* Read a page as of a b-tree into bytes; false: it cannot be one. */
bool image_page_read(struct image *image, uint32_t number, uint8_t *bytes, struct image_page *page);
static inline bool image_is_interior(const struct image_page *page)
{
	return page->type == IMAGE_INDEX_INTERIOR || page->type == IMAGE_TABLE_INTERIOR;
}

static inline uint32_t image_u16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static inline uint32_t image_u32(const uint8_t *bytes)
{
	return image_u16(bytes) << 16 | image_u16(bytes + 2);
}

/* What the pointer map says about a page: its type, 0 when it says nothing, and its parent. */
enum image_use {
	IMAGE_UNKNOWN,
	IMAGE_ROOT,
	IMAGE_FREE,
	IMAGE_OVERFLOW_FIRST, /* the parent is the page of the cell */
	IMAGE_OVERFLOW,	      /* the parent is the page before */
	IMAGE_BTREE,	      /* the parent is the page above */
};
enum image_use image_use(struct image *image, uint32_t page, uint32_t *ret_parent);
/* Pages without data: of the pointer map, or for locks. */
bool image_is_special(const struct image *image, uint32_t page);

/* For check(): tell what is wrong with the log of a database that may be in use. */
void image_check_log(const char *path, backend_report_fn *report, void *arg);

#endif
