/* SPDX-License-Identifier: MIT */

/*
 * Places: what a file is by where it lies, and what a move changes.
 *
 * A directory at the root is a session.  A regular file anywhere below a session is a view over
 * rows when its name leaves a key; everything else is an ordinary file.  The key is made of the
 * names on the way; when another file of the session has it already, the file gets a key of its
 * own.
 *
 * In a store with a layout, a path outside of sessions' directories is by that (fs/base/layout.h)
 * such a directory, one above those, a state file, or ordinary.
 */

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/entries.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/inode/aparts.h"
#include "fs/inode/inodes.h"
#include "fs/tree/place.h"
#include "fs/tree/tree.h"
#include "backend/base/array.h"
#include "backend/base/utf8.h"

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

int node_placed(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		const struct backend_node *node, struct backend_node *ret_node)
{
	_cleanup_(place_done) struct place place = { 0 };
	const struct placing placing = { .tree = tree, .view = view };
	struct backend_node placed = *node;
	int r = place_find(&placing, dir, name, node->mode, &place);

	if (r < 0)
		return r;
	if (kind_is_state(place.kind) != !!node->key.data)
		return -EINVAL;
	place_apply(&place, &placed);
	return backend_node_copy(&placed, ret_node);
}

/* Keys in a tree of tsearch(3). */
static int compare_keys(const void *a, const void *b)
{
	const struct bytes *x = a, *y = b;

	return bytes_compare(*x, *y);
}

static int placing_give(struct placing *placing, struct bytes key)
{
	struct bytes *given = malloc(sizeof(*given) + key.size);

	if (!given)
		return -ENOMEM;
	*given = bytes_make((char *)(given + 1), key.size);
	memcpy(given + 1, key.data, key.size);
	if (tsearch(given, &placing->given, compare_keys))
		return 0;
	free(given);
	return -ENOMEM;
}

void placing_done(struct placing *placing)
{
	tdestroy(placing->given, free);
	placing->given = NULL;
}

/* Whether a file lies below this directory. */
static int node_is_below(const struct placing *placing, const struct backend_node *node,
			 uint64_t dir)
{
	struct inode *inode, *above;
	int r = inode_get_dir(placing->tree, placing->view, node->parent, &inode);

	if (r < 0)
		return r;
	for (above = inode; above && above->ino != dir; above = above->parent)
		;
	inode_forget(placing->tree, inode, 1);
	return above != NULL;
}

int place_is_free(const struct placing *placing, struct bytes session, struct bytes key)
{
	struct view *view = placing->view;
	struct backend_node node;
	int r = view ? ASK(view, node_find, session, key, &node) : -ENOENT;

	if (r == -ENOENT)
		return !tfind(&key, &placing->given, compare_keys);
	if (r < 0)
		return r;
	r = node.ino == placing->self || node.ino == placing->leaving;
	if (!r && placing->leaving)
		r = node_is_below(placing, &node, placing->leaving);
	backend_node_done(&node);
	return r > 0 ? !tfind(&key, &placing->given, compare_keys) : r;
}

/* Find the key for a file of that name; session NULL: the session of such a directory.  At first
 * the buffer holds the one that it would have. */
static int place_key(const struct placing *placing, const struct bytes *session, struct bytes dirs,
		     struct bytes name, struct buf *key)
{
	const struct bytes none = { 0 };
	int r = 0;

	for (unsigned attempt = 0; r == 0 && attempt < OWN_KEY_MAX; attempt++) {
		r = place_is_free(placing, session ? *session : buf_bytes(key),
				  session ? buf_bytes(key) : none);
		if (r != 0)
			return MIN(r, 0);
		buf_clear(key);
		/* Another name decodes to the same id: use this one literally. */
		r = !session && attempt == 0 && utf8_valid(name) ?
			    buf_append_bytes(key, name) :
			    names_own_key(dirs, name, attempt, key);
	}
	return r < 0 ? r : -EEXIST;
}

static int place_session(const struct placing *placing, struct bytes name, struct place *place)
{
	const struct bytes none = { 0 };
	/* An empty id is an id: it must have an address. */
	int r = buf_reserve(&place->session, 1);

	place->kind = BACKEND_SESSION;
	return r < 0 ? r : place_key(placing, NULL, none, name, &place->session);
}

/* What a path outside of sessions is by the layout. */
static int judge_outside(const struct tree *tree, const struct inode *dir, struct bytes name,
			 bool is_dir, enum layout_is *ret_is, struct place *place)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	int r = inode_path(dir, name, &path);

	if (r == 0)
		r = layout_judge(tree->layout, buf_bytes(&path), is_dir, ret_is, &place->session,
				 &place->key);
	place->kind = r < 0 || *ret_is != LAYOUT_STATE ? BACKEND_ORDINARY : names_split(name).kind;
	return r;
}

