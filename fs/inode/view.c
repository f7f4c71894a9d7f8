/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "fs/inode/locks.h"
#include "src/base/log.h"

enum { CATCH_UP_MAX = 200 }; /* how often one operation is run again */

int view_begin(struct tree *tree, unsigned flags, struct view *view)
{
	int r = tree->backend->ops->snapshot_begin(tree->backend, flags, &view->snapshot);

	view->backend = r < 0 ? NULL : tree->backend;
	return r;
}

void view_end(struct view *view)
{
	if (view->backend)
		ASK(view, snapshot_end);
	view->backend = NULL;
}

int tree_catch_up(struct tree *tree, unsigned *tries)
{
	if (++*tries > CATCH_UP_MAX) {
		log_error(
			"another program changes the store without a pause; giving up one request");
		return -EBUSY;
	}
	return tree->take_in(tree);
}

bool tree_is_read_only(const struct tree *tree)
{
	return tree->options.read_only;
}

void tree_set_direct_mmap(struct tree *tree, bool can)
{
	tree->direct_mmap = can;
}
