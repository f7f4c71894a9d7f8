/* SPDX-License-Identifier: MIT */

/* Listing a directory. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fs/base/entries.h"
#include "fs/base/sound.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/inode/window.h"
#include "fs/tree/attr.h"
#include "fs/tree/tree.h"
#include "backend/base/log.h"

enum {
	LIST_BLOCK = 1024, /* entries fetched at a time, at the most */
};

struct listing {
	struct tree *tree;
	struct entries entries;
	struct backend_tail *tail; /* of each */
	struct inode **inode;	   /* of the entries so far, counted */
	size_t known;
	size_t seen;	/* entries that the store has listed */
	uint64_t after; /* id of the last one */
	uint64_t end;	/* position to stop at */
	bool with_nodes;
	bool *unsound; /* there are some that cannot be shown */
};

static unsigned list_wants(void *arg, const struct backend_node *node)
{
	const struct listing *listing = arg;

	return listing->with_nodes ? inode_wants_tail(listing->tree, node) : 0;
}

static int list_keep(void *arg, const struct backend_entry *entry, const struct backend_node *node,
		     const struct backend_tail *tail)
{
	struct listing *listing = arg;
	const struct backend_node slim = { .ino = node->ino, .mode = node->mode };

	if (entry->id > listing->end)
		return 1;
	listing->seen++;
	/* A damaged store may have any ids; positions must rise, or a listing never ends. */
	if (entry->id <= listing->after || entry->id > SOUND_NUMBER_MAX) {
		*listing->unsound = true;
		return 0;
	}
	listing->after = entry->id;
	listing->tail[listing->entries.count] = *tail;
	if (!sound_name(entry->name) || !sound_entry(entry->parent, entry->id, node) ||
	    sound_node(node)) {
		*listing->unsound = true;
		return 0;
	}
	return entries_add(&listing->entries, entry, listing->with_nodes ? node : &slim);
}

static int list_inodes(struct listing *listing, struct view *view)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < listing->entries.count; i++) {
		struct entry_copy *entry = &listing->entries.item[i];
		struct backend_node node = entry->node;

		if (listing->with_nodes) {
			entry->node = (struct backend_node){ .ino = node.ino, .mode = node.mode };
			r = inode_of_entry(listing->tree, view, &node, entry_name(entry),
					   &listing->inode[i]);
		}
		listing->known += r == 0;
	}
	return r;
}

/* view: that of the listing, which has ended. */
static int list_entry(struct listing *listing, size_t i, const struct view *view, bool patient,
		      tree_entry_fn *fn, void *arg)
{
	const struct entry_copy *listed = &listing->entries.item[i];
	struct inode **inode = &listing->inode[i];
	struct shown shown = {
		.st = { .st_ino = listed->node.ino, .st_mode = listed->node.mode },
	};
	int r = 0;

	if (*inode)
		r = inode_list(listing->tree, *inode, view, listed, &listing->tail[i], patient,
			       &shown);
	if (r == -EBUSY) {
		inode_forget(listing->tree, *inode, 1);
		*inode = NULL;
		r = 0;
	}
	if (r == 0)
		r = fn(arg, entry_name(listed), *inode, &shown, listed->id + LIST_DOTS);
	if (r == 0)
		*inode = NULL; /* the function owns it now */
	return r;
}

int list_dots(uint64_t ino, uint64_t parent, uint64_t position, tree_entry_fn *fn, void *arg)
{
	const struct shown self = { .st = { .st_ino = ino, .st_mode = S_IFDIR } };
	const struct shown up = { .st = { .st_ino = parent, .st_mode = S_IFDIR } };
	int r = 0;

	if (position < 1)
		r = fn(arg, BYTES("."), NULL, &self, 1);
	if (r == 0 && position < 2)
		r = fn(arg, BYTES(".."), NULL, &up, 2);
	return r;
}

struct listed {
	bool unsound; /* there were some that cannot be shown */
	bool stopped; /* by the function */
};

