/* SPDX-License-Identifier: MIT */

/* Nodes that nothing leads to get a name. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/entries.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/base/sound.h"
#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/upkeep/mending.h"

/* A new entry under the first name that is free: name, name%~1 ... before the suffix. */
static int enter(struct mending *mending, uint64_t parent, struct bytes stem, struct bytes suffix,
		 struct backend_node *node)
{
	struct view *view = &mending->view;
	_cleanup_(buf_done) struct buf name = { 0 };
	struct backend_node there;
	uint64_t id;
	int r = 0;

	for (unsigned attempt = 0; r == 0 && attempt < MEND_ATTEMPTS; attempt++) {
		buf_clear(&name);
		r = buf_append(&name, stem.data,
			       MIN(stem.size,
				   (size_t)NAME_LIMIT - suffix.size - (attempt ? 8 : 0)));
		if (r == 0 && attempt)
			r = buf_printf(&name, "%%~%u", attempt);
		if (r == 0)
			r = buf_append_bytes(&name, suffix);
		if (r < 0)
			return r;
		r = ASK(view, entry_find, parent, buf_bytes(&name), &id, &there);
		if (r == 0)
			backend_node_done(&there);
	}
	if (r != -ENOENT)
		return r < 0 ? r : -EEXIST;
	node->parent = parent;
	node->entry = ++mending->last_entry;
	node->nlink = MAX(node->nlink, 1);
	mend_put_entry(mending, parent, node->entry, buf_bytes(&name), node->ino);
	mend_put_node(mending, node);
	r = mend_see(mending, parent, node->entry, node);
	return r < 0 ? r : mend_commit(mending);
}

static int make_dir(struct mending *mending, uint64_t parent, uint32_t kind, struct bytes session,
		    struct bytes name, uint64_t *ret_ino)
{
	int64_t now = time_now();
	struct backend_node node = { .ino = ++mending->last_ino,
				     .kind = kind,
				     .mode = S_IFDIR | 0700,
				     .nlink = 2,
				     .atime = now,
				     .mtime = now,
				     .ctime = now,
				     .btime = now,
				     .session = session,
				     .uid = geteuid(),
				     .gid = getegid() };

	*ret_ino = node.ino;
	return enter(mending, parent, name, (struct bytes){ 0 }, &node);
}

struct path {
	struct mending *mending;
	uint64_t dir;
	struct backend_node *node;
	bool is_dir; /* the node is the last directory, not the file */
	bool done;
	struct buf before; /* the component that came last */
};

static int sub_dir(struct path *path, struct bytes name)
{
	struct mending *mending = path->mending;
	struct view *view = &mending->view;
	struct backend_node there;
	uint64_t id;
	int r = ASK(view, entry_find, path->dir, name, &id, &there);

	if (r == -ENOENT)
		return make_dir(mending, path->dir, BACKEND_ORDINARY, (struct bytes){ 0 }, name,
				&path->dir);
	if (r < 0)
		return r;
	path->dir = there.ino;
	r = S_ISDIR(there.mode) ? 0 : -ENOTDIR;
	backend_node_done(&there);
	return r;
}

/* Go along a path by the layout, without its last name, which is *ret_name. */
static int go_along(struct path *way, struct bytes path, struct bytes *ret_name)
{
	int r = 0;

	way->dir = BACKEND_ROOT;
	while (r == 0 && names_cut(&path, ret_name))
		r = sub_dir(way, *ret_name);
	return r;
}

/* Where a session's directory lies, or must lie; its name is appended. */
static int session_place(struct mending *mending, struct bytes session, uint64_t *ret_parent,
			 struct buf *name)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	struct path way = { .mending = mending };
	struct bytes last;
	int r;

	*ret_parent = BACKEND_ROOT;
	if (!mending->layout)
		return names_encode(NAMES_SESSION, session, NAME_LIMIT, name);
	r = layout_session(mending->layout, session, &path);
	if (r == 0)
		r = go_along(&way, buf_bytes(&path), &last);
	*ret_parent = way.dir;
	return r < 0 ? r : buf_append_bytes(name, last);
}

