/* SPDX-License-Identifier: MIT */
/*
 * The operations of a session store, on rows.
 *
 * The library is not a second filesystem.  A mount owns its store, and keeps nodes, marks and
 * pieces that fit the rows.  A program that changes rows beside it is "another program": the store
 * logs its changes (backend/backend.h), and the mount takes them in; without a mount, the next one
 * does.  The library opens its stores with rows_only, and so is one of the other programs.  The
 * usual triggers log its changes, and it needs neither the tree (fs/) nor any knowledge of what a
 * mount keeps.
 *
 * Why that is safe:
 *
 *   - Each change is one batch.  A batch is one transaction that takes the store's write lock
 *     before it reads anything (BEGIN IMMEDIATE; it waits for at most ten seconds).  A batch says
 *     what the rows become, not how they change: "this text at index i", "nothing from n on".  So
 *     no earlier read can be out of date, no update is lost, and a list never mixes two saves.
 *   - BACKEND_ROW_PUT does not touch a row that is equal, so a save of a whole list writes only the
 *     rows that differ, and the mount is notified only of those.
 *   - A list is compared before it is saved, to spare an equal list its transaction.  If it changes
 *     meanwhile, the save took place at the moment of the comparison.
 *
 * The sidecar of a list
 *
 *   AgentScope keeps a hash of a list beside it, in the row (session, key:_hash, 0).  It appends
 *   rows as long as the list in its memory has that hash; otherwise it writes all of them anew.
 *   The hash is made of objects in its memory and cannot be computed from the rows.  So a list that
 *   the library changes gets a hash of another kind, longer than any of AgentScope's, and
 *   AgentScope sees that the list has changed; an unchanged list keeps its hash.  The sidecar also
 *   tells a list of one item, or of none, from a state that is not a list.
 */
#include "src/lib/sessfs.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "fs/base/json.h"
#include "src/lib/view.h"
#include "src/lib/why.h"

static const char empty_hash[] = "empty:0"; /* as AgentScope has it */

int sessfs_open(const char *store, const char *table, unsigned flags, struct sessfs **ret_sessfs)
{
	const struct backend_options options = { .table = table,
						 .read_only = flags & SESSFS_READ_ONLY,
						 .create = flags & SESSFS_CREATE,
						 .rows_only = true };
	_cleanup_(freep) struct sessfs *sessfs = calloc(1, sizeof(*sessfs));
	_cleanup_(freep) char *why = NULL;
	int r;

	why_begin();
	if (!store || !*store)
		return why_refuse(-EINVAL, "the path of the store is empty");
	if (!sessfs)
		return why_result(-ENOMEM, "%s", store);
	r = backend_open(store, &options, &sessfs->backend, &why);
	if (r < 0)
		return why ? why_refuse(r, "%s", why) : why_result(r, "%s", store);
	why_begin(); /* forget the errors that did not matter in the end */
	*ret_sessfs = steal_ptr(sessfs);
	return 0;
}

void sessfs_close(struct sessfs *sessfs)
{
	if (!sessfs)
		return;
	sessfs_sync(sessfs);
	backend_close(sessfs->backend);
	free(sessfs);
}

int sessfs_sync(struct sessfs *sessfs)
{
	why_begin();
	return why_result(sessfs->backend->ops->sync(sessfs->backend), "the store");
}

static struct bytes item_bytes(const struct sessfs_item *item)
{
	return bytes_make(item->data, item->size);
}

static int check_items(const struct name *name, const struct sessfs_item *items, size_t count)
{
	struct json_error error;

	if (!items && count)
		return why_refuse(-EINVAL, NAMED ": the items are NULL", SHOWN_NAME(name));
	for (size_t i = 0; i < count; i++) {
		if (!items[i].data)
			return why_refuse(-EINVAL, NAMED ", item %zu: the text is NULL",
					  SHOWN_NAME(name), i);
		if (!json_valid(item_bytes(&items[i]), &error))
			return why_refuse(-EINVAL, NAMED ", item %zu: not JSON at byte %zu: %s",
					  SHOWN_NAME(name), i, error.offset, error.reason);
	}
	return 0;
}

/* Reading. */

static int read_rows(struct sessfs *sessfs, const char *session, const char *key,
		     backend_row_fn *fn, void *arg)
{
	_cleanup_(lib_view_end) struct view view = { 0 };
	struct name name;
	int r;

	why_begin();
	r = name_take(session, key, &name);
	if (r == 0)
		r = lib_view_begin(sessfs, &view);
	if (r == 0)
		r = VIEW_ASK(&view, row_read, name.session, name.key, INT64_MIN, fn, arg);
	return why_result(r, "the rows cannot be read");
}

