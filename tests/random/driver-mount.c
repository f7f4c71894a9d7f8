/* SPDX-License-Identifier: MIT */

/*
 * A real mount, or several of one store.  Each process of the game is one, which does what it is
 * told over a socket, with its data in memory that is shared.  Daemons are killed or unmounted and
 * started again on the same store.
 *
 *   SESSFS                 the program
 *   SESSFS_RANDOM_FOLDER   where to mount; the folder is there, and free
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "tests/random/driver.h"

enum {
	SHARED = 40 << 20, /* bytes of one answer at the most */
	FUSE_MAGIC = 0x65735546,
	PATIENCE = 60, /* seconds */
	MOUNTS = 4,    /* at the most */
};

static const char *folder;
static char point[MOUNTS][200], store[200], log_path[200];
static pid_t daemon_pid[MOUNTS];
static int mounts, here; /* how many; where what names no process is done */
static sqlite3 *other;
static struct driver_options options;

static int64_t mount_now(void)
{
	struct timespec now;

	/* The daemon's clock is the system's; a file's times are not older than what was before. */
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the daemon ---- */

/* Runs a program to its end, quietly. */
static int run(const char *const *arguments, int out)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		dup2(out, 1);
		dup2(out, 2);
		execvp(arguments[0], (char *const *)arguments);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -EIO;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

static int unmount(int mount, const char *how)
{
	const char *const arguments[] = { "fusermount3", how, point[mount], NULL };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int r = run(arguments, null);

	close(null);
	return r;
}

static bool is_mounted(int mount)
{
	struct statfs fs;

	return statfs(point[mount], &fs) == 0 && fs.f_type == FUSE_MAGIC;
}

static void become_daemon(int mount)
{
	const char *program = getenv("SESSFS");
	const char *arguments[16] = { program ? program : "./sessfs", "mount", "-f", "-o",
				      "pause=0" };
	int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	size_t count = 5;

	if (options.strict)
		arguments[count++] = "-o", arguments[count++] = "strict";
	if (options.exact)
		arguments[count++] = "-o", arguments[count++] = "exact";
	arguments[count++] = store;
	arguments[count++] = point[mount];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(log, 1);
	dup2(log, 2);
	for (int fd = 3; fd < 100; fd++)
		close(fd);
	execv(arguments[0], (char *const *)arguments);
	_exit(127);
}

static int mount_begin(int mount)
{
	int status;

	daemon_pid[mount] = fork();
	if (daemon_pid[mount] == 0)
		become_daemon(mount);
	for (int i = 0; i < PATIENCE * 500; i++) {
		if (is_mounted(mount))
			return 0;
		if (waitpid(daemon_pid[mount], &status, WNOHANG) == daemon_pid[mount])
			break;
		usleep(2000);
	}
	return -ENOTCONN;
}

static int mount_end(int mount, bool kill_it)
{
	int status = 0;

	if (kill_it)
		kill(daemon_pid[mount], SIGKILL);
	for (int i = 0; !kill_it && unmount(mount, "-u") != 0; i++) {
		if (i > PATIENCE * 20)
			return -EBUSY;
		usleep(50000);
	}
	if (waitpid(daemon_pid[mount], &status, 0) != daemon_pid[mount])
		return -ECHILD;
	if (kill_it)
		unmount(mount, "-uz");
	daemon_pid[mount] = 0;
	return kill_it || status == 0 ? 0 : -EIO;
}

/* ---- processes ---- */

enum call {
	OPEN,
	CLOSE,
	STRANGER,
	WRITE,
	READ,
	SYNC,
	CUT,
	STAT,
	TIMES,
	CUT_NAME,
	STAT_NAME,
	UNLINK,
	RENAME,
	CONTENT,
	CLOSE_MOUNT,
	END,
};

struct request {
	enum call call;
	int slot;
	int flags;
	int way;
	int mount;
	uint64_t offset;
	uint64_t size;
	char path[256];
	char path_to[256];
};

struct answer {
	ssize_t result;
	struct stat st;
};

struct process {
	pid_t pid;
	int socket;
	char *shared;
};
static struct process process[PROCESSES];
static int owner[SLOTS];

/* In the process. */
static int fds[SLOTS], fd_mount[SLOTS];
static char *shared;

static ssize_t error_of(ssize_t result)
{
	return result < 0 ? -errno : result;
}

/* One call: a second one would be told that the file ends, and nobody is in its middle then. */
static ssize_t read_plain(int fd, uint64_t offset, size_t size)
{
	return error_of(pread(fd, shared, size, (off_t)offset));
}

static sigjmp_buf behind_the_end;

static void on_bus(int number)
{
	(void)number;
	siglongjmp(behind_the_end, 1);
}

/* Another program may take the rows away under the mapping: then the file ends there. */
static ssize_t copy_mapped(const char *from, size_t size)
{
	const struct sigaction action = { .sa_handler = on_bus };
	struct sigaction before;
	ssize_t copied = 0;

	sigaction(SIGBUS, &action, &before);
	if (sigsetjmp(behind_the_end, 1) == 0) {
		memcpy(shared, from, size);
		copied = (ssize_t)size;
	}
	sigaction(SIGBUS, &before, NULL);
	return copied;
}

static ssize_t read_mapped(int fd, uint64_t offset, size_t size, bool is_shared)
{
	struct stat st;
	ssize_t n;
	void *map;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size <= offset)
		return 0;
	size = MIN(size, (size_t)st.st_size - offset);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, is_shared ? MAP_SHARED : MAP_PRIVATE, fd,
		   0);
	if (map == MAP_FAILED)
		return -errno;
	n = copy_mapped((char *)map + offset, size);
	munmap(map, (size_t)st.st_size);
	return n;
}

