/* SPDX-License-Identifier: MIT */

/*
 * Another layout for an existing store.
 *
 *   First the store gets the new layout and the mark that the change is not done; then every
 *   directory and file is placed anew, by the functions that place any path; then the mark goes.  A
 *   place depends on the path alone, so an interrupted change begins again at the root.
 *
 *   Directories come first, twice: a session must not have the id any more that another one is
 *   about to get.
 *
 *   A layout that is added, and that no name at the root is of, changes no place: only the setting
 *   is written.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/api/layout.h"
#include "fs/api/settings.h"
#include "fs/api/tree-options.h"
#include "fs/base/batch.h"
#include "fs/base/entries.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/inode/commit.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/upkeep.h"
#include "backend/base/array.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

enum { PATH_ATTEMPTS = 1000 };

static int set_settings(struct backend *backend, uint64_t set, bool moving)
{
	char number[24];
	struct backend_op ops[2] = {
		{ .type = BACKEND_SETTING, .name = bytes_str(setting_name(SETTING_LAYOUT)) },
		{ .type = BACKEND_SETTING, .name = bytes_str(setting_moving) },
	};
	int r;

	snprintf(number, sizeof(number), "%" PRIu64, set);
	if (set)
		ops[0].data = bytes_str(number);
	if (moving)
		ops[1].data = BYTES("1");
	r = backend_commit(backend, ops, ARRAY_SIZE(ops), BACKEND_ANYWAY);
	return r < 0 ? r : backend->ops->sync(backend);
}

static int on_node(void *arg, const struct backend_node *node)
{
	(void)node;
	*(bool *)arg = true;
	return 1;
}

/* 1 or 0.  Rows that were never adopted have no paths yet. */
static int is_empty(struct backend *backend)
{
	_cleanup_(view_end) struct view view = { 0 };
	bool any = false;
	int r = view_begin_plain(backend, &view);

	if (r == 0)
		r = ASK(&view, node_list, BACKEND_ROOT, false, on_node, &any);
	return r < 0 ? r : !any;
}

int layout_begin(struct backend *backend, uint64_t set)
{
	int r = is_empty(backend);

	return r < 0 ? r : r ? set_settings(backend, set, false) : -ENOTEMPTY;
}

/* ---- Directories ---- */

enum pass { PASS_CLEAR, PASS_SET, PASS_FILES };

struct relayout {
	struct tree *tree;
	struct layout_changed *changed;
	enum pass pass;
	/* Directories that are still to be walked; counted. */
	struct inode **dir;
	size_t count;
	size_t room;
};

/* Takes over a count. */
static int walk_later(struct relayout *relayout, struct inode *dir)
{
	if (ARRAY_ROOM(relayout->dir, relayout->count, relayout->room) < 0) {
		inode_forget(relayout->tree, dir, 1);
		return -ENOMEM;
	}
	relayout->dir[relayout->count++] = dir;
	return 0;
}

/* ---- What a directory is like ---- */

/* Copy the attributes of a directory that another one does not have. */
static int copy_xattrs(struct tree *tree, struct inode *from, struct inode *to)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	int r = tree_list_xattr(tree, from, &names);

	for (size_t at = 0; r == 0 && at < names.size; at += strlen(names.data + at) + 1) {
		const struct bytes name = bytes_str(names.data + at);
		_cleanup_(buf_done) struct buf value = { 0 };

		r = tree_get_xattr(tree, from, name, &value);
		if (r == 0)
			r = tree_set_xattr(tree, to, name, buf_bytes(&value), XATTR_CREATE);
		/* An attribute that the target cannot have stays where it is. */
		if (r == -EEXIST || r == -EINVAL || r == -EOPNOTSUPP)
			r = 0;
	}
	return r;
}

/* The session's directory that a state is moved to, and those below it, get what the ones above
 * the state have, such as a ttl and a quota. */
static int make_alike(struct tree *tree, struct inode *from, struct inode *to)
{
	struct inode *session = inode_session(to);
	int r = 0;

	while (r == 0 && session && from->parent) {
		r = copy_xattrs(tree, from, to);
		if (to == session)
			break;
		from = from->parent;
		to = to->parent;
	}
	return r;
}

/* ---- Files ---- */

static int append_component(void *arg, struct bytes name, bool last)
{
	struct buf *path = arg;

	(void)last;
	return buf_join(path, bytes_str(path->size ? "/" : ""), name);
}

/* *ret_alone: it lies outside of its session's directory. */
static int state_path(uint64_t layout, const struct backend_node *node, unsigned attempt,
		      struct buf *path, bool *ret_alone)
{
	int r = attempt ? -ENOENT :
			  layout_state(layout, node->session, node->key, node->kind, path);

