/* SPDX-License-Identifier: MIT */
/*
 * What a guarded thread cannot do any more.  Each case runs in a child, since nothing of it can be
 * taken back; the child says what is wrong.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "src/daemon/guard.h"
#include "src/daemon/signals.h"
#include "src/mounts/trust.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true; /* some of it is open to the sanitizers */
#else
static const bool sanitized = false;
#endif

static const uid_t stranger = 65534;

/* The child's pipe: what it writes is wrong. */
static int wrong;

#define EXPECT(condition, ...)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			dprintf(wrong, "%s:%d: ", __FILE__, __LINE__);                             \
			dprintf(wrong, __VA_ARGS__);                                               \
			dprintf(wrong, "\n");                                                      \
		}                                                                                  \
	} while (0)

static void in_child(void (*body)(void))
{
	char text[4096] = "";
	size_t used = 0;
	int ends[2], status;
	ssize_t size;
	pid_t pid;

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		wrong = ends[1];
		body();
		_exit(0);
	}
	close(ends[1]);
	while ((size = read(ends[0], text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)size;
	close(ends[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", status);
	cr_assert_eq(used, 0, "%s", text);
}

/* Folders, one of which holds the store; not where temporary files are, which is open to all. */
static char place[] = "/dev/shm/sessfs-guard-XXXXXX";
static char inside[128], outside[128], store[160];

static void make_places(void)
{
	if (access("/dev/shm", W_OK) < 0)
		cr_skip_test("there is no /dev/shm");
	cr_assert_not_null(mkdtemp(place));
	cr_assert_eq(chmod(place, 0755), 0);
	snprintf(inside, sizeof(inside), "%s/in", place);
	snprintf(outside, sizeof(outside), "%s/out", place);
	snprintf(store, sizeof(store), "%s/store.db", inside);
	cr_assert_eq(mkdir(inside, 0755), 0);
	cr_assert_eq(mkdir(outside, 0755), 0);
}

static void remove_places(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'", place);
	cr_assert_eq(system(command), 0);
}

static void plan(struct guard *guard)
{
	setenv("TMPDIR", "/nowhere", 1);
	EXPECT(guard_plan(guard, store, false) == 0, "no plan");
}

/* Calls, and what they answer before and after.  None of them does any harm when it is there. */

static long call_execve(void)
{
	char *const none[] = { NULL };

	return execve("/nowhere", none, none);
}

static long call_execveat(void)
{
	return syscall(SYS_execveat, -1, "/nowhere", NULL, NULL, 0);
}

static long call_mount(void)
{
	return mount("x", "/nowhere", "x", 0, NULL);
}

static long call_umount(void)
{
	return umount2("/nowhere", 0);
}

static long call_ptrace(void)
{
	return ptrace(PTRACE_CONT, 1 << 30, NULL, NULL);
}

static long call_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static long call_socket_stream(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long call_kill(void)
{
	return kill(1 << 30, 0);
}

static long call_unshare(void)
{
	return unshare(0);
}

static long call_setuid(void)
{
	return syscall(SYS_setuid, getuid());
}

static long call_chroot(void)
{
	return chroot("/nowhere");
}

static long call_bpf(void)
{
	return syscall(SYS_bpf, -1, NULL, 0);
}

static long call_io_uring(void)
{
	return syscall(SYS_io_uring_setup, 0, NULL);
}

static long call_process_vm(void)
{
	return syscall(SYS_process_vm_readv, 1 << 30, NULL, 0, NULL, 0, 0);
}

static long call_executable_memory(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? -1 : munmap(page, 4096);
}

static long call_fork(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return pid > 0 ? waitpid((pid_t)pid, NULL, 0) : pid;
}

static const struct {
	const char *name;
	long (*call)(void);
	bool sanitizers; /* need it */
} gone[] = {
	{ "execve", call_execve, false },
	{ "execveat", call_execveat, false },
	{ "mount", call_mount, false },
	{ "umount2", call_umount, false },
	{ "ptrace", call_ptrace, true },
	{ "socket of the network", call_socket, false },
	{ "socket of streams", call_socket_stream, false },
	{ "kill", call_kill, true },
	{ "unshare", call_unshare, false },
	{ "setuid", call_setuid, false },
	{ "chroot", call_chroot, false },
	{ "bpf", call_bpf, false },
	{ "io_uring_setup", call_io_uring, false },
	{ "process_vm_readv", call_process_vm, true },
	{ "executable memory", call_executable_memory, false },
	{ "fork", call_fork, true },
};

static int answer(size_t i)
{
	errno = 0;
	return gone[i].call() < 0 ? errno : 0;
}

static bool has_calls_filtered(void)
{
#ifdef HAVE_SECCOMP
	return true;
#else
	return false;
#endif
}

static void filter_calls(void)
{
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		int error = answer(i);

		if (gone[i].call != call_io_uring && gone[i].call != call_bpf)
			EXPECT(error != ENOSYS, "%s is not there even before", gone[i].name);
	}
	guard_no_new_privileges();
	r = guard_calls(&(struct guard){ 0 });
	EXPECT(r == 0, "the filter: %s", strerror(-r));
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		int error = answer(i);

		if (!gone[i].sanitizers || !sanitized)
			EXPECT(error == ENOSYS, "%s: %s", gone[i].name, strerror(error));
	}
}

Test(guard, calls_that_a_daemon_does_not_need_are_not_there)
{
	if (!has_calls_filtered())
		cr_skip_test("built without libseccomp");
	in_child(filter_calls);
}

static int socket_error(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);
	int error = errno;

	if (fd >= 0)
		close(fd);
	return fd < 0 ? error : 0;
}

/* Everything else is as gone as without a server. */
static void filter_calls_of_server(unsigned port)
{
	struct guard guard;
	int r;

	EXPECT(guard_plan_server(&guard, "/nowhere", port, NULL) == 0, "no plan");
	guard_no_new_privileges();
	r = guard_calls(&guard);
	EXPECT(r == 0, "the filter: %s", strerror(-r));
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		int error = answer(i);
		bool needed =
			gone[i].call == call_socket_stream || (port && gone[i].call == call_socket);

		if (needed || !gone[i].sanitizers || !sanitized)
			EXPECT((error == ENOSYS) != needed, "%s: %s", gone[i].name,
			       strerror(error));
	}
	EXPECT((socket_error(AF_INET6, SOCK_STREAM) == ENOSYS) == !port, "IPv6");
	EXPECT((socket_error(AF_INET, SOCK_DGRAM) == ENOSYS) == !port, "names");
	EXPECT((socket_error(AF_NETLINK, SOCK_RAW) == ENOSYS) == !port, "addresses");
	EXPECT(socket_error(AF_UNIX, SOCK_DGRAM) == 0, "the log");
	EXPECT(socket_error(AF_INET, SOCK_RAW) == ENOSYS, "raw packets");
	EXPECT(socket_error(AF_PACKET, SOCK_RAW) == ENOSYS, "raw frames");
	EXPECT(socket_error(AF_UNIX, SOCK_SEQPACKET) == ENOSYS, "another kind");
}

