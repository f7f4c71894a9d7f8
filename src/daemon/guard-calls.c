/* SPDX-License-Identifier: MIT */
/*
 * seccomp: which calls of the kernel there are.  The list has the calls that libfuse, SQLite, the C
 * library and we make while a mount is served, in this and in neighbouring versions.  All others
 * (execve, mount, ptrace, future ones) answer ENOSYS as in a kernel that does not have them: a
 * library that tries a newer call first then falls back on one of the list.
 */
#include <errno.h>
#include <stddef.h>

#include "backend/base/cleanup.h"
#include "src/daemon/guard.h"

#ifdef HAVE_SECCOMP
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* A line for each of them would hide the groups. */
/* clang-format off */
static const char *const calls[] = {
	/* Files that are open, or that Landlock lets us open. */
	"access", "faccessat", "faccessat2", "open", "openat", "close", "close_range", "read",
	"readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev",
	"pwritev2", "lseek", "_llseek", "dup", "dup2", "dup3", "pipe2", "fcntl", "fcntl64",
	"flock", "stat", "stat64", "lstat", "lstat64", "fstat", "fstat64", "newfstatat",
	"fstatat64", "statx", "statfs", "statfs64", "fstatfs", "fstatfs64", "readlink",
	"readlinkat", "getcwd", "chdir", "umask", "getdents", "getdents64", "ftruncate",
	"ftruncate64", "fallocate", "fadvise64", "fadvise64_64", "sync_file_range", "fsync",
	"fdatasync", "syncfs", "unlink", "unlinkat", "fchmod", "fchown", "fchown32", "utimensat",
	"utimensat_time64", "splice", "tee", "vmsplice", "sendfile", "sendfile64",
	"copy_file_range", "ioctl",
	/* Waiting. */
	"poll", "ppoll", "ppoll_time64", "select", "pselect6", "pselect6_time64", "epoll_create1",
	"epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2", "inotify_init1",
	"inotify_add_watch", "inotify_rm_watch", "timerfd_create", "timerfd_settime",
	"timerfd_settime64", "nanosleep", "clock_nanosleep", "clock_nanosleep_time64", "pause",
	"restart_syscall", "futex", "futex_time64", "futex_wait", "futex_wake", "futex_requeue",
	/* Memory and time. */
	"brk", "munmap", "mremap", "madvise", "msync", "mincore", "mlock", "munlock",
	"membarrier", "clock_gettime", "clock_gettime64", "clock_getres", "clock_getres_time64",
	"gettimeofday", "time", "times", "getrandom", "sysinfo", "uname", "getrusage",
	"getrlimit", "ugetrlimit",
	/* Threads, signals to ourselves, the end. */
	"set_robust_list", "get_robust_list", "rseq", "set_tid_address", "gettid", "getpid",
	"getppid", "getuid", "getuid32", "geteuid", "geteuid32", "getgid", "getgid32", "getegid",
	"getegid32", "setsid", "getpgrp", "sched_yield", "sched_getaffinity", "getcpu",
	"sched_getparam", "sched_getscheduler", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
	"rt_sigpending", "rt_sigtimedwait", "rt_sigtimedwait_time64", "rt_sigsuspend",
	"sigaltstack", "sigreturn", "tgkill", "alarm", "setitimer", "wait4", "waitid", "exit",
	"exit_group",
	/* A socket that is connected (the log's, the aide's). */
	"connect", "send", "sendto", "sendmsg", "recv", "recvfrom", "recvmsg", "shutdown",
	"getsockopt", "arch_prctl",
};
/* clang-format on */

/* For a store on a server; a name is asked for with sendmmsg(). */
static const char *const connecting_calls[] = {
	"setsockopt", "getsockname", "getpeername", "bind", "sendmmsg", "recvmmsg",
};

