/* SPDX-License-Identifier: MIT */

/*
 * What is asked of keys before they are taken in: of all of them together, since to a store on a
 * server each question is a round trip.  It holds until the next commit; behind that, keys are
 * looked at one by one.
 */

#include <errno.h>

#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/share/reconcile.h"

enum { QUESTIONS = 3 }; /* of a key: it, its sidecar, its session */

/* The way to a session's directory. */
struct way {
	struct buf path;
	struct bytes rest; /* behind what was found */
	uint64_t dir;	   /* of that */
	bool missing;
	bool arrived;
};

static int way_begin(struct way *way, uint64_t layout, struct bytes session)
{
	int r = layout ? layout_session(layout, session, &way->path) :
			 names_encode(NAMES_SESSION, session, NAME_LIMIT, &way->path);

	way->rest = buf_bytes(&way->path);
	way->dir = BACKEND_ROOT;
	return r;
}

/* One name further on all ways, in one question; how many have asked. */
static int ways_go(struct view *view, struct way *ways, size_t count)
{
	struct backend_looked looked[LOOK_KEYS] = { 0 };
	bool more[LOOK_KEYS];
	size_t of[LOOK_KEYS], asked = 0;
	int r;

	for (size_t i = 0; i < count; i++) {
		if (ways[i].missing || ways[i].arrived)
			continue;
		looked[asked].parent = ways[i].dir;
		more[asked] = names_cut(&ways[i].rest, &looked[asked].name);
		of[asked++] = i;
	}
	r = asked ? backend_entry_look(view->backend, view->snapshot, looked, asked) : 0;
	for (size_t i = 0; r == 0 && i < asked; i++) {
		ways[of[i]].missing = looked[i].error == -ENOENT;
		ways[of[i]].arrived = !more[i];
		if (!looked[i].error)
			ways[of[i]].dir = looked[i].node.ino;
	}
	if (r == 0)
		backend_looked_done(looked, asked);
	return r < 0 ? r : (int)asked;
}

/* Which sessions have nothing in the place of their directory. */
static int look_at_places(struct reconciling *reconciling, struct changed_key *keys, size_t count)
{
	struct way ways[LOOK_KEYS] = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (keys[i].no_session)
			r = way_begin(&ways[i], reconciling->tree->layout, key_session(&keys[i]));
		else
			ways[i].arrived = true;
	}
	if (r == 0)
		while ((r = ways_go(&reconciling->view, ways, count)) > 0)
			;
	for (size_t i = 0; i < count; i++) {
		keys[i].no_session = ways[i].missing;
		buf_done(&ways[i].path);
	}
	return r;
}

/* The directory of a key's session, which is there. */
static int look_for_dir(struct reconciling *reconciling, struct changed_key *keys, size_t i)
{
	struct view *view = &reconciling->view;
	struct bytes none = { 0 };
	struct backend_node node;
	int r;

	for (size_t j = 0; j < i; j++) {
		if (keys[j].dir && bytes_equal(key_session(&keys[j]), key_session(&keys[i]))) {
			keys[i].dir = keys[j].dir;
			return 0;
		}
	}
	r = ASK(view, node_find, key_session(&keys[i]), none, &node);
	if (r < 0)
		return r;
	keys[i].dir = node.ino;
	backend_node_done(&node);
	return 0;
}

/* The only name of a file's path. */
static int take_name(void *arg, struct bytes name, bool last)
{
	return last ? buf_append_bytes(arg, name) : 1;
}

