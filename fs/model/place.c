/* SPDX-License-Identifier: MIT */

/*
 * Places: what a file is by where it lies, and what a move changes.
 *
 * A directory at the root is a session.  A regular file anywhere below a session is a view over
 * rows when its name leaves a key; everything else is an ordinary file.  The key is made of the
 * names on the way; when another file of the session has it already, the file gets a key of its
 * own.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/model/internal.h"
#include "fs/model/names.h"
#include "src/base/json.h"

enum { OWN_KEY_MAX = 10000 }; /* attempts to find a free key */

void place_done(struct place *place)
{
	buf_done(&place->session);
	buf_done(&place->key);
}

void place_apply(const struct place *place, struct backend_node *node)
{
	node->kind = place->kind;
	node->session = place->session.data ? buf_bytes(&place->session) : (struct bytes){ 0 };
	node->key = place->key.data ? buf_bytes(&place->key) : (struct bytes){ 0 };
}

/* 1 when no other node has the session and key (key.data NULL: the session). */
static int place_is_free(struct view *view, struct bytes session, struct bytes key, uint64_t except)
{
	struct backend_node node;
	int r = view->backend->ops->node_find(view->backend, view->snapshot, session, key, &node);
	bool is_except;

	if (r == -ENOENT)
		return 1;
	if (r < 0)
		return r;
	is_except = node.ino == except;
	backend_node_done(&node);
	return is_except;
}

static int place_session(struct view *view, struct bytes name, uint64_t except, struct place *place)
{
	struct bytes none = { 0 };
	int r;

	place->kind = BACKEND_SESSION;
	r = names_decode(NAMES_SESSION, name, &place->session);
	for (unsigned attempt = 0; r == 0 && attempt < OWN_KEY_MAX; attempt++) {
		r = place_is_free(view, buf_bytes(&place->session), none, except);
		if (r != 0)
			return MIN(r, 0);
		buf_clear(&place->session);
		/* Another name decodes to the same id: this one is taken literally. */
		r = attempt == 0 && utf8_valid(name) ?
			    buf_append_bytes(&place->session, name) :
			    names_own_key(none, name, attempt, &place->session);
	}
	return r < 0 ? r : -EEXIST;
}

static int place_key(struct view *view, struct bytes session, struct bytes dirs, struct bytes name,
		     uint64_t except, struct buf *key)
{
	int r = names_key(dirs, name, key);

	for (unsigned attempt = 0; r == 0 && attempt < OWN_KEY_MAX; attempt++) {
		/* An empty key is a key: it must have an address. */
		r = buf_reserve(key, 1);
		if (r == 0)
			r = place_is_free(view, session, buf_bytes(key), except);
		if (r != 0)
			return MIN(r, 0);
		buf_clear(key);
		r = names_own_key(dirs, name, attempt, key);
	}
	return r < 0 ? r : -EEXIST;
}

int place_find(struct view *view, struct inode *dir, struct bytes name, mode_t mode,
	       uint64_t except, struct place *place)
{
	_cleanup_(buf_done) struct buf dirs = { 0 };
	struct inode *session = inode_session(dir);
	int r;

	place->kind = BACKEND_ORDINARY;
	if (dir->node.ino == BACKEND_ROOT)
		return S_ISDIR(mode) ? place_session(view, name, except, place) : 0;
	if (!session || !S_ISREG(mode))
		return 0;
	place->kind = names_split(name).kind;
	if (!kind_is_state(place->kind))
		return 0;
	r = buf_reserve(&place->session, 1);
	if (r == 0)
		r = buf_append_bytes(&place->session, session->node.session);
	if (r == 0)
		r = inode_key_dirs(dir, &dirs);
	if (r == 0)
		r = place_key(view, session->node.session, buf_bytes(&dirs), name, except,
			      &place->key);
	return r;
}

/* Relocations. */

