/* SPDX-License-Identifier: MIT */

/* What the kernel holds of the faces of a file. */

#include "fs/cache/state.h"
#include "fs/inode/inodes.h"

void inode_hold(struct inode *inode, uint64_t nodeid)
{
	struct face *face = inode_face(inode, nodeid_face(nodeid));

	face->lookups++;
	if (!inode->window)
		face->answers--;
}

void inode_let_go(struct inode *inode, uint64_t nodeid)
{
	if (!inode->window)
		inode_face(inode, nodeid_face(nodeid))->answers--;
}

void tree_forget(struct tree *tree, struct inode *inode, uint64_t nodeid, uint64_t count)
{
	struct face *face = inode_face(inode, nodeid_face(nodeid));

	face->lookups -= count;
	if (!face->lookups && tree->cache->again_count)
		face_forgotten(tree, inode, face);
	inode_forget(tree, inode, count);
}

void inode_leave(struct inode *inode)
{
	inode->left_faces = inode->face_count;
}

static bool is_pinned(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return inode_is_pinned(inode);
}

void faces_ask(struct tree *tree, struct inode *inode)
{
	if (!inode->face.next || !is_pinned(tree, inode))
		return;
	for (struct face *face = &inode->face; face; face = face->next)
		if (face->lookups)
			face->gone = !kernel_holds(tree, inode_nodeid(inode, face->number));
}
