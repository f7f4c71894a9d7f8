/* SPDX-License-Identifier: MIT */

/*
 * Another writer has published since the stage was begun
 *
 *   A save that has only set the size, or only added, is merged with the new content; any other
 *   save replaces it.
 *
 *     the content now            the save has only set the size    the save has only added
 *
 *     begins with the old        the stage, then what was added    what the stage has kept, what
 *     content (it was extended)                                    was added, then its own bytes
 *     is something else          nothing to publish                the content, then its own bytes;
 *                                                                  only the stage, if it has cut
 */

#include "fs/content/content.h"
#include "fs/inode/waiting.h"
#include "fs/write/handle.h"

enum { READ_BYTES = 1 << 20 }; /* at a time */

int newer_find(struct tree *tree, const struct writing *writing, enum newer *ret_newer)
{
	struct inode *inode = writing->inode;
	bool cuts = writing->kept < writing->seen;
	uint64_t end;
	int r;

	*ret_newer = NEWER_NONE;
	if (inode->gone || (!writing->only_cut && !writing->only_adds))
		return 0;
	r = handle_content_end(tree, inode, &end);
	if (r < 0)
		return r;
	if (inode->version != writing->version) {
		if (writing->only_cut)
			*ret_newer = NEWER_NOTHING_TO_DO;
		else if (!cuts)
			*ret_newer = NEWER_REPLACED;
	} else if (end > writing->seen) {
		*ret_newer = NEWER_EXTENDED;
	}
	return 0;
}

/* What was added behind so many bytes of the content. */
static int read_added(struct tree *tree, struct view *view, struct inode *inode, uint64_t from,
		      struct stage *added)
{
	int r;

	do {
		_cleanup_(buf_done) struct buf part = { 0 };

		r = content_read(tree, view, inode, NULL, from + added->size, READ_BYTES, &part);
		if (r < 0 || !part.size)
			return r;
		r = stage_write(added, added->size, buf_bytes(&part));
	} while (r == 0);
	return r;
}

static bool ends_line(struct bytes bytes)
{
	return !bytes.size || bytes.data[bytes.size - 1] == '\n';
}

/* Lines that were added to a list that was cut; before: the byte that was before them.  The newline
 * that has closed off a torn line goes with that. */
static int add_lines(struct tree *tree, struct stage *stage, struct bytes before,
		     struct bytes lines)
{
	struct bytes content;
	int r = stage_map(stage, &content);

	if (r < 0)
		return r;
	if (!tree->options.exact && !ends_line(before) && ends_line(content) && lines.size > 1 &&
	    lines.data[0] == '\n')
		lines = bytes_make(lines.data + 1, lines.size - 1);
	stage_unmap(stage);
	return append_to_stage(tree, stage, lines, false);
}

/* So many bytes of the stage, and what others have added. */
static int stage_extended(struct tree *tree, struct view *view, struct writing *writing,
			  uint64_t kept, struct stage *stage)
{
	_cleanup_(stage_done) struct stage added = { 0 };
	struct inode *inode = writing->inode;
	uint64_t seen = writing->seen, from = seen ? seen - 1 : 0;
	struct bytes bytes, lines;
	int r = stage_map(&writing->stage, &bytes);

	if (r == 0)
		r = stage_write(stage, 0, bytes_make(bytes.data, kept));
	stage_unmap(&writing->stage);
	if (r == 0)
		r = read_added(tree, view, inode, from, &added);
	if (r == 0)
		r = stage_map(&added, &bytes);
	if (r < 0 || bytes.size < seen - from)
		return r;
	lines = bytes_make(bytes.data + (seen - from), bytes.size - (seen - from));
	bytes.size = seen - from;
	if (inode->node.kind != BACKEND_LIST || (kept == seen && writing->kept == seen))
		r = stage_write(stage, kept, lines);
	else
		r = add_lines(tree, stage, bytes, lines);
	stage_unmap(&added);
	return r;
}

int newer_meet(struct tree *tree, struct writing *writing, enum newer newer, struct stage *stage)
{
	_cleanup_(view_end) struct view view = { 0 };
	uint64_t kept = writing->only_cut ? writing->stage.size : writing->kept;
	struct bytes bytes;
	int r = inode_view_begin(tree, writing->inode, &view);

	if (r == 0)
		r = newer == NEWER_EXTENDED ? stage_extended(tree, &view, writing, kept, stage) :
					      content_to_stage(&view, writing->inode, stage);
	if (r == 0)
		r = stage_map(&writing->stage, &bytes);
	if (r < 0)
		return r;
	bytes = bytes_make(bytes.data + kept, bytes.size - kept);
	r = writing->inode->node.kind == BACKEND_LIST ? append_to_stage(tree, stage, bytes, false) :
							stage_write(stage, stage->size, bytes);
	stage_unmap(&writing->stage);
	return r;
}
