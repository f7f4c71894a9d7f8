/* SPDX-License-Identifier: MIT */

/* Files whose rows others have deleted: they go together, so many in one commit. */

#include <errno.h>

#include "fs/share/removals.h"
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

static void removal_apply(struct reconciling *reconciling, struct removal *removal)
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

static void removal_end(struct reconciling *reconciling, struct removal *removal)
{
	version_drop(&removal->before);
	unlinking_done(&removal->unlinking);
	buf_done(&removal->name);
	inode_forget(reconciling->tree, removal->inode, 1);
	inode_forget(reconciling->tree, removal->dir, 1);
}

/* Those that files have left empty go as well, up to the session. */
static int remove_empty(struct reconciling *reconciling, struct inode *dir)
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

static bool is_first_of_dir(const struct removals *removals, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (removals->item[j].dir == removals->item[i].dir)
			return false;
	return true;
}

static int removals_commit(struct reconciling *reconciling)
{
	struct removals *removals = &reconciling->removals;
	struct backend_node dir_node[REMOVE_TOGETHER];
	int r;

	for (size_t i = 0; i < removals->count; i++) {
		if (!is_first_of_dir(removals, i))
			continue;
		dir_changed(removals->item[i].dir, 0, &dir_node[i]);
		batch_dir(&removals->batch, &removals->item[i].dir->node, &dir_node[i]);
	}
	r = reconcile_commit(reconciling, &removals->batch);
	for (size_t i = 0; r == 0 && i < removals->count; i++) {
		if (is_first_of_dir(removals, i))
			dir_apply(removals->item[i].dir, &dir_node[i]);
		removal_apply(reconciling, &removals->item[i]);
	}
	return r < 0 ? r : reconciling->view_error;
}

void removals_drop(struct reconciling *reconciling)
{
	struct removals *removals = &reconciling->removals;

	for (size_t i = 0; i < removals->count; i++)
		removal_end(reconciling, &removals->item[i]);
	removals->count = 0;
	batch_done(&removals->batch);
}

int removals_settle(struct reconciling *reconciling)
{
	struct removals *removals = &reconciling->removals;
	int r;

	if (!removals->count)
		return 0;
	r = removals_commit(reconciling);
	for (size_t i = 0; r == 0 && i < removals->count; i++)
		if (is_first_of_dir(removals, i))
			r = remove_empty(reconciling, removals->item[i].dir);
	removals_drop(reconciling);
	return r;
}

int removal_add(struct reconciling *reconciling, const struct changed_key *key, struct inode *inode)
{
	struct removals *removals = &reconciling->removals;
	struct inode *dir;
	int r = 0;

	/* A key may come again as a neighbour. */
	for (size_t i = 0; i < removals->count; i++)
		if (removals->item[i].inode == inode)
			return 0;
	if (removals->count == REMOVE_TOGETHER)
		r = removals_settle(reconciling);
	if (r == 0)
		r = inode_get_dir(reconciling->tree, &reconciling->view, inode->node.parent, &dir);
	if (r < 0)
		return r;
	r = removal_begin(reconciling, inode, dir, &removals->batch,
			  &removals->item[removals->count]);
	inode_forget(reconciling->tree, dir, 1);
	if (r < 0)
		return r;
	removals->count++;
	reconcile_done(key, &removals->batch);
	return removals->batch.error;
}
