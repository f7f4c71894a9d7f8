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
#include "fs/views/past.h"

struct removed {
	struct tree *tree;
	const struct inode *dir;
	int64_t time;
	struct buf path;   /* of the directory, with a '/' behind it unless it is the root */
	struct bytes name; /* that is looked for, or any */
	struct backend_node node;
	struct entries entries; /* to be listed */
	uint64_t end;
	uint64_t bit; /* of their positions */
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
	const struct backend_entry entry = { .id = dir->node.entry,
					     .name = bytes_str(dir->name ? dir->name : "") };
	int r = 0;

	if (node_is_trashed(&dir->node) && dir->node.parent == BACKEND_TRASH)
		r = trash_parse(&entry, &dir->node, &item) ? buf_append_bytes(path, item.name) : 0;
	else if (dir->parent) {
		r = path_then(dir->parent, path);
		if (r == 0)
			r = buf_append_str(path, dir->name);
	}
	return r < 0 || !path->size ? r : buf_append_byte(path, '/');
}

static bool was_removed(const struct inode *dir)
{
	while (dir && !dir->gone && dir->node.parent != BACKEND_TRASH)
		dir = dir->parent;
	return dir;
}

bool removed_is(struct tree *tree, const struct inode *dir)
{
	WITH_READ_LOCK(tree);

	return was_removed(dir);
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
	/* The rows of a file may be older than the file. */
	return item->until && item->removed > removed->time &&
	       (node->btime <= removed->time || node->key.data);
}

/* Of the whole of its path only the last name stays. */
static int keep_removed(void *arg, const struct backend_entry *entry,
			const struct backend_node *node)
{
	struct removed *removed = arg;
	struct trash_item item;
	struct bytes name;

	if (entry->id > removed->end)
		return 1;
	if (!trash_parse(entry, node, &item) || !was_removed_since(removed, &item, node) ||
	    !lies_in(removed, item.name, &name) || name.size > NAME_LIMIT ||
	    (removed->name.data && !bytes_equal(name, removed->name)))
		return 0;
	return entries_add(&removed->entries,
			   &(struct backend_entry){ .id = entry->id, .name = name }, node);
}

static int was_then(const struct removed *removed, struct view *view,
		    const struct backend_node *node, bool *ret_was)
{
	const struct backend_past_key key = { node->ino, node->session, node->key };

	*ret_was = was_there(node, removed->time);
	return *ret_was || !node->key.data ? 0 :
					     as_of_any(view->backend, view->snapshot, &key,
						       removed->time, false, ret_was);
}

/* Of those with the name, the one that was there then and went first. */
static int find_then(struct removed *removed, struct view *view)
{
	bool was = false;
	int r = ASK(view, entry_list, BACKEND_TRASH, 0, keep_removed, removed);

	for (size_t i = 0; r == 0 && !was && i < removed->entries.count; i++) {
		const struct backend_node *node = &removed->entries.item[i].node;

		r = was_then(removed, view, node, &was);
		if (r == 0 && was)
			r = backend_node_copy(node, &removed->node);
	}
	return r < 0 ? r : was ? 0 : -ENOENT;
}

/* In a directory that was removed as a whole, names are what they were. */
static int find_inside(struct removed *removed, struct view *view, uint64_t dir)
{
	bool was = false;
	uint64_t id;
	int r = ASK(view, entry_find, dir, removed->name, &id, &removed->node);

	if (r == 0)
		r = was_then(removed, view, &removed->node, &was);
	if (!was)
		backend_node_done(&removed->node);
	return r < 0 ? r : was ? 0 : -ENOENT;
}

