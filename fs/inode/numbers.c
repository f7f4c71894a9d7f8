/* SPDX-License-Identifier: MIT */

/* Numbers: nodeids, and those of inodes and ids of entries.  None of these is given twice, by any
 * mount: each mount leases ranges from the store, and what is left of them when it ends is lost. */

#include <errno.h>

#include "fs/base/batch.h"
#include "fs/base/sound.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "backend/base/log.h"

enum {
	FACE_SHIFT = 48, /* bits of a nodeid that are the inode's number */
	LEASED = 1024,	 /* at a time */
	TRIES = 100,	 /* others may be quicker; but a damaged store may refuse for ever */
};

uint64_t nodeid_ino(uint64_t nodeid)
{
	return nodeid & (((uint64_t)1 << FACE_SHIFT) - 1);
}

unsigned nodeid_face(uint64_t nodeid)
{
	return (unsigned)(nodeid >> FACE_SHIFT);
}

uint64_t inode_nodeid(const struct inode *inode, unsigned face)
{
	return inode->ino | (uint64_t)face << FACE_SHIFT;
}

static int lease_behind(struct tree *tree, uint64_t ino, uint64_t entry)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	int r;

	batch_lease(&batch, ino, entry, LEASED);
	r = tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
	if (r < 0)
		return r;
	tree->numbers.ino = ino;
	tree->numbers.entry = entry;
	tree->numbers.end_ino = ino + LEASED;
	tree->list_end = tree->numbers.end_entry = entry + LEASED;
	return 0;
}

/* 0: there is another one of each. */
static int lease(struct tree *tree)
{
	int r;

	if (tree->numbers.ino < tree->numbers.end_ino &&
	    tree->numbers.entry < tree->numbers.end_entry)
		return 0;
	r = lease_behind(tree, tree->numbers.end_ino, tree->numbers.end_entry);
	/* Another mount has leased what comes behind ours. */
	for (int i = 0; r == -ESTALE && i < TRIES; i++) {
		_cleanup_(view_end) struct view view = { 0 };
		uint64_t ino, entry;

		r = view_begin(tree, BACKEND_ANYWAY, &view);
		if (r == 0)
			r = ASK(&view, last_ids, &ino, &entry);
		view_end(&view);
		if (r == 0 && (ino > SOUND_NUMBER_MAX || entry > SOUND_NUMBER_MAX))
			r = -EIO;
		if (r == 0)
			r = lease_behind(tree, ino, entry);
	}
	if (r == -ESTALE)
		log_error("cannot get inode numbers: the store does not say which are used");
	return r == -ESTALE ? -EIO : r;
}

int number_ino(struct tree *tree, uint64_t *ret_ino)
{
	int r = lease(tree);

	if (r == 0)
		*ret_ino = ++tree->numbers.ino;
	return r;
}

int number_entry(struct tree *tree, uint64_t *ret_entry)
{
	int r = lease(tree);

	if (r == 0)
		*ret_entry = ++tree->numbers.entry;
	return r;
}

int number_node(struct tree *tree, uint64_t parent, mode_t mode, uint32_t uid, uint32_t gid,
		struct backend_node *ret_node)
{
	const int64_t now = time_now();
	int r;

	*ret_node = (struct backend_node){
		.parent = parent,
		.mode = mode,
		.uid = uid,
		.gid = gid,
		.nlink = S_ISDIR(mode) ? 2 : 1,
		.atime = now,
		.mtime = now,
		.ctime = now,
		.btime = now,
	};
	r = number_ino(tree, &ret_node->ino);
	return r < 0 ? r : number_entry(tree, &ret_node->entry);
}
