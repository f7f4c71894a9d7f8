/* SPDX-License-Identifier: MIT */

/*
 * What is taken in together.
 *
 *   A commit costs more than what one file needs, and behind each the view has to be renewed and
 *   its pages read again.  So names that come (adopt.c) and go (removals.c) are gathered, from one
 *   key to the next, and committed together, each with the note that its key is done
 *   (gather_settle()).  Until then
 *
 *     a name is taken if the store has it or it was gathered;
 *     a directory that was gathered is in the table of inodes, counted here, so that names can be
 *     put into it;
 *     times and links of directories have changed in memory, where nobody else looks meanwhile,
 *     and change back if the commit fails.
 *
 *   Whoever needs to find the result in the store, or commits anything else, settles first.
 */

#include "fs/share/reconcile.h"
#include "fs/tree/tree.h"

/* What changes of its node is put by gather_settle(). */
static struct gathered_dir *touch(struct reconciling *reconciling, struct inode *dir)
{
	struct gathered *gathered = &reconciling->gathered;
	struct gathered_dir *touched;

	for (size_t i = gathered->dir_count; i; i--)
		if (gathered->dirs[i - 1].dir == dir)
			return &gathered->dirs[i - 1];
	touched = &gathered->dirs[gathered->dir_count++];
	*touched = (struct gathered_dir){ inode_ref(reconciling->tree, dir), dir->node, false };
	notes_dir(&reconciling->notes, dir->node.ino);
	return touched;
}

void gather_dir(struct reconciling *reconciling, struct inode *dir, int links, bool loses)
{
	struct backend_node node;

	touch(reconciling, dir)->loses |= loses;
	dir_changed(dir, links, &node);
	dir_apply(dir, &node);
}

/* How many rows it has, unless these are told once more: then they would count twice. */
static int64_t items_of(struct reconciling *reconciling, const struct adopted *adopted)
{
	const struct backend_node *node = &adopted->node;

	if (adopted->items < 0 || !events_wanted(&reconciling->tree->events) ||
	    !reconciling->view.backend)
		return adopted->items;
	return changed_since(reconciling, node->session, node->key) < adopted->items ?
		       -1 :
		       adopted->items;
}

/* It was committed. */
static void apply(struct reconciling *reconciling)
{
	struct gathered *gathered = &reconciling->gathered;

	for (size_t i = 0; i < gathered->count; i++) {
		const struct adopted *adopted = &gathered->names[i];

		if (!adopted->old)
			notes_happened(&reconciling->notes, reconciling->tree,
				       &(struct happened){
					       .what = EVENT_SAVE,
					       .by = EVENT_BY_SQL,
					       .node = &adopted->node,
					       .items = items_of(reconciling, adopted),
					       .dir = adopted->dir,
					       .name = adopted->name,
				       });
	}
	for (size_t i = 0; i < gathered->removal_count; i++)
		removal_apply(reconciling, &gathered->removals[i]);
}

static void let_go(struct reconciling *reconciling)
{
	struct gathered *gathered = &reconciling->gathered;
	struct tree *tree = reconciling->tree;

	for (size_t i = 0; i < gathered->count; i++) {
		inode_forget(tree, gathered->names[i].dir, 1);
		inode_forget(tree, gathered->names[i].made, 1);
	}
	for (size_t i = 0; i < gathered->removal_count; i++)
		removal_end(reconciling, &gathered->removals[i]);
	for (size_t i = 0; i < gathered->dir_count; i++)
		inode_forget(tree, gathered->dirs[i].dir, 1);
	batch_done(&gathered->batch);
	gathered->count = gathered->removal_count = gathered->dir_count = 0;
}

void gather_drop(struct reconciling *reconciling)
{
	struct gathered *gathered = &reconciling->gathered;

	for (size_t i = 0; i < gathered->dir_count; i++)
		dir_apply(gathered->dirs[i].dir, &gathered->dirs[i].before);
	let_go(reconciling);
}

int gather_settle(struct reconciling *reconciling)
{
	struct gathered *gathered = &reconciling->gathered;
	int r;

	if (!gathered->batch.count) {
		batch_done(&gathered->batch);
		return 0;
	}
	for (size_t i = 0; i < gathered->dir_count; i++)
		batch_dir(&gathered->batch, &gathered->dirs[i].before,
			  &gathered->dirs[i].dir->node);
	r = reconcile_commit(reconciling, &gathered->batch);
	if (r < 0) {
		gather_drop(reconciling);
		return r;
	}
	apply(reconciling);
	r = reconciling->view_error;
	for (size_t i = 0; r == 0 && i < gathered->dir_count; i++)
		if (gathered->dirs[i].loses)
			r = remove_empty(reconciling, gathered->dirs[i].dir);
	let_go(reconciling);
	return r;
}
