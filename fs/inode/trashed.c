/* SPDX-License-Identifier: MIT */
#include "fs/inode/trashed.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "fs/base/entries.h"
#include "fs/base/names.h"
#include "fs/base/ttl.h"
#include "fs/inode/called.h"
#include "fs/inode/inodes.h"
#include "fs/inode/shed.h"
#include "backend/base/tick.h"

enum { PATH_LIMIT = 1000 }; /* bytes, which is what every store takes as a name */

static const int64_t AGAIN_NS = 300000000; /* as long as a ghost lives */

int trash_path(const struct tree *tree, const struct inode *dir, struct bytes name,
	       struct buf *path)
{
	const bool kept = tree->history && !bytes_starts_with(name, BYTES(".sessfs-"));
	int r = kept ? inode_path(dir, name, path) : 0;

	if (path->size > PATH_LIMIT)
		buf_clear(path);
	return r;
}

/* The trash itself is made when it is first needed. */
static int trash_make(struct view *view, struct batch *batch)
{
	int64_t now = time_now();
	const struct backend_node trash = {
		.ino = BACKEND_TRASH,
		.mode = S_IFDIR | 0700,
		.nlink = 2,
		.atime = now,
		.mtime = now,
		.ctime = now,
		.btime = now,
	};
	struct backend_node there;
	int r = ASK(view, node_get, BACKEND_TRASH, &there);

	if (r == -ENOENT)
		batch_node_put(batch, &trash);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	backend_node_done(&there);
	view->tree->trashed.any = true;
	return 0;
}

void trash_delete(struct batch *batch, const struct backend_node *node)
{
	if (node->key.data)
		batch_hidden_delete(batch, node->ino, INT64_MIN);
	batch_entry_delete(batch, BACKEND_TRASH, node->entry);
	batch_node_delete(batch, node->ino);
}

/* buf_printf() is for text; a name may hold any byte. */
static int trash_name(const struct trash_item *item, struct buf *name)
{
	int r = buf_printf(name, "%" PRId64 " %" PRId64 " %s", item->removed, item->until,
			   item->single ? "/" : "");

	return r < 0 ? r : buf_append_bytes(name, item->name);
}

void emit_trashed(struct batch *batch, uint64_t id, const struct trash_item *item)
{
	_cleanup_(buf_done) struct buf name = { 0 };

	if (trash_name(item, &name) < 0)
		batch->error = -ENOMEM;
	else
		batch_entry_put(batch, BACKEND_TRASH, id, batch_keep(batch, buf_bytes(&name)),
				item->ino);
}

/* A mount that was gone for a while may write what it knew of a file that is there already. */
static int trash_take_again(struct view *view, const struct trash_item *item, struct batch *batch)
{
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	uint64_t id;
	int r = trash_name(item, &name);

	if (r == 0)
		r = ASK(view, entry_find, BACKEND_TRASH, buf_bytes(&name), &id, &node);
	if (r == 0 && node.ino == item->ino)
		batch_entry_delete(batch, BACKEND_TRASH, id);
	return r == -ENOENT ? 0 : r;
}

/* Without grace nothing comes back, and moving rows takes room that a full store does not have. */
void trash_rows(struct batch *batch, const struct backend_node *node, bool kept)
{
	if (kept)
		batch_key(batch, BACKEND_KEY_HIDE, node);
	else
		batch_row_delete(batch, node->session, node->key, INT64_MIN, INT64_MAX);
}

int trash_put(struct tree *tree, struct view *view, const struct backend_node *node,
	      struct trash_item item, struct batch *batch)
{
	struct backend_node trashed = *node;
	int r = tree->trashed.any ? 0 : trash_make(view, batch);

	item.ino = node->ino;
	if (r == 0 && view->backend)
		r = trash_take_again(view, &item, batch);
	if (r == 0)
		r = number_entry(tree, &trashed.entry);
	if (r < 0)
		return r;
	if (kind_is_state(node->kind))
		trash_rows(batch, node, item.until);
	trashed.kind = BACKEND_ORDINARY;
	trashed.parent = BACKEND_TRASH;
	if (!node->nlink)
		trashed.nlink = S_ISDIR(node->mode) ? 2 : 1;
	if (!S_ISLNK(node->mode))
		trashed.target = (struct bytes){ 0 };
	batch_node_put(batch, &trashed);
	emit_trashed(batch, trashed.entry, &item);
	return batch->error;
}

int trash_put_single(struct tree *tree, struct view *view, const struct backend_node *node,
		     struct bytes path, struct batch *batch)
{
	const struct trash_item item = { .single = true,
					 .name = path,
					 .removed = node->ctime,
					 .until = trash_until(node->ctime, tree->history) };

	return trash_put(tree, view, node, item, batch);
}

static size_t slot_of(const struct tree *tree, uint64_t hash)
{
	return hash & (ARRAY_SIZE(tree->trashed.removed) - 1);
}

void trash_removed(struct tree *tree, const struct inode *dir, struct bytes name, uint64_t ino)
{
	uint64_t hash = called_hash(dir->ino, name);
	size_t slot = slot_of(tree, hash);

	tree->trashed.removed[slot].name = hash;
	tree->trashed.removed[slot].ino = ino;
	tree->trashed.removed[slot].until = tick_now() + AGAIN_NS;
}

