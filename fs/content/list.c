/* SPDX-License-Identifier: MIT */

/*
 * Lists: the bytes of rows and pieces in their order.
 *
 * A list is a sequence of segments: the pieces before row i, row i with its newline, and so on;
 * pieces behind the last row stand before the row that would be next.  Offsets are found through
 * marks, one every MARK_BYTES or MARK_ROWS, so that a read never walks more than that; the size is
 * the last mark's offset plus a walk from there.  The states of a list's end are in
 * fs/write/append.c.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/lines.h"
#include "fs/content/kind.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"

enum {
	MARK_BYTES = 65536,
	MARK_ROWS = 256,
	MARKS_LACKED = 64,    /* that a list may lack beside other programs that write */
	WALK_PIECES = 64,     /* pieces fetched at a time, at most */
	WALK_BYTES = 4 << 20, /* and bytes of them */
	ROW_LARGE = 1 << 20,  /* bytes of a row that a reader keeps */
};

static bool list_mark_due(uint64_t bytes, uint64_t rows)
{
	return bytes >= MARK_BYTES || rows >= MARK_ROWS;
}

void list_mark_put(struct batch *batch, uint64_t ino, uint64_t offset, int64_t index,
		   uint64_t *mark_offset, uint64_t *mark_rows)
{
	if (!list_mark_due(offset - *mark_offset, *mark_rows))
		return;
	batch_mark_put(batch, ino, offset, index);
	*mark_offset = offset;
	*mark_rows = 0;
}

struct walk_piece {
	int64_t index;
	int64_t seq;
	size_t start;
	size_t size;
};

struct walk {
	struct view *view;
	const struct inode *inode;
	segment_fn *fn;
	void *arg;
	int64_t row; /* next row index to be visited */
	bool stopped;
	/* Pieces fetched and not yet visited. */
	struct walk_piece piece[WALK_PIECES];
	size_t piece_at;
	size_t piece_count;
	struct buf piece_bytes;
	bool pieces_end;	    /* the store has no more of them */
	struct segment_place fetch; /* otherwise: where they go on */
};

static int walk_keep_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	struct walk *walk = arg;
	int r;

	if (walk->piece_count == WALK_PIECES ||
	    (walk->piece_count && walk->piece_bytes.size + data.size > WALK_BYTES)) {
		walk->fetch = (struct segment_place){ index, seq };
		walk->pieces_end = false;
		return 1;
	}
	walk->piece[walk->piece_count++] = (struct walk_piece){
		.index = index, .seq = seq, .start = walk->piece_bytes.size, .size = data.size
	};
	r = buf_append_bytes(&walk->piece_bytes, data);
	return r;
}

/* Fetch the next pieces, if there are any. */
static int walk_fetch_pieces(struct walk *walk)
{
	if (walk->piece_at < walk->piece_count || walk->pieces_end)
		return 0;
	walk->piece_at = walk->piece_count = 0;
	buf_clear(&walk->piece_bytes);
	walk->pieces_end = true;
	return ASK(walk->view, piece_read, walk->inode->node.ino, walk->fetch.index,
		   walk->fetch.seq, walk_keep_piece, walk);
}

static int walk_row(void *arg, int64_t index, struct bytes data)
{
	struct walk *walk = arg;
	struct segment segment = { .is_row = true, .index = index, .data = data };
	int r;

	if (walk->piece_at < walk->piece_count && index >= walk->piece[walk->piece_at].index) {
		walk->row = index;
		return 1;
	}
	r = walk->fn(walk->arg, &segment);
	if (r > 0)
		walk->stopped = true;
	if (index == INT64_MAX)
		walk->stopped = true;
	else
		walk->row = index + 1;
	return r;
}

/* Visit all fetched pieces that stand before row walk->row. */
static int walk_visit_pieces(struct walk *walk)
{
	int r = 0;

	while (r == 0 && walk->piece_at < walk->piece_count) {
		struct walk_piece *piece = &walk->piece[walk->piece_at];
		struct segment segment = {
			.index = piece->index,
			.seq = piece->seq,
			.data = bytes_make(walk->piece_bytes.data + piece->start, piece->size),
		};

		if (piece->index > walk->row)
			return 0;
		r = walk->fn(walk->arg, &segment);
		if (r > 0)
			walk->stopped = true;
		walk->piece_at++;
		if (r == 0)
			r = walk_fetch_pieces(walk);
	}
	return r;
}

