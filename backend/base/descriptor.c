/* SPDX-License-Identifier: MIT */
#include "backend/base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { FIRST = STDERR_FILENO + 1 };

/* The wrong way round, so that reading nothing is an error and not an empty input, and a result
 * that goes nowhere is an error and not a success.  Where there is no /dev/null a bare path serves
 * as well. */
static int open_nothing(int fd)
{
	int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
	int nothing = open("/dev/null", mode | O_NOCTTY | O_NONBLOCK);

	return nothing < 0 ? open("/", O_PATH) : nothing;
}

int descriptor_fill(void)
{
	for (int fd = 0; fd < FIRST; fd++) {
		int nothing;

		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		nothing = open_nothing(fd);
		if (nothing < 0)
			return -errno;
		/* Another thread was faster. */
		if (nothing >= FIRST)
			close(nothing);
	}
	return 0;
}

int descriptor_above(int fd)
{
	int above, error;

	if (fd < 0 || fd >= FIRST)
		return fd;
	above = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);
	error = errno;
	close(fd);
	errno = error;
	return above;
}

int descriptor_open(const char *path, int flags, mode_t mode)
{
	return descriptor_above(open(path, flags | O_CLOEXEC, mode));
}

int descriptor_lock(int fd, short type, off_t from, off_t size, bool wait)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = size
	};
	int r;

	while ((r = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock)) < 0 && errno == EINTR)
		;
	return r < 0 ? -errno : 0;
}

struct flock descriptor_lock_of_others(int fd, off_t from, off_t size)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = size
	};

	fcntl(fd, F_OFD_GETLK, &lock);
	return lock;
}

FILE *descriptor_stream(const char *path)
{
	int fd = descriptor_open(path, O_RDONLY, 0), error;
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !stream) {
		error = errno;
		close(fd);
		errno = error;
	}
	return stream;
}
