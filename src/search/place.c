/* SPDX-License-Identifier: MIT */
/* Where the index of a store is. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "src/search/index.h"
#include "src/search/search.h"
#include "src/mounts/mounts.h"

/* Below the user's cache directory, by a digest of the store's name. */
static int cache_path(const char *name, char **ret_path)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char digest[DIGEST_TEXT];
	_cleanup_(freep) char *dir = NULL;

	if (cache && *cache == '/')
		dir = str_printf("%s/sessfs", cache);
	else if (home && *home == '/')
		dir = str_printf("%s/.cache/sessfs", home);
	else
		return -ENOENT;
	if (!dir)
		return -ENOMEM;
	for (char *slash = strchr(dir + 1, '/');; slash = strchr(slash + 1, '/')) {
		if (slash)
			*slash = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return -errno;
		if (!slash)
			break;
		*slash = '/';
	}
	digest_show("sessfs index", bytes_str(name), digest);
	*ret_path = str_printf("%s/%s-search", dir, digest);
	return *ret_path ? 0 : -ENOMEM;
}

/* The format of the index, and what tells the store from other stores of the same name. */
static int identity_of(const char *name, const char *table, struct backend *backend,
		       struct buf *identity)
{
	struct backend_snapshot *snapshot;
	struct backend_node root = { 0 };
	struct stat st = { 0 };
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);

	if (r < 0)
		return r;
	r = backend->ops->node_get(backend, snapshot, BACKEND_ROOT, &root);
	backend->ops->snapshot_end(backend, snapshot);
	if (r < 0 && r != -ENOENT)
		return r;
	if (backend_has_path(name) && stat(name, &st) < 0)
		return -errno;
	r = buf_printf(identity, "6 %s %s %ju %ju %" PRId64, name, table ? table : "",
		       (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, root.btime);
	backend_node_done(&root);
	return r;
}

int index_beside(const char *store, const char *table, struct backend *backend,
		 struct index **ret_index, char **ret_why)
{
	_cleanup_(buf_done) struct buf identity = { 0 };
	_cleanup_(freep) char *name = NULL, *path = NULL;
	int r = mounts_store(store, &name, ret_why);

	if (r == 0)
		r = identity_of(name, table, backend, &identity);
	if (r < 0)
		return r;
	r = -EACCES;
	if (backend_has_path(store)) {
		path = str_printf("%s-search", name);
		r = path ? index_open(path, buf_bytes(&identity), false, ret_index, ret_why) :
			   -ENOMEM;
	}
	if (r == -EACCES || r == -EROFS || r == -EPERM || r == -ELOOP || r == -EISDIR ||
	    r == -EEXIST) {
		freep(&path);
		freep(ret_why);
		path = *ret_why = NULL;
		r = cache_path(name, &path);
		if (r < 0)
			return str_explain(ret_why, r,
					   "there is no place for an index: neither beside the "
					   "store nor in ~/.cache");
		r = index_open(path, buf_bytes(&identity), true, ret_index, ret_why);
	}
	return r;
}

static int discard(const char *path)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_(freep) char *file = str_printf("%s%s", path, ends[i]);

		if (!file)
			return -ENOMEM;
		if (unlink(file) < 0 && errno != ENOENT)
			return -errno;
	}
	return 0;
}

int index_discard(const char *store)
{
	_cleanup_(freep) char *name = NULL, *path = NULL, *why = NULL;
	int r = mounts_store(store, &name, &why);

	if (r == 0)
		r = cache_path(name, &path);
	if (r == 0)
		r = discard(path);
	if (r < 0 && r != -ENOENT)
		return r;
	freep(&path);
	path = backend_has_path(store) ? str_printf("%s-search", name) : NULL;
	return path ? discard(path) : 0;
}
