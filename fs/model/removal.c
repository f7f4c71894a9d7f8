/* SPDX-License-Identifier: MIT */

/*
 * Names that were removed one after the other, held back for one transaction.
 *
 *   Removing a name changes a page in each of half a dozen trees of the store, nearly the same
 *   pages for all names of a directory.  So the second removal in a row is held back, and those
 *   that follow: in memory the file has lost its name, and the store learns of all of them together
 *   (removals_settle), before anything else is done.  For that, tree.lock is the gate: whoever
 *   takes it finds nothing held back.  Only these pass with the rest held: the next removal, and
 *   what the kernel asks in between, a lookup (which knows the names that are held) and the
 *   attributes of an inode (which are in memory).  The tree's own thread takes the lock within half
 *   a second.
 *
 *   The first removal in a row is committed, so that a store that refuses it tells who asked.  What
 *   is held frees room, so it is not refused for want of room later; when the store is locked by
 *   another program for long, it is tried again until it succeeds.
 *
 *   What is held is noted in memory that outlives a kill (kept.h) before it is answered, and the
 *   next mount makes up for it (removals_recover).  An entry's id is never used again, so what is
 *   in the store already is seen.  Without such memory nothing is held.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fs/model/kept.h"
#include "fs/model/namespace.h"
#include "src/base/log.h"

enum {
	HOLD_SIZE = 256 << 10, /* larger files are removed at once: their bytes go with them */
	AGAIN_MS = 1000,
};

struct removal {
	struct inode *dir; /* both counted */
	struct inode *inode;
	uint64_t entry;
};

bool removals_have(const struct tree *tree, uint64_t entry)
{
	for (unsigned i = 0; i < tree->removals; i++)
		if (tree->removal[i].entry == entry)
			return true;
	return false;
}

/* A file that has one name, and whose end nobody must wait for. */
static bool can_be_held(const struct inode *inode)
{
	if (inode_is_dir(inode) || inode->node.nlink != 1)
		return false;
	if (inode_is_state(inode))
		return true;
	return !inode->open && !inode->held && inode->node.size <= HOLD_SIZE;
}

static struct removal *removal_next(struct tree *tree, struct kept *kept)
{
	if (tree->removals == REMOVALS_MAX)
		removals_settle(tree);
	if (!kept || tree->removals == REMOVALS_MAX)
		return NULL;
	if (!tree->removal)
		tree->removal = calloc(REMOVALS_MAX, sizeof(*tree->removal));
	return tree->removal ? &tree->removal[tree->removals] : NULL;
}

bool removal_hold(struct tree *tree, struct inode *dir, uint64_t entry, struct inode *inode)
{
	struct removal *removal;
	struct kept *kept;

	if (!tree->removing || tree->removals_failed || !can_be_held(inode))
		return false;
	kept = kept_open(tree, true);
	removal = removal_next(tree, kept);
	if (!removal)
		return false;
	*removal = (struct removal){
		.dir = inode_ref(tree, dir),
		.inode = inode_ref(tree, inode),
		.entry = entry,
	};
	kept->removal[tree->removals] = (struct kept_removal){
		.parent = dir->node.ino,
		.entry = entry,
		.ino = inode->node.ino,
		.ctime = inode->node.ctime,
	};
	/* Not before it is noted: we may be killed at any time. */
	atomic_signal_fence(memory_order_release);
	kept->removals = ++tree->removals;
	return true;
}

static int settle(struct tree *tree, struct unlinking *unlinking)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < tree->removals; i++) {
		const struct removal *removal = &tree->removal[i];
		const struct inode *dir = removal->dir;

		batch_entry_delete(&batch, dir->node.ino, removal->entry);
		if (!inode_is_state(removal->inode))
			r = unlinking_begin(tree, NULL, removal->inode, false, &unlinking[i],
					    &batch);
		else if (!removal->inode->gone) /* it is, if its ghost ended after a failure */
			batch_node_put(&batch, &removal->inode->node);
		if (i + 1 == tree->removals || removal[1].dir != dir)
			batch_node_put(&batch, &dir->node);
	}
	return r < 0 ? r : batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
}

static void settled(struct tree *tree, struct unlinking *unlinking)
{
	for (unsigned i = 0; i < tree->removals; i++) {
		if (unlinking[i].inode)
			unlinking_apply(&unlinking[i]);
		inode_forget(tree, tree->removal[i].inode, 1);
		inode_forget(tree, tree->removal[i].dir, 1);
	}
	tree->kept->removals = 0;
	memset(tree->kept->removal, 0, tree->removals * sizeof(tree->kept->removal[0]));
	tree->removals = 0;
}

