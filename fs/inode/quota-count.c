/* SPDX-License-Identifier: MIT */

/* The total size of a session's files by what the store has: sizes as in stat(). */

#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"
#include "backend/base/array.h"

enum { PAGE = 256 }; /* entries that are asked for at once */

struct counting {
	struct tree *tree;
	struct view *view;
	uint64_t home;
	uint64_t dir;	 /* that is just listed */
	uint64_t after;	 /* the last entry of it that was listed */
	uint64_t listed; /* since it was asked */
	uint64_t bytes;
	uint64_t *dirs; /* that are still to be listed */
	size_t dir_count;
	size_t dir_room;
	struct {
		uint64_t ino;
		int64_t index; /* of its last mark */
	} * lists;	       /* that have pieces */
	size_t list_count;
	size_t list_room;
};

static unsigned wants_tail(void *arg, const struct backend_node *node)
{
	(void)arg;
	return kind_is_state(node->kind) && !(node->flags & BACKEND_DRAFT) ? BACKEND_TAIL : 0;
}

/* Rows that still belong to a removed file do not count as its own. */
static bool inherits(struct counting *counting, uint64_t ino)
{
	struct inode *inode = inode_known(counting->tree, ino);
	bool does = inode && inode->inherits;

	inode_forget(counting->tree, inode, 1);
	return does;
}

static uint64_t rows_size(const struct backend_node *node, const struct backend_tail *tail)
{
	uint64_t bytes = tail->bytes;

	if (node->kind != BACKEND_LIST)
		return bytes;
	/* Each has a newline, but for the last one, perhaps. */
	bytes += tail->mark.offset + tail->rows;
	return bytes - (tail->rows && (node->flags & BACKEND_NO_NEWLINE) ? 1 : 0);
}

static int count_entry(void *arg, const struct backend_entry *entry,
		       const struct backend_node *node, const struct backend_tail *tail)
{
	struct counting *counting = arg;

	const bool newest = node->parent == entry->parent && node->entry == entry->id;

	counting->after = entry->id;
	counting->listed++;
	if (S_ISDIR(node->mode)) {
		/* In a damaged store it may lie in itself. */
		if (!newest || node->ino == counting->home)
			return 0;
		if (ARRAY_ROOM(counting->dirs, counting->dir_count, counting->dir_room) < 0)
			return -ENOMEM;
		counting->dirs[counting->dir_count++] = node->ino;
		return 0;
	}
	/* Of several names the newest counts, or each if that is not known. */
	if (!S_ISREG(node->mode) || (node->entry && !newest))
		return 0;
	if (!tail || !tail->known) {
		counting->bytes += node->size;
		return 0;
	}
	if (inherits(counting, node->ino))
		return 0;
	counting->bytes += rows_size(node, tail);
	if (!tail->pieces)
		return 0;
	if (ARRAY_ROOM(counting->lists, counting->list_count, counting->list_room) < 0)
		return -ENOMEM;
	counting->lists[counting->list_count].ino = node->ino;
	counting->lists[counting->list_count++].index = tail->mark.index;
	return 0;
}

static int add_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	(void)index;
	(void)seq;
	*(uint64_t *)arg += data.size;
	return 0;
}

static int count_dir(struct counting *counting)
{
	struct view *view = counting->view;
	int r = 0;

	counting->after = 0;
	do {
		counting->listed = 0;
		r = backend_entry_list_tails(view->backend, view->snapshot, counting->dir,
					     counting->after, PAGE, wants_tail, count_entry,
					     counting);
		for (size_t i = 0; r == 0 && i < counting->list_count; i++)
			r = ASK(view, piece_read, counting->lists[i].ino, counting->lists[i].index,
				INT64_MIN, add_piece, &counting->bytes);
		counting->list_count = 0;
	} while (r == 0 && counting->listed == PAGE);
	return r;
}

static bool has_left(const struct inode *inode)
{
	return inode->left_dir && !inode->node.nlink;
}

/* What was unlinked and is open here. */
static void count_left(struct counting *counting)
{
	struct inodes all = inodes_get(counting->tree, has_left);

	for (size_t i = 0; i < all.count; i++) {
		struct inode *at = inode_known(counting->tree, all.inode[i]->left_dir);
		const struct inode *home = at && inode_is_dir(at) ? inode_session(at) : NULL;

		if (home && home->ino == counting->home)
			counting->bytes += all.inode[i]->node.size;
		inode_forget(counting->tree, at, 1);
	}
	inodes_forget(counting->tree, &all);
}

static bool has_held(const struct inode *inode)
{
	return inode->held;
}

uint64_t quota_held(struct tree *tree, uint64_t dir)
{
	struct inodes all = { 0 };
	uint64_t held = 0;

	if (tree->buffered)
		all = inodes_get(tree, has_held);
	for (size_t i = 0; i < all.count; i++) {
		struct inode *in = inode_known(tree, quota_dir(all.inode[i])), *at = in;

		while (at && at->ino != dir)
			at = at->parent;
		held += at ? all.inode[i]->held : 0;
		inode_forget(tree, in, 1);
	}
	inodes_forget(tree, &all);
	return held;
}

int quota_count(struct tree *tree, struct view *view, uint64_t dir, uint64_t *ret_bytes)
{
	struct counting counting = { .tree = tree, .view = view, .home = dir, .dir = dir };
	int r = count_dir(&counting);

	while (r == 0 && counting.dir_count) {
		counting.dir = counting.dirs[--counting.dir_count];
		r = count_dir(&counting);
	}
	if (r == 0 && tree->quota.left)
		count_left(&counting);
	free(counting.dirs);
	free(counting.lists);
	*ret_bytes = counting.bytes;
	return r;
}
