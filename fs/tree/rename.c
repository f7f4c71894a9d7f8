/* SPDX-License-Identifier: MIT */
/*
 * Renaming.
 *
 *   A file keeps its inode, also when its kind changes.  What happens to content depends on the
 *   kinds before and after:
 *
 *     ordinary -> ordinary              names only
 *     state -> same kind, free key      the rows get the new key, with their times
 *     anything else                     the content is taken into a stage and published as a save
 *                                       under the new key, which changes only the rows that differ
 *
 *   So a client that writes X.tmp and renames it over X saves like one that writes X in place.
 *   A file that was made without a name gets its first one in the same way.
 *   A directory that moves takes the keys of all state files below it along (move-dir.c).
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/content/content.h"
#include "fs/inode/aparts.h"
#include "fs/inode/commit.h"
#include "fs/inode/quota.h"
#include "fs/inode/shed.h"
#include "fs/inode/trashed.h"
#include "fs/tree/attr.h"
#include "fs/tree/place.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"
#include "backend/base/log.h"

/* One of the two files of a rename. */
struct moving {
	struct inode *inode;
	struct inode *dir;    /* where it is */
	uint64_t id;	      /* its entry there; 0: it has no name yet */
	struct inode *dir_to; /* where it goes */
	struct bytes name_to;
	struct place place;	  /* what it is there */
	struct backend_node node; /* as it will be; borrows from place */
	struct relocations files; /* state files that get another key: itself, or below it */
	struct stage stage;	  /* content that is published anew */
	struct save *save;
	struct ghost_end *ghost;  /* whose rows are there */
	struct backend_node copy; /* for the inode after the commit: of node, */
	char *copied_name;	  /* and of name_to */
	bool whiteout;		  /* leave a whiteout under the old name, which is: */
	struct bytes name;
};

static void moving_done(struct moving *moving)
{
	place_done(&moving->place);
	relocations_done(&moving->files);
	save_free(moving->save);
	stage_done(&moving->stage);
	ghost_end_free(moving->ghost);
	backend_node_done(&moving->copy);
	free(moving->copied_name);
}

/* Turn the content into what the new name says.  fresh: do not keep the rows that are there now. */
static int move_content(struct tree *tree, struct view *view, struct moving *moving, bool fresh,
			struct batch *batch)
{
	struct save_target target = { .node = &moving->node, .had_chunks = true, .fresh = fresh };
	struct inode *inode = moving->inode;
	uint64_t size;
	int r;

	r = content_size(tree, view, inode, &size);
	if (r == 0 && size > tree->backend->max_item &&
	    (moving->node.kind == BACKEND_SINGLE || moving->node.kind == BACKEND_HASH))
		r = -EFBIG;
	if (r == 0)
		r = dates_of_moved(tree, view, inode, moving->node.kind, moving->dir_to,
				   moving->name_to, &target.dates, batch);
	if (r == 0)
		r = content_to_stage(view, inode, &moving->stage);
	if (r < 0)
		return r;
	content_remove(inode, batch);
	r = save_plan(tree, view, &target, &moving->stage, &moving->save);
	/* Before anything is changed: the bytes stay under the old name. */
	if (r == 0 && tree->options.strict && (moving->node.flags & BACKEND_DRAFT)) {
		log_warning("session %s, key %s: a rename to it is refused (-o strict): the file's "
			    "bytes are not JSON",
			    SHOWN(moving->node.session), SHOWN(moving->node.key));
		return -EINVAL;
	}
	return r;
}

/* Find what the file will be.  over: the file that it replaces, or NULL; its entry keeps its id, so
 * that a listing under way finds the name. */
static int moving_plan(struct tree *tree, struct view *view, struct moving *moving,
		       struct inode *over, uint64_t over_id, bool exchange, struct batch *batch)
{
	struct inode *inode = moving->inode;
	struct backend_node *node = &moving->node;
	_cleanup_(placing_done) struct placing placing = {
		.tree = tree,
		.view = view,
		.self = over ? 0 : inode->ino,
		.leaving = over ? over->ino : 0,
		.over = over ? &over->node : NULL,
	};
	struct ghost *ghost = NULL;
	bool takes_over, takes_rows;
	int r;

