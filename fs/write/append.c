/* SPDX-License-Identifier: MIT */

/*
 * The life of an append
 *
 *   A write at the end of a list is cut behind its last newline.  What comes after stays with the
 *   writer (writing.piece) until its newline comes, or until close or fsync.  The whole lines go to
 *   append_lines(), which makes each a row, or a piece if it is not JSON, and commits all of them
 *   in one transaction before the write is answered.
 *
 *   The end of a list (struct list_state) is in one of three states; a tail is what a writer has
 *   left without a newline when it closed or died:
 *
 *     newline  tail_size is 0: the list is empty, or ends in a newline
 *     row      tail_is_row: the tail is the last row (tail_row), whose newline is missing
 *     torn     the tail is pieces from seq tail_seq on before row next
 *
 *   The first line of an append meets it; its own end makes the next state:
 *
 *     state      when                                      the line
 *
 *     newline    always                                    becomes a row or a piece
 *     row, torn  the tail is the same writer's own         is glued: it goes on where that stopped
 *     row, torn  the glued line is valid JSON              is glued (cat part2 >> f)
 *     row, torn  it is valid alone, and glued it is not    comes behind a newline (append_seal())
 *     row, torn  neither is valid                          is glued, as in any file
 *
 *   A torn tail begins a new seq, so that it can be taken away by that.  Gluing takes the tail away
 *   and appends the glued line.  But while that is not valid JSON, more pieces are added behind a
 *   torn tail instead: so many torn lines cost the sum of their lengths, not its square.
 *
 *   A list that is a draft has no rows to append to: its content is taken into a stage, the bytes
 *   are appended there by the same rules, and the whole is published, which ends the draft if the
 *   torn line is complete then.
 */

#include <errno.h>

#include "fs/base/lines.h"
#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/generation.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/write/handle.h"

enum { CHARACTER_MAX = 4 }; /* bytes of a character in UTF-8 */

struct appending {
	struct tree *tree;
	struct inode *inode;
	struct view *view;	/* as long as one is needed */
	struct list_state list; /* as it will be */
	int64_t mtime;
	int64_t first;	      /* index of the first row that this batch adds, or changes */
	uint64_t piece_lines; /* that this batch adds */
	bool anywhere;	      /* what other mounts have appended may come before it */
	bool warned;	      /* the log knows of a bad line */
	bool rewritten;	      /* a row that was there becomes another one */
	const struct face *by;
	struct notes *notes;
	struct batch batch;
};

static void append_piece(struct appending *appending, struct bytes data)
{
	struct list_state *list = &appending->list;
	struct backend_op *op = batch_last(&appending->batch);

	list->size += data.size;
	/* Whole lines of one write that are not rows share a piece. */
	if (op && op->type == BACKEND_PIECE_PUT && op->data.data + op->data.size == data.data &&
	    data.data[-1] == '\n' && data.data[data.size - 1] == '\n' &&
	    op->data.size < PIECE_LINES) {
		op->data.size += data.size;
		return;
	}
	batch_pieces_put(&appending->batch, appending->inode->node.ino, list->next,
			 &list->piece_seq, data);
}

static int count_newlines(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	uint64_t *lines = arg;
	struct line line;

	(void)index;
	(void)seq;
	while (lines_next(&data, &line))
		*lines += line.newline;
	return 0;
}

/* Count lines that are not rows, for the number of the next line; once a list.  added: those that
 * are not in the store yet.  The view is begun if need be. */
static void count_piece_lines(struct tree *tree, struct view *view, const struct inode *inode,
			      uint64_t added, struct list_state *list)
{
	if (list->pieces_counted || (!view->backend && view_begin(tree, BACKEND_ANYWAY, view) < 0))
		return;
	list->piece_lines = added;
	if (ASK(view, piece_read, inode->node.ino, INT64_MIN, INT64_MIN, count_newlines,
		&list->piece_lines) == 0)
		list->pieces_counted = true;
}

