/* SPDX-License-Identifier: MIT */
/*
 * A streamed upload sends its body in frames, "SIZE;chunk-signature=...\r\n" before each piece.  A
 * server takes them off; an emulator may store them.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/s3/internal.h"

/* The size of the piece at an offset, and where it begins; false: there is no frame. */
static bool read_head(struct bytes body, size_t *at, size_t *ret_size)
{
	const char *line = body.data + *at, *end;
	char *behind;

	end = *at < body.size ? memmem(line, body.size - *at, "\r\n", 2) : NULL;
	if (!end || end - line > 256 || !strchr("0123456789abcdefABCDEF", *line))
		return false;
	*ret_size = strtoull(line, &behind, 16);
	*at = (size_t)(end + 2 - body.data);
	return (*behind == ';' || behind == end) && *ret_size <= body.size - *at;
}

int s3_unframe(struct buf *body)
{
	_cleanup_(buf_done) struct buf content = { 0 };
	const struct bytes framed = buf_bytes(body);
	size_t at = 0, size = 1;
	int r = 0;

	while (r == 0 && size) {
		if (!read_head(framed, &at, &size))
			return 0;
		r = buf_append(&content, framed.data + at, size);
		at += size;
		/* Behind the last piece may stand trailers. */
		if (size && (framed.size - at < 2 || memcmp(framed.data + at, "\r\n", 2) != 0))
			return 0;
		at += size ? 2 : 0;
	}
	if (r < 0)
		return r;
	buf_done(body);
	*body = content;
	content = (struct buf){ 0 };
	return 0;
}