static void filter_calls_by_tcp(void)
{
	filter_calls_of_server(3306);
}

static void filter_calls_by_socket(void)
{
	filter_calls_of_server(0);
}

Test(guard, a_store_on_a_server_can_connect_and_do_nothing_more)
{
	if (!has_calls_filtered())
		cr_skip_test("built without libseccomp");
	in_child(filter_calls_by_tcp);
	in_child(filter_calls_by_socket);
}

static void *do_nothing(void *arg)
{
	return arg;
}

static void use_needed_calls(void)
{
	struct sockaddr_un log = { .sun_family = AF_UNIX, .sun_path = "/nowhere/log" };
	pthread_t thread;
	int fd, r;

	guard_no_new_privileges();
	r = guard_calls(&(struct guard){ 0 });
	EXPECT(r == 0, "the filter: %s", strerror(-r));
	r = pthread_create(&thread, NULL, do_nothing, NULL);
	EXPECT(r == 0, "a thread: %s", strerror(r));
	EXPECT(pthread_join(thread, NULL) == 0, "its end");
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	EXPECT(fd >= 0, "the log's socket: %s", strerror(errno));
	EXPECT(connect(fd, (struct sockaddr *)&log, sizeof(log)) < 0 && errno == ENOENT,
	       "connecting: %s", strerror(errno));
	free(malloc(64 << 20));
}