bool trash_has_just(struct tree *tree, const struct inode *dir, struct bytes name)
{
	uint64_t hash = called_hash(dir->ino, name);
	size_t slot = slot_of(tree, hash);

	return tree->trashed.removed[slot].name == hash &&
	       tree->trashed.removed[slot].until > tick_now();
}

/* It may be open: the last close deletes it. */
static void forget_path(struct tree *tree, const struct backend_node *node, struct batch *batch)
{
	struct inode *inode = inode_known(tree, node->ino);
	struct backend_node without = inode ? inode->node : *node;

	without.target = (struct bytes){ 0 };
	batch_node_put(batch, &without);
	if (!inode)
		return;
	inode->node.target = without.target;
	inode_forget(tree, inode, 1);
}

int trash_replaced(struct tree *tree, struct view *view, const struct inode *dir, struct bytes name,
		   struct batch *batch)
{
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	_cleanup_(buf_done) struct buf path = { 0 }, entry = { 0 };
	const size_t slot = slot_of(tree, called_hash(dir->ino, name));
	struct backend_entry there = { 0 };
	struct trash_item item;
	int r;

	if (!trash_has_just(tree, dir, name))
		return 0;
	r = ASK(view, node_get, tree->trashed.removed[slot].ino, &node);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = inode_path(dir, name, &path);
	/* Since then it may have come back. */
	if (r == 0 && node_is_trashed(&node))
		r = ASK(view, entry_name, BACKEND_TRASH, node.entry, &entry);
	if (r < 0)
		return r;
	there = (struct backend_entry){ .id = node.entry, .name = buf_bytes(&entry) };
	batch_guard(batch, node.ino, true);
	if (!node.nlink && bytes_equal(node.target, buf_bytes(&path)))
		forget_path(tree, &node, batch);
	else if (entry.size && trash_parse(&there, &node, &item) &&
		 bytes_equal(item.name, buf_bytes(&path)))
		trash_delete(batch, &node);
	return batch->error;
}

struct giving {
	struct entries oldest;
	size_t most;
};

static int keep_single(void *arg, const struct backend_entry *entry,
		       const struct backend_node *node)
{
	struct giving *giving = arg;
	struct trash_item item;
	const bool single = trash_parse(entry, node, &item) && item.single;
	int r = single ? entries_add(&giving->oldest, entry, node) : 0;

	return r < 0 ? r : giving->oldest.count == giving->most;
}

/* It may have come back, or be gone. */
static int give(struct tree *tree, const struct backend_node *node)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	const unsigned flags = BACKEND_ANYWAY | BACKEND_FREES;
	int r;

	batch_guard(&batch, node->ino, true);
	trash_delete(&batch, node);
	r = batch_commit(&batch, tree->backend, flags);
	if (r != -ENOSPC)
		return r;
	r = shed_trashed(tree, node);
	return r < 0 ? r : batch_commit(&batch, tree->backend, flags);
}

int trash_give(struct tree *tree, size_t count)
{
	struct giving giving = { .most = count };
	struct view view = { 0 };
	int r = view_begin_plain(tree->backend, &view);

	if (r == 0)
		r = ASK(&view, entry_list, BACKEND_TRASH, 0, keep_single, &giving);
	view_end(&view);
	for (size_t i = 0; r == 0 && i < giving.oldest.count; i++)
		r = give(tree, &giving.oldest.item[i].node);
	if (r == 0)
		r = (int)giving.oldest.count;
	entries_done(&giving.oldest);
	return r;
}

bool word_take(struct bytes *text, int64_t *ret_number)
{
	uint64_t number;

	if (!number_take(text, INT64_MAX, &number) || !text->size || *text->data != ' ')
		return false;
	*text = bytes_make(text->data + 1, text->size - 1);
	*ret_number = (int64_t)number;
	return true;
}

bool trash_parse(const struct backend_entry *entry, const struct backend_node *node,
		 struct trash_item *item)
{
	struct bytes name = entry->name;

	*item = (struct trash_item){ .id = entry->id,
				     .ino = node->ino,
				     .removed = node->ctime,
				     .until = (int64_t)node->rdev,
				     .made = node->btime,
				     .session = node->session,
				     .home = node->session.data && !node->key.data };
	/* Before history, single ones were called by their path alone. */
	if (name.size && *name.data != '/' &&
	    (!word_take(&name, &item->removed) || !word_take(&name, &item->until)))
		return false;
	/* Or another entry has its node by now. */
	if (node->parent != BACKEND_TRASH || node->entry != entry->id)
		return false;
	item->single = name.size && *name.data == '/';
	item->name = item->single ? bytes_make(name.data + 1, name.size - 1) : name;
	return item->name.size;
}

uint32_t trash_kind(const struct backend_node *node, struct bytes name)
{
	uint32_t kind = names_split(name).kind;

	return S_ISREG(node->mode) && node->key.data && kind_is_state(kind) ? kind :
									      BACKEND_ORDINARY;
}
