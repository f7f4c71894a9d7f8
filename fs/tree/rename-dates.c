/* SPDX-License-Identifier: MIT */

/* How rows are dated that come to be by a rename (fs/base/dates.h). */

#include <errno.h>
#include <string.h>

#include "fs/api/trash.h"
#include "fs/base/packed.h"
#include "fs/tree/tree.h"

/* How to date rows that were brought in an ordinary file; the attribute is removed with that. */
static int take_attribute(struct view *view, struct inode *inode, struct dates *ret_dates,
			  struct batch *batch)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = inode_is_state(inode) || inode->bare ?
			-ENODATA :
			ASK(view, xattr_get, inode->node.ino, BYTES(DATES_ATTRIBUTE), &value);

	if (r < 0)
		return r == -ENODATA ? 0 : r;
	batch_xattr_delete(batch, inode->node.ino, BYTES(DATES_ATTRIBUTE));
	return dates_parse(buf_bytes(&value), ret_dates) < 0 ? -EIO : 0;
}

/* A client packs a transcript, or makes it plain again, beside the one that there was, which it
 * removes then: 1, with the node of that; 0: there is none. */
static int find_other_form(struct tree *tree, struct view *view, struct inode *dir,
			   struct bytes name, struct backend_node *ret_node)
{
	_cleanup_(buf_done) struct buf path = { 0 }, session = { 0 }, key = { 0 };
	const size_t suffix = strlen(PACKED_SUFFIX);
	bool packed = bytes_ends_with(name, BYTES(PACKED_SUFFIX));
	struct bytes other = name;
	uint64_t id;
	int r = packed_layouts(tree->layout) && !inode_session(dir) ? inode_path(dir, name, &path) :
								      -ENOENT;

	if (r == 0 && !packed)
		r = buf_append_str(&path, PACKED_SUFFIX);
	if (r == 0)
		r = packed_judge(tree->layout, buf_bytes(&path), &session, &key);
	if (r <= 0)
		return r == -ENOENT ? 0 : r;
	if (packed)
		other.size -= suffix;
	else
		other = bytes_make(path.data + path.size - name.size - suffix, name.size + suffix);
	r = ASK(view, entry_find, dir->ino, other, &id, ret_node);
	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

int ttl_of_moved(struct tree *tree, struct view *view, struct inode *inode, struct inode *dir,
		 struct bytes name, struct batch *batch)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	struct backend_node node;
	uint64_t other;
	int r = find_other_form(tree, view, dir, name, &node);

	if (r <= 0)
		return r;
	other = node.ino;
	backend_node_done(&node);
	r = inode->bare ? -ENODATA : ASK(view, xattr_get, inode->ino, BYTES(TRASH_TTL), &value);
	if (r != -ENODATA)
		return r;
	r = ASK(view, xattr_get, other, BYTES(TRASH_TTL), &value);
	if (r < 0)
		return r == -ENODATA ? 0 : r;
	batch_xattr_put(batch, inode->ino, BYTES(TRASH_TTL), batch_keep(batch, buf_bytes(&value)));
	inode->bare = false;
	return 0;
}

int dates_of_moved(struct tree *tree, struct view *view, struct inode *inode, uint32_t kind,
		   struct inode *dir, struct bytes name, struct dates *ret_dates,
		   struct batch *batch)
{
	struct backend_node node;
	int r = take_attribute(view, inode, ret_dates, batch);

	if (r < 0 || kind != BACKEND_LIST || ret_dates->other)
		return r;
	/* Records of a transcript that is made plain again are old. */
	r = find_other_form(tree, view, dir, name, &node);
	if (r <= 0)
		return r;
	ret_dates->other = node.mtime;
	backend_node_done(&node);
	return 0;
}