/* The directory of a session, made if need be. */
static int session_dir(struct mending *mending, struct bytes session, uint64_t *ret_ino)
{
	struct view *view = &mending->view;
	_cleanup_(buf_done) struct buf name = { 0 };
	struct bytes none = { 0 };
	struct backend_node node;
	uint64_t parent;
	int r = ASK(view, node_find, session, none, &node);

	if (r == 0) {
		*ret_ino = node.ino;
		backend_node_done(&node);
		return 0;
	}
	if (r == -ENOENT)
		r = session_place(mending, session, &parent, &name);
	return r < 0 ? r :
		       make_dir(mending, parent, BACKEND_SESSION, session, buf_bytes(&name),
				ret_ino);
}

/* One component of the way to a state file; a directory is entered one component later, so that the
 * last one is known. */
static int on_component(void *arg, struct bytes name, bool last)
{
	struct path *path = arg;
	struct bytes suffix = names_suffix(path->node->kind);
	int r = 0;

	if (path->before.size && !(last && path->is_dir))
		r = sub_dir(path, buf_bytes(&path->before));
	if (r < 0)
		return r;
	if (!last) {
		buf_clear(&path->before);
		return buf_append_bytes(&path->before, name);
	}
	path->done = true;
	if (path->is_dir)
		return path->before.size ? enter(path->mending, path->dir, buf_bytes(&path->before),
						 (struct bytes){ 0 }, path->node) :
					   0;
	if (bytes_ends_with(name, suffix))
		name.size -= suffix.size;
	return enter(path->mending, path->dir, name, suffix, path->node);
}

/* A state that has a path of its own by the layout; -ENOENT: it has none. */
static int enter_outside(struct path *path, struct bytes session, struct bytes key, uint32_t kind)
{
	_cleanup_(buf_done) struct buf whole = { 0 };
	struct bytes suffix = names_suffix(kind), name;
	const uint64_t layout = path->mending->layout;
	int r = layout ? layout_state(layout, session, key, kind, &whole) : -ENOENT;

	if (r == 0)
		r = go_along(path, buf_bytes(&whole), &name);
	if (r < 0)
		return r;
	name.size -= suffix.size;
	return enter(path->mending, path->dir, name, suffix, path->node);
}

static int enter_by_key(struct mending *mending, struct bytes session, struct bytes key,
			uint32_t kind, struct backend_node *node, bool is_dir)
{
	struct path path = { .mending = mending, .node = node, .is_dir = is_dir };
	int r = is_dir ? -ENOENT : enter_outside(&path, session, key, kind);

	if (r != -ENOENT)
		return r;
	r = session_dir(mending, session, &path.dir);

	if (r == 0)
		r = names_path(key, kind, 0, on_component, &path);
	buf_done(&path.before);
	return r;
}

/* Give a session its name again. */
int mend_session(struct mending *mending, struct backend_node *node)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	uint64_t parent;
	int r;

	if (node->kind != BACKEND_SESSION || !node->session.data || !S_ISDIR(node->mode))
		return 0;
	r = session_place(mending, node->session, &parent, &name);
	if (r == 0)
		r = enter(mending, parent, buf_bytes(&name), (struct bytes){ 0 }, node);
	if (r == 0)
		r = mend_walk_later(mending, node->ino, NULL, node->session, (struct bytes){ 0 });
	return r < 0 ? r : mend_walk(mending);
}

/* A state in a directory shows where the directory was. */
static int find_child(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	(void)entry;
	return kind_is_state(node->kind) && node->key.data && node->session.data ?
		       node_keep(arg, node) :
		       0;
}

static int place_directory(struct mending *mending, struct backend_node *node,
			   const struct backend_node *child)
{
	bool below = child->key.size && memchr(child->key.data, '/', child->key.size);
	struct bytes none = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 }, outside = { 0 };
	uint64_t parent;
	int r;

	/* It was above sessions, whose files get names by their own keys. */
	if (mending->layout &&
	    layout_state(mending->layout, child->session, child->key, child->kind, &outside) == 0)
		return 0;
	if (below) {
		node->kind = BACKEND_ORDINARY;
		node->session = node->key = none;
		return enter_by_key(mending, child->session, child->key, child->kind, node, true);
	}
	r = mend_is_free(mending, child->session, none, node->ino);
	if (r <= 0)
		return r;
	node->kind = BACKEND_SESSION;
	node->session = child->session;
	node->key = none;
	r = session_place(mending, node->session, &parent, &name);
	return r < 0 ? r : enter(mending, parent, buf_bytes(&name), none, node);
}