int relocations_add(struct relocations *list, const struct backend_node *old,
		    const struct backend_node *new)
{
	struct relocation *item;

	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 8;

		item = reallocarray(list->item, room, sizeof(*item));
		if (!item)
			return -ENOMEM;
		list->item = item;
		list->room = room;
	}
	item = &list->item[list->count];
	*item = (struct relocation){ 0 };
	if (backend_node_copy(old, &item->old) < 0)
		return -ENOMEM;
	if (backend_node_copy(new, &item->new) < 0) {
		backend_node_done(&item->old);
		return -ENOMEM;
	}
	list->count++;
	return 0;
}

void relocations_done(struct relocations *list)
{
	for (size_t i = 0; i < list->count; i++) {
		backend_node_done(&list->item[i].old);
		backend_node_done(&list->item[i].new);
	}
	free(list->item);
	*list = (struct relocations){ 0 };
}

/* A child of a directory, kept until the store may be asked again. */
struct child {
	char *name;
	size_t name_size;
	struct backend_node node;
};

struct children {
	struct child *item;
	size_t count;
	size_t room;
};

static int keep_child(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct children *children = arg;
	struct child *child;

	if (!S_ISDIR(node->mode) && !kind_is_state(node->kind))
		return 0;
	/* A directory has one name; in a damaged store another one may seem to lead to it. */
	if (S_ISDIR(node->mode) && (node->parent != entry->parent || node->entry != entry->id))
		return 0;
	if (children->count == children->room) {
		size_t room = children->room ? children->room * 2 : 16;

		child = reallocarray(children->item, room, sizeof(*child));
		if (!child)
			return -ENOMEM;
		children->item = child;
		children->room = room;
	}
	child = &children->item[children->count];
	child->name = bytes_dup(entry->name);
	if (!child->name)
		return -ENOMEM;
	child->name_size = entry->name.size;
	if (backend_node_copy(node, &child->node) < 0) {
		free(child->name);
		return -ENOMEM;
	}
	children->count++;
	return 0;
}

static void children_done(struct children *children)
{
	for (size_t i = 0; i < children->count; i++) {
		free(children->item[i].name);
		backend_node_done(&children->item[i].node);
	}
	free(children->item);
}

/* The key that a state file gets with its directory's move. */
static int relocate_file(struct view *view, const struct child *child, struct bytes session,
			 struct bytes dirs, struct bytes dirs_to, struct relocations *list)
{
	_cleanup_(buf_done) struct buf key = { 0 };
	struct bytes name = bytes_make(child->name, child->name_size);
	struct backend_node node = child->node;
	int r;

	r = names_key(dirs, name, &key);
	if (r < 0)
		return r;
	if (bytes_equal(buf_bytes(&key), child->node.key)) {
		buf_clear(&key);
		r = names_key(dirs_to, name, &key);
	} else {
		/* It has a key of its own, and keeps one. */
		buf_clear(&key);
		r = place_key(view, session, dirs_to, name, child->node.ino, &key);
	}
	if (r < 0)
		return r;
	node.session = session;
	node.key = buf_bytes(&key);
	return relocations_add(list, &child->node, &node);
}

/* Directories whose files are still to be relocated: what is above them in their keys, before and
 * after. */
struct level {
	uint64_t ino;
	struct buf dirs;
	struct buf dirs_to;
};

struct levels {
	struct level *item;
	size_t count;
	size_t room;
	uint64_t top; /* the directory that moves */
};

static void levels_done(struct levels *levels)
{
	for (size_t i = 0; i < levels->count; i++) {
		buf_done(&levels->item[i].dirs);
		buf_done(&levels->item[i].dirs_to);
	}
	free(levels->item);
}

/* name.data NULL: dirs are the directory's own already. */
static int level_fill(struct level *level, struct bytes dirs, struct bytes dirs_to,
		      struct bytes name)
{
	int r = buf_append_bytes(&level->dirs, dirs);

	if (r == 0)
		r = buf_append_bytes(&level->dirs_to, dirs_to);
	if (r < 0 || !name.data)
		return r;
	r = names_decode(NAMES_KEY, name, &level->dirs);
	if (r == 0)
		r = buf_append_byte(&level->dirs, '/');
	if (r == 0)
		r = names_decode(NAMES_KEY, name, &level->dirs_to);
	if (r == 0)
		r = buf_append_byte(&level->dirs_to, '/');
	return r;
}

