/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "src/cmd/input.h"
#include "src/user/stop.h"

/* A signal comes in the last moment before the call that waits for this descriptor. */
static int waited = -1;

static void come(int fd)
{
	if (fd != waited)
		return;
	waited = -1;
	raise(SIGINT);
}

ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __wrap_read(int fd, void *data, size_t size);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
		 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
		 const sigset_t *mask);

ssize_t __wrap_read(int fd, void *data, size_t size)
{
	come(fd);
	return __real_read(fd, data, size);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
		 const sigset_t *mask)
{
	come(fds->fd);
	return __real_ppoll(fds, count, limit, mask);
}

Test(stop, ends_a_read_of_the_input_however_late_the_signal_comes, .timeout = 600)
{
	struct buf data = { 0 };
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	stop_watch();
	cr_assert_eq(write(ends[1], "1\n", 2), 2);
	cr_assert_eq(input_block(ends[0], &data), 1);
	cr_expect_eq(data.size, 2);

	waited = ends[0];
	cr_expect_eq(input_block(ends[0], &data), -EINTR);
	cr_expect(stop_wanted());
	buf_done(&data);
}