int list_walk(struct view *view, const struct inode *inode, struct segment_place from,
	      segment_fn *fn, void *arg)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	int r;

	if (!walk)
		return -ENOMEM;
	*walk = (struct walk){
		.view = view, .inode = inode, .fn = fn, .arg = arg, .row = from.index, .fetch = from
	};
	do {
		r = walk_fetch_pieces(walk);
		if (r < 0)
			break;
		r = ASK(view, row_read, inode->node.session, inode->node.key, walk->row, walk_row,
			walk);
		if (r < 0 || walk->stopped || walk->piece_at == walk->piece_count)
			break;
		/* All rows before the next piece were visited. */
		walk->row = MAX(walk->row, walk->piece[walk->piece_at].index);
		r = walk_visit_pieces(walk);
	} while (r == 0 && !walk->stopped);
	buf_done(&walk->piece_bytes);
	free(walk);
	return MIN(r, 0);
}

/* Loading: the size, the next index, the tail. */

struct loading {
	struct list_state list;
	struct inode *inode;
	struct batch *marks; /* marks that were missing */
	bool at_piece;	     /* the segment before was a piece of row index list.next */
};

static void load_row(struct loading *loading, int64_t index, size_t size)
{
	struct list_state *list = &loading->list;

	if (!loading->at_piece)
		list_mark_put(loading->marks, loading->inode->node.ino, list->size, index,
			      &list->mark_offset, &list->mark_rows);
	list->mark_rows++;
	list->size += size + 1;
	list->next = index < INT64_MAX ? MAX(index + 1, 0) : INT64_MAX;
	list->tail_row_seq = list->piece_seq;
	list->piece_seq = 0;
	list->tail_size = 0;
	list->tail_row = index;
	/* The size of the last row, should it turn out to be the tail. */
	list->tail_seq = (int64_t)size;
	loading->at_piece = false;
}

static int load_piece(struct loading *loading, const struct segment *segment)
{
	struct list_state *list = &loading->list;
	struct bytes data = segment->data;
	size_t tail = lines_tail(data).size;

	list->next = MAX(list->next, segment->index);
	list->size += data.size;
	list->piece_seq = segment->seq + 1;
	if (tail < data.size) {
		list->tail_size = tail;
		list->tail_seq = segment->seq;
	} else if (data.size) {
		if (!list->tail_size)
			list->tail_seq = segment->seq;
		list->tail_size += data.size;
	}
	loading->at_piece = true;
	return 0;
}

static int load_segment(void *arg, const struct segment *segment)
{
	if (!segment->is_row)
		return load_piece(arg, segment);
	load_row(arg, segment->index, segment->data.size);
	return 0;
}

static struct loading load_begin(struct inode *inode, struct backend_mark mark)
{
	return (struct loading){
		.inode = inode,
		.list = { .size = mark.offset,
			  .mark_offset = mark.offset,
			  .next = MAX(mark.index, 0) },
	};
}

static void load_end(struct loading *loading)
{
	struct inode *inode = loading->inode;
	struct list_state *list = &loading->list;

	if (!loading->at_piece && list->size && (inode->node.flags & BACKEND_NO_NEWLINE)) {
		list->tail_is_row = true;
		list->tail_size = (uint64_t)list->tail_seq;
		list->tail_seq = 0;
		list->size--;
	}
	inode->list = *list;
	inode->loaded = inode->list_known = true;
	inode->grown = false;
}

/* For a list of rows only, the sizes are enough, unless a mark is missing. */
static bool list_take(struct inode *inode, const struct backend_tail *tail)
{
	struct loading loading = load_begin(inode, tail->mark);
	struct list_state *list = &loading.list;

	if (tail->pieces ||
	    (tail->rows &&
	     list_mark_due(tail->bytes - tail->last_bytes + tail->rows - 1, tail->rows - 1)))
		return false;
	if (tail->rows) {
		list->size += tail->bytes - tail->last_bytes + tail->rows - 1;
		list->mark_rows = tail->rows - 1;
		load_row(&loading, tail->last, tail->last_bytes);
	}
	load_end(&loading);
	return true;
}

/* changing: the tree, or NULL, if the marks that lack may be written. */
static int load_from(struct tree *changing, struct view *view, struct inode *inode,
		     struct backend_mark mark, size_t lacked)
{
	_cleanup_(batch_done) struct batch marks = { 0 };
	struct loading loading = load_begin(inode, mark);
	const struct segment_place start = { mark.index, INT64_MIN };
	int r;

