/* SPDX-License-Identifier: MIT */
#include "fs/model/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "fs/model/face.h"
#include "fs/model/names.h"
#include "src/base/log.h"

enum {
	TABLE_FIRST = 64,     /* slots of a new inode table */
	CATCH_UP_MAX = 200,   /* how often one operation is run again */
	TIMES_INTERVAL = 500, /* milliseconds between two writes of pending times */
};

/* Time. */

int64_t time_join(struct timespec time)
{
	/* What does not fit into nanoseconds (before 1678, after 2261) is shown as the nearest. */
	if (time.tv_sec > INT64_MAX / 1000000000 - 1)
		return INT64_MAX / 1000000000 * 1000000000 - 1;
	if (time.tv_sec < INT64_MIN / 1000000000 + 1)
		return INT64_MIN / 1000000000 * 1000000000 + 1;
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

struct timespec time_split(int64_t time)
{
	int64_t sec = time / 1000000000;
	int64_t nsec = time % 1000000000;

	if (nsec < 0) {
		nsec += 1000000000;
		sec--;
	}
	return (struct timespec){ .tv_sec = sec, .tv_nsec = nsec };
}

int64_t time_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return time_join(now);
}

/* Views. */

int view_begin(struct tree *tree, unsigned flags, struct view *view)
{
	int r = tree->backend->ops->snapshot_begin(tree->backend, flags, &view->snapshot);

	view->backend = r < 0 ? NULL : tree->backend;
	return r;
}

void view_end(struct view *view)
{
	if (view->backend)
		view->backend->ops->snapshot_end(view->backend, view->snapshot);
	view->backend = NULL;
}

int tree_catch_up(struct tree *tree, unsigned *tries)
{
	if (++*tries > CATCH_UP_MAX) {
		log_error(
			"another program changes the store without a pause; giving up one request");
		return -EBUSY;
	}
	return tree_reconcile(tree);
}

/* The inode table. */

static struct inode **table_slot(struct tree *tree, uint64_t ino)
{
	uint64_t hash = ino * 0x9e3779b97f4a7c15u;
	struct inode **slot = &tree->table[(hash >> 32) & (tree->table_size - 1)];

	while (*slot && (*slot)->ino != ino)
		slot = &(*slot)->next;
	return slot;
}

/* Failing to grow only makes chains longer. */
static void table_grow(struct tree *tree)
{
	struct inode **old = tree->table;
	size_t old_size = tree->table_size;
	struct inode **table = calloc(old_size * 2, sizeof(struct inode *));

	if (!table)
		return;
	tree->table = table;
	tree->table_size = old_size * 2;
	for (size_t i = 0; i < old_size; i++) {
		struct inode *inode = old[i];

		while (inode) {
			struct inode *next = inode->next;
			struct inode **slot = table_slot(tree, inode->ino);

			inode->next = NULL;
			*slot = inode;
			inode = next;
		}
	}
	free(old);
}

static void inode_destroy(struct inode *inode)
{
	if (!inode)
		return;
	pthread_mutex_destroy(&inode->lock);
	faces_done(inode);
	stage_done(&inode->orphan);
	backend_node_done(&inode->node);
	free(inode->name);
	free(inode);
}

static struct inode *inode_alloc(uint64_t ino)
{
	struct inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->ino = ino;
	inode->face_count = 1;
	inode->written_chunk = -1;
	inode->face.bound = UINT64_MAX;
	pthread_mutex_init(&inode->lock, NULL);
	return inode;
}

struct inode *inode_known(struct tree *tree, uint64_t ino)
{
	struct inode *inode;

	pthread_mutex_lock(&tree->table_lock);
	inode = *table_slot(tree, ino);
	if (inode)
		inode->count++;
	pthread_mutex_unlock(&tree->table_lock);
	return inode;
}

/* Put a new inode into the table, unless another thread was first: then that one is counted and
 * returned, and ours is not used. */
static struct inode *table_enter(struct tree *tree, struct inode *inode)
{
	struct inode **slot, *winner;

	pthread_mutex_lock(&tree->table_lock);
	if (tree->table_count >= tree->table_size)
		table_grow(tree);
	slot = table_slot(tree, inode->ino);
	if (!*slot) {
		*slot = inode;
		tree->table_count++;
	}
	winner = *slot;
	winner->count++;
	pthread_mutex_unlock(&tree->table_lock);
	return winner;
}

