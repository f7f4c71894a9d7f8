/* SPDX-License-Identifier: MIT */

/*
 * A fork: a new session with the rows that another one has, or had, in one transaction.
 *
 *   Its homes (fs/api/trash.h) are called as those of the old one, with the new id in the place of
 *   the old; what lies below them is there again, with numbers of its own.  Rows are copied by the
 *   store, and keep their times; attributes and the bytes of ordinary files are of now.  What is
 *   not JSON comes along if all of now does.
 */

#include "fs/api/history.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "fs/base/entries.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/inode/commit.h"
#include "fs/inode/generation.h"
#include "fs/inode/quota.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/trash-internal.h"
#include "backend/base/array.h"

enum { HOMES = 16, BYTES_MOST = 256 << 20 };

struct fork_home {
	struct inode *parent; /* counted */
	struct buf name;
};

/* A directory above a home that is not there: it gets the mode and owner of the old one. */
struct fork_missing {
	struct buf path;    /* of the home */
	struct inode *like; /* counted */
};

struct forking {
	struct tree *tree;
	const struct history_fork *fork;
	struct view view;
	struct batch batch;
	struct fork_home home[HOMES];
	size_t count;
	struct entries family[HOMES]; /* below each */
	struct backend_node placed[HOMES];
	struct bytes session; /* the id of the new one, once it is known */
	uint64_t ino;	      /* of a file whose bytes are copied */
	bool is_short;	      /* it is one chunk */
	uint64_t bytes;	      /* of all of these */
	uint64_t rows;
	int64_t now;
};

static void forking_done(struct forking *forking)
{
	view_end(&forking->view);
	batch_done(&forking->batch);
	for (size_t i = 0; i < forking->count; i++) {
		if (forking->home[i].parent)
			inode_forget(forking->tree, forking->home[i].parent, 1);
		buf_done(&forking->home[i].name);
		entries_done(&forking->family[i]);
		backend_node_done(&forking->placed[i]);
	}
}

/* The part of an id that is in the path of its home, too: with a layout, the last one. */
static struct bytes part_of(const struct tree *tree, struct bytes id)
{
	for (size_t at = tree->layout ? id.size : 0; at--;)
		if (id.data[at] == ':' || id.data[at] == '/')
			return bytes_make(id.data + at + 1, id.size - at - 1);
	return id;
}

/* Append the text, with another one in the places where an old one stands, but in so many at the
 * most.  How many there were, or -errno. */
static int replace(struct bytes text, struct bytes old, struct bytes new, int most, struct buf *buf)
{
	const char *at;
	int count = 0, r = 0;

	while (r == 0 && old.size && count < most &&
	       (at = memmem(text.data, text.size, old.data, old.size))) {
		r = buf_join(buf, bytes_make(text.data, (size_t)(at - text.data)), new);
		at += old.size;
		text = bytes_make(at, (size_t)(text.data + text.size - at));
		count++;
	}
	if (r == 0)
		r = buf_append_bytes(buf, text);
	return r < 0 ? r : count;
}

/* The name, with the new id where the old one stands.  -EINVAL: it does not. */
static int rename_home(const struct tree *tree, const struct history_fork *fork, struct bytes name,
		       struct buf *ret_name)
{
	_cleanup_(buf_done) struct buf old = { 0 }, new = { 0 };
	const struct bytes to = part_of(tree, fork->to);
	const bool own = to.size == fork->part_to.size;
	int r = names_encode(NAMES_SESSION, own ? fork->part : part_of(tree, fork->session),
			     NAME_LIMIT, &old);

	if (r == 0)
		r = names_encode(NAMES_SESSION, to, NAME_LIMIT, &new);
	if (r == 0)
		r = replace(name, buf_bytes(&old), buf_bytes(&new), 1, ret_name);
	return r < 0 ? r : r ? 0 : -EINVAL;
}

/* A copy with the new id, if that is wanted, which lives as long as the batch. */
static int keep_replaced(struct forking *forking, struct bytes text, struct bytes *ret_text)
{
	const struct history_fork *fork = forking->fork;
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = replace(text, fork->part, fork->part_to, fork->rewrites ? INT_MAX : 0, &buf);

	*ret_text = batch_keep(&forking->batch, buf_bytes(&buf));
	return r < 0 ? r : forking->batch.error;
}

