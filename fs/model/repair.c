/* SPDX-License-Identifier: MIT */
#include "fs/model/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/model/batch.h"
#include "fs/model/internal.h"
#include "fs/model/invalid.h"
#include "fs/model/names.h"
#include "src/base/json.h"

enum { PART = 512, OPS_AT_ONCE = 1024, ATTEMPTS = 1000 };

/* What is known of a node's names. */
struct seen {
	uint64_t ino;
	uint64_t parent; /* where the last name is */
	uint64_t entry;
	uint32_t names;
	uint32_t directories; /* in it */
	bool at_home;	      /* one of the names is where the node says */
};

/* A directory that is still to be walked. */
struct place_dir {
	struct place_dir *next;
	uint64_t ino;
	bool trash;	    /* it is the trash, or in it */
	struct buf session; /* no data: the root */
	struct buf dirs;    /* as names_key() wants it */
};

struct mending {
	struct backend *backend;
	backend_report_fn *report;
	void *arg;
	struct backend_repaired *repaired;
	struct view view;
	struct batch batch;
	struct seen *seen; /* by ino, a table of size slots */
	size_t seen_size;
	size_t seen_count;
	struct place_dir *todo;
	uint64_t last_ino;
	uint64_t last_entry;
};

static void tell(struct mending *mending, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void tell(struct mending *mending, const char *format, ...)
{
	char sentence[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	mending->repaired->lost++;
	mending->report(mending->arg, sentence);
}

/* The store. */

static int renew_view(struct mending *mending)
{
	int r;

	view_end(&mending->view);
	r = mending->backend->ops->snapshot_begin(mending->backend, BACKEND_ANYWAY,
						  &mending->view.snapshot);
	mending->view.backend = r < 0 ? NULL : mending->backend;
	return r;
}

static int commit(struct mending *mending)
{
	int r;

	view_end(&mending->view);
	r = batch_commit(&mending->batch, mending->backend, BACKEND_ANYWAY);
	batch_clear(&mending->batch);
	return r < 0 ? r : renew_view(mending);
}

static int commit_some(struct mending *mending)
{
	if (mending->batch.error)
		return mending->batch.error;
	return mending->batch.count >= OPS_AT_ONCE ? commit(mending) : 0;
}

/* A node lives until the batch is committed. */
static void put_node(struct mending *mending, const struct backend_node *node)
{
	struct backend_node kept = *node;

	if (node->session.data)
		kept.session = batch_keep(&mending->batch, node->session);
	if (node->key.data)
		kept.key = batch_keep(&mending->batch, node->key);
	if (node->target.data)
		kept.target = batch_keep(&mending->batch, node->target);
	batch_node_put(&mending->batch, &kept);
}

static void put_entry(struct mending *mending, uint64_t parent, uint64_t id, struct bytes name,
		      uint64_t ino)
{
	batch_entry_put(&mending->batch, parent, id, batch_keep(&mending->batch, name), ino);
}

/* The table of what was seen. */

static struct seen *seen_slot(struct mending *mending, uint64_t ino)
{
	size_t at = (ino * 0x9e3779b97f4a7c15u >> 20) & (mending->seen_size - 1);

	while (mending->seen[at].ino && mending->seen[at].ino != ino)
		at = (at + 1) & (mending->seen_size - 1);
	return &mending->seen[at];
}

static int seen_grow(struct mending *mending)
{
	struct seen *old = mending->seen;
	size_t size = mending->seen_size;

	mending->seen = calloc(size ? size * 2 : 1024, sizeof(*old));
	if (!mending->seen) {
		mending->seen = old;
		return -ENOMEM;
	}
	mending->seen_size = size ? size * 2 : 1024;
	for (size_t i = 0; i < size; i++)
		if (old[i].ino)
			*seen_slot(mending, old[i].ino) = old[i];
	free(old);
	return 0;
}

static struct seen *seen_get(struct mending *mending, uint64_t ino)
{
	struct seen *seen;

	if (mending->seen_count * 2 >= mending->seen_size && seen_grow(mending) < 0)
		return NULL;
	seen = seen_slot(mending, ino);
	if (!seen->ino) {
		*seen = (struct seen){ .ino = ino };
		mending->seen_count++;
	}
	return seen;
}

static bool was_seen(struct mending *mending, uint64_t ino)
{
	return ino == BACKEND_ROOT || ino == BACKEND_TRASH || seen_slot(mending, ino)->names > 0;
}

static int see(struct mending *mending, uint64_t parent, uint64_t entry,
	       const struct backend_node *node)
{
	struct seen *seen = seen_get(mending, node->ino);

	if (!seen)
		return -ENOMEM;
	seen->names++;
	seen->parent = parent;
	seen->entry = entry;
	seen->at_home |= node->parent == parent && node->entry == entry;
	if (!S_ISDIR(node->mode) || parent == BACKEND_TRASH)
		return 0;
	seen = seen_get(mending, parent);
	if (!seen)
		return -ENOMEM;
	seen->directories++;
	return 0;
}

/* Directories to walk. */

static void dir_free(struct place_dir *dir)
{
	if (!dir)
		return;
	buf_done(&dir->session);
	buf_done(&dir->dirs);
	free(dir);
}

static void dir_freep(struct place_dir **dir)
{
	dir_free(*dir);
}

/* name is that of the directory in above, which is not the root; session: of one at the root. */
static int walk_later(struct mending *mending, uint64_t ino, const struct place_dir *above,
		      struct bytes session, struct bytes name)
{
	struct place_dir *dir = calloc(1, sizeof(*dir));
	int r = dir ? 0 : -ENOMEM;

	if (r == 0)
		r = buf_reserve(&dir->session, 1);
	if (r == 0)
		r = buf_append_bytes(&dir->session, above ? buf_bytes(&above->session) : session);
	if (r == 0 && above)
		r = buf_append_bytes(&dir->dirs, buf_bytes(&above->dirs));
	if (r == 0 && above)
		r = names_decode(NAMES_KEY, name, &dir->dirs);
	if (r == 0 && above)
		r = buf_append_byte(&dir->dirs, '/');
	if (r < 0) {
		dir_free(dir);
		return r;
	}
	dir->ino = ino;
	dir->next = mending->todo;
	mending->todo = dir;
	return 0;
}

/* What a node is by its place. */

static int is_free(struct mending *mending, struct bytes session, struct bytes key, uint64_t except)
{
	struct backend_node node;
	int r = mending->backend->ops->node_find(mending->backend, mending->view.snapshot, session,
						 key, &node);

	if (r < 0)
		return r == -ENOENT ? 1 : r;
	r = node.ino == except;
	backend_node_done(&node);
	return r;
}

/* The key of a state file, or its own when that is another's. */
static int find_key(struct mending *mending, const struct place_dir *dir, struct bytes name,
		    uint64_t ino, struct buf *key)
{
	struct bytes dirs = buf_bytes(&dir->dirs);
	int r = names_key(dirs, name, key);

	for (unsigned attempt = 0; r == 0 && attempt < ATTEMPTS; attempt++) {
		r = buf_reserve(key, 1);
		if (r == 0)
			r = is_free(mending, buf_bytes(&dir->session), buf_bytes(key), ino);
		if (r)
			return MIN(r, 0);
		buf_clear(key);
		r = names_own_key(dirs, name, attempt, key);
	}
	return r < 0 ? r : -EEXIST;
}

static int find_session(struct mending *mending, struct bytes name, uint64_t ino,
			struct buf *session)
{
	struct bytes none = { 0 };
	int r = names_decode(NAMES_SESSION, name, session);

	for (unsigned attempt = 0; r == 0 && attempt < ATTEMPTS; attempt++) {
		r = is_free(mending, buf_bytes(session), none, ino);
		if (r)
			return MIN(r, 0);
		buf_clear(session);
		r = names_own_key(none, name, attempt, session);
	}
	return r < 0 ? r : -EEXIST;
}

static bool is_name(struct bytes name)
{
	return name.size >= 1 && name.size <= NAME_LIMIT && !memchr(name.data, '/', name.size) &&
	       !memchr(name.data, '\0', name.size) && !bytes_equal(name, BYTES(".")) &&
	       !bytes_equal(name, BYTES(".."));
}

struct found {
	uint64_t id;
	struct buf name;
	struct backend_node node;
};

static void found_done(struct found *found)
{
	buf_done(&found->name);
	backend_node_done(&found->node);
}

static int drop_entry(struct mending *mending, const struct place_dir *dir, uint64_t id)
{
	batch_entry_delete(&mending->batch, dir->ino, id);
	return 0;
}

/* A directory under a name: a session at the root, otherwise part of the keys below it. */
static int take_directory(struct mending *mending, const struct place_dir *dir,
			  const struct found *found)
{
	_cleanup_(buf_done) struct buf session = { 0 };
	struct bytes name = buf_bytes(&found->name), none = { 0 };
	struct backend_node node = found->node;
	bool at_root = dir->ino == BACKEND_ROOT;
	int r = 0;

	if (was_seen(mending, node.ino))
		return drop_entry(mending, dir, found->id);
	r = see(mending, dir->ino, found->id, &found->node);
	if (r < 0)
		return r;
	if (at_root && (node.kind != BACKEND_SESSION || !node.session.data)) {
		r = find_session(mending, name, node.ino, &session);
		node.session = buf_bytes(&session);
	} else if (!at_root) {
		node.session = none;
	}
	if (r < 0)
		return r;
	node.key = none;
	node.parent = dir->ino;
	node.entry = found->id;
	node.kind = at_root ? BACKEND_SESSION : BACKEND_ORDINARY;
	if (node.kind != found->node.kind || node.parent != found->node.parent ||
	    node.entry != found->node.entry || found->node.key.data || session.data) {
		put_node(mending, &node);
		r = commit(mending);
	}
	return r < 0 ? r : walk_later(mending, node.ino, at_root ? NULL : dir, node.session, name);
}

/* The kind of a state whose name nobody knows. */
static uint32_t guess_kind(struct mending *mending, const struct backend_node *node)
{
	struct view *view = &mending->view;
	_cleanup_(buf_done) struct buf sidecar = { 0 };
	struct backend_key_stat stat;

	if (bytes_ends_with(node->key, names_hash_suffix))
		return BACKEND_HASH;
	if (view->backend->ops->key_stat(view->backend, view->snapshot, node->session, node->key,
					 &stat) < 0 ||
	    stat.last > 0)
		return BACKEND_LIST;
	if (buf_append_bytes(&sidecar, node->key) == 0 &&
	    buf_append_bytes(&sidecar, names_hash_suffix) == 0 &&
	    view->backend->ops->key_stat(view->backend, view->snapshot, node->session,
					 buf_bytes(&sidecar), &stat) == 0)
		return BACKEND_LIST;
	return BACKEND_SINGLE;
}

/* A file of a session whose name makes it a state. */
static int take_state(struct mending *mending, const struct place_dir *dir,
		      const struct found *found, uint32_t kind)
{
	_cleanup_(buf_done) struct buf key = { 0 };
	struct bytes name = buf_bytes(&found->name);
	struct backend_node node = found->node;
	int r;

	if (was_seen(mending, node.ino)) /* a state file has one name */
		return drop_entry(mending, dir, found->id);
	r = see(mending, dir->ino, found->id, &found->node);
	if (r < 0)
		return r;
	if (kind_is_state(node.kind) && node.key.data &&
	    bytes_equal(node.session, buf_bytes(&dir->session)) && node.nlink)
		return 0;
	if (!kind_is_state(node.kind)) {
		node.kind = kind;
		/* Bytes in chunks are those of a draft. */
		node.flags = node.size ? BACKEND_DRAFT : 0;
	}
	node.session = buf_bytes(&dir->session);
	if (!node.key.data || !bytes_equal(found->node.session, node.session) ||
	    is_free(mending, node.session, node.key, node.ino) != 1) {
		r = find_key(mending, dir, name, node.ino, &key);
		node.key = buf_bytes(&key);
	}
	node.nlink = 1;
	if (r < 0)
		return r;
	/* At once, so that nobody else gets the key. */
	put_node(mending, &node);
	return commit(mending);
}

static bool has_type(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode) || S_ISFIFO(mode) || S_ISSOCK(mode) ||
	       S_ISCHR(mode) || S_ISBLK(mode);
}

static int take_ordinary(struct mending *mending, const struct place_dir *dir,
			 const struct found *found)
{
	struct backend_node node = found->node;

	/* Its name was another one, or else its kind. */
	if (kind_is_state(node.kind) && node.key.data)
		return drop_entry(mending, dir, found->id);
	if (node.kind != BACKEND_ORDINARY || !has_type(node.mode)) {
		node.kind = BACKEND_ORDINARY;
		node.session = node.key = (struct bytes){ 0 };
		if (!has_type(node.mode))
			node.mode = (node.mode & 0777) | (node.target.data ? S_IFLNK : S_IFREG);
		put_node(mending, &node);
	}
	return see(mending, dir->ino, found->id, &found->node);
}

/* In the trash all is left as it is (trash.c).  A session whose node is lost cannot come back, so
 * its files are among those that have lost their names. */
static int take_trashed(struct mending *mending, const struct place_dir *dir,
			const struct found *found)
{
	const struct backend_node *node = &found->node;
	bool dir_or_state = S_ISDIR(node->mode) || node_is_trashed(node);
	int r;

	if ((dir_or_state && was_seen(mending, node->ino)) ||
	    (dir->ino == BACKEND_TRASH && (!S_ISDIR(node->mode) || !node_is_trashed(node))))
		return drop_entry(mending, dir, found->id);
	r = see(mending, dir->ino, found->id, node);
	if (r == 0 && S_ISDIR(node->mode))
		r = walk_later(mending, node->ino, NULL, (struct bytes){ 0 }, (struct bytes){ 0 });
	if (r == 0 && S_ISDIR(node->mode))
		mending->todo->trash = true;
	return r;
}

static int take_entry(struct mending *mending, const struct place_dir *dir,
		      const struct found *found)
{
	struct bytes name = buf_bytes(&found->name);
	uint32_t kind;

	if (dir->trash)
		return take_trashed(mending, dir, found);
	if (!is_name(name) || found->node.ino == BACKEND_ROOT)
		return drop_entry(mending, dir, found->id);
	if (S_ISDIR(found->node.mode))
		return take_directory(mending, dir, found);
	kind = dir->ino == BACKEND_ROOT ? BACKEND_ORDINARY : names_split(name).kind;
	if (kind_is_state(kind) && (S_ISREG(found->node.mode) || kind_is_state(found->node.kind)))
		return take_state(mending, dir, found, kind);
	return take_ordinary(mending, dir, found);
}

/* Walking. */

struct part {
	struct found found[PART];
	unsigned count;
};

static int keep_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct part *part = arg;
	struct found *found = &part->found[part->count];
	int r = buf_reserve(&found->name, 1);

	if (r == 0)
		r = buf_append_bytes(&found->name, entry->name);
	if (r == 0)
		r = backend_node_copy(node, &found->node);
	found->id = entry->id;
	if (r < 0)
		return r;
	part->count++;
	return part->count == PART;
}