struct inodes inodes_get(struct tree *tree, bool (*wanted)(const struct inode *inode))
{
	struct inodes found = { 0 };

	pthread_mutex_lock(&tree->table_lock);
	found.inode = calloc(tree->table_count + 1, sizeof(struct inode *));
	for (size_t i = 0; found.inode && i < tree->table_size; i++)
		for (struct inode *inode = tree->table[i]; inode; inode = inode->next)
			if (!wanted || wanted(inode)) {
				inode->count++;
				found.inode[found.count++] = inode;
			}
	pthread_mutex_unlock(&tree->table_lock);
	return found;
}

void inodes_forget(struct tree *tree, struct inodes *inodes)
{
	for (size_t i = 0; i < inodes->count; i++)
		inode_forget(tree, inodes->inode[i], 1);
	free(inodes->inode);
	*inodes = (struct inodes){ 0 };
}

/* Takes the node over. */
static struct inode *inode_from(struct backend_node *node)
{
	struct inode *inode = inode_alloc(node->ino);

	if (inode)
		inode_set_node(inode, node);
	else
		backend_node_done(node);
	return inode;
}

/* A directory knows its name, since the keys below it are made of it.  1 when it has none. */
static int inode_fill_name(struct view *view, struct inode *inode)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	int r;

	if (!inode_is_dir(inode) || inode->node.ino == BACKEND_ROOT || !inode->node.entry)
		return 1;
	r = view->backend->ops->entry_name(view->backend, view->snapshot, inode->node.parent,
					   inode->node.entry, &name);
	if (r < 0)
		return r == -ENOENT ? -EIO : r;
	inode->name = bytes_dup(buf_bytes(&name));
	return inode->name ? 0 : -ENOMEM;
}

/*
 * A directory knows its parent, too.  Put the parents that nobody counts before *chain, up to one
 * that is known or has none.  Not by recursion: they may be as many as somebody likes, and in a
 * damaged store one may be its own ancestor.  So from time to time one is remembered that must not
 * come again.
 */
static int inode_fill_parents(struct tree *tree, struct view *view, struct inode **chain)
{
	uint64_t remembered = (*chain)->ino, steps = 0, limit = 1;
	int r;

	while ((r = inode_fill_name(view, *chain)) == 0) {
		struct backend_node node;
		struct inode *parent;
		uint64_t ino = (*chain)->node.parent;

		if (ino == remembered) {
			log_error("inode %" PRIu64 " is a directory that lies in itself", ino);
			return -EIO;
		}
		if (++steps == limit) {
			remembered = ino;
			limit *= 2;
			steps = 0;
		}
		(*chain)->parent = inode_known(tree, ino);
		if ((*chain)->parent)
			return 0;
		r = view->backend->ops->node_get(view->backend, view->snapshot, ino, &node);
		if (r < 0)
			return r;
		parent = inode_from(&node);
		if (!parent)
			return -ENOMEM;
		parent->next = *chain;
		*chain = parent;
	}
	return MIN(r, 0);
}

/* All of the chain, from the top on; the last one is counted for the caller. */
static struct inode *chain_enter(struct tree *tree, struct inode *chain)
{
	struct inode *entered = NULL;

	while (chain) {
		struct inode *inode = chain;

		chain = inode->next;
		inode->next = NULL;
		if (entered)
			inode->parent = entered;
		entered = table_enter(tree, inode);
		if (entered != inode) {
			if (inode->parent)
				inode_forget(tree, inode->parent, 1);
			inode_destroy(inode);
		}
	}
	return entered;
}

static void chain_destroy(struct inode *chain)
{
	while (chain) {
		struct inode *inode = chain;

		chain = inode->next;
		inode_destroy(inode);
	}
}

int inode_of_node(struct tree *tree, struct view *view, struct backend_node *node,
		  struct inode **ret_inode)
{
	struct inode *inode = inode_known(tree, node->ino);
	int r;

	if (inode) {
		backend_node_done(node);
		*ret_inode = inode;
		return 0;
	}
	inode = inode_from(node);
	if (!inode)
		return -ENOMEM;
	r = inode_fill_parents(tree, view, &inode);
	if (r < 0) {
		chain_destroy(inode);
		return r;
	}
	*ret_inode = chain_enter(tree, inode);
	return 0;
}

