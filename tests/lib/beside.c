/* SPDX-License-Identifier: MIT */
/* Several programs at one store: who opens it first, who saves when, and whose locks are whose. */
#include "tests/lib/lib.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a program in a process of its own for each number; all have to succeed. */
static void run_processes(int count, int (*program)(int number))
{
	int status, failed = 0;

	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		cr_assert_geq(pid, 0);
		if (pid == 0)
			_exit(program(i));
	}
	while (count-- > 0) {
		cr_assert_geq(wait(&status), 0);
		failed += status != 0;
	}
	cr_assert_eq(failed, 0, "%d processes failed", failed);
}

static int complain(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, sessfs_why());
	return 1;
}

static int open_and_save(int number)
{
	struct sessfs *handle;
	char name[16];
	int r;

	snprintf(name, sizeof(name), "session%d", number);
	/* The one that makes the store may wait for a busy disk for longer than its lock is waited
	 * for. */
	do
		r = sessfs_open(path_of_store(), NULL, SESSFS_CREATE, &handle);
	while (r == -EBUSY);
	if (r < 0)
		return complain("open");
	do
		r = sessfs_save(handle, name, "k", "1", 1);
	while (r == -EBUSY);
	if (r < 0)
		return complain("save");
	sessfs_close(handle);
	return 0;
}

enum { OPENERS = 6, OPENINGS = 10 };

static void expect_all_openers(void)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", OPENERS);
	cr_assert_str_eq(sql_asks("SELECT count(*) FROM agentscope_sessions WHERE session_id "
				  "LIKE 'session%'"),
			 text);
	cr_assert_str_eq(sql_asks("PRAGMA integrity_check"), "ok");
	close_all();
}

Test(opening, of_a_store_that_is_in_the_making_finds_it_made)
{
	for (int i = 0; i < OPENINGS; i++) {
		path_of_store();
		run_processes(OPENERS, open_and_save);
		expect_all_openers();
	}
}

Test(opening, of_a_database_that_is_being_adopted_finds_it_adopted)
{
	for (int i = 0; i < OPENINGS; i++) {
		sql_runs("CREATE TABLE agentscope_sessions (session_id TEXT NOT NULL, state_key "
			 "TEXT NOT NULL, item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT "
			 "NOT NULL, PRIMARY KEY (session_id, state_key, item_index))");
		run_processes(OPENERS, open_and_save);
		expect_all_openers();
	}
}

/* Two processes save a list again and again, each time another version, until a third one has seen
 * enough of them.  Each item tells its version, and the version how many there are. */

enum { VERSIONS = 6, SHORTEST = 100 };

static struct {
	atomic_bool enough;
} * shared;

static int save_versions(int number)
{
	struct sessfs *handle;
	char who[16];

	if (sessfs_open(path_of_store(), NULL, 0, &handle) < 0)
		return complain("open");
	for (unsigned i = 0; !shared->enough; i++) {
		unsigned more = i % 60;

		snprintf(who, sizeof(who), "%c%u", 'a' + number, more);
		if (try_numbers(handle, "s", "l", who, SHORTEST + more) < 0)
			return complain("save");
		usleep(1000); /* otherwise one of them has the lock nearly always */
	}
	sessfs_close(handle);
	return 0;
}

struct seen {
	size_t count;
	char who[16]; /* of the first item */
	bool mixed;
};

static int look_at(void *arg, size_t index, const char *data, size_t size)
{
	struct seen *seen = arg;
	char text[128], who[16] = "";
	size_t n = 0;

	snprintf(text, sizeof(text), "%.*s", (int)size, data);
	sscanf(text, "{\"n\":%zu, \"by\":\"%15[^\"]", &n, who);
	if (index == 0)
		strcpy(seen->who, who);
	seen->mixed |= n != seen->count++ || strcmp(who, seen->who) != 0;
	return 0;
}