static int walk_part(struct mending *mending, const struct place_dir *dir, uint64_t *after,
		     struct part *part)
{
	struct view *view = &mending->view;
	int r;

	part->count = 0;
	memset(part, 0, sizeof(*part));
	r = view->backend->ops->entry_list(view->backend, view->snapshot, dir->ino, *after,
					   keep_entry, part);
	for (unsigned i = 0; i < part->count; i++) {
		if (r == 0)
			r = take_entry(mending, dir, &part->found[i]);
		*after = part->found[i].id;
		found_done(&part->found[i]);
	}
	return r < 0 ? r : commit(mending);
}

static int walk(struct mending *mending)
{
	struct part *part = malloc(sizeof(*part));
	int r = part ? 0 : -ENOMEM;

	while (r == 0 && mending->todo) {
		_cleanup_(dir_freep) struct place_dir *dir = mending->todo;
		uint64_t after = 0;

		mending->todo = dir->next;
		do
			r = walk_part(mending, dir, &after, part);
		while (r == 0 && part->count == PART);
	}
	free(part);
	return r;
}

/* Giving names. */

/* A new entry under the first name that is free: name, name%~1 ... before the suffix. */
static int enter(struct mending *mending, uint64_t parent, struct bytes stem, struct bytes suffix,
		 struct backend_node *node)
{
	struct view *view = &mending->view;
	_cleanup_(buf_done) struct buf name = { 0 };
	struct backend_node there;
	uint64_t id;
	int r = 0;

