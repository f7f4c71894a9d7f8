/* SPDX-License-Identifier: MIT */
#include "src/mounts/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

enum { LINKS_MAX = 40 };

/* A walk along a path: where we are, without links, and the rest of the path. */
struct walk {
	struct buf here; /* without a slash at its end; a NUL behind it */
	struct buf rest;
	size_t taken; /* bytes of the rest */
	uid_t owner;  /* of the last directory or link */
	bool open;    /* everybody may make files here */
	enum trust_kind kind;
	unsigned links;
};

static void walk_done(struct walk *walk)
{
	buf_done(&walk->here);
	buf_done(&walk->rest);
}

static int set_text(struct buf *buf, const char *text)
{
	buf->size = 0;
	return buf_printf(buf, "%s", text);
}

static bool is_ours(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* The owner that the kernel shows for one without a number in this user namespace. */
static uid_t overflow_uid(void)
{
	enum { USUAL = 65534 };
	_cleanup_(fclosep) FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned uid;

	return file && fscanf(file, "%u", &uid) == 1 ? uid : USUAL;
}

/* A line of the map is: first here, first outside, how many. */
static bool has_number(uid_t uid)
{
	_cleanup_(fclosep) FILE *map = fopen("/proc/self/uid_map", "re");
	unsigned long first, count;
	bool found = !map;

	while (!found && map && fscanf(map, "%lu %*u %lu", &first, &count) == 2)
		found = uid >= first && uid - first < count;
	return found;
}

bool trust_is_unmapped(uid_t uid)
{
	return uid == overflow_uid() && !has_number(uid);
}

static const char *user_name(uid_t uid, char name[40])
{
	if (trust_is_unmapped(uid))
		return "a user outside of this user namespace";
	snprintf(name, 40, "user %u", (unsigned)uid);
	return name;
}

static int refuse(const struct walk *walk, const char *name, uid_t uid, char **ret_why)
{
	char owner[40], before[40];

	if (walk->open)
		return str_explain(ret_why, -EPERM,
				   "%s/%s belongs to %s and is where every user may create files; "
				   "use a directory of your own",
				   walk->here.data, name, user_name(uid, owner));
	return str_explain(ret_why, -EPERM,
			   "%s/%s belongs to %s, but something on the path to it belongs to %s; "
			   "use a path that other users cannot change",
			   walk->here.data, name, user_name(uid, owner),
			   user_name(walk->owner, before));
}

/* True when the walk may go on to this file. */
static bool is_trusted(const struct walk *walk, const struct stat *st, bool last)
{
	bool guarded = S_ISLNK(st->st_mode) || (last && walk->kind == TRUST_STORE);

	if (walk->open && guarded && !is_ours(st->st_uid))
		return false;
	if (is_ours(walk->owner) || walk->owner == st->st_uid)
		return true;
	return st->st_uid == geteuid() && (geteuid() != 0 || trust_is_unmapped(walk->owner));
}

static int follow(struct walk *walk, const char *path)
{
	_cleanup_(buf_done) struct buf rest = { 0 };
	char target[PATH_MAX];
	ssize_t size = readlink(path, target, sizeof(target) - 1);
	int r;

	if (size < 0 || ++walk->links > LINKS_MAX)
		return -ELOOP;
	target[size] = '\0';
	r = buf_printf(&rest, "%s/%s", target, walk->rest.data + walk->taken);
	if (r == 0)
		r = set_text(&walk->rest, rest.data);
	if (r == 0 && *target == '/')
		r = set_text(&walk->here, "");
	walk->taken = 0;
	return r;
}

static int step(struct walk *walk, const char *name, bool last, char **ret_why)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	struct stat st;
	int r = buf_printf(&path, "%s/%s", walk->here.data, name);

	if (r < 0)
		return r;
	if (lstat(path.data, &st) < 0)
		return -errno;
	if (!is_trusted(walk, &st, last))
		return refuse(walk, name, st.st_uid, ret_why);
	walk->owner = st.st_uid;
	walk->open = S_ISDIR(st.st_mode) && (st.st_mode & S_IWOTH);
	return S_ISLNK(st.st_mode) ? follow(walk, path.data) : set_text(&walk->here, path.data);
}

/* The next name of the rest; false at the end. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 1], bool *ret_last)
{
	const char *rest = walk->rest.data + walk->taken;
	size_t size;

	rest += strspn(rest, "/");
	size = strcspn(rest, "/");
	if (size == 0 || size > NAME_MAX)
		return false;
	memcpy(name, rest, size);
	name[size] = '\0';
	*ret_last = rest[size + strspn(rest + size, "/")] == '\0';
	walk->taken = (size_t)(rest + size - walk->rest.data);
	return true;
}

int trust_path(const char *path, enum trust_kind kind, char **ret_why)
{
	_cleanup_(walk_done) struct walk walk = { .kind = kind };
	_cleanup_(freep) char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
	char name[NAME_MAX + 1], *slash;
	bool last;
	int r = set_text(&walk.here, "");

	if (r == 0)
		r = buf_printf(&walk.rest, "%s/%s", cwd ? cwd : "", path);
	while (r == 0 && next_name(&walk, name, &last)) {
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") != 0) {
			r = step(&walk, name, last, ret_why);
		} else if ((slash = strrchr(walk.here.data, '/'))) {
			/* The directory or link that led us down may lead us up elsewhere, so its
			 * owner remains the one to trust. */
			*slash = '\0';
			walk.here.size = (size_t)(slash - walk.here.data);
		}
	}
	/* Opening the path will report any other error. */
	return r == -EPERM || r == -ENOMEM ? r : 0;
}
