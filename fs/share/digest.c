/* SPDX-License-Identifier: MIT */
/*
 * Taking in what other mounts have committed.
 *
 *   What another mount has changed is in the store as this one would have put it, so nothing has
 *   to be done but to forget what is remembered here and is true no longer: copies of nodes, the
 *   places of directories, sizes and ends of content; and to notify the kernel.  The node of an
 *   ordinary file that is in use here stays in the store (upkeep/orphans.c); the bytes of a state
 *   file that another mount has removed go into a stage.
 *
 *   It runs with tree.lock for writing.  What fails is tried again from where the feed was: to
 *   digest something twice does no harm.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/entries.h"
#include "fs/content/content.h"
#include "fs/inode/quota.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/share/reconcile.h"
#include "fs/share/share.h"
#include "fs/share/unsettled.h"
#include "fs/tree/tree.h"
#include "backend/base/array.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

struct digesting {
	struct tree *tree;
	struct view view;
	struct notes *notes;
	struct telling telling;
	struct inode **grown; /* counted; those that have only grown so far */
	size_t grown_count;
	size_t grown_room;
	uint64_t last;
	bool any;
};

enum { KEEP_UNOPENED = 1 << 20 }; /* bytes kept for a reader that may be about to open the file */

/* The content of a state file before it was replaced or removed, for those who read it. */
static void leave_version(struct digesting *digesting, struct inode *inode, struct version *before)
{
	if (before && versions_apply(digesting->notes, inode, NULL, before))
		name_forget(digesting->notes, digesting->tree, inode);
}

static void forget_content(struct inode *inode)
{
	inode_unload(inode);
	inode->stored_known = inode->inherits = false;
	inode->version++;
}

static void content_replaced(struct digesting *digesting, struct inode *inode,
			     struct version *before)
{
	forget_content(inode);
	inode->grew = false;
	leave_version(digesting, inode, before);
	notes_change(digesting->notes, digesting->tree, inode, CHANGE_REPLACED, UINT64_MAX, NULL);
}

static void tell_grown(struct digesting *digesting, struct inode *inode)
{
	if (inode->grew)
		notes_change(digesting->notes, digesting->tree, inode, CHANGE_GREW, inode->grew_at,
			     NULL);
	inode->grew = false;
}

/* Told once, at the end: how its end is to be read comes with another note, perhaps. */
static void content_grew(struct digesting *digesting, struct inode *inode, uint64_t size_before)
{
	const bool first = !inode->grew;

	forget_content(inode);
	inode_extended(inode, inode->version - 1);
	if (first)
		inode->grew_at = size_before;
	inode->grew = true;
	if (!first)
		return;
	if (ARRAY_ROOM(digesting->grown, digesting->grown_count, digesting->grown_room) == 0)
		digesting->grown[digesting->grown_count++] = inode_ref(digesting->tree, inode);
	else
		tell_grown(digesting, inode);
}

static void tell_all_grown(struct digesting *digesting)
{
	for (size_t i = 0; i < digesting->grown_count; i++) {
		tell_grown(digesting, digesting->grown[i]);
		inode_forget(digesting->tree, digesting->grown[i], 1);
	}
	free(digesting->grown);
}

static void attr_changed(struct digesting *digesting, const struct inode *inode)
{
	for (const struct face *face = &inode->face; face; face = face->next)
		notes_attr(digesting->notes, inode, face);
}

/* Whether the store tells of a file at all. */
static bool answers(struct digesting *digesting, const struct inode *inode)
{
	struct backend_node node;

	if (ASK(&digesting->view, node_get, inode->ino, &node) < 0)
		return false;
	backend_node_done(&node);
	return true;
}

/* A state file that another mount has unlinked.  Its rows are there still, unless that is long ago;
 * whoever has it open goes on with its bytes, unless these cannot be read. */
