/* SPDX-License-Identifier: MIT */

/* Requests about extended attributes. */

#include "fs/kernel/ops.h"

#include <errno.h>
#include <string.h>

#include "backend/base/cleanup.h"

void op_setxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, const char *value,
		 size_t size, int flags)
{
	reply_error(req, tree_set_xattr(request_tree(req), request_inode(req, nodeid),
					bytes_str(name), bytes_make(value, size), flags));
}

void op_getxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, size_t size)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = tree_get_xattr(request_tree(req), request_inode(req, nodeid), bytes_str(name),
			       &value);

	/* ls asks each file for its label until it hears that there are none. */
	if (r == -ENODATA && strcmp(name, "security.selinux") == 0)
		r = -EOPNOTSUPP;
	reply_xattr(req, r, buf_bytes(&value), size);
}

/* List these only for root; for other users the kernel refuses their values. */
static void hide_trusted(struct buf *names)
{
	static const char space[] = "trusted.";
	size_t kept = 0, size;

	for (size_t at = 0; at < names->size; at += size) {
		size = strlen(names->data + at) + 1;
		if (strncmp(names->data + at, space, strlen(space)) == 0)
			continue;
		memmove(names->data + kept, names->data + at, size);
		kept += size;
	}
	names->size = kept;
}

void op_listxattr(fuse_req_t req, fuse_ino_t nodeid, size_t size)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	int r = tree_list_xattr(request_tree(req), request_inode(req, nodeid), &names);

	if (fuse_req_ctx(req)->uid)
		hide_trusted(&names);
	reply_xattr(req, r, buf_bytes(&names), size);
}

void op_removexattr(fuse_req_t req, fuse_ino_t nodeid, const char *name)
{
	reply_error(req, tree_remove_xattr(request_tree(req), request_inode(req, nodeid),
					   bytes_str(name)));
}