struct getting {
	char *json;
	size_t size;
};

static int keep_first(void *arg, int64_t index, struct bytes data)
{
	struct getting *getting = arg;

	if (index < 0)
		return 0;
	if (index > 0)
		return 1;
	getting->json = bytes_dup(data);
	getting->size = data.size;
	return getting->json ? 1 : -ENOMEM;
}

int sessfs_get(struct sessfs *sessfs, const char *session, const char *key, char **ret_json,
	       size_t *ret_size)
{
	struct getting getting = { 0 };
	int r = read_rows(sessfs, session, key, keep_first, &getting);

	if (r < 0)
		return r;
	if (!getting.json)
		return why_refuse(-ENOENT, NAMED ": there is no such state",
				  SHOWN(bytes_str(session)), SHOWN(bytes_str(key)));
	*ret_json = getting.json;
	if (ret_size)
		*ret_size = getting.size;
	return 0;
}

struct handing_out {
	sessfs_item_fn *fn;
	void *arg;
	size_t next;
};

static int hand_out_row(void *arg, int64_t index, struct bytes data)
{
	struct handing_out *out = arg;

	(void)index;
	return out->fn(out->arg, out->next++, data.data, data.size);
}

int sessfs_get_list(struct sessfs *sessfs, const char *session, const char *key, sessfs_item_fn *fn,
		    void *arg)
{
	struct handing_out out = { .fn = fn, .arg = arg };

	return read_rows(sessfs, session, key, hand_out_row, &out);
}

/* Keys of a session, and sessions. */

/* Calls fn for each key of the session, and perhaps for a key of the next one, at which fn must
 * stop. */
static int view_session(struct view *view, struct bytes session, backend_key_fn *fn, void *arg)
{
	/* SQL may have an empty key, and a listing begins behind the key that it is given. */
	int r = lib_view_has(view, session, BYTES(""));

	if (r > 0)
		r = fn(arg, session, BYTES(""), NULL);
	if (r != 0)
		return MIN(r, 0);
	return VIEW_ASK(view, key_list, session, BYTES(""), fn, arg);
}

struct searching {
	struct bytes session;
	bool found;
};

static int find_session(void *arg, struct bytes session, struct bytes key,
			const struct backend_key_stat *stat)
{
	struct searching *searching = arg;

	(void)key;
	(void)stat;
	searching->found = bytes_equal(session, searching->session);
	return 1;
}

int sessfs_exists(struct sessfs *sessfs, const char *session)
{
	_cleanup_(lib_view_end) struct view view = { 0 };
	struct searching searching = { 0 };
	int r;

	why_begin();
	r = name_take_id(session, "session", &searching.session);
	if (r == 0)
		r = lib_view_begin(sessfs, &view);
	if (r == 0)
		r = view_session(&view, searching.session, find_session, &searching);
	return r < 0 ? why_result(r, "the session cannot be looked up") : searching.found;
}

struct listing {
	sessfs_session_fn *fn;
	void *arg;
	struct buf *last; /* the session that was reported last, with a NUL behind it */
};

static int list_session(void *arg, struct bytes session, struct bytes key,
			const struct backend_key_stat *stat)
{
	struct listing *listing = arg;
	struct buf *last = listing->last;
	int r;

	(void)key;
	(void)stat;
	if (last->size && bytes_equal(session, bytes_make(last->data, last->size - 1)))
		return 0;
	buf_clear(last);
	r = buf_join(last, session, BYTES("\0"));
	if (r < 0 || strlen(last->data) < session.size)
		return r;
	return listing->fn(listing->arg, last->data);
}

int sessfs_list_sessions(struct sessfs *sessfs, sessfs_session_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf last = { 0 };
	struct listing listing = { .fn = fn, .arg = arg, .last = &last };
	_cleanup_(lib_view_end) struct view view = { 0 };
	const struct bytes all = { 0 };
	int r;

	why_begin();
	r = lib_view_begin(sessfs, &view);
	if (r == 0)
		r = VIEW_ASK(&view, key_list, all, all, list_session, &listing);
	return why_result(r, "the sessions cannot be listed");
}

/* Writing. */

static struct backend_op row_put(const struct name *name, int64_t index, struct bytes data,
				 bool single)
{
	return (struct backend_op){ .type = BACKEND_ROW_PUT,
				    .session = name->session,
				    .key = name->key,
				    .at = index,
				    .data = data,
				    .version = single };
}

