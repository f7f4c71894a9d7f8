/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_WINDOWS_H
#define FS_VIEWS_WINDOWS_H

/* Inside this room. */

#include "fs/content/content.h"
#include "fs/inode/window.h"
#include "fs/tree/tree.h"
#include "fs/views/views.h"
#include "fs/write/write.h"

/* window.c: windows in memory. */
/* The window that shows the same, counted once more; NULL: there is none.  For a list, with the
 * same version and end; with ages, also with the same rows.  No lock is needed. */
struct inode *window_find(struct tree *tree, const struct window_wanted *wanted);
/* A new one, counted; it counts the file and the question.  Under the lock of the file. */
int window_new(struct tree *tree, const struct window_wanted *wanted, struct inode **ret_inode);
/* A name in a directory's window was looked up: keep the window's name in the kernel for longer.
 * No lock is needed. */
void window_used(struct tree *tree, struct inode *inode);
/* The root is shown through a question (tree.shown); before anything is served. */
int window_of_root(struct tree *tree, struct asked *asked);
/* Hide it from lookups.  No lock is needed. */
void window_hide(struct tree *tree, struct inode *inode);
/* When there are too many windows, the one that was not used for the longest time, once: its
 * directory and its name, which the caller frees, for the kernel to forget it. */
bool window_outlived(struct tree *tree, uint64_t *ret_parent, char **ret_name);
/* At most size bytes of an open window, appended to out: of the stage, if something is saved
 * through it. */
int window_read(struct window *window, uint64_t offset, size_t size, struct buf *out);
/* Drop what was saved through it, unless it is open.  Under window.lock. */
void window_unstage(struct window *window);
/* Takes the question over, also on failure; text is as its name is spelled. */
int asked_new(struct bytes text, struct question *question, struct asked **ret_asked);
void asked_drop(struct asked *asked);

/* choose.c: choosing the rows, and their bytes. */
/* A view of a list for a window; or of a directory with its documents as a list (as=list). */
struct window_view {
	struct view view;
	const struct question *question;
	uint64_t ino;			/* its number, and */
	uint64_t changed;		/* inode.changed */
	struct documents *documents;	/* of the directory, once they are chosen; owned */
	uid_t uid;			/* of the directory, */
	gid_t gid;			/* too */
	bool document;			/* it is a document, and its row is shown */
	struct as_of as_of;		/* with at=; then it has runs */
	bool marked;			/* and the marks of a list may be used */
	const struct window_past *past; /* runs that are found again only if it is outdated */
	struct unpacked *unpacked;	/* of a packed transcript, once it is read; owned */
	struct window_rows rows;
	struct buf session, key; /* owned */
};
/* Begin it, with the question, rows.now and rows.removed, for a file as it is now.  For a list,
 * rows.version, rows.generation and rows.end are set; for other files nothing begins.  No lock is
 * held, nor needed to read in it.  1: the file has gone; -ENOENT: windows do not show it; -EIO:
 * its key is quarantined. */
int window_view_begin(struct tree *tree, struct inode *of, struct window_view *view);
void window_view_end(struct window_view *view);
/* Choose the rows that are shown, and count their bytes, for which all are read.  If they were read
 * in their order, *ret_version is their bytes, as from window_fill(); else it stays as it is.
 * NULL: only the rows are needed.  -EINTR: the request was given up (tree_give_up_when()), also
 * below. */
int window_choose(struct window_view *view, struct version **ret_version);
/* The same for a directory of items, which remembers it. */
int window_choose_items(struct window_view *view, struct window *items);
/* Reduce the choice to the row with this index.  -ENOENT: it was not chosen. */
int window_choose_item(struct window_view *view, int64_t index, struct version **ret_version);
/* Call a function with the index of each row that is shown; 0 to go on, 1 to stop, -errno. */
typedef int window_item_fn(void *arg, int64_t index);
int window_items(struct window_view *view, int64_t from, window_item_fn *fn, void *arg);
/* Their bytes, as a version that is counted once.  Documents get rows.version and rows.end from
 * them. */
int window_fill(struct window_view *view, struct version **ret_version);
/* Both, reading each row once if possible. */
int window_choose_and_fill(struct window_view *view, struct version **ret_version);
/* The same for rows that were chosen in another view.  1: these are not there any more. */
int window_fill_again(struct window_view *view, const struct window_rows *rows,
		      struct version **ret_version);

/* Count so many bytes that were read for a request (tree_give_up_when()).  -EINTR: it was given
 * up. */
int check_patience(size_t size);

/* numbered.c: the documents of a directory as the rows of a list. */

/* Count them: rows.end.  block: so many are sorted at a time; each takes 24 bytes, twice. */
int documents_begin(struct window_view *view, size_t block);
enum { DOCUMENTS_BLOCK = 65536 };
/* As row_read_times(), from a place on; what fn gets lasts for the call. */
int documents_look(struct window_view *view, int64_t start, bool back, backend_row_time_fn *fn,
		   void *arg);
/* During the read of a document: rights to read that the directory gives and the document does
 * not. */
mode_t documents_closed(const struct window_view *view);
void documents_free(struct documents *documents);

