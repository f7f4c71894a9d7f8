/* SPDX-License-Identifier: MIT */

/*
 * Names that were removed since the time of at=: what lies in the trash (fs/inode/trashed.h) is
 * shown where it was, if it was there then and no file of that name was.
 */

#include <errno.h>
#include <string.h>

#include "fs/base/entries.h"
#include "fs/base/names.h"
#include "fs/inode/inodes.h"
#include "fs/inode/trashed.h"
#include "fs/views/windows.h"

struct removed {
	struct tree *tree;
	const struct inode *dir;
	int64_t time;
	struct buf path;   /* of the directory, with a '/' behind it unless it is the root */
	struct bytes name; /* that is looked for, or any */
	struct backend_node node;
	struct entries entries; /* to be listed */
	uint64_t end;
	tree_entry_fn *fn;
	void *arg;
};

static void removed_done(struct removed *removed)
{
	buf_done(&removed->path);
	backend_node_done(&removed->node);
	entries_done(&removed->entries);
}

/* A directory that was removed itself has its old path as its name. */
static int path_then(const struct inode *dir, struct buf *path)
{
	struct trash_item item;
	const struct backend_entry entry = { .name = bytes_str(dir->name ? dir->name : "") };
	int r = 0;

	if (node_is_trashed(&dir->node) && dir->node.parent == BACKEND_TRASH)
		r = trash_parse(&entry, &dir->node, &item) ? buf_append_bytes(path, item.name) : 0;
	else if (dir->parent) {
		r = path_then(dir->parent, path);
		if (r == 0)
			r = buf_append_bytes(path, bytes_str(dir->name));
	}
	return r < 0 || !path->size ? r : buf_append_byte(path, '/');
}

/* The last part of the path, if it lies in the directory. */
static bool lies_in(const struct removed *removed, struct bytes path, struct bytes *ret_name)
{
	const struct buf *dir = &removed->path;

	if (path.size <= dir->size || (dir->size && memcmp(path.data, dir->data, dir->size) != 0))
		return false;
	*ret_name = bytes_make(path.data + dir->size, path.size - dir->size);
	return !memchr(ret_name->data, '/', ret_name->size);
}

static bool was_removed_since(const struct removed *removed, const struct trash_item *item,
			      const struct backend_node *node)
{
	return item->until && item->removed > removed->time && node->btime <= removed->time;
}

static int match(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct removed *removed = arg;
	struct trash_item item;
	struct bytes name;
	int r;

	if (!trash_parse(entry, node, &item) || !was_removed_since(removed, &item, node) ||
	    !lies_in(removed, item.name, &name) || !bytes_equal(name, removed->name))
		return 0;
	/* The one that went first was there then. */
	r = backend_node_copy(node, &removed->node);
	return r < 0 ? r : 1;
}

static uint32_t kind_then(const struct backend_node *node, struct bytes name)
{
	uint32_t kind = names_split(name).kind;

	return node->key.data && S_ISREG(node->mode) && kind_is_state(kind) ? kind : 0;
}

int removed_lookup(struct tree *tree, const struct inode *dir, struct window_wanted *wanted,
		   uint32_t *ret_kind)
{
	const struct question *question = wanted->asked->question;
	_cleanup_(removed_done) struct removed removed = {
		.tree = tree,
		.name = wanted->name,
		.time = question_moment(question->at, time_now(), INT64_MAX),
	};
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = question->as == QUESTION_LINES ? path_then(dir->window->of, &removed.path) :
						 -ENOENT;

	if (r == 0)
		r = view_begin(tree, BACKEND_ANYWAY, &view);
	/* In a directory that was removed as a whole, names are what they were. */
	if (r == 0 && node_is_trashed(&dir->window->of->node)) {
		uint64_t id;

		r = ASK(&view, entry_find, dir->window->of->node.ino, removed.name, &id,
			&removed.node);
		if (r == -ENOENT)
			r = 0;
	}
	if (r == 0 && !removed.node.ino)
		r = ASK(&view, entry_list, BACKEND_TRASH, 0, match, &removed);
	if (r == 0 && !removed.node.ino)
		r = -ENOENT;
	if (r < 0)
		return r;
	*ret_kind = kind_then(&removed.node, wanted->name);
	return inode_get(tree, &view, removed.node.ino, &wanted->of);
}