static volatile sig_atomic_t stops;

static void count_stop(void)
{
	stops++;
}

/* The signal comes when nobody waits yet, and nobody looks any more. */
static void wait_too_late(void)
{
	guard_no_new_privileges();
	EXPECT(guard_calls(&(struct guard){ 0 }) == 0 || !has_calls_filtered(), "the filter");
	signals_hold();
	raise(SIGTERM);
	EXPECT(stops == 0, "it is not held back");
	signals_watch(count_stop);
	EXPECT(stops == 1, "it does not stop");
	EXPECT(poll(NULL, 0, 30000) < 0 && errno == EINTR, "who waits is not woken");
	signals_end();
	EXPECT(poll(NULL, 0, 1500) == 0, "it goes on");
}

Test(guard, a_signal_ends_also_who_is_just_about_to_wait)
{
	in_child(wait_too_late);
}

static void stay_after_hangup(void)
{
	signal(SIGHUP, SIG_IGN);
	signals_hold();
	signals_watch(count_stop);
	raise(SIGHUP);
	EXPECT(stops == 0, "SIGHUP is not ignored");
	raise(SIGTERM);
	EXPECT(stops == 1, "SIGTERM does not stop");
	signals_end();
}

Test(guard, a_hangup_that_is_ignored_ends_nothing)
{
	in_child(stay_after_hangup);
}

Test(guard, threads_memory_and_the_log_stay)
{
	if (!has_calls_filtered())
		cr_skip_test("built without libseccomp");
	in_child(use_needed_calls);
}

/* Files */

static int try_open(const char *folder, const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_at(const char *folder, const char *name, int (*call)(const char *))
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return call(path) < 0 ? errno : 0;
}

static int make_folder(const char *path)
{
	return mkdir(path, 0700);
}

static int make_link(const char *path)
{
	return symlink("x", path);
}

static void reach_outside(int expected)
{
	int created = O_WRONLY | O_CREAT;

	EXPECT(try_open(outside, "new", created) == expected, "making: %s", strerror(errno));
	EXPECT(try_open(outside, "old", O_RDWR) == expected, "writing: %s", strerror(errno));
	EXPECT(try_open(inside, "link", O_WRONLY) == expected, "a link: %s", strerror(errno));
	EXPECT(try_at(outside, "removed", unlink) == expected, "removing: %s", strerror(errno));
	EXPECT(try_at(inside, "folder", make_folder) == expected, "a folder: %s", strerror(errno));
	EXPECT(try_at(inside, "symlink", make_link) == expected, "a link: %s", strerror(errno));
	if (!expected || !sanitized)
		EXPECT(try_open("/etc", "passwd", O_RDONLY) == expected, "/etc: %s",
		       strerror(errno));
}

static void reach_inside(void)
{
	EXPECT(try_open(inside, "store.db-wal", O_RDWR | O_CREAT) == 0, "%s", strerror(errno));
	EXPECT(try_open(inside, "store.db-wal", O_RDWR | O_TRUNC) == 0, "%s", strerror(errno));
	EXPECT(try_open(inside, "", O_RDONLY | O_DIRECTORY) == 0, "%s", strerror(errno));
	EXPECT(try_at(inside, "store.db-wal", unlink) == 0, "%s", strerror(errno));
	EXPECT(try_open("/dev", "null", O_RDWR) == 0, "%s", strerror(errno));
	EXPECT(try_open("/var", "tmp", O_RDWR | O_TMPFILE) == 0, "%s", strerror(errno));
}

static void make_outside(void)
{
	char target[256];

	EXPECT(try_open(outside, "old", O_CREAT | O_WRONLY) == 0, "old");
	EXPECT(try_open(outside, "removed", O_CREAT | O_WRONLY) == 0, "removed");
	snprintf(target, sizeof(target), "%s/link", inside);
	unlink(target);
	EXPECT(symlink("../out/old", target) == 0, "link");
}

