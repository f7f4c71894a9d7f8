/* SPDX-License-Identifier: MIT */

/* The inodes in memory: a table by number, what each knows of its parent, and what there is of it
 * when the last count goes. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fs/base/batch.h"
#include "fs/base/entries.h"
#include "fs/base/sound.h"
#include "fs/inode/aparts.h"
#include "fs/inode/called.h"
#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"
#include "fs/inode/shed.h"
#include "fs/inode/window.h"
#include "backend/base/log.h"

enum { TABLE_FIRST = 64 /* slots of a new table */ };

void version_drop(struct version **version)
{
	if (*version && atomic_fetch_sub(&(*version)->count, 1) == 1) {
		stage_done(&(*version)->stage);
		free((*version)->past);
		free(*version);
	}
	*version = NULL;
}

void kept_saves_done(struct kept_save **saves)
{
	while (*saves) {
		struct kept_save *save = *saves;

		*saves = save->next;
		stage_done(&save->stage);
		free(save);
	}
}

static void faces_done(struct inode *inode)
{
	while (inode->led) {
		struct led *led = inode->led;

		inode->led = led->next;
		free(led);
	}
	version_drop(&inode->kept);
	version_drop(&inode->face.old);
	while (inode->face.next) {
		struct face *face = inode->face.next;

		inode->face.next = face->next;
		version_drop(&face->old);
		free(face);
	}
}

static struct inode **table_slot(struct tree *tree, uint64_t ino)
{
	uint64_t hash = ino * 0x9e3779b97f4a7c15u;
	struct inode **slot = &tree->inodes.slots[(hash >> 32) & (tree->inodes.size - 1)];

	while (*slot && (*slot)->ino != ino)
		slot = &(*slot)->next;
	return slot;
}

/* Failing to grow only makes chains longer. */
static void table_grow(struct tree *tree)
{
	struct inode **old = tree->inodes.slots;
	size_t old_size = tree->inodes.size;
	struct inode **table = calloc(old_size * 2, sizeof(struct inode *));

	if (!table)
		return;
	tree->inodes.slots = table;
	tree->inodes.size = old_size * 2;
	for (size_t i = 0; i < old_size; i++) {
		struct inode *inode = old[i];

		while (inode) {
			struct inode *next = inode->next;
			struct inode **slot = table_slot(tree, inode->ino);

			inode->next = NULL;
			*slot = inode;
			inode = next;
		}
	}
	free(old);
}

void inode_destroy(struct inode *inode)
{
	if (!inode)
		return;
	kept_saves_done(&inode->saves);
	pthread_mutex_destroy(&inode->lock);
	pthread_mutex_destroy(&inode->change);
	faces_done(inode);
	stage_done(&inode->orphan);
	free(inode->buffered);
	backend_node_done(&inode->node);
	free(inode->name);
	free(inode->called);
	free(inode->quota);
	free(inode);
}

static struct inode *inode_alloc(uint64_t ino)
{
	struct inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->ino = ino;
	inode->face_count = 1;
	inode->written_chunk = -1;
	inode->bound = UINT64_MAX;
	inode->saved = true; /* a writer is not known */
	pthread_mutex_init(&inode->lock, NULL);
	pthread_mutex_init(&inode->change, NULL);
	return inode;
}

struct inode *inode_known(struct tree *tree, uint64_t ino)
{
	struct inode *inode;

	pthread_mutex_lock(&tree->table_lock);
	inode = *table_slot(tree, ino);
	if (inode)
		inode->count++;
	pthread_mutex_unlock(&tree->table_lock);
	return inode;
}

static bool has_tail(struct tree *tree, const struct backend_node *node)
{
	return kind_is_state(node->kind) && !(node->flags & BACKEND_DRAFT) && !sound_node(node) &&
	       !tree->taker.late && !apart_has(tree, node->session, node->key);
}

/* Whether its size is known, and not smaller. */
static bool is_known_as(struct tree *tree, const struct backend_node *node, uint64_t least)
{
	const struct inode *inode;

	WITH_MUTEX(&tree->table_lock);
	inode = *table_slot(tree, node->ino);
	return inode && inode->loaded && inode->size >= least;
}

