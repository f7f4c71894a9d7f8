/* SPDX-License-Identifier: MIT */
#include "src/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/user/say.h"

/* The pipe's end on which the child tells that it is ready; -1: nobody waits. */
static int ready_fd = -1;

void daemon_ready(void)
{
	int null;
	ssize_t told;

	if (ready_fd < 0)
		return;
	setsid();
	if (chdir("/") < 0)
		log_warning("cannot leave the current directory: %s", strerror(errno));
	say_to_log();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && null >= 0; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
	told = write(ready_fd, "", 1);
	if (told < 0)
		log_warning("cannot report that the mount is ready: %s", strerror(errno));
	close(ready_fd);
	ready_fd = -1;
}

/* The child's exit status, for a child that ended before it was ready. */
static int daemon_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_FAILURE;
	}
	if (WIFSIGNALED(status)) {
		log_error("the daemon ended before the mount answered: %s",
			  strsignal(WTERMSIG(status)));
		return EXIT_FAILURE;
	}
	if (WEXITSTATUS(status) == 0) {
		log_error("the mount ended before it answered");
		return EXIT_FAILURE;
	}
	return WEXITSTATUS(status);
}

static int daemon_wait(const struct daemon *daemon, pid_t pid, int fd)
{
	char byte;
	ssize_t size;

	do
		size = read(fd, &byte, 1);
	while (size < 0 && errno == EINTR);
	if (size != 1)
		return daemon_status(pid);
	if (daemon->answers(daemon->arg) == 0)
		return EXIT_SUCCESS;
	kill(pid, SIGTERM);
	return EXIT_FAILURE;
}

int daemon_start(const struct daemon *daemon)
{
	_cleanup_(closep) int read_end = -1;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		log_error("cannot create a pipe: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	read_end = ends[0];
	pid = fork();
	if (pid < 0) {
		log_error("cannot start a process: %s", strerror(errno));
		close(ends[1]);
		return EXIT_FAILURE;
	}
	if (pid == 0) {
		close(read_end);
		ready_fd = ends[1];
		exit(daemon->run(daemon->arg));
	}
	close(ends[1]);
	return daemon_wait(daemon, pid, read_end);
}
