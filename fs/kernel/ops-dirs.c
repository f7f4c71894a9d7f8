/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/kernel/ops.h"
#include "fs/kernel/reply.h"
#include "fs/kernel/notify.h"

struct dir_reply {
	fuse_req_t req;
	struct session *session;
	char *data;
	size_t size;
	size_t used;
	bool plus; /* with attributes; each is a lookup */
};

static int dir_add(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		   uint64_t position)
{
	struct dir_reply *reply = arg;
	char *data = reply->data + reply->used;
	size_t size, room = reply->size - reply->used;
	struct fuse_entry_param entry;
	char text[NAME_MAX + 1];

	snprintf(text, sizeof(text), "%.*s", (int)name.size, name.data);
	reply_fill_entry(reply->session, shown, &entry);
	entry.ino = inode ? entry.ino : 0;
	size = reply->plus ?
		       fuse_add_direntry_plus(reply->req, data, room, text, &entry,
					      (off_t)position) :
		       fuse_add_direntry(reply->req, data, room, text, &shown->st, (off_t)position);
	if (size > room && inode)
		inode_let_go(inode, entry.ino);
	if (size > room)
		return 1;
	reply->used += size;
	if (inode)
		inode_hold(inode, entry.ino);
	return 0;
}

/* Bytes that an entry takes in a reply, at least. */
static size_t entry_least(fuse_req_t req, bool plus)
{
	return plus ? fuse_add_direntry_plus(req, NULL, 0, "a", NULL, 0) :
		      fuse_add_direntry(req, NULL, 0, "a", NULL, 0);
}

static void list_dir(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t position,
		     struct open_file *file, bool plus)
{
	struct tree *tree = request_tree(req);
	struct dir_reply reply = {
		.req = req,
		.session = request_session(req),
		.data = malloc(size),
		.size = size,
		.plus = plus,
	};
	int r = -ENOMEM;

	if (position == 0) {
		file->list_end = tree_list_end(tree);
		file->list_error = 0;
	}
	tree_give_up_when(request_is_given_up, req);
	if (reply.data)
		r = tree_list_some(tree, request_inode(req, nodeid), (uint64_t)position,
				   file->list_end, size / entry_least(req, plus) + 1, plus, dir_add,
				   &reply);
	tree_give_up_when(NULL, NULL);
	if (r == -EUCLEAN) {
		file->list_error = -EIO;
		r = 0;
	}
	/* The entries so far must reach the kernel; the error comes again with the next block. */
	if (r < 0 && reply.used)
		r = 0;
	else if (r == 0 && !reply.used)
		r = file->list_error;
	reply_buf(req, r, bytes_make(reply.data, reply.used));
	free(reply.data);
}

void op_opendir(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	struct session *session = request_session(req);
	struct open_file *file = open_file_new(session, NULL);

	notify_used(session, nodeid);
	if (!file) {
		reply_error(req, -ENOMEM);
		return;
	}
	file->list_end = tree_list_end(session->tree);
	fi->fh = (uintptr_t)file;
	if (fuse_reply_open(req, fi) < 0)
		open_file_free(session, file);
}

void op_readdir(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t position,
		struct fuse_file_info *fi)
{
	list_dir(req, nodeid, size, position, request_file(fi), false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t position,
		    struct fuse_file_info *fi)
{
	list_dir(req, nodeid, size, position, request_file(fi), true);
}

void op_releasedir(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	(void)nodeid;
	open_file_free(request_session(req), request_file(fi));
	reply_error(req, 0);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t nodeid, int datasync, struct fuse_file_info *fi)
{
	(void)nodeid;
	(void)datasync;
	(void)fi;
	reply_error(req, handle_sync(request_tree(req), NULL));
}
