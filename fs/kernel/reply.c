/* SPDX-License-Identifier: MIT */
#include "fs/kernel/reply.h"

#include <errno.h>

#include "backend/base/cleanup.h"

struct session *request_session(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* A writer gets ENOSPC for a full quota, of a session or of the system. */
void reply_error(fuse_req_t req, int error)
{
	fuse_reply_err(req, error == -EDQUOT ? ENOSPC : -error);
}

/* Answers an error; returns whether there was one. */
static bool is_refused(fuse_req_t req, int error)
{
	if (error < 0)
		reply_error(req, error);
	return error < 0;
}

/* Seconds; to the kernel it is at least a tick of its clock. */
static const double MOMENT = 0.001;

void reply_fill_entry(const struct session *session, const struct shown *shown,
		      struct fuse_entry_param *entry)
{
	*entry = (struct fuse_entry_param){
		.ino = shown->nodeid,
		.attr = shown->st,
		.attr_timeout = !shown->own ? session->keep :
				shown->just ? MOMENT :
					      0,
		.entry_timeout = shown->brief ? 0 : session->keep,
	};
}

void reply_face(fuse_req_t req, int error, struct inode *inode, unsigned face)
{
	struct session *session = request_session(req);
	struct fuse_entry_param entry = { 0 };
	struct shown shown;

	if (error == -ENOENT) {
		entry.entry_timeout = tree_is_shared(session->tree) ? 0 : session->keep_missing;
		fuse_reply_entry(req, &entry);
		return;
	}
	if (error == 0) {
		error = tree_enter(session->tree, inode, face, fuse_req_ctx(req)->pid, &shown);
		if (error < 0)
			inode_forget(session->tree, inode, 1);
	}
	if (is_refused(req, error))
		return;
	reply_fill_entry(session, &shown, &entry);
	inode_hold(inode, entry.ino);
	if (fuse_reply_entry(req, &entry) < 0)
		tree_forget(session->tree, inode, entry.ino, 1);
}

void reply_create(fuse_req_t req, int error, struct inode *inode, struct fuse_file_info *fi)
{
	struct session *session = request_session(req);
	struct open_file *file = (struct open_file *)(uintptr_t)fi->fh;
	struct fuse_entry_param entry;
	struct shown shown;

	if (is_refused(req, error))
		return;
	error = handle_show(session->tree, file->handle, &shown);
	if (!is_refused(req, error)) {
		reply_fill_entry(session, &shown, &entry);
		inode_hold(inode, entry.ino);
		if (fuse_reply_create(req, &entry, fi) == 0)
			return;
	}
	handle_free(session->tree, open_file_free(session, file));
	if (error < 0)
		inode_forget(session->tree, inode, 1);
	else
		tree_forget(session->tree, inode, entry.ino, 1);
}

void reply_attr(fuse_req_t req, int error, const struct stat *st, bool own)
{
	if (!is_refused(req, error))
		fuse_reply_attr(req, st, own ? 0 : request_session(req)->keep);
}

void reply_open(fuse_req_t req, int error, struct fuse_file_info *fi)
{
	struct session *session = request_session(req);
	struct open_file *file = (struct open_file *)(uintptr_t)fi->fh;

	/* When the open was interrupted, no release will come. */
	if (!is_refused(req, error) && fuse_reply_open(req, fi) < 0)
		handle_free(session->tree, open_file_free(session, file));
}

void reply_buf(fuse_req_t req, int error, struct bytes bytes)
{
	if (!is_refused(req, error))
		fuse_reply_buf(req, bytes.data, bytes.size);
}

void reply_text(fuse_req_t req, int error, const char *text)
{
	if (!is_refused(req, error))
		fuse_reply_readlink(req, text);
}

void reply_write(fuse_req_t req, ssize_t count)
{
	if (!is_refused(req, (int)MIN(count, 0)))
		fuse_reply_write(req, (size_t)count);
}

void reply_xattr(fuse_req_t req, int error, struct bytes value, size_t size)
{
	if (error == 0 && size && value.size > size)
		error = -ERANGE;
	if (is_refused(req, error))
		return;
	if (size)
		fuse_reply_buf(req, value.data, value.size);
	else
		fuse_reply_xattr(req, value.size);
}

void reply_statfs(fuse_req_t req, int error, const struct statvfs *st)
{
	if (!is_refused(req, error))
		fuse_reply_statfs(req, st);
}

void reply_seek(fuse_req_t req, int error, uint64_t offset)
{
	if (!is_refused(req, error))
		fuse_reply_lseek(req, (off_t)offset);
}

void reply_poll(fuse_req_t req, unsigned ready)
{
	fuse_reply_poll(req, ready);
}

void reply_lock(fuse_req_t req, const struct flock *lock)
{
	fuse_reply_lock(req, lock);
}

void reply_nothing(fuse_req_t req)
{
	fuse_reply_none(req);
}