static int keep_chunk(void *arg, int64_t chunk, struct bytes data)
{
	struct forking *forking = arg;
	/* Only what is short text can be rewritten without harm, and in its place. */
	const bool is_text = forking->is_short && !memchr(data.data, '\0', data.size) &&
			     forking->fork->part.size == forking->fork->part_to.size;
	struct bytes kept;
	int r = 0;

	forking->bytes += data.size;
	if (forking->bytes > BYTES_MOST)
		return -EFBIG;
	if (is_text)
		r = keep_replaced(forking, data, &kept);
	else
		kept = batch_keep(&forking->batch, data);
	if (r == 0)
		batch_chunk_put(&forking->batch, forking->ino, chunk, kept);
	return r < 0 ? r : forking->batch.error;
}

/* 1, 0 or -errno. */
static int is_wanted(struct forking *forking, const struct backend_node *node)
{
	const struct history_fork *fork = forking->fork;
	const struct backend_past_key key = { 0, node->session, node->key };
	struct view *view = &forking->view;
	bool any = node->btime <= fork->time || S_ISDIR(node->mode);
	int r = 0;

	if (fork->key.data && node->key.data && !bytes_equal(fork->key, node->key))
		return 0;
	if (kind_is_state(node->kind))
		r = as_of_any(view->backend, view->snapshot, &key, fork->time, any, &any);
	return r < 0 ? r : any;
}

static int keep_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	struct forking *forking = arg;

	batch_piece_put(&forking->batch, forking->ino, index, seq,
			batch_keep(&forking->batch, data));
	return forking->batch.error;
}

static int copy_attributes(struct forking *forking, uint64_t from, uint64_t to)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	struct view *view = &forking->view;
	int r = view_xattr_names(view, from, &names);

	for (size_t at = 0; r == 0 && at < names.size;) {
		const struct bytes name = bytes_str(names.data + at);
		_cleanup_(buf_done) struct buf value = { 0 };

		r = ASK(view, xattr_get, from, name, &value);
		if (r == 0)
			batch_xattr_put(&forking->batch, to, batch_keep(&forking->batch, name),
					batch_keep(&forking->batch, buf_bytes(&value)));
		at += name.size + 1;
	}
	return r;
}

/* Of now, with all items: then what is not JSON comes along, too. */
static bool is_whole(const struct history_fork *fork)
{
	return fork->time == INT64_MAX && fork->first == INT64_MIN && fork->last == INT64_MAX;
}

/* The content of a file as that of its copy. */
static int copy_content(struct forking *forking, const struct backend_node *from,
			const struct backend_node *to)
{
	const struct history_fork *fork = forking->fork;
	struct view *view = &forking->view;
	uint64_t rows = 0;
	int r = 0;

	forking->ino = to->ino;
	forking->is_short = from->size <= BACKEND_CHUNK;
	if (!kind_is_state(from->kind) || to->flags & BACKEND_DRAFT)
		r = ASK(view, chunk_read, from->ino, 0, INT64_MAX, keep_chunk, forking);
	if (r == 0 && is_whole(fork))
		r = ASK(view, piece_read, from->ino, INT64_MIN, 0, keep_piece, forking);
	if (r < 0 || !kind_is_state(from->kind))
		return r;
	batch_guard_rows(&forking->batch, from->session, from->key);
	r = history_copy(view->backend, view->snapshot, fork, from, to, &forking->batch, &rows);
	forking->rows += rows;
	return r;
}

/* Put a copy of a file or directory under a name. */
static int copy_node(struct forking *forking, const struct backend_node *from,
		     struct backend_node *to, struct bytes name)
{
	int r = number_ino(forking->tree, &to->ino);

	if (r == 0)
		r = number_entry(forking->tree, &to->entry);
	if (r < 0)
		return r;
	to->nlink = S_ISDIR(to->mode) ? to->nlink : 1;
	to->flags &= is_whole(forking->fork) ? BACKEND_SPARSE | BACKEND_DRAFT | BACKEND_NO_NEWLINE :
					       BACKEND_SPARSE;
	to->generation = 0;
	to->size = kind_is_state(to->kind) && !(to->flags & BACKEND_DRAFT) ? 0 : from->size;
	to->ctime = to->btime = forking->now;
	batch_node_put(&forking->batch, to);
	batch_entry_put(&forking->batch, to->parent, to->entry, batch_keep(&forking->batch, name),
			to->ino);
	r = copy_attributes(forking, from->ino, to->ino);
	return r == 0 && S_ISREG(to->mode) ? copy_content(forking, from, to) : r;
}

/* What lies below a home, parents first.  The numbers of directories of old and new stand beside
 * each other. */