	for (unsigned attempt = 0; r == 0 && attempt < ATTEMPTS; attempt++) {
		buf_clear(&name);
		r = buf_append(&name, stem.data,
			       MIN(stem.size,
				   (size_t)NAME_LIMIT - suffix.size - (attempt ? 8 : 0)));
		if (r == 0 && attempt)
			r = buf_printf(&name, "%%~%u", attempt);
		if (r == 0)
			r = buf_append_bytes(&name, suffix);
		if (r < 0)
			return r;
		r = view->backend->ops->entry_find(view->backend, view->snapshot, parent,
						   buf_bytes(&name), &id, &there);
		if (r == 0)
			backend_node_done(&there);
	}
	if (r != -ENOENT)
		return r < 0 ? r : -EEXIST;
	node->parent = parent;
	node->entry = ++mending->last_entry;
	node->nlink = MAX(node->nlink, 1);
	put_entry(mending, parent, node->entry, buf_bytes(&name), node->ino);
	put_node(mending, node);
	r = see(mending, parent, node->entry, node);
	return r < 0 ? r : commit(mending);
}

static int make_dir(struct mending *mending, uint64_t parent, uint32_t kind, struct bytes session,
		    struct bytes name, uint64_t *ret_ino)
{
	int64_t now = time_now();
	struct backend_node node = { .ino = ++mending->last_ino,
				     .kind = kind,
				     .mode = S_IFDIR | 0700,
				     .nlink = 2,
				     .atime = now,
				     .mtime = now,
				     .ctime = now,
				     .btime = now,
				     .session = session,
				     .uid = geteuid(),
				     .gid = getegid() };

