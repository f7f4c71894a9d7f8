/* SPDX-License-Identifier: MIT */
#include "fs/base/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_LIBZSTD
#include <zstd.h>
#endif

#include "fs/base/json.h"
#include "fs/base/layout.h"
#include "fs/base/layouts.h"
#include "fs/base/lines.h"
#include "backend/base/cleanup.h"

/* ---- Paths ---- */

uint64_t packed_layouts(uint64_t layouts_set)
{
	uint64_t set = 0;

	for (size_t i = 0; i < LAYOUT_COUNT; i++)
		for (size_t j = 0; j < LAYOUT_PATTERNS; j++)
			if (layouts[i].patterns[j].path && layouts[i].patterns[j].packed)
				set |= UINT64_C(1) << layouts[i].bit;
	return set & layouts_set;
}

int packed_judge(uint64_t set, struct bytes path, struct buf *session, struct buf *key)
{
	enum layout_is is;
	int r;

	if (!packed_layouts(set) || !bytes_ends_with(path, BYTES(PACKED_SUFFIX)))
		return 0;
	path.size -= strlen(PACKED_SUFFIX);
	r = layout_judge(packed_layouts(set), path, false, &is, session, key);
	return r < 0 ? r : is == LAYOUT_STATE;
}

int packed_path(uint64_t set, struct bytes session, struct buf *path)
{
	struct bytes key;
	int r = -ENOENT;

	if (packed_layouts(set) && layout_keys_outside(packed_layouts(set), session, &key))
		r = layout_state(packed_layouts(set), session, key, BACKEND_LIST, path);
	return r == 0 ? buf_append_str(path, PACKED_SUFFIX) : r;
}

/* ---- Content ---- */

bool packed_can_read(void)
{
#ifdef HAVE_LIBZSTD
	return true;
#else
	return false;
#endif
}

#ifdef HAVE_LIBZSTD

/* What is read: the bytes that are unpacked, up to a whole line. */
struct unpacking {
	ZSTD_DStream *stream;
	struct buf lines;
	int64_t index;
	size_t left; /* what the stream wants more of; 0: it is at the end of a frame */
	packed_line_fn *fn;
	void *arg;
	int result; /* of fn, or an error */
};

enum { WINDOW_LOG_MOST = 25, BLOCK = 128 * 1024, LINE_MOST = 64 << 20 };

/* Whole lines, and at the end the last one. */
static void take_lines(struct unpacking *unpacking, bool ends)
{
	struct bytes all = buf_bytes(&unpacking->lines), rest = ends ? all : lines_whole(all);
	const size_t size = rest.size;
	struct line line;

	while (unpacking->result == 0 && lines_next(&rest, &line))
		if (lines_is_row(line.text, NULL))
			unpacking->result =
				unpacking->fn(unpacking->arg, unpacking->index++, line.text);
	buf_consume(&unpacking->lines, size);
}

static int on_chunk(void *arg, int64_t chunk, struct bytes data)
{
	struct unpacking *unpacking = arg;
	ZSTD_inBuffer in = { data.data, data.size, 0 };

	(void)chunk;
	while (in.pos < in.size && unpacking->result == 0) {
		ZSTD_outBuffer out;

		unpacking->result = buf_reserve(&unpacking->lines, BLOCK);
		if (unpacking->result < 0)
			break;
		out = (ZSTD_outBuffer){ unpacking->lines.data + unpacking->lines.size, BLOCK, 0 };
		unpacking->left = ZSTD_decompressStream(unpacking->stream, &out, &in);
		if (ZSTD_isError(unpacking->left)) {
			unpacking->result = -EBADMSG;
			break;
		}
		unpacking->lines.size += out.pos;
		if (memchr(out.dst, '\n', out.pos))
			take_lines(unpacking, false);
		if (unpacking->result == 0 && unpacking->lines.size > LINE_MOST)
			unpacking->result = -EBADMSG;
	}
	return unpacking->result;
}

int packed_read(struct backend *backend, struct backend_snapshot *snapshot,
		const struct backend_node *node, packed_line_fn *fn, void *arg)
{
	struct unpacking unpacking = { .stream = ZSTD_createDStream(), .fn = fn, .arg = arg };
	int r = unpacking.stream ? 0 : -ENOMEM;

	if (r == 0 && ZSTD_isError(ZSTD_DCtx_setParameter(unpacking.stream, ZSTD_d_windowLogMax,
							  WINDOW_LOG_MOST)))
		r = -EINVAL;
	if (r == 0)
		r = backend->ops->chunk_read(backend, snapshot, node->ino, 0, INT64_MAX, on_chunk,
					     &unpacking);
	/* What stands before a torn end is shown all the same. */
	if (r == 0 && unpacking.result == 0)
		take_lines(&unpacking, true);
	if (r == 0 && unpacking.result == 0 && unpacking.left)
		r = -EBADMSG;
	ZSTD_freeDStream(unpacking.stream);
	buf_done(&unpacking.lines);
	return r < 0 ? r : MIN(unpacking.result, 0);
}

#else

int packed_read(struct backend *backend, struct backend_snapshot *snapshot,
		const struct backend_node *node, packed_line_fn *fn, void *arg)
{
	(void)backend, (void)snapshot, (void)node, (void)fn, (void)arg;
	return -EOPNOTSUPP;
}

#endif
