/* SPDX-License-Identifier: MIT */

/* Whether bytes are whole lines, or a document. */

#include "fs/base/lines.h"
#include "fs/write/handle.h"

/* With -o strict: whether a list has a line that is refused. */
static bool has_bad_line(struct bytes lines)
{
	struct line line;

	while (lines_next(&lines, &line))
		if (!lines_is_blank(line.text) && !lines_is_row(line.text, NULL))
			return true;
	return false;
}

bool content_is_whole(const struct tree *tree, uint32_t kind, struct bytes bytes)
{
	struct bytes tail;

	if (kind == BACKEND_SINGLE)
		return json_valid(bytes, NULL);
	if (kind != BACKEND_LIST)
		return false;
	tail = lines_whole(bytes);
	tail = bytes_make(bytes.data + tail.size, bytes.size - tail.size);
	if (tail.size && !lines_is_row(tail, NULL))
		return false;
	return !tree->options.strict || !has_bad_line(bytes);
}