static int state_unlinked(struct digesting *digesting, struct inode *inode)
{
	_cleanup_(stage_done) struct stage stage = { 0 };
	uint64_t size;
	int r;

	inode_unload(inode);
	r = content_size(digesting->tree, &digesting->view, inode, &size);
	if (r == 0 && (inode->open || size <= KEEP_UNOPENED))
		r = content_to_stage(&digesting->view, inode, &stage);
	if (r < 0 && (r == -ESTALE || !answers(digesting, inode)))
		return r;
	if (r < 0) {
		log_warning("the content of inode %llu cannot be kept (%s): it is unlinked, and "
			    "empty for programs that have it open",
			    (unsigned long long)inode->ino, strerror(-r));
		stage_done(&stage);
	}
	inode->orphaned = true;
	inode->orphan = stage;
	stage = (struct stage){ 0 };
	return 0;
}

/* A state file that was removed and let go before this mount has heard of it: its bytes are kept
 * for its readers, or are in the snapshot that is kept.  Without them it cannot be opened any
 * more. */
static void state_lost(struct digesting *digesting, struct inode *inode)
{
	_cleanup_(version_drop) struct version *kept = content_kept(inode);
	struct view *view = NULL;
	_cleanup_(stage_done) struct stage stage = { 0 };

	inode_unload(inode);
	if (inode->open && !kept)
		view = reader_snapshot_view(digesting->tree, inode);
	if ((kept && stage_copy(&kept->stage, &stage) == 0) ||
	    (view && content_to_stage(view, inode, &stage) == 0)) {
		inode->orphan = stage;
		stage = (struct stage){ 0 };
	} else {
		inode->lost = true;
	}
	if (view)
		reader_snapshot_seen(digesting->tree, inode);
	inode->orphaned = true;
}

/* Nothing of the file is in the store any more; or it lies in the trash, from where those who have
 * it open here read nothing. */
static void node_gone(struct digesting *digesting, struct inode *inode, bool trashed)
{
	_cleanup_(version_drop) struct version *before = NULL;

	if (inode->gone)
		return;
	if (inode_is_state(inode) && !inode->orphaned && (!trashed || inode->open))
		state_lost(digesting, inode);
	before = reconcile_version(digesting->tree, inode);
	inode->gone = true;
	inode_leave(inode);
	inode->node.nlink = 0;
	inode->node.parent = inode->node.entry = 0;
	content_replaced(digesting, inode, before);
}

/* A directory has moved. */
static int dir_moved(struct digesting *digesting, struct inode *inode,
		     const struct backend_node *node)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	struct inode *parent, *before = inode->parent;
	char *copy;
	int r;

	if (!node->entry ||
	    (node->parent == inode->node.parent && node->entry == inode->node.entry))
		return 0;
	r = ASK(&digesting->view, entry_name, node->parent, node->entry, &name);
	if (r == 0)
		r = inode_get_dir(digesting->tree, &digesting->view, node->parent, &parent);
	if (r < 0)
		return r;
	copy = bytes_dup(buf_bytes(&name));
	if (!copy) {
		inode_forget(digesting->tree, parent, 1);
		return -ENOMEM;
	}
	free(inode->name);
	inode->name = copy;
	inode->parent = parent;
	inode_forget(digesting->tree, before, 1);
	return 0;
}

/* What only memory knows is from when this mount was alone: newer, unless another has set it. */
static void keep_times(const struct inode *inode, unsigned set, struct backend_node *node)
{
	if (!inode->times_dirty)
		return;
	if (!(set & BACKEND_ATIME))
		node->atime = MAX(node->atime, inode->node.atime);
	if (!(set & BACKEND_MTIME))
		node->mtime = MAX(node->mtime, inode->node.mtime);
	if (!(set & BACKEND_CTIME))
		node->ctime = MAX(node->ctime, inode->node.ctime);
}

static bool content_differs(const struct backend_node *a, const struct backend_node *b,
			    const struct backend_feed *feed)
{
	return feed->content || a->kind != b->kind || a->flags != b->flags || a->size != b->size;
}