/* Every second time with copy_file_range().  One call with O_DIRECT, which is reads until the file
 * ends, as in read_plain(). */
static ssize_t read_sent(int fd, uint64_t offset, size_t size)
{
	const bool once = fcntl(fd, F_GETFL) & O_DIRECT;
	int memory = memfd_create("sent", MFD_CLOEXEC);
	off_t at = (off_t)offset;
	static bool copies;
	size_t done = 0;
	ssize_t n;

	if (memory < 0)
		return -errno;
	copies = !copies;
	do {
		n = copies ? copy_file_range(fd, &at, memory, NULL, size - done, 0) :
			     sendfile(memory, fd, &at, size - done);
		if (n < 0 && copies && errno == EXDEV) {
			copies = false;
			n = sendfile(memory, fd, &at, size - done);
		}
		if (n > 0)
			done += (size_t)n;
	} while (!once && n > 0 && done < size);
	if (n >= 0)
		n = pread(memory, shared, done, 0);
	n = error_of(n);
	close(memory);
	return n;
}

static ssize_t read_way(int fd, int way, uint64_t offset, size_t size)
{
	if (way == READ_MAPPED)
		return read_mapped(fd, offset, size, offset % 2 == 0);
	return way == READ_SENT ? read_sent(fd, offset, size) : read_plain(fd, offset, size);
}

static ssize_t do_content(const struct request *request)
{
	int fd = open(request->path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read_way(fd, request->way, 0, SHARED);
	close(fd);
	return n;
}

static ssize_t do_open(const struct request *request)
{
	int fd = open(request->path, request->flags | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	fds[request->slot] = fd;
	fd_mount[request->slot] = request->mount;
	return 0;
}

static ssize_t do_close(int slot)
{
	int fd = fds[slot];

	fds[slot] = -1;
	return error_of(close(fd));
}

static ssize_t do_stranger(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return waitpid(pid, NULL, 0) == pid ? 0 : -ECHILD;
}

static ssize_t close_mount(int mount)
{
	for (int slot = 0; slot < SLOTS; slot++)
		if (fds[slot] >= 0 && fd_mount[slot] == mount)
			do_close(slot);
	return 0;
}

static struct timespec time_of(uint64_t time)
{
	return (struct timespec){ (time_t)(time / 1000000000), (long)(time % 1000000000) };
}

static ssize_t serve_open(const struct request *request, struct stat *st)
{
	int fd = fds[request->slot];
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, time_of(request->offset) };

	switch (request->call) {
	case CLOSE:
		return do_close(request->slot);
	case STRANGER:
		return do_stranger();
	case WRITE:
		return error_of(pwrite(fd, shared, request->size, (off_t)request->offset));
	case READ:
		return read_way(fd, request->way, request->offset, MIN(request->size, SHARED));
	case SYNC:
		return error_of(request->size ? fdatasync(fd) : fsync(fd));
	case CUT:
		return error_of(ftruncate(fd, (off_t)request->size));
	case STAT:
		return error_of(fstat(fd, st));
	case TIMES:
		return error_of(futimens(fd, times));
	default:
		return -EINVAL;
	}
}

static ssize_t serve(const struct request *request, struct stat *st)
{
	switch (request->call) {
	case OPEN:
		return do_open(request);
	case CUT_NAME:
		return error_of(truncate(request->path, (off_t)request->size));
	case STAT_NAME:
		return error_of(lstat(request->path, st));
	case UNLINK:
		return error_of(unlink(request->path));
	case RENAME:
		return error_of(renameat2(AT_FDCWD, request->path, AT_FDCWD, request->path_to,
					  (unsigned)request->flags));
	case CONTENT:
		return do_content(request);
	case CLOSE_MOUNT:
		return close_mount(request->slot);
	case END:
		_exit(0);
	default:
		return serve_open(request, st);
	}
}

static void be_process(int socket)
{
	struct request request;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int slot = 0; slot < SLOTS; slot++)
		fds[slot] = -1;
	while (recv(socket, &request, sizeof(request), 0) == sizeof(request)) {
		struct answer answer = { 0 };

		answer.result = serve(&request, &answer.st);
		if (send(socket, &answer, sizeof(answer), 0) != sizeof(answer))
			break;
	}
	_exit(0);
}