int inode_create(struct tree *tree, struct backend_node *node, struct inode *parent,
		 struct bytes name, struct inode **ret_inode)
{
	struct inode *inode = inode_alloc(node->ino);

	if (!inode)
		return -ENOMEM;
	if (backend_node_copy(node, &inode->node) < 0)
		goto fail;
	if (S_ISDIR(node->mode)) {
		inode->name = bytes_dup(name);
		if (!inode->name)
			goto fail;
		inode->parent = inode_ref(tree, parent);
	}
	inode_node_changed(inode);
	*ret_inode = table_enter(tree, inode);
	return 0;
fail:
	inode_destroy(inode);
	return -ENOMEM;
}

void inode_set_node(struct inode *inode, struct backend_node *node)
{
	backend_node_done(&inode->node);
	inode->node = *node;
	*node = (struct backend_node){ 0 };
	inode_node_changed(inode);
}

void inode_node_changed(struct inode *inode)
{
	inode->state = kind_is_state(inode->node.kind);
	inode->stored_known = false;
}

int inode_get(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode)
{
	struct backend_node node;
	struct inode *inode = inode_known(tree, ino);
	int r;

	if (inode) {
		*ret_inode = inode;
		return 0;
	}
	r = view->backend->ops->node_get(view->backend, view->snapshot, ino, &node);
	if (r < 0)
		return r;
	return inode_of_node(tree, view, &node, ret_inode);
}

int inode_get_dir(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode)
{
	struct inode *inode;
	int r = inode_get(tree, view, ino, &inode);

	if (r < 0)
		return r == -ENOENT ? -EIO : r;
	if (!inode_is_dir(inode) || (!inode->parent && inode != tree->root)) {
		log_error("inode %" PRIu64 " is no directory that can be reached", ino);
		inode_forget(tree, inode, 1);
		return -EIO;
	}
	*ret_inode = inode;
	return 0;
}

/* Nobody can reach an orphan any more: delete it from the store. */
static void inode_delete_orphan(struct tree *tree, const struct backend_node *node)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	uint64_t ino = node->ino;
	int r;

	batch_node_delete(&batch, ino);
	r = batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
	if (r == -ENOSPC && node->kind == BACKEND_ORDINARY) {
		r = shed_hidden(tree, node);
		if (r == 0)
			r = batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
	}
	if (r < 0)
		log_warning("inode %llu was unlinked but could not be deleted (%s); the next mount "
			    "does it",
			    (unsigned long long)ino, strerror(-r));
}

void inode_forget(struct tree *tree, struct inode *inode, uint64_t count)
{
	struct inode **slot, *parent;

	pthread_mutex_lock(&tree->table_lock);
	inode->count -= count;
	if (inode->count) {
		pthread_mutex_unlock(&tree->table_lock);
		return;
	}
	slot = table_slot(tree, inode->ino);
	*slot = inode->next;
	tree->table_count--;
	pthread_mutex_unlock(&tree->table_lock);

	if (!inode->node.nlink && !inode->gone && !tree->backend->read_only)
		inode_delete_orphan(tree, &inode->node);
	parent = inode->parent;
	inode_destroy(inode);
	if (parent)
		inode_forget(tree, parent, 1);
}

uint64_t inode_number(const struct inode *inode)
{
	return inode->ino;
}

bool inode_is_state(const struct inode *inode)
{
	return inode->state;
}

struct inode *tree_inode(struct tree *tree, uint64_t nodeid)
{
	struct inode *inode;

	pthread_mutex_lock(&tree->table_lock);
	inode = *table_slot(tree, nodeid_ino(nodeid));
	/* A number so large is the inode's own: then it has one face. */
	if (!inode)
		inode = *table_slot(tree, nodeid);
	pthread_mutex_unlock(&tree->table_lock);
	return inode;
}

void tree_set_direct_mmap(struct tree *tree, bool can)
{
	tree->direct_mmap = can;
}

void inode_set_locked(struct inode *inode)
{
	inode->locked = true;
}

bool inode_was_locked(const struct inode *inode)
{
	return inode->locked;
}

