/* SPDX-License-Identifier: MIT */

/* Where directories lie, by those above them. */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/names.h"
#include "fs/base/packed.h"
#include "fs/inode/inodes.h"

struct inode *inode_session(struct inode *dir)
{
	while (dir && dir->node.kind != BACKEND_SESSION)
		dir = dir->parent;
	return dir;
}

bool inode_is_below(const struct inode *dir, const struct inode *inode)
{
	for (; dir; dir = dir->parent)
		if (dir == inode)
			return true;
	return false;
}

int inode_path(const struct inode *dir, struct bytes name, struct buf *path)
{
	size_t size = name.size;
	char *at;

	for (const struct inode *above = dir; above->parent; above = above->parent)
		size += strlen(above->name) + 1;
	if (buf_append_zeros(path, size) < 0)
		return -ENOMEM;
	/* From its end: it may be deeper than the stack. */
	at = path->data + path->size - name.size;
	memcpy(at, name.data, name.size);
	for (; dir->parent; dir = dir->parent) {
		const size_t length = strlen(dir->name);

		*--at = '/';
		at -= length;
		memcpy(at, dir->name, length);
	}
	return 0;
}

int inode_key_dirs(struct inode *dir, struct buf *dirs)
{
	int r;

	if (!dir->parent || dir->node.kind == BACKEND_SESSION)
		return 0;
	r = inode_key_dirs(dir->parent, dirs);
	if (r == 0)
		r = names_decode(NAMES_KEY, bytes_str(dir->name), dirs);
	return r < 0 ? r : buf_append_byte(dirs, '/');
}

int inode_is_packed(const struct tree *tree, struct view *view, const struct inode *inode,
		    const struct inode *dir)
{
	_cleanup_(buf_done) struct buf name = { 0 }, path = { 0 }, session = { 0 }, key = { 0 };
	const struct backend_node *node = &inode->node;
	int r = S_ISREG(node->mode) && node->kind == BACKEND_ORDINARY ?
			ASK(view, entry_name, node->parent, node->entry, &name) :
			-ENOENT;

	if (r < 0 || !bytes_ends_with(buf_bytes(&name), BYTES(PACKED_SUFFIX)))
		return r == -ENOENT ? 0 : r;
	r = inode_path(dir, buf_bytes(&name), &path);
	return r < 0 ? r : packed_judge(tree->layout, buf_bytes(&path), &session, &key);
}
