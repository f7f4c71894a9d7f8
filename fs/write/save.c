/* SPDX-License-Identifier: MIT */

/*
 * The life of a save
 *
 *   A writer that replaces content works on a stage of its own, which others do not see.  When it
 *   closes or syncs, the stage is published: planned, then emitted.
 *
 *   The plan compares the stage with the rows in one pass over both, in step: line by line, row by
 *   row.  It remembers what each line is (a piece, a row that is there already, a row to be
 *   written), as runs of equal ones, so a plan is small however large the save is; and memory of
 *   the stage that was read is given back to the system on the way.  Nothing is written meanwhile,
 *   and if another program changes a row before the commit, the commit answers -ESTALE and all
 *   begins again.
 *
 *   Emitting turns the plan into operations, a block at a time: first the deletions, then rows,
 *   pieces and marks in the order of the file.  The store applies the blocks as one transaction.
 *   Rows that did not change are not mentioned, so they keep their times.
 *
 *   Bytes that cannot be rows become a draft instead: all of them in chunks, the rows left as
 *   they are.  That is a single that is not JSON, a sidecar that is not text, and a list that had
 *   rows and ends in a torn line.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/lines.h"
#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/generation.h"
#include "fs/inode/inodes.h"
#include "fs/write/handle.h"
#include "backend/base/utf8.h"

enum {
	EMIT_FIRST = 1000,    /* operations of a save that is committed as a plain array */
	EMIT_BLOCK = 256,     /* operations of one block of a larger one */
	EMIT_BYTES = 8 << 20, /* bytes that one block refers to, about */
	PLAN_BYTES = 8 << 20, /* read before they are given back */
	RUN_BITS = 6,	      /* of a byte in the codes: the length of the run, less one */
	RUN_MAX = 1 << RUN_BITS,
};

enum save_how {
	SAVE_CHUNKS, /* an ordinary file, or a draft */
	SAVE_ROW,    /* a single or a sidecar */
	SAVE_LINES,  /* a list */
};

enum line_code {
	LINE_PIECE,
	LINE_KEPT, /* the row is there already */
	LINE_ROW,  /* the row must be written */
};

/* The position of emitting. */
struct emitting {
	struct bytes rest;
	size_t run;
	unsigned run_used; /* lines of that run that were emitted */
	bool forgot;	   /* what was kept of the key is deleted */
	uint64_t offset;
	int64_t index;
	int64_t seq;
	uint64_t mark_offset;
	uint64_t mark_rows;
};

struct save {
	struct save_target target;
	struct stage *stage;
	struct bytes bytes;
	enum save_how how;
	struct buf codes; /* SAVE_LINES: runs, a byte each: an enum line_code and their number */
	bool had_pieces;  /* the file has pieces in the store */
	bool any_row;
	bool warned;	   /* the log knows of a bad line */
	bool strict;	   /* which is refused */
	int64_t first_row; /* of the rows that are there */
	int64_t last_row;
	int64_t rows;	       /* of the new content */
	uint64_t first_change; /* offset of the first byte that differs */
	bool begun;	       /* something was emitted */
	bool forgets;
	struct emitting at;
	/* While save_commit() hands blocks out: the operations before the save, the position after
	 * them, and what follows. */
	const struct batch *first;
	struct emitting behind_first;
	struct batch block;
};

/* Planning. */

struct planning {
	struct save *save;
	struct bytes rest;
	uint64_t offset;
	uint64_t passed; /* bytes that were given back */
	uint64_t lines;
	uint64_t max_item;
	struct bytes tail; /* the last line, if it has no newline */
};

static int codes_add(struct buf *codes, enum line_code code)
{
	unsigned char *last = codes->size ? (unsigned char *)&codes->data[codes->size - 1] : NULL;

	if (last && *last >> RUN_BITS == code && *last % RUN_MAX < RUN_MAX - 1) {
		++*last;
		return 0;
	}
	return buf_append_byte(codes, (char)(code << RUN_BITS));
}