bool tree_is_read_only(const struct tree *tree)
{
	return tree->options.read_only;
}

struct inode *inode_session(struct inode *dir)
{
	while (dir && dir->node.kind != BACKEND_SESSION)
		dir = dir->parent;
	return dir;
}

int inode_key_dirs(struct inode *dir, struct buf *dirs)
{
	int r;

	if (!dir->parent || dir->node.kind == BACKEND_SESSION)
		return 0;
	r = inode_key_dirs(dir->parent, dirs);
	if (r < 0)
		return r;
	r = names_decode(NAMES_KEY, bytes_str(dir->name), dirs);
	if (r < 0)
		return r;
	return buf_append_byte(dirs, '/');
}

/* Times. */

void inode_times_dirty(struct tree *tree, struct inode *inode)
{
	pthread_mutex_lock(&tree->times_lock);
	if (!inode->times_dirty) {
		inode->times_dirty = true;
		inode->times_next = tree->times_first;
		tree->times_first = inode_ref(tree, inode);
	}
	pthread_mutex_unlock(&tree->times_lock);
}

/* An array of its own, since the inodes are linked into the list again as soon as they change. */
static int times_take(struct tree *tree, struct inodes *times)
{
	struct inode *inode;
	int r = 0;

	pthread_mutex_lock(&tree->times_lock);
	for (inode = tree->times_first; inode; inode = inode->times_next)
		times->count++;
	times->inode = calloc(times->count + 1, sizeof(struct inode *));
	if (!times->inode)
		r = -ENOMEM;
	times->count = 0;
	for (inode = tree->times_first; r == 0 && inode; inode = inode->times_next) {
		inode->times_dirty = false;
		times->inode[times->count++] = inode;
	}
	if (r == 0)
		tree->times_first = NULL;
	pthread_mutex_unlock(&tree->times_lock);
	return r;
}

int tree_write_times(struct tree *tree)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct inodes times = { 0 };
	int failed = 0, r;

	{
		/* Alone, so that the nodes hold still until they are committed. */
		WITH_WRITE_LOCK(tree);
		r = times_take(tree, &times);
		for (size_t i = 0; i < times.count; i++) {
			struct inode *inode = times.inode[i];
			int settled = file_settle(tree, inode);

			if (settled < 0)
				failed = settled;
			if (!inode->gone)
				batch_node_put(&batch, &inode->node);
		}
		if (r == 0)
			r = batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
		if (r == 0)
			r = failed;
	}
	for (size_t i = 0; i < times.count; i++) {
		if (r < 0 && !tree->stopping)
			inode_times_dirty(tree, times.inode[i]);
		inode_forget(tree, times.inode[i], 1);
	}
	free(times.inode);
	return r;
}

static int tree_ghosts_wait(struct tree *tree, int limit)
{
	WITH_READ_LOCK(tree);

	return ghosts_wait(tree, limit);
}

static bool tree_has_ghosts(struct tree *tree)
{
	WITH_READ_LOCK(tree);

	return tree->ghosts != NULL;
}

static void tree_end_ghosts(struct tree *tree, bool now)
{
	int r;

	if (!tree_has_ghosts(tree))
		return;
	{
		WITH_WRITE_LOCK(tree);
		r = ghosts_end(tree, now, 0);
	}
	if (r < 0 && r != -ESTALE)
		log_error("rows of unlinked files could not be deleted (%s); it is tried again",
			  strerror(-r));
}

/* Waits for changes of others and takes them in; writes pending times. */
static void tree_expire(struct tree *tree)
{
	struct notes notes = { 0 };

	faces_expire(tree, &notes);
	notes_tell(&notes, tree, false);
}

static void *tree_keep(void *arg)
{
	struct tree *tree = arg;
	int64_t times_at = time_now();

	while (!tree->stopping) {
		int r = tree->backend->ops->change_wait(tree->backend,
							tree_ghosts_wait(tree, TIMES_INTERVAL));

		if (tree->stopping)
			break;
		if (r > 0)
			tree_reconcile(tree);
		tree_end_ghosts(tree, false);
		handles_publish_paused(tree);
		tree_expire(tree);
		tell_missed(tree);
		if (time_now() - times_at >= (int64_t)TIMES_INTERVAL * 1000000 || r == 0) {
			tree_write_times(tree);
			times_at = time_now();
		}
	}
	return NULL;
}