/* A line behind a newline, or instead of a tail that was taken away.  over_row: a row with index
 * list.next is there and will be replaced. */
static void append_line(struct appending *appending, const struct line *line, bool over_row)
{
	const struct backend_node *node = &appending->inode->node;
	struct list_state *list = &appending->list;
	struct json_error error;

	if (!list->piece_seq)
		list_mark_put(&appending->batch, node->ino, list->size, list->next,
			      &list->mark_offset, &list->mark_rows);
	if (!lines_is_row(line->text, &error)) {
		if (!lines_is_blank(line->text) && !appending->warned) {
			count_piece_lines(appending->tree, appending->view, appending->inode,
					  appending->piece_lines, list);
			invalid_log(node, "line", (uint64_t)list->next + list->piece_lines + 1,
				    &error, false);
			appending->warned = true;
		}
		list->piece_lines += line->newline;
		appending->piece_lines += line->newline;
		if (over_row)
			batch_row_delete(&appending->batch, node->session, node->key, list->next,
					 list->next);
		list->tail_seq = list->piece_seq;
		list->tail_size = line->newline ? 0 : line->size;
		append_piece(appending, bytes_make(line->text.data, line->size));
		return;
	}
	if (over_row)
		batch_row_put(&appending->batch, node->session, node->key, list->next, line->text);
	else
		batch_row_insert(&appending->batch, node->session, node->key, list->next,
				 line->text);
	dates_apply(&appending->inode->dates, node->kind, batch_last(&appending->batch));
	list->size += line->size;
	list->tail_is_row = !line->newline;
	list->tail_row = list->next;
	list->tail_row_seq = list->piece_seq;
	list->tail_size = line->newline ? 0 : line->size;
	list->mark_rows++;
	list->next++;
	list->piece_seq = 0;
}

static void tail_ends(struct list_state *list)
{
	list->tail_is_row = list->tail_spoilt = false;
	list->tail_size = 0;
	list->tail_opens = '\0';
}

/* Close the tail off. */
static void append_seal(struct appending *appending)
{
	struct list_state *list = &appending->list;

	if (list->tail_is_row)
		list->size++;
	else {
		append_piece(appending, BYTES("\n"));
		list->piece_lines++;
		appending->piece_lines++;
	}
	tail_ends(list);
}

/* Take the tail away; true when it is a row that stands at list.next now. */
static bool append_take_tail(struct appending *appending)
{
	struct list_state *list = &appending->list;
	bool was_row = list->tail_is_row;

	list->size -= list->tail_size;
	if (was_row) {
		appending->first = list->next = list->tail_row;
		list->piece_seq = list->tail_row_seq;
		list->mark_rows -= MIN(list->mark_rows, 1);
	} else {
		batch_piece_delete(&appending->batch, appending->inode->node.ino, list->next,
				   list->tail_seq);
		list->piece_seq = list->tail_seq;
	}
	tail_ends(list);
	return was_row;
}

/* Add a line to a torn tail that is still not JSON then. */
static void append_behind_tail(struct appending *appending, const struct line *line)
{
	struct list_state *list = &appending->list;

	append_piece(appending, bytes_make(line->text.data, line->size));
	list->piece_lines += line->newline;
	appending->piece_lines += line->newline;
	list->tail_size += line->size;
	if (line->newline)
		tail_ends(list);
}

/* The bytes that a JSON text can end in when it begins with this one; "" when no JSON text does. */
static const char *last_bytes(char first)
{
	switch (first) {
	case '{':
		return "}";
	case '[':
		return "]";
	case '"':
		return "\"";
	case 't':
	case 'f':
		return "e";
	case 'n':
		return "l";
	case '-':
	case '0' ... '9':
		return "0123456789";
	default:
		return "";
	}
}