uint32_t place_kind(const struct tree *tree, struct inode *dir, struct bytes name)
{
	_cleanup_(place_done) struct place place = { .kind = BACKEND_ORDINARY };
	enum layout_is is;

	if (inode_session(dir))
		return names_split(name).kind;
	/* Without memory it counts as ordinary. */
	return !tree->layout || judge_outside(tree, dir, name, false, &is, &place) < 0 ?
		       BACKEND_ORDINARY :
		       place.kind;
}

/* Fill in the session and key of a state file: those of over, if that is of the same kind, or else
 * new ones from its place. */
static int place_state(const struct placing *placing, struct bytes dirs, struct bytes name,
		       struct place *place)
{
	const struct backend_node *over = placing->over;
	const struct bytes session = buf_bytes(&place->session);

	if (over && over->kind == place->kind) {
		buf_clear(&place->session);
		buf_clear(&place->key);
		if (buf_append_bytes(&place->session, over->session) < 0 ||
		    buf_append_bytes(&place->key, over->key) < 0)
			return -ENOMEM;
		return 0;
	}
	return place_key(placing, &session, dirs, name, &place->key);
}

static int place_outside(const struct placing *placing, struct inode *dir, struct bytes name,
			 bool is_dir, struct place *place)
{
	struct bytes none = { 0 };
	enum layout_is is;
	int r = judge_outside(placing->tree, dir, name, is_dir, &is, place);

	if (r < 0)
		return r;
	if (is == LAYOUT_SESSION)
		return place_session(placing, name, place);
	return is == LAYOUT_STATE ? place_state(placing, none, name, place) : 0;
}

int place_find(const struct placing *placing, struct inode *dir, struct bytes name, mode_t mode,
	       struct place *place)
{
	_cleanup_(buf_done) struct buf dirs = { 0 };
	struct inode *session = inode_session(dir);
	int r;

	place->kind = BACKEND_ORDINARY;
	if (!session && placing->tree->layout && (S_ISREG(mode) || S_ISDIR(mode)))
		return place_outside(placing, dir, name, S_ISDIR(mode), place);
	if (dir->node.ino == BACKEND_ROOT && S_ISDIR(mode)) {
		r = names_decode(NAMES_SESSION, name, &place->session);
		return r < 0 ? r : place_session(placing, name, place);
	}
	if (!session || !S_ISREG(mode))
		return 0;
	place->kind = names_split(name).kind;
	if (!kind_is_state(place->kind))
		return 0;
	r = buf_reserve(&place->session, 1);
	if (r == 0)
		r = buf_append_bytes(&place->session, session->node.session);
	/* An empty key is a key: it must have an address. */
	if (r == 0)
		r = buf_reserve(&place->key, 1);
	if (r == 0)
		r = inode_key_dirs(dir, &dirs);
	if (r == 0)
		r = names_key(buf_bytes(&dirs), name, &place->key);
	return r < 0 ? r : place_state(placing, buf_bytes(&dirs), name, place);
}

/* Relocations. */

int relocations_add(struct relocations *list, const struct backend_node *old,
		    const struct backend_node *new)
{
	struct relocation *item;

	if (ARRAY_ROOM(list->item, list->count, list->room) < 0)
		return -ENOMEM;
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
	free(list->dir);
	*list = (struct relocations){ 0 };
}

/* A move of all state files below a directory. */
struct relocating {
	struct placing *placing;
	struct bytes session; /* that they will belong to */
	struct relocations *list;
	uint64_t top; /* the directory that moves */
};

/* The key that a state file gets with its directory's move: the part behind the directories stays,
 * unless another file has that key already. */
static int relocate_file(struct relocating *to, const struct entry_copy *child, struct bytes dirs,
			 struct bytes dirs_to)
{
	_cleanup_(buf_done) struct buf key = { 0 };
	struct bytes name = entry_name(child), rest = child->node.key;
	struct backend_node node = child->node;
	int r;

	if (bytes_starts_with(rest, dirs)) {
		rest = bytes_make(rest.data + dirs.size, rest.size - dirs.size);
		r = buf_join(&key, dirs_to, rest);
	} else {
		r = names_key(dirs_to, name, &key);
	}
	to->placing->self = node.ino;
	if (r == 0)
		r = place_key(to->placing, &to->session, dirs_to, name, &key);
	if (r == 0 && (apart_has(to->placing->tree, child->node.session, child->node.key) ||
		       apart_has(to->placing->tree, to->session, buf_bytes(&key))))
		r = -EIO;
	if (r == 0)
		r = placing_give(to->placing, buf_bytes(&key));
	if (r < 0)
		return r;
	node.session = to->session;
	node.key = buf_bytes(&key);
	return relocations_add(to->list, &child->node, &node);
}

int levels_add(struct levels *levels, uint64_t ino, struct buf *from, struct buf *to)
{
	if (ARRAY_ROOM(levels->item, levels->count, levels->room) < 0)
		return -ENOMEM;
	levels->item[levels->count++] = (struct level){ ino, *from, *to };
	*from = *to = (struct buf){ 0 };
	return 0;
}

