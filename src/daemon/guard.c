/* SPDX-License-Identifier: MIT */
#include "src/daemon/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "src/mounts/trust.h"

/*
 * The C library sets ids for all threads at once.  The calls of the kernel are for one thread,
 * which is what we need; where there are two generations of them, the newer one is meant.
 */
#ifdef SYS_setresuid32
#define CALL_SETRESUID SYS_setresuid32
#define CALL_SETRESGID SYS_setresgid32
#define CALL_SETGROUPS SYS_setgroups32
#else
#define CALL_SETRESUID SYS_setresuid
#define CALL_SETRESGID SYS_setresgid
#define CALL_SETGROUPS SYS_setgroups
#endif

enum { GROUPS_MAX = 65536 };

/* The least that lets root work on a store in a place where its owner cannot: reach and change
 * files, and give those that SQLite makes beside it to the owner, as SQLite does for root. */
static const uint64_t caps_of_root =
	1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_CHOWN | 1ULL << CAP_FOWNER;

void guard_close_from(int fd)
{
#ifdef SYS_close_range
	if (syscall(SYS_close_range, fd, ~0U, 0) == 0)
		return;
#endif
	while (fd < sysconf(_SC_OPEN_MAX))
		close(fd++);
}

void guard_begin(bool debug)
{
	/* With a limit of 0, a program that receives the system's dumps would still get one; only a
	 * limit of 1 suppresses dumps altogether (fs/coredump.c). */
	const struct rlimit none = { 1, 1 };

	guard_close_from(STDERR_FILENO + 1);
	descriptor_fill();
	if (debug)
		return;
	/* A dump would hold what is in the sessions, and may be sent elsewhere. */
	setrlimit(RLIMIT_CORE, &none);
	/* A user's daemon holds nothing that the user's other processes could not open. */
	if (geteuid() == 0)
		prctl(PR_SET_DUMPABLE, 0);
}

void guard_choose_temporary(const char *dir)
{
	const char *const folders[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
	size_t size = strlen(dir);
	bool inside = false;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_(freep) char *path = folders[i] ? realpath(folders[i], NULL) : NULL;

		if (!path)
			continue;
		if (strncmp(path, dir, size) == 0 && (!path[size] || path[size] == '/')) {
			inside = true;
			continue;
		}
		if (inside)
			log_notice("%s hides the directory for temporary files, so they are made "
				   "in %s",
				   dir, path);
		setenv("TMPDIR", path, 1);
		return;
	}
	unsetenv("TMPDIR");
}

/* The owner's groups.  The first one is that of the store, if it is among them: files beside the
 * store are for the same people. */
static int plan_groups(struct guard *guard, const struct stat *st)
{
	const struct passwd *user = getpwuid(st->st_uid);
	int count = GROUPS_MAX;

	if (!user)
		return 0;
	guard->groups = calloc(GROUPS_MAX, sizeof(*guard->groups));
	if (!guard->groups)
		return -ENOMEM;
	if (getgrouplist(user->pw_name, user->pw_gid, guard->groups, &count) < 0)
		count = 0;
	guard->n_groups = (size_t)count;
	guard->gid = user->pw_gid;
	for (size_t i = 0; i < guard->n_groups; i++)
		if (guard->groups[i] == st->st_gid)
			guard->gid = st->st_gid;
	return 0;
}

/* Root's daemon becomes the owner of path, or of folder if path does not exist. */
static int plan_owner(struct guard *guard, const char *path, const char *folder)
{
	struct stat st;

	if (geteuid() != 0 || (stat(path, &st) < 0 && stat(folder, &st) < 0))
		return 0;
	/* A process cannot become a user without a number. */
	if (trust_is_unmapped(st.st_uid))
		st.st_uid = 0;
	guard->uid = st.st_uid;
	guard->gid = st.st_uid == 0 ? getegid() : st.st_gid;
	guard->becomes = true;
	return st.st_uid == 0 ? 0 : plan_groups(guard, &st);
}

int guard_plan(struct guard *guard, const char *store, bool read_only)
{
	const char *slash;

	*guard = (struct guard){ .makes_files = read_only };
	if (!store)
		return 0;
	slash = strrchr(store, '/');
	guard->store = bytes_dup(bytes_str(store));
	guard->folder = bytes_dup(bytes_make(store, slash == store ? 1 : (size_t)(slash - store)));
	if (!guard->store || !guard->folder)
		return -ENOMEM;
	return plan_owner(guard, store, guard->folder);
}

int guard_plan_server(struct guard *guard, const char *dir, unsigned port, const char *file)
{
	*guard = (struct guard){ .connects = true, .port = port };
	if (file)
		guard->file = bytes_dup(bytes_str(file));
	if (file && !guard->file)
		return -ENOMEM;
	return plan_owner(guard, dir, dir);
}