unsigned inode_wants_tail(void *arg, const struct backend_node *node)
{
	return has_tail(arg, node) && !is_known_as(arg, node, 0) ? BACKEND_TAIL : 0;
}

unsigned inode_wants_row(void *arg, const struct backend_node *node)
{
	if (node->kind == BACKEND_LIST || !has_tail(arg, node))
		return inode_wants_tail(arg, node);
	return is_known_as(arg, node, BACKEND_ITEM_LEAST + 1) ? 0 : BACKEND_TAIL | BACKEND_WHOLE;
}

struct inode *inode_enter(struct tree *tree, struct inode *inode)
{
	struct inode **slot, *winner;

	pthread_mutex_lock(&tree->table_lock);
	if (tree->inodes.count >= tree->inodes.size)
		table_grow(tree);
	slot = table_slot(tree, inode->ino);
	if (!*slot) {
		*slot = inode;
		tree->inodes.count++;
		/* Unknown: it may have changed while it was not in memory. */
		inode->changed = inode->replaced_at = tree->changes;
	}
	winner = *slot;
	winner->count++;
	pthread_mutex_unlock(&tree->table_lock);
	return winner;
}

struct inodes inodes_get(struct tree *tree, bool (*wanted)(const struct inode *inode))
{
	struct inodes found = { 0 };

	pthread_mutex_lock(&tree->table_lock);
	found.inode = calloc(tree->inodes.count + 1, sizeof(struct inode *));
	for (size_t i = 0; found.inode && i < tree->inodes.size; i++)
		for (struct inode *inode = tree->inodes.slots[i]; inode; inode = inode->next)
			if (!inode->window && (!wanted || wanted(inode))) {
				inode->count++;
				found.inode[found.count++] = inode;
			}
	pthread_mutex_unlock(&tree->table_lock);
	return found;
}

void inodes_forget(struct tree *tree, struct inodes *inodes)
{
	for (size_t i = 0; i < inodes->count; i++)
		inode_forget(tree, inodes->inode[i], 1);
	free(inodes->inode);
	*inodes = (struct inodes){ 0 };
}

struct inode *inode_from(struct backend_node *node)
{
	struct inode *inode = inode_alloc(node->ino);

	if (inode)
		inode_set_node(inode, node);
	else
		backend_node_done(node);
	return inode;
}

/* A directory knows its name, since the keys below it are made of it.  1 when it has none. */
static int inode_fill_name(struct view *view, struct inode *inode)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	int r;

	if (!inode_is_dir(inode) || inode->node.ino == BACKEND_ROOT || !inode->node.entry)
		return 1;
	if (inode->name)
		return 0;
	r = ASK(view, entry_name, inode->node.parent, inode->node.entry, &name);
	if (r < 0)
		return r == -ENOENT ? -EIO : r;
	inode->name = bytes_dup(buf_bytes(&name));
	return inode->name ? 0 : -ENOMEM;
}

/*
 * A directory knows its parent, too.  Put the parents without a count before *chain, up to one that
 * is in memory or has no parent.  Not by recursion: users decide how many there are, and in a
 * damaged store one may be its own ancestor.  So now and then one is remembered that must not come
 * again.
 */
static int inode_fill_parents(struct tree *tree, struct view *view, struct inode **chain)
{
	uint64_t remembered = (*chain)->ino, steps = 0, limit = 1;
	int r;

	while ((r = inode_fill_name(view, *chain)) == 0) {
		struct backend_node node;
		struct inode *parent;
		uint64_t ino = (*chain)->node.parent;

		if (ino == remembered) {
			log_error("inode %" PRIu64 " is a directory inside itself", ino);
			return -EIO;
		}
		if (++steps == limit) {
			remembered = ino;
			limit *= 2;
			steps = 0;
		}
		(*chain)->parent = ino == BACKEND_TRASH ? NULL : inode_known(tree, ino);
		if ((*chain)->parent || ino == BACKEND_TRASH)
			return 0;
		r = ASK(view, node_get, ino, &node);
		if (r < 0)
			return r;
		if (!S_ISDIR(node.mode) || sound_node(&node)) {
			log_error("inode %" PRIu64 " holds a directory but is not one", ino);
			backend_node_done(&node);
			return -EIO;
		}
		parent = inode_from(&node);
		if (!parent)
			return -ENOMEM;
		parent->next = *chain;
		*chain = parent;
	}
	return MIN(r, 0);
}

