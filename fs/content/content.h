/* SPDX-License-Identifier: MIT */
#ifndef FS_CONTENT_CONTENT_H
#define FS_CONTENT_CONTENT_H

/* The door of this room: the bytes of files of any kind. */

#include "fs/base/batch.h"
#include "fs/inode/locks.h"
#include "fs/inode/window.h"
#include "fs/base/json.h"

/* All but tree_write_times() are under inode.lock, or tree.lock for writing, and return 0 or
 * -errno.  Functions that begin a view themselves return -ESTALE when changes of others come
 * first. */

/* Readers of a list with at least so many bytes use the page cache, unless it is being written at
 * their open (open.c). */
enum { CONTENT_CACHED = 1 << 20 };

/* content.c: bytes of a file of any kind. */

/* Make size (and for a list its end) known.  -EIO: the key is quarantined. */
int content_load(struct tree *tree, struct view *view, struct inode *inode);
/* The same from a file's tail that a view has read, unless that may be outdated: the file has
 * changed since the view was begun, or is just changing, or the view goes past changes of
 * others. */
void content_take(struct inode *inode, const struct view *view, const struct backend_tail *tail);
/* Bytes of the published content.  view is needed unless it is loaded, in chunks, or an orphan. */
int content_size(struct tree *tree, struct view *view, struct inode *inode, uint64_t *ret_size);
/* How much the size of a directory changes without the file (batch_grows()). */
int64_t content_less(const struct inode *inode);
/* At most size bytes of the published content from offset, appended to out.  handle may be NULL; it
 * remembers where sequential reads are. */
int content_read(struct tree *tree, struct view *view, struct inode *inode, struct handle *handle,
		 uint64_t offset, size_t size, struct buf *out);
/* All bytes that the store has now, without regard to what memory knows, into a stage that is
 * empty. */
int content_to_stage(struct view *view, struct inode *inode, struct stage *stage);
/* documents.c: the same for a file that is not a list, as a version that its readers share, and
 * that is cached if it is small.  Counted. */
int document_get(struct view *view, struct inode *inode, struct version **ret_version);
enum { DOCUMENT_KEPT = 32 << 10 }; /* bytes of a document that is cached, at most */
/* The same for a window: its cached content, counted, or NULL; and caching it.  Large content is
 * cached for a second, and for one reader. */
struct version *document_of_window(struct tree *tree, const struct inode *inode);
void document_keep_window(struct tree *tree, const struct inode *inode, struct version *version);
/* Drop large content that was not fetched. */
void documents_age(struct tree *tree, int64_t now);
/* A version of no bytes, counted once; NULL when there is no memory. */
struct version *version_new(void);
/* kept.c: the most bytes of a file that its readers get from what is kept of it in memory, or 0;
 * keep its present content: 0, 1 when that has more bytes than most, or there is no room, or
 * -errno; and what was kept of the content as it is known, counted, or NULL. */
uint64_t content_kept_most(const struct tree *tree, const struct inode *inode);
int content_keep(struct view *view, struct inode *inode, uint64_t most);
struct version *content_kept(struct inode *inode);
/* Keep the content of all that readers have open, while a snapshot has it. */
void contents_keep(struct tree *tree);
/* Empty the cache.  No lock is needed. */
void documents_drop(struct tree *tree);
int documents_init(struct tree *tree);
void documents_done(struct tree *tree);
/* Write bytes that need no save: of an ordinary file or an orphan; -EIO for any other. */
int content_write(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data);
/* Operations that remove all content of a file from the store: rows, chunks, pieces, marks. */
void content_remove(const struct inode *inode, struct batch *batch);

/* file.c: ordinary files and drafts, in chunks. */

/* The size that is shown, with what is buffered. */
uint64_t file_size(const struct inode *inode);
/* Write what is buffered to the store. */
int file_write_back(struct tree *tree, struct inode *inode);
/* Bytes that are stored of a file with holes. */
int file_stored(struct view *view, struct inode *inode, uint64_t *ret_stored);
/* file-space.c: as ftruncate(2), fallocate(2) and lseek(2) with SEEK_DATA or SEEK_HOLE have it, of
 * an ordinary file; committed when they return. */