void guard_done(struct guard *guard)
{
	free(guard->store);
	free(guard->folder);
	free(guard->file);
	free(guard->groups);
	if (guard->rules)
		close(guard->rules);
	*guard = (struct guard){ 0 };
}

/* The bounding set: rights that even a program of root could not get back.  Lowering it needs
 * CAP_SETPCAP, so do it before giving that up. */
static void bound_capabilities(uint64_t kept)
{
	for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		if (!(kept >> i & 1))
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
}

int guard_keep_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	bound_capabilities(kept);
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= (uint32_t)(kept >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int guard_no_new_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static const char *why_not(int error)
{
	return error == -ENOSYS ? "this system does not have it" : strerror(-error);
}

static int give_up_rights(const struct guard *guard)
{
	const size_t groups = guard->kept ? 0 : guard->n_groups;

	bound_capabilities(guard->kept); /* before the right to do so goes with the id */
	/* Where root may not choose its groups, it keeps those that it has. */
	if (guard->becomes && syscall(CALL_SETGROUPS, groups, guard->groups) < 0)
		log_info("cannot drop the groups of root: %s", strerror(errno));
	if (guard->becomes && !guard->kept &&
	    (syscall(CALL_SETRESGID, guard->gid, guard->gid, guard->gid) < 0 ||
	     syscall(CALL_SETRESUID, guard->uid, guard->uid, guard->uid) < 0))
		return -errno;
	return guard_keep_capabilities(guard->kept);
}

int guard_enter(const struct guard *guard)
{
	int r = give_up_rights(guard);
	int error;

	if (r < 0)
		return r;
	error = guard_no_new_privileges();
	if (error < 0)
		log_info("cannot set no_new_privs: %s", why_not(error));
	error = guard_paths(guard);
	if (error < 0)
		log_info("Landlock does not restrict access to other files: %s", why_not(error));
	error = guard_calls(guard);
	if (error < 0)
		log_info("seccomp does not filter system calls: %s", why_not(error));
	return 0;
}

/* A function for a thread, and its result. */
struct errand {
	struct guard *guard;
	int (*run)(void *arg);
	void *arg;
	int result;
	bool refused; /* we cannot become the owner, or the owner's rights are not enough */
};

/* Whether the store can be used with the rights that are left. */
static bool is_reachable(const struct guard *guard)
{
	int folder = guard->makes_files ? X_OK : R_OK | W_OK | X_OK;
	int store = guard->makes_files ? R_OK : R_OK | W_OK;

	if (!guard->store)
		return true;
	if (faccessat(AT_FDCWD, guard->folder, folder, AT_EACCESS) < 0)
		return false;
	return faccessat(AT_FDCWD, guard->store, store, AT_EACCESS) == 0 || errno == ENOENT;
}

static void *run_errand(void *arg)
{
	struct errand *errand = arg;
	const struct guard *guard = errand->guard;
	int r = guard_enter(guard);

	if (guard->becomes && !guard->kept && (r < 0 || !is_reachable(guard)))
		errand->refused = true;
	else
		errand->result = r < 0 ? r : errand->run(errand->arg);
	return NULL;
}

static int run_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	int r = -pthread_create(&thread, NULL, run, arg);

	return r < 0 ? r : -pthread_join(thread, NULL);
}

static void *wait_for_cancel(void *arg)
{
	const struct timespec step = { .tv_sec = 1 };

	for (;;)
		nanosleep(&step, NULL);
	return arg;
}

int guard_run(struct guard *guard, int (*run)(void *arg), void *arg)
{
	struct errand errand = { .guard = guard, .run = run, .arg = arg };
	pthread_t thread;
	int r;

	/* The C library reads some files when they are first needed, which would then be too late:
	 * the one that ends threads, and the one that tells the time zone to the log. */
	tzset();
	if (pthread_create(&thread, NULL, wait_for_cancel, NULL) == 0) {
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	r = guard_rules(guard);
	guard->rules = r < 0 ? 0 : r;
	r = run_thread(run_errand, &errand);
	if (r == 0 && errand.refused) {
		if (guard->store)
			log_info("%s cannot be used as user %u, so the daemon stays root, with the "
				 "right to change files",
				 guard->store, (unsigned)guard->uid);
		else
			log_info("the daemon cannot become user %u, so it stays root",
				 (unsigned)guard->uid);
		errand.refused = false;
		guard->becomes = guard->store;
		guard->kept = guard->store ? caps_of_root : 0;
		r = run_thread(run_errand, &errand);
	}
	return r < 0 ? r : errand.result;
}