/* Opening and closing. */

struct orphans {
	struct batch batch;
	/* Keys that other programs have changed since: their rows are theirs. */
	struct buf changed; /* of each the session and the key, with their sizes before them */
	bool all;
};

static void orphans_done(struct orphans *orphans)
{
	batch_done(&orphans->batch);
	buf_done(&orphans->changed);
}

static int text_add(struct buf *list, struct bytes text)
{
	int r = buf_append(list, (const char *)&text.size, sizeof(text.size));

	return r < 0 ? r : buf_append_bytes(list, text);
}

static struct bytes text_next(struct bytes *list)
{
	struct bytes text = { 0 };

	memcpy(&text.size, list->data, sizeof(text.size));
	text.data = list->data + sizeof(text.size);
	*list = bytes_make(text.data + text.size, list->size - sizeof(text.size) - text.size);
	return text;
}

static int orphans_changed_fn(void *arg, const struct backend_change *change)
{
	struct orphans *orphans = arg;
	int r;

	if (!change->session.data) {
		orphans->all = true;
		return 0;
	}
	r = text_add(&orphans->changed, change->session);
	return r < 0 ? r : text_add(&orphans->changed, change->key);
}

static bool orphan_was_changed(const struct orphans *orphans, const struct backend_node *node)
{
	struct bytes rest = buf_bytes(&orphans->changed);

	while (rest.size) {
		struct bytes session = text_next(&rest);
		struct bytes key = text_next(&rest);

		if (bytes_equal(session, node->session) && bytes_equal(key, node->key))
			return true;
	}
	return orphans->all;
}

static int orphan_fn(void *arg, const struct backend_node *node)
{
	struct orphans *orphans = arg;
	struct batch *batch = &orphans->batch;

	/* A ghost that was not ended still has its rows. */
	if (kind_is_state(node->kind) && node->key.data && !orphan_was_changed(orphans, node))
		batch_row_delete(batch, batch_keep(batch, node->session),
				 batch_keep(batch, node->key), INT64_MIN, INT64_MAX);
	batch_node_delete(batch, node->ino);
	return batch->error;
}

/* Files that were unlinked while open when the last mount ended without a word. */
static int tree_delete_orphans(struct tree *tree)
{
	_cleanup_(orphans_done) struct orphans orphans = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	const struct backend_ops *ops = tree->backend->ops;
	int r;

	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0)
		r = ops->change_list(tree->backend, view.snapshot, orphans_changed_fn, &orphans);
	if (r == 0)
		r = ops->node_list(tree->backend, view.snapshot, 0, true, orphan_fn, &orphans);
	if (r < 0)
		return r;
	view_end(&view);
	r = batch_commit(&orphans.batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
	if (r == -ENOSPC)
		r = shed_orphans(tree);
	return r == -EROFS ? 0 : r;
}

/* A damaged store is shown as far as it can be read; what is only needed to write is not needed. */
static int unless_damaged(const struct tree *tree, int error)
{
	return error == -EIO && tree->backend->read_only ? 0 : error;
}

static int tree_load_root(struct tree *tree)
{
	_cleanup_(view_end) struct view view = { 0 };
	uint64_t last_ino = 0, last_entry = 0;
	int r;

	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r < 0)
		return r;
	r = view.backend->ops->last_ids(view.backend, view.snapshot, &last_ino, &last_entry);
	if (unless_damaged(tree, r) < 0)
		return r;
	atomic_store(&tree->last_ino, last_ino);
	atomic_store(&tree->last_entry, last_entry);
	return inode_get(tree, &view, BACKEND_ROOT, &tree->root);
}

static void tree_free(struct tree *tree)
{
	pthread_rwlock_destroy(&tree->lock);
	pthread_mutex_destroy(&tree->table_lock);
	pthread_mutex_destroy(&tree->times_lock);
	pthread_mutex_destroy(&tree->kept_lock);
	pthread_mutex_destroy(&tree->trash_lock);
	pthread_mutex_destroy(&tree->expire_lock);
	pthread_cond_destroy(&tree->expire_changed);
	pthread_mutex_destroy(&tree->tell_lock);
	pthread_cond_destroy(&tree->tell_changed);
	for (size_t i = 0; i < tree->table_size; i++)
		while (tree->table[i]) {
			struct inode *inode = tree->table[i];

			tree->table[i] = inode->next;
			inode_destroy(inode);
		}
	ghosts_done(tree);
	removals_done(tree);
	free(tree->table);
	free(tree);
}

