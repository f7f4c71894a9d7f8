/* SPDX-License-Identifier: MIT */

/* Files for keys that other programs have added, and the directories on the way. */

#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/share/reconcile.h"
#include "fs/share/rest.h"
#include "fs/tree/tree.h"

#include <errno.h>

struct adopting {
	struct reconciling *reconciling;
	const struct changed_key *key;
	const struct backend_key_stat *stat;
	const struct backend_node *like; /* whose owner and mode the file gets, or NULL: the root */
	uint32_t kind;
	struct inode *dir; /* counted */
	bool taken;	   /* a name on the way is used otherwise */
	bool missing;	   /* the store is known not to have the name that is looked for */
};

int adopted_node(struct tree *tree, const struct inode *dir, mode_t mode,
		 struct backend_node *ret_node)
{
	const struct backend_node *root = &tree->root->node;

	return number_node(tree, dir->node.ino, mode | (root->mode & (S_ISDIR(mode) ? 0777 : 0666)),
			   root->uid, root->gid, ret_node);
}

static int adopt_node(struct adopting *adopting, mode_t mode, struct backend_node *node)
{
	int r = adopted_node(adopting->reconciling->tree, adopting->dir, mode, node);

	if (!S_ISDIR(mode) && adopting->like) {
		node->mode = mode | (adopting->like->mode & 0777);
		node->uid = adopting->like->uid;
		node->gid = adopting->like->gid;
	}
	if (!S_ISDIR(mode) && adopting->stat->updated)
		node->atime = node->mtime = adopting->stat->updated;
	if (!S_ISDIR(mode) && adopting->stat->created)
		node->btime = adopting->stat->created;
	return r;
}

/* Put a new node under a name; a directory becomes the place to go on from. */
static int adopt_enter(struct adopting *adopting, struct backend_node *node, struct bytes name,
		       bool last)
{
	struct reconciling *reconciling = adopting->reconciling;
	struct gathered *gathered = &reconciling->gathered;
	struct batch *batch = &gathered->batch;
	struct adopted *adopted;
	int r;

	if (gathered->count == ADOPT_TOGETHER) {
		r = gather_settle(reconciling);
		if (r < 0)
			return r;
	}
	adopted = &gathered->names[gathered->count];
	*adopted = (struct adopted){ .name = batch_keep(batch, name), .old = adopting->key->rest };
	if (node->kind) {
		node->session = batch_keep(batch, node->session);
		if (node->key.data)
			node->key = batch_keep(batch, node->key);
	}
	if (batch->error)
		return batch->error;
	if (!last) {
		r = inode_create(reconciling->tree, node, adopting->dir, name, &adopted->made);
		if (r < 0)
			return r;
	}
	adopted->dir = adopting->dir;
	gathered->count++;
	gather_dir(reconciling, adopted->dir, S_ISDIR(node->mode), false);
	batch_entry_put(batch, node->parent, node->entry, adopted->name, node->ino);
	notes_entry(&reconciling->notes, node->parent, name);
	batch_node_put(batch, node);
	adopted->node = *node;
	adopted->items =
		node->kind == BACKEND_LIST ? MIN(adopting->stat->last, INT64_MAX - 1) + 1 : -1;
	if (last)
		reconcile_done(adopting->key, batch);
	adopting->dir = inode_ref(reconciling->tree, last ? adopted->dir : adopted->made);
	return 0;
}

/* Whether the store has nothing in a directory, nor the directory. */
static bool is_new(const struct gathered *gathered, const struct inode *dir)
{
	for (size_t i = 0; i < gathered->count; i++)
		if (gathered->names[i].made == dir)
			return true;
	return false;
}

/* Look a name up, also among those that were gathered; *ret_there is NULL if that is a file. */
static int adopt_look(struct adopting *adopting, struct bytes name, struct inode **ret_there)
{
	struct reconciling *reconciling = adopting->reconciling;
	const struct gathered *gathered = &reconciling->gathered;
	uint64_t id;
	int r;

	*ret_there = NULL;
	r = adopting->missing || is_new(gathered, adopting->dir) ?
		    -ENOENT :
		    entry_open(reconciling->tree, &reconciling->view, adopting->dir, name, &id,
			       ret_there);
	for (size_t i = 0; r == -ENOENT && i < gathered->count; i++) {
		const struct adopted *adopted = &gathered->names[i];

		if (adopted->dir != adopting->dir || !bytes_equal(adopted->name, name))
			continue;
		if (adopted->made)
			*ret_there = inode_ref(reconciling->tree, adopted->made);
		r = 0;
	}
	return r;
}

