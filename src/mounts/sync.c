/* SPDX-License-Identifier: MIT */
/*
 * Syncing by a mount that may not answer.
 *
 * Once the daemon has taken its request, a process that waits for the answer cannot be interrupted.
 * So a child waits, and we leave the child alone when it takes too long.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "src/mounts/mounts.h"

enum { UNKNOWN = 1 };

/* 0, -errno of the sync, or UNKNOWN when the daemon cannot be asked. */
static int sync_root(const struct mount_entry *entry)
{
	_cleanup_(closep) int root = mounts_open(entry);

	if (root < 0)
		return UNKNOWN;
	if (fsync(root) == 0)
		return 0;
	/* The daemon was killed meanwhile. */
	return errno == ENOTCONN || errno == ECONNABORTED ? UNKNOWN : -errno;
}

static bool is_readable(int fd, int limit)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, limit) > 0;
}

int mounts_sync(const struct mount_entry *entry, int limit)
{
	enum { END_LIMIT = 1000 }; /* milliseconds for the end of a child that was killed */
	int ends[2], result = UNKNOWN;
	_cleanup_(closep) int ear = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return UNKNOWN;
	ear = ends[0];
	pid = fork();
	if (pid == 0) {
		result = sync_root(entry);
		_exit(write(ends[1], &result, sizeof(result)) != sizeof(result));
	}
	close(ends[1]);
	if (pid < 0)
		return UNKNOWN;
	if (!is_readable(ear, limit)) {
		kill(pid, SIGKILL);
		if (!is_readable(ear, END_LIMIT))
			return -ETIMEDOUT;
		result = -ETIMEDOUT;
	} else if (read(ear, &result, sizeof(result)) != sizeof(result)) {
		result = UNKNOWN;
	}
	/* Only after its end the child no longer has the mount open. */
	waitpid(pid, NULL, 0);
	return result;
}
