/* SPDX-License-Identifier: MIT */
#include "src/daemon/aide.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/daemon/descriptors.h"
#include "src/daemon/guard.h"
#include "src/mounts/mounts.h"

enum {
	UNMOUNT_MS = 10000,
	FIND_MS = 1000,
	END_MS = 1000, /* from the death of the first thread to that of the last */
};

enum { ASK_OPEN, ASK_UNMOUNT, TELL_DEVICE, TELL_END };

/* A datagram. */
struct question {
	int what;
	unsigned number; /* of ASK_OPEN, which the answer repeats */
	unsigned device;
	uint64_t nodeid;
	pid_t pid;
	unsigned access;
};

struct found {
	unsigned number;
	int r; /* descriptors_find() */
};

/* The aide must not hold descriptors that the daemon's parent waits for, nor die of the signals
 * that are meant for the daemon: both go to whole groups of processes. */
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
		log_warning("cannot leave the current directory: %s", strerror(errno));
	prctl(PR_SET_NAME, "sessfs-aide");
}

static void on_signal(int number)
{
	(void)number;
}

/* Look, since other processes of its user can send the signal, too. */
static bool is_dead(pid_t pid)
{
	char name[64], text[512];
	_cleanup_(closep) int fd = -1;
	const char *behind;
	ssize_t size;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (size < 0)
		return true;
	text[size] = '\0';
	behind = strrchr(text, ')'); /* of the command's name */
	return behind && (strncmp(behind, ") Z", 3) == 0 || strncmp(behind, ") X", 3) == 0);
}

struct serving {
	int fd;
	const char *dir;
	pid_t daemon;
	unsigned device; /* 0: not known */
	bool ends;	 /* it has said so */
};

/* False when it is time to end. */
static bool answer(struct serving *serving)
{
	_cleanup_(freep) char *why = NULL;
	struct question question;
	struct found found;
	int r;

	if (read(serving->fd, &question, sizeof(question)) != sizeof(question))
		return false;
	switch (question.what) {
	case TELL_DEVICE:
		serving->device = question.device;
		return true;
	case ASK_UNMOUNT:
		r = mounts_end_ours(serving->dir, &why);
		if (r < 0)
			dprintf(serving->fd, "%s", why ? why : strerror(-r));
		serving->ends = true;
		return false;
	case TELL_END:
		serving->ends = true;
		return false;
	default:
		found.number = question.number;
		found.r = descriptors_find(question.pid, serving->device, question.nodeid,
					   question.access);
		return write(serving->fd, &found, sizeof(found)) == sizeof(found);
	}
}

static void on_death(const struct serving *serving)
{
	struct pollfd end = { .fd = serving->fd };
	int r;

	/* The last thread of the daemon closes the other end. */
	if (!serving->device || !is_dead(serving->daemon) || poll(&end, 1, END_MS) > 0)
		return;
	r = mounts_abort(serving->device);
	if (r < 0)
		log_error("the kernel holds a thread of the daemon that was killed on %s, and its "
			  "connection cannot be aborted: %s",
			  serving->dir, strerror(-r));
}

/* The device may be closed a moment after the daemon's end is reported, so try again.  libfuse does
 * not help: fusermount3 refuses to unmount a mount that root may not look at (3.14,
 * recheck_ENOTCONN_as_owner()). */
static void remove_dead(const struct serving *serving)
{
	enum { STEP = 20 };
	_cleanup_(freep) char *why = NULL;
	int r = 0;

	for (int waited = 0; r == 0 && waited < END_MS; waited += STEP) {
		r = mounts_end_dead(serving->dir, &why);
		usleep(STEP * 1000);
	}
	if (r < 0)
		log_error("%s", why ? why : strerror(-r));
}

static void serve(struct serving *serving, int fd)
{
	struct pollfd asked = { .events = POLLIN };
	sigset_t set, waiting;

	stand_alone(&fd);
	/* A user's aide has no rights, and must be able to call fusermount3. */
	if (geteuid() == 0) {
		guard_keep_capabilities(1ULL << CAP_SYS_ADMIN | 1ULL << CAP_DAC_READ_SEARCH |
					1ULL << CAP_SYS_PTRACE);
		guard_no_new_privileges();
	}
	/* SIGUSR1 comes when the daemon's first thread ends, even if the others cannot.  It
	 * interrupts only ppoll() with this set. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &waiting);
	sigdelset(&waiting, SIGUSR1);
	signal(SIGUSR1, on_signal);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	serving->fd = asked.fd = fd;
	for (;;) {
		if (ppoll(&asked, 1, NULL, &waiting) > 0) {
			if (!answer(serving))
				return;
		} else if (errno == EINTR) {
			on_death(serving);
		} else {
			return;
		}
	}
}

int aide_start(struct aide *aide, const char *dir, bool auto_unmount)
{
	struct serving serving = { .dir = dir, .daemon = getpid() };
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
		serve(&serving, ends[1]);
		if (auto_unmount && !serving.ends)
			remove_dead(&serving);
		_exit(0);
	}
	close(ends[1]);
	aide->pid = pid;
	aide->fd = ends[0];
	pthread_mutex_init(&aide->lock, NULL);
	return 0;
}

/* Bytes of the answer, or -1. */
static ssize_t aide_ask(struct aide *aide, const struct question *question, void *answer,
			size_t size, int limit)
{
	struct pollfd ready = { .fd = aide->fd, .events = POLLIN };

	if (write(aide->fd, question, sizeof(*question)) != sizeof(*question) ||
	    poll(&ready, 1, limit) <= 0)
		return -1;
	return read(aide->fd, answer, size);
}

void aide_tell_device(struct aide *aide, unsigned device)
{
	const struct question note = { .what = TELL_DEVICE, .device = device };

	if (write(aide->fd, &note, sizeof(note)) != sizeof(note))
		log_warning("the helper process of the daemon has ended");
}

int aide_has_open(struct aide *aide, pid_t pid, uint64_t nodeid, unsigned access)
{
	struct found found = { .r = -EIO }, late;

	pthread_mutex_lock(&aide->lock);
	/* The aide gets no new question until it has answered. */
	while (aide->waits &&
	       recv(aide->fd, &late, sizeof(late), MSG_DONTWAIT) == (ssize_t)sizeof(late))
		aide->waits = late.number != aide->number;
	if (!aide->waits) {
		const struct question question = {
			.what = ASK_OPEN,
			.number = ++aide->number,
			.nodeid = nodeid,
			.pid = pid,
			.access = access,
		};

		aide->waits = aide_ask(aide, &question, &found, sizeof(found), FIND_MS) !=
			      (ssize_t)sizeof(found);
		if (aide->waits)
			log_error("the process that looks for descriptors does not answer");
	}
	pthread_mutex_unlock(&aide->lock);
	return found.r;
}

/* The aide answers by ending, with a sentence before it when something went wrong. */
void aide_unmount(struct aide *aide)
{
	const struct question order = { .what = ASK_UNMOUNT };
	char why[1024];
	ssize_t size = aide_ask(aide, &order, why, sizeof(why) - 1, UNMOUNT_MS);

	if (size < 0) {
		log_error("the process that unmounts does not answer");
	} else if (size > 0) {
		why[size] = '\0';
		log_error("%s", why);
	}
}

void aide_done(struct aide *aide)
{
	const struct question note = { .what = TELL_END };

	send(aide->fd, &note, sizeof(note), MSG_NOSIGNAL);
	close(aide->fd);
	waitpid(aide->pid, NULL, 0);
	pthread_mutex_destroy(&aide->lock);
}
