/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_WINDOW_H
#define FS_INODE_WINDOW_H

/*
 * Windows: inodes that show another one through a question.
 *
 * A window is not a file of the store: it has a number above those of files, which the kernel knows
 * as a nodeid, and counts the file or directory that it shows.
 *
 *   of            the window is                 it shows
 *
 *   a directory   a directory                   windows of what lies in it
 *   a list        a file that never changes     rows that the list had at the lookup
 *   as=items      a directory, as the list      a document for each row of the list of that name
 *   such a row    a file that never changes     one row of the list
 *   as=list       a file that never changes     the documents of a directory, as lines
 *
 * A window of a list is made of its question, the version and end of the list (or a digest of its
 * documents), and the moment for ages: while these stay, a name gives the same window.
 *
 * A handle that saves through a window has it alone: lookups do not find it from then on.  It shows
 * what the handle writes, and what it has saved.
 *
 * The kernel does not cache the names of windows.  A root that is a view has the root's number.
 */

#include <limits.h>

#include "fs/inode/state.h"
#include "fs/views/question/question.h"
#include "backend/base/log-news.h"

enum {
	WINDOW_BIT = 47,      /* set in the numbers of windows: files have smaller ones */
	WINDOWS_MOST = 10000, /* that live, as far as the kernel can forget them */
};

/* A question, counted by its windows. */
struct asked {
	_Atomic unsigned count;
	uint64_t hash; /* of its text */
	struct question *question;
	char *text; /* as the name is spelled */
};

/* A stream of events of a directory, not its content: such a window is a file that only its owner
 * may read, since the directories below may be closed to others (fs/events/events.h). */
static inline bool asked_is_stream(const struct asked *asked)
{
	return asked->question->as == QUESTION_EVENTS;
}
enum { STREAM_MODE = S_IFREG | S_IRUSR };

/* What is shown of a list; zeros of anything else. */
struct window_rows {
	bool list;
	bool packed;	     /* of a packed transcript (fs/base/packed.h) */
	uint64_t version;    /* inode.version, or a digest, */
	uint64_t generation; /* with that of the node, */
	int64_t end;	     /* the index behind the last row, or the size, */
	int64_t now;	     /* and the moment for ages, in nanoseconds since 1970 */
	/* The rows between these, inclusive, that fit the question; so many bytes. */
	int64_t from, to;
	uint64_t size;
	uint64_t sum;	  /* a sum that differs with the choice of rows */
	uint32_t removed; /* kind of a file that was removed since, or REMOVED_PLAIN; or 0 */
	/* Of documents as a list: rights to read that not all of the documents give. */
	mode_t closed;
};

/* Which rows a question chooses of a list as it was at one time; ino 0: it is not known. */
struct window_choice {
	uint64_t ino;		 /* of the list, */
	uint64_t changed;	 /* inode.changed, */
	struct window_rows rows; /* and the rest */
};

/* What is saved through a window. */
struct window_saving {
	unsigned writers; /* handles that may */
	bool stages;	  /* it shows the stage, from the first change on, */
	bool dirty;	  /* which was not published yet */
	int failed;	  /* why that failed the last time, or 0 */
	int refused;	  /* error of a write whose bytes are missing; 0: none */
	uint64_t read;	  /* bytes from its start on that a writer has read */
	int64_t time;	  /* of the last change, in nanoseconds since 1970 */
	pid_t process;	  /* that was the last to write, or has opened it */
	struct stage stage;
	/* The rows of the list that it replaces, none if last is before first. */
	int64_t first, last;
};

