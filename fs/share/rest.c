/* SPDX-License-Identifier: MIT */

/*
 * Files for rows that were there before the store (fs/inode/waiting.h).
 *
 *   They are made as for rows that another program adds (adopt.c), but nobody has told of them.  So
 *   whoever needs a session has it taken in whole; and the mount that is on duty walks over all
 *   keys in the order that the store has them, some at a time, and ends what the store says of
 *   itself when there are no more.  A mount that begins anew walks from the first; what has a file
 *   already costs a question.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/share/reconcile.h"
#include "fs/share/rest.h"
#include "fs/share/share.h"
#include "backend/base/array.h"
#include "backend/base/log.h"

enum {
	PAGE_KEYS = 1000,      /* that are asked for at a time */
	TAKE_KEYS = LOOK_KEYS, /* that are taken in at a time, in one commit if all is new */
};

/* Where the walk is: some keys that were read, and how many of them are done. */
struct rest_walk {
	struct reconciling page; /* keys alone */
	size_t done;
	bool ended;
};

/* What is wanted. */

static int add(struct reconciling *reconciling, struct bytes session, struct bytes key)
{
	const struct backend_change change = { .session = session, .key = key, .first = INT64_MIN };
	int r = reconcile_add(reconciling, &change, false);

	if (r == 0)
		reconciling->keys[reconciling->count - 1].rest = true;
	return r;
}

/* Unless others have changed it: these keys are collected first. */
static int collect_key(void *arg, struct bytes session, struct bytes key,
		       const struct backend_key_stat *stat)
{
	const struct backend_change change = { .session = session, .key = key };

	(void)stat;
	return reconcile_has(arg, &change) ? 0 : add(arg, session, key);
}

/* Whether the same comes before it, or the whole session of a key, before it or behind it. */
static bool is_asked_otherwise(const struct wanted *first, const struct wanted *one)
{
	bool before = true;

	for (const struct wanted *other = first; other; other = other->next) {
		before &= other != one;
		if (bytes_equal(buf_bytes(&other->session), buf_bytes(&one->session)) &&
		    (other->whole ?
			     before || !one->whole :
			     before && !one->whole &&
				     bytes_equal(buf_bytes(&other->key), buf_bytes(&one->key))))
			return true;
	}
	return false;
}

int rest_collect(struct reconciling *reconciling)
{
	const struct wanted *first = reconciling->asked;
	struct view *view = &reconciling->view;
	int r = 0;

	if (!reconciling->tree->rest.any)
		return 0;
	for (const struct wanted *one = first; r == 0 && one; one = one->next) {
		const struct bytes session = buf_bytes(&one->session);

		if (is_asked_otherwise(first, one))
			continue;
		if (one->whole)
			r = backend_session_keys(view->backend, view->snapshot, session,
						 (struct bytes){ 0 }, collect_key, reconciling);
		else
			r = collect_key(reconciling, session, buf_bytes(&one->key), NULL);
	}
	return MIN(r, 0);
}

void rest_settle(struct reconciling *reconciling)
{
	struct view *view = &reconciling->view;
	const struct bytes none = { 0 };

	if (!reconciling->tree->rest.any)
		return;
	for (const struct wanted *one = reconciling->asked; one; one = one->next) {
		struct backend_node node;
		struct inode *inode;

		if (!one->whole || ASK(view, node_find, buf_bytes(&one->session), none, &node) < 0)
			continue;
		inode = inode_known(reconciling->tree, node.ino);
		backend_node_done(&node);
		if (!inode)
			continue;
		inode->whole = true;
		inode_forget(reconciling->tree, inode, 1);
	}
}

/* The walk. */

static int keep_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	struct rest_walk *walk = arg;
	int r;

	if (walk->page.count == PAGE_KEYS)
		return 1;
	r = add(&walk->page, session, key);
	if (r < 0)
		return r;
	walk->page.keys[walk->page.count - 1].has_stat = true;
	walk->page.keys[walk->page.count - 1].stat = *stat;
	return walk->page.count == PAGE_KEYS;
}

static bool is_sidecar(const struct changed_key *sidecar, const struct changed_key *key)
{
	const size_t size = key->key.size;

	return sidecar->key.size == size + names_hash_suffix.size &&
	       bytes_starts_with(key_key(sidecar), key_key(key)) &&
	       bytes_ends_with(key_key(sidecar), names_hash_suffix);
}

/* One item is a document, unless it has a sidecar; all keys of a session stand together. */
static void tell_kinds(struct rest_walk *walk)
{
	const struct changed_key *keys = walk->page.keys;

	for (size_t i = 0; i < walk->page.count; i++) {
		struct changed_key *key = &walk->page.keys[i];
		bool sidecar = false;
		size_t next = i + 1;

		if (key->stat.first || key->stat.last ||
		    bytes_ends_with(key_key(key), names_hash_suffix))
			continue;
		for (; next < walk->page.count && !sidecar &&
		       bytes_equal(key_session(&keys[next]), key_session(key));
		     next++)
			sidecar = is_sidecar(&keys[next], key);
		sidecar |= key->stat.list;
		key->has_kind = sidecar || next < walk->page.count;
		key->kind = sidecar ? BACKEND_LIST : BACKEND_SINGLE;
	}
}