static int process_start(struct process *new)
{
	int pair[2];

	new->shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (new->shared == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	new->pid = fork();
	if (new->pid == 0) {
		close(pair[0]);
		shared = new->shared;
		be_process(pair[1]);
	}
	close(pair[1]);
	new->socket = pair[0];
	return 0;
}

static ssize_t ask(int who, const struct request *request, struct stat *ret_stat)
{
	struct answer answer;

	who %= PROCESSES;
	if (send(process[who].socket, request, sizeof(*request), MSG_NOSIGNAL) !=
		    sizeof(*request) ||
	    recv(process[who].socket, &answer, sizeof(answer), 0) != sizeof(answer))
		return -EPIPE;
	if (ret_stat)
		*ret_stat = answer.st;
	return answer.result;
}

static int mount_of(int who)
{
	return who / PROCESSES;
}

static void put_path(char path[256], int mount, const char *name)
{
	snprintf(path, 256, "%.150s/%.100s", point[mount], name);
}

static ssize_t ask_open(int slot, struct request *request, struct stat *ret_stat)
{
	request->slot = slot;
	return ask(owner[slot], request, ret_stat);
}

static ssize_t ask_name(int who, const char *name, struct request *request, struct stat *ret_stat)
{
	put_path(request->path, mount_of(who), name);
	return ask(who, request, ret_stat);
}

static int keep_answer(int who, ssize_t n, struct buf *out)
{
	if (n < 0)
		return (int)n;
	return buf_append(out, process[who % PROCESSES].shared, (size_t)n);
}

/* ---- the driver ---- */

static void remove_store(void)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-reserve", "-mounts", "-journal" };
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		snprintf(path, sizeof(path), "%s%s", store, ends[i]);
		unlink(path);
	}
	unlink(log_path);
}

static void set_paths(void)
{
	folder = getenv("SESSFS_RANDOM_FOLDER");
	if (!folder)
		folder = ".";
	for (int i = 0; i < MOUNTS; i++)
		snprintf(point[i], sizeof(point[i]), "%.150s/mnt%d", folder, i);
	snprintf(store, sizeof(store), "%.150s/store.db", folder);
	snprintf(log_path, sizeof(log_path), "%.150s/log", folder);
}

static void mount_clear(void)
{
	set_paths();
	for (int mount = 0; mount < MOUNTS; mount++)
		for (int i = 0; i < 10 && unmount(mount, "-uz") == 0; i++)
			;
	remove_store();
}

static int mount_start(const struct driver_options *how)
{
	int r = 0;

	options = *how;
	mounts = MAX((int)options.mounts, 1);
	set_paths();
	for (int i = 0; r == 0 && i < PROCESSES; i++)
		r = process_start(&process[i]);
	for (int i = 0; r == 0 && i < mounts; i++) {
		mkdir(point[i], 0755);
		r = mount_begin(i);
	}
	return r;
}

static void mount_finish(void)
{
	const struct request end = { .call = END };

	if (other)
		sqlite3_close(other);
	for (int i = 0; i < PROCESSES; i++) {
		ask(i, &end, NULL);
		waitpid(process[i].pid, NULL, 0);
		close(process[i].socket);
		munmap(process[i].shared, SHARED);
	}
	for (int i = 0; i < mounts; i++)
		if (daemon_pid[i])
			mount_end(i, false);
	mount_clear();
}

static int mount_restart(int mount, bool kill_it)
{
	const struct request close_fds = { .call = CLOSE_MOUNT, .slot = mount };
	int r = 0;

	if (kill_it)
		r = mount_end(mount, true);
	for (int i = 0; i < PROCESSES; i++)
		ask(i, &close_fds, NULL);
	if (!kill_it)
		r = mount_end(mount, false);
	return r < 0 ? r : mount_begin(mount);
}

