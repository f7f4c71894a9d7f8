/* SPDX-License-Identifier: MIT */
#include "fs/base/lines.h"
#include "fs/content/kind.h"
#include "fs/inode/inodes.h"
#include "backend/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum {
	ID_SHOWN = 200, /* bytes of an id that a sentence shows */
	LOOK = 1 << 26, /* bytes of a bad line, or of a draft, that are looked at for the reason */
};

const char *invalid_show_id(struct bytes id, char *text)
{
	size_t used = 1;

	text[0] = '\'';
	for (size_t i = 0; i < id.size && i < ID_SHOWN; i++) {
		unsigned char byte = (unsigned char)id.data[i];

		if (byte < 0x20 || byte == 0x7f)
			used += (size_t)snprintf(text + used, INVALID_ID_MAX - used, "\\x%02x",
						 byte);
		else
			text[used++] = (char)byte;
	}
	snprintf(text + used, INVALID_ID_MAX - used, id.size > ID_SHOWN ? "...'" : "'");
	return text;
}

/* Lists. */

struct finding {
	invalid_fn *fn;
	void *arg;
	uint64_t line;	  /* of the next bytes */
	struct buf bytes; /* the beginning of an unfinished line of pieces */
	bool open;	  /* there is such a line */
};

static int find_report(struct finding *finding)
{
	struct invalid_place place = { .line = finding->line };
	struct json_error error = { .reason = "more than one value" };
	struct bytes bytes = buf_bytes(&finding->bytes);

	if (lines_is_blank(bytes))
		return 0;
	json_valid(bytes, &error);
	place.column = error.offset + 1;
	place.reason = error.reason;
	return finding->fn(finding->arg, &place);
}

static int find_in_piece(struct finding *finding, struct bytes data)
{
	struct line line;
	int r = 0;

	while (r == 0 && lines_next(&data, &line)) {
		size_t room = LOOK - MIN(finding->bytes.size, (size_t)LOOK);

		r = buf_append(&finding->bytes, line.text.data, MIN(line.text.size, room));
		finding->open = !line.newline;
		if (r < 0 || !line.newline)
			return r;
		r = find_report(finding);
		buf_clear(&finding->bytes);
		finding->line++;
	}
	return r;
}

static int find_in_segment(void *arg, const struct segment *segment)
{
	struct finding *finding = arg;

	if (!segment->is_row)
		return find_in_piece(finding, segment->data);
	finding->line++;
	return 0;
}

static int find_in_list(struct view *view, const struct inode *inode, invalid_fn *fn, void *arg)
{
	struct finding finding = { .fn = fn, .arg = arg, .line = 1 };
	bool pieces = false;
	int r = list_has_pieces(view, inode->node.ino, &pieces);

	if (r >= 0 && pieces)
		r = list_walk(view, inode, LIST_START, find_in_segment, &finding);
	if (r == 0 && finding.open)
		r = find_report(&finding);
	buf_done(&finding.bytes);
	return MIN(r, 0);
}

/* Drafts. */

static int find_in_draft(struct view *view, struct inode *inode, invalid_fn *fn, void *arg)
{
	struct invalid_place place = { .line = 1, .column = 1, .reason = "not text" };
	_cleanup_(buf_done) struct buf bytes = { 0 };
	struct json_error error;
	struct bytes rest;
	struct line line;
	int r;

	r = content_chunks.read(view, inode, NULL, 0, LOOK, &bytes);
	if (r < 0)
		return r;
	if (inode->node.kind == BACKEND_SINGLE && !json_valid(buf_bytes(&bytes), &error)) {
		for (size_t i = 0; i < error.offset && i < bytes.size; i++) {
			place.column = bytes.data[i] == '\n' ? 1 : place.column + 1;
			place.line += bytes.data[i] == '\n';
		}
		place.reason = error.reason;
	}
	if (inode->node.kind != BACKEND_LIST)
		return MIN(fn(arg, &place), 0);
	rest = buf_bytes(&bytes);
	for (place.line = 1; r == 0 && lines_next(&rest, &line); place.line++) {
		if (lines_is_blank(line.text) || lines_is_row(line.text, &error))
			continue;
		place.column = error.offset + 1;
		place.reason = error.reason;
		r = fn(arg, &place);
	}
	return MIN(r, 0);
}

int invalid_find(struct view *view, struct inode *inode, invalid_fn *fn, void *arg)
{
	if (!kind_is_state(inode->node.kind))
		return 0;
	if (inode_is_draft(inode))
		return find_in_draft(view, inode, fn, arg);
	return inode->node.kind == BACKEND_LIST ? find_in_list(view, inode, fn, arg) : 0;
}

struct describing {
	uint64_t count;
	struct invalid_place first;
};

static int describe_place(void *arg, const struct invalid_place *place)
{
	struct describing *describing = arg;

	if (!describing->count++)
		describing->first = *place;
	return 0;
}

int invalid_describe(struct view *view, struct inode *inode, struct buf *text)
{
	struct describing describing = { 0 };
	int r = invalid_find(view, inode, describe_place, &describing);

	if (r < 0)
		return r;
	if (!describing.count)
		return -ENODATA;
	return buf_printf(text,
			  "%" PRIu64 " invalid, first at line %" PRIu64 ", column %" PRIu64 ": %s",
			  describing.count, describing.first.line, describing.first.column,
			  describing.first.reason);
}

void invalid_log(const struct backend_node *node, const char *where, uint64_t number,
		 const struct json_error *error, bool strict)
{
	log_write(strict ? LOG_WARNING : LOG_NOTICE,
		  "session %s, key %s, %s %" PRIu64 ", column %zu: not JSON: %s; %s",
		  SHOWN(node->session), SHOWN(node->key), where, number, error->offset + 1,
		  error->reason,
		  strict ? "the save fails (-o strict), and SQL keeps the previous state" :
			   "the bytes are kept, SQL does not see them");
}

void invalid_log_refused(const struct backend_node *node, uint64_t line,
			 const struct json_error *error)
{
	log_warning("session %s, key %s, line %" PRIu64
		    ", column %zu: not JSON: %s; it is refused (-o strict)",
		    SHOWN(node->session), SHOWN(node->key), line, error->offset + 1, error->reason);
}
