/* SPDX-License-Identifier: MIT */
#include "fs/inode/called.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/inode/inodes.h"

uint64_t called_hash(uint64_t dir, struct bytes name)
{
	uint64_t hash = bytes_hash(dir * 0x9e3779b97f4a7c15u, name);

	return hash ^ hash >> 32;
}

/* The later of two names gets the slot. */
static _Atomic uint64_t *slot_of(struct tree *tree, uint64_t dir, struct bytes name)
{
	return &tree->called[called_hash(dir, name) & (ARRAY_SIZE(tree->called) - 1)];
}

struct bytes called_name(const struct inode *inode)
{
	const struct bytes unknown = { 0 };

	if (inode_is_dir(inode))
		return inode->name ? bytes_str(inode->name) : unknown;
	return inode->called && inode->called_parent == inode->node.parent &&
			       inode->called_entry == inode->node.entry ?
		       bytes_str(inode->called) :
		       unknown;
}

void called_is(struct tree *tree, struct inode *inode, struct bytes name)
{
	char *copy;

	if (!inode->node.entry)
		return;
	*slot_of(tree, inode->node.parent, name) = inode->ino;
	if (called_name(inode).data || inode_is_dir(inode))
		return;
	copy = bytes_dup(name);
	if (!copy)
		return;
	free(inode->called);
	inode->called = copy;
	inode->called_parent = inode->node.parent;
	inode->called_entry = inode->node.entry;
}

static bool is_called(struct inode *inode, const struct inode *dir, struct bytes name)
{
	WITH_INODE_LOCK(inode);
	const struct bytes known = called_name(inode);

	return !inode->gone && inode->node.nlink && inode->node.entry &&
	       inode->node.parent == dir->node.ino && known.data && bytes_equal(known, name);
}

struct inode *called_recall(struct tree *tree, const struct inode *dir, struct bytes name)
{
	uint64_t ino = tree->taker.late ? 0 : *slot_of(tree, dir->node.ino, name);
	struct inode *inode = ino ? inode_known(tree, ino) : NULL;

	if (!inode || is_called(inode, dir, name))
		return inode;
	inode_forget(tree, inode, 1);
	return NULL;
}

int called_find(struct tree *tree, struct inode *inode, struct bytes *ret_name)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	int r;

	*ret_name = called_name(inode);
	if (ret_name->data)
		return 0;
	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0)
		r = ASK(&view, entry_name, inode->node.parent, inode->node.entry, &name);
	if (r < 0)
		return r;
	called_is(tree, inode, buf_bytes(&name));
	*ret_name = called_name(inode);
	return ret_name->data ? 0 : -ENOMEM;
}
