/* SPDX-License-Identifier: MIT */
/*
 * How a verb reaches the files of a store.
 *
 * A store has one writer: who owns it (backend/sqlite/file.c), which is the daemon that has it
 * mounted for writing.  What that daemon holds back (a save that is not finished, a line without
 * its end, the times of files) is nowhere else, and it has told the kernel what may be cached.  So
 * beside a mount there is one right way to change a file: the mount.  The rule is the same for
 * reading, since only the mount shows what everybody else sees at that moment:
 *
 *	a mount of the store is in reach	system calls below its mount point
 *	nobody owns the store			a tree in this process, as the daemon has it
 *	the owner's mount is out of reach	a read-only tree; who would write is refused
 *
 * In reach is what /proc/self/mountinfo says and a few checks confirm (access-mount.c).  Out of
 * reach are mounts in another mount namespace, and another user's without allow_other.  Then the
 * tree sees what is committed: rows, pieces, drafts.  It does not see an unfinished line, nor the
 * latest writes to an ordinary file.
 *
 * Who writes by a tree owns the store meanwhile.  So verbs that write come one after the other, and
 * a mount is refused and told by whom.
 *
 * Who reads owns nothing while it lasts, so that a long one keeps nobody from mounting.  But in a
 * store that nobody has mounted, others may have changed rows for which there are no files yet.
 * These are taken in first, by a tree that owns the store for that moment.  That changes tables of
 * ours alone, and happens only where a mount with -o ro would do it: never in another program's
 * database that has none of our tables, and never where the store must not be written.
 *
 * Both ways offer the same few operations (access-way.h); what is made of them is here.
 */
#include "src/access.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/access-way.h"
#include "src/base/cleanup.h"
#include "src/mounts.h"
#include "src/stop.h"
#include "src/trust.h"

enum {
	PATIENCE = 5000, /* milliseconds to wait for another verb to be done with the store */
	PATIENCE_STEP = 20,
};

static int refuse_memory(const char *store, char **ret_why)
{
	if (strcmp(store, "memory:") != 0)
		return 0;
	*ret_why = bytes_dup(BYTES("a store in memory is in its mount and nowhere else; use the "
				   "files there"));
	return -EINVAL;
}

static int store_path(const char *store, unsigned flags, char **ret_path, char **ret_why)
{
	int r = refuse_memory(store, ret_why);

	if (r < 0)
		return r;
	r = flags & ACCESS_WRITE ? trust_path(store, TRUST_STORE, ret_why) : 0;
	if (r < 0)
		return r;
	r = mounts_absolute(store, ret_path);
	if (r < 0 && asprintf(ret_why, "cannot reach the store %s: %s", store, strerror(-r)) < 0)
		*ret_why = NULL;
	return r;
}

/* The verb before us may be about to end, or the daemon, or the mount may be about to answer. */
static int open_patiently(struct access *access, const char *path, unsigned flags,
			  const struct options *options, char **ret_why)
{
	const struct timespec step = { .tv_nsec = PATIENCE_STEP * 1000000L };
	_cleanup_(freep) char *unfit = NULL;
	int r;

	for (int waited = 0;; waited += PATIENCE_STEP) {
		freep(&unfit);
		freep(ret_why);
		*ret_why = unfit = NULL;
		r = access_mount_open(access, path, flags, &unfit);
		if (r == -ENOENT && !unfit)
			r = access_tree_open(access, path, flags, options, ret_why);
		if (r != -EBUSY || waited >= PATIENCE || stop_wanted())
			break;
		nanosleep(&step, NULL);
	}
	if (unfit)
		*ret_why = steal_ptr(unfit);
	return r;
}

/* To the sentence of the lower room what to do here. */
static void explain_busy(char **why)
{
	char *more;

	if (*why && asprintf(&more,
			     "%s, and that cannot be reached from here; try again later, write "
			     "where it is mounted, or unmount it",
			     *why) >= 0) {
		free(*why);
		*why = more;
	}
}

int access_open(const char *store, unsigned flags, const struct options *options,
		struct access **ret_access, char **ret_why)
{
	_cleanup_(freep) struct access *access = calloc(1, sizeof(*access));
	_cleanup_(freep) char *path = NULL;
	int r;

	*ret_why = NULL;
	if (!access)
		return -ENOMEM;
	r = store_path(store, flags, &path, ret_why);
	if (r == 0)
		r = open_patiently(access, path, flags, options, ret_why);
	if (r == -EBUSY)
		explain_busy(ret_why);
	if (r < 0)
		return r;
	*ret_access = steal_ptr(access);
	return 0;
}

