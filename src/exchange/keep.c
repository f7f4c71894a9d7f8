/* SPDX-License-Identifier: MIT */
/*
 * Keeping a folder in a mount:
 *
 *   1. a file TARGET.unfinished says that a copy has begun, and of which folder
 *   2. the folder is copied, and each file read back and compared; then once more what changed
 *      since; what an earlier run has copied and the folder has no more goes from the copy
 *   3. in one step a link to the copy takes the place of the folder, which has another name then
 *   4. what was added to the folder meanwhile is brought over, once all its files are closed
 *   5. the mark goes
 *
 * What was interrupted before 3 begins anew, and finds what is copied already; behind it, 4 is done
 * again.  By then the client may have removed files from the copy, so that only what has changed
 * since the second copying began is brought over: the link is made then, and keeps the time of it.
 */
#include "src/exchange/keep.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "src/exchange/keep-copy.h"
#include "src/mounts/holders.h"

enum { CLOSING_TRIES = 50, CLOSING_US = 20000 };

void keep_done(struct keep *keep)
{
	buf_done(&keep->old);
	buf_done(&keep->conflicts);
}

static int fail(const char *path, int error)
{
	return log_fail(error, "%s: %s", path, strerror(-error));
}

/* By a link, or by a bind mount. */
static bool is_kept(const struct keep *keep)
{
	_cleanup_(freep) char *path = NULL;
	struct stat folder, there, target;

	if (lstat(keep->folder, &folder) < 0)
		return false;
	if (S_ISLNK(folder.st_mode)) {
		path = realpath(keep->folder, NULL);
		return path && strcmp(path, keep->target) == 0;
	}
	return stat(keep->folder, &there) == 0 && stat(keep->target, &target) == 0 &&
	       there.st_dev == target.st_dev && there.st_ino == target.st_ino;
}

static char *mark_of(const struct keep *keep)
{
	return str_printf("%s.unfinished", keep->target);
}

int keep_look(const struct keep *keep)
{
	_cleanup_(freep) char *mark = mark_of(keep);

	if (!mark)
		return -ENOMEM;
	if (!is_kept(keep))
		return KEEP_NOT;
	return access(mark, F_OK) == 0 ? KEEP_UNFINISHED : KEEP_KEPT;
}

/* PATH, or PATH.2 and so on; with a NUL behind it. */
static int numbered(struct buf *name, const char *path, const char *suffix, int number)
{
	buf_clear(name);
	return number == 1 ? buf_printf(name, "%s%s", path, suffix) :
			     buf_printf(name, "%s%s.%d", path, suffix, number);
}

/* The first that nothing has. */
static int free_name(struct buf *name, const char *path, const char *suffix)
{
	struct stat st;
	int r = 0;

	for (int number = 1; r == 0; number++) {
		r = numbered(name, path, suffix, number);
		if (r == 0 && lstat(name->data, &st) < 0)
			return errno == ENOENT ? 0 : -errno;
	}
	return r;
}

/* The processes that have a file of it open.  Clients that open a file for each line have it only
 * for a moment: wait for that. */
static int wait_closed(const char *folder, struct buf *words)
{
	_cleanup_(freep) char *path = realpath(folder, NULL);
	int r = path ? holders_tell_below(path, words) : -errno;

	for (int tries = 1; r == 0 && words->size && tries < CLOSING_TRIES; tries++) {
		usleep(CLOSING_US);
		buf_clear(words);
		r = holders_tell_below(path, words);
	}
	return r;
}

static int refuse_if_open(const char *folder)
{
	_cleanup_(buf_done) struct buf words = { 0 };
	int r = wait_closed(folder, &words);

	if (r < 0)
		return fail(folder, r);
	if (!words.size)
		return 0;
	return log_fail(-EBUSY, "%s: %s; stop it and run this again", folder, words.data);
}

/* Exchange two names; in three steps on a filesystem that cannot do so in one. */
static int exchange(const char *one, const char *other)
{
	_cleanup_(buf_done) struct buf spare = { 0 };
	int r;

	if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	r = free_name(&spare, other, ".moving");
	if (r < 0)
		return r;
	if (rename(other, spare.data) < 0)
		return -errno;
	if (rename(one, other) < 0) {
		r = -errno;
		rename(spare.data, other);
		return r;
	}
	return rename(spare.data, one) < 0 ? -errno : 0;
}