	*ret_ino = node.ino;
	return enter(mending, parent, name, (struct bytes){ 0 }, &node);
}

/* The directory of a session, made if need be. */
static int session_dir(struct mending *mending, struct bytes session, uint64_t *ret_ino)
{
	struct view *view = &mending->view;
	_cleanup_(buf_done) struct buf name = { 0 };
	struct bytes none = { 0 };
	struct backend_node node;
	int r = view->backend->ops->node_find(view->backend, view->snapshot, session, none, &node);

	if (r == 0) {
		*ret_ino = node.ino;
		backend_node_done(&node);
		return 0;
	}
	if (r == -ENOENT)
		r = names_encode(NAMES_SESSION, session, NAME_LIMIT, &name);
	return r < 0 ? r :
		       make_dir(mending, BACKEND_ROOT, BACKEND_SESSION, session, buf_bytes(&name),
				ret_ino);
}

struct path {
	struct mending *mending;
	uint64_t dir;
	struct backend_node *node;
	bool is_dir; /* the node is the last directory, not the file */
	bool done;
	struct buf before; /* the component that came last */
};

static int sub_dir(struct path *path, struct bytes name)
{
	struct mending *mending = path->mending;
	struct view *view = &mending->view;
	struct backend_node there;
	uint64_t id;
	int r = view->backend->ops->entry_find(view->backend, view->snapshot, path->dir, name, &id,
					       &there);

	if (r == -ENOENT)
		return make_dir(mending, path->dir, BACKEND_ORDINARY, (struct bytes){ 0 }, name,
				&path->dir);
	if (r < 0)
		return r;
	path->dir = there.ino;
	r = S_ISDIR(there.mode) ? 0 : -ENOTDIR;
	backend_node_done(&there);
	return r;
}