/* A node is as the newest commit has left it.  What is to be known of a state file's content comes
 * with the note that tells of that. */
static void leave_content(const struct inode *inode, const struct backend_feed *feed,
			  struct backend_node *node)
{
	if (!inode_is_state(inode) || feed->content || feed->moved)
		return;
	node->flags = inode->node.flags;
	node->size = inode->node.size;
}

static bool key_differs(const struct backend_node *a, const struct backend_node *b)
{
	return !bytes_equal(a->session, b->session) || !bytes_equal(a->key, b->key);
}

/* Takes the node over. */
static int node_changed(struct digesting *digesting, struct inode *inode, struct backend_node *node,
			const struct backend_feed *feed)
{
	const bool grew = feed->behind && inode_is_state(inode) && node->kind == inode->node.kind;
	const uint64_t size_before = known_size(inode);
	_cleanup_(version_drop) struct version *before = NULL;
	bool differs;
	int r = 0;

	leave_content(inode, feed, node);
	differs = content_differs(&inode->node, node, feed);
	if (!node->nlink && inode->node.nlink && inode_is_state(inode)) {
		r = state_unlinked(digesting, inode);
		if (r == 0)
			node_gone(digesting, inode, false);
	}
	if (r == 0 && !inode->gone && inode_is_dir(inode))
		r = dir_moved(digesting, inode, node);
	if (r < 0 || inode->gone) {
		backend_node_done(node);
		return r;
	}
	if (differs && !grew && inode_is_state(inode))
		before = reconcile_version(digesting->tree, inode);
	if (!inode_is_dir(inode) &&
	    (node->parent != inode->node.parent || node->entry != inode->node.entry))
		inode_leave(inode);
	/* Its rows are elsewhere in a snapshot of before. */
	if (key_differs(&inode->node, node))
		inode->changed = inode->replaced_at = ++digesting->tree->changes;
	keep_times(inode, feed->fields, node);
	inode_set_node(inode, node);
	if (inode_is_dir(inode))
		notes_dir(digesting->notes, inode->ino);
	if (differs && grew)
		content_grew(digesting, inode, size_before);
	else if (differs && !inode_is_dir(inode))
		content_replaced(digesting, inode, before);
	attr_changed(digesting, inode);
	return 0;
}

static bool is_gone(struct tree *tree, uint64_t ino)
{
	struct inode *inode = inode_known(tree, ino);
	bool gone = inode && inode->gone;

	inode_forget(tree, inode, 1);
	return gone;
}

/* What another mount has put into the trash (upkeep/trash.c) is gone, until it comes back. */
static bool is_trashed(const struct digesting *digesting, const struct inode *inode,
		       const struct backend_node *node)
{
	if (inode_is_dir(inode) ?
		    node->parent == BACKEND_TRASH :
		    node_is_trashed(node) &&
			    (inode_is_state(inode) ? !!node->key.data : !node->session.data))
		return true;
	/* With the directory that it lies in. */
	return inode->gone && node->nlink && is_gone(digesting->tree, node->parent);
}

static void come_back(struct inode *inode)
{
	inode->gone = inode->orphaned = inode->lost = false;
	inode->left_faces = 0;
	stage_done(&inode->orphan);
	inode->orphan = (struct stage){ 0 };
}

static const struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING,
					      .bytes = true,
					      .content = true };

/* The node is as it is in the store; takes it over. */
static int digest_stored(struct digesting *digesting, struct inode *inode,
			 struct backend_node *node, bool trashed, const struct backend_feed *feed)
{
	if (trashed)
		node_gone(digesting, inode, true);
	else if (inode->gone && node->nlink)
		come_back(inode);
	inode->bare = false;
	quota_look_again(digesting->tree, inode);
	if (!inode->gone)
		return node_changed(digesting, inode, node, feed);
	backend_node_done(node);
	return 0;
}

