/* SPDX-License-Identifier: MIT */
/*
 * The reserve: a file of allocated blocks beside the store (room.c tells what for).
 *
 * It begins with a sentence that says what it is.  A file of that name without that sentence is
 * not ours and stays as it is.  Of several mounts the first has the reserve, by a lock; when that
 * one ends, the mount that remains alone has it.
 *
 * No filesystem hands blocks from one file to another without a moment in which a third program may
 * take them.  So the blocks that the smallest deletion needs lie in the WAL itself, always, and the
 * reserve is lent in small parts, each given up and allocated again at once: a program that takes
 * every free block gets some of it, but the WAL or the database keeps the blocks that it has got
 * by then.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/conn.h"
#include "backend/sqlite/disk/reserve.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"

enum {
	RESERVE_PART = 16,     /* of the filesystem: one in so many blocks */
	RESERVE_MAX = 4 << 20, /* bytes */
	RESERVE_LEFT = 4096,   /* of it when it is given up: the sentence */
	PASSED = 64 << 10,     /* in one breath */
	RETAINED = 4,	       /* one part in so many is not for the WAL, but for the database */
};

/* The reserve's file, if it is ours or nobody's; -errno. */
static int reserve_open(const char *path, int flags)
{
	return sqlite_beside_open(path, sqlite_reserve_ending, sqlite_reserve_sentence, flags);
}

bool sqlite_reserve_free(const struct sqlite *store, uint64_t *ret_total, uint64_t *ret_free)
{
	struct statvfs fs;

	if (statvfs(store->place.path, &fs) < 0 || fs.f_blocks == 0)
		return false;
	*ret_total = (uint64_t)fs.f_blocks * fs.f_frsize;
	*ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
	return true;
}

uint64_t sqlite_reserve_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

static int allocate(int fd, int mode, uint64_t from, uint64_t size)
{
	return fallocate(fd, mode, (off_t)from, (off_t)size) < 0 ? -errno : 0;
}

/* How much the reserve may take: transactions that do not delete need room in the WAL, too.  But it
 * takes back all that it has given up, so that no other program gets that. */
static bool reserve_share(const struct sqlite *store, uint64_t *ret_left, uint64_t *ret_want)
{
	uint64_t total, both, want;

	if (store->room.fd < 0 || !sqlite_reserve_free(store, &total, ret_left))
		return false;
	both = store->room.held + *ret_left;
	want = MIN(both / 2, both - MIN(both, (uint64_t)SQLITE_WAL_LEAST));
	want = MAX(want, MIN(both, store->room.had));
	want = MIN(want, store->room.size);
	*ret_want = want - want % RESERVE_LEFT;
	return true;
}

void sqlite_reserve_build(struct sqlite *store)
{
	const ssize_t size = (ssize_t)strlen(sqlite_reserve_sentence);
	uint64_t left, want, held = store->room.held;
	int r = 0;

	if (held >= store->room.size || !reserve_share(store, &left, &want) || want <= held ||
	    pwrite(store->room.fd, sqlite_reserve_sentence, (size_t)size, 0) != size)
		return;
	while (r == 0 && held < want) {
		r = allocate(store->room.fd, 0, held, MIN(want - held, PASSED));
		held += r == 0 ? MIN(want - held, PASSED) : 0;
	}
	if (r == -EOPNOTSUPP) { /* the filesystem cannot promise blocks */
		close(store->room.fd);
		store->room.fd = -1;
		return;
	}
	store->room.held = held;
	if (r == 0)
		store->room.had = 0;
	/* A part that is not whole does not count. */
	else if (ftruncate(store->room.fd, (off_t)MAX(held, RESERVE_LEFT)) < 0)
		log_warning("cannot shorten the reserve of %s: %s", store->place.path,
			    strerror(errno));
}

/* Where pages of the database are free that it does not give back, the WAL alone is what is short
 * of room: the reserve shares its own with it. */
void sqlite_reserve_yield(struct sqlite *store)
{
	uint64_t left, want;
	int64_t unused = 0;

	if (!reserve_share(store, &left, &want) || left >= SQLITE_WAL_LEAST ||
	    want >= store->room.held ||
	    sqlite_conn_query(&store->writer, "PRAGMA main.freelist_count", 0, &unused) < 0 ||
	    (uint64_t)unused * store->room.page < SQLITE_WAL_LEAST)
		return;
	want = MAX(want, RESERVE_LEFT);
	if (ftruncate(store->room.fd, (off_t)want) == 0)
		store->room.held = want;
}

static bool give_up(struct sqlite *store, uint64_t part)
{
	uint64_t held = store->room.held, left = MAX(held - MIN(held, part), RESERVE_LEFT);

	if (store->room.fd < 0 || held <= RESERVE_LEFT)
		return false;
	if (ftruncate(store->room.fd, (off_t)left) < 0)
		return false;
	store->room.had = MAX(store->room.had, held);
	store->room.held = left;
	return true;
}