static void mount_tick(int mount)
{
	here = mount;
}

static int mount_settle(void)
{
	usleep(400000);
	return 0;
}

static int mount_make_dir(const char *name)
{
	char path[256];

	put_path(path, here, name);
	return (int)error_of(mkdir(path, 0755));
}

static int mount_open(int slot, int who, const char *name, int flags)
{
	struct request request = {
		.call = OPEN, .slot = slot, .flags = flags, .mount = mount_of(who)
	};

	owner[slot] = who;
	return (int)ask_name(who, name, &request, NULL);
}

static int mount_close(int slot)
{
	return (int)ask_open(slot, &(struct request){ .call = CLOSE }, NULL);
}

static int mount_stranger(int slot)
{
	return (int)ask_open(slot, &(struct request){ .call = STRANGER }, NULL);
}

static ssize_t mount_write(int slot, uint64_t offset, struct bytes data)
{
	struct request request = { .call = WRITE, .offset = offset, .size = data.size };

	if (data.size > SHARED)
		return -EFBIG;
	memcpy(process[owner[slot] % PROCESSES].shared, data.data, data.size);
	return ask_open(slot, &request, NULL);
}

static ssize_t mount_read(int slot, int way, uint64_t offset, size_t size, struct buf *out)
{
	struct request request = { .call = READ, .way = way, .offset = offset, .size = size };
	ssize_t n = ask_open(slot, &request, NULL);
	int r = keep_answer(owner[slot], n, out);

	return r < 0 ? r : n;
}

static int mount_sync(int slot)
{
	static uint64_t turn;

	return (int)ask_open(slot, &(struct request){ .call = SYNC, .size = turn++ % 2 }, NULL);
}

static int mount_cut(int slot, uint64_t size)
{
	return (int)ask_open(slot, &(struct request){ .call = CUT, .size = size }, NULL);
}

static int mount_stat(int slot, struct stat *ret_stat)
{
	return (int)ask_open(slot, &(struct request){ .call = STAT }, ret_stat);
}

static int mount_times(int slot, int64_t mtime)
{
	return (int)ask_open(slot, &(struct request){ .call = TIMES, .offset = (uint64_t)mtime },
			     NULL);
}

static int mount_cut_name(int who, const char *name, uint64_t size)
{
	return (int)ask_name(who, name, &(struct request){ .call = CUT_NAME, .size = size }, NULL);
}

static int mount_stat_name(int who, const char *name, struct stat *ret_stat)
{
	return (int)ask_name(who, name, &(struct request){ .call = STAT_NAME }, ret_stat);
}

static int mount_times_name(const char *name, int64_t mtime)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, time_of((uint64_t)mtime) };
	char path[256];

	put_path(path, here, name);
	return (int)error_of(utimensat(AT_FDCWD, path, times, 0));
}

static int mount_mode(const char *name, mode_t mode)
{
	char path[256];

	put_path(path, here, name);
	return (int)error_of(chmod(path, mode));
}

static int mount_set_xattr(const char *name, const char *attribute, const char *value)
{
	char path[256];

	put_path(path, here, name);
	return (int)error_of(setxattr(path, attribute, value, strlen(value), 0));
}

static int mount_get_xattr(const char *name, const char *attribute, struct buf *out)
{
	char path[256], value[1000];
	ssize_t n;

	put_path(path, here, name);
	n = getxattr(path, attribute, value, sizeof(value));
	return n < 0 ? -errno : buf_append(out, value, (size_t)n);
}

static int mount_unlink(int who, const char *name)
{
	return (int)ask_name(who, name, &(struct request){ .call = UNLINK }, NULL);
}

static int mount_rename(int who, const char *name, const char *name_to, unsigned flags)
{
	struct request request = { .call = RENAME, .flags = (int)flags };

	put_path(request.path_to, mount_of(who), name_to);
	return (int)ask_name(who, name, &request, NULL);
}

static int mount_content(int who, const char *name, int way, struct buf *out)
{
	struct request request = { .call = CONTENT, .way = way };

	return keep_answer(who, ask_name(who, name, &request, NULL), out);
}

static int mount_names(const char *name, driver_name_fn *fn, void *arg)
{
	const struct dirent *entry;
	char path[256];
	DIR *dir;

	put_path(path, here, name);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			fn(arg, entry->d_name);
	closedir(dir);
	return 0;
}

/* ---- SQL ---- */

static int prepare(const char *sql, sqlite3_stmt **ret_statement)
{
	if (!other) {
		if (sqlite3_open(store, &other) != SQLITE_OK)
			return -EIO;
		sqlite3_busy_timeout(other, PATIENCE * 1000);
	}
	return sqlite3_prepare_v2(other, sql, -1, ret_statement, NULL) == SQLITE_OK ? 0 : -EIO;
}