static struct backend_op rows_delete(const struct name *name, int64_t first, int64_t last)
{
	return (struct backend_op){ .type = BACKEND_ROW_DELETE,
				    .session = name->session,
				    .key = name->key,
				    .at = first,
				    .to = last };
}

enum { BLOCK = 64 }; /* operations that are handed to the store at a time */

/* The operations, handed on in blocks, that give a key exactly these items. */
struct replacing {
	struct name name;
	const struct sessfs_item *items;
	size_t count;
	bool single;
	struct backend_op tail[3]; /* behind the items: other rows go, and the sidecar */
	size_t next;		   /* operation, the tail's included */
	struct backend_op block[BLOCK];
};

static int replacing_more(struct backend_batch *batch)
{
	struct replacing *replacing = batch->arg;
	size_t end = replacing->count + ARRAY_SIZE(replacing->tail);

	batch->ops = replacing->block;
	for (batch->count = 0; batch->count < BLOCK && replacing->next < end; batch->count++) {
		size_t i = replacing->next++;

		replacing->block[batch->count] =
			i >= replacing->count ?
				replacing->tail[i - replacing->count] :
				row_put(&replacing->name, (int64_t)i,
					item_bytes(&replacing->items[i]), replacing->single);
	}
	return batch->count > 0;
}

static void replacing_again(struct backend_batch *batch)
{
	struct replacing *replacing = batch->arg;

	replacing->next = 0;
	replacing_more(batch);
}

static int replace(struct sessfs *sessfs, struct replacing *replacing,
		   const struct backend_op *sidecar_op)
{
	struct backend_batch batch = { .arg = replacing };

	replacing->tail[0] = rows_delete(&replacing->name, (int64_t)replacing->count, INT64_MAX);
	replacing->tail[1] = rows_delete(&replacing->name, INT64_MIN, -1);
	replacing->tail[2] = *sidecar_op;
	replacing_again(&batch);
	if (batch.count == BLOCK) {
		batch.more = replacing_more;
		batch.rewind = replacing_again;
	}
	return lib_view_change(sessfs, &batch, 0);
}

/* The name of the sidecar; its key's bytes are in key. */
static int sidecar_name(const struct name *list, struct buf *key, struct name *ret_name)
{
	int r = buf_join(key, list->key, SIDECAR);

	if (r == 0)
		*ret_name = (struct name){ list->session, buf_bytes(key) };
	return r;
}

int sessfs_save(struct sessfs *sessfs, const char *session, const char *key, const char *json,
		size_t size)
{
	const struct sessfs_item item = { json, size };
	struct replacing replacing = { .items = &item, .count = 1, .single = true };
	_cleanup_(buf_done) struct buf sidecar_key = { 0 };
	struct backend_op no_sidecar;
	struct name beside = { 0 };
	int r;

	why_begin();
	r = name_take_state(session, key, &replacing.name);
	if (r == 0)
		r = check_items(&replacing.name, &item, 1);
	if (r == 0)
		r = sidecar_name(&replacing.name, &sidecar_key, &beside);
	if (r < 0)
		return why_result(r, "nothing was saved");
	no_sidecar = rows_delete(&beside, INT64_MIN, INT64_MAX);
	r = replace(sessfs, &replacing, &no_sidecar);
	return why_result(r, NAMED, SHOWN_NAME(&replacing.name));
}

struct comparing {
	const struct replacing *list;
	size_t next;
	bool same; /* so far */
};

static int compare_row(void *arg, int64_t index, struct bytes data)
{
	struct comparing *comparing = arg;
	const struct replacing *list = comparing->list;
	size_t next = comparing->next++;

	comparing->same = next < list->count && index == (int64_t)next &&
			  bytes_equal(data, item_bytes(&list->items[next]));
	return comparing->same ? 0 : 1;
}

/* 1 when the store has exactly this list, or 0. */
static int is_saved(struct sessfs *sessfs, const struct replacing *list, const struct name *beside)
{
	struct comparing comparing = { .list = list, .same = true };
	_cleanup_(lib_view_end) struct view view = { 0 };
	int r = lib_view_begin_anew(sessfs, &view);

	if (r == 0)
		r = VIEW_ASK(&view, row_read, list->name.session, list->name.key, INT64_MIN,
			     compare_row, &comparing);
	if (r < 0 || !comparing.same || comparing.next != list->count)
		return r;
	return lib_view_has(&view, beside->session, beside->key);
}

