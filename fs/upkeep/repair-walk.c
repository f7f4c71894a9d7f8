/* SPDX-License-Identifier: MIT */

/* The walk from the root: makes each entry what it is by its place, and drops what cannot be
 * there. */

#include <errno.h>
#include <string.h>

#include "fs/base/entries.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/base/sound.h"
#include "fs/inode/inodes.h"
#include "fs/upkeep/mending.h"

enum { PART = 512 };

int mend_is_free(struct mending *mending, struct bytes session, struct bytes key, uint64_t except)
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

/* The key of a state file, or its own when that is another's; session NULL: the id of a session's
 * directory.  At first the buffer holds the one that it would have. */
static int find_key(struct mending *mending, struct bytes dirs, const struct bytes *session,
		    struct bytes name, uint64_t ino, struct buf *key)
{
	const struct bytes none = { 0 };
	int r = 0;

	for (unsigned attempt = 0; r == 0 && attempt < MEND_ATTEMPTS; attempt++) {
		r = buf_reserve(key, 1);
		if (r == 0)
			r = mend_is_free(mending, session ? *session : buf_bytes(key),
					 session ? buf_bytes(key) : none, ino);
		if (r)
			return MIN(r, 0);
		buf_clear(key);
		r = names_own_key(dirs, name, attempt, key);
	}
	return r < 0 ? r : -EEXIST;
}

/* Whether an entry outside of sessions' directories is a session or a state, with the id and key
 * that it would have. */
static int judge_outside(const struct mending *mending, const struct place_dir *dir,
			 struct bytes name, bool is_dir, enum layout_is *ret_is,
			 struct buf *session, struct buf *key)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	int r;

	if (!mending->layout) {
		*ret_is = is_dir ? LAYOUT_SESSION : LAYOUT_NONE;
		return is_dir ? names_decode(NAMES_SESSION, name, session) : 0;
	}
	r = buf_join(&path, buf_bytes(&dir->path), name);
	return r < 0 ? r :
		       layout_judge(mending->layout, buf_bytes(&path), is_dir, ret_is, session,
				    key);
}

static int drop_entry(struct mending *mending, const struct place_dir *dir, uint64_t id)
{
	batch_entry_delete(&mending->batch, dir->ino, id);
	return 0;
}

/* A directory under a name: a session, above sessions, or part of the keys below it. */
static int take_directory(struct mending *mending, const struct place_dir *dir,
			  const struct entry_copy *found)
{
	_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };
	struct bytes name = entry_name(found), none = { 0 };
	struct backend_node node = found->node;
	enum layout_is is = LAYOUT_NONE;
	bool was_session = node.kind == BACKEND_SESSION && node.session.data;
	bool becomes = false;
	int r = 0;

	if (was_seen(mending, node.ino))
		return drop_entry(mending, dir, found->id);
	r = mend_see(mending, dir->ino, found->id, &found->node);
	if (r == 0 && dir->outside && !was_session && !mending->moving)
		r = judge_outside(mending, dir, name, true, &is, &session, &key);
	if (r == 0 && is == LAYOUT_SESSION) {
		r = find_key(mending, none, NULL, name, node.ino, &session);
		becomes = true;
	}
	if (r < 0)
		return r;
	if (becomes)
		node.session = buf_bytes(&session);
	else if (!was_session || (!dir->outside && !mending->moving))
		node.session = none;
	node.key = none;
	node.parent = dir->ino;
	node.entry = found->id;
	node.kind = node.session.data ? BACKEND_SESSION : BACKEND_ORDINARY;
	if (node.kind != found->node.kind || node.parent != found->node.parent ||
	    node.entry != found->node.entry || found->node.key.data || becomes) {
		mend_put_node(mending, &node);
		r = mend_commit(mending);
	}
	if (r < 0)
		return r;
	return dir->outside && node.kind != BACKEND_SESSION ?
		       mend_walk_outside(mending, node.ino, dir, name) :
		       mend_walk_later(mending, node.ino, dir->outside ? NULL : dir, node.session,
				       name);
}

/* The kind of a state with an unknown name. */
uint32_t mend_guess_kind(struct mending *mending, const struct backend_node *node)
{
	struct view *view = &mending->view;
	_cleanup_(buf_done) struct buf sidecar = { 0 };
	struct backend_key_stat stat;

	if (bytes_ends_with(node->key, names_hash_suffix))
		return BACKEND_HASH;
	if (ASK(view, key_stat, node->session, node->key, &stat) < 0 || stat.last > 0)
		return BACKEND_LIST;
	if (buf_join(&sidecar, node->key, names_hash_suffix) == 0 &&
	    ASK(view, key_stat, node->session, buf_bytes(&sidecar), &stat) == 0)
		return BACKEND_LIST;
	return BACKEND_SINGLE;
}

/* A file whose name makes it a state: of this session; key: that it would have, or NULL when that
 * follows from the directory. */
static int take_state(struct mending *mending, const struct place_dir *dir,
		      const struct entry_copy *found, uint32_t kind, struct bytes session,
		      struct buf *outside_key)
{
	_cleanup_(buf_done) struct buf key = { 0 };
	struct bytes name = entry_name(found);
	struct backend_node node = found->node;
	int r;