	r = place_find(&placing, moving->dir_to, moving->name_to, inode->node.mode, &moving->place);
	if (r == 0)
		r = move_grows(tree, view, inode, moving->id ? moving->dir : NULL, moving->dir_to,
			       batch);
	if (r < 0)
		return r;
	/* A state file has one name. */
	if (kind_is_state(moving->place.kind) && inode->node.nlink > 1)
		return -EPERM;
	takes_over =
		over && kind_is_state(moving->place.kind) && over->node.kind == moving->place.kind;
	*node = inode->node;
	node->nlink = MAX(node->nlink, 1U); /* it may have had no name */
	node->parent = moving->dir_to->node.ino;
	if (over)
		node->entry = over_id;
	else
		r = number_entry(tree, &node->entry);
	if (r < 0)
		return r;
	node->ctime = time_now();
	place_apply(&moving->place, node);
	if (inode_is_dir(inode))
		return relocations_of_dir(&placing, inode, moving->dir_to, moving->name_to,
					  &moving->place, &moving->files);
	r = ttl_of_moved(tree, view, inode, moving->dir_to, moving->name_to, batch);
	if (r < 0)
		return r;
	if (!inode_is_state(inode) && !kind_is_state(node->kind))
		return 0;
	if (inode->apart ||
	    (kind_is_state(node->kind) && apart_has(tree, node->session, node->key)))
		return -EIO;
	if (kind_is_state(node->kind))
		ghost = ghost_find(tree, node->session, node->key);
	/* Two that are exchanged take their own rows along, and no others. */
	takes_rows = ghost && !exchange && ghost_leaves_to(ghost, node);
	if (ghost)
		r = ghost_end_begin(tree, view, ghost, ghost_rows_for(ghost, node, takes_rows),
				    batch, &moving->ghost);
	else if (kind_is_state(node->kind) && !takes_over)
		r = ghost_end_elsewhere(view, node, batch);
	if (r < 0)
		return r;
	if (inode->node.kind == node->kind && (exchange || (!takes_over && !takes_rows)))
		return relocations_add(&moving->files, &inode->node, node);
	return move_content(tree, view, moving,
			    exchange || !(takes_over || takes_rows) ||
				    (bytes_equal(inode->node.session, node->session) &&
				     bytes_equal(inode->node.key, node->key)),
			    batch);
}

/* What the inode gets after the commit. */
static int moving_prepare(struct moving *moving)
{
	moving->copied_name = bytes_dup(moving->name_to);
	return moving->copied_name ? backend_node_copy(&moving->node, &moving->copy) : -ENOMEM;
}

static void moving_apply(struct tree *tree, struct moving *moving)
{
	struct inode *inode = moving->inode;

	moving->copy.flags = moving->node.flags;
	moving->copy.size = moving->node.size;
	inode_set_node(inode, &moving->copy);
	inode->changed = inode->replaced_at = ++tree->changes;
	relocations_apply(tree, &moving->files);
	if (moving->ghost)
		ghost_end_apply(tree, steal_ptr(moving->ghost));
	if (moving->save) {
		inode_unload(inode);
		inode->version++;
		inode_extended(inode, inode->version - 1);
	}
	called_is(tree, inode, bytes_str(moving->copied_name));
	if (!inode_is_dir(inode))
		return;
	free(inode->name);
	inode->name = steal_ptr(moving->copied_name);
	if (inode->parent != moving->dir_to) {
		struct inode *parent = inode->parent;

		inode->parent = inode_ref(tree, moving->dir_to);
		/* In a damaged store its node may not have a place. */
		inode_forget(tree, parent, 1);
	}
}

/* Put the node itself, unless a relocation or a save does. */
static void moving_emit_node(const struct moving *moving, struct batch *batch)
{
	if (moving->save || (moving->files.count && !inode_is_dir(moving->inode)))
		return;
	batch_node_put(batch, &moving->node);
}

/* over: what goes from where it comes to, or NULL. */
static int moving_dirs(const struct moving *moving, const struct inode *over,
		       struct changed_dirs *dirs)
{
	const int links = inode_is_dir(moving->inode);
	int r = changed_dirs_add(dirs, moving->dir, -links);

	return r < 0 ? r :
		       changed_dirs_add(dirs, moving->dir_to, links - (over && inode_is_dir(over)));
}

