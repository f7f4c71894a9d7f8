/* SPDX-License-Identifier: MIT */
#include "src/cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/log.h"
#include "src/cmd/cmd.h"
#include "src/user/stop.h"

enum { BLOCK = 128 * 1024 };

int input_block(int fd, struct buf *data)
{
	ssize_t size;
	int r = buf_reserve(data, BLOCK);

	if (r < 0)
		return r;
	do
		size = !stop_await(fd) ? 0 : read(fd, data->data + data->size, BLOCK);
	while (size < 0 && errno == EINTR && !stop_wanted());
	if (stop_wanted())
		return -EINTR;
	if (size < 0)
		return -errno;
	data->size += (size_t)size;
	return size > 0;
}

int input_fail(const char *name, int error)
{
	if (error != -EINTR || !stop_wanted())
		log_error("cannot read %s: %s", name ? name : "the standard input",
			  strerror(-error));
	return CMD_FAILED;
}

int input_open(const char *name)
{
	struct stat st;
	int fd = name && strcmp(name, "-") != 0 ? open(name, O_RDONLY | O_CLOEXEC) :
						  dup(STDIN_FILENO);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(fd);
		return -EISDIR;
	}
	return fd < 0 ? -errno : fd;
}