static struct tree *tree_alloc(struct backend *backend, const struct tree_options *options)
{
	pthread_rwlockattr_t attr;
	struct tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	tree->table = calloc(TABLE_FIRST, sizeof(struct inode *));
	if (!tree->table) {
		free(tree);
		return NULL;
	}
	tree->table_size = TABLE_FIRST;
	tree->backend = backend;
	tree->options = *options;
	pthread_rwlockattr_init(&attr);
	/* A stream of readers must not starve who renames or reconciles. */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&tree->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&tree->table_lock, NULL);
	pthread_mutex_init(&tree->times_lock, NULL);
	pthread_mutex_init(&tree->kept_lock, NULL);
	pthread_mutex_init(&tree->trash_lock, NULL);
	pthread_mutex_init(&tree->expire_lock, NULL);
	pthread_cond_init(&tree->expire_changed, NULL);
	pthread_mutex_init(&tree->tell_lock, NULL);
	pthread_cond_init(&tree->tell_changed, NULL);
	tree->jobs_end = &tree->jobs;
	/* Until it runs, nothing is left to it. */
	tree->teller_stops = true;
	return tree;
}

static void tree_stop_teller(struct tree *tree)
{
	pthread_mutex_lock(&tree->tell_lock);
	tree->teller_stops = true;
	pthread_cond_broadcast(&tree->tell_changed);
	pthread_mutex_unlock(&tree->tell_lock);
	pthread_join(tree->teller, NULL);
}

static int tree_start(struct tree *tree)
{
	int r;

	tree->teller_stops = false;
	r = -pthread_create(&tree->teller, NULL, tree_tell, tree);
	if (r < 0)
		return r;
	r = -pthread_create(&tree->keeper, NULL, tree_keep, tree);
	if (r < 0) {
		tree_stop_teller(tree);
		return r;
	}
	/* Without it sessions stay longer than they should, until the next mount. */
	if (expire_start(tree) < 0)
		log_warning("sessions whose time is over are not removed: no thread can be made");
	return 0;
}

int tree_open(struct backend *backend, const struct tree_options *options, struct tree **ret_tree,
	      char **ret_why)
{
	struct tree *tree = tree_alloc(backend, options);
	int r = tree ? 0 : -ENOMEM;

	if (r == 0 && !options->read_only)
		removals_recover(tree);
	if (r == 0 && !options->read_only)
		r = unless_damaged(tree, tree_delete_orphans(tree));
	if (r == 0)
		r = tree_load_root(tree);
	if (r == 0 && !options->read_only)
		files_recover(tree);
	if (r == 0)
		r = unless_damaged(tree, tree_reconcile(tree));
	if (r == 0)
		r = tree_start(tree);
	if (r < 0) {
		struct buf why = { 0 };

		if (ret_why &&
		    buf_printf(&why, "cannot read the store's tree: %s", strerror(-r)) == 0 &&
		    buf_append_byte(&why, '\0') == 0)
			*ret_why = steal_ptr(why.data);
		buf_done(&why);
		if (tree)
			tree_free(tree);
		return r;
	}
	*ret_tree = tree;
	return 0;
}

void tree_close(struct tree *tree)
{
	struct backend *backend;
	int r;

	if (!tree)
		return;
	tree->stopping = true;
	tree->backend->ops->wake(tree->backend);
	expire_stop(tree);
	pthread_join(tree->keeper, NULL);
	tree_stop_teller(tree);
	tell_missed(tree);
	backend = tree->backend;
	if (!backend->read_only) {
		tree_end_ghosts(tree, true);
		r = tree_write_times(tree);
		if (r >= 0)
			files_forget(tree);
		if (r >= 0)
			tree_delete_orphans(tree);
		if (r >= 0)
			r = backend->ops->sync(backend);
		if (r < 0)
			log_error("the last changes could not be synced: %s", strerror(-r));
	}
	tree_free(tree);
	backend_close(backend);
}