static int read_page(struct tree *tree, struct rest_walk *walk)
{
	_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };
	struct view view = { 0 };
	WITH_READ_LOCK(tree);
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r < 0)
		return r;
	if (walk->page.count) {
		struct changed_key *last = &walk->page.keys[walk->page.count - 1];

		session = last->session;
		key = last->key;
		last->session = last->key = (struct buf){ 0 };
	}
	reconcile_free(&walk->page);
	walk->page = (struct reconciling){ .tree = tree };
	walk->done = 0;
	r = ASK(&view, key_list, session.data ? buf_bytes(&session) : (struct bytes){ 0 },
		key.data ? buf_bytes(&key) : (struct bytes){ 0 }, keep_key, walk);
	view_end(&view);
	walk->ended = r == 0 && !walk->page.count;
	tell_kinds(walk);
	return r;
}

static int step_locked(struct reconciling *reconciling, struct rest_walk *walk, size_t count)
{
	struct tree *tree = reconciling->tree;
	int r;

	WITH_WRITE_LOCK(tree);
	r = digest_feed(tree, &reconciling->notes);
	notes_queue(&reconciling->notes, tree);
	if (r >= 0)
		r = reconcile_begin(reconciling);
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct changed_key *key = &walk->page.keys[walk->done + i];

		r = add(reconciling, key_session(key), key_key(key));
		if (r == 0) {
			struct changed_key *added = &reconciling->keys[i];

			added->has_stat = key->has_stat;
			added->stat = key->stat;
			added->has_kind = key->has_kind;
			added->kind = key->kind;
		}
	}
	if (r == 0)
		r = reconcile_take_in(reconciling);
	view_end(&reconciling->view);
	notes_queue(&reconciling->notes, tree);
	return r;
}

static int take_some(struct tree *tree, struct rest_walk *walk)
{
	size_t count = MIN(walk->page.count - walk->done, (size_t)TAKE_KEYS);
	struct reconciling reconciling = { .tree = tree };
	int r = step_locked(&reconciling, walk, count);

	for (size_t i = 0; r == 0 && i < count; i++)
		tree->rest.made += !reconciling.keys[i].no_rows && reconciling.keys[i].no_file;
	reconcile_free(&reconciling);
	notes_send(&reconciling.notes, tree, NOTIFY_LATER);
	if (r == 0)
		walk->done += count;
	return r;
}

void rest_end(struct tree *tree)
{
	/* A reader whose view is of before holds the lock until it has looked at rest.any. */
	WITH_WRITE_LOCK(tree);
	rest_done(tree);
}

/* The store says nothing of it any more. */
static int end(struct tree *tree)
{
	const struct backend_op op = { .type = BACKEND_SETTING, .name = BYTES(BACKEND_UNADOPTED) };
	int r = backend_commit(tree->backend, &op, 1, BACKEND_ANYWAY);

	if (r == 0)
		rest_end(tree);
	return r;
}

static int step(struct tree *tree)
{
	struct rest_walk *walk = tree->rest.walk;
	int r = 0;

	if (!tree->rest.listed && !tree->layout && !walk) {
		r = rest_sessions(tree);
		if (r < 0 && r != -EOPNOTSUPP)
			return r;
	}
	if (!walk)
		walk = tree->rest.walk = calloc(1, sizeof(*walk));
	if (!walk)
		return -ENOMEM;
	if (walk->done == walk->page.count && !walk->ended)
		r = read_page(tree, walk);
	if (r < 0)
		return r;
	return walk->ended ? end(tree) : take_some(tree, walk);
}

bool rest_step(struct tree *tree)
{
	int r;

	if (!tree->rest.any)
		return false;
	/* Two that walk would be in each other's way: who lists here looks what the other has
	 * made. */
	if (!backend_on_duty(tree->backend)) {
		taker_stepped(tree);
		return false;
	}
	r = step(tree);
	/* Nothing may be written: who reads sees what there is. */
	if (r == -EROFS)
		tree->rest.any = false;
	if (r >= 0 || r == -EROFS)
		taker_stepped(tree);
	return r >= 0 && tree->rest.any;
}

int rest_take_in(struct tree *tree)
{
	int r = 0, tries = 0;

	while (tree->rest.any && (r >= 0 || (r == -ESTALE && ++tries < 1000)))
		r = step(tree);
	return MIN(r, 0);
}

void rest_done(struct tree *tree)
{
	tree->rest.any = false;
	if (tree->rest.walk)
		reconcile_free(&tree->rest.walk->page);
	free(tree->rest.walk);
	tree->rest.walk = NULL;
}