enum { HASH_SIZE = 2 * DIGEST_SIZE + 1 };

/* The digest of each item is the key of the next one's. */
static void hash_items(const struct sessfs_item *items, size_t count, char hash[HASH_SIZE])
{
	uint8_t digest[DIGEST_SIZE] = { 0 };

	snprintf(hash, HASH_SIZE, "%s", empty_hash);
	for (size_t i = 0; i < count; i++)
		digest_make(digest, item_bytes(&items[i]), digest);
	if (count)
		bytes_hex(bytes_make(digest, DIGEST_SIZE), hash);
}

static int save_list(struct sessfs *sessfs, struct replacing *list)
{
	_cleanup_(buf_done) struct buf sidecar_key = { 0 };
	struct backend_op with_sidecar;
	char hash[HASH_SIZE];
	struct name beside = { 0 };
	int r = sidecar_name(&list->name, &sidecar_key, &beside);

	if (r == 0)
		r = is_saved(sessfs, list, &beside);
	if (r != 0)
		return MIN(r, 0);
	hash_items(list->items, list->count, hash);
	with_sidecar = row_put(&beside, 0, bytes_str(hash), false);
	return replace(sessfs, list, &with_sidecar);
}

int sessfs_save_list(struct sessfs *sessfs, const char *session, const char *key,
		     const struct sessfs_item *items, size_t count)
{
	struct replacing list = { .items = items, .count = count };
	int r;

	why_begin();
	r = name_take_state(session, key, &list.name);
	if (r == 0)
		r = check_items(&list.name, items, count);
	if (r == 0)
		r = save_list(sessfs, &list);
	return why_result(r, NAMED, SHOWN_NAME(&list.name));
}

/* Deleting. */

struct deleting {
	struct bytes session;
	struct backend_op *ops; /* that own the bytes of their keys */
	size_t count;
	size_t room;
};

static int delete_found(void *arg, struct bytes session, struct bytes key,
			const struct backend_key_stat *stat)
{
	struct deleting *deleting = arg;
	struct name name = { deleting->session, { NULL, key.size } };

	(void)stat;
	if (!bytes_equal(session, deleting->session))
		return 1;
	if (ARRAY_ROOM(deleting->ops, deleting->count, deleting->room) < 0)
		return -ENOMEM;
	name.key.data = bytes_dup(key);
	if (!name.key.data)
		return -ENOMEM;
	deleting->ops[deleting->count++] = rows_delete(&name, INT64_MIN, INT64_MAX);
	return 0;
}

static void deleting_done(struct deleting *deleting)
{
	for (size_t i = 0; i < deleting->count; i++)
		free((char *)deleting->ops[i].key.data);
	free(deleting->ops);
}

static int find_keys(struct sessfs *sessfs, struct deleting *deleting)
{
	_cleanup_(lib_view_end) struct view view = { 0 };
	int r = lib_view_begin_anew(sessfs, &view);

	return r < 0 ? r : view_session(&view, deleting->session, delete_found, deleting);
}

static int commit_deletion(struct sessfs *sessfs, const struct backend_op *ops, size_t count)
{
	struct backend_batch batch = { .ops = ops, .count = count };
	int r = lib_view_change(sessfs, &batch, BACKEND_FREES);

	return why_result(r, "nothing was deleted");
}

int sessfs_delete_session(struct sessfs *sessfs, const char *session)
{
	_cleanup_(deleting_done) struct deleting deleting = { 0 };
	int r;

	why_begin();
	r = name_take_id(session, "session", &deleting.session);
	if (r == 0)
		r = find_keys(sessfs, &deleting);
	if (r < 0)
		return why_result(r, "nothing was deleted");
	return commit_deletion(sessfs, deleting.ops, deleting.count);
}

int sessfs_delete_key(struct sessfs *sessfs, const char *session, const char *key)
{
	_cleanup_(buf_done) struct buf sidecar_key = { 0 };
	struct name name, beside;
	int r;

	why_begin();
	r = name_take_state(session, key, &name);
	if (r == 0)
		r = sidecar_name(&name, &sidecar_key, &beside);
	if (r < 0)
		return why_result(r, "nothing was deleted");

	return commit_deletion(sessfs,
			       (const struct backend_op[]){
				       rows_delete(&name, INT64_MIN, INT64_MAX),
				       rows_delete(&beside, INT64_MIN, INT64_MAX) },
			       2);
}