/* Go on from there. */
static void adopt_go(struct adopting *adopting, struct inode *there)
{
	inode_forget(adopting->reconciling->tree, adopting->dir, 1);
	adopting->dir = there;
}

/* One name on the way to the file, or the file itself. */
static int adopt_name(struct adopting *adopting, struct bytes name, bool last)
{
	struct reconciling *reconciling = adopting->reconciling;
	struct backend_node node;
	struct inode *there;
	int r;

	r = adopt_look(adopting, name, &there);
	if (r == 0 && (last || !there || !inode_is_dir(there))) {
		inode_forget(reconciling->tree, there, 1);
		adopting->taken = true;
		return -EEXIST;
	}
	if (r == 0) {
		adopt_go(adopting, there);
		return 0;
	}
	if (r != -ENOENT)
		return r;
	r = adopt_node(adopting, last ? S_IFREG : S_IFDIR, &node);
	if (r < 0)
		return r;
	if (last) {
		node.kind = adopting->kind;
		node.flags = BACKEND_ADOPTED;
		node.session = key_session(adopting->key);
		node.key = key_key(adopting->key);
	}
	return adopt_enter(adopting, &node, name, last);
}

/* A name, or with attempt > 0 another one, which has room for a suffix as well. */
static int number_name(struct bytes name, unsigned attempt, struct bytes suffix, struct buf *buf)
{
	size_t limit = NAME_LIMIT - suffix.size - (attempt ? 8 : 0);
	int r;

	buf_clear(buf);
	r = buf_append(buf, name.data, MIN(name.size, limit));
	if (r == 0 && attempt)
		r = buf_printf(buf, "%%~%u", attempt);
	return r < 0 ? r : buf_append_bytes(buf, suffix);
}

/* A directory whose name a file has already gets a number, like a file whose name is taken. */
static int adopt_component(void *arg, struct bytes name, bool last)
{
	struct adopting *adopting = arg;
	_cleanup_(buf_done) struct buf numbered = { 0 };
	int r = adopt_name(adopting, name, last);

	for (unsigned attempt = 1; r == -EEXIST && !last && attempt < PATH_ATTEMPTS; attempt++) {
		adopting->taken = false;
		r = number_name(name, attempt, bytes_make("", 0), &numbered);
		if (r == 0)
			r = adopt_name(adopting, buf_bytes(&numbered), false);
	}
	return r;
}

/* The directory of the session, if it was gathered. */
static struct inode *adopted_session(const struct gathered *gathered, struct bytes session)
{
	for (size_t i = gathered->count; i; i--) {
		struct inode *made = gathered->names[i - 1].made;

		if (made && made->node.kind == BACKEND_SESSION &&
		    bytes_equal(made->node.session, session))
			return made;
	}
	return NULL;
}

/* The directory of the session, if there is one: counted. */
static int find_session(struct adopting *adopting, struct inode **ret_dir)
{
	struct reconciling *reconciling = adopting->reconciling;
	struct view *view = &reconciling->view;
	struct bytes session = key_session(adopting->key), none = { 0 };
	struct inode *dir = adopted_session(&reconciling->gathered, session);
	struct backend_node node;
	int r;

	if (dir) {
		*ret_dir = inode_ref(reconciling->tree, dir);
		return 0;
	}
	if (key_holds(reconciling, adopting->key) && adopting->key->no_session)
		return -ENOENT;
	if (key_holds(reconciling, adopting->key) && adopting->key->dir)
		return inode_get_dir(reconciling->tree, view, adopting->key->dir, ret_dir);
	r = ASK(view, node_find, session, none, &node);
	return r < 0 ? r : inode_of_node(reconciling->tree, view, &node, ret_dir);
}

/* Go along a path, but for its last name, which *ret_name is. */
static int adopt_way(struct adopting *adopting, struct bytes path, struct bytes *ret_name)
{
	int r = 0;

	while (r == 0 && names_cut(&path, ret_name))
		r = adopt_component(adopting, *ret_name, false);
	return r;
}

