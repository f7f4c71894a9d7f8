/* SPDX-License-Identifier: MIT */
#include "src/cmd/summary.h"

#include <errno.h>
#include <string.h>

#include "fs/api/trash.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "src/cmd/cmd.h"

static int on_session(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	const struct summary_questions *questions = arg;

	tick(1);
	return questions->session(questions->arg, session, stat);
}

struct asking {
	const struct summary_questions *questions;
	struct backend_snapshot *snapshot;
};

/* A session that has no rows now, since its client has packed its transcript.  If that was a moment
 * ago, the rows are still there, and it has been reported with them. */
static int on_packed(void *arg, struct bytes path, const struct backend_node *node)
{
	const struct asking *asking = arg;
	const struct summary_questions *questions = asking->questions;
	const struct backend_session_stat stat = {
		.keys = 1, .bytes = node->size, .created = node->btime, .updated = node->mtime
	};
	struct backend_session_stat rows;
	int r;

	(void)path;
	tick(1);
	r = backend_session_stat(questions->backend, asking->snapshot, node->session, &rows);
	return r != -ENOENT ? r : questions->session(questions->arg, node->session, &stat);
}

/* Rows that others have changed and no mount has taken in yet count, too. */
static int ask_rows(struct backend *backend, struct summary_questions *questions)
{
	struct asking asking = { .questions = questions };
	struct backend_snapshot *snapshot;
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY | BACKEND_LATEST, &snapshot);

	if (r < 0)
		return r;
	asking.snapshot = snapshot;
	r = backend_session_list(backend, snapshot, on_session, questions);
	if (r == 0)
		r = packed_list(backend, snapshot, questions->layout, on_packed, &asking);
	if (r == 0 && questions->day)
		r = backend_day_list(backend, snapshot, questions->day, questions->arg);
	backend->ops->snapshot_end(backend, snapshot);
	if (r == 0 && questions->day)
		r = backend->ops->space(backend, &questions->space);
	return r;
}

int summary_all(const char *store, const struct options *options,
		struct summary_questions *questions)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct settings settings;
	struct progress progress;
	int r = store_open_backend(store, options, &backend);

	if (r < 0)
		return r;
	r = store_settings(backend, &settings, NULL);
	if (r < 0)
		return r;
	questions->backend = backend;
	questions->layout = settings.value[SETTING_LAYOUT];
	progress_begin(&progress, questions->what, "session");
	store_follow(&progress, store, questions->day ? 2 : 1);
	r = ask_rows(backend, questions);
	progress_end(&progress);
	if (r < 0)
		log_error("%s cannot be read: %s", store, strerror(-r));
	return r;
}

static int find_path(const struct summary_questions *questions, struct bytes session,
		     struct buf *name)
{
	struct backend *backend = questions->backend;
	struct backend_snapshot *snapshot;
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY | BACKEND_LATEST, &snapshot);

	if (r < 0)
		return r;
	r = home_path(backend, snapshot, questions->layout, session, name);
	backend->ops->snapshot_end(backend, snapshot);
	return r;
}

static int new_name(const struct summary_questions *questions, struct bytes session,
		    struct buf *name)
{
	return questions->layout ? layout_session(questions->layout, session, name) :
				   names_encode(NAMES_SESSION, session, NAME_LIMIT, name);
}

/* Without a layout, only an id that would be escaped may have another name: one that somebody gave
 * to a directory. */
int summary_name(const struct summary_questions *questions, struct bytes session, struct buf *name)
{
	int r = new_name(questions, session, name);

	if (r < 0 || (!questions->layout && bytes_equal(buf_bytes(name), session)))
		return r;
	buf_clear(name);
	r = find_path(questions, session, name);
	return r == -ENOENT ? new_name(questions, session, name) : r;
}

struct going {
	struct backend *backend;
	struct backend_snapshot *snapshot;
};

/* 1: it has a file, or will have one. */
static int is_seen(void *arg, struct bytes session, struct bytes key,
		   const struct backend_key_stat *stat)
{
	const struct going *going = arg;
	struct backend_node node;
	int r = going->backend->ops->node_find(going->backend, going->snapshot, session, key,
					       &node);
	bool seen = r == 0 && node.nlink > 0;

	(void)stat;
	if (r == 0)
		backend_node_done(&node);
	if (seen || (r < 0 && r != -ENOENT))
		return seen ? 1 : r;
	r = backend_orphan_find(going->backend, going->snapshot, session, key, &node);
	if (r == 0)
		backend_node_done(&node);
	return r == -ENOENT ? 1 : r;
}

int summary_is_going(const struct summary_questions *questions, struct bytes session)
{
	struct going going = { .backend = questions->backend };
	struct backend_node node;
	int r = going.backend->ops->snapshot_begin(going.backend, BACKEND_ANYWAY | BACKEND_LATEST,
						   &going.snapshot);

	if (r < 0)
		return r;
	r = going.backend->ops->node_find(going.backend, going.snapshot, session,
					  (struct bytes){ 0 }, &node);
	if (r == 0)
		backend_node_done(&node);
	r = r == 0	 ? 1 :
	    r == -ENOENT ? backend_session_keys(going.backend, going.snapshot, session,
						(struct bytes){ 0 }, is_seen, &going) :
			   r;
	going.backend->ops->snapshot_end(going.backend, going.snapshot);
	return r < 0 ? r : !r;
}

void summary_add(struct backend_session_stat *sum, const struct backend_session_stat *stat)
{
	sum->keys += stat->keys;
	sum->items += stat->items;
	sum->bytes += stat->bytes;
	if (stat->created && (!sum->created || stat->created < sum->created))
		sum->created = stat->created;
	sum->updated = MAX(sum->updated, stat->updated);
}

json_t *summary_time_json(int64_t time)
{
	return time ? json_real((double)time / 1e9) : json_null();
}

void summary_add_json(json_t *object, const struct backend_session_stat *stat)
{
	json_t *more = json_pack("{sI sI sI so so}", "keys", stat->keys, "items", stat->items,
				 "bytes", stat->bytes, "created", summary_time_json(stat->created),
				 "changed", summary_time_json(stat->updated));

	json_object_update(object, more);
	json_decref(more);
}
