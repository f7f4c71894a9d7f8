/* SPDX-License-Identifier: MIT */
/*
 * How a command reaches the files of a store.
 *
 * A mount holds back some bytes: a save that is not finished, a line without its end, the latest
 * writes to an ordinary file.  Only the mount shows these to everybody at that moment; it also has
 * what is asked for in memory, and checks permissions.  So where a mount can be used, it is:
 *
 *	a mount of the store is in reach	system calls below its mount point
 *	and is not a view of it
 *	otherwise				a tree in this process, as a daemon has it
 *
 * /proc/self/mountinfo and a few checks (mount.c) say which mounts are in reach.  Mounts in another
 * mount namespace are not, nor another user's without allow_other.  Then the tree sees what is
 * committed: rows, pieces, drafts.  It does not see an unfinished line, nor the latest writes to an
 * ordinary file.
 *
 * A command that writes by a tree is meanwhile one more mount of the store (backend.h, other
 * mounts), without a mount point.  Other commands and mounts come and go beside it.  Only a mount
 * with -o exclusive keeps it out, and is kept out by it.
 *
 * A command that reads does not own the store.  But in a store without mounts, other programs may
 * have changed rows that have no files yet.  These get their files first, so that an answer has all
 * that was committed before the question: a tree makes them that owns the store for that moment, or
 * the reader waits until the present owner has done so.
 * That changes only our own tables, and happens only where a mount with -o ro would do it: never in
 * another program's database that has none of our tables.  Where the store must not be written, the
 * command is refused, since it would answer with a part.
 *
 * Both ways offer the same few operations (way.h); this file builds the rest on them.
 */
#include "src/store/access.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/store/way.h"
#include "backend/base/array.h"
#include "src/mounts/mounts.h"
#include "src/user/stop.h"
#include "src/mounts/trust.h"

enum {
	PATIENCE = 5000, /* milliseconds to wait for another owner to be done with the store */
	PATIENCE_READING = 60000, /* and for it to make files for rows that others have changed */
	PATIENCE_STEP = 20,
};

static int refuse_memory(const char *store, char **ret_why)
{
	if (!backend_is_private(store))
		return 0;
	return str_explain(ret_why, -EINVAL,
			   "a store in memory exists only in its mount; use the files there");
}

int access_name(const char *store, bool writes, char **ret_name, char **ret_why)
{
	int r = refuse_memory(store, ret_why);

	if (r == 0 && writes && backend_has_path(store))
		r = trust_path(store, TRUST_STORE, ret_why);
	return r < 0 ? r : mounts_store(store, ret_name, ret_why);
}

/* Try again on -EBUSY: another owner may be about to end, or a mount about to answer. */
static int open_patiently(struct access *access, const char *store, const char *name,
			  unsigned flags, const struct options *options, char **ret_why)
{
	const int patience = flags & (ACCESS_WRITE | ACCESS_FOLLOW) ? PATIENCE : PATIENCE_READING;
	_cleanup_(freep) char *unfit = NULL;
	int r;

	for (int waited = 0;; waited += PATIENCE_STEP) {
		freep(&unfit);
		freep(ret_why);
		*ret_why = unfit = NULL;
		r = access_mount_open(access, name, flags, &unfit);
		if (r == -ENOENT && !unfit)
			r = access_tree_open(access, store, flags, options, ret_why);
		if (r != -EBUSY || waited >= patience || stop_wanted())
			break;
		usleep(PATIENCE_STEP * 1000);
	}
	if (unfit)
		*ret_why = steal_ptr(unfit);
	return r;
}

int access_open(const char *store, unsigned flags, const struct options *options,
		struct access **ret_access, char **ret_why)
{
	_cleanup_(freep) struct access *access = calloc(1, sizeof(*access));
	_cleanup_(freep) char *name = NULL;
	int r;

	*ret_why = NULL;
	if (!access)
		return -ENOMEM;
	r = access_name(store, flags & (ACCESS_WRITE | ACCESS_FOLLOW), &name, ret_why);
	/* A URL has more in it than its name. */
	if (r == 0)
		r = open_patiently(access, backend_has_path(store) ? name : store, name, flags,
				   options, ret_why);
	if (r == -EBUSY && (flags & ACCESS_WRITE) && *ret_why)
		str_explain(ret_why, r,
			    "%s, and that cannot be reached from here; try again later, write "
			    "where it is mounted, or unmount it",
			    *ret_why);
	if (r < 0)
		return r;
	*ret_access = steal_ptr(access);
	return 0;
}

static int settle_mounted(const char *name, char **ret_why)
{
	struct access access = { 0 };
	int r = access_mount_open(&access, name, ACCESS_TO_SETTLE, ret_why);

	if (r < 0)
		return r == -ENOENT ? -ENOTCONN : r;
	r = access.way->sync(&access);
	access.way->close(&access);
	return r < 0 ? str_explain(ret_why, r, "the mount of %s cannot write its pending data: %s",
				   name, strerror(-r)) :
		       r;
}

int access_settle(const char *store, char **ret_why)
{
	_cleanup_(freep) char *name = NULL;
	int r;

	*ret_why = NULL;
	r = access_name(store, false, &name, ret_why);
	if (r < 0 || (backend_has_path(store) && !backend_is_owned(name)))
		return r;
	r = settle_mounted(name, ret_why);
	/* We cannot know here whether other machines have it mounted. */
	return r == -ENOTCONN && !backend_has_path(store) ? 0 : r;
}