static int rename_check(struct view *view, const struct moving *moving, const struct inode *over)
{
	const struct inode *inode = moving->inode;
	int r;

	if (inode_is_dir(inode) && inode_is_below(moving->dir_to, inode))
		return -EINVAL;
	if (!over)
		return 0;
	if (inode_is_dir(inode) && !inode_is_dir(over))
		return -ENOTDIR;
	if (!inode_is_dir(inode) && inode_is_dir(over))
		return -EISDIR;
	if (!inode_is_dir(over))
		return 0;
	r = dir_is_empty(view, over->node.ino);
	return r < 0 ? r : r ? 0 : -ENOTEMPTY;
}

/* Whether a file is not larger than the one that it replaces. */
static bool replaces_larger(struct tree *tree, struct view *view, struct inode *inode,
			    struct inode *over)
{
	uint64_t size, size_over;

	return content_size(tree, view, inode, &size) == 0 &&
	       content_size(tree, view, over, &size_over) == 0 && size <= size_over;
}

/* The readers of the file that comes may not have been allowed to read the one before. */
static bool forget_replaced(struct moving *moving, const struct inode *over, struct batch *batch)
{
	if (!inode_is_state(over) || node_shows_no_more(&moving->node, &over->node))
		return false;
	if (moving->save)
		save_forget(moving->save);
	else
		batch_past_anew(batch, &over->node);
	return true;
}

/* Move one file; over is the file at the new name, or NULL. */
static int rename_plain(struct tree *tree, struct view *view, struct moving *moving,
			struct inode *over, uint64_t over_id)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(unlinking_done) struct unlinking unlinking = { .entry = over_id };
	_cleanup_(changed_dirs_done) struct changed_dirs dirs = { 0 };
	unsigned flags = 0;
	bool forgets;
	int r;

	r = rename_check(view, moving, over);
	if (r < 0)
		return r;
	guard_dirs(moving->dir, &batch);
	guard_dirs(moving->dir_to, &batch);
	if (moving->id)
		batch_entry_delete(&batch, moving->dir->node.ino, moving->id);
	if (over && replaces_larger(tree, view, moving->inode, over))
		flags = BACKEND_FREES;
	if (over) {
		bool keep_rows = S_ISREG(moving->inode->node.mode);

		batch_entry_delete(&batch, moving->dir_to->node.ino, over_id);
		r = unlinking_begin(tree, view, over, keep_rows, &unlinking, &batch);
	} else {
		r = trash_replaced(tree, view, moving->dir_to, moving->name_to, &batch);
	}
	if (r == 0)
		r = moving_plan(tree, view, moving, over, over_id, false, &batch);
	if (r == 0)
		r = moving_prepare(moving);
	if (r < 0)
		return r;
	view_end(view);
	relocations_emit(&moving->files, &batch);
	moving_emit_node(moving, &batch);
	forgets = over && forget_replaced(moving, over, &batch);
	batch_entry_put(&batch, moving->node.parent, moving->node.entry, moving->name_to,
			moving->node.ino);
	if (moving->whiteout)
		r = entry_leave_whiteout(tree, moving->dir, moving->name, &batch);
	if (r == 0)
		r = moving_dirs(moving, over, &dirs);
	changed_dirs_emit(&dirs, &batch);
	if (r == 0)
		r = moving->save ? save_commit(tree, moving->save, &batch, flags) :
				   tree_commit(tree, &batch, flags);
	/* Without what was kept there may be room: once more. */
	if (r == -ENOSPC && forgets && shed_kept(tree, &over->node) > 0)
		return -ESTALE;
	if (r < 0)
		return r;
	changed_dirs_apply(&dirs);
	if (over)
		unlinking_apply(&unlinking);
	moving_apply(tree, moving);
	return 0;
}

/* Put the node without a session or key, for the time inside the transaction. */
static void moving_emit_aside(const struct moving *moving, struct batch *batch)
{
	struct backend_node between = moving->node;

	if (moving->files.count && !inode_is_dir(moving->inode))
		return;
	between.kind = BACKEND_ORDINARY;
	between.session = between.key = (struct bytes){ 0 };
	batch_node_put(batch, &between);
}