static enum line_code codes_next(struct save *save)
{
	unsigned char run = (unsigned char)save->codes.data[save->at.run];

	if (++save->at.run_used > run % RUN_MAX) {
		save->at.run++;
		save->at.run_used = 0;
	}
	return (enum line_code)(run >> RUN_BITS);
}

static int plan_code(struct planning *planning, const struct line *line, enum line_code code)
{
	struct save *save = planning->save;
	struct json_error error;

	/* Check before anything is taken. */
	if (line->size > planning->max_item)
		return -EFBIG;
	planning->lines++;
	if (!line->newline)
		planning->tail = line->text;
	if (code != LINE_KEPT)
		save->first_change = MIN(save->first_change, planning->offset);
	if (code != LINE_PIECE)
		save->rows++;
	else if (!save->warned && !lines_is_row(line->text, &error) &&
		 !lines_is_blank(line->text)) {
		invalid_log(save->target.node, "line", planning->lines, &error, save->strict);
		save->warned = true;
	}
	planning->offset += line->size;
	if (planning->offset - planning->passed >= PLAN_BYTES) {
		planning->passed = planning->offset;
		stage_passed(save->stage, planning->passed);
	}
	return codes_add(&save->codes, code);
}

/* The next row of the store meets the lines up to the next one that is a row. */
static int plan_row(void *arg, int64_t index, struct bytes data)
{
	struct planning *planning = arg;
	struct save *save = planning->save;
	struct line line;
	int r;

	if (!save->any_row)
		save->first_row = index;
	save->any_row = true;
	save->last_row = index;
	while (lines_next(&planning->rest, &line)) {
		bool numbered = index == save->rows;

		if (numbered && lines_row_equals(data, line.text) && !lines_is_blank(line.text))
			return plan_code(planning, &line, LINE_KEPT);
		if (lines_is_row(line.text, NULL))
			return plan_code(planning, &line, LINE_ROW);
		r = plan_code(planning, &line, LINE_PIECE);
		if (r < 0)
			return r;
	}
	return 0;
}

static int plan_lines(struct tree *tree, struct view *view, struct save *save)
{
	struct backend_node *node = save->target.node;
	struct planning planning = {
		.save = save,
		.rest = save->bytes,
		.max_item = tree->backend->max_item,
	};
	struct bytes tail;
	struct line line;
	int r = 0;

	save->first_change = save->bytes.size;
	if (!save->target.fresh)
		r = ASK(view, row_read, node->session, node->key, INT64_MIN, plan_row, &planning);
	while (r == 0 && lines_next(&planning.rest, &line))
		r = plan_code(&planning, &line,
			      lines_is_row(line.text, NULL) ? LINE_ROW : LINE_PIECE);
	if (r == 0 && save->target.same)
		r = list_has_pieces(view, node->ino, &save->had_pieces);
	if (r < 0)
		return r;
	tail = planning.tail;
	if (save->had_pieces || (save->any_row && save->first_row != 0))
		save->first_change = 0;
	if ((save->any_row && tail.size && !lines_is_blank(tail) && !lines_is_row(tail, NULL)) ||
	    (save->warned && tree->options.strict)) {
		node->flags |= BACKEND_DRAFT;
		node->size = save->bytes.size;
		save->how = SAVE_CHUNKS;
		return 0;
	}
	if (tail.size && lines_is_row(tail, NULL))
		node->flags |= BACKEND_NO_NEWLINE;
	return 0;
}

/* A sidecar. */
static bool plan_is_text(const struct save *save)
{
	struct json_error error = { .reason = "not text" };

	if (save->bytes.size && utf8_valid(save->bytes) &&
	    !memchr(save->bytes.data, '\0', save->bytes.size))
		return true;
	if (save->bytes.size)
		invalid_log(save->target.node, "line", 1, &error, save->strict);
	return false;
}

