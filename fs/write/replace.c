/* SPDX-License-Identifier: MIT */

/* Replacing the content of a file of any kind by a stage (save.c has the plan of it). */

#include <errno.h>

#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"
#include "fs/inode/shed.h"
#include "fs/inode/waiting.h"
#include "fs/write/handle.h"

/* A file that is gone has its bytes in a stage. */
static int orphan_replace(struct inode *inode, struct stage *stage)
{
	struct stage copy = { 0 };
	int r = stage_copy(stage, &copy);

	if (r < 0) {
		stage_done(&copy);
		return r;
	}
	stage_done(&inode->orphan);
	inode->orphan = copy;
	return 0;
}

static bool has_chunks(const struct inode *inode)
{
	return inode_is_draft(inode) || inode->node.kind == BACKEND_ORDINARY;
}

int save_ahead_begin(struct tree *tree, struct inode *inode, struct save_ahead *ahead)
{
	int r = inode_view_begin(tree, inode, &ahead->view);

	if (r == 0)
		r = content_size(tree, &ahead->view, inode, &ahead->size);
	if (r == 0)
		r = backend_node_copy(&inode->node, &ahead->node);
	ahead->had_chunks = has_chunks(inode);
	ahead->version = inode->version;
	return r;
}

int save_ahead_plan(struct tree *tree, struct save_ahead *ahead, struct stage *stage)
{
	const struct save_target target = {
		.node = &ahead->node,
		.same = true,
		.had_chunks = ahead->had_chunks,
	};
	int r = save_plan(tree, &ahead->view, &target, stage, &ahead->save);

	view_end(&ahead->view);
	return r;
}

void save_ahead_done(struct save_ahead *ahead)
{
	view_end(&ahead->view);
	save_free(ahead->save);
	backend_node_done(&ahead->node);
}

/* Whether nothing has changed since the plan was begun. */
static bool ahead_holds(const struct save_ahead *ahead, const struct inode *inode, uint64_t size)
{
	const struct backend_node *node = &inode->node;

	return ahead && ahead->save && ahead->version == inode->version && ahead->size == size &&
	       ahead->had_chunks == has_chunks(inode) && ahead->node.kind == node->kind &&
	       bytes_equal(ahead->node.session, node->session) &&
	       bytes_equal(ahead->node.key, node->key);
}

/* A save that is being published, and its effect on handles of the file. */
struct publishing {
	struct tree *tree;
	struct save_ahead *ahead; /* may be NULL */
	struct inode *inode;
	struct stage *stage;
	struct backend_node node; /* as it will be */
	int64_t mtime;
	unsigned flags; /* of the commit */
	const struct writing *saver;
	struct version *version; /* the previous content, if a reader needs it */
	uint64_t size_before;
	int64_t items_before; /* of a list; -1: not known */
	bool extends;	      /* the stage begins with the present content */
	bool adds;	      /* only adds to the present content */
};

static void publishing_done(struct publishing *publishing)
{
	version_drop(&publishing->version);
}

static int publishing_keep(struct publishing *publishing, struct view *view)
{
	struct inode *inode = publishing->inode;

	return !publishing->adds && versions_wanted(inode, publishing->saver) ?
		       version_take(view, inode, &publishing->version) :
		       0;
}

/* The plan that was made ahead, if it still holds; it is used once. */
static int publishing_plan(struct publishing *publishing, struct view *view, struct save **ret_save)
{
	struct inode *inode = publishing->inode;
	struct save_ahead *ahead = publishing->ahead;
	const struct save_target target = {
		.node = &publishing->node,
		.same = true,
		.had_chunks = has_chunks(inode),
		.dates = inode->dates,
	};

	if (!ahead_holds(ahead, inode, publishing->size_before))
		return save_plan(publishing->tree, view, &target, publishing->stage, ret_save);
	publishing->node.flags = ahead->node.flags;
	publishing->node.size = ahead->node.size;
	publishing->node.generation = ahead->node.generation;
	*ret_save = steal_ptr(ahead->save);
	save_set_target(*ret_save, &target);
	return 0;
}

