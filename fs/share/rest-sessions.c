/* SPDX-License-Identifier: MIT */

/*
 * Directories for the sessions that were there before the store.
 *
 *   Where the store can name its sessions by themselves (backend_session_names()), these are made
 *   before the walk over all keys (rest.c), many in one commit.  So the root is complete long
 *   before each file is there, and whoever lists it does not wait for the walk.  A session whose
 *   name is taken is left to the walk; then who lists the root waits for that as well.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fs/base/names.h"
#include "fs/inode/waiting.h"
#include "fs/share/reconcile.h"
#include "fs/share/rest.h"
#include "backend/base/cleanup.h"

enum { TOGETHER = 2000 };

struct session_page {
	struct tree *tree;
	struct buf sessions[TOGETHER];
	size_t count;
	bool left; /* a session has no directory yet */
};

static int compare_sessions(const void *a, const void *b)
{
	return bytes_compare(buf_bytes(a), buf_bytes(b));
}

/* Each once, in their order. */
static void sort_page(struct session_page *page)
{
	size_t kept = 0;

	qsort(page->sessions, page->count, sizeof(*page->sessions), compare_sessions);
	for (size_t i = 0; i < page->count; i++) {
		if (kept && compare_sessions(&page->sessions[kept - 1], &page->sessions[i]) == 0)
			buf_done(&page->sessions[i]);
		else
			page->sessions[kept++] = page->sessions[i];
	}
	page->count = kept;
}

/* 0: it has no directory, and nothing has its name; 1: nothing is to be made. */
static int look_at(struct reconciling *reconciling, struct session_page *page, struct bytes session,
		   struct bytes name)
{
	struct view *view = &reconciling->view;
	const struct bytes none = { 0 };
	struct backend_node node;
	uint64_t id;
	int r = ASK(view, node_find, session, none, &node);

	if (r == -ENOENT) {
		r = ASK(view, entry_find, BACKEND_ROOT, name, &id, &node);
		page->left |= r == 0;
	}
	if (r == 0)
		backend_node_done(&node);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

/* Put those that are not there yet into a batch.  looks: ask for each whether it is. */
static int add_page(struct reconciling *reconciling, struct session_page *page, bool looks,
		    struct batch *batch)
{
	struct tree *tree = reconciling->tree;
	int r = 0;

	for (size_t i = 0; r == 0 && i < page->count; i++) {
		const struct bytes session = buf_bytes(&page->sessions[i]);
		_cleanup_(buf_done) struct buf name = { 0 };
		struct backend_node node = { 0 };

		r = names_encode(NAMES_SESSION, session, NAME_LIMIT, &name);
		if (r == 0 && looks)
			r = look_at(reconciling, page, session, buf_bytes(&name));
		if (r == 0)
			r = adopted_node(tree, tree->root, S_IFDIR, &node);
		else if (r > 0)
			r = 0;
		if (r < 0 || !node.ino)
			continue;
		node.kind = BACKEND_SESSION;
		node.session = session;
		batch_entry_put(batch, node.parent, node.entry, batch_keep(batch, buf_bytes(&name)),
				node.ino);
		batch_node_put(batch, &node);
	}
	return r < 0 ? r : batch->error;
}

static int commit_page(struct reconciling *reconciling, struct session_page *page, bool looks)
{
	struct inode *root = reconciling->tree->root;
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node after;
	int r = add_page(reconciling, page, looks, &batch);

	if (r < 0 || !batch.count)
		return r;
	dir_changed(root, (int)(batch.count / 2), &after);
	batch_dir(&batch, &root->node, &after);
	r = reconcile_commit(reconciling, &batch);
	if (r == 0)
		dir_apply(root, &after);
	return r;
}

static int take_page(struct session_page *page)
{
	struct reconciling reconciling = { .tree = page->tree };
	int r;

	WITH_WRITE_LOCK(page->tree);
	sort_page(page);
	r = digest_feed(page->tree, &reconciling.notes);
	if (r >= 0)
		r = reconcile_begin(&reconciling);
	if (r == 0)
		r = commit_page(&reconciling, page, false);
	if (r == -EEXIST)
		r = commit_page(&reconciling, page, true);
	notes_dir(&reconciling.notes, BACKEND_ROOT);
	view_end(&reconciling.view);
	notes_queue(&reconciling.notes, page->tree);
	return r;
}

static void page_done(struct session_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		buf_done(&page->sessions[i]);
	page->count = 0;
}

static int flush_page(struct session_page *page)
{
	int r = page->count ? take_page(page) : 0;

	page_done(page);
	if (r == 0)
		taker_stepped(page->tree);
	return page->tree->stopping ? -EINTR : r;
}

static int on_session(void *arg, struct bytes session)
{
	struct session_page *page = arg;
	struct buf *kept = &page->sessions[page->count];
	int r;

	*kept = (struct buf){ 0 };
	r = buf_reserve(kept, 1);
	if (r == 0)
		r = buf_append_bytes(kept, session);
	if (r < 0)
		return r;
	return ++page->count == TOGETHER ? flush_page(page) : 0;
}

static void page_freep(struct session_page **page)
{
	if (*page)
		page_done(*page);
	free(*page);
}

int rest_sessions(struct tree *tree)
{
	_cleanup_(page_freep) struct session_page *page = calloc(1, sizeof(*page));
	const struct backend_op op = { .type = BACKEND_SETTING,
				       .name = BYTES(BACKEND_UNADOPTED),
				       .data = BYTES(BACKEND_UNADOPTED_KEYS) };
	int r;

	if (!page)
		return -ENOMEM;
	page->tree = tree;
	r = backend_session_names(tree->backend, on_session, page);
	if (r == 0)
		r = flush_page(page);
	if (r == 0 && !page->left)
		r = backend_commit(tree->backend, &op, 1, BACKEND_ANYWAY);
	if (r == 0 && !page->left)
		tree->rest.listed = true;
	return r;
}
