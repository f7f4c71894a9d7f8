/* SPDX-License-Identifier: MIT */

/* Names of rows that were there before the store and have no files yet (fs/inode/waiting.h). */

#include <errno.h>

#include "fs/base/layout.h"
#include "fs/inode/waiting.h"
#include "fs/tree/place.h"
#include "fs/tree/tree.h"

/* The first key behind a place in the order of keys that will lie below a directory. */
struct seeking {
	const struct tree *tree;
	struct bytes start; /* of the ids */
	struct bytes path;  /* of the directory; NULL: the id is start itself */
	struct buf session;
	struct buf key;
	bool found;
};

/* Where a key will lie, or its session. */
static int lies_below(const struct seeking *seeking, struct bytes session, struct bytes key)
{
	static const uint32_t kinds[] = { BACKEND_LIST, BACKEND_SINGLE, BACKEND_HASH };
	const uint64_t layout = seeking->tree->layout;
	_cleanup_(buf_done) struct buf path = { 0 };
	int r = -ENOENT;

	for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(kinds); i++)
		r = layout_state(layout, session, key, kinds[i], &path);
	if (r == -ENOENT)
		r = layout_session(layout, session, &path);
	if (r < 0)
		return r;
	return path.size > seeking->path.size &&
	       bytes_starts_with(buf_bytes(&path), seeking->path) &&
	       path.data[seeking->path.size] == '/';
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	struct seeking *seeking = arg;
	int r;

	(void)stat;
	if (!seeking->path.data)
		r = 1;
	else if (bytes_starts_with(session, seeking->start))
		r = lies_below(seeking, session, key);
	else
		r = 2;
	if (r != 1)
		return r;
	seeking->found = true;
	r = buf_append_bytes(&seeking->session, session);
	if (r == 0)
		r = buf_append_bytes(&seeking->key, key);
	return r < 0 ? r : 1;
}

static int seek(struct view *view, struct seeking *seeking)
{
	const struct bytes first = BYTES("");
	struct backend_key_stat stat;
	int r;

	if (!seeking->path.data)
		return backend_session_keys(view->backend, view->snapshot, seeking->start,
					    (struct bytes){ 0 }, on_key, seeking);
	r = ASK(view, key_stat, seeking->start, first, &stat);
	if (r == 0)
		return on_key(seeking, seeking->start, first, &stat);
	return r == -ENOENT ? ASK(view, key_list, seeking->start, first, on_key, seeking) : r;
}

/* There is such a session in the rows. */
static int heed_session(struct tree *tree, struct view *view, struct bytes session)
{
	struct seeking seeking = { .tree = tree, .start = session };
	int r = seek(view, &seeking);

	buf_done(&seeking.session);
	buf_done(&seeking.key);
	if (r < 0 || !seeking.found)
		return MIN(r, 0);
	return rest_want(tree, session, (struct bytes){ 0 });
}

/* One of the sessions that will lie below a directory has it made; it may have been moved. */
static int heed_below(struct tree *tree, struct view *view, struct seeking *seeking)
{
	const struct bytes none = { 0 };
	struct backend_node node;
	int r = seek(view, seeking);

	if (r < 0 || !seeking->found)
		return MIN(r, 0);
	r = ASK(view, node_find, buf_bytes(&seeking->session), none, &node);
	if (r == -ENOENT)
		r = ASK(view, node_find, buf_bytes(&seeking->session), buf_bytes(&seeking->key),
			&node);
	if (r == 0)
		backend_node_done(&node);
	return r == -ENOENT ? rest_want(tree, buf_bytes(&seeking->session), none) : r;
}

static int heed_above(struct tree *tree, struct view *view, struct inode *dir, struct bytes name)
{
	_cleanup_(buf_done) struct buf path = { 0 }, start = { 0 };
	int r = inode_path(dir, name, &path);

	for (size_t i = 0; r == 0; i++) {
		struct seeking seeking = { .tree = tree };
		int above = layout_above(tree->layout, buf_bytes(&path), i, &start);

		if (above < 0)
			return above == -ENOENT ? 0 : above;
		if (!above)
			continue;
		seeking.path = buf_bytes(&path);
		seeking.start = buf_bytes(&start);
		r = heed_below(tree, view, &seeking);
		buf_done(&seeking.session);
		buf_done(&seeking.key);
	}
	return r;
}

int rest_heed_session(struct tree *tree, struct inode *dir)
{
	const struct inode *session = tree->rest.any ? inode_session(dir) : NULL;

	return session && !session->whole ?
		       rest_want(tree, session->node.session, (struct bytes){ 0 }) :
		       0;
}

int rest_heed(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	      const struct place *place)
{
	if (!tree->rest.any)
		return 0;
	if (inode_session(dir))
		return rest_heed_session(tree, dir);
	if (place->kind == BACKEND_SESSION)
		return heed_session(tree, view, buf_bytes(&place->session));
	if (kind_is_state(place->kind)) {
		const struct bytes session = buf_bytes(&place->session),
				   key = buf_bytes(&place->key);
		struct backend_key_stat stat;
		int r = ASK(view, key_stat, session, key, &stat);

		return r == -ENOENT ? 0 : r < 0 ? r : rest_want(tree, session, key);
	}
	return tree->layout ? heed_above(tree, view, dir, name) : 0;
}

bool rest_may_come(struct tree *tree, struct inode *dir)
{
	_cleanup_(buf_done) struct buf path = { 0 }, start = { 0 };
	int r = 0;

	if (!tree->rest.any || dir->window || dir == tree->root)
		return tree->rest.any && !tree->rest.listed && dir == tree->root;
	if (!tree->layout)
		return false;
	WITH_READ_LOCK(tree);
	if (dir->gone || !dir->parent || inode_session(dir) ||
	    inode_path(dir->parent, bytes_str(dir->name), &path) < 0)
		return false;
	for (size_t i = 0; r == 0; i++)
		r = layout_above(tree->layout, buf_bytes(&path), i, &start);
	return r > 0;
}
