/* SPDX-License-Identifier: MIT */
#include "src/cmd/summary.h"

#include <errno.h>
#include <string.h>

#include "fs/api/text.h"
#include "fs/api/trash.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/base/packed.h"
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
	_cleanup_(store_look_done) struct store_look look = { 0 };
	struct asking asking = { .questions = questions };
	int r = store_look(backend, BACKEND_LATEST, &look);

	asking.snapshot = look.snapshot;
	if (r == 0)
		r = backend_session_list(backend, look.snapshot, on_session, questions);
	if (r == 0)
		r = packed_list(backend, look.snapshot, questions->layout, on_packed, &asking);
	if (r == 0 && questions->day)
		r = backend_day_list(backend, look.snapshot, questions->day, questions->arg);
	store_look_done(&look);
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
	int r = store_open_backend(store, options, &settings, &backend);

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
	_cleanup_(store_look_done) struct store_look look = { 0 };
	int r = store_look(questions->backend, BACKEND_LATEST, &look);

	return r < 0 ? r : home_path(look.backend, look.snapshot, questions->layout, session, name);
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

/* 1: it has a file, or will have one. */
static int is_seen(void *arg, struct bytes session, struct bytes key,
		   const struct backend_key_stat *stat)
{
	const struct store_look *look = arg;
	struct backend_node node;
	int r = look->backend->ops->node_find(look->backend, look->snapshot, session, key, &node);
	bool seen = r == 0 && node.nlink > 0;

	(void)stat;
	if (r == 0)
		backend_node_done(&node);
	if (seen || (r < 0 && r != -ENOENT))
		return seen ? 1 : r;
	r = backend_orphan_find(look->backend, look->snapshot, session, key, &node);
	if (r == 0)
		backend_node_done(&node);
	return r == -ENOENT ? 1 : r;
}

int summary_is_going(const struct summary_questions *questions, struct bytes session)
{
	_cleanup_(store_look_done) struct store_look look = { 0 };
	const struct bytes all = { 0 };
	struct backend_node node;
	int r = store_look(questions->backend, BACKEND_LATEST, &look);

	if (r == 0)
		r = look.backend->ops->node_find(look.backend, look.snapshot, session, all, &node);
	if (r == 0) {
		backend_node_done(&node);
		return 0;
	}
	if (r == -ENOENT)
		r = backend_session_keys(look.backend, look.snapshot, session, all, is_seen, &look);
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

/* ---- Titles ---- */

struct titling {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	struct buf *title;
	size_t before;
	unsigned keys;
};

static int on_title_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct titling *titling = arg;
	int r = text_title(data, TITLE_MOST, titling->title);

	(void)index, (void)times;
	return r < 0 ? r : titling->title->size > titling->before;
}

static int on_title_key(void *arg, struct bytes session, struct bytes key,
			const struct backend_key_stat *stat)
{
	struct titling *titling = arg;
	struct backend *backend = titling->backend;
	int r;

	(void)stat;
	if (titling->keys++ == TITLE_KEYS)
		return 1;
	r = backend_row_read_times(backend, titling->snapshot, session, key, INT64_MIN, false,
				   TITLE_ROWS, on_title_row, titling);
	return r < 0 ? r : titling->title->size > titling->before;
}

static int on_title_line(void *arg, int64_t index, struct bytes line)
{
	return index < TITLE_ROWS ? on_title_row(arg, index, (struct backend_times){ 0 }, line) : 1;
}

/* What cannot be read has no title. */
static int title_packed(struct titling *titling, uint64_t layout, struct bytes session)
{
	struct backend *backend = titling->backend;
	struct backend_node node;
	int r = session_packed(backend, titling->snapshot, layout, session, &node);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = packed_read(backend, titling->snapshot, &node, on_title_line, titling);
	backend_node_done(&node);
	return r == -EBADMSG || r == -EOPNOTSUPP ? 0 : r;
}

int title_of(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
	     struct bytes session, struct buf *title)
{
	struct titling titling = {
		.backend = backend,
		.snapshot = snapshot,
		.title = title,
		.before = title->size,
	};

	int r = backend_session_keys(backend, snapshot, session, (struct bytes){ 0 }, on_title_key,
				     &titling);

	return r == 0 && !titling.keys ? title_packed(&titling, layout, session) : r;
}