int removed_lookup(struct tree *tree, const struct inode *dir, struct window_wanted *wanted,
		   uint32_t *ret_kind)
{
	const struct question *question = wanted->asked->question;
	_cleanup_(removed_done) struct removed removed = {
		.tree = tree,
		.name = wanted->name,
		.end = UINT64_MAX,
		.time = question_moment(question->at, time_now(), INT64_MAX),
	};
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = question->as == QUESTION_LINES ? path_then(dir->window->of, &removed.path) :
						 -ENOENT;

	if (r == 0)
		r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r < 0)
		return r;
	r = was_removed(dir->window->of) ? find_inside(&removed, &view, dir->window->of->node.ino) :
					   -ENOENT;
	if (r == -ENOENT)
		r = find_then(&removed, &view);
	if (r < 0)
		return r;
	*ret_kind = trash_kind(&removed.node, wanted->name);
	if (*ret_kind == BACKEND_ORDINARY)
		*ret_kind = REMOVED_PLAIN;
	return inode_get(tree, &view, removed.node.ino, &wanted->of);
}

/* In a directory that was removed as a whole, names are what they were. */
static int keep_inside(void *arg, const struct backend_entry *entry,
		       const struct backend_node *node)
{
	struct removed *removed = arg;

	return was_there(node, removed->time) ? entries_add(&removed->entries, entry, node) : 0;
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
				removed->bit | (entry->id + LIST_DOTS)) :
		    0;
	inode_forget(removed->tree, now, 1);
	return r;
}

/* What lies in a directory, as far as the function keeps it. */
static int list_kept(struct removed *removed, uint64_t ino, uint64_t position,
		     backend_entry_fn *keep)
{
	const uint64_t after = position > LIST_DOTS ? position - LIST_DOTS : 0;
	struct backend *backend = removed->tree->backend;
	struct backend_snapshot *snapshot;
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);

	if (r < 0)
		return r;
	r = backend->ops->entry_list(backend, snapshot, ino, after, keep, removed);
	backend->ops->snapshot_end(backend, snapshot);
	for (size_t i = 0; r >= 0 && i < removed->entries.count; i++)
		if ((r = list_removed(removed, &removed->entries.item[i])) != 0)
			return r;
	entries_done(&removed->entries);
	removed->entries = (struct entries){ 0 };
	return MIN(r, 0);
}

int removed_list(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		 tree_entry_fn *fn, void *arg)
{
	const struct question *question = dir->window->asked->question;
	const struct inode *of = dir->window->of;
	_cleanup_(removed_done) struct removed removed = {
		.tree = tree,
		.dir = dir,
		.time = question_moment(question->at, time_now(), INT64_MAX),
		.end = end == UINT64_MAX ? end : end - LIST_DOTS,
		.fn = fn,
		.arg = arg,
	};
	int r = path_then(of, &removed.path);

	if (r == 0 && !(position & REMOVED_BIT) && removed_is(tree, of)) {
		r = list_dots(dir->ino, of->parent ? of->parent->ino : of->ino, position, fn, arg);
		if (r == 0)
			r = list_kept(&removed, of->node.ino, position, keep_inside);
	}
	removed.bit = REMOVED_BIT;
	position = position & REMOVED_BIT ? position & ~REMOVED_BIT : 0;
	if (r == 0)
		r = list_kept(&removed, BACKEND_TRASH, position, keep_removed);
	return MIN(r, 0);
}

/* ---- Rows as of then ---- */

int as_of_begin(struct inode *of, uint64_t hidden, struct window_view *ret)
{
	struct view *view = &ret->view;
	const struct backend_past_key key = { hidden, buf_bytes(&ret->session),
					      buf_bytes(&ret->key) };
	const int64_t time = question_moment(ret->question->at, ret->rows.now, INT64_MAX);
	int r;

	if (ret->past && ret->past->version == of->version)
		return 0;
	r = as_of_find(view->backend, view->snapshot, &key, time, &ret->as_of);
	ret->rows.end = INT64_MIN;
	if (r == 0)
		r = as_of_cut(view->backend, view->snapshot, &ret->as_of, &ret->rows.end);
	if (r == 0 && ret->rows.end == INT64_MIN &&
	    (ret->as_of.came || !was_there(&of->node, time)))
		r = -ENOENT;
	ret->rows.end = MAX(ret->rows.end, 0);
	ret->rows.version ^= as_of_sum(&ret->as_of);
	ret->marked = !hidden && of->node.kind == BACKEND_LIST && !inode_is_draft(of) &&
		      !of->list.tail_size && of->list.size > DOCUMENT_KEPT;
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