static void fence_files(void)
{
	struct guard guard;
	int r;

	plan(&guard);
	make_outside();
	reach_outside(0);
	EXPECT(try_at(inside, "folder", rmdir) == 0 && try_at(inside, "symlink", unlink) == 0,
	       "tidying up");
	make_outside();
	guard_no_new_privileges();
	r = guard_paths(&guard);
	EXPECT(r == 0, "the fence: %s", strerror(-r));
	reach_outside(EACCES);
	reach_inside();
}

static bool has_landlock(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0;
}

Test(guard, only_the_folder_of_the_store_can_be_reached, .init = make_places, .fini = remove_places)
{
	if (!has_landlock())
		cr_skip_test("the kernel has no Landlock");
	in_child(fence_files);
}

/* A listener on a port of this machine, which is told. */
static int listen_here(struct sockaddr_in *ret_address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*ret_address);

	*ret_address = (struct sockaddr_in){ .sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	EXPECT(bind(fd, (struct sockaddr *)ret_address, size) == 0 && listen(fd, 8) == 0 &&
		       getsockname(fd, (struct sockaddr *)ret_address, &size) == 0,
	       "a listener: %s", strerror(errno));
	return fd;
}

static int connect_error(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = connect(fd, (const struct sockaddr *)address, sizeof(*address));
	int error = errno;

	close(fd);
	return r < 0 ? error : 0;
}

static void fence_server(void)
{
	const bool has_ports = syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= 4;
	struct sockaddr_in server, other;
	_cleanup_(closep) int one = listen_here(&server), two = listen_here(&other);
	struct guard guard;
	char path[256];
	int r;

	make_outside();
	snprintf(path, sizeof(path), "%s/old", outside);
	EXPECT(connect_error(&server) == 0 && connect_error(&other) == 0, "the control");
	r = guard_plan_server(&guard, inside, ntohs(server.sin_port), path);
	EXPECT(r == 0, "no plan");
	guard_no_new_privileges();
	r = guard_paths(&guard);
	EXPECT(r == 0, "the fence: %s", strerror(-r));
	EXPECT(connect_error(&server) == 0, "the server");
	if (has_ports)
		EXPECT(connect_error(&other) == EACCES, "another port");
	EXPECT(try_open(outside, "old", O_RDONLY) == 0, "certificates: %s", strerror(errno));
	EXPECT(try_open(outside, "old", O_RDWR) == EACCES, "writing them");
	EXPECT(try_open("/etc", "passwd", O_RDONLY) == 0, "/etc: %s", strerror(errno));
	EXPECT(try_open("/etc", "passwd", O_RDWR) == EACCES, "writing to /etc");
	EXPECT(try_open(inside, "new", O_WRONLY | O_CREAT) == EACCES, "making files");
	if (!sanitized)
		EXPECT(try_open(outside, "removed", O_RDONLY) == EACCES, "reading others");
	EXPECT(try_open("/var", "tmp", O_RDWR | O_TMPFILE) == 0, "%s", strerror(errno));
}

Test(guard, of_a_store_on_a_server_only_its_port_can_be_reached, .init = make_places,
     .fini = remove_places)
{
	if (!has_landlock())
		cr_skip_test("the kernel has no Landlock");
	in_child(fence_server);
}

/* Whose rights */

static uid_t seen_uid, thread_uid;
static uint64_t seen_capabilities;

static uint64_t capabilities(void)
{
	FILE *status = fopen("/proc/thread-self/status", "re");
	unsigned long long effective = ~0ULL;
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "CapEff: %llx", &effective) == 1)
			break;
	if (status)
		fclose(status);
	return effective;
}

static void *look_from_thread(void *arg)
{
	thread_uid = geteuid();
	return arg;
}

