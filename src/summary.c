/* SPDX-License-Identifier: MIT */
#include "src/summary.h"

#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/base/tick.h"
#include "src/verb.h"

static int on_session(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	const struct summary_questions *questions = arg;

	tick(1);
	return questions->session(questions->arg, session, stat);
}

/* What others have changed and nobody has taken in yet is among the rows, and counts. */
static int ask(struct backend *backend, struct summary_questions *questions)
{
	struct backend_snapshot *snapshot;
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);

	if (r < 0)
		return r;
	r = backend->ops->session_list(backend, snapshot, on_session, questions);
	if (r == 0 && questions->day)
		r = backend->ops->day_list(backend, snapshot, questions->day, questions->arg);
	if (r == 0 && questions->day)
		r = backend->ops->space(backend, &questions->space);
	backend->ops->snapshot_end(backend, snapshot);
	return r;
}

int summary_all(const char *store, const struct options *options,
		struct summary_questions *questions)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct progress progress;
	int r = verb_open_backend(store, options, &backend);

	if (r < 0)
		return r;
	questions->backend = backend;
	progress_begin(&progress, questions->what, "sessions");
	verb_follow_store(&progress, store, questions->day ? 2 : 1);
	r = ask(backend, questions);
	progress_end(&progress);
	if (r < 0)
		log_error("%s cannot be read: %s", store, strerror(-r));
	return r;
}

static json_t *time_json(int64_t time)
{
	return time ? json_real((double)time / 1e9) : json_null();
}

void summary_add_json(json_t *object, const struct backend_session_stat *stat)
{
	json_object_set_new(object, "keys", json_integer((json_int_t)stat->keys));
	json_object_set_new(object, "items", json_integer((json_int_t)stat->items));
	json_object_set_new(object, "bytes", json_integer((json_int_t)stat->bytes));
	json_object_set_new(object, "created", time_json(stat->created));
	json_object_set_new(object, "changed", time_json(stat->updated));
}