/* What a reader sees at one moment: 1 when it is another version than the last. */
static int read_version(struct sessfs *handle, char last[16])
{
	struct seen seen = { 0 };
	bool moved;

	if (sessfs_get_list(handle, "s", "l", look_at, &seen) < 0)
		return -complain("get_list");
	if (seen.mixed || (seen.count && seen.count != SHORTEST + strtoul(seen.who + 1, NULL, 10)))
		return -complain("a list is mixed");
	moved = strcmp(seen.who, last) != 0;
	strcpy(last, seen.who);
	return moved;
}

/* Versions of both have to be seen. */
static int read_versions(void)
{
	int versions[2] = { 0 }, r = 0;
	struct sessfs *handle;
	char last[16] = "";

	if (sessfs_open(path_of_store(), NULL, SESSFS_READ_ONLY, &handle) < 0)
		return complain("open");
	while (r >= 0 && !shared->enough && MIN(versions[0], versions[1]) < VERSIONS) {
		r = read_version(handle, last);
		if (r > 0)
			versions[*last - 'a']++;
	}
	sessfs_close(handle);
	return r < 0;
}

static int save_or_read(int number)
{
	int failed = number == 2 ? read_versions() : save_versions(number);

	shared->enough = true; /* nobody waits for one that has failed */
	return failed;
}

Test(processes, that_save_one_list_never_mix_it, .fini = close_all)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	cr_assert_neq(shared, MAP_FAILED);
	fresh_store(STORE_SQLITE);
	sessfs_close(lib); /* a handle is not for children */
	lib = NULL;
	run_processes(3, save_or_read);
	munmap(shared, sizeof(*shared));
}

/* The locks of the program's own connections. */

enum { SHARED_FIRST = 0x40000002, SHARED_SIZE = 510 };

/* Whether somebody else has a connection that reads the database. */
static int is_locked(int number)
{
	struct flock lock = { .l_type = F_WRLCK,
			      .l_whence = SEEK_SET,
			      .l_start = SHARED_FIRST,
			      .l_len = SHARED_SIZE };
	int fd = open(path_of_store(), O_RDWR | O_CLOEXEC);

	(void)number;
	return fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK;
}

SqliteStore(locks, of_other_connections_of_the_program_outlive_the_handle)
{
	cr_assert_str_eq(sql_asks("SELECT count(*) FROM agentscope_sessions"), "0");
	run_processes(1, is_locked);
	for (int i = 0; i < 2; i++) {
		sessfs_close(lib);
		lib = NULL;
		run_processes(1, is_locked);
		lib = open_store(0);
	}
}

/* Whether this thread, by its number, may run handlers of SIGUSR1. */
static bool takes_signals(int thread)
{
	unsigned long long blocked = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
			break;
	fclose(file);
	return !(blocked & 1ULL << (SIGUSR1 - 1));
}

static int count_threads(int *ret_takers)
{
	DIR *tasks = opendir("/proc/self/task");
	int threads = 0;

	*ret_takers = 0;
	for (struct dirent *entry; (entry = readdir(tasks));)
		if (*entry->d_name != '.') {
			*ret_takers += takes_signals(atoi(entry->d_name));
			threads++;
		}
	closedir(tasks);
	return threads;
}

Test(threads, of_the_library_take_no_signals, .fini = close_all)
{
	int takers_before, takers, before;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	before = count_threads(&takers_before);
	fresh_store(STORE_SQLITE);
	usleep(100000); /* a thread that is starting takes none, whatever it will do */
	cr_assert_gt(count_threads(&takers), before, "the store has no thread");
	cr_assert_eq(takers, takers_before);
}

Test(stores, in_memory_are_each_their_own, .fini = close_all)
{
	struct sessfs *other;

	fresh_store(STORE_MEMORY);
	cr_assert_eq(sessfs_open("memory:", NULL, 0, &other), 0);
	save("s", "k", "1");
	cr_assert_eq(sessfs_exists(other, "s"), 0);
	sessfs_close(other);
}