static int exchange_plan(struct tree *tree, struct view *view, struct moving *a, struct moving *b,
			 struct batch *batch)
{
	int r;

	if ((inode_is_dir(a->inode) && inode_is_below(a->dir_to, a->inode)) ||
	    (inode_is_dir(b->inode) && inode_is_below(b->dir_to, b->inode)))
		return -EINVAL;
	guard_dirs(a->dir, batch);
	guard_dirs(a->dir_to, batch);
	r = moving_plan(tree, view, a, b->inode, b->id, true, batch);
	if (r == 0)
		r = moving_plan(tree, view, b, a->inode, a->id, true, batch);
	if (r < 0)
		return r;
	view_end(view);
	batch_entry_delete(batch, a->dir->node.ino, a->id);
	batch_entry_delete(batch, b->dir->node.ino, b->id);
	relocations_emit_exchange(&a->files, &b->files, batch);
	/* Neither may have the other's session or key while the other still has it. */
	moving_emit_aside(a, batch);
	moving_emit_aside(b, batch);
	moving_emit_node(a, batch);
	moving_emit_node(b, batch);
	/* What was kept of a file whose rows are moved goes along. */
	if (a->save)
		forget_replaced(a, b->inode, batch);
	if (b->save)
		forget_replaced(b, a->inode, batch);
	r = save_emit_all(a->save, batch);
	if (r == 0)
		r = save_emit_all(b->save, batch);
	batch_entry_put(batch, a->node.parent, a->node.entry, a->name_to, a->node.ino);
	batch_entry_put(batch, b->node.parent, b->node.entry, b->name_to, b->node.ino);
	return r;
}

static int rename_exchange(struct tree *tree, struct view *view, struct moving *a, struct moving *b)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(changed_dirs_done) struct changed_dirs dirs = { 0 };
	int r;

	r = exchange_plan(tree, view, a, b, &batch);
	if (r == 0)
		r = moving_prepare(a);
	if (r == 0)
		r = moving_prepare(b);
	if (r == 0)
		r = moving_dirs(a, NULL, &dirs);
	if (r == 0)
		r = moving_dirs(b, NULL, &dirs);
	if (r < 0)
		return r;
	changed_dirs_emit(&dirs, &batch);
	r = tree_commit(tree, &batch, 0);
	if (r < 0)
		return r;
	changed_dirs_apply(&dirs);
	moving_apply(tree, a);
	moving_apply(tree, b);
	return 0;
}

/* The two names are looked up; over may be NULL. */
static int rename_found(struct tree *tree, struct view *view, struct moving *moving,
			struct inode *over, uint64_t over_id, struct bytes name, unsigned flags)
{
	struct moving back = { 0 };
	int r;

	if (!(flags & RENAME_EXCHANGE))
		return rename_plain(tree, view, moving, over, over_id);
	back.inode = over;
	back.dir = moving->dir_to;
	back.id = over_id;
	back.dir_to = moving->dir;
	back.name_to = name;
	r = rename_exchange(tree, view, moving, &back);
	moving_done(&back);
	return r;
}

int name_nameless(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		  bool replaces, struct notes *notes)
{
	_cleanup_(moving_done) struct moving moving = {
		.inode = inode, .dir = dir, .dir_to = dir, .name_to = name
	};
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *there = NULL;
	uint64_t id = 0;
	int r;

	if (!dir->node.nlink || !inode->nameless)
		return -ENOENT;
	r = entry_look(tree, &view, dir, name, &id, &there);
	if (r == 0 && !replaces)
		r = -EEXIST;
	if (r == 0 || r == -ENOENT)
		r = rename_settle(tree, &view, inode, there, false, notes);
	if (r == 0)
		r = rename_plain(tree, &view, &moving, there, id);
	view_end(&view);
	inode_forget(tree, there, 1);
	if (r < 0)
		return r;
	inode->nameless = false;
	quota_left(tree, inode, 0);
	notes_change(notes, tree, inode, CHANGE_ATTR, 0, inode_face(inode, inode->lookup));
	name_happened(notes, tree, EVENT_SAVE, inode, dir, name);
	return 0;
}

static int name_once(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		     struct notes *notes)
{
	WITH_WRITE_LOCK(tree);

	return name_nameless(tree, inode, dir, name, true, notes);
}