/* All of the chain, from the top on; the last one is counted for the caller. */
static struct inode *chain_enter(struct tree *tree, struct inode *chain)
{
	struct inode *entered = NULL;

	while (chain) {
		struct inode *inode = chain;

		chain = inode->next;
		inode->next = NULL;
		if (entered)
			inode->parent = entered;
		entered = inode_enter(tree, inode);
		if (entered != inode) {
			inode_forget(tree, inode->parent, 1);
			inode_destroy(inode);
		}
	}
	return entered;
}

int inode_of_node(struct tree *tree, struct view *view, struct backend_node *node,
		  struct inode **ret_inode)
{
	return inode_of_entry(tree, view, node, (struct bytes){ 0 }, ret_inode);
}

int inode_of_entry(struct tree *tree, struct view *view, struct backend_node *node,
		   struct bytes name, struct inode **ret_inode)
{
	struct inode *inode = inode_known(tree, node->ino);
	int r;

	if (inode) {
		backend_node_done(node);
		*ret_inode = inode;
		return 0;
	}
	if (sound_node(node)) {
		log_error("inode %" PRIu64 " cannot be shown: %s", node->ino, sound_node(node));
		backend_node_done(node);
		return -EIO;
	}
	inode = inode_from(node);
	if (!inode)
		return -ENOMEM;
	if (name.data && inode_is_dir(inode))
		inode->name = bytes_dup(name);
	r = inode_fill_parents(tree, view, &inode);
	if (r < 0) {
		while (inode) {
			struct inode *next = inode->next;

			inode_destroy(inode);
			inode = next;
		}
		return r;
	}
	inode->apart = kind_is_state(inode->node.kind) &&
		       apart_has(tree, inode->node.session, inode->node.key);
	*ret_inode = chain_enter(tree, inode);
	return 0;
}

int inode_create(struct tree *tree, struct backend_node *node, struct inode *parent,
		 struct bytes name, struct inode **ret_inode)
{
	struct inode *inode = inode_alloc(node->ino);

	if (!inode)
		return -ENOMEM;
	if (backend_node_copy(node, &inode->node) < 0)
		goto fail;
	if (S_ISDIR(node->mode)) {
		inode->name = bytes_dup(name);
		if (!inode->name)
			goto fail;
		inode->parent = inode_ref(tree, parent);
	}
	inode->bare = true;
	inode_node_changed(inode);
	called_is(tree, inode, name);
	*ret_inode = inode_enter(tree, inode);
	return 0;
fail:
	inode_destroy(inode);
	return -ENOMEM;
}

void inode_extended(struct inode *inode, uint64_t from)
{
	for (struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->writing->dirty && handle->writing->version == from)
			handle->writing->version = inode->version;
	/* Of a list its beginning is kept, of anything else all of it. */
	if (inode->kept_version == from && inode->node.kind == BACKEND_LIST)
		inode->kept_version = inode->version;
}

bool inode_is_written(const struct inode *inode)
{
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if ((handle->flags & O_ACCMODE) != O_RDONLY)
			return true;
	return false;
}

void inode_set_node(struct inode *inode, struct backend_node *node)
{
	backend_node_done(&inode->node);
	inode->node = *node;
	*node = (struct backend_node){ 0 };
	inode_node_changed(inode);
}

void inode_node_changed(struct inode *inode)
{
	inode->state = kind_is_state(inode->node.kind);
	inode->stored_known = false;
}

int inode_get(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode)
{
	struct backend_node node;
	struct inode *inode = inode_known(tree, ino);
	int r;

	if (inode) {
		*ret_inode = inode;
		return 0;
	}
	r = ASK(view, node_get, ino, &node);
	if (r < 0)
		return r;
	return inode_of_node(tree, view, &node, ret_inode);
}