/* The name of a session's directory at the root. */
static int session_name(struct bytes session, unsigned attempt, struct buf *name)
{
	int r;

	buf_clear(name);
	r = names_encode(NAMES_SESSION, session, attempt ? NAME_LIMIT - 8 : NAME_LIMIT, name);
	return r < 0 || !attempt ? r : buf_printf(name, "%%~%u", attempt);
}

/* The session's directory, made if need be; adopting.dir is the root before. */
static int adopt_session(struct adopting *adopting)
{
	const uint64_t layout = adopting->reconciling->tree->layout;
	struct bytes session = key_session(adopting->key), wanted = session;
	_cleanup_(buf_done) struct buf path = { 0 }, name = { 0 };
	struct backend_node node;
	struct inode *there;
	int r = find_session(adopting, &there);

	if (r == 0)
		adopt_go(adopting, there);
	if (r != -ENOENT)
		return r;
	r = layout ? layout_session(layout, session, &path) : 0;
	if (r == 0 && layout)
		r = adopt_way(adopting, buf_bytes(&path), &wanted);
	if (r < 0)
		return r;
	for (unsigned attempt = 0; attempt < PATH_ATTEMPTS; attempt++) {
		r = layout ? number_name(wanted, attempt, bytes_make("", 0), &name) :
			     session_name(session, attempt, &name);
		if (r < 0)
			return r;
		adopting->missing = !attempt && adopting->key->no_session &&
				    key_holds(adopting->reconciling, adopting->key);
		r = adopt_look(adopting, buf_bytes(&name), &there);
		adopting->missing = false;
		if (r < 0)
			break;
		inode_forget(adopting->reconciling->tree, there, 1);
	}
	if (r != -ENOENT)
		return r < 0 ? r : -EEXIST;
	r = adopt_node(adopting, S_IFDIR, &node);
	if (r < 0)
		return r;
	node.kind = BACKEND_SESSION;
	node.session = session;
	return adopt_enter(adopting, &node, buf_bytes(&name), false);
}

/* A state in its session's directory. */
static int adopt_inside(struct adopting *adopting, unsigned attempt)
{
	int r = adopt_session(adopting);

	if (r < 0)
		return r;
	adopting->missing = !attempt && adopting->key->no_name &&
			    key_holds(adopting->reconciling, adopting->key);
	r = names_path(key_key(adopting->key), adopting->kind, attempt, adopt_component, adopting);
	adopting->missing = false;
	return r;
}

/* A state that has a path of its own by the layout; -ENOENT: it lies in its session's directory. */
static int adopt_outside(struct adopting *adopting, unsigned attempt)
{
	_cleanup_(buf_done) struct buf path = { 0 }, numbered = { 0 };
	const uint64_t layout = adopting->reconciling->tree->layout;
	struct bytes name, suffix;
	int r = -ENOENT;

	if (layout)
		r = layout_state(layout, key_session(adopting->key), key_key(adopting->key),
				 adopting->kind, &path);
	/* One row may be that of a list, and the layout knows it. */
	if (r == -ENOENT && layout && adopting->kind == BACKEND_SINGLE) {
		r = layout_state(layout, key_session(adopting->key), key_key(adopting->key),
				 BACKEND_LIST, &path);
		if (r == 0)
			adopting->kind = BACKEND_LIST;
	}
	if (r == 0)
		r = adopt_way(adopting, buf_bytes(&path), &name);
	if (r < 0)
		return r;
	suffix = names_suffix(adopting->kind);
	name.size -= suffix.size;
	r = number_name(name, attempt, suffix, &numbered);
	return r < 0 ? r : adopt_component(adopting, buf_bytes(&numbered), true);
}

int adopt_key(struct reconciling *reconciling, const struct changed_key *key, uint32_t kind,
	      const struct backend_key_stat *stat, const struct backend_node *like)
{
	struct adopting adopting = {
		.reconciling = reconciling, .key = key, .stat = stat, .like = like, .kind = kind
	};
	int r = -EEXIST;

	for (unsigned attempt = 0; r == -EEXIST && attempt < PATH_ATTEMPTS; attempt++) {
		adopting.taken = false;
		adopting.dir = inode_ref(reconciling->tree, reconciling->tree->root);
		r = adopt_outside(&adopting, attempt);
		if (r == -ENOENT)
			r = adopt_inside(&adopting, attempt);
		inode_forget(reconciling->tree, adopting.dir, 1);
		if (r == -EEXIST && !adopting.taken)
			break;
	}
	return r;
}