void levels_done(struct levels *levels)
{
	for (size_t i = 0; i < levels->count; i++) {
		buf_done(&levels->item[i].from);
		buf_done(&levels->item[i].to);
	}
	free(levels->item);
}

/* The directories in the keys below a directory: those above it, and its name (data NULL: it is
 * among them). */
static int key_dirs(struct bytes above, struct bytes name, struct buf *dirs)
{
	int r = buf_append_bytes(dirs, above);

	if (r == 0 && name.data)
		r = names_decode(NAMES_KEY, name, dirs);
	return r < 0 || !name.data ? r : buf_append_byte(dirs, '/');
}

static int add_level(struct levels *levels, uint64_t ino, struct bytes dirs, struct bytes dirs_to,
		     struct bytes name)
{
	_cleanup_(buf_done) struct buf from = { 0 }, to = { 0 };
	int r = key_dirs(dirs, name, &from);

	if (r == 0)
		r = key_dirs(dirs_to, name, &to);
	return r < 0 ? r : levels_add(levels, ino, &from, &to);
}

int relocations_look(struct relocations *list, uint64_t dir)
{
	if (ARRAY_ROOM(list->dir, list->dir_count, list->dir_room) < 0)
		return -ENOMEM;
	list->dir[list->dir_count++] = dir;
	return 0;
}

/* Takes the level over; what it holds goes to the end of levels. */
static int relocate_level(struct relocating *to, struct level *level, struct levels *levels)
{
	struct view *view = to->placing->view;
	struct bytes dirs = buf_bytes(&level->from), dirs_to = buf_bytes(&level->to);
	struct entries children = { 0 };
	int r;

	r = relocations_look(to->list, level->ino);
	if (r == 0)
		r = ASK(view, entry_list, level->ino, 0, entries_keep, &children);
	for (size_t i = 0; r == 0 && i < children.count; i++) {
		const struct entry_copy *child = &children.item[i];

		/* In a damaged store it may lie in itself. */
		if (child->node.ino == to->top)
			r = -EIO;
		else if (S_ISDIR(child->node.mode))
			r = add_level(levels, child->node.ino, dirs, dirs_to, entry_name(child));
		else if (kind_is_state(child->node.kind))
			r = relocate_file(to, child, dirs, dirs_to);
	}
	entries_done(&children);
	buf_done(&level->from);
	buf_done(&level->to);
	return r;
}

/* Level by level and not by recursion, since users decide how deep directories are. */
int relocations_below(struct placing *placing, uint64_t dir, struct bytes session,
		      struct bytes dirs, struct bytes dirs_to, struct relocations *list)
{
	struct relocating to = { .placing = placing, .session = session, .list = list, .top = dir };
	_cleanup_(levels_done) struct levels levels = { 0 };
	int r = add_level(&levels, dir, dirs, dirs_to, bytes_make(NULL, 0));

	for (size_t i = 0; r == 0 && i < levels.count; i++) {
		struct level level = levels.item[i];

		/* The array may move while more are added. */
		levels.item[i] = (struct level){ 0 };
		r = relocate_level(&to, &level, &levels);
	}
	return r;
}

static void emit_move(struct batch *batch, const struct backend_node *from,
		      const struct backend_node *to)
{
	if (kind_is_state(from->kind) &&
	    (!bytes_equal(from->session, to->session) || !bytes_equal(from->key, to->key)))
		batch_key_move(batch, from, to);
	batch_node_put(batch, to);
}

void relocations_emit(const struct relocations *list, struct batch *batch)
{
	for (size_t i = 0; i < list->dir_count; i++)
		batch_guard(batch, list->dir[i], true);
	for (size_t i = 0; i < list->count; i++)
		emit_move(batch, &list->item[i].old, &list->item[i].new);
}

/* Keys that exist only inside the transaction. */
static void aside(struct batch *batch, const struct backend_node *node,
		  struct backend_node *ret_aside)
{
	char number[24];

	snprintf(number, sizeof(number), "\x7f%" PRIu64, node->ino);
	*ret_aside = *node;
	ret_aside->session = BYTES("\x7fsessfs exchange");
	if (kind_is_state(node->kind))
		ret_aside->key = batch_keep(batch, bytes_str(number));
	else /* a session */
		ret_aside->session = batch_keep(batch, bytes_str(number));
}

void relocations_emit_exchange(const struct relocations *a, const struct relocations *b,
			       struct batch *batch)
{
	struct backend_node between;

	for (size_t i = 0; i < a->dir_count; i++)
		batch_guard(batch, a->dir[i], true);
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
		/* Times that only memory has are newer. */
		list->item[i].new.mtime = inode->node.mtime;
		list->item[i].new.atime = inode->node.atime;
		inode_set_node(inode, &list->item[i].new);
		inode->changed = inode->replaced_at = ++tree->changes;
		inode_forget(tree, inode, 1);
	}
}
