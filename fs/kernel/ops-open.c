/* SPDX-License-Identifier: MIT */

/* Requests that open a file, or make and open one. */

#include <errno.h>
#include <fcntl.h>

#include "fs/api/events.h"
#include "fs/kernel/library.h"
#include "fs/kernel/maps.h"
#include "fs/kernel/ops.h"
#include "fs/kernel/streams.h"

/* Whether they are files of one type that the same users may open; or -errno.  The descriptor shows
 * the size of the first one: of a state file that is about the present one, of another the old. */
static int is_like(struct tree *tree, struct inode *inode, struct inode *other)
{
	struct stat st, other_st;
	int r = tree_stat(tree, inode, &st);

	if (r == 0)
		r = tree_stat(tree, other, &other_st);
	return r < 0 ? r :
		       st.st_mode == other_st.st_mode && st.st_uid == other_st.st_uid &&
			       st.st_gid == other_st.st_gid &&
			       (inode_is_state(inode) || st.st_size == other_st.st_size);
}

/*
 * A file is replaced again and again, also between the lookup and the open, and its bytes are gone.
 * After ESTALE the kernel looks the name up and opens once more, and no third time: then what the
 * name leads to is opened in its place.  At a first try it is not: the kernel has the size and
 * pages of the other one for what it opens.  Threads that cannot be seen count as one.
 */
static int open_file(fuse_req_t req, struct inode *inode, unsigned face, int flags,
		     struct handle **ret_handle, bool *ret_other)
{
	enum { TRIES = 100 };
	struct tree *tree = request_tree(req);
	const pid_t pid = fuse_req_ctx(req)->pid;
	const bool again =
		face != FACE_ANY && tree_opens_again(tree, pid, inode_nodeid(inode, face));
	int r = tree_open_file(tree, inode, face, flags, pid, ret_handle);

	for (int i = 0; again && r == -ESTALE && i < TRIES; i++) {
		struct inode *now;
		int like;

		r = tree_find_again(tree, inode, &now);
		if (r < 0)
			break;
		like = is_like(tree, inode, now);
		r = like > 0 ? tree_open_file(tree, now, FACE_ANY, flags, pid, ret_handle) :
			       -ESTALE;
		*ret_other = r == 0;
		inode_forget(tree, now, 1);
		if (like == 0)
			break;
	}
	return r;
}

/*
 * A request at each close of a descriptor publishes what writers hold back and ends the locks of
 * the process.  For readers it would take a third of the time of open, read and close, so they do
 * without it until a lock of the file was asked for.  A lock of a reader that was open before that
 * is released when the last of its descriptors is closed.
 */
static int request_open(fuse_req_t req, struct inode *inode, unsigned face,
			struct fuse_file_info *fi)
{
	struct session *session = request_session(req);
	struct open_file *file;
	struct handle *handle;
	bool other = false;
	int r;

	tree_give_up_when(request_is_given_up, req);
	r = open_file(req, inode, face, fi->flags, &handle, &other);
	tree_give_up_when(NULL, NULL);
	if (r < 0)
		return r;
	file = open_file_new(session, handle);
	if (!file) {
		handle_free(session->tree, handle);
		return -ENOMEM;
	}
	fi->fh = (uintptr_t)file;
	fi->direct_io = other || handle_is_direct(handle);
	/* Keep the pages: the kernel is notified of what to forget. */
	fi->keep_cache = !fi->direct_io && !(fi->flags & O_TRUNC);
	maps_opened(session, file, fi->flags);
	file->flushes =
		(fi->flags & O_ACCMODE) != O_RDONLY || inode_was_locked(handle_inode(handle));
	fi->noflush = !file->flushes;
	r = handle_is_stream(handle) ? stream_opened(session, file, fi) : 0;
	if (r < 0)
		handle_free(session->tree, open_file_free(session, file));
	return r;
}

struct opening {
	fuse_req_t req;
	fuse_ino_t nodeid;
	struct fuse_file_info fi;
	bool shared; /* other mounts had the store, when it was created */
};

static void open_now(void *owner, void *arg)
{
	struct opening *opening = arg;
	fuse_req_t req = opening->req;
	struct inode *inode = request_inode(req, opening->nodeid);
	int r = opening->fi.flags & O_TRUNC ? request_drop_setuid(req, inode) : 0;

	(void)owner;
	tree_tell_missed(request_tree(req), nodeid_ino(opening->nodeid));
	if (r == 0 && opening->shared && request_was_left(req, opening->nodeid, opening->fi.flags))
		r = -ESTALE;
	if (r == 0)
		r = maps_may_open(request_session(req), inode, opening->fi.flags);
	if (r == 0)
		r = request_open(req, inode, nodeid_face(opening->nodeid), &opening->fi);
	if (opening->shared)
		tree_use_end(request_tree(req), inode);
	reply_open(req, r, &opening->fi);
}