int file_truncate(struct tree *tree, struct inode *inode, uint64_t size);
int file_allocate(struct tree *tree, struct inode *inode, int mode, uint64_t offset, uint64_t size);
int file_seek(struct tree *tree, struct inode *inode, uint64_t offset, int whence,
	      uint64_t *ret_offset);

/* list.c */

/* One segment of a list: a row, or a piece when is_row is false. */
struct segment {
	bool is_row;
	int64_t index;
	int64_t seq;
	struct bytes data;
};
/* Returns 0 to go on, 1 to stop, -errno. */
typedef int segment_fn(void *arg, const struct segment *segment);
/* A place between two segments: before the piece seq that stands before row index, or before the
 * first one behind that. */
struct segment_place {
	int64_t index;
	int64_t seq;
};
#define LIST_START ((struct segment_place){ INT64_MIN, INT64_MIN })
/* Visit the segments in the order of the file, from a place on. */
int list_walk(struct view *view, const struct inode *inode, struct segment_place from,
	      segment_fn *fn, void *arg);
int list_has_pieces(struct view *view, uint64_t ino, bool *ret_any);

/* The bytes of the tail, appended to out. */
int list_read_tail(struct view *view, struct inode *inode, struct buf *out);
/* Write marks that a list lacks at its end, behind changes by other programs, if they are many. */
int list_mark(struct tree *tree, struct inode *inode);
/* Put a mark where a row begins, if one is due behind the last one at *mark_offset and *mark_rows
 * rows.  A mark stands only where no piece of the same index is before it.  No lock is needed. */
void list_mark_put(struct batch *batch, uint64_t ino, uint64_t offset, int64_t index,
		   uint64_t *mark_offset, uint64_t *mark_rows);

/* invalid.c: finding bytes that are not rows, and reporting them. */

/* Text of an id for a sentence: in quotes, on one line, cut when long. */
enum { INVALID_ID_MAX = 820 };
const char *invalid_show_id(struct bytes id, char *text);
#define SHOWN(id) invalid_show_id((id), (char[INVALID_ID_MAX]){ 0 })

/* A place that is not JSON; line and column count from 1, in bytes. */
struct invalid_place {
	uint64_t line;
	uint64_t column;
	const char *reason;
};
typedef int invalid_fn(void *arg, const struct invalid_place *place);

/* Every such line of a list that is not a draft; or the one place of a draft.  Blank lines do not
 * count. */
int invalid_find(struct view *view, struct inode *inode, invalid_fn *fn, void *arg);

/* The attribute user.sessfs.invalid: -ENODATA when all is valid. */
int invalid_describe(struct view *view, struct inode *inode, struct buf *text);

/* One line of the log; where is "line 7" or "before item 7".  strict: the save is refused. */
void invalid_log(const struct backend_node *node, const char *where, uint64_t number,
		 const struct json_error *error, bool strict);
/* Likewise for a line that is refused (-o strict). */
void invalid_log_refused(const struct backend_node *node, uint64_t line,
			 const struct json_error *error);

/* times.c */

/* Milliseconds between two writes of pending times; and beside other mounts, where the times of an
 * open list may be late by that. */
enum { TIMES_INTERVAL = 500, TIMES_INTERVAL_SHARED = 100 };

/* Write the times that only memory has, and small writes that are buffered.  all: also of lists to
 * which appends that write them too are made all the time.  No lock is held. */
int tree_write_times(struct tree *tree, bool all);
/* Whether an append writes the times at once for other mounts: the first ones to an open list do,
 * and the others as often as times are written anyway.  A close writes the last.  Under
 * inode.lock. */
bool shared_times_due(struct shared_times *times);
/* Write the times of one open file, if other mounts need them.  No lock is held. */
int file_write_times(struct tree *tree, struct inode *inode);

#endif