/* Of these, what the mask leaves of an argument must be the value. */
static const struct {
	const char *name;
	unsigned argument;
	uint64_t mask, value;
} limited[] = {
	/* No processes; clone3 cannot be looked into, so it is not there. */
	{ "clone", 0, CLONE_THREAD, CLONE_THREAD },
	{ "prctl", 0, ~0ULL, PR_SET_NAME },
	{ "prctl", 0, ~0ULL, PR_GET_NAME },
	{ "prlimit64", 2, ~0ULL, 0 }, /* only asked for */
	/* Nothing becomes a program that was not one at the start. */
	{ "mmap", 2, PROT_EXEC, 0 },
	{ "mmap2", 2, PROT_EXEC, 0 },
	{ "mprotect", 2, PROT_EXEC, 0 },
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* The search for leaks stops all threads by tracing them, from a process made for that. */
static const char *const sanitizer_calls[] = {
	"clone",       "ptrace",	   "prctl",   "kill", "setrlimit", "prlimit64",
	"personality", "process_vm_readv", "openat2",
};
#endif

/* A name that this version of the library or this machine does not have is not needed here. */
static int allow(scmp_filter_ctx filter, const char *name, unsigned count,
		 const struct scmp_arg_cmp *arguments)
{
	int number = seccomp_syscall_resolve_name(name);
	int r;

	if (number == __NR_SCMP_ERROR)
		return 0;
	r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, count, arguments);
	return r == -EDOM || r == -EEXIST ? 0 : r;
}

/* Which sockets can be made, and for what. */
enum socket_use { LOGS, CONNECTS, CONNECTS_BY_TCP };
static const struct {
	enum socket_use use;
	int family;
	unsigned type;
} sockets[] = {
	{ LOGS, AF_UNIX, SOCK_DGRAM }, /* to a name in the file system: how one talks to syslog */
	{ CONNECTS, AF_UNIX, SOCK_STREAM },
	{ CONNECTS_BY_TCP, AF_INET, SOCK_STREAM },
	{ CONNECTS_BY_TCP, AF_INET6, SOCK_STREAM },
	{ CONNECTS_BY_TCP, AF_INET, SOCK_DGRAM }, /* to name servers */
	{ CONNECTS_BY_TCP, AF_INET6, SOCK_DGRAM },
	{ CONNECTS_BY_TCP, AF_NETLINK, SOCK_RAW }, /* which addresses this machine has */
};

static int allow_sockets(scmp_filter_ctx filter, enum socket_use use)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sockets); i++) {
		const struct scmp_arg_cmp arguments[] = {
			{ .arg = 0, .op = SCMP_CMP_EQ, .datum_a = (unsigned)sockets[i].family },
			{ .arg = 1,
			  .op = SCMP_CMP_MASKED_EQ,
			  .datum_a = 0xf,
			  .datum_b = sockets[i].type },
		};

		if (sockets[i].use <= use)
			r = allow(filter, "socket", ARRAY_SIZE(arguments), arguments);
	}
	return r;
}

static int allow_all(scmp_filter_ctx filter, const struct guard *guard)
{
	/* A store on a server connects again. */
	int r = allow_sockets(filter, !guard->connects ? LOGS :
				      guard->port      ? CONNECTS_BY_TCP :
							 CONNECTS);

	for (size_t i = 0; r == 0 && guard->connects && i < ARRAY_SIZE(connecting_calls); i++)
		r = allow(filter, connecting_calls[i], 0, NULL);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++)
		r = allow(filter, calls[i], 0, NULL);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sanitizer_calls); i++)
		r = allow(filter, sanitizer_calls[i], 0, NULL);
#endif
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(limited); i++) {
		const struct scmp_arg_cmp argument = { .arg = limited[i].argument,
						       .op = SCMP_CMP_MASKED_EQ,
						       .datum_a = limited[i].mask,
						       .datum_b = limited[i].value };

		r = allow(filter, limited[i].name, 1, &argument);
	}
	return r;
}

int guard_calls(const struct guard *guard)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int r;

	if (!filter)
		return -ENOMEM;
	/* Calls of another architecture answer ENOSYS, too. */
	r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
	if (r == 0)
		r = allow_all(filter, guard);
#if SCMP_VER_MAJOR > 2 || SCMP_VER_MINOR >= 5
	if (r == 0) /* a tree instead of a list */
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
#endif
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	/* The kernel was built without filters. */
	return r == -EINVAL || r == -ECANCELED ? -ENOSYS : r;
}

#else

int guard_calls(const struct guard *guard)
{
	(void)guard;
	return -ENOSYS;
}

#endif