/* Of what lies in a directory that has gone into the trash or has come back nothing else is told
 * but of state files.  What has another name elsewhere lives on. */
static int digest_below(struct digesting *digesting, uint64_t dir, bool trashed)
{
	_cleanup_(entries_done) struct entries below = { 0 };
	struct view *view = &digesting->view;
	int r = ASK(view, entry_list, dir, 0, entries_keep, &below);

	for (size_t i = 0; r == 0 && i < below.count; i++) {
		const uint64_t ino = below.item[i].node.ino;
		const bool is_dir = S_ISDIR(below.item[i].node.mode);
		struct inode *inode = inode_known(digesting->tree, ino);
		struct backend_node node;

		if (inode)
			r = backend_node_copy(&below.item[i].node, &node);
		if (inode && r == 0)
			r = digest_stored(digesting, inode, &node,
					  trashed && (is_dir || node.nlink <= 1), &anything);
		inode_forget(digesting->tree, inode, 1);
		/* In a damaged store it may lie in itself. */
		if (r == 0 && is_dir)
			r = ino == dir ? -EIO : ASK(view, entry_list, ino, 0, entries_keep, &below);
	}
	return r;
}

static int digest_inode(struct digesting *digesting, struct inode *inode,
			const struct backend_feed *feed)
{
	const bool was_gone = inode->gone;
	struct backend_node node;
	int r = ASK(&digesting->view, node_get, inode->ino, &node);

	if (r == -ENOENT) {
		ghost_lost(digesting->tree, inode);
		node_gone(digesting, inode, false);
		return 0;
	}
	if (r == 0)
		r = digest_stored(digesting, inode, &node, is_trashed(digesting, inode, &node),
				  feed);
	if (r == 0 && inode_is_dir(inode) && inode->gone != was_gone) {
		r = digest_below(digesting, inode->ino, inode->gone);
		/* It is tried again. */
		if (r < 0)
			inode->gone = was_gone;
	}
	return r;
}

/* Another file may have the key of a ghost by now: the note may be of one that has gone. */
static int ghost_look(struct digesting *digesting, struct bytes session, struct bytes key)
{
	struct backend_node node;
	int r = ghost_find(digesting->tree, session, key) ?
			ASK(&digesting->view, node_find, session, key, &node) :
			-ENOENT;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	ghost_set_theirs(digesting->tree, session, key);
	backend_node_done(&node);
	return 0;
}

static int digest_node(struct digesting *digesting, const struct backend_feed *feed)
{
	struct inode *inode = inode_known(digesting->tree, feed->ino);
	int r;

	/* A directory has no bytes but attributes; with a layout a session may be a file. */
	if (feed->session.data &&
	    (feed->key.data ? digesting->tree->layout && feed->attributes : feed->bytes))
		digesting->tree->ttls_changed = true;
	if (!inode)
		return feed->moved && feed->key.data ?
			       ghost_look(digesting, feed->session, feed->key) :
			       0;
	r = digest_inode(digesting, inode, feed);
	inode_forget(digesting->tree, inode, 1);
	return r;
}

/* Whatever is remembered may be wrong, and names that the kernel has may lead elsewhere. */
static int digest_anything(struct digesting *digesting)
{
	struct inodes all = inodes_get(digesting->tree, NULL);
	int r = 0;

	digesting->tree->ttls_changed = true;
	for (size_t i = 0; r == 0 && i < all.count; i++) {
		if (inode_is_state(all.inode[i]) && !all.inode[i]->node.nlink)
			r = ghost_look(digesting, all.inode[i]->node.session,
				       all.inode[i]->node.key);
		if (r == 0)
			r = digest_inode(digesting, all.inode[i], &anything);
	}
	inodes_forget(digesting->tree, &all);
	if (r == 0)
		notes_all_names(digesting->notes);
	return r;
}

