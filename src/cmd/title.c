/* SPDX-License-Identifier: MIT */
#include "src/cmd/title.h"

#include <errno.h>

#include "fs/api/text.h"
#include "fs/api/trash.h"
#include "fs/base/packed.h"

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

static int on_line(void *arg, int64_t index, struct bytes line)
{
	return index < TITLE_ROWS ? on_row(arg, index, (struct backend_times){ 0 }, line) : 1;
}

/* What cannot be read has no title. */
static int title_packed(struct titling *titling, uint64_t layout, struct bytes session)
{
	struct backend *backend = titling->backend;
	struct backend_node node;
	int r = session_packed(backend, titling->snapshot, layout, session, &node);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = packed_read(backend, titling->snapshot, &node, on_line, titling);
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

	int r = backend_session_keys(backend, snapshot, session, (struct bytes){ 0 }, on_key,
				     &titling);

	return r == 0 && !titling.keys ? title_packed(&titling, layout, session) : r;
}