static int keep_removed(void *arg, const struct backend_entry *entry,
			const struct backend_node *node)
{
	struct removed *removed = arg;
	struct trash_item item;
	struct bytes name;

	if (entry->id > removed->end)
		return 1;
	if (!trash_parse(entry, node, &item) || !was_removed_since(removed, &item, node) ||
	    !lies_in(removed, item.name, &name) || name.size > NAME_LIMIT)
		return 0;
	return entries_add(&removed->entries,
			   &(struct backend_entry){ .id = entry->id, .name = name }, node);
}

static int list_removed(struct removed *removed, const struct entry_copy *entry)
{
	const struct shown shown = { .st = { .st_ino = entry->node.ino,
					     .st_mode = entry->node.mode } };
	struct inode *now;
	int r = tree_lookup(removed->tree, (struct inode *)removed->dir, entry_name(entry), &now);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	/* Or it is listed already. */
	r = inode_shown(now)->ino == entry->node.ino ?
		    removed->fn(removed->arg, entry_name(entry), NULL, &shown,
				REMOVED_BIT | (entry->id + LIST_DOTS)) :
		    0;
	inode_forget(removed->tree, now, 1);
	return r;
}

int removed_list(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		 tree_entry_fn *fn, void *arg)
{
	const struct question *question = dir->window->asked->question;
	const uint64_t after = position & REMOVED_BIT ? (position & ~REMOVED_BIT) - LIST_DOTS : 0;
	_cleanup_(removed_done) struct removed removed = {
		.tree = tree,
		.dir = dir,
		.time = question_moment(question->at, time_now(), INT64_MAX),
		.end = end == UINT64_MAX ? end : end - LIST_DOTS,
		.fn = fn,
		.arg = arg,
	};
	struct backend *backend = tree->backend;
	struct backend_snapshot *snapshot;
	int r = path_then(dir->window->of, &removed.path);

	if (r == 0)
		r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);
	if (r < 0)
		return r;
	r = backend->ops->entry_list(backend, snapshot, BACKEND_TRASH, after, keep_removed,
				     &removed);
	backend->ops->snapshot_end(backend, snapshot);
	for (size_t i = 0; r == 0 && i < removed.entries.count; i++)
		r = list_removed(&removed, &removed.entries.item[i]);
	return MIN(r, 0);
}

/* ---- Rows as of then ---- */

static int is_last(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	int64_t *end = arg;

	(void)times;
	(void)data;
	*end = MIN(index, INT64_MAX - 1) + 1;
	return 1;
}

int as_of_begin(struct inode *of, uint64_t hidden, struct window_view *ret)
{
	struct view *view = &ret->view;
	const struct backend_past_key key = { hidden, buf_bytes(&ret->session),
					      buf_bytes(&ret->key) };
	const int64_t time = question_moment(ret->question->at, ret->rows.now, INT64_MAX);
	int r = as_of_find(view->backend, view->snapshot, &key, time, &ret->as_of);

	ret->rows.end = INT64_MIN;
	if (r == 0)
		r = as_of_read(view->backend, view->snapshot, &ret->as_of, INT64_MAX, true, is_last,
			       &ret->rows.end);
	if (r == 0 && ret->rows.end == INT64_MIN && !was_there(&of->node, time))
		r = -ENOENT;
	ret->rows.end = MAX(ret->rows.end, 0);
	ret->rows.version ^= as_of_sum(&ret->as_of);
	return r;
}

/* A file that was removed: its rows are apart, and do not change. */
int removed_begin(struct tree *tree, struct inode *of, struct window_view *ret)
{
	int r = view_begin(tree, BACKEND_BEGUN, &ret->view);

	if (r == 0)
		r = buf_append_bytes(&ret->session, of->node.session);
	if (r == 0)
		r = buf_append_bytes(&ret->key, of->node.key);
	if (r < 0)
		return r;
	ret->ino = of->ino;
	ret->changed = of->changed;
	ret->rows.list = true;
	ret->rows.version = of->version;
	ret->document = ret->rows.removed != BACKEND_LIST;
	return as_of_begin(of, of->ino, ret);
}