static int digest_rows(struct digesting *digesting, const struct backend_feed *feed)
{
	struct inode *inode;
	int r;

	/* What the file was before is told of its node. */
	if (feed->moved)
		return 0;
	r = rows_inode(digesting->tree, &digesting->view, feed, &inode);
	if (r < 0 || !inode)
		return r;
	if (!inode->gone && inode_is_draft(inode)) {
		draft_stays(inode);
	} else if (!inode->gone && !rows_are_known(inode, feed)) {
		const bool grew =
			feed->behind || (feed->added && is_behind_list(inode, feed->first));
		const bool adds =
			grew || (feed->foreign && feed->added && inode->node.kind == BACKEND_LIST);
		const bool known = inode_ends_in_lines(inode);
		_cleanup_(version_drop) struct version *before =
			adds ? NULL : reconcile_version(digesting->tree, inode);

		if (grew)
			content_grew(digesting, inode, known_size(inode));
		else
			content_replaced(digesting, inode, before);
		inode->grown = known && feed->behind && feed->added && !feed->foreign;
		if (adds && !grew)
			inode_extended(inode, inode->version - 1);
	}
	inode_forget(digesting->tree, inode, 1);
	return 0;
}

static int digest_one(void *arg, const struct backend_feed *feed)
{
	struct digesting *digesting = arg;
	struct backend_feed dated = { .what = BACKEND_FEED_NODE, .fields = feed->fields };
	struct backend_feed known = *feed;
	int r;

	digesting->last = feed->n;
	digesting->any = true;
	if (feed->what != BACKEND_FEED_ENTRY)
		quota_stale(digesting->tree, feed->session);
	if (unsettled_was_seen(digesting->tree, feed))
		known.waits = known.moved = true;
	feed = &known;
	if (telling_add(&digesting->telling, digesting->tree, &digesting->view, feed) < 0)
		return -ESTALE;
	switch (feed->what) {
	case BACKEND_FEED_NODE:
		return digest_node(digesting, feed);
	case BACKEND_FEED_ROWS:
		r = digest_rows(digesting, feed);
		dated.ino = feed->node;
		return r == 0 && feed->dated ? digest_node(digesting, &dated) : r;
	case BACKEND_FEED_ENTRY:
		notes_entry(digesting->notes, feed->ino, feed->name);
		notes_dir(digesting->notes, feed->ino);
		dated.ino = feed->ino;
		return feed->dated ? digest_node(digesting, &dated) : 0;
	case BACKEND_FEED_ANYTHING:
		return digest_anything(digesting);
	}
	return 0;
}

int digest_feed(struct tree *tree, struct notes *notes)
{
	struct digesting digesting = { .tree = tree, .notes = notes };
	int r = view_begin(tree, BACKEND_ANYWAY, &digesting.view);

	notes->view = &digesting.view;
	if (r == 0)
		r = backend_feed_list(tree->backend, digesting.view.snapshot, digest_one,
				      &digesting);
	tell_all_grown(&digesting);
	view_end(&digesting.view);
	notes->view = NULL;
	if (r == 0 && digesting.any)
		telling_send(&digesting.telling, tree, notes);
	telling_done(&digesting.telling);
	if (r < 0 || !digesting.any)
		return r;
	tree->changes++;
	tree->list_end = UINT64_MAX;
	backend_feed_done(tree->backend, digesting.last);
	return 1;
}

static int digest_alone(struct tree *tree, bool patient, struct notes *notes)
{
	_cleanup_(tree_write_unlockp) struct tree *alone =
		patient ? tree_write_lock(tree) : tree_try_write_lock(tree);
	int r = alone ? digest_feed(tree, notes) : 0;

	notes_queue(notes, tree);
	return r;
}

int tree_digest_now(struct tree *tree, bool patient)
{
	struct notes notes = { 0 };
	int r;

	if (!backend_is_shared(tree->backend))
		return 0;
	r = digest_alone(tree, patient, &notes);
	notes_send(&notes, tree, NOTIFY_LATER);
	return r;
}