/* One component of the way to a state file; a directory is entered one component later, so that the
 * last one is known. */
static int on_component(void *arg, struct bytes name, bool last)
{
	struct path *path = arg;
	struct bytes suffix = names_suffix(path->node->kind);
	int r = 0;

	if (path->before.size && !(last && path->is_dir))
		r = sub_dir(path, buf_bytes(&path->before));
	if (r < 0)
		return r;
	if (!last) {
		buf_clear(&path->before);
		return buf_append_bytes(&path->before, name);
	}
	path->done = true;
	if (path->is_dir)
		return path->before.size ? enter(path->mending, path->dir, buf_bytes(&path->before),
						 (struct bytes){ 0 }, path->node) :
					   0;
	if (bytes_ends_with(name, suffix))
		name.size -= suffix.size;
	return enter(path->mending, path->dir, name, suffix, path->node);
}

static int enter_by_key(struct mending *mending, struct bytes session, struct bytes key,
			uint32_t kind, struct backend_node *node, bool is_dir)
{
	struct path path = { .mending = mending, .node = node, .is_dir = is_dir };
	int r = session_dir(mending, session, &path.dir);

	if (r == 0)
		r = names_path(key, kind, 0, on_component, &path);
	buf_done(&path.before);
	return r;
}

/* Nodes that nothing leads to. */

