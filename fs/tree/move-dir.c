/* SPDX-License-Identifier: MIT */

/*
 * A directory that moves.
 *
 *   A directory that is a session before and after the move, or lies in one before and after, takes
 *   its rows along under other keys; so do all sessions below a directory that is above sessions by
 *   the layout before and after.  If files would become rows, or rows files, the move is refused
 *   like one to another filesystem, unless the directory is empty: mv(1) then copies file by file,
 *   without one large transaction.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/entries.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/content/content.h"
#include "fs/inode/aparts.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"
#include "fs/tree/place.h"
#include "fs/tree/tree.h"
#include "backend/base/log.h"

struct outside {
	struct placing *placing;
	struct relocations *list;
	struct levels above; /* sessions */
};

static void outside_done(struct outside *outside)
{
	levels_done(&outside->above);
}

/* What a path is by the layout; the place gets its session and key. */
static int outside_judge(const struct outside *outside, const struct buf *path, bool is_dir,
			 struct place *place)
{
	enum layout_is is;
	int r = layout_judge(outside->placing->tree->layout, buf_bytes(path), is_dir, &is,
			     &place->session, &place->key);

	return r < 0 ? r : (int)is;
}

/* -EXDEV unless the directory is empty: its files would become something else. */
static int unless_empty(const struct outside *outside, uint64_t dir)
{
	int r = dir_is_empty(outside->placing->view, dir);

	if (r == 0)
		return -EXDEV;
	return r < 0 ? r : relocations_look(outside->list, dir);
}

/* A directory above sessions, or one outside of them, must stay that.  Takes the paths over. */
static int move_above(struct outside *outside, uint64_t ino, struct buf *from, struct buf *to)
{
	_cleanup_(place_done) struct place place = { 0 };
	int is = outside_judge(outside, from, true, &place);
	int becomes = is < 0 ? is : outside_judge(outside, to, true, &place);

	if (becomes < 0)
		return becomes;
	if (is != becomes || is == LAYOUT_SESSION)
		return unless_empty(outside, ino);
	return is == LAYOUT_ABOVE ? levels_add(&outside->above, ino, from, to) : 0;
}

/* Give the node its session and key, if they are free. */
static int relocate(struct outside *outside, const struct backend_node *node,
		    const struct backend_node *moved)
{
	struct placing *placing = outside->placing;
	int r = 1;

	/* The keys given so far are of another session. */
	placing_done(placing);
	placing->self = node->ino;
	if (moved->session.data)
		r = place_is_free(placing, moved->session, moved->key);
	if (r <= 0)
		return r < 0 ? r : -EXDEV;
	return relocations_add(outside->list, node, moved);
}

/* A state outside of sessions gets another id. */
static int move_state(struct outside *outside, const struct backend_node *node,
		      const struct buf *to)
{
	_cleanup_(place_done) struct place place = { .kind = node->kind };
	struct tree *tree = outside->placing->tree;
	struct backend_node moved = *node;
	int r = outside_judge(outside, to, false, &place);

	if (r < 0)
		return r;
	if (r != LAYOUT_STATE)
		return -EXDEV;
	place_apply(&place, &moved);
	if (apart_has(tree, node->session, node->key) || apart_has(tree, moved.session, moved.key))
		return -EIO;
	return relocate(outside, node, &moved);
}

/* A directory that is a session before, or after, or both; one that is empty can be anything. */
static int move_session(struct outside *outside, const struct backend_node *node,
			const struct place *place)
{
	struct backend_node moved = *node;
	struct bytes none = { 0 };
	int r = 0;

	if (node->kind != place->kind)
		r = unless_empty(outside, node->ino);
	place_apply(place, &moved);
	if (r == 0)
		r = relocate(outside, node, &moved);
	return r < 0 ? r :
		       relocations_below(outside->placing, node->ino, moved.session, none, none,
					 outside->list);
}

/* Takes the paths over. */
static int move_dir(struct outside *outside, const struct backend_node *node, struct buf *from,
		    struct buf *to)
{
	_cleanup_(place_done) struct place place = { 0 };
	int r = outside_judge(outside, to, true, &place);

	if (r < 0)
		return r;
	if (r != LAYOUT_SESSION)
		place_done(&place);
	if (r != LAYOUT_SESSION && node->kind != BACKEND_SESSION)
		return move_above(outside, node->ino, from, to);
	place.kind = r == LAYOUT_SESSION ? BACKEND_SESSION : BACKEND_ORDINARY;
	return move_session(outside, node, &place);
}

static int move_child(struct outside *outside, const struct level *above,
		      const struct entry_copy *child)
{
	_cleanup_(buf_done) struct buf from = { 0 }, to = { 0 };
	_cleanup_(place_done) struct place place = { 0 };
	struct bytes name = entry_name(child);
	int r = buf_join(&from, buf_bytes(&above->from), BYTES("/"), name);

	if (r == 0)
		r = buf_join(&to, buf_bytes(&above->to), BYTES("/"), name);
	if (r < 0)
		return r;
	if (S_ISDIR(child->node.mode))
		return move_dir(outside, &child->node, &from, &to);
	if (kind_is_state(child->node.kind))
		return move_state(outside, &child->node, &to);
	if (!S_ISREG(child->node.mode))
		return 0;
	r = outside_judge(outside, &to, false, &place);
	return r == LAYOUT_STATE ? -EXDEV : MIN(r, 0);
}