static bool plan_is_valid(const struct save *save)
{
	const struct backend_node *node = save->target.node;
	struct json_error error;
	uint64_t line = 1;
	size_t start = 0;

	if (node->kind == BACKEND_HASH)
		return plan_is_text(save);
	if (stage_is_json(save->stage, save->bytes, &error))
		return true;
	for (size_t i = 0; i < error.offset; i++)
		if (save->bytes.data[i] == '\n') {
			line++;
			start = i + 1;
		}
	error.offset -= start;
	/* Every new file is empty for a moment: not worth a log entry. */
	if (save->bytes.size)
		invalid_log(node, "line", line, &error, save->strict);
	return false;
}

static int plan_whole(struct tree *tree, struct save *save)
{
	struct backend_node *node = save->target.node;

	if (save->how == SAVE_ROW && save->bytes.size > tree->backend->max_item)
		return -EFBIG;
	if (save->how == SAVE_ROW && plan_is_valid(save))
		return 0;
	if (save->how == SAVE_ROW)
		node->flags |= BACKEND_DRAFT;
	node->size = save->bytes.size;
	save->how = SAVE_CHUNKS;
	return 0;
}

int save_plan(struct tree *tree, struct view *view, const struct save_target *target,
	      struct stage *stage, struct save **ret_save)
{
	_cleanup_(save_freep) struct save *save = calloc(1, sizeof(*save));
	struct backend_node *node = target->node;
	int r;

	if (!save)
		return -ENOMEM;
	save->target = *target;
	save->stage = stage;
	save->strict = tree->options.strict;
	r = stage_map(stage, &save->bytes);
	if (r < 0)
		return r;
	save->at.rest = save->bytes;
	node->flags = 0;
	node->size = 0;
	node_rewritten(node);
	if (node->kind == BACKEND_LIST) {
		save->how = SAVE_LINES;
		r = plan_lines(tree, view, save);
	} else {
		save->how = node->kind == BACKEND_ORDINARY ? SAVE_CHUNKS : SAVE_ROW;
		r = plan_whole(tree, save);
	}
	if (r < 0)
		return r;
	*ret_save = steal_ptr(save);
	return 0;
}

/* Emitting. */

static void emit_row(const struct save *save, struct batch *batch, int64_t index, struct bytes data)
{
	const struct backend_node *node = save->target.node;

	batch_row_put(batch, node->session, node->key, index, data);
	batch_row_kind(batch, node->kind);
	dates_apply(&save->target.dates, node->kind, batch_last(batch));
}

static void emit_begin(struct save *save, struct batch *batch)
{
	const struct backend_node *node = save->target.node;

	save->begun = true;
	if (node->session.data && node->key.data)
		batch_guard_rows(batch, node->session, node->key);
	batch_node_put(batch, node);
	if (save->target.had_chunks)
		batch_chunk_delete(batch, node->ino, 0, INT64_MAX);
	if (save->how == SAVE_ROW)
		emit_row(save, batch, 0, save->bytes);
	if (save->how != SAVE_LINES)
		return;
	save->at.mark_offset = save->first_change;
	if (save->had_pieces)
		batch_piece_delete(batch, node->ino, INT64_MIN, INT64_MIN);
	if (save->target.same)
		batch_mark_delete(batch, node->ino, MAX(save->first_change, 1));
	if (save->any_row && save->first_row < 0)
		batch_row_delete(batch, node->session, node->key, INT64_MIN, -1);
	if (save->any_row && save->last_row >= save->rows)
		batch_row_delete(batch, node->session, node->key, save->rows, INT64_MAX);
}

/* Lines that are not rows and follow a whole one may share its piece, so that a file of blank lines
 * does not have a piece for each byte.  A line without a newline is a piece of its own, since an
 * append takes it away again. */
static void emit_gather(struct save *save, struct line *line)
{
	struct bytes rest = save->at.rest;
	struct line next;

	while (line->size < PIECE_LINES && lines_next(&rest, &next) && next.newline &&
	       (unsigned char)save->codes.data[save->at.run] >> RUN_BITS == LINE_PIECE) {
		codes_next(save);
		line->size += next.size;
		save->at.rest = rest;
	}
}

