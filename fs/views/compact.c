/* SPDX-License-Identifier: MIT */

/*
 * Compaction: a save through a window of a list replaces the items that the window shows, and
 * nothing else.
 *
 *   The lines at its front that are there already, and those at its end, stay rows as they are.
 *   The plan is about what is left in the middle: rows first to last of the list go, and the lines
 *   come in their place.  What stands behind them moves by as many places (BACKEND_ROWS_SHIFT), so
 *   it keeps its times, and nothing of it is read.
 *
 *   A window does not show bytes that are not rows, so its writer does not know them: those between
 *   the rows that go are kept, in front of the new lines.
 *
 *   A window has the generation of its list.  The batch has a condition on the rows of the key, so
 *   it is applied only while that generation is the newest.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/lines.h"
#include "fs/inode/commit.h"
#include "fs/inode/generation.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "backend/base/log.h"
#include "fs/views/windows.h"

enum {
	EMIT_FIRST = 1000, /* operations that are committed as a plain array */
	EMIT_BLOCK = 256,  /* of one block of more */
	COMPACT_LARGE = 1 << 20,
};

/* The position of emitting. */
struct emitting {
	struct bytes rest;
	int64_t index;
	uint64_t offset;
	uint64_t mark_offset;
	uint64_t mark_rows;
};

struct compacting {
	struct tree *tree;
	struct window *window;
	struct inode *inode; /* the list */
	struct view view;
	struct bytes bytes; /* all that is saved */
	int64_t begin;	    /* index that the first line has */
	/* Rows first to last go, none if last is before first; the lines come. */
	int64_t first;
	int64_t last;
	struct bytes lines;
	int64_t count; /* of them */
	/* Where they are in the list. */
	uint64_t offset;       /* where the segment of the row first begins, */
	uint64_t row_bytes;    /* bytes of the rows that go, */
	uint64_t piece_bytes;  /* and of the pieces between them, and before the first */
	uint64_t mark_offset;  /* of the mark before, */
	uint64_t mark_rows;    /* and rows behind it */
	struct stage pieces;   /* that are kept together, */
	struct buf piece_ends; /* and where each ends there: uint64_t */
	bool pieces_move;
	struct backend_node node; /* as it will be */
	struct batch batch;
	struct batch block;
	struct emitting at;
	struct emitting behind_first;
	struct version *version; /* the previous content, if a reader needs it */
	uint64_t size_before;
};

static void compacting_done(struct compacting *compacting)
{
	stage_unmap(&compacting->pieces);
	stage_done(&compacting->pieces);
	buf_done(&compacting->piece_ends);
	batch_done(&compacting->batch);
	batch_done(&compacting->block);
	version_drop(&compacting->version);
	view_end(&compacting->view);
}

/* Skip the lines at the front that stay. */

static int skip_same(void *arg, int64_t index, struct bytes data)
{
	struct compacting *compacting = arg;
	struct bytes rest = compacting->lines;
	struct line line;

	if (index != compacting->first || index > compacting->last || !lines_next(&rest, &line) ||
	    !lines_row_equals(data, line.text))
		return 1;
	compacting->first++;
	compacting->lines = rest;
	return 0;
}

/* And at the end. */
static int skip_same_back(void *arg, int64_t index, struct bytes data)
{
	struct compacting *compacting = arg;
	struct bytes lines = compacting->lines, text;

	if (index != compacting->last || index < compacting->first || !lines.size)
		return 1;
	text = lines_tail(bytes_make(lines.data, lines.size - 1));
	if (!lines_row_equals(data, text))
		return 1;
	compacting->last--;
	compacting->lines = bytes_make(lines.data, (size_t)(text.data - lines.data));
	return 0;
}

static int plan_same(struct compacting *compacting)
{
	struct view *view = &compacting->view;
	const struct backend_node *node = &compacting->inode->node;
	struct bytes rest;
	struct line line;
	int r = 0;

	if (compacting->first <= compacting->last)
		r = ASK(view, row_read, node->session, node->key, compacting->first, skip_same,
			compacting);
	if (r == 0 && compacting->first <= compacting->last)
		r = ASK(view, row_read_back, node->session, node->key, compacting->last,
			(uint64_t)(compacting->last - compacting->first) + 1, skip_same_back,
			compacting);
	rest = compacting->lines;
	compacting->count = 0;
	while (lines_next(&rest, &line))
		compacting->count++;
	return r;
}

