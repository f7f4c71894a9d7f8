/* SPDX-License-Identifier: MIT */
/*
 * What a copy of a tree needs besides the bytes of files: directories, links and special files,
 * attributes.
 *
 * A link, directory or special file that replaces another one is made under another name and
 * renamed over it, so that the name always means the one or the other.
 */
#include <errno.h>
#include <stdio.h>

#include "src/store/way.h"

enum { TEMPORARIES = 100 }; /* names to try */

/* Makes something at a place, by one of the ways below. */
typedef int make_fn(const struct access_place *place, const void *arg);

static int make_something(const struct access_place *place, const void *arg)
{
	return place->access->way->make(place, arg);
}

static int make_link(const struct access_place *place, const void *arg)
{
	return place->access->way->link(arg, place);
}

static int make_over(const struct access_place *place, make_fn *make, const void *arg)
{
	struct access_place beside = *place;
	char temporary[64];
	int r = -EEXIST;

	beside.name = temporary;
	for (int i = 0; r == -EEXIST && i < TEMPORARIES; i++) {
		snprintf(temporary, sizeof(temporary), ".sessfs-put-%d-%d", (int)getpid(), i);
		r = make(&beside, arg);
	}
	if (r < 0)
		return r;
	r = place->access->way->rename(&beside, place->name);
	if (r < 0)
		place->access->way->remove(&beside, false);
	return r;
}

static int make_at(struct access *access, const char *path, make_fn *make, const void *arg,
		   bool replace)
{
	_cleanup_(access_target_done) struct access_target target = { 0 };
	int r = access_target_find(access, path, &target);

	if (r < 0)
		return r;
	if (!*target.place.name)
		return -EEXIST;
	r = make(&target.place, arg);
	return r == -EEXIST && replace ? make_over(&target.place, make, arg) : r;
}

int access_make(struct access *access, const char *path, const struct access_new *what,
		bool replace)
{
	return make_at(access, path, make_something, what, replace && !S_ISDIR(what->mode));
}

int access_link(struct access *access, const char *path, const char *to, bool replace)
{
	_cleanup_(access_target_done) struct access_target target = { 0 };
	int r = access_target_find(access, path, &target);

	return r < 0 ? r : make_at(access, to, make_link, &target.place, replace);
}

int access_read_link(struct access *access, const char *path, struct buf *link)
{
	return ACCESS_AT(access, path, read_link, link);
}

int access_set_attr(struct access *access, const char *path, const struct stat *st, unsigned mask)
{
	return ACCESS_AT(access, path, set_attr, st, mask);
}

int access_list_xattr(struct access *access, const char *path, struct buf *names)
{
	return ACCESS_AT(access, path, list_xattr, names);
}

int access_get_xattr(struct access *access, const char *path, const char *name, struct buf *value)
{
	return ACCESS_AT(access, path, get_xattr, name, value);
}

int access_set_xattr(struct access *access, const char *path, const char *name, struct bytes value)
{
	return ACCESS_AT(access, path, set_xattr, name, &value);
}

int access_remove_xattr(struct access *access, const char *path, const char *name)
{
	return ACCESS_AT(access, path, set_xattr, name, NULL);
}

int access_sync(struct access *access)
{
	return access->way->sync(access);
}