	*ret_alone = r == 0;
	if (r != -ENOENT)
		return r;
	r = layout ? layout_session(layout, node->session, path) :
		     names_encode(NAMES_SESSION, node->session, NAME_LIMIT, path);
	return r < 0 ? r : names_path(node->key, node->kind, attempt, append_component, path);
}

/* like: the directory whose mode and owner new ones get. */
static int move_to(struct tree *tree, struct inode *dir, struct bytes name, struct bytes path,
		   const struct inode *like)
{
	struct bytes name_to;
	struct inode *to;
	int r = tree_make_above(tree, path, like, &to, &name_to);

	if (r < 0)
		return r;
	r = make_alike(tree, dir, to);
	if (r == 0)
		r = tree_rename(tree, dir, name, to, name_to, RENAME_NOREPLACE);
	inode_forget(tree, to, 1);
	return r;
}

static bool is_path_of(const struct inode *dir, struct bytes name, struct bytes path)
{
	_cleanup_(buf_done) struct buf now = { 0 };

	return inode_path(dir, name, &now) == 0 && bytes_equal(buf_bytes(&now), path);
}

/* Move a state to the path of its session and key: 1, or 0 if it is there already. */
static int move_state(struct relayout *relayout, struct inode *dir, struct bytes name,
		      const struct inode *inode)
{
	struct tree *tree = relayout->tree;
	int r = -EEXIST;

	for (unsigned attempt = 0; attempt < PATH_ATTEMPTS && (r == -EEXIST || r == -ENOTDIR);
	     attempt++) {
		_cleanup_(buf_done) struct buf path = { 0 };
		bool alone;

		r = state_path(tree->layout, &inode->node, attempt, &path, &alone);
		if (r == 0 && is_path_of(dir, name, buf_bytes(&path)))
			return 0;
		if (r == 0)
			r = move_to(tree, dir, name, buf_bytes(&path), alone ? tree->root : dir);
	}
	relayout->changed->moved += r == 0;
	return r < 0 ? r : 1;
}

/* 1: it has another path now. */
static int place_file(struct relayout *relayout, struct inode *dir, struct bytes name,
		      struct inode *inode)
{
	struct tree *tree = relayout->tree;
	bool is_state = inode_is_state(inode), becomes = tree_place_is_state(tree, dir, name);
	int r;

	if (is_state && (!becomes || inode->node.flags & BACKEND_ADOPTED))
		return move_state(relayout, dir, name, inode);
	if (!becomes)
		return 0;
	r = tree_place_anew(tree, dir, name);
	if (r == -EPERM) {
		log_warning("%.*s has several names, and stays an ordinary file", (int)name.size,
			    name.data);
		return 0;
	}
	relayout->changed->files += r > 0;
	return MIN(r, 0);
}

/* ---- The walk ---- */

static int take_child(struct relayout *relayout, struct inode *dir, const struct entry_copy *child,
		      bool *left)
{
	struct tree *tree = relayout->tree;
	struct bytes name = entry_name(child);
	struct inode *inode;
	int r;

	if (!S_ISDIR(child->node.mode) &&
	    (relayout->pass != PASS_FILES || !S_ISREG(child->node.mode)))
		return 0;
	r = tree_lookup(tree, dir, name, &inode);
	if (r < 0)
		return r;
	tick(1);
	if (S_ISDIR(child->node.mode)) {
		if (relayout->pass != PASS_FILES)
			r = tree_place_dir(tree, dir, name, relayout->pass == PASS_CLEAR);
		if (r == 0)
			return walk_later(relayout, inode);
	} else {
		r = place_file(relayout, dir, name, inode);
		*left |= r > 0;
	}
	inode_forget(tree, inode, 1);
	return MIN(r, 0);
}

/* Remove directories that were emptied; a client would take them for users or projects. */
static void remove_empty(struct tree *tree, struct inode *dir)
{
	struct inode *parent = dir->parent;

	while (parent && tree_rmdir(tree, parent, bytes_str(dir->name)) == 0) {
		dir = parent;
		parent = dir->parent;
	}
}

static int walk_dir(struct relayout *relayout, struct inode *dir)
{
	_cleanup_(entries_done) struct entries children = { 0 };
	struct tree *tree = relayout->tree;
	struct view view = { 0 };
	bool left = false;
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = ASK(&view, entry_list, dir->ino, 0, entries_keep, &children);
	view_end(&view);
	for (size_t i = 0; r == 0 && i < children.count; i++)
		r = take_child(relayout, dir, &children.item[i], &left);
	if (r == 0 && left)
		remove_empty(tree, dir);
	return r;
}

