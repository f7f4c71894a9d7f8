/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "src/store/way.h"
#include "backend/base/tick.h"
#include "src/user/stop.h"

enum { BATCH = 64 };

int access_remove_one(struct access *access, const char *path, bool dir)
{
	_cleanup_(access_target_done) struct access_target target = { 0 };
	int r = access_target_find(access, path, &target);

	if (r == 0 && !*target.path)
		r = -EBUSY;
	if (dir)
		access_forget_dir(access, target.path);
	if (r == 0)
		r = access->way->remove(&target.place, dir);
	if (r == 0 && !dir)
		tick(1);
	return r;
}

struct removal {
	struct access *access;
	struct buf path;  /* of the directory that is being emptied, a NUL behind it */
	struct buf names; /* found in it: the letter f or d, a name, NUL; some at a time */
	size_t count;
};

static void removal_done(struct removal *removal)
{
	buf_done(&removal->path);
	buf_done(&removal->names);
}

static int keep_name(void *arg, const char *name, const struct stat *st)
{
	struct removal *removal = arg;
	int r = buf_join(&removal->names, bytes_make(S_ISDIR(st->st_mode) ? "d" : "f", 1),
			 bytes_make(name, strlen(name) + 1));

	return r < 0 ? r : ++removal->count == BATCH;
}

static void path_pop(struct buf *path)
{
	path->size = (size_t)(strrchr(path->data, '/') - path->data);
	path->data[path->size] = '\0';
}

/* Remove the files among the names; *ret_dir is one that is a directory, or NULL. */
static int remove_files(struct removal *removal, const char **ret_dir)
{
	const char *end = removal->names.data + removal->names.size;
	int r = 0;

	for (const char *name = removal->names.data; r == 0 && name < end;
	     name += strlen(name) + 1) {
		if (*name == 'd') {
			*ret_dir = name + 1;
			continue;
		}
		r = stop_wanted() ? -EINTR : buf_printf(&removal->path, "/%s", name + 1);
		if (r < 0)
			break;
		r = access_remove_one(removal->access, removal->path.data, false);
		path_pop(&removal->path);
	}
	return r;
}

/* Remove what the directory holds, or go down into one that is in it; 1 when it is empty. */
static int remove_some(struct removal *removal)
{
	const char *dir = NULL;
	int r;

	buf_clear(&removal->names);
	removal->count = 0;
	r = access_list(removal->access, removal->path.data, false, keep_name, removal);
	if (r < 0 || !removal->count)
		return r < 0 ? r : 1;
	r = remove_files(removal, &dir);
	return r == 0 && dir ? buf_printf(&removal->path, "/%s", dir) : r;
}

/* Without recursion: how deep it goes is the store's affair. */
static int remove_all(struct access *access, const char *path)
{
	_cleanup_(removal_done) struct removal removal = { .access = access };
	size_t depth = strlen(path);
	int r = buf_printf(&removal.path, "%s", path);

	while (r == 0) {
		r = remove_some(&removal);
		if (r <= 0)
			continue;
		r = access_remove_one(access, removal.path.data, true);
		if (removal.path.size == depth)
			break;
		path_pop(&removal.path);
	}
	return r;
}

int access_remove(struct access *access, const char *path, bool recursive)
{
	_cleanup_(freep) char *cleaned = NULL;
	struct stat st;
	int r = access_clean(path, &cleaned);

	if (r == 0)
		r = access_stat(access, path, &st);
	if (r < 0)
		return r;
	if (!*cleaned)
		return -EBUSY;
	if (!S_ISDIR(st.st_mode))
		return access_remove_one(access, cleaned, false);
	return recursive ? remove_all(access, cleaned) : -EISDIR;
}