static bool changes_nothing(const struct compacting *compacting)
{
	return !compacting->count && compacting->first > compacting->last;
}

/* Finding what is replaced. */

/* If no line comes, the pieces before the next row follow those of the rows that go. */
static int64_t last_piece(const struct compacting *compacting)
{
	return compacting->last + !compacting->count;
}

static int plan_segment(void *arg, const struct segment *segment)
{
	struct compacting *compacting = arg;
	uint64_t end;
	int r;

	if (segment->index < compacting->first) {
		compacting->offset += segment->data.size + segment->is_row;
		compacting->mark_rows += segment->is_row;
		return 0;
	}
	if (segment->index > (segment->is_row ? compacting->last : last_piece(compacting)))
		return 1;
	if (!segment->is_row) {
		r = stage_write(&compacting->pieces, compacting->pieces.size, segment->data);
		end = compacting->pieces.size;
		compacting->pieces_move |= segment->index > compacting->first;
		if (segment->index <= compacting->last)
			compacting->piece_bytes += segment->data.size;
		return r < 0 ? r : buf_append(&compacting->piece_ends, &end, sizeof(end));
	}
	compacting->row_bytes += segment->data.size + 1;
	return 0;
}

static int plan_middle(struct compacting *compacting)
{
	struct view *view = &compacting->view;
	struct backend_mark mark = { .offset = 0, .index = INT64_MIN };
	int r = ASK(view, mark_find_index, compacting->inode->node.ino, compacting->first, &mark);

	if (r < 0 && r != -ENOENT)
		return r;
	compacting->offset = compacting->mark_offset = mark.offset;
	return list_walk(view, compacting->inode, (struct segment_place){ mark.index, INT64_MIN },
			 plan_segment, compacting);
}

/* Emitting. */

static int64_t grows_by(const struct compacting *compacting)
{
	return (int64_t)compacting->lines.size - (int64_t)compacting->row_bytes;
}

static void emit_pieces(struct compacting *compacting, struct bytes pieces)
{
	const struct backend_node *node = &compacting->node;
	size_t from = 0;

	for (size_t i = 0; i < compacting->piece_ends.size / sizeof(uint64_t); i++) {
		uint64_t end;

		memcpy(&end, compacting->piece_ends.data + i * sizeof(end), sizeof(end));
		batch_piece_put(&compacting->batch, node->ino, compacting->first, (int64_t)i,
				bytes_make(pieces.data + from, end - from));
		from = end;
	}
}

static void emit_begin(struct compacting *compacting, struct bytes pieces)
{
	struct batch *batch = &compacting->batch;
	const struct backend_node *node = &compacting->node;
	int64_t first = compacting->first, last = compacting->last;
	uint64_t end = compacting->offset + compacting->lines.size +
		       (compacting->count ? compacting->piece_bytes : 0);

	batch_guard_rows(batch, node->session, node->key);
	batch_node_put(batch, node);
	if (compacting->pieces_move)
		BATCH_PUT(batch, BACKEND_PIECE_DELETE, .ino = node->ino, .at = first,
			  .to = last_piece(compacting), .seq = INT64_MIN);
	/* Delete the marks within, and put one where the replaced part ends: otherwise two
	 * neighbouring marks would be further apart after each compaction between them. */
	if (first <= last)
		BATCH_PUT(batch, BACKEND_MARK_DELETE, .ino = node->ino,
			  .offset = compacting->offset + 1,
			  .to = (int64_t)(compacting->offset + compacting->piece_bytes +
					  compacting->row_bytes + !compacting->count));
	if (first + compacting->count <= last)
		batch_row_delete(batch, node->session, node->key, first + compacting->count, last);
	if (last < compacting->inode->list.next - 1 || compacting->inode->list.piece_seq) {
		BATCH_PUT(batch, BACKEND_ROWS_SHIFT, .session = node->session, .key = node->key,
			  .ino = node->ino, .at = last + 1,
			  .to = first + compacting->count - last - 1, .seq = grows_by(compacting));
		if (end)
			batch_mark_put(batch, node->ino, end, first + compacting->count);
	}
	if (compacting->pieces_move)
		emit_pieces(compacting, pieces);
	compacting->at = (struct emitting){
		.rest = compacting->lines,
		.index = first,
		.offset = compacting->offset + compacting->piece_bytes,
		.mark_offset = compacting->mark_offset,
		.mark_rows = compacting->mark_rows,
	};
}

