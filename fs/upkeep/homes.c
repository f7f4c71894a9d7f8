/* SPDX-License-Identifier: MIT */

/* Where sessions are: the directories at the root, or with a layout its directories and files of
 * sessions. */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/base/packed.h"
#include "fs/inode/inodes.h"
#include "fs/upkeep/trash-internal.h"
#include "backend/base/array.h"

enum {
	DEPTH = 64,	/* homes do not lie deeper */
	LOOP = 1 << 20, /* in a damaged store a directory may lie in itself */
};

/* ---- Of one session ---- */

struct finding {
	struct view *view;
	struct bytes session;
	struct bytes start; /* of keys */
	struct entries *homes;
};

static int add_home(struct finding *finding, struct bytes key)
{
	struct view *view = finding->view;
	struct backend_node node;
	int r = ASK(view, node_find, finding->session, key, &node);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = entries_add(finding->homes, NULL, &node);
	backend_node_done(&node);
	return r;
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	struct finding *finding = arg;

	(void)stat;
	(void)session;
	if (!bytes_starts_with(key, finding->start))
		return 1;
	return add_home(finding, key);
}

/* Whether it lies in a session's directory. */
static int is_inside(struct view *view, const struct backend_node *node)
{
	uint64_t ino = node->parent;
	bool inside = false;

	for (unsigned depth = 0; ino > BACKEND_ROOT && !inside && depth < LOOP; depth++) {
		struct backend_node dir;
		int r = ASK(view, node_get, ino, &dir);

		if (r < 0)
			return r == -ENOENT ? 0 : r;
		inside = dir.kind == BACKEND_SESSION;
		ino = dir.parent;
		backend_node_done(&dir);
	}
	return inside;
}

/* Keep only homes, each once, the first in front. */
static int sort_out(struct view *view, const struct backend_node *home, struct entries *homes)
{
	size_t left = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < homes->count; i++) {
		struct entry_copy item = homes->item[i];
		bool known = !item.node.nlink;

		for (size_t j = 0; j < left; j++)
			known |= homes->item[j].node.ino == item.node.ino;
		r = known				    ? 1 :
		    S_ISDIR(item.node.mode) || (home && !i) ? 0 :
							      is_inside(view, &item.node);
		homes->item[i] = homes->item[left];
		homes->item[left] = item;
		left += r == 0;
	}
	while (homes->count > left)
		entry_done(&homes->item[--homes->count]);
	return MIN(r, 0);
}

/* The node of a path; -ENOENT. */
static int find_path(struct view *view, struct bytes path, struct backend_node *ret_node)
{
	struct backend_node dir = { .ino = BACKEND_ROOT };
	struct bytes name;
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		struct backend_node node;
		uint64_t id;

		more = names_cut(&path, &name);
		r = ASK(view, entry_find, dir.ino, name, &id, &node);
		backend_node_done(&dir);
		if (r == 0)
			dir = node;
	}
	if (r == 0)
		*ret_node = dir;
	return r;
}

int session_packed(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		   struct bytes session, struct backend_node *ret_node)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	_cleanup_(buf_done) struct buf path = { 0 };
	int r = packed_path(layout, session, &path);

	if (r == 0)
		r = find_path(&view, buf_bytes(&path), ret_node);
	if (r == 0 && (!S_ISREG(ret_node->mode) || ret_node->kind != BACKEND_ORDINARY)) {
		backend_node_done(ret_node);
		r = -ENOENT;
	}
	return r;
}

/* The transcript that the client has packed, which is the session's as if it had rows. */
static int add_packed(struct finding *finding, uint64_t layout)
{
	struct view *view = finding->view;
	struct backend_node node, of;
	int r = session_packed(view->backend, view->snapshot, layout, finding->session, &node);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	of = node;
	of.session = finding->session;
	r = entries_add(finding->homes, NULL, &of);
	backend_node_done(&node);
	return r;
}

int homes_of(struct view *view, uint64_t layout, const struct backend_node *home,
	     struct bytes session, struct entries *homes)
{
	struct finding finding = { .view = view, .session = session, .homes = homes };
	int r = home ? entries_add(homes, NULL, home) : 0;