static int copy_below(struct forking *forking, uint64_t dir, const struct backend_node *home)
{
	struct entries *family = &forking->family[forking->count - 1];
	_cleanup_(freep) uint64_t *ino = NULL;
	int r = family_find(&forking->view, dir, family);

	if (r < 0 || !family->count)
		return r;
	ino = calloc(family->count, sizeof(*ino));
	if (!ino)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < family->count; i++) {
		const struct entry_copy *member = &family->item[i];
		struct backend_node to = member->node;
		struct bytes name;

		r = is_wanted(forking, &member->node);
		if (r <= 0)
			continue;
		to.parent = member->parent == dir ? home->ino : 0;
		for (size_t j = 0; j < i; j++)
			if (family->item[j].node.ino == member->parent)
				to.parent = ino[j];
		if (to.key.data) {
			to.session = forking->session;
			r = keep_replaced(forking, to.key, &to.key);
		}
		if (r >= 0)
			r = keep_replaced(forking, entry_name(member), &name);
		if (r >= 0)
			r = copy_node(forking, &member->node, &to, name);
		ino[i] = to.ino;
	}
	return MIN(r, 0);
}

/* Whether one name of two paths is another one, at the most. */
static bool is_alike(struct bytes a, struct bytes b)
{
	unsigned others = 0;
	bool more = true;

	while (more) {
		struct bytes name_a, name_b;

		more = names_cut(&a, &name_a);
		if (names_cut(&b, &name_b) != more)
			return false;
		others += !bytes_equal(name_a, name_b);
	}
	return others <= 1;
}

/* The path of a directory of the new session: the one that the layout gives to its id. */
static int path_anew(const struct tree *tree, const struct history_fork *fork, struct buf *ret_path)
{
	const struct bytes to = part_of(tree, fork->to), old = part_of(tree, fork->session);
	_cleanup_(buf_done) struct buf id = { 0 }, from = { 0 };
	int r = buf_join(&id, bytes_make(fork->session.data, fork->session.size - old.size), to);

	if (r == 0)
		r = layout_session(tree->layout, buf_bytes(&id), ret_path);
	if (r == 0)
		r = layout_session(tree->layout, fork->session, &from);
	/* An id that its client would not have has its place by another pattern. */
	if (r == 0 && !is_alike(buf_bytes(&from), buf_bytes(ret_path)))
		r = -EINVAL;
	return r;
}

/* Where the copy of a home comes.  -ENOTDIR: the directory of *missing is to be made first. */
static int find_new_home(struct forking *forking, const struct backend_node *node,
			 struct fork_missing *missing)
{
	struct fork_home *home = &forking->home[forking->count];
	_cleanup_(buf_done) struct buf name = { 0 }, path = { 0 };
	const struct history_fork *fork = forking->fork;
	struct tree *tree = forking->tree;
	struct view *view = &forking->view;
	struct inode *parent;
	struct bytes base;
	int r = inode_get_dir(tree, view, node->parent, &parent);

	if (r < 0)
		return r;
	home->parent = parent;
	forking->count++;
	if (!tree->layout || !S_ISDIR(node->mode)) {
		r = ASK(view, entry_name, node->parent, node->entry, &name);
		return r < 0 ? r : rename_home(tree, fork, buf_bytes(&name), &home->name);
	}
	r = path_anew(tree, fork, &path);
	if (r == 0)
		r = path_parent(tree, view, buf_bytes(&path), &home->parent, &base);
	if (r == 0) {
		inode_forget(tree, parent, 1);
		return buf_append_bytes(&home->name, base);
	}
	if (r != -ENOENT)
		return r;
	r = buf_append_bytes(&missing->path, buf_bytes(&path));
	if (r < 0)
		return r;
	missing->like = inode_ref(tree, parent);
	return -ENOTDIR;
}

static int copy_home(struct forking *forking, const struct backend_node *node,
		     struct fork_missing *missing)
{
	struct fork_home *home = &forking->home[forking->count];
	struct backend_node to, *placed = &forking->placed[forking->count];
	struct view *view = &forking->view;
	struct inode *there;
	uint64_t id;
	int r = find_new_home(forking, node, missing);

	if (r == 0)
		r = is_wanted(forking, node);
	if (r <= 0)
		return r;
	r = entry_open(forking->tree, view, home->parent, buf_bytes(&home->name), &id, &there);
	if (r == 0)
		inode_forget(forking->tree, there, 1);
	if (r != -ENOENT)
		return r < 0 ? r : -EEXIST;
	r = node_placed(forking->tree, view, home->parent, buf_bytes(&home->name), node, placed);
	if (r < 0)
		return r;
	if (placed->kind != node->kind)
		return -EINVAL;
	to = *placed;
	to.parent = home->parent->ino;
	forking->session = to.session;
	r = copy_node(forking, node, &to, buf_bytes(&home->name));
	return r == 0 && S_ISDIR(node->mode) ? copy_below(forking, node->ino, &to) : r;
}