/* Whether a torn tail may be JSON with this line behind it, as far as is known. */
static bool tail_may_become_row(const struct appending *appending, struct bytes line)
{
	const struct list_state *list = &appending->list;
	size_t size = line.size;

	if (list->tail_spoilt || list->tail_size + line.size > appending->tree->backend->max_item)
		return false;
	while (size && memchr(" \t\r", line.data[size - 1], 3))
		size--;
	return !list->tail_opens ||
	       (size && strchr(last_bytes(list->tail_opens), line.data[size - 1]));
}

/* Remember why a tail with something behind it was not JSON. */
static void learn_tail(struct list_state *list, struct bytes tail, const struct json_error *error)
{
	size_t blanks = 0;

	while (blanks < tail.size && memchr(" \t\r", tail.data[blanks], 3))
		blanks++;
	list->tail_opens = blanks < tail.size ? tail.data[blanks] : '\0';
	/* For a character that is cut short, the error has its start. */
	list->tail_spoilt = error->offset + CHARACTER_MAX <= tail.size;
}

static int stop_at_row(void *arg, int64_t index, struct bytes data)
{
	(void)index, (void)data;
	*(bool *)arg = true;
	return 1;
}

/* -ESTALE: another program has put a row there.  -EEXIST: the row in the way is of a key that the
 * store takes for this one. */
static int look_for_row(const struct appending *appending)
{
	const struct backend_node *node = &appending->inode->node;
	struct backend *backend = appending->tree->backend;
	struct backend_snapshot *snapshot;
	bool found = false;
	int r = backend->ops->snapshot_begin(backend, 0, &snapshot);

	if (r < 0)
		return r;
	r = backend->ops->row_read(backend, snapshot, node->session, node->key, appending->first,
				   stop_at_row, &found);
	backend->ops->snapshot_end(backend, snapshot);
	return r < 0 ? r : found ? -ESTALE : -EEXIST;
}

/* The first line meets a tail.  glued becomes the bytes of both. */
static int append_to_tail(struct appending *appending, const struct line *first, bool own_tail,
			  struct buf *glued)
{
	struct list_state *list = &appending->list;
	struct line line = *first;
	struct json_error error;
	bool was_row;
	int r;

	if (!list->tail_is_row && !tail_may_become_row(appending, first->text)) {
		if (own_tail || appending->tree->options.exact ||
		    !lines_is_row(first->text, NULL)) {
			append_behind_tail(appending, first);
		} else {
			append_seal(appending);
			append_line(appending, first, false);
		}
		return 0;
	}
	r = list_read_tail(appending->view, appending->inode, glued);
	if (r < 0)
		return r;
	if (glued->size != list->tail_size)
		return -EIO;
	r = buf_append(glued, first->text.data, first->size);
	if (r < 0)
		return r;
	line.text = bytes_make(glued->data, glued->size - (first->newline ? 1 : 0));
	line.size = glued->size;
	if (!append_shall_glue(appending->tree, own_tail, line.text, first->text)) {
		append_seal(appending);
		append_line(appending, first, false);
		return 0;
	}
	if (!list->tail_is_row && !lines_is_row(line.text, &error)) {
		append_behind_tail(appending, first);
		if (list->tail_size)
			learn_tail(list, line.text, &error);
		return 0;
	}
	was_row = append_take_tail(appending);
	appending->rewritten = was_row && first->text.size;
	append_line(appending, &line, was_row);
	return 0;
}

/* Whether all that the batch does is to insert rows of whole lines behind whole lines. */
static bool adds_rows_only(const struct appending *appending)
{
	bool rows = !appending->inode->list.tail_size && !appending->list.tail_size;

	for (size_t i = 0; rows && i < appending->batch.count; i++)
		rows = appending->batch.ops[i].type == BACKEND_ROW_INSERT ||
		       appending->batch.ops[i].type == BACKEND_MARK_PUT;
	return rows;
}

/* Lines of others, which are not digested yet, stand before those that are committed: so much is
 * known of them that their notes say nothing new (digest_rows()). */
