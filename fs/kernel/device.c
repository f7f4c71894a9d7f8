/* SPDX-License-Identifier: MIT */
#include "fs/kernel/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/kernel/library.h"
#include "backend/base/cleanup.h"

enum {
	/* FUSE_DIRECT_IO_ALLOW_MMAP is bit 36: bit 4 of the second word. */
	FLAGS2_DIRECT_IO_ALLOW_MMAP = 1 << 4,
	NOTIFY_INC_EPOCH = 8, /* FUSE_NOTIFY_INC_EPOCH */
};

/* The request that says hello, and whether the kernel offers what we want. */
static void look_at_hello(struct session *session, const char *data, size_t size)
{
	struct fuse_in_header header;
	struct fuse_init_in init = { 0 };

	if (size < sizeof(header))
		return;
	memcpy(&header, data, sizeof(header));
	if (header.opcode != FUSE_INIT)
		return;
	memcpy(&init, data + sizeof(header), MIN(size - sizeof(header), sizeof(init)));
	session->hello = header.unique;
	session->direct_mmap =
		(init.flags & FUSE_INIT_EXT) && (init.flags2 & FLAGS2_DIRECT_IO_ALLOW_MMAP);
}

static ssize_t device_read(int fd, void *data, size_t size, void *arg)
{
	struct session *session = arg;
	ssize_t n = read(fd, data, size);

	/* The kernel says hello before anything else; requests do not overtake it. */
	if (n > 0 && !session->hello)
		look_at_hello(session, data, (size_t)n);
	return n;
}

static ssize_t answer_hello(int fd, const struct iovec *iov)
{
	struct fuse_init_out out = { 0 };
	struct iovec changed[2] = { iov[0], { .iov_base = &out, .iov_len = iov[1].iov_len } };

	memcpy(&out, iov[1].iov_base, iov[1].iov_len);
	out.flags |= FUSE_INIT_EXT;
	out.flags2 |= FLAGS2_DIRECT_IO_ALLOW_MMAP;
	return writev(fd, changed, 2);
}

static ssize_t device_writev(int fd, struct iovec *iov, int count, void *arg)
{
	const struct session *session = arg;
	const struct fuse_out_header *header = iov[0].iov_base;

	if (session->direct_mmap && header->unique == session->hello && !header->error &&
	    count == 2 && iov[1].iov_len <= sizeof(struct fuse_init_out) &&
	    iov[1].iov_len > offsetof(struct fuse_init_out, flags2))
		return answer_hello(fd, iov);
	return writev(fd, iov, count);
}

int device_start(struct session *session)
{
	static const struct fuse_custom_io io = {
		.read = device_read,
		.writev = device_writev,
	};

	if (LIBRARY_MAPS_DIRECT)
		return 0;
	return fuse_session_custom_io(session->fuse, &io, fuse_session_fd(session->fuse));
}

int device_forget_names(struct session *session)
{
	const struct fuse_out_header header = { .len = sizeof(header), .error = NOTIFY_INC_EPOCH };

	return write(fuse_session_fd(session->fuse), &header, sizeof(header)) < 0 ? -errno : 0;
}

bool device_is_cut(const struct session *session)
{
	struct pollfd state = { .fd = fuse_session_fd(session->fuse) };

	return poll(&state, 1, 0) == 1 && (state.revents & POLLERR);
}

/* The kernel ends the connection when the last descriptor is closed.  libfuse wants to close one
 * itself, so it gets a pipe in its place, which gives the same error without a reader. */
void device_cut(struct session *session)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	close(ends[0]);
	dup3(ends[1], fuse_session_fd(session->fuse), O_CLOEXEC);
	close(ends[1]);
}