	if (was_seen(mending, node.ino)) /* a state file has one name */
		return drop_entry(mending, dir, found->id);
	r = mend_see(mending, dir->ino, found->id, &found->node);
	if (r < 0)
		return r;
	if (kind_is_state(node.kind) && node.key.data && node.nlink &&
	    (dir->outside || bytes_equal(node.session, session)))
		return 0;
	if (!kind_is_state(node.kind)) {
		node.kind = kind;
		/* Bytes in chunks are those of a draft. */
		node.flags = node.size ? BACKEND_DRAFT : 0;
	}
	node.session = session;
	if (!node.key.data || !bytes_equal(found->node.session, node.session) ||
	    mend_is_free(mending, node.session, node.key, node.ino) != 1) {
		r = outside_key ? buf_append_bytes(&key, buf_bytes(outside_key)) :
				  names_key(buf_bytes(&dir->dirs), name, &key);
		if (r == 0)
			r = find_key(mending, buf_bytes(&dir->dirs), &session, name, node.ino,
				     &key);
		node.key = buf_bytes(&key);
	}
	node.nlink = 1;
	if (r < 0)
		return r;
	/* At once, so that the key is taken. */
	mend_put_node(mending, &node);
	return mend_commit(mending);
}

static int take_ordinary(struct mending *mending, const struct place_dir *dir,
			 const struct entry_copy *found)
{
	struct backend_node node = found->node;

	/* It had another name or another kind. */
	if (kind_is_state(node.kind) && node.key.data)
		return drop_entry(mending, dir, found->id);
	if (node.kind != BACKEND_ORDINARY || !sound_type(node.mode)) {
		node.kind = BACKEND_ORDINARY;
		node.session = node.key = (struct bytes){ 0 };
		if (!sound_type(node.mode))
			node.mode = (node.mode & 0777) | (node.target.data ? S_IFLNK : S_IFREG);
		mend_put_node(mending, &node);
	}
	return mend_see(mending, dir->ino, found->id, &found->node);
}

/* The trash stays as it is (trash.c).  A session without its node cannot come back, so its files
 * count as files without names. */
static int take_trashed(struct mending *mending, const struct place_dir *dir,
			const struct entry_copy *found)
{
	const struct backend_node *node = &found->node;
	bool dir_or_state = S_ISDIR(node->mode) || node_is_trashed(node);
	int r;

	if ((dir_or_state && was_seen(mending, node->ino)) ||
	    (dir->ino == BACKEND_TRASH && !node_is_trashed(node)))
		return drop_entry(mending, dir, found->id);
	r = mend_see(mending, dir->ino, found->id, node);
	if (r == 0 && S_ISDIR(node->mode))
		r = mend_walk_later(mending, node->ino, NULL, (struct bytes){ 0 },
				    (struct bytes){ 0 });
	if (r == 0 && S_ISDIR(node->mode))
		mending->todo->trash = true;
	return r;
}

/* During a change of the layout the node and not the path says what a file is: the command that
 * goes on with the change needs both as they are. */
static int take_unplaced(struct mending *mending, const struct place_dir *dir,
			 const struct entry_copy *found)
{
	const struct backend_node *node = &found->node;
	uint32_t kind = names_split(entry_name(found)).kind;

	if (!S_ISREG(node->mode) || !node->session.data || !node->key.data)
		return take_ordinary(mending, dir, found);
	if (!kind_is_state(kind))
		kind = mend_guess_kind(mending, node);
	return take_state(mending, dir, found, kind, node->session, NULL);
}

static int take_file(struct mending *mending, const struct place_dir *dir,
		     const struct entry_copy *found)
{
	_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };
	struct bytes name = entry_name(found);
	uint32_t kind = names_split(name).kind;
	enum layout_is is = LAYOUT_STATE;
	int r = 0;

	if (mending->moving)
		return take_unplaced(mending, dir, found);
	if (dir->outside)
		r = judge_outside(mending, dir, name, false, &is, &session, &key);
	if (r < 0)
		return r;
	if (is != LAYOUT_STATE || !kind_is_state(kind) ||
	    (!S_ISREG(found->node.mode) && !kind_is_state(found->node.kind)))
		return take_ordinary(mending, dir, found);
	return dir->outside ? take_state(mending, dir, found, kind, buf_bytes(&session), &key) :
			      take_state(mending, dir, found, kind, buf_bytes(&dir->session), NULL);
}

static int take_entry(struct mending *mending, const struct place_dir *dir,
		      const struct entry_copy *found)
{
	struct bytes name = entry_name(found);

	if (dir->trash)
		return take_trashed(mending, dir, found);
	if (!sound_name(name) || found->node.ino == BACKEND_ROOT)
		return drop_entry(mending, dir, found->id);
	if (S_ISDIR(found->node.mode))
		return take_directory(mending, dir, found);
	return take_file(mending, dir, found);
}

static int keep_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct entries *part = arg;
	int r = entries_add(part, entry, node);

	return r < 0 ? r : part->count == PART;
}

/* 1 when there are more. */
static int walk_part(struct mending *mending, const struct place_dir *dir, uint64_t *after)
{
	_cleanup_(entries_done) struct entries part = { 0 };
	struct view *view = &mending->view;
	int r = ASK(view, entry_list, dir->ino, *after, keep_entry, &part);

	for (size_t i = 0; i < part.count; i++) {
		if (r == 0)
			r = take_entry(mending, dir, &part.item[i]);
		*after = part.item[i].id;
	}
	if (r == 0)
		r = mend_commit(mending);
	return r < 0 ? r : part.count == PART;
}

int mend_walk(struct mending *mending)
{
	int r = 0;

	while (r == 0 && mending->todo) {
		_cleanup_(place_dir_freep) struct place_dir *dir = mending->todo;
		uint64_t after = 0;

		mending->todo = dir->next;
		while ((r = walk_part(mending, dir, &after)) > 0)
			;
	}
	return r;
}
