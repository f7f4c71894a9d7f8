/* SPDX-License-Identifier: MIT */

/* Files whose rows others have deleted. */

#include <errno.h>

#include "fs/share/reconcile.h"
#include "fs/share/unsettled.h"
#include "fs/tree/tree.h"

/* What others have deleted is gone from its directory; the rows are gone already: there is nothing
 * to keep, and nothing to delete, which a read-only mount could not. */
static int removal_begin(struct reconciling *reconciling, struct inode *inode, struct inode *dir,
			 struct batch *batch, struct removal *removal)
{
	struct view *view = &reconciling->view;
	int r;

	*removal = (struct removal){ .unlinking = { .empty = true } };
	r = ASK(view, entry_name, dir->ino, inode->node.entry, &removal->name);
	if (r == 0)
		r = unlinking_begin(reconciling->tree, view, inode, true, &removal->unlinking,
				    batch);
	if (r < 0) {
		buf_done(&removal->name);
		unlinking_done(&removal->unlinking);
		return r;
	}
	batch_entry_delete(batch, dir->ino, inode->node.entry);
	removal->before = reconcile_version(reconciling->tree, inode);
	removal->inode = inode_ref(reconciling->tree, inode);
	removal->dir = inode_ref(reconciling->tree, dir);
	return 0;
}

void removal_apply(struct reconciling *reconciling, struct removal *removal)
{
	struct inode *inode = removal->inode;

	unlinking_apply(&removal->unlinking);
	unsettled_end(reconciling->tree, inode);
	if (removal->before)
		(void)versions_apply(&reconciling->notes, inode, NULL, removal->before);
	notes_entry(&reconciling->notes, removal->dir->ino, buf_bytes(&removal->name));
	notes_dir(&reconciling->notes, removal->dir->ino);
	notes_happened(&reconciling->notes, reconciling->tree,
		       &(struct happened){
			       .what = EVENT_REMOVE,
			       .by = EVENT_BY_SQL,
			       .inode = inode,
			       .items = -1,
			       .dir = removal->dir,
			       .name = buf_bytes(&removal->name),
		       });
}

void removal_end(struct reconciling *reconciling, struct removal *removal)
{
	version_drop(&removal->before);
	unlinking_done(&removal->unlinking);
	buf_done(&removal->name);
	inode_forget(reconciling->tree, removal->inode, 1);
	inode_forget(reconciling->tree, removal->dir, 1);
}

int remove_empty(struct reconciling *reconciling, struct inode *dir)
{
	int r = 0;

	while (r == 0 && !dir->gone && dir->parent &&
	       dir_is_empty(&reconciling->view, dir->ino) == 1) {
		_cleanup_(batch_done) struct batch batch = { 0 };
		struct inode *parent = dir->parent;
		struct backend_node parent_node;
		struct removal removal;

		dir_changed(parent, -1, &parent_node);
		r = removal_begin(reconciling, dir, parent, &batch, &removal);
		if (r < 0)
			return r;
		batch_dir(&batch, &parent->node, &parent_node);
		r = reconcile_commit(reconciling, &batch);
		if (r == 0) {
			dir_apply(parent, &parent_node);
			removal_apply(reconciling, &removal);
			r = reconciling->view_error;
		}
		removal_end(reconciling, &removal);
		dir = parent;
	}
	return r;
}

int removal_add(struct reconciling *reconciling, const struct changed_key *key, struct inode *inode)
{
	struct gathered *gathered = &reconciling->gathered;
	struct inode *dir;
	int r = 0;

	/* A key may come again as a neighbour. */
	for (size_t i = 0; i < gathered->removal_count; i++)
		if (gathered->removals[i].inode == inode)
			return 0;
	if (gathered->removal_count == REMOVE_TOGETHER)
		r = gather_settle(reconciling);
	if (r == 0)
		r = inode_get_dir(reconciling->tree, &reconciling->view, inode->node.parent, &dir);
	if (r < 0)
		return r;
	r = removal_begin(reconciling, inode, dir, &gathered->batch,
			  &gathered->removals[gathered->removal_count]);
	if (r == 0) {
		gathered->removal_count++;
		gather_dir(reconciling, dir, 0, true);
		reconcile_done(key, &gathered->batch);
		r = gathered->batch.error;
	}
	inode_forget(reconciling->tree, dir, 1);
	return r;
}