/* An open sees what was closed on another mount before: the kernel's pages are up to date when it
 * is answered.  If that cannot be known, the open fails. */
void op_open(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	struct tree *tree = request_tree(req);
	bool shared = tree_is_shared(tree);
	struct opening opening = { .req = req, .nodeid = nodeid, .fi = *fi, .shared = shared };
	int r = shared ? tree_use(tree, request_inode(req, nodeid)) : 0;

	if (r < 0)
		reply_open(req, r, fi);
	else if (shared)
		tree_when_notified(tree, open_now, NULL, &opening, sizeof(opening));
	else
		open_now(NULL, &opening);
}

static int open_made(fuse_req_t req, struct inode *inode, struct fuse_file_info *fi)
{
	int r = request_open(req, inode, FACE_ANY, fi);

	if (r < 0)
		inode_forget(request_tree(req), inode, 1);
	return r;
}

/* Whether a user certainly may open a file that another process has made during the create.  The
 * kernel does not check permissions of a created file; otherwise it looks the name up again and
 * checks. */
static bool may_open(fuse_req_t req, struct inode *dir, struct inode *inode, int flags)
{
	const struct fuse_ctx *caller = fuse_req_ctx(req);
	struct stat st, dir_st;
	mode_t needed = 0;

	if (tree_stat(request_tree(req), inode, &st) < 0 || !S_ISREG(st.st_mode) ||
	    tree_stat(request_tree(req), dir, &dir_st) < 0)
		return false;
	/* The kernel may be set to refuse files of others there (fs.protected_regular). */
	if (st.st_uid != caller->uid)
		return !caller->uid && !(dir_st.st_mode & S_ISVTX);
	if ((flags & O_ACCMODE) != O_WRONLY)
		needed |= S_IRUSR;
	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
		needed |= S_IWUSR;
	return !caller->uid || (st.st_mode & needed) == needed;
}

/* 1: another program's file came in between, and has gone again. */
static int create_once(fuse_req_t req, fuse_ino_t parent, const char *name,
		       const struct tree_new *what, struct fuse_file_info *fi,
		       struct inode **ret_inode)
{
	const struct caller caller = request_caller(req);
	struct tree *tree = request_tree(req);
	struct inode *dir = request_inode(req, parent);
	int r = tree_make(tree, &caller, dir, bytes_str(name), what, ret_inode);
	const int flags = fi->flags;

	/* A file that was just made (O_CREAT says so) has no bytes to cut; but the first handle of
	 * a state file must begin as a save all the same. */
	if (r == 0 && !inode_is_state(*ret_inode))
		fi->flags &= ~O_TRUNC;
	if (r == -EEXIST && !(fi->flags & O_EXCL)) {
		fi->flags &= ~O_CREAT;
		r = tree_lookup(tree, dir, bytes_str(name), ret_inode);
		if (r == -ENOENT)
			return 1;
		if (r == 0 && !may_open(req, dir, *ret_inode, fi->flags)) {
			inode_forget(tree, *ret_inode, 1);
			return -ESTALE;
		}
		if (r == 0)
			r = maps_may_open(request_session(req), *ret_inode, fi->flags);
		if (r == -ENODEV)
			inode_forget(tree, *ret_inode, 1);
	}
	if (r == 0)
		r = open_made(req, *ret_inode, fi);
	fi->flags = flags;
	/* Another try would find the file that this one has made. */
	return r == -ESTALE && !(fi->flags & O_EXCL) ? 1 : r;
}

/* The kernel tries again only once. */
enum { CREATE_TRIES = 10 };

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	const struct tree_new what = {
		.mode = S_IFREG | (mode & 07777),
		.will_save = (fi->flags & O_ACCMODE) != O_RDONLY && !(fi->flags & O_APPEND),
		.will_open = true,
	};
	struct inode *inode = NULL;
	int r = 1;

	for (int tries = 0; r > 0 && tries < CREATE_TRIES; tries++)
		r = create_once(req, parent, name, &what, fi, &inode);
	reply_create(req, r > 0 ? -ESTALE : r, inode, fi);
}

#ifdef HAVE_FUSE_TMPFILE
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	const struct caller caller = request_caller(req);
	struct inode *inode = NULL;
	int r = tree_make_nameless(request_tree(req), &caller, request_inode(req, parent),
				   S_IFREG | (mode & 07777), &inode);

	if (r == 0)
		r = open_made(req, inode, fi);
	reply_create(req, r, inode, fi);
}
#endif