static int publish_to_store(struct publishing *publishing)
{
	struct tree *tree = publishing->tree;
	struct inode *inode = publishing->inode;
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(save_freep) struct save *save = NULL;
	_cleanup_(view_end) struct view view = { 0 };
	int r = 0;

	/* What is replaced is read from the store; if not, the commit gets a condition for it. */
	if (inode->node.kind == BACKEND_LIST || !(inode->loaded || inode_is_draft(inode)) ||
	    versions_wanted(inode, publishing->saver))
		r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_size(tree, &view, inode, &publishing->size_before);
	if (r == 0)
		r = publishing_plan(publishing, &view, &save);
	if (r < 0)
		return r;
	publishing->items_before =
		inode->node.kind == BACKEND_LIST && inode->loaded && !inode_is_draft(inode) ?
			inode->list.next :
			-1;
	publishing->adds =
		publishing->extends || save_only_adds(save, inode, publishing->size_before);
	r = publishing_keep(publishing, &view);
	view_end(&view);
	batch.behind = publishing->adds;
	quota_grows(inode,
		    (int64_t)(publishing->stage->size -
			      (inode->inherits ? 0 : publishing->size_before)),
		    &batch);
	return r < 0 ? r : save_commit(tree, save, &batch, publishing->flags);
}

static int publish_once(struct publishing *publishing)
{
	version_drop(&publishing->version);
	publishing->node = publishing->inode->node;
	publishing->node.mtime = publishing->mtime;
	publishing->node.ctime = time_now();
	if (!publishing->inode->orphaned)
		return publish_to_store(publishing);
	publishing->size_before = publishing->inode->orphan.size;
	(void)publishing_keep(publishing, NULL);
	return orphan_replace(publishing->inode, publishing->stage);
}

/* On a full disk a save that makes the file smaller may use the reserve. */
static int publish_on_full_disk(struct publishing *publishing)
{
	int r;

	if (publishing->stage->size >= publishing->size_before)
		return -ENOSPC;
	publishing->flags = BACKEND_FREES;
	r = publish_once(publishing);
	if (r != -ENOSPC || publishing->stage->size)
		return r;
	/* Emptying may go in parts, replacing may not. */
	r = shed_content(publishing->tree, publishing->inode, 0);
	return r < 0 ? r : publish_once(publishing);
}

static int publish(struct publishing *publishing, struct notes *notes)
{
	struct tree *tree = publishing->tree;
	struct inode *inode = publishing->inode;
	int r = publish_once(publishing);

	if (r == -ENOSPC)
		r = publish_on_full_disk(publishing);
	if (r < 0)
		return r;
	inode->node = publishing->node;
	inode->inherits = false;
	inode_unload(inode);
	inode->version++;
	if (publishing->extends)
		inode_extended(inode, inode->version - 1);
	if (publishing->version &&
	    versions_apply(notes, inode, publishing->saver, publishing->version))
		name_forget(notes, tree, inode);
	notes_change(notes, tree, inode, publishing->adds ? CHANGE_GREW : CHANGE_REPLACED,
		     publishing->size_before, NULL);
	notes_happened(notes, tree,
		       &(struct happened){
			       .what = publishing->adds && publishing->items_before >= 0 ?
					       EVENT_APPEND :
					       EVENT_SAVE,
			       .inode = inode,
			       .first = publishing->items_before,
		       });
	return 0;
}

int save_publish(struct tree *tree, struct inode *inode, struct writing *saver, struct stage *stage,
		 int64_t mtime, struct save_ahead *ahead, struct notes *notes)
{
	_cleanup_(publishing_done) struct publishing publishing = {
		.tree = tree,
		.ahead = ahead,
		.inode = inode,
		.saver = saver,
		.stage = stage,
		.mtime = mtime,
	};

	return publish(&publishing, notes);
}

int save_extend(struct tree *tree, struct inode *inode, struct stage *stage, int64_t mtime,
		struct notes *notes)
{
	_cleanup_(publishing_done) struct publishing publishing = {
		.tree = tree,
		.inode = inode,
		.stage = stage,
		.mtime = mtime,
		.extends = true,
	};

	return publish(&publishing, notes);
}