bool sqlite_reserve_give_up(struct sqlite *store)
{
	return give_up(store, store->room.held);
}

/* After blocks were refused: whether more may be had. */
static bool give_part(struct sqlite *store, int error, uint64_t retained)
{
	return error == -ENOSPC && store->room.held > retained && give_up(store, PASSED);
}

int sqlite_reserve_to_database(struct sqlite *store, uint64_t from, uint64_t end)
{
	while (from < end) {
		uint64_t part = MIN(end - from, PASSED);
		int r = sqlite_file_allocate(store->place.file, from + part);

		if (r == 0)
			from += part;
		else if (!give_part(store, r, 0))
			return r;
	}
	return 0;
}

static int pass_to_wal(struct sqlite *store, int fd, int mode, uint64_t from, uint64_t end)
{
	uint64_t retained = mode ? 0 : store->room.held / RETAINED;

	end = MIN(end, sqlite_reserve_limit());
	while (from < end) {
		uint64_t part = MIN(end - from, PASSED);
		int r = allocate(fd, mode, from, part);

		if (r == 0)
			from += part;
		else if (!give_part(store, r, retained))
			return r;
	}
	return 0;
}

static int open_wal(const struct sqlite *store)
{
	return descriptor_open(BESIDE(store->place.path, "-wal"), O_WRONLY | O_NOFOLLOW, 0);
}

/* Behind its end, so that its size tells what was written.  A small filesystem needs its blocks for
 * other things. */
void sqlite_reserve_keep_wal(struct sqlite *store)
{
	_cleanup_(closep) int fd = open_wal(store);
	uint64_t total, left;

	if (fd >= 0 && sqlite_reserve_free(store, &total, &left))
		pass_to_wal(store, fd, FALLOC_FL_KEEP_SIZE, 0,
			    MIN(total / RESERVE_PART, (uint64_t)SQLITE_WAL_LEAST));
}

/* As zeros, which never look like frames; SQLite cuts them off when it begins the WAL anew. */
void sqlite_reserve_to_wal(struct sqlite *store)
{
	_cleanup_(closep) int fd = open_wal(store);
	struct stat st;
	uint64_t from;

	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	from = MAX((uint64_t)st.st_size, (uint64_t)SQLITE_WAL_LEAST);
	pass_to_wal(store, fd, 0, from, from + store->room.held);
}

void sqlite_reserve_open(struct sqlite *store)
{
	uint64_t total, left;
	struct stat st;
	int r;

	if (store->room.fd >= 0 || !sqlite_reserve_free(store, &total, &left))
		return;
	store->room.size = MIN(total / RESERVE_PART, (uint64_t)RESERVE_MAX);
	store->room.fd = reserve_open(store->place.path, O_CREAT);
	if (store->room.fd < 0) {
		log_warning(
			"cannot make %s-reserve (%s): on a full disk, you cannot delete anything",
			store->place.path,
			store->room.fd == -EEXIST ? "there is another file of that name" :
						    strerror(-store->room.fd));
		store->room.fd = -1;
		return;
	}
	/* Of several mounts one has it. */
	r = descriptor_lock(store->room.fd, F_WRLCK, 0, 0, false);
	if (r == -EAGAIN || r == -EACCES) {
		closep(&store->room.fd);
		store->room.fd = -1;
		return;
	}
	if (fstat(store->room.fd, &st) == 0)
		store->room.held = MIN((uint64_t)st.st_blocks * 512, (uint64_t)st.st_size);
	sqlite_reserve_keep_wal(store);
	sqlite_reserve_build(store);
}

void sqlite_reserve_close(struct sqlite *store)
{
	sqlite_reserve_build(store);
	closep(&store->room.fd);
	store->room.fd = -1;
}

static int open_unopened(const char *path)
{
	_cleanup_(freep) char *real = realpath(path, NULL);

	return real && !sqlite_backend_is_owned(real) ? reserve_open(real, 0) : -1;
}

uint64_t sqlite_reserve_lend_unopened(const char *path, bool part)
{
	_cleanup_(closep) int fd = open_unopened(path);
	uint64_t left = RESERVE_LEFT;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= RESERVE_LEFT)
		return 0;
	if (part)
		left = MAX((uint64_t)st.st_size - MIN((uint64_t)st.st_size, PASSED), left);
	return ftruncate(fd, (off_t)left) == 0 ? (uint64_t)st.st_size - left : 0;
}

void sqlite_reserve_return(const char *path, uint64_t size)
{
	_cleanup_(closep) int fd = size ? open_unopened(path) : -1;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0)
		(void)allocate(fd, 0, (uint64_t)st.st_size, size);
}