int tree_name(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name)
{
	return TREE_RETRY_NOTING(tree, NOTIFY_LATER, name_once(tree, inode, dir, name, &notes));
}

/* 1 when it is something else now. */
static int place_once(struct tree *tree, struct inode *dir, struct bytes name)
{
	_cleanup_(
		moving_done) struct moving moving = { .dir = dir, .dir_to = dir, .name_to = name };
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(place_done) struct place place = { 0 };
	WITH_WRITE_LOCK(tree);
	const struct backend_node *node;
	int r = entry_look(tree, &view, dir, name, &moving.id, &moving.inode);

	if (r < 0)
		return r;
	node = &moving.inode->node;
	r = place_find(&(struct placing){ .tree = tree, .view = &view, .self = node->ino }, dir,
		       name, node->mode, &place);
	if (r == 0 &&
	    (place.kind != node->kind || !bytes_equal(buf_bytes(&place.session), node->session) ||
	     !bytes_equal(buf_bytes(&place.key), node->key)))
		r = 1;
	if (r > 0) {
		r = rename_plain(tree, &view, &moving, NULL, 0);
		r = r < 0 ? r : 1;
	}
	view_end(&view);
	inode_forget(tree, moving.inode, 1);
	return r;
}

int tree_place_anew(struct tree *tree, struct inode *dir, struct bytes name)
{
	return TREE_RETRY(tree, place_once(tree, dir, name));
}

static int rename_once(struct tree *tree, struct inode *dir, struct bytes name,
		       struct inode *dir_to, struct bytes name_to, unsigned flags, pid_t pid,
		       struct taking *taking, struct notes *notes)
{
	struct entry_pair pair = { .dir = dir, .name = name, .dir_to = dir_to, .name_to = name_to };
	_cleanup_(moving_done) struct moving moving = { .dir = dir,
							.dir_to = dir_to,
							.name_to = name_to };
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r;

	if (!dir_to->node.nlink)
		return -ENOENT;
	moving.whiteout = flags & RENAME_WHITEOUT;
	moving.name = name;
	pair.exchange = flags & RENAME_EXCHANGE;
	r = entry_look_pair(tree, &view, &pair);
	if (r < 0)
		return r;
	moving.inode = pair.inode;
	moving.id = pair.id;
	if ((flags & RENAME_NOREPLACE) && pair.over)
		r = -EEXIST;
	else if ((flags & RENAME_EXCHANGE) && !pair.over)
		r = -ENOENT;
	else
		r = pair.over == pair.inode; /* 1: there is nothing to do */
	if (r == 0 && !pair.exchange)
		r = away_take(tree, &view, &pair, pid, taking, notes);
	if (r == 0)
		r = rename_settle(tree, &view, moving.inode, pair.over, flags & RENAME_EXCHANGE,
				  notes);
	if (r == 0 && inode_is_dir(moving.inode))
		r = session_heed(tree, &view, moving.inode);
	if (r == 0 && pair.over && inode_is_dir(pair.over))
		r = session_heed(tree, &view, pair.over);
	if (r == 0)
		r = rename_found(tree, &view, &moving, pair.over, pair.over_id, name, flags);
	view_end(&view);
	if (r == 0)
		pair_happened(notes, tree, &pair);
	if (r == 0)
		temporary_moved(tree, moving.inode, dir, name, taking);
	inode_forget(tree, moving.inode, 1);
	inode_forget(tree, pair.over, 1);
	return MIN(r, 0);
}

int tree_rename_by(struct tree *tree, struct inode *dir, struct bytes name, struct inode *dir_to,
		   struct bytes name_to, unsigned flags, pid_t pid)
{
	_cleanup_(taking_done) struct taking taking = { .dir = dir, .name = name };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT) ||
	    ((flags & RENAME_EXCHANGE) && flags != RENAME_EXCHANGE))
		return -EINVAL;
	r = TREE_RETRY_NOTING(tree, NOTIFY_LATER,
			      rename_once(tree, dir, name, dir_to, name_to, flags, pid, &taking,
					  &notes));
	if (r == 0)
		away_put_others(tree, dir, name, &taking);
	return name_refused(name, r);
}
