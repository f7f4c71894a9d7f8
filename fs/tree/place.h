/* SPDX-License-Identifier: MIT */
#ifndef FS_TREE_PLACE_H
#define FS_TREE_PLACE_H

/*
 * What a file is by its place, and files whose place changes (place.c).
 *
 * Other files that turn paths into sessions and keys, or back: share/adopt.c, events/others.c,
 * upkeep/homes.c, upkeep/relayout.c, upkeep/repair-walk.c and repair-lost.c.  All else asks the
 * node, which has its session and key.
 */

#include "fs/base/batch.h"
#include "fs/inode/locks.h"

/* place.c */

/* What a file is by its place: the kind, and the session and key, which the buffers get. */
struct place {
	uint32_t kind;
	struct buf session;
	struct buf key;
};
void place_done(struct place *place);
/* What counts as free in the search for a place. */
struct placing {
	struct tree *tree;
	/* NULL: all that is not given counts as free, and the commit finds out. */
	struct view *view;
	uint64_t self;	  /* the node that gets the place, or 0: a new one */
	uint64_t leaving; /* a node that leaves its place with all below it, or 0 */
	/* The file that has the name, or NULL: if it is of the same kind, its key is free for the
	 * new file, also if that is a key of its own. */
	const struct backend_node *over;
	void *given; /* keys that were given to others in the same move */
};
void placing_done(struct placing *placing);
/* 1 when the session and key (key.data NULL: the session) are free, or only nodes that leave them
 * have them. */
int place_is_free(const struct placing *placing, struct bytes session, struct bytes key);
/* For a file of this type under a name in dir. */
int place_find(const struct placing *placing, struct inode *dir, struct bytes name, mode_t mode,
	       struct place *place);
/* Let a node refer to the place's bytes. */
void place_apply(const struct place *place, struct backend_node *node);

/* rest.c: whether a missing name, which would have this place, belongs to rows without files: 0, or
 * -ESTALE when these are wanted now. */
int rest_heed(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	      const struct place *place);

/* Files that keep their content but get another session or key. */
struct relocation {
	struct backend_node old; /* owns its bytes; so does */
	struct backend_node new;
};
struct relocations {
	struct relocation *item;
	size_t count;
	size_t room;
	/* The directories that were read, if other mounts may put something there meanwhile. */
	uint64_t *dir;
	size_t dir_count;
	size_t dir_room;
};
/* Directories that are still to be looked into, each with two paths: before the move and after. */
struct levels {
	struct level {
		uint64_t ino;
		struct buf from;
		struct buf to;
	} * item;
	size_t count;
	size_t room;
};
/* Takes the paths over, unless there is no memory. */
int levels_add(struct levels *levels, uint64_t ino, struct buf *from, struct buf *to);
void levels_done(struct levels *levels);

int relocations_add(struct relocations *list, const struct backend_node *old,
		    const struct backend_node *new);
/* Note that a directory is read. */
int relocations_look(struct relocations *list, uint64_t dir);
/* All state files below a directory that will belong to session; their keys begin with dirs before,
 * and with dirs_to after. */
int relocations_below(struct placing *placing, uint64_t dir, struct bytes session,
		      struct bytes dirs, struct bytes dirs_to, struct relocations *list);
/* move-dir.c: the same for a directory that is about to get this name, and this place.  -EXDEV:
 * files in it would become rows, or rows files. */
int relocations_of_dir(struct placing *placing, struct inode *inode, struct inode *dir_to,
		       struct bytes name_to, const struct place *place, struct relocations *list);
void relocations_emit(const struct relocations *list, struct batch *batch);
/* Two lists whose keys may be each other's. */
void relocations_emit_exchange(const struct relocations *a, const struct relocations *b,
			       struct batch *batch);
/* After the commit: update the inodes in memory. */
void relocations_apply(struct tree *tree, struct relocations *list);
void relocations_done(struct relocations *list);

#endif