static int fork_once(struct tree *tree, const struct history_fork *fork,
		     struct fork_missing *missing, struct notes *notes, uint64_t *ret_rows)
{
	_cleanup_(forking_done) struct forking forking = { .tree = tree,
							   .fork = fork,
							   .now = time_now() };
	_cleanup_(entries_done) struct entries homes = { 0 };
	_cleanup_(changed_dirs_done) struct changed_dirs parents = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = ghosts_end(tree, true, NULL);

	if (r == 0)
		r = view_begin(tree, 0, &forking.view);
	if (r == 0)
		r = homes_of(&forking.view, tree->layout, NULL, fork->session, &homes);
	if (r == 0 && (!homes.count || homes.count > HOMES - 1))
		r = homes.count ? -E2BIG : -ENOENT;
	for (size_t i = 0; r == 0 && i < homes.count; i++)
		r = copy_home(&forking, &homes.item[i].node, missing);
	view_end(&forking.view);
	for (size_t i = 0; r == 0 && i < forking.count; i++)
		r = changed_dirs_add(&parents, forking.home[i].parent,
				     S_ISDIR(homes.item[i].node.mode));
	changed_dirs_emit(&parents, &forking.batch);
	if (r == 0)
		r = tree_commit(tree, &forking.batch, 0);
	if (r < 0)
		return r;
	quota_void(tree);
	changed_dirs_apply(&parents);
	for (size_t i = 0; i < forking.count; i++) {
		const struct fork_home *home = &forking.home[i];

		notes_entry(notes, home->parent->ino, buf_bytes(&home->name));
		notes_dir(notes, home->parent->ino);
	}
	*ret_rows = forking.rows;
	return 0;
}

static int make_missing(struct tree *tree, struct fork_missing *missing)
{
	struct inode *dir;
	struct bytes name;
	int r = tree_make_above(tree, buf_bytes(&missing->path), missing->like, &dir, &name);

	if (r == 0)
		inode_forget(tree, dir, 1);
	inode_forget(tree, missing->like, 1);
	buf_done(&missing->path);
	*missing = (struct fork_missing){ 0 };
	return r;
}

int tree_fork(struct tree *tree, const struct history_fork *fork, uint64_t *ret_rows)
{
	const size_t own = layout_own_id(tree->layout, fork->session);
	struct history_fork parts = *fork;
	struct fork_missing missing = { 0 };
	struct notes notes = { 0 };
	int r;

	parts.part = part_of(tree, fork->session);
	parts.part_to = part_of(tree, fork->to);
	if (own && own < parts.part.size) {
		if (own > parts.part_to.size)
			return -EINVAL;
		parts.part = bytes_make(parts.part.data + parts.part.size - own, own);
		parts.part_to = bytes_make(parts.part_to.data + parts.part_to.size - own, own);
	}
	if (tree->options.read_only)
		return -EROFS;
	if (!tree->backend->ops->history)
		return -EOPNOTSUPP;
	do {
		r = missing.like ? make_missing(tree, &missing) : 0;
		if (r == 0)
			r = TREE_RETRY(tree, fork_once(tree, &parts, &missing, &notes, ret_rows));
	} while (missing.like);
	notes_send(&notes, tree, NOTIFY_LATER);
	return r;
}

/* "fork REWRITES TIME FIRST LAST SIZE SIZE ", then session, new session and key; a key of no
 * bytes is none. */
int order_fork(struct buf *order, const struct history_fork *fork)
{
	int r = buf_printf(order, "fork %d %lld %lld %lld %zu %zu ", fork->rewrites,
			   (long long)fork->time, (long long)MAX(fork->first, 0),
			   (long long)fork->last, fork->session.size, fork->to.size);

	return r < 0 ? r : buf_join(order, fork->session, fork->to, fork->key);
}

int fork_order(struct tree *tree, struct bytes order)
{
	int64_t number[6];
	struct history_fork fork;
	uint64_t rows;

	for (size_t i = 0; i < ARRAY_SIZE(number); i++)
		if (!word_take(&order, &number[i]))
			return -EINVAL;
	if ((uint64_t)number[4] + (uint64_t)number[5] > order.size)
		return -EINVAL;
	fork = (struct history_fork){
		.rewrites = number[0],
		.time = number[1],
		.first = number[2],
		.last = number[3],
		.session = bytes_make(order.data, (size_t)number[4]),
		.to = bytes_make(order.data + number[4], (size_t)number[5]),
	};
	if (order.size > fork.session.size + fork.to.size)
		fork.key = bytes_make(order.data + number[4] + number[5],
				      order.size - fork.session.size - fork.to.size);
	if (!fork.first)
		fork.first = INT64_MIN;
	return tree_fork(tree, &fork, &rows);
}
