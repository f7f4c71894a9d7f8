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

/* The window that shows the same, counted once more; NULL: there is none.  Of a list, that is one
 * of the same version and end; with ages, of which the rows that were chosen are the same, too.  No
 * lock is needed. */
struct inode *window_find(struct tree *tree, const struct window_wanted *wanted);
/* A new one, counted; it counts the file and the question.  Under the lock of the file. */
int window_new(struct tree *tree, const struct window_wanted *wanted, struct inode **ret_inode);
/* Somebody looks for something in a directory's window: the kernel is not to forget its name soon.
 * No lock is needed. */
void window_used(struct tree *tree, struct inode *inode);
/* The root is shown through a question (tree.shown); before anything is served. */
int window_of_root(struct tree *tree, struct asked *asked);
/* From now on it is not found.  No lock is needed. */
void window_hide(struct tree *tree, struct window *window);
/* The window whose name the kernel may forget when there are too many, since it was not used for
 * the longest time: its directory, and its name, which the caller frees.  Not told twice. */
bool window_outlived(struct tree *tree, uint64_t *ret_parent, char **ret_name);
/* At most size bytes of one that is open, appended to out: of what is saved through it, if it is.
 */
int window_read(struct window *window, uint64_t offset, size_t size, struct buf *out);
/* Drop what was saved through it, unless somebody has it open.  Under window.lock. */
void window_unstage(struct window *window);
/* Takes the question over, also on failure; text is as its name is spelled. */
int asked_new(struct bytes text, struct question *question, struct asked **ret_asked);
void asked_drop(struct asked *asked);

/* choose.c: which rows are shown, and their bytes. */

/* A view of a list for a window; or of a directory of which the documents are one (as=list). */
struct window_view {
	struct view view;
	const struct question *question;
	uint64_t ino;		     /* its number, and */
	uint64_t changed;	     /* inode.changed */
	struct documents *documents; /* of the directory, once they are chosen; owned */
	uid_t uid;		     /* of the directory, */
	gid_t gid;		     /* too */
	bool document;		     /* it is one, and its row is shown as text */
	struct window_rows rows;
	struct buf session; /* owned, as key */
	struct buf key;
};
/* Begin it: with the question and rows.now, of a file as it is now.  Of a list, rows.version,
 * rows.generation and rows.end tell which; of what is none nothing begins.  No lock is held, nor
 * needed for what is read in it.  1: the file has gone; -ENOENT: it is never shown by a window;
 * -EIO: its key is set apart. */
int window_view_begin(struct tree *tree, struct inode *of, struct window_view *view);
void window_view_end(struct window_view *view);
/* Find out which rows are shown, and how many bytes they are, for which all are read.  Where they
 * were read in their order, *ret_version is their bytes, as of window_fill(); else it stays as it
 * is.  NULL: only the rows are wanted.  -EINTR: who waits has given up (tree_give_up_when()), as
 * below. */
int window_choose(struct window_view *view, struct version **ret_version);
/* The same for a directory of items, which remembers it. */
int window_choose_items(struct window_view *view, struct window *items);
/* Of what was chosen, the row of this index alone.  -ENOENT: it is not among them. */
int window_choose_item(struct window_view *view, int64_t index, struct version **ret_version);
/* Call a function with the index of each row that is shown, from one on.  It returns 0 to go on, 1
 * to stop, -errno. */
typedef int window_item_fn(void *arg, int64_t index);
int window_items(struct window_view *view, int64_t from, window_item_fn *fn, void *arg);
/* Their bytes, as a version that is counted once.  By these, documents get rows.version and
 * rows.end. */
int window_fill(struct window_view *view, struct version **ret_version);
/* Both, each row once where that can be. */
int window_choose_and_fill(struct window_view *view, struct version **ret_version);
/* The same of rows that were chosen in another view.  1: these are not there any more. */
int window_fill_again(struct window_view *view, const struct window_rows *rows,
		      struct version **ret_version);

/* So many bytes more were looked at for who waits (tree_give_up_when()).  -EINTR: nobody
 * does. */
int check_patience(size_t size);

/* numbered.c: the documents of a directory as the rows of a list. */

/* Find out how many there are: rows.end.  block: so many are put in order at a time, and have 24
 * bytes twice. */
int documents_begin(struct window_view *view, size_t block);
enum { DOCUMENTS_BLOCK = 65536 };
/* As row_read_times(), from a place on; what fn gets lasts for the call. */
int documents_look(struct window_view *view, int64_t start, bool back, backend_row_time_fn *fn,
		   void *arg);
/* While one is read: rights to read a list in it that it does not give itself. */
mode_t documents_closed(const struct window_view *view);
void documents_free(struct documents *documents);

/* lookup.c */

/* Begun for it: the window that shows what is wanted, once the rows are chosen.  *version: their
 * bytes, or NULL; few are read then. */
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

/* items.c: lists as directories, and how lists and documents are called as texts.  No lock is
 * held. */
#define TEXT_END ".txt"

/* As name_lookup() in the directory that a window shows; with as=items, a list is wanted by this
 * directory and its name (wanted.list). */
int shown_lookup(struct tree *tree, const struct inode *dir, struct window_wanted *wanted);
/* The list that the window of a list as a directory shows now, counted, in a view that begins, with
 * the rows that are shown.  1: once more; -ENOENT: there is none. */
int items_begin(struct tree *tree, struct window *items, struct window_view *view,
		struct inode **ret_list);
/* A document in it, and its attributes but for the number. */
int item_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode);
int items_stat(struct tree *tree, const struct window *window, struct stat *ret_stat);

/* open.c */

/* Set the size of what is saved through a window, by a handle of it; or as a save of its own when
 * handle is NULL.  -EINVAL: it would grow; -EROFS: it cannot be saved through; -ESTALE as
 * tree_open_file().  No lock is held. */
int window_truncate(struct tree *tree, struct inode *inode, struct handle *handle, uint64_t size,
		    pid_t pid);

/* save.c: a handle that saves through a window; window.lock is taken.  -ESTALE: another open file
 * has it, which this one does not join. */
int saving_begin(struct through *through, bool joins, bool cuts, pid_t pid);
int saving_cut(const struct through *through, pid_t pid, uint64_t size);
/* It saves no more; the last one that could publishes. */
void saving_end(struct tree *tree, const struct through *through);
/* -EINVAL, and the log says so: its writer may not know what it replaces. */
int saving_refuse(const struct window *window);

/* compact.c: let what is saved through a window take the place of the rows that it shows, in one
 * transaction.  -EINVAL: it is not made of whole lines of JSON, or the list is a draft; -ESTALE:
 * the list was changed since, otherwise than by lines that were added; the log says so.  -EFBIG,
 * -EIO as a save.  Under window.lock; no other lock is held. */
int compact_publish(struct tree *tree, struct window *window, enum notify_how how);

#endif