/* Which files that are to be made have a directory, and no other one their name there. */
static int look_at_names(struct reconciling *reconciling, struct changed_key *keys, size_t count)
{
	const struct view *view = &reconciling->view;
	struct backend_looked looked[LOOK_KEYS] = { 0 };
	struct buf names[LOOK_KEYS] = { 0 };
	size_t of[LOOK_KEYS], asked = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < count; i++) {
		if (keys[i].no_session || keys[i].no_rows || !keys[i].no_file)
			continue;
		r = look_for_dir(reconciling, keys, i);
		if (r == 0)
			r = names_path(key_key(&keys[i]), keys[i].kind, 0, take_name,
				       &names[asked]);
		if (r != 0)
			continue;
		looked[asked].parent = keys[i].dir;
		looked[asked].name = buf_bytes(&names[asked]);
		of[asked++] = i;
	}
	if (r >= 0 && asked)
		r = backend_entry_look(view->backend, view->snapshot, looked, asked);
	for (size_t i = 0; r >= 0 && i < asked; i++)
		keys[of[i]].no_name = looked[i].error == -ENOENT;
	if (r >= 0 && asked)
		backend_looked_done(looked, asked);
	for (size_t i = 0; i < count; i++)
		buf_done(&names[i]);
	return r;
}

static int ask_of_key(const struct changed_key *key, struct buf *sidecar,
		      struct backend_key_looked looked[QUESTIONS])
{
	const bool kind = !key->has_kind && !bytes_ends_with(key_key(key), names_hash_suffix);
	int r = buf_append_bytes(sidecar, key_key(key));

	if (r == 0)
		r = buf_append_bytes(sidecar, names_hash_suffix);
	looked[0] = (struct backend_key_looked){
		.session = key_session(key),
		.key = key_key(key),
		.wanted = BACKEND_KEY_NODE | BACKEND_KEY_ORPHAN |
			  (key->has_stat ? 0 : BACKEND_KEY_ROWS),
	};
	looked[1] = (struct backend_key_looked){
		.session = key_session(key),
		.key = buf_bytes(sidecar),
		.wanted = kind ? BACKEND_KEY_ROWS : 0,
	};
	looked[2] = (struct backend_key_looked){
		.session = key_session(key),
		.wanted = BACKEND_KEY_NODE,
	};
	return r;
}

static void take_answers(struct changed_key *key, const struct backend_key_looked *looked)
{
	const bool hash = bytes_ends_with(key_key(key), names_hash_suffix);

	key->no_rows = !key->has_stat && !(looked[0].found & BACKEND_KEY_ROWS);
	key->no_file = !(looked[0].found & BACKEND_KEY_NODE);
	key->no_orphan = !(looked[0].found & BACKEND_KEY_ORPHAN);
	key->no_session = !(looked[2].found & BACKEND_KEY_NODE);
	/* Perhaps it was looked at before. */
	key->no_name = false;
	key->dir = 0;
	if (!key->has_stat)
		key->stat = looked[0].stat;
	if (!key->has_kind)
		key->kind = hash ? BACKEND_HASH :
			    key->stat.list || key->stat.first || key->stat.last || looked[1].found ?
				   BACKEND_LIST :
				   BACKEND_SINGLE;
}

int reconcile_look(struct reconciling *reconciling, size_t first, size_t end)
{
	struct changed_key *keys = reconciling->keys + first;
	struct backend_key_looked looked[LOOK_KEYS][QUESTIONS] = { 0 };
	struct buf sidecars[LOOK_KEYS] = { 0 };
	const struct view *view = &reconciling->view;
	const size_t count = end - first;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = ask_of_key(&keys[i], &sidecars[i], looked[i]);
	if (r == 0)
		r = backend_key_look(view->backend, view->snapshot, looked[0], QUESTIONS * count);
	for (size_t i = 0; r == 0 && i < count; i++)
		take_answers(&keys[i], looked[i]);
	for (size_t i = 0; i < count; i++)
		buf_done(&sidecars[i]);
	/* In a layout a file may lie elsewhere. */
	if (r == 0 && !reconciling->tree->layout)
		r = look_at_names(reconciling, keys, count);
	if (r >= 0)
		r = look_at_places(reconciling, keys, count);
	for (size_t i = 0; r == 0 && i < count; i++)
		keys[i].looked = reconciling->views;
	return r;
}