static int walk(struct relayout *relayout)
{
	struct tree *tree = relayout->tree;
	int r = walk_later(relayout, inode_ref(tree, tree->root));

	while (r == 0 && relayout->count) {
		struct inode *dir = relayout->dir[--relayout->count];

		r = walk_dir(relayout, dir);
		inode_forget(tree, dir, 1);
	}
	return r;
}

static int place_all(struct tree *tree, struct layout_changed *changed)
{
	struct relayout relayout = { .tree = tree, .changed = changed };
	int r = 0;

	for (relayout.pass = PASS_CLEAR; r == 0 && relayout.pass <= PASS_FILES; relayout.pass++)
		r = walk(&relayout);
	for (size_t i = 0; i < relayout.count; i++)
		inode_forget(tree, relayout.dir[i], 1);
	free(relayout.dir);
	return r;
}

static int change(struct backend *backend, uint64_t set, struct layout_changed *changed,
		  char **ret_why)
{
	struct tree_options options = { .relayout = true };
	struct tree *tree;
	int r = set_settings(backend, set, true);

	if (r == 0)
		r = tree_open(backend, &options, &tree, ret_why);
	if (r < 0) {
		backend_close(backend);
		return r;
	}
	r = place_all(tree, changed);
	if (r == 0)
		r = set_settings(backend, set, false);
	tree_close(tree);
	return r;
}

/* ---- Layouts that nothing is of ---- */

struct comparing {
	uint64_t from, to;
	bool below;    /* the names are those below "%" */
	uint64_t rest; /* that directory; 0: there is none */
};

/* 1: it is something else, or sessions may lie below it that were none. */
static int compare_entry(void *arg, const struct backend_entry *entry,
			 const struct backend_node *node)
{
	_cleanup_(buf_done) struct buf path = { 0 }, start = { 0 }, key = { 0 };
	_cleanup_(buf_done) struct buf was = { 0 }, becomes = { 0 };
	struct comparing *comparing = arg;
	const uint64_t added = comparing->to & ~comparing->from;
	const bool is_dir = S_ISDIR(node->mode);
	bool is_rest = !comparing->below && bytes_equal(entry->name, BYTES("%"));
	enum layout_is is[2];
	int r = buf_join(&path, bytes_str(comparing->below ? "%/" : ""), entry->name);

	if (is_rest)
		comparing->rest = node->ino;
	if (r == 0)
		r = layout_judge(comparing->from, buf_bytes(&path), is_dir, &is[0], &was, &key);
	if (r == 0)
		r = layout_judge(comparing->to, buf_bytes(&path), is_dir, &is[1], &becomes, &key);
	if (r < 0)
		return r;
	if (is[0] != is[1] || !bytes_equal(buf_bytes(&was), buf_bytes(&becomes)))
		return -ENOTEMPTY;
	for (size_t i = 0; r >= 0 && is_dir && !is_rest; i++) {
		r = layout_above(added, buf_bytes(&path), i, &start);
		if (r > 0)
			return -ENOTEMPTY;
	}
	return r == -ENOENT ? 0 : r;
}

/* Whether another layout only adds others, of which there is no path yet: 1 or 0. */
static int adds_only(struct backend *backend, uint64_t from, uint64_t to)
{
	struct comparing comparing = { .from = from, .to = to };
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	if (!from || (from & to) != from)
		return 0;
	r = view_begin_plain(backend, &view);
	if (r == 0)
		r = ASK(&view, entry_list, BACKEND_ROOT, 0, compare_entry, &comparing);
	comparing.below = true;
	if (r == 0 && comparing.rest)
		r = ASK(&view, entry_list, comparing.rest, 0, compare_entry, &comparing);
	return r == -ENOTEMPTY ? 0 : r < 0 ? r : 1;
}

int layout_change(struct backend *backend, uint64_t set, struct layout_changed *ret_changed,
		  char **ret_why)
{
	struct layout_changed changed = { 0 };
	struct settings settings;
	int r = settings_read(backend, &settings, NULL, ret_why);

	if (r == 0 && (settings.value[SETTING_LAYOUT] != set || settings.moving)) {
		r = settings.moving ? 0 : adds_only(backend, settings.value[SETTING_LAYOUT], set);
		if (r > 0)
			r = set_settings(backend, set, false);
		else if (r == 0 && (r = layout_begin(backend, set)) == -ENOTEMPTY) {
			r = change(backend, set, &changed, ret_why);
			backend = NULL;
		}
	}
	backend_close(backend);
	if (r < 0 && !*ret_why)
		str_explain(ret_why, r, "cannot change the layout: %s", strerror(-r));
	if (r == 0)
		*ret_changed = changed;
	return r;
}