/* The fields never change, except the links and those with a lock. */
struct window {
	struct inode *of;    /* what it shows, counted; never a window */
	struct asked *asked; /* counted */
	/* tree.table_lock: the others of its slot, and of the tree, those first that have not been
	 * used for the longest time. */
	struct inode *next;
	struct inode **link; /* NULL: lookups do not find it */
	struct inode *newer;
	struct inode **newer_link; /* NULL: the kernel is notified to forget its name, or is about
				      to be */
	/* Where its name is, for the kernel to forget it: nodeid of the directory. */
	uint64_t parent;
	char *name;
	char *list; /* a directory of items: the name of their list in of; or NULL */
	struct window_rows rows;
	/* The size and the list's generation that it shows: as in rows, until something is saved
	 * through it. */
	_Atomic uint64_t size;
	_Atomic uint64_t generation;
	pthread_mutex_t lock;	 /* of the following, and before the other locks (locks.h) */
	unsigned open;		 /* handles that read it */
	struct version *content; /* its bytes, counted, while it is open */
	struct window_saving saving;
	struct window_choice choice; /* of a directory of items, the last */
};

/* Those of a tree. */
struct windows {
	struct inode *slots[4096];
	struct inode *first; /* all of them, the one that was used last at the end */
	struct inode **end;
	size_t count;
	_Atomic uint64_t last;	 /* number that was given, without its WINDOW_BIT */
	struct log_news refused; /* names that are not questions; reads of what is forgotten */
};

/* What a window shows, or the inode itself if it is not a window. */
static inline struct inode *inode_shown(struct inode *inode)
{
	return inode->window ? inode->window->of : inode;
}

/* The window that a lookup needs. */
struct window_wanted {
	struct inode *of;
	struct asked *asked;
	uint64_t parent;
	struct bytes name;
	char list[NAME_MAX + 1]; /* as in struct window; "": NULL */
	bool alone;		 /* lookups must not find one with rows */
	struct window_rows rows;
};

/* The mode of the file that shows rows of something with this mode. */
static inline mode_t window_mode(const struct window_rows *rows, mode_t mode)
{
	return S_IFREG | (mode & 0666 & ~rows->closed);
}

/* Whether appends to it go to the list that it shows. */
static inline bool window_takes_lines(const struct window *window)
{
	return window->rows.list && !window->rows.packed &&
	       question_takes_lines(window->asked->question);
}

struct through;
enum notify_how;

/* What other rooms call of fs/views/ (tree.views).  Unless it says otherwise, the functions are as
 * those of the same name in fs/api/tree.h, and no lock is held. */
struct views {
	/* For inode_forget(), under tree.table_lock; and when an inode is destroyed: returns the
	 * inode that it counted. */
	void (*unlink)(struct tree *tree, struct inode *inode);
	struct inode *(*free)(struct window *window);
	/* The functions of handles, for a handle with through. */
	int (*open)(struct tree *tree, struct inode *inode, int flags, pid_t pid,
		    struct handle **ret_handle);
	void (*close)(struct tree *tree, struct handle *handle);
	/* page: for the kernel's cache; then it does not count as read by the program. */
	int (*read)(struct tree *tree, const struct through *through, uint64_t offset, size_t size,
		    bool page, struct buf *out);
	/* -EINVAL where there would be a gap. */
	ssize_t (*write)(const struct through *through, pid_t pid, uint64_t offset,
			 struct bytes data);
	/* Publish what is held back: at a close by thread pid, or at once. */
	int (*flush)(struct tree *tree, const struct through *through, pid_t pid, bool closes,
		     enum notify_how how);
	/* A save that is not finished is dropped. */
	void (*abandon)(const struct through *through);
	/* Look up a name in a directory's window; and a name that is not in the store and is a
	 * question: a wrong question answers as a missing name, and the log says why. */
	int (*lookup)(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
		      struct inode **ret_inode);
	int (*ask)(struct tree *tree, struct inode *dir, struct bytes name,
		   struct inode **ret_inode);
	int (*list)(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		    tree_entry_fn *fn, void *arg);
	int (*stat)(struct tree *tree, const struct inode *inode, struct stat *ret_stat);
	int (*show)(struct tree *tree, const struct inode *inode, struct shown *ret_shown);
	int (*set_attr)(struct tree *tree, struct inode *inode, const struct set_attr *set,
			struct stat *ret_stat, bool *ret_own);
};

#endif
