/* SPDX-License-Identifier: MIT */
#ifndef FS_TREE_PLACE_H
#define FS_TREE_PLACE_H

/* What a file is by its place, and files whose place changes (place.c). */

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
/* What counts as free when a place is looked for. */
struct placing {
	struct tree *tree;
	/* NULL: whatever is not given counts, and a commit tells what does not. */
	struct view *view;
	uint64_t self;	  /* the node that gets the place, or 0: a new one */
	uint64_t leaving; /* a node that leaves its place with all below it, or 0 */
	/* The file that has the name, or NULL: one of the same kind leaves its key, which may be
	 * one of its own, and nobody else can have it. */
	const struct backend_node *over;
	void *given; /* keys that others get which move together with it */
};
void placing_done(struct placing *placing);
/* 1 when no node has the session and key (key.data NULL: the session) but such as leave it. */
int place_is_free(const struct placing *placing, struct bytes session, struct bytes key);
/* For a file of this type under a name in dir. */
int place_find(const struct placing *placing, struct inode *dir, struct bytes name, mode_t mode,
	       struct place *place);
/* Let a node refer to the place's bytes. */
void place_apply(const struct place *place, struct backend_node *node);

/* rest.c: whether a name that is not there, and whose place this would be, is that of rows without
 * files: 0, or -ESTALE when it is wanted now. */
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
	/* Directories that were looked into, if other mounts may put something there meanwhile. */
	uint64_t *dir;
	size_t dir_count;
	size_t dir_room;
};
int relocations_add(struct relocations *list, const struct backend_node *old,
		    const struct backend_node *new);
/* A directory that is looked into. */
int relocations_look(struct relocations *list, uint64_t dir);
/* All state files below a directory that will belong to session; dirs and dirs_to are what their
 * keys begin with, before and after. */
int relocations_below(struct placing *placing, uint64_t dir, struct bytes session,
		      struct bytes dirs, struct bytes dirs_to, struct relocations *list);
/* move-dir.c: the same of a directory that is about to get this name, and this place.  -EXDEV:
 * files in it would become rows, or rows files. */
int relocations_of_dir(struct placing *placing, struct inode *inode, struct inode *dir_to,
		       struct bytes name_to, const struct place *place, struct relocations *list);
void relocations_emit(const struct relocations *list, struct batch *batch);
/* Two lists whose keys may be each other's. */
void relocations_emit_exchange(const struct relocations *a, const struct relocations *b,
			       struct batch *batch);
/* After the commit: let the inodes in memory know. */
void relocations_apply(struct tree *tree, struct relocations *list);
void relocations_done(struct relocations *list);

#endif