int removals_settle(struct tree *tree)
{
	struct unlinking unlinking[REMOVALS_MAX] = { 0 };
	int r;

	if (!tree->removals)
		return 0;
	if (tree->removals_failed && time_now() < tree->removals_again)
		return tree->removals_failed;
	r = settle(tree, unlinking);
	if (r == 0) {
		settled(tree, unlinking);
	} else {
		if (r != tree->removals_failed)
			log_error("names that were removed are still in the store (%s); it is "
				  "tried again",
				  strerror(-r));
		tree->removals_again = time_now() + (int64_t)AGAIN_MS * 1000000;
	}
	for (unsigned i = 0; i < REMOVALS_MAX; i++)
		unlinking_done(&unlinking[i]);
	tree->removals_failed = r;
	return r;
}

int removals_pass(struct tree *tree)
{
	int r = 0;

	while (r == 0 && tree->removals) {
		pthread_rwlock_unlock(&tree->lock);
		pthread_rwlock_wrlock(&tree->lock);
		r = removals_settle(tree);
		/* The next one is not held: nobody removes so fast that we are never through. */
		tree->removing = false;
		pthread_rwlock_unlock(&tree->lock);
		pthread_rwlock_rdlock(&tree->lock);
	}
	tree->removing = false;
	return r;
}

int tree_settle(struct tree *tree)
{
	WITH_READ_LOCK(tree);

	return tree->removals ? tree->removals_failed : 0;
}

void removals_done(struct tree *tree)
{
	free(tree->removal);
}

/* ---- what a killed process has held ---- */

struct recovering {
	const struct kept_removal *removal;
	struct batch *batch;
};

/* The first entry that is not before the one that was removed. */
static int recover_entry(void *arg, const struct backend_entry *entry,
			 const struct backend_node *found)
{
	struct recovering *recovering = arg;
	const struct kept_removal *removal = recovering->removal;
	struct backend_node node = *found;

	if (entry->id != removal->entry || entry->ino != removal->ino)
		return 1; /* the store knows it */
	/* It may have been used since, when a mount could not make up for it. */
	if (S_ISDIR(node.mode) || node.nlink > 1 || node.ctime > removal->ctime) {
		log_warning("a name of inode %" PRIu64 " that was removed before sessfs was killed "
			    "is left, since the file is another one now",
			    node.ino);
		return 1;
	}
	node.nlink = 0;
	node.parent = node.entry = 0;
	node.ctime = time_now();
	node.session = batch_keep(recovering->batch, node.session);
	node.key = batch_keep(recovering->batch, node.key);
	node.target = batch_keep(recovering->batch, node.target);
	batch_entry_delete(recovering->batch, removal->parent, removal->entry);
	batch_node_put(recovering->batch, &node);
	return 1;
}

static int recover_dir(struct view *view, uint64_t ino, struct batch *batch)
{
	struct backend_node node;
	int r = view->backend->ops->node_get(view->backend, view->snapshot, ino, &node);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	node.mtime = node.ctime = time_now();
	node.session = batch_keep(batch, node.session);
	node.key = batch_keep(batch, node.key);
	node.target = batch_keep(batch, node.target);
	batch_node_put(batch, &node);
	backend_node_done(&node);
	return 0;
}

static int removal_recover(struct tree *tree, const struct kept_removal *removal)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct recovering recovering = { .removal = removal, .batch = &batch };
	int r;

	if (!removal->entry)
		return 0;
	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0)
		r = view.backend->ops->entry_list(view.backend, view.snapshot, removal->parent,
						  removal->entry - 1, recover_entry, &recovering);
	if (r == 0 && batch.count)
		r = recover_dir(&view, removal->parent, &batch);
	view_end(&view);
	return r < 0 ? r : batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
}

void removals_recover(struct tree *tree)
{
	struct kept *kept = kept_open(tree, false);
	int r = 0;

	for (unsigned i = 0; kept && r == 0 && i < MIN(kept->removals, REMOVALS_MAX); i++)
		r = removal_recover(tree, &kept->removal[i]);
	if (r < 0) {
		kept_leave(tree, r);
	} else if (kept) {
		kept->removals = 0;
		memset(kept->removal, 0, sizeof(kept->removal));
	}
}