int access_backend(const char *store, const struct options *options, bool log_only,
		   struct backend **ret_backend, char **ret_why)
{
	const struct backend_options wanted = { .read_only = true,
						.table = options->table,
						.log_only = log_only };
	int r = refuse_memory(store, ret_why);

	return r < 0 ? r : backend_open(store, &wanted, ret_backend, ret_why);
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
		r = buf_join(&cleaned, bytes_make("/", cleaned.size != 0), name);
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

/* Release the directories of the chain whose paths are longer. */
static void chain_cut(struct access *access, size_t size)
{
	struct access_chain *chain = &access->chain;

	while (chain->count && chain->dirs[chain->count - 1]->size > size)
		release_dir(access, chain->dirs[--chain->count]);
	chain->path.size = MIN(chain->path.size, size);
}

static void chain_done(struct access *access)
{
	chain_cut(access, 0);
	if (access->chain.count)
		release_dir(access, access->chain.dirs[0]);
	free(access->chain.dirs);
	buf_done(&access->chain.path);
	access->chain = (struct access_chain){ 0 };
}

void access_close(struct access *access)
{
	if (!access)
		return;
	chain_done(access);
	access->way->close(access);
	free(access);
}

void access_forget_dir(struct access *access, const char *path)
{
	size_t size;

	access_split(path, &size);
	chain_cut(access, size);
}

/* Add a directory at the chain's end; for the root, name is empty.  With place(), the name is a
 * path as far as its directory. */
static int chain_add(struct access *access, struct bytes name)
{
	struct access_chain *chain = &access->chain;
	const struct access_dir *last = chain->count ? chain->dirs[chain->count - 1] : NULL;
	struct access_dir *dir;
	int r;

	if (ARRAY_ROOM(chain->dirs, chain->count, chain->room) < 0)
		return -ENOMEM;
	r = buf_join(&chain->path, bytes_make("/", chain->path.size != 0), name);
	dir = r == 0 ? calloc(1, sizeof(*dir)) : NULL;
	if (dir && access->way->step)
		r = access->way->step(access, last ? &last->place : NULL, name, &dir->place);
	else
		r = dir ? access->way->place(access, name.data, &dir->place) : -ENOMEM;
	if (r < 0) {
		free(dir);
		chain->path.size = last ? last->size : 0;
		return r;
	}
	dir->users = 1;
	dir->size = chain->path.size;
	chain->dirs[chain->count++] = dir;
	return 0;
}

/* Make the chain end in the directory that is the first size bytes of the path.  Most paths are in
 * the same directory as the one before, or near it, and a walk from the root costs a look-up in the
 * store for each name. */
static int chain_lead(struct access *access, const char *path, size_t size)
{
	struct access_chain *chain = &access->chain;
	size_t same = 0;
	int r = 0;

	while (same < size && same < chain->path.size && chain->path.data[same] == path[same])
		same++;
	/* Back to the end of a name in both. */
	while (same && !((same == size || path[same] == '/') &&
			 (same == chain->path.size || chain->path.data[same] == '/')))
		same--;
	chain_cut(access, same);
	if (!chain->count)
		r = chain_add(access, BYTES(""));
	while (r == 0 && same < size) {
		const char *name = path + same + (same != 0);
		const char *slash = memchr(name, '/', size - (size_t)(name - path));

		same = slash ? (size_t)(slash - path) : size;
		r = chain_add(access, bytes_make(name, (size_t)(path + same - name)));
	}
	return r;
}

/* The same for a way that has place() instead of step(): the chain is that directory alone. */
static int chain_lead_at_once(struct access *access, const char *path, size_t size)
{
	const struct access_chain *chain = &access->chain;

	if (access->is_folder && chain->count && chain->path.size == size &&
	    (!size || memcmp(chain->path.data, path, size) == 0))
		return 0;
	chain_done(access);
	return chain_add(access, bytes_make(path, size));
}

void access_target_done(struct access_target *target)
{
	release_dir(target->access, target->dir);
	free(target->path);
	*target = (struct access_target){ 0 };
}

int access_target_place(struct access_target *target)
{
	struct access *access = target->access;
	size_t size;
	const char *name = access_split(target->path, &size);
	struct access_dir *dir;
	int r;

	if (access->way->step)
		r = chain_lead(access, target->path, size);
	else
		r = chain_lead_at_once(access, target->path, size);
	if (r < 0)
		return r;
	dir = access->chain.dirs[access->chain.count - 1];
	dir->users++;
	if (!access->way->step && !access->is_folder)
		chain_done(access); /* nothing is kept open */
	target->dir = dir;
	target->place = dir->place;
	target->place.access = access;
	target->place.name = name;
	return 0;
}

int access_target_name(struct access *access, const char *path, struct access_target *target)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;

	target->access = access;
	target->is_dir = !*last || strcmp(last, ".") == 0;
	return access_clean(path, &target->path);
}

int access_target_find(struct access *access, const char *path, struct access_target *target)
{
	int r = access_target_name(access, path, target);

	return r < 0 ? r : access_target_place(target);
}

int access_target_stat(struct access_target *target, struct stat *ret_stat)
{
	int r = target->access->way->stat(&target->place, ret_stat);

	return r == 0 && target->is_dir && !S_ISDIR(ret_stat->st_mode) ? -ENOTDIR : r;
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
	return ACCESS_AT(access, path, list, with_stat, fn, arg);
}