static int make_parents(const char *path)
{
	_cleanup_(freep) char *name = strdup(path);

	if (!name)
		return -ENOMEM;
	for (char *slash = name; (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		if (mkdir(name, 0700) < 0 && errno != EEXIST)
			return fail(name, -errno);
		*slash = '/';
	}
	return 0;
}

/* ---- The mark ---- */

static int write_mark(const struct keep *keep, const char *mark)
{
	int fd = descriptor_open(mark, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && write(fd, keep->folder, strlen(keep->folder)) < 0)
		r = -errno;
	if (fd >= 0 && close(fd) < 0 && r == 0)
		r = -errno;
	return r < 0 ? fail(mark, r) : 0;
}

/* By a name of our own, since what has one does not come back from the trash. */
static int remove_mark(const char *mark)
{
	const char *slash = strrchr(mark, '/');
	_cleanup_(freep) char *own =
		str_printf("%.*s.sessfs-keep-%d", (int)(slash + 1 - mark), mark, (int)getpid());

	if (!own)
		return -ENOMEM;
	if (rename(mark, own) < 0 || unlink(own) < 0)
		return -errno;
	return 0;
}

/* Check that an existing copy was made of this folder, to go on with it. */
static int begin(const struct keep *keep, const char *mark)
{
	_cleanup_(closep) int fd = descriptor_open(mark, O_RDONLY | O_NOFOLLOW, 0);
	char text[PATH_MAX] = "";
	int r = fd < 0 || read(fd, text, PATH_MAX - 1) < 0 ? -errno : 0;

	if (r == 0 && *text && strcmp(text, keep->folder) != 0)
		return log_fail(-EBUSY, "%s is being filled from %s", keep->target, text);
	if (r == 0 && *text)
		return 0;
	if (r == 0)
		r = remove_mark(mark);
	if (r == 0)
		r = -ENOENT;
	if (r < 0 && r != -ENOENT)
		return fail(mark, r);
	/* A store and an ordinary filesystem both refuse to remove what has something in it. */
	if (rmdir(keep->target) < 0 && errno != ENOENT)
		return log_fail(-EEXIST, "%s is not empty; move its files elsewhere first",
				keep->target);
	r = make_parents(mark);
	return r < 0 ? r : write_mark(keep, mark);
}

static int end(struct keep *keep, const char *mark, int r)
{
	int error = r == 0 && mark ? remove_mark(mark) : 0;

	if (error < 0)
		r = fail(mark, error);
	return r == 0 && keep->conflicts.size ? -EEXIST : r;
}

/* ---- Keeping ---- */

static void drop_link(const char *link)
{
	struct stat st;

	if (lstat(link, &st) == 0 && S_ISLNK(st.st_mode))
		unlink(link);
}

static int put_link(struct keep *keep, const char *link)
{
	int r = free_name(&keep->old, keep->folder, ".before");

	if (r == 0 && rename(link, keep->old.data) < 0)
		r = -errno;
	if (r < 0)
		return fail(keep->folder, r);
	r = exchange(keep->old.data, keep->folder);
	if (r < 0) {
		unlink(keep->old.data);
		return fail(keep->folder, r);
	}
	/* A file that was opened just before the exchange is complete only when it is closed. */
	return refuse_if_open(keep->old.data);
}

static int change(struct keep *keep, const char *link)
{
	_cleanup_(closep) int below = -1;
	int r;

	if (!keep->bind) {
		r = put_link(keep, link);
	} else {
		/* The folder is below the mount then, where this still leads to it. */
		below = descriptor_open(keep->folder, O_RDONLY | O_DIRECTORY, 0);
		r = below < 0 ? -errno : buf_printf(&keep->old, "/proc/self/fd/%d/.", below);
		if (r == 0 && mount(keep->target, keep->folder, NULL, MS_BIND, NULL) < 0)
			r = -errno;
		if (r < 0)
			fail(keep->folder, r);
	}
	return r < 0 ? r : keep_bring_over(keep->old.data, keep->target, keep);
}

/* Of the names that folders got when a link took their place, the one that was given last, which
 * changes a folder: it need not have the highest number. */
static int find_old(struct keep *keep)
{
	_cleanup_(buf_done) struct buf next = { 0 };
	int64_t given = 0;
	struct stat st;

	for (int number = 1;; number++) {
		int r = numbered(&next, keep->folder, ".before", number);

		if (r < 0)
			return r;
		if (lstat(next.data, &st) < 0)
			return keep->old.size ? 0 : -ENOENT;
		if (keep->old.size && time_join(st.st_ctim) <= given)
			continue;
		given = time_join(st.st_ctim);
		buf_clear(&keep->old);
		r = buf_printf(&keep->old, "%s", next.data);
		if (r < 0)
			return r;
	}
}

/* Finish a run that was interrupted after the exchange. */
static int finish(struct keep *keep, const char *mark)
{
	struct stat st;
	int r = lstat(keep->folder, &st) < 0 ? -errno :
		S_ISLNK(st.st_mode)	     ? find_old(keep) :
					       -ENOENT;

	if (r == -ENOENT)
		log_error("%s: an earlier run was interrupted; revert it with --undo, and compare "
			  "with the folder below the mount",
			  keep->folder);
	if (r == 0)
		r = refuse_if_open(keep->old.data);
	if (r == 0) {
		keep->since = st.st_mtim;
		r = keep_bring_over(keep->old.data, keep->target, keep);
	}
	return end(keep, mark, r);
}

static int judge_folder(const struct keep *keep)
{
	char target[PATH_MAX];
	ssize_t size = readlink(keep->folder, target, sizeof(target) - 1);

	if (size >= 0)
		return log_fail(-EEXIST, "%s is a link to %.*s, and is left unchanged",
				keep->folder, (int)size, target);
	if (errno != EINVAL && errno != ENOENT)
		return fail(keep->folder, -errno);
	if (make_parents(keep->folder) < 0)
		return -ENOTDIR;
	if (mkdir(keep->folder, 0700) < 0 && errno != EEXIST)
		return fail(keep->folder, -errno);
	return 0;
}

/* The second copy is quick, so little can be added between it and the exchange. */
static int copy(struct keep *keep, const char *link)
{
	int r = 0;

	for (int times = 0; r == 0 && times < 2; times++) {
		keep->files = 0;
		if (times && !keep->bind) {
			drop_link(link);
			r = symlink(keep->target, link) < 0 ? fail(link, -errno) : 0;
		}
		if (r == 0)
			r = keep_prune(keep->folder, keep->target, &keep->stale);
		if (r == 0)
			r = keep_copy(keep->folder, keep->target, &keep->files);
		if (r == 0)
			r = refuse_if_open(keep->folder);
	}
	return r;
}

int keep_move(struct keep *keep)
{
	_cleanup_(freep) char *mark = mark_of(keep);
	/* What is to take the folder's place, or what an interrupted run has left of it. */
	_cleanup_(freep) char *link = str_printf("%s.sessfs-link", keep->folder);
	int r = keep_look(keep);

	if (!mark || !link || r < 0)
		return fail(keep->folder, -ENOMEM);
	if (r != KEEP_NOT)
		return r == KEEP_KEPT ? 1 : finish(keep, mark);
	r = judge_folder(keep);
	if (r == 0)
		r = refuse_if_open(keep->folder);
	if (r == 0)
		r = begin(keep, mark);
	if (r == 0)
		r = copy(keep, link);
	if (r == 0)
		r = change(keep, link);
	drop_link(link);
	return r < 0 ? r : end(keep, mark, r);
}

/* ---- And back ---- */

/* new: the copy; the link, or an empty name, has its place in the end. */
static int put_back(struct keep *keep, const char *new)
{
	_cleanup_(buf_done) struct buf words = { 0 };
	struct stat st;
	bool bound = lstat(keep->folder, &st) == 0 && !S_ISLNK(st.st_mode);
	int r;

	if (bound && umount2(keep->folder, UMOUNT_NOFOLLOW) < 0)
		return fail(keep->folder, -errno);
	r = exchange(new, keep->folder);
	if (r < 0)
		return fail(keep->folder, r);
	r = wait_closed(keep->target, &words);
	if (r == 0)
		r = keep_bring_over(keep->target, keep->folder, keep);
	if (r < 0)
		return r;
	if (!bound)
		return unlink(new) < 0 ? fail(new, -errno) : 0;
	/* What was below the mount. */
	r = free_name(&keep->old, keep->folder, ".before");
	if (r == 0 && rename(new, keep->old.data) < 0)
		r = -errno;
	return r < 0 ? fail(new, r) : 0;
}

int keep_undo(struct keep *keep)
{
	_cleanup_(freep) char *mark = mark_of(keep);
	_cleanup_(buf_done) struct buf new = { 0 };
	int r = is_kept(keep) ? free_name(&new, keep->folder, ".after") : 1;

	if (r != 0 || !mark)
		return r != 0 ? r : -ENOMEM;
	r = refuse_if_open(keep->target);
	if (r == 0)
		r = keep_copy(keep->target, new.data, &keep->files);
	if (r == 0)
		r = refuse_if_open(keep->target);
	if (r == 0)
		r = put_back(keep, new.data);
	if (r == 0 && unlink(mark) < 0 && errno != ENOENT)
		r = fail(mark, -errno);
	return end(keep, NULL, r);
}
