/* SPDX-License-Identifier: MIT */
#include "tests/unit/fuse.h"

#include <errno.h>
#include <unistd.h>

struct fuse_stand_in fuse_stand_in;

void *fuse_req_userdata(fuse_req_t req)
{
	(void)req;
	return fuse_stand_in.session;
}

const struct fuse_ctx *fuse_req_ctx(fuse_req_t req)
{
	static struct fuse_ctx ctx = { .uid = 1000, .gid = 1000 };

	(void)req;
	ctx.pid = fuse_stand_in.unseen ? 0 : fuse_stand_in.pid ? fuse_stand_in.pid : getpid();
	return &ctx;
}

void fuse_req_interrupt_func(fuse_req_t req, fuse_interrupt_func_t func, void *data)
{
	(void)req;
	(void)func;
	(void)data;
}

int fuse_req_interrupted(fuse_req_t req)
{
	(void)req;
	return 0;
}

int fuse_reply_err(fuse_req_t req, int error)
{
	if (fuse_stand_in.error)
		fuse_stand_in.error(req, error);
	return 0;
}

int fuse_reply_buf(fuse_req_t req, const char *data, size_t size)
{
	if (fuse_stand_in.data)
		fuse_stand_in.data(req, data, size);
	return 0;
}

int fuse_reply_create(fuse_req_t req, const struct fuse_entry_param *entry,
		      const struct fuse_file_info *fi)
{
	if (fuse_stand_in.created)
		fuse_stand_in.created(req, entry, fi);
	return 0;
}

int fuse_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry)
{
	(void)req;
	(void)entry;
	return -ENOENT;
}

int fuse_reply_open(fuse_req_t req, const struct fuse_file_info *fi)
{
	if (!fuse_stand_in.opened)
		return -ENOENT;
	fuse_stand_in.opened(req, fi);
	return 0;
}

int fuse_lowlevel_notify_inval_inode(struct fuse_session *fuse, fuse_ino_t nodeid, off_t offset,
				     off_t size)
{
	(void)fuse;
	(void)size;
	if (fuse_stand_in.forget)
		fuse_stand_in.forget(nodeid, offset);
	return 0;
}