/* Set in positions of a listing behind those of files. */
#define REMOVED_BIT (UINT64_C(1) << 62)
/* The kind of anything removed but a state file. */
enum { REMOVED_PLAIN = -1 };
/* removed.c: whether a directory, or one above it, was removed. */
bool removed_is(struct tree *tree, const struct inode *dir);
/* Names that were removed since at=.  Look one up as wanted->of, or list them. */
int removed_lookup(struct tree *tree, const struct inode *dir, struct window_wanted *wanted,
		   uint32_t *ret_kind);
int removed_list(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		 tree_entry_fn *fn, void *arg);
/* For window_view_begin(): a file that was removed, or (hidden: 0) one whose view has begun. */
int removed_begin(struct tree *tree, struct inode *of, struct window_view *ret);
int as_of_begin(struct inode *of, uint64_t hidden, struct window_view *ret);
/* Whether a file of the store was there at a time, as far as its node says. */
static inline bool was_there(const struct backend_node *node, int64_t time)
{
	return S_ISDIR(node->mode) || node->btime <= time;
}

/* packed.c: packed transcripts (fs/base/packed.h), as lists. */
/* As window_view_begin(); nothing begins for a file that cannot be read as one.  Its rows have no
 * times but those that they name. */
int unpacked_view_begin(struct tree *tree, struct inode *of, struct window_view *ret);
/* Read it, unless that was done. */
int unpacked_begin(struct window_view *view);
int64_t unpacked_count(const struct window_view *view);
/* As documents_look(). */
int unpacked_look(struct window_view *view, int64_t start, bool back, backend_row_time_fn *fn,
		  void *arg);
void unpacked_free(struct unpacked *unpacked);

/* lookup.c */
/* Find or make the wanted window, once the rows are chosen in the view.  *version: their bytes, or
 * NULL; then few are read. */
int window_make(struct tree *tree, struct window_wanted *wanted, struct window_view *view,
		struct version **version, struct inode **ret_inode);

/* What struct views has. */
int through_open(struct tree *tree, struct inode *inode, int flags, pid_t pid,
		 struct handle **ret_handle);
void through_free(struct tree *tree, struct handle *handle);
int through_read(struct tree *tree, const struct through *through, uint64_t offset, size_t size,
		 bool page, struct buf *out);
void window_unlink(struct tree *tree, struct inode *inode);
struct inode *window_free(struct window *window);
int window_lookup(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
		  struct inode **ret_inode);
int question_lookup(struct tree *tree, struct inode *dir, struct bytes name,
		    struct inode **ret_inode);
int window_list(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		tree_entry_fn *fn, void *arg);
int window_stat(struct tree *tree, const struct inode *inode, struct stat *ret_stat);
int window_show(struct tree *tree, const struct inode *inode, struct shown *ret_shown);
int window_set_attr(struct tree *tree, struct inode *inode, const struct set_attr *set,
		    struct stat *ret_stat, bool *ret_own);
ssize_t saving_write(const struct through *through, pid_t pid, uint64_t offset, struct bytes data);
int saving_read(const struct through *through, uint64_t offset, size_t size, struct buf *out);
int saving_flush(struct tree *tree, const struct through *through, pid_t pid, bool closes,
		 enum notify_how how);
void saving_abandon(const struct through *through);

/* items.c: lists as directories, and the names of lists and documents as texts.  No lock is
 * held. */
#define TEXT_END ".txt"

/* As name_lookup() in the directory that a window shows; with as=items, a list is found by the
 * directory and its name (wanted.list). */
int shown_lookup(struct tree *tree, const struct inode *dir, struct window_wanted *wanted);
/* Begin a view of the list that a window with as=items shows now, counted, with the rows that are
 * shown.  1: once more; -ENOENT: there is no such list. */
int items_begin(struct tree *tree, struct window *items, struct window_view *view,
		struct inode **ret_list);
/* A document in it, and its attributes but for the number. */
int item_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode);
int items_stat(struct tree *tree, const struct window *window, struct stat *ret_stat);

/* open.c */

/* Set the size of a save through a window, by a handle of it; or as a save of its own if handle is
 * NULL.  -EINVAL: it would grow; -EROFS: it cannot be saved through; -ESTALE as tree_open_file().
 * No lock is held. */
int window_truncate(struct tree *tree, struct inode *inode, struct handle *handle, uint64_t size,
		    pid_t pid);

/* save.c: a handle that saves through a window; window.lock is taken.  -ESTALE: another open file
 * has it, which this one does not join. */
int saving_begin(struct through *through, bool joins, bool cuts, pid_t pid);
int saving_cut(const struct through *through, pid_t pid, uint64_t size);
/* The handle ends saving; the last one publishes. */
void saving_end(struct tree *tree, const struct through *through);
/* Returns -EINVAL and logs it: the writer may not know what it replaces. */
int saving_refuse(const struct window *window);

/* compact.c: replace the rows that a window shows by what is saved through it, in one transaction.
 * -EINVAL: it is not made of whole lines of JSON, or the list is a draft; -ESTALE: the list has
 * changed since, and not only by added lines; the log says so.  -EFBIG, -EIO as a save.  Under
 * window.lock; no other lock is held. */
int compact_publish(struct tree *tree, struct window *window, enum notify_how how);

#endif
