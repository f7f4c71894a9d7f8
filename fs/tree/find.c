/* SPDX-License-Identifier: MIT */

/* Files by their nodeids, and by the names that they had. */

#include <errno.h>
#include <string.h>

#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/tree/tree.h"
#include "backend/base/cleanup.h"

static int find_once(struct tree *tree, uint64_t nodeid, struct inode **ret_inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	struct inode *inode;
	int r;

	r = view_begin(tree, 0, &view);
	if (r == 0)
		r = inode_get(tree, &view, nodeid_ino(nodeid), &inode);
	if (r < 0)
		return r;
	/* Only a state file ever has more than one face, and may have forgotten this one. */
	if (!inode->node.nlink || node_is_trashed(&inode->node) ||
	    (nodeid_face(nodeid) >= inode->face_count && !inode_is_state(inode))) {
		inode_forget(tree, inode, 1);
		return -ENOENT;
	}
	*ret_inode = inode;
	return 0;
}

int tree_find(struct tree *tree, uint64_t nodeid, struct inode **ret_inode)
{
	int r = TREE_RETRY(tree, find_once(tree, nodeid, ret_inode));

	if (r == 0 && *ret_inode == tree->root && tree->shown != tree->root) {
		inode_forget(tree, *ret_inode, 1);
		*ret_inode = inode_ref(tree, tree->shown);
	}
	return r == -ENOENT ? -ESTALE : r;
}

int tree_find_parent(struct tree *tree, uint64_t nodeid, struct inode **ret_inode)
{
	struct inode *inode;
	int r = tree_find(tree, nodeid, &inode);

	if (r < 0)
		return r;
	if (inode_is_dir(inode)) {
		WITH_READ_LOCK(tree);

		*ret_inode = inode_ref(tree, inode->parent ? inode->parent : inode);
	} else {
		r = -ENOTDIR;
	}
	inode_forget(tree, inode, 1);
	return r;
}

static int last_name(struct tree *tree, struct inode *inode, uint64_t *ret_parent, char **ret_name)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	if (!inode->called)
		return -ESTALE;
	*ret_parent = inode->called_parent;
	*ret_name = strdup(inode->called);
	return *ret_name ? 0 : -ENOMEM;
}

int tree_find_again(struct tree *tree, struct inode *inode, struct inode **ret_inode)
{
	_cleanup_(freep) char *name = NULL;
	struct inode *dir;
	uint64_t parent;
	int r = last_name(tree, inode, &parent, &name);

	if (r == 0)
		r = tree_find(tree, parent, &dir);
	if (r < 0)
		return r;
	r = tree_lookup(tree, dir, bytes_str(name), ret_inode);
	inode_forget(tree, dir, 1);
	return r;
}
