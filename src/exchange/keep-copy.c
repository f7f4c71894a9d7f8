/* SPDX-License-Identifier: MIT */
#include "src/exchange/keep-copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "src/exchange/copier.h"
#include "src/store/way.h"

struct keeping {
	struct copier copier; /* must be first */
	const char *to;
	unsigned long *files;
	struct keep *keep;
	struct buf gone; /* the directory of the copy, all of which goes; empty: none */
};

static struct keeping *keeping_of(struct copier *copier)
{
	return (struct keeping *)copier;
}

static void keeping_done(struct keeping *keeping)
{
	access_close(keeping->copier.from);
	access_close(keeping->copier.to);
	copier_done(&keeping->copier);
	buf_done(&keeping->gone);
}

static int open_side(const char *path, struct access **ret_access)
{
	int fd = descriptor_open(path, O_RDONLY | O_DIRECTORY, 0);
	int r = fd < 0 ? -errno : access_folder_open(fd, ret_access);

	if (r < 0)
		log_error("%s: %s", path, strerror(-r));
	return r;
}

static int run(struct keeping *keeping, const char *from, const char *to, unsigned flags,
	       const struct copier_sink *sink)
{
	struct copier *copier = &keeping->copier;
	int r = open_side(from, &copier->from);

	if (r == 0)
		r = open_side(to, &copier->to);
	if (r < 0)
		return r;
	access_beside(copier->to, copier->from, "");
	keeping->to = to;
	copier->operand = from;
	copier->flags = COPIER_STRICT | COPIER_VERIFY | COPIER_SETID | flags |
			(geteuid() == 0 ? COPIER_OWNER : 0);
	copier->sink = sink;
	return copier_run(copier);
}

/* ---- All ---- */

static int copy_leaf(struct copier *copier, struct copier_entry *entry)
{
	int r = copier_leaf(copier, entry);

	*keeping_of(copier)->files += r == 0 && S_ISREG(entry->st.st_mode);
	return r;
}

int keep_copy(const char *from, const char *to, unsigned long *files)
{
	struct copier_sink sink = copier_target;
	_cleanup_(keeping_done) struct keeping keeping = { .files = files };
	struct copier *copier = &keeping.copier;
	struct copier_entry top = {
		.from = "", .path = "", .name = from, .set = ACCESS_SET_MODE | ACCESS_SET_TIMES
	};
	int r;

	if (mkdir(to, 0700) < 0 && errno != EEXIST) {
		r = -errno;
		return log_fail(r, "%s: %s", to, strerror(-r));
	}
	sink.leaf = copy_leaf;
	r = run(&keeping, from, to, 0, &sink);
	if (r < 0)
		return r;
	top.set |= copier->flags & COPIER_OWNER ? ACCESS_SET_OWNER : 0;
	r = access_stat(copier->from, "", &top.st);
	if (r == 0)
		r = copier_leave(copier, &top);
	if (r == 0)
		r = access_sync(copier->to);
	return r < 0 ? copier_fail(copier, &top, r) : 0;
}

/* ---- Files that are gone ---- */

static int same_link(struct copier *copier, const char *path)
{
	_cleanup_(buf_done) struct buf one = { 0 }, other = { 0 };

	return access_read_link(copier->from, path, &one) == 0 &&
	       access_read_link(copier->to, path, &other) == 0 &&
	       bytes_equal(buf_bytes(&one), buf_bytes(&other));
}

/* Whether the folder has the same, as far as no copying would make it so: 1, 0, -errno.  The copy
 * is what is gone through. */
static int is_there(struct copier *copier, const struct copier_entry *entry)
{
	struct stat st;
	int r;

	if (keeping_of(copier)->gone.size)
		return 0;
	r = access_stat(copier->to, entry->path, &st);
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
	if ((st.st_mode ^ entry->st.st_mode) & S_IFMT)
		return 0;
	return !S_ISLNK(st.st_mode) || same_link(copier, entry->path);
}

static int prune(struct copier *copier, const struct copier_entry *entry, bool dir)
{
	int r = access_remove_one(copier->from, entry->from, dir);

	return r == -ENOENT ? 0 : r;
}

static int prune_enter(struct copier *copier, struct copier_entry *dir)
{
	struct buf *gone = &keeping_of(copier)->gone;
	int r = is_there(copier, dir);

	if (r == 0 && !gone->size)
		r = buf_printf(gone, "%s", dir->path);
	return MIN(r, 0);
}

static int prune_leave(struct copier *copier, struct copier_entry *dir)
{
	struct buf *gone = &keeping_of(copier)->gone;
	int r = gone->size ? prune(copier, dir, true) : 0;

	if (gone->size && strcmp(gone->data, dir->path) == 0)
		buf_clear(gone);
	return r;
}

static int prune_leaf(struct copier *copier, struct copier_entry *entry)
{
	int r = is_there(copier, entry);

	if (r)
		return MIN(r, 0);
	++*keeping_of(copier)->files;
	return prune(copier, entry, false);
}

int keep_prune(const char *from, const char *to, unsigned long *files)
{
	static const struct copier_sink sink = {
		.enter = prune_enter,
		.leave = prune_leave,
		.leaf = prune_leaf,
	};
	_cleanup_(keeping_done) struct keeping keeping = { .files = files };
	struct stat st;

	if (lstat(to, &st) < 0 && errno == ENOENT)
		return 0;
	return run(&keeping, to, from, 0, &sink);
}

/* ---- Late additions ---- */

/* 1: it is; the directories above it are there then, unless the copy has lost them since. */
static int is_late(struct copier *copier, const struct copier_entry *entry)
{
	size_t made = 0;
	int r;

	if (time_join(entry->st.st_ctim) < time_join(keeping_of(copier)->keep->since))
		return 0;
	r = access_make_parents(copier->to, entry->path, &made);
	return r < 0 ? r : 1;
}

/* What is in a directory that has not changed may have. */
static int bring_enter(struct copier *copier, struct copier_entry *dir)
{
	int r = is_late(copier, dir);

	return r == 1 ? copier_enter(copier, dir) : r;
}

static int bring_leaf(struct copier *copier, struct copier_entry *entry)
{
	struct keep *keep = keeping_of(copier)->keep;
	struct buf *conflicts = &keep->conflicts;
	const uint64_t unchanged = copier->did[COPIER_UNCHANGED];
	struct stat st;
	int r = is_late(copier, entry);

	if (r <= 0 || !(S_ISREG(entry->st.st_mode) || S_ISLNK(entry->st.st_mode)))
		return MIN(r, 0);
	if (S_ISLNK(entry->st.st_mode) && access_stat(copier->to, entry->path, &st) == 0)
		return 0;
	r = copier_leaf(copier, entry);
	if (r == 0 && S_ISREG(entry->st.st_mode))
		keep->late += unchanged == copier->did[COPIER_UNCHANGED];
	return r != -ESTALE ? r :
			      buf_printf(conflicts, "%s%s/%s", conflicts->size ? ", " : "",
					 keeping_of(copier)->to, entry->path);
}

int keep_bring_over(const char *from, const char *to, struct keep *keep)
{
	static const struct copier_sink sink = {
		.enter = bring_enter,
		.file = copier_file,
		.other = copier_other,
		.leaf = bring_leaf,
	};
	_cleanup_(keeping_done) struct keeping keeping = { .keep = keep };

	return run(&keeping, from, to, COPIER_GROW, &sink);
}