static void append_behind_others(struct appending *appending, const struct backend_append *append,
				 uint64_t size_before)
{
	struct inode *inode = appending->inode;
	struct list_state *list = &appending->list;
	const int64_t rows = append->first - append->expected;

	list->next += rows;
	list->tail_row += rows;
	list->mark_rows += (uint64_t)rows;
	list->size += append->bytes;
	inode->list = *list;
	inode->stored_known = false;
	inode->version++;
	inode_extended(inode, inode->version - 1);
	notes_change(appending->notes, appending->tree, inode, CHANGE_GREW, size_before, NULL);
}

static void append_behind_known(struct appending *appending, uint64_t size_before)
{
	struct inode *inode = appending->inode;
	bool tail_changed = inode->list.tail_size != 0;

	inode->list = appending->list;
	if (tail_changed) {
		inode->version++;
		inode_extended(inode, inode->version - 1);
	}
	notes_change(appending->notes, appending->tree, inode, CHANGE_GREW, size_before,
		     appending->by);
}

static int append_commit(struct appending *appending)
{
	struct inode *inode = appending->inode;
	struct backend_node node = inode->node;
	struct backend_append append = {
		.session = node.session,
		.key = node.key,
		.ino = node.ino,
		.expected = appending->first,
		.first = appending->first,
	};
	bool shared = backend_is_shared(appending->tree->backend);
	uint64_t size = inode->list.size;
	bool with_node;
	int r;

	if (shared && appending->anywhere && adds_rows_only(appending))
		appending->batch.append = &append;

	node.mtime = appending->mtime;
	node.ctime = time_now();
	node.flags &= ~(uint32_t)(BACKEND_NO_NEWLINE | BACKEND_ADOPTED);
	if (appending->list.tail_is_row)
		node.flags |= BACKEND_NO_NEWLINE;
	if (appending->rewritten)
		node_rewritten(&node);
	with_node = node.flags != inode->node.flags || appending->rewritten || inode->synced ||
		    (shared && shared_times_due(&inode->shared_times));
	if (node.flags != inode->node.flags)
		batch_node_put(&appending->batch, &node);
	else if (with_node)
		batch_node_set(&appending->batch, &node,
			       BACKEND_MTIME | BACKEND_CTIME |
				       (appending->rewritten ? BACKEND_GENERATION : 0U),
			       0);
	else
		batch_guard(&appending->batch, node.ino, false);
	if (!appending->batch.append)
		batch_guard_rows(&appending->batch, node.session, node.key);
	/* What it has inherited did not count until now. */
	batch_grows(&appending->batch, node.parent,
		    (int64_t)(appending->list.size - (inode->inherits ? 0 : size)));
	r = tree_commit_file(appending->tree, inode, &appending->batch,
			     inode->sync_soon ? BACKEND_SYNC_SOON : 0);
	if (r == -EEXIST) {
		/* Another program's row stands where ours should; look again. */
		inode_unload(inode);
		return look_for_row(appending);
	}
	if (r < 0)
		return r;
	if (!with_node)
		inode_times_dirty(appending->tree, inode);
	else
		inode_times_written(appending->tree, inode);
	if (shared)
		inode->shared_times.appends++;
	inode->synced = inode->sync_soon = false;
	inode->node = node;
	inode->inherits = false; /* now it has written to them */
	inode->loaded = true;
	inode->grown = false;
	if (append.first != append.expected)
		append_behind_others(appending, &append, size);
	else
		append_behind_known(appending, size);
	notes_happened(appending->notes, appending->tree,
		       &(struct happened){
			       .what = EVENT_APPEND, .inode = inode, .first = append.first });
	return 0;
}

/* A draft: by the same rules, in a stage. */
static int append_to_draft(struct tree *tree, struct view *view, struct inode *inode,
			   struct bytes data, bool own_tail, int64_t mtime, struct notes *notes)
{
	_cleanup_(stage_done) struct stage stage = { 0 };
	int r = content_to_stage(view, inode, &stage);

	if (r == 0)
		r = append_to_stage(tree, &stage, data, own_tail);
	if (r < 0)
		return r;
	view_end(view);
	return save_extend(tree, inode, &stage, mtime, notes);
}