/* The components of a key as names_key() wants those before the last. */
static int walk_placed(struct mending *mending, const struct backend_node *node,
		       const struct backend_node *child)
{
	struct place_dir *dir;
	const char *slash = memrchr(child->key.data, '/', child->key.size);
	int r = mend_walk_later(mending, node->ino, NULL, child->session, (struct bytes){ 0 });

	if (r < 0)
		return r;
	dir = mending->todo;
	if (slash)
		r = buf_append(&dir->dirs, child->key.data, (size_t)(slash - child->key.data) + 1);
	return r < 0 ? r : mend_walk(mending);
}

int mend_directory(struct mending *mending, struct backend_node *node)
{
	struct view *view = &mending->view;
	_cleanup_(backend_node_done) struct backend_node child = { 0 };
	int r;

	if (!S_ISDIR(node->mode))
		return 0;
	r = ASK(view, entry_list, node->ino, 0, find_child, &child);
	if (r == 0 && child.ino) {
		r = place_directory(mending, node, &child);
		if (r == 0 && was_seen(mending, node->ino))
			r = walk_placed(mending, node, &child);
	}
	return r == -EEXIST || r == -ENOTDIR ? 0 : r;
}

/* All other files. */
int mend_show_rows(struct mending *mending, const struct backend_node *node)
{
	struct view *view = &mending->view;
	struct backend_key_stat stat;

	if (ASK(view, key_stat, node->session, node->key, &stat) != -ENOENT)
		return 0;
	BATCH_PUT(&mending->batch, BACKEND_KEY_SHOW, .session = node->session, .key = node->key,
		  .ino = node->ino);
	return mend_commit(mending);
}

int mend_file(struct mending *mending, struct backend_node *node)
{
	struct bytes none = { 0 };
	char name[40];
	int r;

	if (S_ISDIR(node->mode))
		return 0;
	if (node->session.data && node->key.data) {
		r = node_is_trashed(node) ? mend_show_rows(mending, node) : 0;
		if (r < 0)
			return r;
		if (!kind_is_state(node->kind)) {
			node->kind = mend_guess_kind(mending, node);
			node->flags = node->size ? BACKEND_DRAFT : 0;
		}
		if (mend_is_free(mending, node->session, node->key, node->ino) == 1) {
			mend_report(mending, "session %s, key %s: the name was lost",
				    SHOWN(node->session), SHOWN(node->key));
			r = enter_by_key(mending, node->session, node->key, node->kind, node,
					 false);
			if (r != -EEXIST && r != -ENOTDIR)
				return r;
		}
	}
	node->kind = BACKEND_ORDINARY;
	node->session = node->key = none;
	if (!sound_type(node->mode))
		node->mode = (node->mode & 0777) | S_IFREG;
	snprintf(name, sizeof(name), "recovered-%" PRIu64, node->ino);
	mend_report(mending, "a file that has lost its name or its directory is now /%s", name);
	return enter(mending, BACKEND_ROOT, bytes_str(name), none, node);
}

static int drop_child(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct batch *batch = arg;

	(void)node;
	batch_entry_delete(batch, entry->parent, entry->id);
	return batch->error;
}

/* Delete a directory that cannot be reached, and a file that was deleted already.  The rows of such
 * a file stay, since it may not have been deleted in truth. */
int mend_drop_node(struct mending *mending, struct backend_node *node)
{
	struct view *view = &mending->view;
	int r = 0;

	if (S_ISDIR(node->mode)) {
		mend_report(mending, "the directory with the inode %" PRIu64 " has lost its name",
			    node->ino);
		r = ASK(view, entry_list, node->ino, 0, drop_child, &mending->batch);
	}
	batch_node_delete(&mending->batch, node->ino);
	return r < 0 ? r : mend_commit_some(mending);
}
