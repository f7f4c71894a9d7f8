/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_MENDING_H
#define FS_UPKEEP_MENDING_H

/* A store that is being repaired: what is known of it, and what is written to it. */

#include "fs/base/batch.h"
#include "fs/inode/locks.h"

enum { MEND_ATTEMPTS = 1000 }; /* to find a free name or key */

/* What is known of a node's names. */
struct seen {
	uint64_t ino;
	uint64_t parent; /* where the last name is */
	uint64_t entry;
	uint32_t names;
	uint32_t directories; /* in it */
	bool at_home;	      /* one of the names is where the node says */
};

/* A directory that is still to be walked. */
struct place_dir {
	struct place_dir *next;
	uint64_t ino;
	bool trash;	    /* it is the trash, or in it */
	bool outside;	    /* it lies outside of sessions' directories, as the root does */
	struct buf path;    /* if so, with '/' behind it; the root's is empty */
	struct buf session; /* no data: the root */
	struct buf dirs;    /* as names_key() wants it */
};

struct mending {
	struct backend *backend;
	backend_report_fn *report;
	void *arg;
	struct backend_repaired *repaired;
	uint64_t layout; /* the store's: fs/base/layout.h */
	bool moving;	 /* not all files are placed by it yet (fs/upkeep/relayout.c) */
	struct view view;
	struct batch batch;
	void *seen; /* a tree of struct seen, by ino (tsearch(3)) */
	struct place_dir *todo;
	uint64_t last_ino;
	uint64_t last_entry;
};

/* mending.c */

/* Report what was lost. */
__attribute__((format(printf, 2, 3))) void mend_report(struct mending *mending, const char *format,
						       ...);
int mend_view(struct mending *mending);
/* Commit the batch, and begin another and a new view. */
int mend_commit(struct mending *mending);
/* The same when there are many operations. */
int mend_commit_some(struct mending *mending);
/* The node's bytes are copied. */
void mend_put_node(struct mending *mending, const struct backend_node *node);
void mend_put_entry(struct mending *mending, uint64_t parent, uint64_t id, struct bytes name,
		    uint64_t ino);
/* NULL when there is no memory. */
struct seen *seen_get(struct mending *mending, uint64_t ino);
bool was_seen(struct mending *mending, uint64_t ino);
/* A name leads to a node. */
int mend_see(struct mending *mending, uint64_t parent, uint64_t entry,
	     const struct backend_node *node);
/* Note a directory to be walked.  name: its name in above, which is not the root; session: the id,
 * if it is a session's directory. */
int mend_walk_later(struct mending *mending, uint64_t ino, const struct place_dir *above,
		    struct bytes session, struct bytes name);
/* The same for one outside of sessions' directories; above NULL: the root. */
int mend_walk_outside(struct mending *mending, uint64_t ino, const struct place_dir *above,
		      struct bytes name);
void place_dir_free(struct place_dir *dir);
static inline void place_dir_freep(struct place_dir **dir)
{
	place_dir_free(*dir);
}

/* repair-walk.c */

/* Walk the noted directories, and those that are found on the way. */
int mend_walk(struct mending *mending);
/* Whether a session (no key), or a key, belongs to none but the node except: 1, 0, -errno. */
int mend_is_free(struct mending *mending, struct bytes session, struct bytes key, uint64_t except);
/* The kind of a node by its rows. */
uint32_t mend_guess_kind(struct mending *mending, const struct backend_node *node);

/* repair-lost.c: nodes that nothing leads to. */

int mend_session(struct mending *mending, struct backend_node *node);
int mend_directory(struct mending *mending, struct backend_node *node);
int mend_file(struct mending *mending, struct backend_node *node);
/* Rows of a state that lie in the trash are its rows again, if it has no others. */
int mend_show_rows(struct mending *mending, const struct backend_node *node);
int mend_drop_node(struct mending *mending, struct backend_node *node);

#endif