int append_lines(struct tree *tree, struct inode *inode, struct bytes data, unsigned how,
		 int64_t mtime, const struct face *by, struct notes *notes)
{
	_cleanup_(buf_done) struct buf glued = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct appending appending = {
		.tree = tree,
		.inode = inode,
		.view = &view,
		.mtime = mtime,
		.anywhere = how & APPEND_ANYWHERE,
		.by = by,
		.notes = notes,
		.batch = { .behind = true },
	};
	const bool own_tail = how & APPEND_OWN_TAIL;
	/* The store says then what others have added. */
	const bool grown = inode->grown && (how & APPEND_ANYWHERE);
	struct bytes rest = data;
	struct line line;
	bool unsure;
	int r = 0;

	if (!data.size)
		return 0;
	if (inode->apart)
		return -EIO;
	if ((!inode->loaded && !grown) || inode->list.tail_size) {
		r = inode_view_begin(tree, inode, &view);
		if (r < 0)
			return r;
		if (inode_is_draft(inode))
			return append_to_draft(tree, &view, inode, data, own_tail, mtime, notes);
		r = content_load(tree, &view, inode);
		if (r < 0)
			return r;
	}
	appending.list = inode->list;
	appending.first = inode->list.next;
	/* A program has put a row at the very end of the numbers; none fits behind it. */
	if (inode->list.next > INT64_MAX - (int64_t)data.size)
		return -EFBIG;
	if (appending.list.tail_size && lines_next(&rest, &line))
		r = append_to_tail(&appending, &line, own_tail, &glued);
	while (r == 0 && lines_next(&rest, &line))
		append_line(&appending, &line, false);
	view_end(&view);
	unsure = inode->grown && !adds_rows_only(&appending);
	if (r == 0 && !unsure)
		r = append_commit(&appending);
	batch_done(&appending.batch);
	if (r < 0 || !unsure)
		return r;
	inode_unload(inode);
	return append_lines(tree, inode, data, how, mtime, by, notes);
}

/* The tail of a list or of its draft, and the number of the line that the next byte belongs to. */
static int read_end(struct tree *tree, struct inode *inode, struct buf *tail, uint64_t *ret_line)
{
	_cleanup_(stage_done) struct stage stage = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct bytes content;
	int r;

	r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_load(tree, &view, inode);
	if (r < 0)
		return r;
	if (!inode_is_draft(inode)) {
		struct list_state *list = &inode->list;

		count_piece_lines(tree, &view, inode, 0, list);
		*ret_line = (uint64_t)list->next + list->piece_lines + !list->tail_is_row;
		return list->tail_size ? list_read_tail(&view, inode, tail) : 0;
	}
	r = content_to_stage(&view, inode, &stage);
	if (r == 0)
		r = stage_map(&stage, &content);
	if (r < 0)
		return r;
	*ret_line = 1;
	for (size_t i = 0; i < content.size; i++)
		*ret_line += content.data[i] == '\n';
	return buf_append_bytes(tail, lines_tail(content));
}

static bool line_is_good(struct bytes line, struct json_error *error)
{
	return lines_is_row(line, error) || lines_is_blank(line);
}

int append_judge(struct tree *tree, struct inode *inode, struct bytes line, bool own_tail)
{
	_cleanup_(buf_done) struct buf glued = { 0 };
	struct json_error error;
	uint64_t number = 0;
	int r;

	if (inode->loaded && !inode_is_draft(inode) && !inode->list.tail_size &&
	    line_is_good(line, NULL))
		return 1;
	r = read_end(tree, inode, &glued, &number);
	if (r == 0)
		r = buf_append_bytes(&glued, line);
	if (r < 0)
		return r;
	if (line_is_good(buf_bytes(&glued), &error))
		return 1;
	if (glued.size > line.size && !own_tail && !tree->options.exact && line_is_good(line, NULL))
		return 1;
	invalid_log_refused(&inode->node, number, &error);
	return 0;
}