static int look(void *arg)
{
	pthread_t thread;

	(void)arg;
	seen_uid = geteuid();
	seen_capabilities = capabilities();
	if (pthread_create(&thread, NULL, look_from_thread, NULL) == 0)
		pthread_join(thread, NULL);
	return try_open(inside, "store.db", O_RDWR) + try_open(inside, "new", O_RDWR | O_CREAT);
}

static void run_as(uid_t owner, uid_t folder_owner, uid_t expected, bool rightless)
{
	struct guard guard;
	struct stat st;
	char path[256];

	EXPECT(try_open(inside, "store.db", O_RDWR | O_CREAT) == 0, "the store");
	EXPECT(chown(store, owner, owner) == 0 && chown(inside, folder_owner, 0) == 0, "chown");
	plan(&guard);
	EXPECT(guard_run(&guard, look, NULL) == 0, "the store cannot be used");
	EXPECT(seen_uid == expected, "it ran as %u", seen_uid);
	EXPECT(thread_uid == expected, "a thread of it ran as %u", thread_uid);
	EXPECT((seen_capabilities == 0) == rightless, "capabilities %llx",
	       (unsigned long long)seen_capabilities);
	EXPECT(!(seen_capabilities & ~0xbULL), "more than three");
	/* Nothing has happened to who has to mount yet. */
	EXPECT(geteuid() == 0 && capabilities() != 0, "the main thread has lost its rights");
	snprintf(path, sizeof(path), "%s/new", inside);
	EXPECT(stat(path, &st) == 0 && st.st_uid == expected, "a new file is of %u", st.st_uid);
}

static void root_s_store(void)
{
	run_as(0, 0, 0, true);
}

static void stranger_s_store(void)
{
	run_as(stranger, stranger, stranger, true);
}

static void stranger_s_store_in_root_s_folder(void)
{
	run_as(stranger, 0, 0, false);
}

static void no_store_in_stranger_s_folder(void)
{
	struct guard guard;

	EXPECT(chown(inside, stranger, stranger) == 0, "chown");
	plan(&guard);
	EXPECT(guard.becomes && guard.uid == stranger, "a new store would be of %u", guard.uid);
}

static void server_in_stranger_s_folder(void)
{
	struct guard guard;

	EXPECT(chown(outside, stranger, stranger) == 0, "chown");
	EXPECT(guard_plan_server(&guard, outside, 3306, NULL) == 0, "no plan");
	guard_run(&guard, look, NULL);
	EXPECT(seen_uid == stranger && thread_uid == stranger, "it ran as %u", seen_uid);
	EXPECT(seen_capabilities == 0, "it has rights");
	EXPECT(guard_plan_server(&guard, inside, 3306, NULL) == 0, "no plan");
	guard_run(&guard, look, NULL);
	EXPECT(seen_uid == 0 && seen_capabilities == 0, "it ran as %u with %llx", seen_uid,
	       (unsigned long long)seen_capabilities);
}

#define ROOT_TEST(name, body)                                                                      \
	Test(guard, name, .init = make_places, .fini = remove_places)                              \
	{                                                                                          \
		if (geteuid() != 0)                                                                \
			cr_skip_test("needs root");                                                \
		in_child(body);                                                                    \
	}

ROOT_TEST(on_a_server_it_becomes_the_owner_of_the_mount_point, server_in_stranger_s_folder)
ROOT_TEST(root_s_daemon_has_no_capabilities_on_its_own_store, root_s_store)
ROOT_TEST(root_s_daemon_becomes_the_owner_of_the_store, stranger_s_store)
ROOT_TEST(root_s_daemon_stays_root_where_the_owner_may_not_make_files,
	  stranger_s_store_in_root_s_folder)
ROOT_TEST(a_new_store_belongs_to_the_owner_of_its_folder, no_store_in_stranger_s_folder)

/* Descriptors */

static void begin(void)
{
	struct rlimit dump = { 0 };
	int inherited = dup2(wrong, 100);

	EXPECT(inherited == 100 && fcntl(101, F_GETFD) < 0, "descriptors before");
	wrong = dup2(wrong, 2); /* so that it outlives */
	close(0);
	guard_begin(false);
	EXPECT(fcntl(100, F_GETFD) < 0, "an inherited descriptor stays");
	EXPECT(fcntl(0, F_GETFD) >= 0, "the standard input is missing");
	EXPECT(fcntl(3, F_GETFD) < 0, "a descriptor is left over");
	EXPECT(getrlimit(RLIMIT_CORE, &dump) == 0 && dump.rlim_max == 1, "there can be dumps");
}

