/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_WINDOW_H
#define FS_INODE_WINDOW_H

/*
 * Windows: inodes that show another one through a question.
 *
 *   A window is no file of the store: it has a number above those of files, which the kernel knows
 *   as a nodeid, and counts the file or directory that it shows.  A directory's window has windows
 *   of what lies in it.  A window of a list shows some of the rows that the list had when the
 *   window was looked up, and nothing else, ever: its size and its bytes do not change.  So its
 *   question, the list's version and end, and the moment for ages are what makes it; who looks the
 *   same name up again before any of these has moved comes to the same window.
 *
 *   With as=items, a list is a directory of documents.  Its window is one of the directory that the
 *   list lies in, with the name of the list, and shows whatever list has that name: it changes as
 *   directories do.  A document in it is a window of the list that shows one row.
 *
 *   With as=list, the documents of a directory are a list.  Its window is a file that shows lines,
 *   and counts the directory.  The same bytes are the same window: their digest is the version.
 *
 *   Who opens one to save through it has it to himself: nobody finds it from then on.  It shows
 *   what he writes, and what he has saved.
 *
 *   The kernel asks for the name of a window each time that it is used.  A mount that is a view
 *   has a window as its root: it has the root's number, and only that is told of the root.
 */

#include <limits.h>

#include "fs/inode/state.h"
#include "fs/views/question/question.h"
#include "backend/base/log-news.h"

enum {
	WINDOW_BIT = 47,      /* set in the numbers of windows: files have smaller ones */
	WINDOWS_MOST = 10000, /* that live, as far as the kernel can forget them */
};

/* A question that is looked through, counted by its windows. */
struct asked {
	_Atomic unsigned count;
	uint64_t hash; /* of its text */
	struct question *question;
	char *text; /* as the name is spelled */
};

/* What happens in a directory, instead of what is in it: such a window is a file that its owner may
 * read, since the directories below may be closed to others (fs/events/events.h). */
static inline bool asked_is_stream(const struct asked *asked)
{
	return asked->question->as == QUESTION_EVENTS;
}
enum { STREAM_MODE = S_IFREG | S_IRUSR };

/* What is shown of a list; zeros of anything else. */
struct window_rows {
	bool list;
	uint64_t version;    /* inode.version, or a digest, */
	uint64_t generation; /* with that of the node, */
	int64_t end;	     /* the index behind the last row, or the size, */
	int64_t now;	     /* and the moment for ages, in nanoseconds since 1970 */
	/* The rows between these, inclusive, that fit the question; so many bytes. */
	int64_t from;
	int64_t to;
	uint64_t size;
	uint64_t sum; /* tells which they are */
	/* Of documents as a list: rights to read it that not all of them give. */
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
	bool stages;	  /* the stage is what is shown, from the first change on, */
	bool dirty;	  /* and that was not published yet */
	int failed;	  /* why that failed the last time, or 0 */
	int refused;	  /* why a write failed, whose bytes are missing; 0: none */
	uint64_t read;	  /* bytes from its start on that a writer has read */
	int64_t time;	  /* of the last change, in nanoseconds since 1970 */
	pid_t process;	  /* that has written last, or opened it */
	struct stage stage;
	/* The rows of the list that it takes the place of, none if last is before first. */
	int64_t first;
	int64_t last;
};

/* All but the links and what has a lock stays as it is. */
struct window {
	struct inode *of;    /* what it shows, counted; never a window */
	struct asked *asked; /* counted */
	/* tree.table_lock: the others of its slot, and of the tree, those first that have not been
	 * used for the longest time. */
	struct inode *next;
	struct inode **link; /* NULL: it is not to be found */
	struct inode *newer;
	struct inode **newer_link; /* NULL: the kernel is told to forget its name, or is about to */
	/* Where its name is, for the kernel to forget it: nodeid of the directory. */
	uint64_t parent;
	char *name;
	char *list; /* a directory of items: the name of their list in of; or NULL */
	struct window_rows rows;
	/* Bytes that it shows, and of which generation of the list: as in rows, until something is
	 * saved through it. */
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
	struct inode *first; /* of them all, the one that was used last is at the end */
	struct inode **end;
	size_t count;
	_Atomic uint64_t last;	 /* number that was given, without its WINDOW_BIT */
	struct log_news refused; /* names that are no views */
};

/* What a window shows, or the inode itself if it is none. */
static inline struct inode *inode_shown(struct inode *inode)
{
	return inode->window ? inode->window->of : inode;
}

/* What a window is to be like. */
struct window_wanted {
	struct inode *of;
	struct asked *asked;
	uint64_t parent;
	struct bytes name;
	char list[NAME_MAX + 1]; /* as in struct window; "": NULL */
	bool alone;		 /* nobody else is to find one with rows */
	struct window_rows rows;
};

/* The mode of the file that shows rows of something with this mode. */
static inline mode_t window_mode(const struct window_rows *rows, mode_t mode)
{
	return S_IFREG | (mode & 0666 & ~rows->closed);
}

/* Whether what is added to it goes to the list that it shows. */
static inline bool window_takes_lines(const struct window *window)
{
	return window->rows.list && window->asked->question->as == QUESTION_LINES;
}

struct through;
enum notify_how;

/* What the rooms before fs/views/ ask of windows (tree.views).  Unless it says otherwise, the
 * functions are as those of the same name in fs/api/tree.h, and no lock is held. */
struct views {
	/* For inode_forget(), under tree.table_lock; and when an inode is destroyed: returns what
	 * it counted. */
	void (*unlink)(struct tree *tree, struct inode *inode);
	struct inode *(*free)(struct window *window);
	/* What the functions of handles do with one that has through. */
	int (*open)(struct tree *tree, struct inode *inode, int flags, pid_t pid,
		    struct handle **ret_handle);
	void (*close)(struct tree *tree, struct handle *handle);
	/* page: for the kernel's cache, which is not what the program has read. */
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
	/* A name in a directory's window; and one that nothing in the store has, and that is a
	 * question: one that is wrong is not there, and the log says why. */
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
