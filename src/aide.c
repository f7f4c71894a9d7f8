/* SPDX-License-Identifier: MIT */
#include "src/aide.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/descriptors.h"
#include "src/guard.h"
#include "src/mounts.h"

enum {
	UNMOUNT_MS = 10000,
	COUNT_MS = 1000,
};

/* A datagram: with a name it asks for its descriptors, without it orders to unmount. */
struct question {
	uint64_t ino;
	pid_t pid;
	int access;
	char name[NAME_MAX + 1];
};

/* It must not hold what the daemon's parent waits for, nor die of the signals that are meant for
 * the daemon: both are sent to whole groups of processes. */
static void stand_alone(int *fd)
{
	static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE };
	int null = open("/dev/null", O_RDWR);

	for (int number = STDIN_FILENO; number <= STDERR_FILENO && null >= 0; number++)
		dup2(null, number);
	dup2(*fd, STDERR_FILENO + 1);
	*fd = STDERR_FILENO + 1;
	fcntl(*fd, F_SETFD, FD_CLOEXEC);
	guard_close_from(*fd + 1);
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	setsid();
	if (chdir("/") < 0)
		log_warning("cannot leave the current folder: %s", strerror(errno));
	prctl(PR_SET_NAME, "sessfs-aide");
}

/* A user's aide has no rights, and must be able to call fusermount3. */
static void give_up_rights(void)
{
	if (geteuid() != 0)
		return;
	guard_keep_capabilities(1ULL << CAP_SYS_ADMIN | 1ULL << CAP_DAC_READ_SEARCH |
				1ULL << CAP_SYS_PTRACE);
	guard_no_new_privileges();
}

static void unmount(int fd, const char *dir)
{
	_cleanup_(freep) char *why = NULL;
	int r = mounts_end_ours(dir, &why);

	if (r < 0 && !why)
		dprintf(fd, "%s", strerror(-r));
	else if (r < 0)
		dprintf(fd, "%s", why);
}

static void serve(int fd, const char *dir)
{
	struct question question;

	stand_alone(&fd);
	give_up_rights();
	while (read(fd, &question, sizeof(question)) == sizeof(question)) {
		unsigned count;

		question.name[NAME_MAX] = '\0';
		if (!*question.name) {
			unmount(fd, dir);
			return;
		}
		count = descriptors_count(question.pid, question.ino, question.access,
					  question.name);
		if (write(fd, &count, sizeof(count)) != sizeof(count))
			return;
	}
}

int aide_start(struct aide *aide, const char *dir)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		int error = errno;

		close(ends[0]);
		close(ends[1]);
		return -error;
	}
	if (pid == 0) {
		serve(ends[1], dir);
		_exit(0);
	}
	close(ends[1]);
	aide->pid = pid;
	aide->fd = ends[0];
	pthread_mutex_init(&aide->lock, NULL);
	return 0;
}

/* Bytes of the answer, or -1. */
static ssize_t ask(struct aide *aide, const struct question *question, void *answer, size_t size,
		   int limit)
{
	struct pollfd ready = { .fd = aide->fd, .events = POLLIN };

	if (write(aide->fd, question, sizeof(*question)) != sizeof(*question) ||
	    poll(&ready, 1, limit) <= 0)
		return -1;
	return read(aide->fd, answer, size);
}

unsigned aide_count(struct aide *aide, pid_t pid, uint64_t ino, int access, struct bytes name)
{
	struct question question = { .ino = ino, .pid = pid, .access = access };
	unsigned count = 0;

	if (!name.size || name.size > NAME_MAX)
		return 0;
	memcpy(question.name, name.data, name.size);
	pthread_mutex_lock(&aide->lock);
	/* A late answer would be taken for that of the next question. */
	if (!aide->mute && ask(aide, &question, &count, sizeof(count), COUNT_MS) != sizeof(count)) {
		log_error("the process that counts descriptors does not answer");
		count = 0;
		aide->mute = true;
	}
	pthread_mutex_unlock(&aide->lock);
	return count;
}

/* Its answer is its end, with a sentence before it when something went wrong. */
void aide_unmount(struct aide *aide)
{
	const struct question order = { 0 };
	char why[1024];
	ssize_t size = ask(aide, &order, why, sizeof(why) - 1, UNMOUNT_MS);

	if (size < 0) {
		log_error("the process that unmounts does not answer");
	} else if (size > 0) {
		why[size] = '\0';
		log_error("%s", why);
	}
}

void aide_done(struct aide *aide)
{
	close(aide->fd);
	waitpid(aide->pid, NULL, 0);
	pthread_mutex_destroy(&aide->lock);
}
