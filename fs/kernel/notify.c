/* SPDX-License-Identifier: MIT */
#include "fs/kernel/notify.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/kernel/device.h"
#include "fs/kernel/library.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

enum {
	STOP_SECONDS = 5,      /* after which the rest is not sent */
	STOP_MILLISECONDS = 5, /* between two looks */
};

/* Returns whether the kernel holds the nodeid. */
static bool notify_check(int r, uint64_t nodeid)
{
	if (r < 0 && r != -ENOENT && r != -ENOTCONN && r != -EBADF && r != -ENODEV)
		log_debug("the kernel did not take a notice about inode %llu: %s",
			  (unsigned long long)nodeid_ino(nodeid), strerror(-r));
	return r != -ENOENT;
}

/*
 * The kernel makes the root directory without any permission, and learns the real ones from the
 * first GETATTR.  It drops that answer if a notice about the directory comes meanwhile, and then
 * refuses all users but root.  So notices about the root wait until the first LOOKUP or OPENDIR in
 * it, which the kernel sends only after it has checked the permissions.
 */
static bool root_is_used(struct session *session)
{
	if (atomic_load(&session->root_used))
		return true;
	atomic_store(&session->root_changed, true);
	return atomic_load(&session->root_used);
}

void notify_used(struct session *session, uint64_t nodeid)
{
	if (nodeid != FUSE_ROOT_ID || atomic_load(&session->root_used))
		return;
	atomic_store(&session->root_used, true);
	/* The root needs a notice of attributes only. */
	if (atomic_exchange(&session->root_changed, false))
		notify_check(fuse_lowlevel_notify_inval_inode(session->fuse, nodeid, -1, 0),
			     nodeid);
}

static bool notify_forget(void *arg, uint64_t nodeid, int64_t offset)
{
	struct session *session = arg;

	if (nodeid == FUSE_ROOT_ID && !root_is_used(session))
		return true;
	return notify_check(fuse_lowlevel_notify_inval_inode(session->fuse, nodeid, offset, 0),
			    nodeid);
}

static void notify_grown(void *arg, uint64_t nodeid, uint64_t size, char last)
{
	struct session *session = arg;
	struct fuse_bufvec vec = FUSE_BUFVEC_INIT(1);

	vec.buf[0].mem = &last;
	notify_check(fuse_lowlevel_notify_store(session->fuse, nodeid, (off_t)size - 1, &vec, 0),
		     nodeid);
}

/* Stores no byte. */
static bool notify_holds(void *arg, uint64_t nodeid)
{
	struct session *session = arg;
	struct fuse_bufvec nothing = FUSE_BUFVEC_INIT(0);

	return notify_check(fuse_lowlevel_notify_store(session->fuse, nodeid, 0, &nothing, 0),
			    nodeid);
}

/* A name that leads to the same file is looked up again at its next use.  Otherwise the kernel
 * forgets it at once, and with it what is mounted over the file. */
static void notify_entry(void *arg, uint64_t parent, struct bytes name, bool same)
{
	struct session *session = arg;
	int r = -ENOSYS;

	if (same)
		r = library_expire_entry(session->fuse, parent, name.data, name.size);
	if (r != -ENOSYS) {
		notify_check(r, parent);
		return;
	}
	notify_check(fuse_lowlevel_notify_inval_entry(session->fuse, parent, name.data, name.size),
		     parent);
}

/* A mount over a file goes with its name, and getcwd(2) fails until a name is looked up. */
static void notify_all_names(void *arg)
{
	struct session *session = arg;

	if (device_forget_names(session) < 0)
		log_warning("this kernel (before Linux 6.16) cannot forget all names on request: "
			    "%s may show old ones until you use them",
			    session->mountpoint);
}

void notify_start(struct session *session)
{
	const struct tree_watcher watcher = {
		.forget = notify_forget,
		.grown = notify_grown,
		.entry = notify_entry,
		.holds = notify_holds,
		.all_names = notify_all_names,
		/* Half of the threads stay free for the reads that the kernel may wait for. */
		.at_once = session->threads / 2,
		.arg = session,
	};

	tree_set_watcher(session->tree, &watcher);
}

void notify_stop(struct session *session)
{
	const struct tree_watcher nobody = { 0 };
	struct pollfd ready = { .fd = fuse_session_fd(session->fuse), .events = POLLIN };
	struct fuse_buf buf = { 0 };
	const int64_t end = tick_now() + STOP_SECONDS * INT64_C(1000000000);

	/* The kernel may wait for the answer to a request before it takes a notice. */
	while (tree_is_notifying(session->tree) && tick_now() < end)
		if (poll(&ready, 1, STOP_MILLISECONDS) > 0 && (ready.revents & POLLIN) &&
		    fuse_session_receive_buf(session->fuse, &buf) > 0)
			fuse_session_process_buf(session->fuse, &buf);
	free(buf.mem);
	tree_set_watcher(session->tree, &nobody);
}