/* One block of entries behind *after; 1 when there may be more. */
static int list_block(struct tree *tree, struct inode *dir, uint64_t *after, uint64_t end,
		      size_t most, bool with_inodes, bool patient, struct listed *listed,
		      tree_entry_fn *fn, void *arg)
{
	struct listing listing = {
		.tree = tree,
		.tail = calloc(most, sizeof(*listing.tail)),
		.inode = calloc(most, sizeof(*listing.inode)),
		.after = *after,
		.end = end,
		.with_nodes = with_inodes,
		.unsound = &listed->unsound,
	};
	_cleanup_(view_end) struct view view = { 0 };
	const uint64_t before = *after;
	WITH_READ_LOCK(tree);
	bool more;
	int failed = 0, r = listing.tail && listing.inode ? 0 : -ENOMEM;

	if (r == 0)
		r = view_begin(tree, 0, &view);
	if (r == 0)
		r = session_heed(tree, &view, dir);
	if (r == -ESTALE && tree->taker.stuck && !tree->rest.any)
		r = 0;
	if (r == 0 && !dir->gone)
		r = backend_entry_list_tails(view.backend, view.snapshot, dir->node.ino, *after,
					     most, list_wants, list_keep, &listing);
	if (r == 0)
		failed = list_inodes(&listing, &view);
	/* Show each file as it is now; and hold no snapshot while waiting for a file. */
	view_end(&view);
	for (size_t i = 0; r == 0 && i < listing.known; i++) {
		r = list_entry(&listing, i, &view, patient, fn, arg);
		if (r == 0)
			*after = listing.entries.item[i].id;
	}
	more = listing.seen == most && listing.after > before;
	if (r == 0)
		*after = listing.after;
	for (size_t i = 0; i < listing.known; i++)
		inode_forget(tree, listing.inode[i], 1);
	entries_done(&listing.entries);
	free(listing.tail);
	free(listing.inode);
	listed->stopped = r > 0;
	if (r > 0)
		return 0;
	return r < 0 ? r : failed < 0 ? failed : more;
}

uint64_t tree_list_end(struct tree *tree)
{
	const uint64_t end = tree->list_end;

	/* Beside another mount that writes, the newest position is not known here. */
	return tree->options.read_only || tree->rest.any || backend_is_shared(tree->backend) ||
			       end == UINT64_MAX ?
		       UINT64_MAX :
		       end + LIST_DOTS;
}

static int list(struct tree *tree, struct inode *dir, uint64_t position, uint64_t end, size_t most,
		bool with_inodes, bool patient, tree_entry_fn *fn, void *arg)
{
	uint64_t after = position > LIST_DOTS ? position - LIST_DOTS : 0;
	uint64_t last = end > LIST_DOTS ? end - LIST_DOTS : 0;
	const struct inode *parent = dir->parent ? dir->parent : dir;
	int r = list_dots(dir->ino, parent->ino, position, fn, arg);
	struct listed listed = { 0 };
	const uint64_t before = after;
	bool may_come;

	if (r != 0)
		return MIN(r, 0);
	most = MIN(most, (size_t)LIST_BLOCK);
	do {
		may_come = rest_may_come(tree, dir);
		do
			r = TREE_RETRY(tree, list_block(tree, dir, &after, last, most, with_inodes,
							patient, &listed, fn, arg));
		while (r > 0);
		/* The kernel takes these entries, and asks again. */
		if (listed.stopped || (!patient && after != before))
			may_come = false;
		if (r == 0 && may_come)
			r = rest_wait(tree);
	} while (r >= 0 && may_come);
	if (r < 0 || !listed.unsound)
		return r;
	log_error("the directory of inode %" PRIu64 " has entries that cannot be shown; 'sessfs "
		  "check' names them",
		  dir->node.ino);
	return -EUCLEAN;
}

int tree_list_some(struct tree *tree, struct inode *dir, uint64_t position, uint64_t end,
		   size_t most, bool with_inodes, tree_entry_fn *fn, void *arg)
{
	if (dir->window)
		return tree->views->list(tree, dir, position, end, fn, arg);
	return list(tree, dir, position, end, most, with_inodes, false, fn, arg);
}

int tree_list(struct tree *tree, struct inode *dir, uint64_t position, uint64_t end,
	      bool with_inodes, tree_entry_fn *fn, void *arg)
{
	if (dir->window)
		return tree->views->list(tree, dir, position, end, fn, arg);
	return list(tree, dir, position, end, SIZE_MAX, with_inodes, true, fn, arg);
}