static int settle_mounted(const char *path, char **ret_why)
{
	struct access access = { 0 };
	int r = access_mount_open(&access, path, 0, ret_why);

	if (r < 0)
		return r == -ENOENT ? -ENOTCONN : r;
	r = access_mount_settle(&access);
	access.way->close(&access);
	if (r < 0 && asprintf(ret_why, "the mount of %s cannot write what it holds: %s", path,
			      strerror(-r)) < 0)
		*ret_why = NULL;
	return r;
}

int access_settle(const char *store, const struct options *options, char **ret_why)
{
	_cleanup_(freep) char *path = NULL;
	struct access *access;
	int r;

	*ret_why = NULL;
	r = store_path(store, 0, &path, ret_why);
	if (r < 0)
		return r;
	if (backend_is_owned(path))
		return settle_mounted(path, ret_why);
	if (!backend_has_kept(path))
		return 0;
	r = access_open(path, ACCESS_WRITE, options, &access, ret_why);
	if (r == 0)
		access_close(access);
	return r;
}

int access_backend(const char *store, const struct options *options, struct backend **ret_backend,
		   char **ret_why)
{
	const struct backend_options wanted = { .read_only = true, .table = options->table };
	int r = refuse_memory(store, ret_why);

	return r < 0 ? r : backend_open(store, &wanted, ret_backend, ret_why);
}

void access_close(struct access *access)
{
	if (!access)
		return;
	access_forget_dir(access);
	access->way->close(access);
	free(access);
}

int access_clean(const char *path, char **ret_clean)
{
	_cleanup_(buf_done) struct buf cleaned = { 0 };
	int r = buf_reserve(&cleaned, strlen(path) + 1);

	while (r == 0 && *path) {
		size_t size = strcspn(path, "/");
		struct bytes name = bytes_make(path, size);

		path += size + (path[size] == '/');
		if (bytes_equal(name, BYTES("..")))
			return -EXDEV;
		if (size > NAME_MAX)
			return -ENAMETOOLONG;
		if (!size || bytes_equal(name, BYTES(".")))
			continue;
		if (cleaned.size)
			r = buf_append_byte(&cleaned, '/');
		if (r == 0)
			r = buf_append_bytes(&cleaned, name);
	}
	if (r == 0)
		r = buf_append_byte(&cleaned, '\0');
	if (r == 0)
		*ret_clean = steal_ptr(cleaned.data);
	return r;
}

static void release_dir(struct access *access, struct access_dir *dir)
{
	if (!dir || --dir->users)
		return;
	access->way->done(access, &dir->place);
	free(dir);
}

void access_forget_dir(struct access *access)
{
	release_dir(access, access->kept);
	access->kept = NULL;
}

void access_target_done(struct access_target *target)
{
	release_dir(target->access, target->dir);
	free(target->path);
	*target = (struct access_target){ 0 };
}

static bool is_kept(const struct access *access, const char *path, size_t size)
{
	const struct access_dir *dir = access->kept;

	return dir && strncmp(dir->path, path, size) == 0 && !dir->path[size];
}

/* Most paths are in the same directory as the one before, and a walk from the root costs a look
 * into the store for each name. */
int access_target_place(struct access_target *target)
{
	struct access *access = target->access;
	size_t size;
	const char *name = access_split(target->path, &size);
	struct access_dir *dir;
	int r;

	if (!is_kept(access, target->path, size)) {
		dir = calloc(1, sizeof(*dir) + size + 1);
		r = dir ? access->way->place(access, target->path, &dir->place) : -ENOMEM;
		if (r < 0) {
			free(dir);
			return r;
		}
		memcpy(dir->path, target->path, size);
		access_forget_dir(access);
		dir->users = 1;
		access->kept = dir;
	}
	target->dir = access->kept;
	target->dir->users++;
	target->place = target->dir->place;
	target->place.name = name;
	if (!access->way->keeps_dirs)
		access_forget_dir(access);
	return 0;
}

int access_target_find(struct access *access, const char *path, struct access_target *target)
{
	int r = access_clean(path, &target->path);

	target->access = access;
	return r < 0 ? r : access_target_place(target);
}

int access_target_stat(struct access_target *target, struct stat *ret_stat)
{
	return target->access->way->stat(target->access, &target->place, ret_stat);
}

int access_stat(struct access *access, const char *path, struct stat *ret_stat)
{
	_cleanup_(access_target_done) struct access_target target = { 0 };
	int r = access_target_find(access, path, &target);

	return r < 0 ? r : access_target_stat(&target, ret_stat);
}

int access_order(struct access *access, struct bytes order)
{
	return access->way->order(access, order);
}

int access_list(struct access *access, const char *path, bool with_stat, access_entry_fn *fn,
		void *arg)
{
	_cleanup_(access_target_done) struct access_target target = { 0 };
	int r = access_target_find(access, path, &target);

	return r < 0 ? r : access->way->list(access, &target.place, with_stat, fn, arg);
}
