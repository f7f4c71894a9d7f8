/* SPDX-License-Identifier: MIT */
#include "src/exchange/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

enum { OPEN = 64 }; /* besides the first one, which stays open */

static void close_level(struct dirs_level *level)
{
	closep(&level->fd);
	level->fd = -1;
}

int dirs_push(struct dirs *dirs, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	if (ARRAY_ROOM(dirs->levels, dirs->depth, dirs->room) < 0) {
		close(fd);
		return -ENOMEM;
	}
	if (dirs->depth > OPEN)
		close_level(&dirs->levels[dirs->depth - OPEN]);
	dirs->levels[dirs->depth++] = (struct dirs_level){ fd, st.st_dev, st.st_ino };
	return 0;
}

int dirs_pop(struct dirs *dirs)
{
	_cleanup_(closep) int below = dirs->levels[--dirs->depth].fd;
	struct dirs_level *level = dirs->depth ? &dirs->levels[dirs->depth - 1] : NULL;
	struct stat st;

	if (!level || level->fd >= 0)
		return 0;
	level->fd = openat(below, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (level->fd < 0 || fstat(level->fd, &st) < 0)
		return -errno;
	if (st.st_dev == level->dev && st.st_ino == level->ino)
		return 0;
	close_level(level);
	return -ESTALE;
}

void dirs_done(struct dirs *dirs)
{
	while (dirs->depth)
		close_level(&dirs->levels[--dirs->depth]);
	free(dirs->levels);
	*dirs = (struct dirs){ 0 };
}
