/* SPDX-License-Identifier: MIT */

/* Where directories lie, by those above them. */

#include "fs/base/names.h"
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
	int r = 0;

	if (dir->parent) {
		r = inode_path(dir->parent, bytes_str(dir->name), path);
		if (r == 0)
			r = buf_append_byte(path, '/');
	}
	return r < 0 ? r : buf_append_bytes(path, name);
}

int inode_key_dirs(struct inode *dir, struct buf *dirs)
{
	int r;

	if (!dir->parent || dir->node.kind == BACKEND_SESSION)
		return 0;
	r = inode_key_dirs(dir->parent, dirs);
	if (r < 0)
		return r;
	r = names_decode(NAMES_KEY, bytes_str(dir->name), dirs);
	if (r < 0)
		return r;
	return buf_append_byte(dirs, '/');
}
