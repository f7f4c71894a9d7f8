/* SPDX-License-Identifier: MIT */
#include "src/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/user/say.h"

/* The end of the pipe by which the child reports that it is ready; -1: no process waits for that.
 */
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
	if (WIFSIGNALED(status))
		return log_fail(EXIT_FAILURE, "the daemon ended before the mount answered: %s",
				strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) == 0)
		return log_fail(EXIT_FAILURE, "the mount ended before it answered");
	return WEXITSTATUS(status);
}

/* Returns the number of a signal, or 0 when the descriptor can be read. */
static int wait_for(int fd, int signals)
{
	struct pollfd fds[] = { { signals, POLLIN, 0 }, { fd, POLLIN, 0 } };
	struct signalfd_siginfo info;

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno == EINTR)
		;
	if (!fds[0].revents || read(signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

/* End the child first: when our end by a signal is seen, there must not be a mount. */
static int end_by(int number, pid_t pid)
{
	sigset_t set;

	kill(pid, SIGTERM);
	sigemptyset(&set);
	sigaddset(&set, number);
	signal(number, SIG_DFL);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return EXIT_FAILURE;
}

/* Ask in another process: a process that waits for the answer would not end on the watched signals.
 */
static int daemon_check(const struct daemon *daemon, pid_t pid, int signals, const sigset_t *before)
{
	pid_t asker = fork();
	int status = 0, number;

	if (asker == 0) {
		sigprocmask(SIG_SETMASK, before, NULL);
		_exit(daemon->answers(daemon->arg) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	while (asker > 0 && waitpid(asker, &status, WNOHANG) == 0) {
		number = wait_for(-1, signals);
		if (number != SIGCHLD)
			return end_by(number, pid);
	}
	if (status == 0)
		return EXIT_SUCCESS;
	kill(pid, SIGTERM);
	return EXIT_FAILURE;
}

static int daemon_wait(const struct daemon *daemon, pid_t pid, int fd, int signals,
		       const sigset_t *before)
{
	ssize_t size;
	int number;
	char byte;

	do
		number = wait_for(fd, signals);
	while (number == SIGCHLD);
	if (number)
		return end_by(number, pid);
	do
		size = read(fd, &byte, 1);
	while (size < 0 && errno == EINTR);
	return size == 1 ? daemon_check(daemon, pid, signals, before) : daemon_status(pid);
}

int daemon_start(const struct daemon *daemon)
{
	_cleanup_(closep) int read_end = -1;
	_cleanup_(closep) int signals = -1;
	static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	struct sigaction action;
	sigset_t set, before;
	int ends[2];
	pid_t pid;

	/* The signals that end the waiting parent, and SIGCHLD; signals that nohup(1) ignores stay
	 * ignored. */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, numbers[i]);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return log_fail(EXIT_FAILURE, "cannot create a pipe: %s", strerror(errno));
	read_end = ends[0];
	sigprocmask(SIG_BLOCK, &set, &before);
	pid = fork();
	if (pid < 0) {
		log_error("cannot start a process: %s", strerror(errno));
		close(ends[1]);
		return EXIT_FAILURE;
	}
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		close(read_end);
		close(signals);
		ready_fd = ends[1];
		exit(daemon->run(daemon->arg));
	}
	close(ends[1]);
	return daemon_wait(daemon, pid, read_end, signals, &before);
}