Test(guard, inherited_descriptors_are_closed_and_missing_ones_opened)
{
	in_child(begin);
}

/* Paths */

static int trusted(const char *name, enum trust_kind kind)
{
	_cleanup_(freep) char *why = NULL;
	char path[512];
	int r;

	snprintf(path, sizeof(path), "%s/%s", place, name);
	r = trust_path(path, kind, &why);
	EXPECT((r < 0) == (why != NULL), "%s: %d without a sentence", name, r);
	return r;
}

static void make(const char *name, uid_t owner, mode_t mode, const char *target)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", place, name);
	if (target)
		EXPECT(symlink(target, path) == 0, "%s", name);
	else if (S_ISDIR(mode))
		EXPECT(mkdir(path, 0700) == 0 && chmod(path, mode & 07777) == 0, "%s", name);
	else
		EXPECT(mknod(path, S_IFREG | mode, 0) == 0, "%s", name);
	EXPECT(lchown(path, owner, owner) == 0, "%s", name);
}

/* All as root sees it. */
static void judge_paths(void)
{
	static const struct {
		const char *path;
		enum trust_kind kind;
		int expected;
	} cases[] = {
		{ "root.db", TRUST_STORE, 0 },
		{ "missing.db", TRUST_STORE, 0 },
		{ "root-link.db", TRUST_STORE, 0 },
		{ "his.db", TRUST_STORE, 0 },
		{ "his/own.db", TRUST_STORE, 0 },
		{ "his/missing.db", TRUST_STORE, 0 },
		{ "his/../root.db", TRUST_STORE, -EPERM },
		{ "his/link-to-own.db", TRUST_STORE, 0 },
		{ "his/of-root.db", TRUST_STORE, -EPERM },
		{ "his/link-to-root.db", TRUST_STORE, -EPERM },
		{ "his/link-to-folder/root.db", TRUST_STORE, -EPERM },
		{ "his/link-absolute/passwd", TRUST_STORE, -EPERM },
		{ "his/link-absolute", TRUST_MOUNTPOINT, -EPERM },
		{ "his/loop", TRUST_STORE, 0 },
		{ "all/root.db", TRUST_STORE, 0 },
		{ "all/his.db", TRUST_STORE, -EPERM },
		{ "all/his-link.db", TRUST_STORE, -EPERM },
		{ "all/his-folder", TRUST_MOUNTPOINT, 0 },
		{ "all/his-folder/own.db", TRUST_STORE, 0 },
	};

	make("root.db", 0, 0600, NULL);
	make("root-link.db", 0, 0, "root.db");
	make("his.db", stranger, 0600, NULL);
	make("his", stranger, S_IFDIR | 0755, NULL);
	make("his/own.db", stranger, 0600, NULL);
	make("his/of-root.db", 0, 0600, NULL);
	make("his/link-to-own.db", stranger, 0, "own.db");
	make("his/link-to-root.db", stranger, 0, "../root.db");
	make("his/link-to-folder", stranger, 0, "..");
	make("his/link-absolute", stranger, 0, "/etc");
	make("his/loop", stranger, 0, "loop");
	make("all", 0, S_IFDIR | 01777, NULL);
	make("all/root.db", 0, 0600, NULL);
	make("all/his.db", stranger, 0600, NULL);
	make("all/his-link.db", stranger, 0, "root.db");
	make("all/his-folder", stranger, S_IFDIR | 0755, NULL);
	make("all/his-folder/own.db", stranger, 0600, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = trusted(cases[i].path, cases[i].kind);

		EXPECT(r == cases[i].expected, "%s: %d", cases[i].path, r);
	}
}

ROOT_TEST(a_path_that_a_stranger_can_lead_elsewhere_is_not_trusted, judge_paths)