typedef int lost_fn(struct mending *mending, struct backend_node *node);

/* A session gets its name again. */
static int adopt_session(struct mending *mending, struct backend_node *node)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	int r;

	if (node->kind != BACKEND_SESSION || !node->session.data || !S_ISDIR(node->mode))
		return 0;
	r = names_encode(NAMES_SESSION, node->session, NAME_LIMIT, &name);
	if (r == 0)
		r = enter(mending, BACKEND_ROOT, buf_bytes(&name), (struct bytes){ 0 }, node);
	if (r == 0)
		r = walk_later(mending, node->ino, NULL, node->session, (struct bytes){ 0 });
	return r < 0 ? r : walk(mending);
}

/* A state in a directory tells where the directory was. */
struct child {
	struct backend_node node;
};

static int find_child(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct child *child = arg;
	int r;

	(void)entry;
	if (!kind_is_state(node->kind) || !node->key.data || !node->session.data)
		return 0;
	r = backend_node_copy(node, &child->node);
	return r < 0 ? r : 1;
}

static int place_directory(struct mending *mending, struct backend_node *node,
			   const struct backend_node *child)
{
	bool below = child->key.size && memchr(child->key.data, '/', child->key.size);
	struct bytes none = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	int r;

	if (below) {
		node->kind = BACKEND_ORDINARY;
		node->session = node->key = none;
		return enter_by_key(mending, child->session, child->key, child->kind, node, true);
	}
	r = is_free(mending, child->session, none, node->ino);
	if (r <= 0)
		return r;
	node->kind = BACKEND_SESSION;
	node->session = child->session;
	node->key = none;
	r = names_encode(NAMES_SESSION, node->session, NAME_LIMIT, &name);
	return r < 0 ? r : enter(mending, BACKEND_ROOT, buf_bytes(&name), none, node);
}

/* The components of a key as names_key() wants those before the last. */
static int walk_placed(struct mending *mending, const struct backend_node *node,
		       const struct backend_node *child)
{
	struct place_dir *dir;
	const char *slash = NULL;
	int r = walk_later(mending, node->ino, NULL, child->session, (struct bytes){ 0 });

	if (r < 0)
		return r;
	dir = mending->todo;
	for (size_t i = 0; i < child->key.size; i++)
		if (child->key.data[i] == '/')
			slash = child->key.data + i;
	if (slash)
		r = buf_append(&dir->dirs, child->key.data, (size_t)(slash - child->key.data) + 1);
	return r < 0 ? r : walk(mending);
}

static int adopt_directory(struct mending *mending, struct backend_node *node)
{
	struct view *view = &mending->view;
	struct child child = { 0 };
	int r;

	if (!S_ISDIR(node->mode))
		return 0;
	r = view->backend->ops->entry_list(view->backend, view->snapshot, node->ino, 0, find_child,
					   &child);
	if (r == 0 && child.node.ino) {
		r = place_directory(mending, node, &child.node);
		if (r == 0 && was_seen(mending, node->ino))
			r = walk_placed(mending, node, &child.node);
	}
	backend_node_done(&child.node);
	return r == -EEXIST || r == -ENOTDIR ? 0 : r;
}

/* What is left: files. */
/* What was in the trash is not any more, so its rows are where it is now. */
static int show_rows(struct mending *mending, const struct backend_node *node)
{
	struct view *view = &mending->view;
	struct backend_key_stat stat;
	struct backend_op *op;

	if (view->backend->ops->key_stat(view->backend, view->snapshot, node->session, node->key,
					 &stat) != -ENOENT)
		return 0;
	op = batch_add(&mending->batch, BACKEND_KEY_SHOW);
	if (!op)
		return -ENOMEM;
	op->session = node->session;
	op->key = node->key;
	op->ino = node->ino;
	return commit(mending);
}

