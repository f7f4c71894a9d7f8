/* SPDX-License-Identifier: MIT */
#include "src/unmounter.h"

#include <errno.h>
#include <fcntl.h>
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
#include "src/guard.h"
#include "src/mounts.h"

enum { LIMIT_MS = 10000 };

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
	prctl(PR_SET_NAME, "sessfs-unmount");
}

/* A user's unmounter has no rights, and must be able to call fusermount3. */
static void give_up_rights(void)
{
	if (geteuid() != 0)
		return;
	guard_keep_capabilities(1ULL << CAP_SYS_ADMIN | 1ULL << CAP_DAC_READ_SEARCH);
	guard_no_new_privileges();
}

static void serve(int fd, const char *dir)
{
	_cleanup_(freep) char *why = NULL;
	char order;
	int r;

	stand_alone(&fd);
	give_up_rights();
	if (read(fd, &order, 1) != 1)
		return;
	r = mounts_end_ours(dir, &why);
	if (r < 0 && !why)
		dprintf(fd, "%s", strerror(-r));
	else if (r < 0)
		dprintf(fd, "%s", why);
}

int unmounter_start(struct unmounter *unmounter, const char *dir)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
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
	*unmounter = (struct unmounter){ .pid = pid, .fd = ends[0] };
	return 0;
}

/* Its answer is its end, with a sentence before it when something went wrong. */
void unmounter_unmount(struct unmounter *unmounter)
{
	struct pollfd answer = { .fd = unmounter->fd, .events = POLLIN };
	char why[1024];
	ssize_t size = 0;

	if (write(unmounter->fd, "", 1) != 1 || poll(&answer, 1, LIMIT_MS) <= 0) {
		log_error("the unmounter does not answer");
		return;
	}
	size = read(unmounter->fd, why, sizeof(why) - 1);
	if (size <= 0)
		return;
	why[size] = '\0';
	log_error("%s", why);
}

void unmounter_done(struct unmounter *unmounter)
{
	if (unmounter->fd < 0)
		return;
	close(unmounter->fd);
	waitpid(unmounter->pid, NULL, 0);
	unmounter->fd = -1;
}