static int finish(sqlite3_stmt *statement, int code)
{
	sqlite3_finalize(statement);
	return code == SQLITE_DONE ? 0 : -EIO;
}

static int mount_rows(const char *key, driver_row_fn *fn, void *arg)
{
	sqlite3_stmt *statement;
	int r = prepare("SELECT item_index, state_data, created_at, updated_at FROM "
			"agentscope_sessions WHERE session_id = 's' AND state_key = ?1 "
			"ORDER BY item_index",
			&statement);
	int code;

	if (r < 0)
		return r;
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
		struct driver_row row = {
			.created = (const char *)sqlite3_column_text(statement, 2),
			.updated = (const char *)sqlite3_column_text(statement, 3),
		};

		row.data = bytes_make(sqlite3_column_blob(statement, 1),
				      (size_t)sqlite3_column_bytes(statement, 1));
		fn(arg, sqlite3_column_int64(statement, 0), &row);
	}
	return finish(statement, code);
}

static int mount_keys(driver_name_fn *fn, void *arg)
{
	sqlite3_stmt *statement;
	int r = prepare("SELECT DISTINCT state_key FROM agentscope_sessions", &statement);
	int code;

	if (r < 0)
		return r;
	while ((code = sqlite3_step(statement)) == SQLITE_ROW)
		fn(arg, (const char *)sqlite3_column_text(statement, 0));
	return finish(statement, code);
}

static int mount_sql(const char *key, int64_t index, struct bytes data)
{
	static const char put[] =
		"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		"VALUES ('s', ?1, ?2, CAST(?3 AS TEXT)) ON CONFLICT (session_id, state_key, "
		"item_index) DO UPDATE SET state_data = excluded.state_data";
	static const char delete[] =
		"DELETE FROM agentscope_sessions WHERE session_id = 's' AND state_key = ?1 AND "
		"(item_index = ?2 OR ?2 < 0)";
	sqlite3_stmt *statement;
	int r = prepare(data.data ? put : delete, &statement);

	if (r < 0)
		return r;
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 2, index);
	if (data.data)
		sqlite3_bind_blob(statement, 3, data.data, (int)data.size, SQLITE_STATIC);
	return finish(statement, sqlite3_step(statement));
}

static int mount_check(struct buf *out)
{
	const char *program = getenv("SESSFS");
	const char *const arguments[] = { program ? program : "./sessfs", "check", store, NULL };
	int said = memfd_create("said", MFD_CLOEXEC), r;
	char text[2000];
	ssize_t n;

	r = run(arguments, said);
	n = pread(said, text, sizeof(text), 0);
	if (n > 0)
		buf_append(out, text, (size_t)n);
	close(said);
	return r ? -EUCLEAN : 0;
}

static const struct profile profiles[] = {
	{ .title = "mount", .ops = 500 },
	{ .title = "mount, strict", .options = { .strict = true }, .ops = 200 },
	{ .title = "mount, exact", .options = { .exact = true }, .ops = 200 },
	{ .title = "mount, big", .big = true, .ops = 200 },
	/* Others find, now and then, what is known and not mended yet. */
	{ .title = "mount, two", .options = { .mounts = 2 }, .ops = 100, .first = true },
	{ .title = "mount, four", .options = { .mounts = 4 }, .ops = 100, .first = true },
};

struct driver driver = {
	.profiles = profiles,
	.profile_count = ARRAY_SIZE(profiles),
	.is_mount = true,
	.start = mount_start,
	.finish = mount_finish,
	.clear = mount_clear,
	.restart = mount_restart,
	.tick = mount_tick,
	.now = mount_now,
	.settle = mount_settle,
	.make_dir = mount_make_dir,
	.open = mount_open,
	.close = mount_close,
	.stranger = mount_stranger,
	.write = mount_write,
	.read = mount_read,
	.sync = mount_sync,
	.cut = mount_cut,
	.stat = mount_stat,
	.times = mount_times,
	.cut_name = mount_cut_name,
	.stat_name = mount_stat_name,
	.times_name = mount_times_name,
	.mode = mount_mode,
	.set_xattr = mount_set_xattr,
	.get_xattr = mount_get_xattr,
	.unlink = mount_unlink,
	.rename = mount_rename,
	.content = mount_content,
	.names = mount_names,
	.rows = mount_rows,
	.keys = mount_keys,
	.sql = mount_sql,
	.check = mount_check,
};