	loading.marks = &marks;
	r = list_walk(view, inode, start, load_segment, &loading);
	if (r < 0)
		return r;
	/* Marks only save time: when they cannot be written, nothing is lost. */
	if (changing && marks.count > lacked && !changing->backend->read_only) {
		/* Do not wait for the store's lock. */
		batch_guard_rows(&marks, inode->node.session, inode->node.key);
		tree_commit(changing, &marks, BACKEND_AT_ONCE);
	}
	load_end(&loading);
	return 0;
}

static int list_load(struct tree *tree, struct view *view, struct inode *inode,
		     struct backend_mark mark)
{
	/* We read: only trylock, since the lock's holder may be changing the file; and now, since a
	 * writer that waits for a long walk to end keeps us from it. */
	_cleanup_(tree_change_endp) struct tree *changing = tree_try_change(tree);

	return load_from(changing, view, inode, mark, tree_is_quiet(tree) ? 0 : MARKS_LACKED);
}

int list_mark(struct tree *tree, struct inode *inode)
{
	WITH_TURN(tree, true);
	_cleanup_(view_end) struct view view = { 0 };
	struct backend_mark mark = { .index = INT64_MIN };
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int r = inode_view_begin(tree, inode, &view);

	if (r < 0 || inode->gone || inode->apart || inode->node.kind != BACKEND_LIST ||
	    inode_is_draft(inode))
		return r;
	r = ASK(&view, mark_find_index, inode->node.ino, INT64_MAX, &mark);
	return r < 0 && r != -ENOENT ?
		       r :
		       load_from(tree, &view, inode, mark, tree_is_quiet(tree) ? 0 : MARKS_LACKED);
}

/* Reading. */

struct list_reading {
	const struct inode *inode;
	uint64_t at; /* offset of the segment */
	uint64_t offset;
	uint64_t end;
	struct buf *out;
	struct handle *handle;
};

/* Append the requested part of bytes, which lie at reading->at. */
static int read_part(struct list_reading *reading, struct bytes bytes, bool is_row)
{
	uint64_t from = MAX(reading->at, reading->offset);
	uint64_t to = MIN(reading->at + bytes.size, reading->end);
	int r = 0;

	if (from < to) {
		struct bytes part = bytes_make(bytes.data + (from - reading->at), to - from);

		r = is_row ? lines_show_row(part, reading->out) :
			     buf_append_bytes(reading->out, part);
	}
	reading->at += bytes.size;
	return r;
}

static void read_cursor(struct list_reading *reading, int64_t index, int64_t seq)
{
	struct handle *handle = reading->handle;

	if (!handle)
		return;
	handle->cursor_offset = reading->at;
	handle->cursor_index = index;
	handle->cursor_seq = seq;
	handle->cursor_version = reading->inode->version;
	handle->cursor_valid = true;
}

/* Keep the row at offset for later reads, as it is shown. */
static int keep_row(struct handle *handle, uint64_t offset, struct bytes row)
{
	int r;

	handle->whole_valid = false;
	stage_done(&handle->whole);
	r = stage_write(&handle->whole, 0, row);
	if (r < 0)
		return r;
	handle->whole_valid = true;
	handle->whole_offset = offset;
	handle->whole_version = handle->inode->version;
	return 0;
}

/* Whether the row that is kept holds this byte of the present content. */
static bool has_row(const struct handle *handle, uint64_t offset)
{
	return handle->whole_valid && handle->whole_version == handle->inode->version &&
	       offset >= handle->whole_offset && offset - handle->whole_offset < handle->whole.size;
}

static int read_segment(void *arg, const struct segment *segment)
{
	struct list_reading *reading = arg;
	const struct list_state *list = &reading->inode->list;
	bool is_tail = list->tail_is_row && segment->index == list->tail_row;
	int r;

	if (reading->at >= reading->end)
		return 1;
	if (!segment->is_row) {
		read_cursor(reading, segment->index, segment->seq);
		r = read_part(reading, segment->data, false);
		return r < 0 ? r : reading->at >= reading->end;
	}
	read_cursor(reading, segment->index, INT64_MAX);
	/* Keeping it only saves time: without room for it the reader reads it again and again. */
	if (reading->handle && segment->data.size > ROW_LARGE &&
	    !memchr(segment->data.data, '\n', segment->data.size))
		keep_row(reading->handle, reading->at, segment->data);
	r = read_part(reading, segment->data, true);
	if (r == 0 && !is_tail)
		r = read_part(reading, BYTES("\n"), false);
	/* Offsets behind a tail move when it is completed. */
	if (r == 0 && !is_tail && reading->at <= reading->end && segment->index < INT64_MAX)
		read_cursor(reading, segment->index + 1, INT64_MIN);
	return r < 0 ? r : reading->at >= reading->end;
}

