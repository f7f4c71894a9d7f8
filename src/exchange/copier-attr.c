/* SPDX-License-Identifier: MIT */
/* The attributes of a file, in the source and in the target. */
#include <errno.h>
#include <string.h>

#include "fs/api/trash.h"
#include "backend/base/cleanup.h"
#include "src/exchange/copier.h"

int copier_stat(struct copier *copier, const char *path, struct stat *ret_stat)
{
	int r = copier->to ? access_stat(copier->to, path, ret_stat) : -ENOENT;

	/* In a dry run there may be a file where a directory would be. */
	return r == -ENOTDIR && copier_is_dry(copier) ? -ENOENT : r;
}

/* The owner of a store can write any mode and owner into it. */
mode_t copier_mode(const struct copier *copier, const struct copier_entry *entry)
{
	return entry->st.st_mode & (copier->flags & COPIER_SETID ? 07777 : 01777);
}

static bool is_ours(const char *name)
{
	return strncmp(name, "user.sessfs.", 12) == 0;
}

bool copier_takes_xattr(const char *name)
{
	return strcmp(name, TRASH_TTL) == 0 || strcmp(name, QUOTA_ATTRIBUTE) == 0 ||
	       (strncmp(name, "user.", 5) == 0 && !is_ours(name));
}

#define EACH_NAME(name, names)                                                                     \
	(const char *name = (names)->data; name && name < (names)->data + (names)->size;           \
	 name += strlen(name) + 1)

static bool is_listed(const struct buf *names, const char *wanted)
{
	for
		EACH_NAME(name, names)
	if (strcmp(name, wanted) == 0)
		return true;
	return false;
}

/* 1 when it was not the same; in a file that is being written it never is. */
static int settle_xattr(struct copier *copier, struct copier_entry *entry, const char *name,
			bool listed, struct access_file *out)
{
	_cleanup_(buf_done) struct buf value = { 0 }, there = { 0 };
	int r = access_get_xattr(copier->from, entry->from, name, &value);

	if (r == -ENODATA)
		return 0;
	entry->broken |= r < 0;
	if (r == 0 && listed)
		r = access_get_xattr(copier->to, entry->path, name, &there);
	if (r == 0 && listed && bytes_equal(buf_bytes(&value), buf_bytes(&there)))
		return 0;
	if (r == 0 && !copier_is_dry(copier))
		r = out ? access_file_set_xattr(out, name, buf_bytes(&value)) :
			  access_set_xattr(copier->to, entry->path, name, buf_bytes(&value));
	/* An attribute of a session, and this is not one here; or the store does not take the name.
	 */
	if (copier->flags & (COPIER_ROWS | COPIER_STRICT) && r == -EOPNOTSUPP)
		return 0;
	return r < 0 ? r : 1;
}

int copier_settle_xattrs(struct copier *copier, struct copier_entry *entry, struct access_file *out)
{
	_cleanup_(buf_done) struct buf names = { 0 }, there = { 0 };
	int changed = 0, r;

	if (!entry->from || S_ISLNK(entry->st.st_mode))
		return 0;
	r = access_list_xattr(copier->from, entry->from, &names);
	if (r == -EOPNOTSUPP) /* a filesystem without any */
		r = 0;
	entry->broken |= r < 0;
	if (r == 0 && !out && (names.size || copier->flags & COPIER_ROWS))
		r = access_list_xattr(copier->to, entry->path, &there);
	for
		EACH_NAME(name, &names)
		{
			if (r < 0 || !copier_takes_xattr(name))
				continue;
			r = settle_xattr(copier, entry, name, is_listed(&there, name), out);
			changed |= r > 0;
		}
	for
		EACH_NAME(name, &there)
		{
			if (r < 0 || !(copier->flags & COPIER_ROWS) || !copier_takes_xattr(name) ||
			    is_ours(name) || is_listed(&names, name))
				continue;
			r = copier_is_dry(copier) ?
				    0 :
				    access_remove_xattr(copier->to, entry->path, name);
			changed = 1;
		}
	return r < 0 ? r : changed;
}

/* Setting extended attributes needs the right to write: give it to the owner for a moment. */
static int settle_read_only(struct copier *copier, struct copier_entry *entry,
			    const struct stat *there)
{
	struct stat writable = *there;
	int r, changed;

	writable.st_mode |= S_IWUSR;
	r = access_set_attr(copier->to, entry->path, &writable, ACCESS_SET_MODE);
	if (r < 0)
		return r;
	changed = copier_settle_xattrs(copier, entry, NULL);
	r = access_set_attr(copier->to, entry->path, there, ACCESS_SET_MODE);
	return changed < 0 ? changed : r < 0 ? r : changed;
}

int copier_settle(struct copier *copier, struct copier_entry *entry, const struct stat *there)
{
	const bool link = S_ISLNK(entry->st.st_mode);
	struct stat now, wanted = entry->st;
	unsigned set = 0;
	int r = 0, changed;

	if (!there) {
		r = copier_stat(copier, entry->path, &now);
		there = &now;
	}
	/* Something that does not exist yet. */
	if (r == -ENOENT && copier_is_dry(copier))
		return 0;
	changed = r < 0 ? r : copier_settle_xattrs(copier, entry, NULL);
	if (changed == -EACCES && !(there->st_mode & S_IWUSR))
		changed = settle_read_only(copier, entry, there);
	if (changed < 0)
		return changed;
	wanted.st_mode = (wanted.st_mode & S_IFMT) | copier_mode(copier, entry);
	if (!link && ((wanted.st_mode ^ there->st_mode) & 07777))
		set |= ACCESS_SET_MODE;
	/* Changing the owner takes set-id bits away. */
	if (wanted.st_uid != there->st_uid || wanted.st_gid != there->st_gid)
		set |= ACCESS_SET_OWNER | (link ? 0 : ACCESS_SET_MODE);
	if (!copier_same_time(&wanted.st_mtim, &there->st_mtim))
		set |= ACCESS_SET_TIMES;
	set &= entry->set;
	if (set && !copier_is_dry(copier))
		r = access_set_attr(copier->to, entry->path, &wanted, set);
	return r < 0 ? r : changed || set;
}