static int move_outside(struct outside *outside)
{
	struct view *view = outside->placing->view;
	int r = 0;

	for (size_t i = 0; r == 0 && i < outside->above.count; i++) {
		_cleanup_(entries_done) struct entries children = { 0 };
		struct level above = outside->above.item[i];

		/* The array may move while more are added. */
		outside->above.item[i] = (struct level){ 0 };
		r = relocations_look(outside->list, above.ino);
		if (r == 0)
			r = ASK(view, entry_list, above.ino, 0, entries_keep, &children);
		for (size_t j = 0; r == 0 && j < children.count; j++)
			r = move_child(outside, &above, &children.item[j]);
		buf_done(&above.from);
		buf_done(&above.to);
	}
	return r;
}

static int move_inside(struct placing *placing, struct inode *inode, struct inode *dir_to,
		       struct bytes name_to, const struct place *place, struct relocations *list)
{
	_cleanup_(buf_done) struct buf dirs = { 0 };
	_cleanup_(buf_done) struct buf dirs_to = { 0 };
	struct bytes id = place->kind == BACKEND_SESSION ? buf_bytes(&place->session) :
							   inode_session(dir_to)->node.session;
	int r = inode_key_dirs(inode, &dirs);

	if (r == 0 && place->kind != BACKEND_SESSION) {
		r = inode_key_dirs(dir_to, &dirs_to);
		if (r == 0)
			r = names_decode(NAMES_KEY, name_to, &dirs_to);
		if (r == 0)
			r = buf_append_byte(&dirs_to, '/');
	}
	return r < 0 ? r :
		       relocations_below(placing, inode->ino, id, buf_bytes(&dirs),
					 buf_bytes(&dirs_to), list);
}

int relocations_of_dir(struct placing *placing, struct inode *inode, struct inode *dir_to,
		       struct bytes name_to, const struct place *place, struct relocations *list)
{
	_cleanup_(outside_done) struct outside outside = { .placing = placing, .list = list };
	_cleanup_(buf_done) struct buf from = { 0 }, to = { 0 };
	bool leaves = inode_session(inode);
	bool enters = place->kind == BACKEND_SESSION || inode_session(dir_to);
	int r;

	if (leaves && enters)
		return move_inside(placing, inode, dir_to, name_to, place, list);
	if (!placing->tree->layout) {
		log_error("inode %llu is a directory that belongs to no session",
			  (unsigned long long)dir_to->ino);
		return -EIO;
	}
	if (leaves || enters)
		return unless_empty(&outside, inode->ino);
	r = inode_path(inode->parent, bytes_str(inode->name), &from);
	if (r == 0)
		r = inode_path(dir_to, name_to, &to);
	if (r == 0)
		r = move_above(&outside, inode->ino, &from, &to);
	return r < 0 ? r : move_outside(&outside);
}

int move_grows(struct tree *tree, struct view *view, struct inode *inode, struct inode *from,
	       struct inode *to, struct batch *batch)
{
	uint64_t size = 0;
	int r = 0;

	if (!quota_on(tree) || (from && inode_session(from) == inode_session(to)))
		return 0;
	if (inode_is_dir(inode)) {
		/* A directory that was a session may become one again. */
		quota_void(tree);
		r = quota_count(tree, view, inode->ino, &size);
		size += quota_held(tree, inode->ino);
	} else if (S_ISREG(inode->node.mode)) {
		r = content_size(tree, view, inode, &size);
	}
	batch_grows(batch, to->ino, (int64_t)size);
	batch_grows(batch, from ? from->ino : quota_dir(inode), -(int64_t)size);
	return r;
}

/* ---- Placing anew ---- */

bool tree_place_is_state(struct tree *tree, struct inode *dir, struct bytes name)
{
	WITH_READ_LOCK(tree);

	return kind_is_state(place_kind(tree, dir, name));
}

static int put_node(struct tree *tree, struct inode *inode, const struct backend_node *node)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node copy;
	int r = backend_node_copy(node, &copy);

	if (r < 0)
		return r;
	batch_node_put(&batch, &copy);
	r = tree_commit(tree, &batch, BACKEND_ANYWAY);
	if (r < 0)
		backend_node_done(&copy);
	else
		inode_set_node(inode, &copy);
	return r;
}

static int place_dir_once(struct tree *tree, struct inode *dir, struct bytes name, bool clear)
{
	_cleanup_(place_done) struct place place = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *inode;
	struct backend_node node;
	WITH_WRITE_LOCK(tree);
	uint64_t id;
	int r = entry_look(tree, &view, dir, name, &id, &inode);

	if (r < 0)
		return r;
	r = place_find(&(struct placing){ .tree = tree, .view = &view, .self = inode->ino }, dir,
		       name, S_IFDIR, &place);
	view_end(&view);
	node = inode->node;
	place_apply(&place, &node);
	if (clear && r == 0) {
		node.kind = BACKEND_ORDINARY;
		node.session = (struct bytes){ 0 };
	}
	quota_void(tree);
	if (r == 0 &&
	    (clear ? inode->node.kind == BACKEND_SESSION &&
			     !bytes_equal(buf_bytes(&place.session), inode->node.session) :
		     node.kind != inode->node.kind ||
			     !bytes_equal(node.session, inode->node.session)))
		r = put_node(tree, inode, &node);
	inode_forget(tree, inode, 1);
	return r;
}

int tree_place_dir(struct tree *tree, struct inode *dir, struct bytes name, bool clear)
{
	return TREE_RETRY(tree, place_dir_once(tree, dir, name, clear));
}