static void emit_line(struct compacting *compacting, struct batch *batch)
{
	const struct backend_node *node = &compacting->node;
	struct emitting *at = &compacting->at;
	struct line line;

	lines_next(&at->rest, &line);
	/* Pieces may stand before the first one. */
	if (at->index > compacting->first)
		list_mark_put(batch, node->ino, at->offset, at->index, &at->mark_offset,
			      &at->mark_rows);
	batch_row_put(batch, node->session, node->key, at->index++, line.text);
	at->offset += line.size;
	at->mark_rows++;
}

static int emit_lines(struct compacting *compacting, struct batch *batch, size_t limit)
{
	while (compacting->at.rest.size && !batch->error && batch->count < limit)
		emit_line(compacting, batch);
	return batch->error;
}

static int emit_more(struct backend_batch *source)
{
	struct compacting *compacting = source->arg;
	int r;

	batch_clear(&compacting->block);
	r = emit_lines(compacting, &compacting->block, EMIT_BLOCK);
	if (r < 0)
		return r;
	source->ops = compacting->block.ops;
	source->count = compacting->block.count;
	return source->count > 0;
}

static void emit_again(struct backend_batch *source)
{
	struct compacting *compacting = source->arg;

	compacting->at = compacting->behind_first;
	source->ops = compacting->batch.ops;
	source->count = compacting->batch.count;
}

static int compact_commit(struct compacting *compacting)
{
	struct backend_batch source = { .more = emit_more,
					.rewind = emit_again,
					.arg = compacting };
	unsigned flags = grows_by(compacting) < 0 ? BACKEND_FREES : 0;
	struct bytes pieces = { 0 };
	int r = compacting->pieces.size ? stage_map(&compacting->pieces, &pieces) : 0;
	bool newline;

	if (r < 0)
		return r;
	emit_begin(compacting, pieces);
	r = emit_lines(compacting, &compacting->batch, compacting->batch.count + EMIT_FIRST);
	if (r < 0)
		return r;
	/* With the newline, if the last line had none. */
	newline = compacting->inode->node.flags & ~compacting->node.flags & BACKEND_NO_NEWLINE;
	batch_grows(&compacting->batch, compacting->inode->node.parent,
		    grows_by(compacting) + newline);
	if (!compacting->at.rest.size)
		return tree_commit(compacting->tree, &compacting->batch, flags);
	compacting->behind_first = compacting->at;
	emit_again(&source);
	return tree_commit_source(compacting->tree, &compacting->batch, &source, flags);
}

/* The list's last line gets its newline if it is replaced, or another one follows. */
static void plan_node(struct compacting *compacting, int64_t mtime)
{
	const struct list_state *list = &compacting->inode->list;
	struct backend_node *node = &compacting->node;

	*node = compacting->inode->node;
	node->flags &= ~(uint32_t)BACKEND_ADOPTED;
	if (compacting->first <= list->tail_row ? list->tail_row <= compacting->last :
						  compacting->first == list->tail_row + 1)
		node->flags &= ~(uint32_t)BACKEND_NO_NEWLINE;
	node->mtime = mtime;
	node->ctime = time_now();
	node_rewritten(node);
}

/* Publishing. */

/* At the very front, where other programs may have put rows below 0. */
static int plan_front(struct compacting *compacting)
{
	const struct window *window = compacting->window;
	const struct backend_node *node = &compacting->inode->node;
	struct view *view = &compacting->view;
	struct backend_key_stat stat;
	int r;

	if (compacting->first <= compacting->last ||
	    window->asked->question->items_from > INT64_MIN)
		return 0;
	r = ASK(view, key_stat, node->session, node->key, &stat);
	if (r < 0 || stat.first >= compacting->first)
		return r == -ENOENT ? 0 : r;
	compacting->begin = compacting->first = stat.first;
	compacting->last = stat.first - (stat.first > INT64_MIN);
	return 0;
}