static int adopt_file(struct mending *mending, struct backend_node *node)
{
	struct bytes none = { 0 };
	char name[40];
	int r;

	if (S_ISDIR(node->mode))
		return 0;
	if (node->session.data && node->key.data) {
		r = node_is_trashed(node) ? show_rows(mending, node) : 0;
		if (r < 0)
			return r;
		if (!kind_is_state(node->kind)) {
			node->kind = guess_kind(mending, node);
			node->flags = node->size ? BACKEND_DRAFT : 0;
		}
		if (is_free(mending, node->session, node->key, node->ino) == 1) {
			tell(mending, "session %s, key %s: the name was lost", SHOWN(node->session),
			     SHOWN(node->key));
			r = enter_by_key(mending, node->session, node->key, node->kind, node,
					 false);
			if (r != -EEXIST && r != -ENOTDIR)
				return r;
		}
	}
	node->kind = BACKEND_ORDINARY;
	node->session = node->key = none;
	if (!has_type(node->mode))
		node->mode = (node->mode & 0777) | S_IFREG;
	snprintf(name, sizeof(name), "recovered-%" PRIu64, node->ino);
	tell(mending, "a file that has lost its name or its directory is now /%s", name);
	return enter(mending, BACKEND_ROOT, bytes_str(name), none, node);
}

static int drop_child(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct batch *batch = arg;

	(void)node;
	batch_entry_delete(batch, entry->parent, entry->id);
	return batch->error;
}

/* A directory that cannot be reached goes; so does what was deleted already.  The rows of that
 * stay, as nobody knows whether it is true. */
static int drop_node(struct mending *mending, struct backend_node *node)
{
	struct view *view = &mending->view;
	int r = 0;

	if (S_ISDIR(node->mode)) {
		tell(mending, "the directory with the inode %" PRIu64 " has lost its name",
		     node->ino);
		r = view->backend->ops->entry_list(view->backend, view->snapshot, node->ino, 0,
						   drop_child, &mending->batch);
	}
	batch_node_delete(&mending->batch, node->ino);
	return r < 0 ? r : commit_some(mending);
}

static int keep_node(void *arg, const struct backend_node *node)
{
	int r = backend_node_copy(node, arg);

	return r < 0 ? r : 1;
}

/* All nodes, one after the other, that were seen or were not. */
static int each_node(struct mending *mending, bool seen, lost_fn *fn)
{
	int r = 0;

	for (uint64_t after = 0; r == 0;) {
		struct view *view = &mending->view;
		struct backend_node node = { 0 };

		r = view->backend->ops->node_list(view->backend, view->snapshot, after, false,
						  keep_node, &node);
		if (r < 0 || !node.ino)
			break;
		after = node.ino;
		if (was_seen(mending, node.ino) == seen) {
			struct backend_node changed = node;

			changed.owned = NULL;
			r = fn(mending, &changed);
		}
		backend_node_done(&node);
	}
	return r < 0 ? r : commit(mending);
}

static int unless_deleted(struct mending *mending, struct backend_node *node, lost_fn *fn)
{
	return node->nlink ? fn(mending, node) : 0;
}

static int adopt_session_live(struct mending *mending, struct backend_node *node)
{
	return unless_deleted(mending, node, adopt_session);
}

static int adopt_directory_live(struct mending *mending, struct backend_node *node)
{
	return unless_deleted(mending, node, adopt_directory);
}

static int adopt_file_live(struct mending *mending, struct backend_node *node)
{
	return unless_deleted(mending, node, adopt_file);
}

/* Nodes that were reached: their counts of names, and states whose rows are all lost. */

static int lose_state(struct mending *mending, const struct backend_node *node,
		      const struct seen *seen)
{
	tell(mending, "session %s, key %s: its row is lost", SHOWN(node->session),
	     SHOWN(node->key));
	batch_entry_delete(&mending->batch, seen->parent, seen->entry);
	batch_node_delete(&mending->batch, node->ino);
	return commit_some(mending);
}