	if (r == 0 && (layout || !home))
		r = add_home(&finding, (struct bytes){ 0 });
	if (r == 0 && layout && layout_keys_outside(layout, session, &finding.start)) {
		r = add_home(&finding, finding.start);
		if (r == 0)
			r = backend_session_keys(view->backend, view->snapshot, session,
						 finding.start, on_key, &finding);
	}
	if (r == 0)
		r = add_packed(&finding, layout);
	return r < 0 ? r : sort_out(view, home, homes);
}

static int add_names(struct view *view, const struct backend_node *node, unsigned depth,
		     struct buf *path)
{
	struct backend_node parent;
	int r;

	if (depth > DEPTH || !node->entry)
		return -ENOENT;
	if (node->parent != BACKEND_ROOT) {
		r = ASK(view, node_get, node->parent, &parent);
		if (r < 0)
			return r;
		r = add_names(view, &parent, depth + 1, path);
		backend_node_done(&parent);
		if (r == 0)
			r = buf_append_byte(path, '/');
		if (r < 0)
			return r;
	}
	return ASK(view, entry_name, node->parent, node->entry, path);
}

int node_path(struct backend *backend, struct backend_snapshot *snapshot,
	      const struct backend_node *node, struct buf *path)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	size_t start = path->size;
	int r = add_names(&view, node, 0, path);

	if (r < 0)
		path->size = start;
	return r;
}

int home_path(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
	      struct bytes session, struct buf *path)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	_cleanup_(entries_done) struct entries homes = { 0 };
	size_t start = path->size;
	int r = homes_of(&view, layout, NULL, session, &homes);

	if (r == 0 && !homes.count)
		r = -ENOENT;
	if (r == 0)
		r = add_names(&view, &homes.item[0].node, 0, path);
	if (r < 0)
		path->size = start;
	return r;
}

/* ---- By its name ---- */

static int visit_path(struct view *view, const struct backend_node *node, session_path_fn *fn,
		      void *arg)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	int r = add_names(view, node, 0, &path);

	return r == 0 ? fn(arg, buf_bytes(&path), S_ISDIR(node->mode)) : r;
}

static int visit_key(struct view *view, struct bytes session, struct bytes name,
		     session_path_fn *fn, void *arg)
{
	struct names_split split = names_split(name);
	struct backend_node node;
	int r = ASK(view, node_find, session, name, &node);

	if (r == -ENOENT && split.stem.size < name.size)
		r = ASK(view, node_find, session, split.stem, &node);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = visit_path(view, &node, fn, arg);
	backend_node_done(&node);
	return r == -ENOENT ? 0 : r;
}

int session_paths(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		  struct bytes name, session_path_fn *fn, void *arg)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	_cleanup_(entries_done) struct entries homes = { 0 };
	int r = homes_of(&view, layout, NULL, name, &homes);

	for (size_t i = 0; r == 0 && i < homes.count; i++)
		r = visit_path(&view, &homes.item[i].node, fn, arg);
	for (size_t at = name.size; r == 0 && !homes.count && at--;)
		if (name.data[at] == '/')
			r = visit_key(&view, bytes_make(name.data, at),
				      bytes_make(name.data + at + 1, name.size - at - 1), fn, arg);
	return r;
}

/* ---- Of all sessions ---- */

/* A directory that sessions may lie below. */
struct home_dir {
	uint64_t ino;
	uint64_t after; /* entries of it that were looked at */
	struct buf path;
};

void homes_done(struct homes *homes)
{
	for (size_t i = 0; i < homes->count; i++)
		buf_done(&homes->dir[i].path);
	free(homes->dir);
	homes->dir = NULL;
	homes->count = homes->room = 0;
}

/* Takes the path over. */
static int add_dir(struct homes *homes, uint64_t ino, struct buf *path)
{
	if (ARRAY_ROOM(homes->dir, homes->count, homes->room) < 0)
		return -ENOMEM;
	homes->dir[homes->count++] = (struct home_dir){ .ino = ino, .path = *path };
	*path = (struct buf){ 0 };
	return 0;
}

struct listing {
	struct view *view;
	struct homes *homes;
	struct homes below; /* directories that were found */
	size_t dir;	    /* the one that is listed */
	size_t most;
	home_fn *fn;
	void *arg;
};

static bool may_have_sessions(const struct homes *homes, const struct buf *path)
{
	_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };
	enum layout_is is;

	return homes->layout &&
	       layout_judge(homes->layout, buf_bytes(path), true, &is, &session, &key) == 0 &&
	       is == LAYOUT_ABOVE;
}