int inode_get_dir(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode)
{
	struct inode *inode;
	int r = inode_get(tree, view, ino, &inode);

	if (r < 0)
		return r == -ENOENT ? -EIO : r;
	if (!inode_is_dir(inode) || (!inode->parent && inode != tree->root)) {
		bool removed = inode_is_dir(inode) && !inode->node.nlink;

		if (!removed)
			log_error("inode %" PRIu64 " is not a directory that can be reached", ino);
		inode_forget(tree, inode, 1);
		return removed ? -ESTALE : -EIO;
	}
	*ret_inode = inode;
	return 0;
}

/* This mount needs an orphan no longer: delete it from the store, unless it may be open elsewhere
 * or goes into the trash; then a mount does that later (upkeep/orphans.c). */
static void inode_delete_orphan(struct tree *tree, const struct inode *inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	const struct backend_node *node = &inode->node;
	uint64_t ino = node->ino;
	int r;

	if (node_trash_path(tree, node).data) {
		tree->has_orphans = true;
		return;
	}
	batch_guard_alone(&batch);
	batch_node_delete(&batch, ino);
	r = batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
	if (r == -ESTALE)
		return;
	if (r == -ENOSPC && node->kind == BACKEND_ORDINARY) {
		r = shed_hidden(tree, node);
		if (r == 0)
			r = batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
	}
	if (r < 0)
		log_warning("inode %llu is unlinked, but cannot be deleted (%s); the next mount "
			    "deletes it",
			    (unsigned long long)ino, strerror(-r));
}

void inode_forget(struct tree *tree, struct inode *inode, uint64_t count)
{
	struct inode **slot, *parent, *of;

	if (!inode)
		return;
	pthread_mutex_lock(&tree->table_lock);
	inode->count -= count;
	if (inode->count) {
		pthread_mutex_unlock(&tree->table_lock);
		return;
	}
	slot = table_slot(tree, inode->ino);
	*slot = inode->next;
	tree->inodes.count--;
	if (inode->window)
		tree->views->unlink(tree, inode);
	pthread_mutex_unlock(&tree->table_lock);

	if (inode->opening)
		backend_use(tree->backend, inode->ino, false);
	if (!inode->node.nlink && !inode->gone && !tree->backend->read_only)
		inode_delete_orphan(tree, inode);
	/* The mount that has unlinked it may have been killed before it deleted its rows. */
	if (inode->gone && inode->orphaned)
		tree->has_orphans = true;
	if (inode->left_dir) {
		quota_left(tree, inode, 0);
		tree->quota.freed++;
	}
	parent = inode->parent;
	of = inode->window ? tree->views->free(inode->window) : NULL;
	inode_destroy(inode);
	inode_forget(tree, parent, 1);
	inode_forget(tree, of, 1);
}

uint64_t inode_number(const struct inode *inode)
{
	return inode->ino;
}

bool inode_is_state(const struct inode *inode)
{
	return inode->state;
}

struct inode *tree_inode(struct tree *tree, uint64_t nodeid)
{
	struct inode *inode;

	if (nodeid == BACKEND_ROOT)
		return tree->shown;
	pthread_mutex_lock(&tree->table_lock);
	inode = *table_slot(tree, nodeid_ino(nodeid));
	/* A number so large is the inode's own: then it has one face. */
	if (!inode)
		inode = *table_slot(tree, nodeid);
	pthread_mutex_unlock(&tree->table_lock);
	return inode;
}

void inode_set_locked(struct inode *inode)
{
	inode->locked = true;
}

bool inode_was_locked(const struct inode *inode)
{
	return inode->locked;
}

int inodes_init(struct tree *tree)
{
	tree->inodes.slots = calloc(TABLE_FIRST, sizeof(struct inode *));
	if (!tree->inodes.slots)
		return -ENOMEM;
	tree->inodes.size = TABLE_FIRST;
	tree->windows.end = &tree->windows.first;
	return 0;
}

static void inode_end(const struct tree *tree, struct inode *inode)
{
	if (inode->window)
		tree->views->free(inode->window);
	inode_destroy(inode);
}

void inodes_done(struct tree *tree)
{
	if (tree->shown != tree->root)
		inode_end(tree, tree->shown);
	for (size_t i = 0; i < tree->inodes.size; i++)
		while (tree->inodes.slots[i]) {
			struct inode *inode = tree->inodes.slots[i];

			tree->inodes.slots[i] = inode->next;
			inode_end(tree, inode);
		}
	free(tree->inodes.slots);
}