static int finish_node(struct mending *mending, struct backend_node *node)
{
	struct view *view = &mending->view;
	struct backend_node before = *node;
	const struct seen *seen = seen_get(mending, node->ino);
	struct backend_key_stat stat;

	if (!seen)
		return -ENOMEM;
	if ((node->kind == BACKEND_SINGLE || node->kind == BACKEND_HASH) &&
	    !(node->flags & BACKEND_DRAFT) &&
	    view->backend->ops->key_stat(view->backend, view->snapshot, node->session, node->key,
					 &stat) == -ENOENT)
		return lose_state(mending, node, seen);
	node->nlink = S_ISDIR(node->mode) ? 2 + seen->directories : seen->names;
	if (node->ino == BACKEND_ROOT) {
		node->mode = S_IFDIR | (node->mode & 07777);
		node->kind = BACKEND_ORDINARY;
		node->nlink = 2 + seen->directories;
	} else if (!seen->at_home) {
		node->parent = seen->parent;
		node->entry = seen->entry;
	}
	if (node->nlink != before.nlink || node->parent != before.parent ||
	    node->entry != before.entry || node->mode != before.mode || node->kind != before.kind)
		put_node(mending, node);
	return commit_some(mending);
}

static bool is_row(void *arg, struct bytes session, struct bytes key, struct bytes data)
{
	(void)arg, (void)session;
	return bytes_ends_with(key, names_hash_suffix) || json_valid(data, NULL);
}

/* What makes a tree of the nodes, entries and rows that the store has brought. */
static int mend(struct mending *mending)
{
	int r = renew_view(mending);

	if (r == 0)
		r = mending->backend->ops->last_ids(mending->backend, mending->view.snapshot,
						    &mending->last_ino, &mending->last_entry);
	if (r == 0)
		r = seen_grow(mending);
	if (r == 0)
		r = walk_later(mending, BACKEND_ROOT, NULL, (struct bytes){ 0 },
			       (struct bytes){ 0 });
	if (r == 0)
		r = walk(mending);
	if (r == 0)
		r = walk_later(mending, BACKEND_TRASH, NULL, (struct bytes){ 0 },
			       (struct bytes){ 0 });
	if (r == 0) {
		mending->todo->trash = true;
		r = walk(mending);
	}
	if (r == 0)
		r = each_node(mending, false, adopt_session_live);
	if (r == 0)
		r = each_node(mending, false, adopt_directory_live);
	if (r == 0)
		r = each_node(mending, false, adopt_file_live);
	if (r == 0)
		r = each_node(mending, false, drop_node);
	if (r == 0)
		r = each_node(mending, true, finish_node);
	view_end(&mending->view);
	while (mending->todo) {
		struct place_dir *dir = mending->todo;

		mending->todo = dir->next;
		dir_free(dir);
	}
	batch_done(&mending->batch);
	free(mending->seen);
	return r;
}

/* A file for each key that has none. */
static int adopt_keys(struct mending *mending, struct tree *tree)
{
	int64_t adopted = tree_adopt(tree);

	/* Rows that nobody has ever mounted had no files. */
	if (adopted > 0 && mending->repaired->records > mending->repaired->rows)
		tell(mending,
		     "%" PRId64 " keys had lost their files; the modes and times of those "
		     "are lost",
		     adopted);
	return adopted < 0 ? (int)adopted : 0;
}

static int mend_tree(const char *store, struct mending *mending, char **ret_why)
{
	struct backend_options options = { 0 };
	struct tree_options plain = { 0 };
	struct tree *tree;
	int r = backend_open(store, &options, &mending->backend, ret_why);

	if (r < 0)
		return r;
	r = mend(mending);
	if (r < 0) {
		backend_close(mending->backend);
		return r;
	}
	r = tree_open(mending->backend, &plain, &tree, ret_why);
	if (r < 0) {
		backend_close(mending->backend);
		return r;
	}
	r = adopt_keys(mending, tree);
	tree_close(tree);
	return r;
}

int repair_store(const char *store, const char *new_store, const char *table,
		 backend_report_fn *report, void *arg, struct backend_repaired *ret_repaired,
		 char **ret_why)
{
	struct backend_repair repair = {
		.table = table, .is_row = is_row, .report = report, .arg = arg
	};
	struct backend_repaired repaired = { 0 };
	struct mending mending = { .report = report, .arg = arg, .repaired = &repaired };
	int r = backend_repair(store, new_store, &repair, &repaired, ret_why);

	if (r == 0) {
		r = mend_tree(new_store, &mending, ret_why);
		if (r < 0)
			backend_discard(new_store);
	}
	if (r == 0)
		*ret_repaired = repaired;
	return r;
}
