/* SPDX-License-Identifier: MIT */
/* A program that was started without its standard streams, or closes them later. */
#include "tests/lib/lib.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS = 3 };

/* Bits of the streams that lead to a file of the case. */
static int streams_in_use(void)
{
	char name[32], leads[256];
	int found = 0;

	for (int fd = 0; fd < STREAMS; fd++) {
		ssize_t size;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		size = readlink(name, leads, sizeof(leads) - 1);
		leads[size < 0 ? 0 : size] = '\0';
		if (strstr(leads, "sessfs-lib-") || strstr(leads, "eventfd") ||
		    strstr(leads, "inotify"))
			found |= 1 << fd;
	}
	return found;
}

static void close_streams(int closed)
{
	for (int fd = 0; fd < STREAMS; fd++)
		if (closed & 1 << fd)
			close(fd);
}

/* In a child, whose streams are its own.  Its answer is one byte. */
static int in_child(int (*child)(int closed), int closed)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(child(closed));
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

enum { FAILED = 1 << STREAMS };

static int open_and_save(int closed)
{
	struct sessfs *handle;
	int found;

	close_streams(closed);
	if (sessfs_open(path_of_store(), NULL, SESSFS_CREATE, &handle) < 0)
		return FAILED;
	found = streams_in_use();
	if (sessfs_save(handle, "s", "k", "[1]", 3) < 0 || sessfs_sync(handle) < 0)
		found |= FAILED;
	found |= streams_in_use();
	printf("to nobody");
	fflush(stdout);
	fprintf(stderr, "to nobody");
	sessfs_close(handle);
	return found;
}

Test(streams, that_are_missing_are_not_the_stores, .fini = close_all)
{
	path_of_store();
	for (int closed = 1; closed < 1 << STREAMS; closed++) {
		cr_expect_eq(in_child(open_and_save, closed), 0, "without %d", closed);
		cr_expect_str_eq(sql_asks("PRAGMA integrity_check"), "ok");
		cr_expect_str_eq(sql_asks("SELECT state_data FROM agentscope_sessions"), "[1]");
	}
}

static int read_deeper(void *arg, size_t index, const char *data, size_t size)
{
	int *found = arg;
	char *json;

	(void)index;
	(void)data;
	(void)size;
	if (sessfs_get(lib, "s", "l", &json, NULL) < 0)
		return -EIO;
	free(json);
	*found |= streams_in_use();
	return 0;
}

/* With connections to the store open, whose locks are those of the process. */
static int close_later(int closed)
{
	struct sessfs *second;
	int found = 0;

	lib = open_store(SESSFS_CREATE);
	if (SAVE_LIST("s", "l", "1", "2"), 0)
		return FAILED;
	close_streams(closed);
	second = open_store(0);
	if (sessfs_get_list(lib, "s", "l", read_deeper, &found) < 0)
		found |= FAILED;
	/* Another process is the last one to close the store if it finds no lock of ours. */
	if (system("exec sqlite3 \"$STORE\" 'PRAGMA user_version' >/dev/null 2>&1 </dev/null") !=
		    0 ||
	    access(path_beside("store.db-wal"), F_OK) < 0)
		found |= FAILED;
	sessfs_close(second);
	sessfs_close(lib);
	lib = NULL;
	return found;
}

Test(streams, that_are_closed_later_cost_no_lock, .fini = close_all)
{
	if (system("command -v sqlite3 >/dev/null") != 0)
		cr_skip_test("sqlite3 is not installed");
	setenv("STORE", path_of_store(), 1);
	for (int closed = 1; closed < 1 << STREAMS; closed++)
		cr_expect_eq(in_child(close_later, closed), 0, "without %d", closed);
}
