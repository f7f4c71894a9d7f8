/* SPDX-License-Identifier: MIT */

/* How rows are dated that come to be by a rename (fs/base/dates.h). */

#include <errno.h>

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

/* A client makes a transcript plain again beside the packed one: these are old records. */
static int take_packed(struct tree *tree, struct view *view, struct inode *dir,
		       struct bytes name_to, struct dates *ret_dates)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	struct backend_node node;
	uint64_t id;
	int r = packed_layouts(tree->layout) && !inode_session(dir) ?
			buf_append_bytes(&name, name_to) :
			-ENOENT;

	if (r == 0)
		r = buf_append_str(&name, PACKED_SUFFIX);
	if (r == 0)
		r = ASK(view, entry_find, dir->ino, buf_bytes(&name), &id, &node);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	ret_dates->other = node.mtime;
	backend_node_done(&node);
	return 0;
}

int dates_of_moved(struct tree *tree, struct view *view, struct inode *inode, uint32_t kind,
		   struct inode *dir, struct bytes name, struct dates *ret_dates,
		   struct batch *batch)
{
	int r = take_attribute(view, inode, ret_dates, batch);

	if (r == 0 && kind == BACKEND_LIST && !ret_dates->other)
		r = take_packed(tree, view, dir, name, ret_dates);
	return r;
}