/* Where to begin: at the place that the last read reached, or at a nearer mark. */
static int read_start(struct view *view, const struct inode *inode, const struct handle *handle,
		      uint64_t offset, struct segment_place *ret_place, uint64_t *ret_offset)
{
	bool cursor = handle && handle->cursor_valid && handle->cursor_version == inode->version &&
		      handle->cursor_offset <= offset;
	struct backend_mark mark = { .offset = 0, .index = INT64_MIN };
	int r;

	if (cursor ? offset - handle->cursor_offset > MARK_BYTES : offset != 0) {
		r = ASK(view, mark_find, inode->node.ino, offset, &mark);
		if (r < 0 && r != -ENOENT)
			return r;
	}
	cursor = cursor && handle->cursor_offset >= mark.offset;
	*ret_offset = cursor ? handle->cursor_offset : mark.offset;
	*ret_place = cursor ? (struct segment_place){ handle->cursor_index, handle->cursor_seq } :
			      (struct segment_place){ mark.index, INT64_MIN };
	return 0;
}

static int list_read(struct view *view, struct inode *inode, struct handle *handle, uint64_t offset,
		     size_t size, struct buf *out)
{
	struct segment_place start;
	struct list_reading reading = {
		.inode = inode,
		.offset = offset,
		.out = out,
		.handle = handle,
	};
	int r;

	if (offset >= inode->list.size || !size)
		return 0;
	size = MIN(size, inode->list.size - offset);
	if (handle && has_row(handle, offset)) {
		size_t before = out->size;

		r = stage_read(&handle->whole, offset - handle->whole_offset, size, out);
		if (r < 0)
			return r;
		offset += out->size - before;
		size -= out->size - before;
		if (!size)
			return 0;
		reading.offset = offset;
	}
	reading.end = offset + size;
	r = read_start(view, inode, handle, offset, &start, &reading.at);
	return r < 0 ? r : list_walk(view, inode, start, read_segment, &reading);
}

/* Reading all of a list into a stage. */

enum { TAKE_STEP = 1 << 20 };

struct taking {
	struct stage *stage;
	struct buf part; /* what is not in the stage yet: at least the last segment */
	bool ends_in_row;
};

static int taking_pass(struct taking *taking)
{
	int r = stage_write(taking->stage, taking->stage->size, buf_bytes(&taking->part));

	buf_clear(&taking->part);
	return r;
}

static int take_segment(void *arg, const struct segment *segment)
{
	struct taking *taking = arg;
	int r = 0;

	if (taking->part.size >= TAKE_STEP)
		r = taking_pass(taking);
	if (r == 0 && segment->is_row)
		r = lines_show_row(segment->data, &taking->part);
	if (r == 0)
		r = segment->is_row ? buf_append_byte(&taking->part, '\n') :
				      buf_append_bytes(&taking->part, segment->data);
	taking->ends_in_row = segment->is_row;
	return r;
}

static int list_to_stage(struct view *view, struct inode *inode, struct stage *stage)
{
	struct taking taking = { .stage = stage };
	int r = list_walk(view, inode, LIST_START, take_segment, &taking);

	if (r == 0 && taking.ends_in_row && (inode->node.flags & BACKEND_NO_NEWLINE))
		taking.part.size--;
	if (r == 0)
		r = taking_pass(&taking);
	buf_done(&taking.part);
	return r;
}

static int note_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	(void)index, (void)seq, (void)data;
	*(bool *)arg = true;
	return 1;
}

int list_has_pieces(struct view *view, uint64_t ino, bool *ret_any)
{
	*ret_any = false;
	return ASK(view, piece_read, ino, INT64_MIN, INT64_MIN, note_piece, ret_any);
}

int list_read_tail(struct view *view, struct inode *inode, struct buf *out)
{
	return list_read(view, inode, NULL, inode->list.size - inode->list.tail_size,
			 inode->list.tail_size, out);
}

static uint64_t list_size(const struct inode *inode)
{
	return inode->list.size;
}

const struct content_kind content_list = {
	.take = list_take,
	.load = list_load,
	.size = list_size,
	.read = list_read,
	.to_stage = list_to_stage,
};