/* Whether a file is the first home of its session; a session without rows may have no other
 * sign. */
static int is_first_home(const struct listing *listing, const struct backend_node *node)
{
	_cleanup_(entries_done) struct entries homes = { 0 };
	int r = homes_of(listing->view, listing->homes->layout, NULL, node->session, &homes);

	return r < 0 ? r : !homes.count || homes.item[0].node.ino == node->ino;
}

static int judge_packed(const struct listing *listing, struct bytes path, struct buf *session)
{
	_cleanup_(buf_done) struct buf key = { 0 };

	return packed_judge(listing->homes->layout, path, session, &key);
}

/* Whether it is a home, or homes may lie below it. */
static bool has_homes(const struct homes *homes, const struct backend_node *node)
{
	if (homes->packed)
		return S_ISDIR(node->mode) && node->kind != BACKEND_SESSION;
	return S_ISDIR(node->mode) ? node->kind == BACKEND_SESSION || homes->layout :
				     kind_is_state(node->kind);
}

static int on_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct listing *listing = arg;
	struct home_dir *dir = &listing->homes->dir[listing->dir];
	_cleanup_(buf_done) struct buf path = { 0 }, session = { 0 };
	struct backend_node of = *node;
	bool may_be_packed;
	int r;

	if (!listing->most)
		return 1;
	dir->after = entry->id;
	may_be_packed = S_ISREG(node->mode) && node->kind == BACKEND_ORDINARY &&
			bytes_ends_with(entry->name, BYTES(PACKED_SUFFIX));
	if (!may_be_packed && !has_homes(listing->homes, node))
		return 0;
	r = buf_join(&path, buf_bytes(&dir->path), bytes_str(dir->path.size ? "/" : ""),
		     entry->name);
	if (r == 0 && may_be_packed) {
		r = judge_packed(listing, buf_bytes(&path), &session);
		if (r <= 0)
			return r;
		of.session = buf_bytes(&session);
		node = &of;
		r = 0;
	}
	if (r < 0)
		return r;
	if (!S_ISDIR(node->mode)) {
		r = is_first_home(listing, node);
		if (r <= 0)
			return r;
	}
	if (node->kind == BACKEND_ORDINARY && S_ISDIR(node->mode))
		return may_have_sessions(listing->homes, &path) ?
			       add_dir(&listing->below, node->ino, &path) :
			       0;
	listing->most--;
	return listing->fn(listing->arg, buf_bytes(&path), node);
}

int homes_next(struct homes *homes, struct backend *backend, struct backend_snapshot *snapshot,
	       size_t most, home_fn *fn, void *arg)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	struct listing listing = {
		.view = &view, .homes = homes, .most = most, .fn = fn, .arg = arg
	};
	struct buf root = { 0 };
	int r = homes->begun ? 0 : add_dir(homes, BACKEND_ROOT, &root);

	homes->begun = true;
	while (r == 0 && homes->count && listing.most) {
		const struct home_dir *dir = &homes->dir[listing.dir = homes->count - 1];

		r = backend->ops->entry_list(backend, snapshot, dir->ino, dir->after, on_entry,
					     &listing);
		if (r == 0 && listing.most) {
			homes->count--;
			buf_done(&homes->dir[homes->count].path);
		}
		for (; r == 0 && listing.below.count; listing.below.count--) {
			struct home_dir *below = &listing.below.dir[listing.below.count - 1];

			r = add_dir(homes, below->ino, &below->path);
			if (r < 0)
				break;
		}
	}
	homes_done(&listing.below);
	return r < 0 ? r : homes->count > 0;
}

static int homes_list(struct homes homes, struct backend *backend,
		      struct backend_snapshot *snapshot, home_fn *fn, void *arg)
{
	int r = homes_next(&homes, backend, snapshot, SIZE_MAX, fn, arg);

	homes_done(&homes);
	return MIN(r, 0);
}

int home_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
	      home_fn *fn, void *arg)
{
	return homes_list((struct homes){ .layout = layout }, backend, snapshot, fn, arg);
}

int packed_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		home_fn *fn, void *arg)
{
	struct homes homes = { .layout = packed_layouts(layout), .packed = true };

	return homes.layout ? homes_list(homes, backend, snapshot, fn, arg) : 0;
}