static int levels_add(struct levels *levels, uint64_t ino, struct bytes dirs, struct bytes dirs_to,
		      struct bytes name)
{
	struct level *level;

	if (levels->count == levels->room) {
		size_t room = levels->room ? levels->room * 2 : 16;

		level = reallocarray(levels->item, room, sizeof(*level));
		if (!level)
			return -ENOMEM;
		levels->item = level;
		levels->room = room;
	}
	level = &levels->item[levels->count++];
	*level = (struct level){ .ino = ino };
	return level_fill(level, dirs, dirs_to, name);
}

/* Takes the level over; what it holds goes to the end of levels. */
static int relocate_level(struct view *view, struct level *level, struct bytes session,
			  struct levels *levels, struct relocations *list)
{
	struct bytes dirs = buf_bytes(&level->dirs), dirs_to = buf_bytes(&level->dirs_to);
	struct children children = { 0 };
	int r;

	r = view->backend->ops->entry_list(view->backend, view->snapshot, level->ino, 0, keep_child,
					   &children);
	for (size_t i = 0; r == 0 && i < children.count; i++) {
		const struct child *child = &children.item[i];

		/* In a damaged store it may lie in itself. */
		if (child->node.ino == levels->top)
			r = -EIO;
		else if (S_ISDIR(child->node.mode))
			r = levels_add(levels, child->node.ino, dirs, dirs_to,
				       bytes_make(child->name, child->name_size));
		else
			r = relocate_file(view, child, session, dirs, dirs_to, list);
	}
	children_done(&children);
	buf_done(&level->dirs);
	buf_done(&level->dirs_to);
	return r;
}

/*
 * Level by level and not by recursion, since directories may lie in each other as deep as somebody
 * likes.
 */
int relocations_below(struct view *view, struct inode *dir, struct bytes session, struct bytes dirs,
		      struct bytes dirs_to, struct relocations *list)
{
	struct levels levels = { .top = dir->node.ino };
	int r = levels_add(&levels, levels.top, dirs, dirs_to, bytes_make(NULL, 0));

	for (size_t i = 0; r == 0 && i < levels.count; i++) {
		struct level level = levels.item[i];

		/* The array may move while more are added. */
		levels.item[i] = (struct level){ 0 };
		r = relocate_level(view, &level, session, &levels, list);
	}
	levels_done(&levels);
	return r;
}

static void emit_move(struct batch *batch, const struct backend_node *from,
		      const struct backend_node *to)
{
	if (!bytes_equal(from->session, to->session) || !bytes_equal(from->key, to->key))
		batch_key_move(batch, from->session, from->key, to->session, to->key);
	batch_node_put(batch, to);
}

void relocations_emit(const struct relocations *list, struct batch *batch)
{
	for (size_t i = 0; i < list->count; i++)
		emit_move(batch, &list->item[i].old, &list->item[i].new);
}

/* Keys that exist only inside the transaction. */
static void aside(struct batch *batch, const struct backend_node *node,
		  struct backend_node *ret_aside)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, node->ino);
	*ret_aside = *node;
	ret_aside->session = BYTES("\x7fsessfs exchange");
	ret_aside->key = batch_keep(batch, bytes_str(number));
}

void relocations_emit_exchange(const struct relocations *a, const struct relocations *b,
			       struct batch *batch)
{
	struct backend_node between;

	for (size_t i = 0; i < a->count; i++) {
		aside(batch, &a->item[i].old, &between);
		emit_move(batch, &a->item[i].old, &between);
	}
	relocations_emit(b, batch);
	for (size_t i = 0; i < a->count; i++) {
		aside(batch, &a->item[i].new, &between);
		emit_move(batch, &between, &a->item[i].new);
	}
}

void relocations_apply(struct tree *tree, struct relocations *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct inode *inode = inode_known(tree, list->item[i].new.ino);

		if (!inode)
			continue;
		/* What only memory knows is newer. */
		list->item[i].new.mtime = inode->node.mtime;
		list->item[i].new.atime = inode->node.atime;
		inode_set_node(inode, &list->item[i].new);
		inode_forget(tree, inode, 1);
	}
}
