/* SPDX-License-Identifier: MIT */
#include "src/cmd/title.h"

#include <errno.h>

#include "fs/api/text.h"
#include "backend/base/cleanup.h"

struct titling {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	struct buf *title;
	size_t before;
	unsigned keys;
	int error;
};

static int on_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct titling *titling = arg;
	int r = text_title(data, TITLE_MOST, titling->title);

	(void)index, (void)times;
	return r < 0 ? r : titling->title->size > titling->before;
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	struct titling *titling = arg;
	struct backend *backend = titling->backend;
	int r;

	(void)stat;
	if (titling->keys++ == TITLE_KEYS)
		return 1;
	r = backend_row_read_times(backend, titling->snapshot, session, key, INT64_MIN, false,
				   TITLE_ROWS, on_row, titling);
	return r < 0 ? r : titling->title->size > titling->before;
}

int title_of(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
	     struct buf *title)
{
	struct titling titling = {
		.backend = backend,
		.snapshot = snapshot,
		.title = title,
		.before = title->size,
	};

	return backend_session_keys(backend, snapshot, session, (struct bytes){ 0 }, on_key,
				    &titling);
}
