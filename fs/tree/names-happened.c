/* SPDX-License-Identifier: MIT */

/* Events of names, for followers (fs/events/events.h). */

#include "fs/tree/tree.h"

void name_happened(struct notes *notes, struct tree *tree, enum event_what what,
		   struct inode *inode, const struct inode *dir, struct bytes name)
{
	notes_happened(notes, tree,
		       &(struct happened){
			       .what = what,
			       .inode = inode,
			       .dir = dir,
			       .name = name,
		       });
}

void pair_happened(struct notes *notes, struct tree *tree, const struct entry_pair *pair)
{
	bool saves = pair->over && !pair->exchange && !inode_is_dir(pair->inode);
	const struct happened there = {
		.what = saves ? EVENT_SAVE : EVENT_RENAME,
		.moves = pair->exchange ? EVENT_EXCHANGES : EVENT_MOVES,
		.inode = pair->inode,
		.dir = pair->dir_to,
		.name = pair->name_to,
		.from_dir = pair->dir,
		.from = pair->name,
	};
	const struct happened back = {
		.what = EVENT_RENAME,
		.moves = EVENT_EXCHANGED,
		.inode = pair->over,
		.dir = pair->dir,
		.name = pair->name,
		.from_dir = pair->dir_to,
		.from = pair->name_to,
	};

	/* The kernel knows the change by the face that the name leads to. */
	notes_change(notes, tree, pair->inode, CHANGE_ATTR, 0,
		     inode_face(pair->inode, pair->inode->lookup));
	if (pair->over)
		notes_change(notes, tree, pair->over, CHANGE_ATTR, 0, NULL);
	notes_happened(notes, tree, &there);
	if (pair->exchange)
		notes_happened(notes, tree, &back);
}