static int plan(struct compacting *compacting)
{
	struct inode *inode = compacting->inode;
	struct view *view = &compacting->view;
	int r = inode_view_begin(compacting->tree, inode, view);

	if (r == 0)
		r = content_size(compacting->tree, view, inode, &compacting->size_before);
	if (r == 0)
		r = plan_front(compacting);
	/* A program has put a row at an end of the numbers. */
	if (r == 0 && (compacting->first == INT64_MIN ||
		       inode->list.next >= INT64_MAX - (int64_t)compacting->bytes.size))
		r = -EFBIG;
	if (r == 0)
		r = plan_same(compacting);
	if (r < 0 || changes_nothing(compacting))
		return r;
	r = plan_middle(compacting);
	if (r == 0)
		plan_node(compacting, compacting->window->saving.time);
	if (r == 0 && versions_wanted(inode, NULL))
		r = version_take(view, inode, &compacting->version);
	view_end(view);
	return r;
}

/* Set the rows that the window stands for from now on. */
static void window_follows(struct compacting *compacting)
{
	struct window *window = compacting->window;
	struct bytes rest = compacting->bytes;
	struct line line;

	window->saving.first = compacting->begin;
	window->saving.last = compacting->begin - 1;
	while (lines_next(&rest, &line))
		window->saving.last++;
	window->generation = compacting->inode->node.generation;
}

static void apply(struct compacting *compacting, struct notes *notes)
{
	struct inode *inode = compacting->inode;

	inode->node = compacting->node;
	inode_unload(inode);
	inode->inherits = false;
	inode->version++;
	if (compacting->version && versions_apply(notes, inode, NULL, compacting->version))
		name_forget(notes, compacting->tree, inode);
	notes_change(notes, compacting->tree, inode, CHANGE_REPLACED, compacting->size_before,
		     NULL);
	notes_happened(notes, compacting->tree,
		       &(struct happened){ .what = EVENT_SAVE, .inode = inode });
}

/* 1: the list is not the same any more. */
static int compact_once(struct tree *tree, struct window *window, struct bytes bytes,
			struct notes *notes)
{
	struct inode *inode = window->of;
	_cleanup_(compacting_done) struct compacting compacting = {
		.tree = tree,
		.window = window,
		.inode = inode,
		.bytes = bytes,
		.lines = bytes,
		.begin = window->saving.first,
		.first = window->saving.first,
		.last = window->saving.last,
	};
	WITH_TURN(tree, bytes.size + window->rows.size >= COMPACT_LARGE);
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int r;

	if (inode->node.kind != BACKEND_LIST || !inode->node.nlink || inode->gone ||
	    inode->node.generation != window->generation)
		return 1;
	if (inode->apart)
		return -EIO;
	if (inode_is_draft(inode)) {
		log_warning("session %s, key %s: the save through %s fails: the list is a draft "
			    "until an append or a save completes it",
			    SHOWN(inode->node.session), SHOWN(inode->node.key),
			    window->asked->text);
		return -EINVAL;
	}
	r = plan(&compacting);
	if (r == 0 && !changes_nothing(&compacting))
		r = compact_commit(&compacting);
	if (r < 0)
		return r;
	if (!changes_nothing(&compacting))
		apply(&compacting, notes);
	window_follows(&compacting);
	return 0;
}

/* -EFBIG: a line is longer than the store can take.  -EINVAL: one is not JSON; the log says so. */
static int check_lines(const struct tree *tree, const struct window *window, struct bytes bytes)
{
	struct json_error error = { 0 };
	struct line line;

	for (uint64_t number = 1; lines_next(&bytes, &line); number++) {
		if (line.size > tree->backend->max_item)
			return -EFBIG;
		if (lines_is_row(line.text, &error) && line.newline)
			continue;
		log_warning("inode %llu: the save through %s fails: line %llu, column %zu: %s; "
			    "only complete lines of JSON can replace items",
			    (unsigned long long)window->of->ino, window->asked->text,
			    (unsigned long long)number, error.offset + 1,
			    line.newline ? error.reason : "no newline at its end");
		return -EINVAL;
	}
	return 0;
}

int compact_publish(struct tree *tree, struct window *window, enum notify_how how)
{
	struct notes notes = { 0 };
	struct bytes bytes;
	int r = stage_map(&window->saving.stage, &bytes);

	if (r < 0)
		return r;
	r = check_lines(tree, window, bytes);
	if (r == 0)
		r = TREE_RETRY(tree, compact_once(tree, window, bytes, &notes));
	stage_unmap(&window->saving.stage);
	notes_send(&notes, tree, how);
	if (r > 0)
		log_warning("inode %llu: the save through %s fails: the list has changed since, "
			    "not only by appended lines",
			    (unsigned long long)window->of->ino, window->asked->text);
	return r > 0 ? -ESTALE : r;
}