static void emit_line(struct save *save, struct batch *batch)
{
	enum line_code code = codes_next(save);
	struct line line;

	lines_next(&save->at.rest, &line);
	if (!save->at.seq && save->at.offset > save->first_change)
		list_mark_put(batch, save->target.node->ino, save->at.offset, save->at.index,
			      &save->at.mark_offset, &save->at.mark_rows);
	if (code == LINE_PIECE) {
		emit_gather(save, &line);
		batch_pieces_put(batch, save->target.node->ino, save->at.index, &save->at.seq,
				 bytes_make(line.text.data, line.size));
	} else {
		if (code == LINE_ROW)
			emit_row(save, batch, save->at.index, line.text);
		save->at.index++;
		save->at.seq = 0;
		if (save->at.offset >= save->first_change)
			save->at.mark_rows++;
	}
	save->at.offset += line.size;
}

/* Add about limit operations at most; 1 when there are more, 0 after the last, -errno. */
static int save_emit(struct save *save, struct batch *batch, size_t limit)
{
	const char *start = save->at.rest.data;
	size_t part;

	if (!save->begun)
		emit_begin(save, batch);
	while (save->how != SAVE_ROW && save->at.rest.size) {
		if (batch->error)
			return batch->error;
		if (batch->count >= limit || save->at.rest.data - start >= EMIT_BYTES)
			return 1;
		if (save->how != SAVE_CHUNKS) {
			emit_line(save, batch);
			continue;
		}
		part = MIN(save->at.rest.size, (size_t)BACKEND_CHUNK);
		batch_chunk_put(batch, save->target.node->ino, save->at.index++,
				bytes_make(save->at.rest.data, part));
		save->at.rest = bytes_make(save->at.rest.data + part, save->at.rest.size - part);
	}
	if (save->forgets && !save->at.forgot) {
		batch_past_anew(batch, save->target.node);
		save->at.forgot = true;
	}
	return batch->error;
}

int save_emit_all(struct save *save, struct batch *batch)
{
	int r = 0;

	if (!save)
		return 0;
	do
		r = save_emit(save, batch, SIZE_MAX);
	while (r > 0);
	return r;
}

void save_free(struct save *save)
{
	if (!save)
		return;
	stage_unmap(save->stage);
	buf_done(&save->codes);
	batch_done(&save->block);
	free(save);
}

static int emit_more(struct backend_batch *source)
{
	struct save *save = source->arg;
	int r;

	/* A block in which nothing differs has no operations, and is not the end. */
	do {
		stage_passed(save->stage, (uint64_t)(save->at.rest.data - save->bytes.data));
		batch_clear(&save->block);
		r = save_emit(save, &save->block, EMIT_BLOCK);
	} while (r > 0 && !save->block.count);
	if (r < 0)
		return r;
	source->ops = save->block.ops;
	source->count = save->block.count;
	return source->count > 0;
}

static void emit_again(struct backend_batch *source)
{
	struct save *save = source->arg;

	save->at = save->behind_first;
	source->ops = save->first->ops;
	source->count = save->first->count;
}

int save_commit(struct tree *tree, struct save *save, struct batch *batch, unsigned flags)
{
	struct backend_batch source = { .more = emit_more, .rewind = emit_again, .arg = save };
	int r = save_emit(save, batch, batch->count + EMIT_FIRST);

	save->block.behind = batch->behind;
	if (r < 0)
		return r;
	if (r == 0)
		return tree_commit(tree, batch, flags);
	save->first = batch;
	save->behind_first = save->at;
	emit_again(&source);
	return tree_commit_source(tree, batch, &source, flags);
}

bool save_only_adds(const struct save *save, const struct inode *inode, uint64_t size_before)
{
	return save->how == SAVE_LINES && !inode_is_draft(inode) &&
	       save->first_change >= size_before;
}

void save_forget(struct save *save)
{
	save->forgets = true;
}

void save_set_target(struct save *save, const struct save_target *target)
{
	save->target = *target;
}
