/* SPDX-License-Identifier: MIT */

/* How a line goes on with a tail, and appending to the bytes of a list. */

#include "fs/base/lines.h"
#include "fs/write/handle.h"

bool append_shall_glue(struct tree *tree, bool own_tail, struct bytes glued, struct bytes line)
{
	return own_tail || tree->options.exact || lines_is_row(glued, NULL) ||
	       !lines_is_row(line, NULL);
}

int append_to_stage(struct tree *tree, struct stage *stage, struct bytes data, bool own_tail)
{
	_cleanup_(buf_done) struct buf glued = { 0 };
	struct bytes content, tail, rest = data;
	struct line first;
	int r;

	r = stage_map(stage, &content);
	if (r < 0)
		return r;
	tail = lines_tail(content);
	if (tail.size && lines_next(&rest, &first)) {
		r = buf_join(&glued, tail, first.text);
		if (r == 0 && !append_shall_glue(tree, own_tail, buf_bytes(&glued), first.text))
			r = stage_write(stage, stage->size, BYTES("\n"));
	}
	return r < 0 ? r : stage_write(stage, stage->size, data);
}
