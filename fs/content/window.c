/* SPDX-License-Identifier: MIT */

/*
 * What a window shows of a list: which rows it is made of, and their bytes.
 *
 *   Both are read in one view, with no lock held, since that may take long: the view shows the rows
 *   that the window's version and end stand for, and what is appended later lies behind its end.
 */

#include <errno.h>

#include "fs/base/lines.h"
#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"

enum { FILL_BYTES = 256 << 10 /* that are put into the stage at once */ };

struct looking {
	const struct window_rows *rows;
	int64_t since;	/* the row is made then or later, */
	int64_t before; /* and before then */
	int64_t from;	/* index that it has at least, */
	int64_t to;	/* and at the most */
	uint64_t most;	/* lines that are wanted, */
	uint64_t room;	/* and bytes of them */
	uint64_t count; /* those so far */
	uint64_t size;
	int64_t last; /* index of the last one */
	struct buf out;
	struct stage *stage;
	backend_row_time_fn *fn;
};

static struct looking looking_at(const struct window_rows *rows, int64_t from, int64_t to)
{
	const struct question *question = rows->question;

	return (struct looking){
		.rows = rows,
		.since = question_moment(question->since, rows->now, INT64_MIN),
		.before = question_moment(question->before, rows->now, INT64_MAX),
		.from = from,
		.to = to,
		.most = UINT64_MAX,
		.room = UINT64_MAX,
	};
}

static bool asks_times(const struct question *question)
{
	return question->since.clock != QUESTION_NEVER_SAID ||
	       question->before.clock != QUESTION_NEVER_SAID;
}

static bool row_fits(const struct looking *looking, struct bytes data, int64_t created)
{
	const struct question *question = looking->rows->question;

	if (asks_times(question) && (created < looking->since || created >= looking->before))
		return false;
	return !question_needs_line(question) || question_fits(question, data);
}

static int count_row(void *arg, int64_t index, int64_t created, struct bytes data)
{
	struct looking *looking = arg;
	uint64_t size = looking->size + data.size + 1;

	if (index > looking->to || index < looking->from)
		return 1;
	if (!row_fits(looking, data, created))
		return 0;
	if (looking->count == looking->most || size > looking->room)
		return 1;
	looking->count++;
	looking->size = size;
	looking->last = index;
	return looking->count == looking->most;
}

static int untimed(void *arg, int64_t index, struct bytes data)
{
	struct looking *looking = arg;

	return looking->fn(looking, index, 0, data);
}

/* Rows from an index on, rising or falling. */
static int look(struct view *view, struct looking *looking, bool back, backend_row_time_fn *fn)
{
	const struct window_rows *rows = looking->rows;
	int64_t start = back ? looking->to : looking->from;
	bool all = !question_needs_line(rows->question);
	uint64_t most = all ? looking->most : UINT64_MAX;

	if (looking->from > looking->to || !looking->most)
		return 0;
	looking->fn = fn;
	if (asks_times(rows->question))
		return ASK(view, row_read_times, buf_bytes(&rows->session), buf_bytes(&rows->key),
			   start, back, UINT64_MAX, fn, looking);
	if (back)
		return ASK(view, row_read_back, buf_bytes(&rows->session), buf_bytes(&rows->key),
			   start, most, untimed, looking);
	return ASK(view, row_read, buf_bytes(&rows->session), buf_bytes(&rows->key), start, untimed,
		   looking);
}

static int list_begin(struct tree *tree, struct view *view, struct inode *of,
		      struct window_rows *rows)
{
	struct backend_key_stat stat;
	uint64_t size;
	int r;

	view->inode = of;
	/* Not with its first read, when the list may be another. */
	r = view_begin(tree, BACKEND_BEGUN, view);
	if (r == 0)
		r = inode_heed(tree, view, of);
	if (r == 0)
		r = content_size(tree, view, of, &size);
	if (r == 0)
		r = buf_append_bytes(&rows->session, of->node.session);
	if (r == 0)
		r = buf_append_bytes(&rows->key, of->node.key);
	if (r < 0)
		return r;
	rows->list = true;
	rows->version = of->version;
	rows->end = of->list.next;
	/* Of a draft the rows are what there was before. */
	if (inode_is_draft(of)) {
		r = ASK(view, key_stat, of->node.session, of->node.key, &stat);
		rows->end = r == 0 ? stat.last + 1 : 0;
	}
	return r == -ENOENT ? 0 : r;
}

int window_begin(struct tree *tree, struct view *view, struct inode *of, struct window_rows *rows)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(of);

	if (of->gone || of->node.kind == BACKEND_HASH)
		return -ENOENT;
	if (of->node.kind != BACKEND_LIST)
		return 0;
	if (of->apart)
		return -EIO;
	return inode_is_changing(tree, of) ? -ESTALE : list_begin(tree, view, of, rows);
}

void window_rows_done(struct window_rows *rows)
{
	buf_done(&rows->session);
	buf_done(&rows->key);
}

static void chosen(struct window_rows *rows, const struct looking *looking, int64_t from,
		   int64_t to)
{
	rows->size = looking->size;
	rows->from = looking->count ? from : 0;
	rows->to = looking->count ? to : -1;
}

int window_choose(struct view *view, struct window_rows *rows)
{
	const struct question *question = rows->question;
	int64_t from = question->items_from, to = MIN(question->items_to, rows->end - 1);
	struct looking looking = looking_at(rows, from, to);
	int r;

	if (question->last < 0) {
		if (question->first >= 0)
			looking.most = (uint64_t)question->first;
		r = look(view, &looking, false, count_row);
		if (r < 0)
			return r;
		if (looking.most != UINT64_MAX)
			to = looking.last;
		chosen(rows, &looking, from, to);
		if (question->bytes < 0 || looking.size <= (uint64_t)question->bytes)
			return 0;
	}
	/* From the end on, as far as what is left of the rows up to there goes. */
	looking = looking_at(rows, from, to);
	if (question->last >= 0)
		looking.most = (uint64_t)question->last;
	if (question->bytes >= 0)
		looking.room = (uint64_t)question->bytes;
	r = look(view, &looking, true, count_row);
	if (r == 0)
		chosen(rows, &looking, looking.last, to);
	return r;
}

static int fill_flush(struct looking *looking)
{
	int r = stage_write(looking->stage, looking->stage->size, buf_bytes(&looking->out));

	buf_clear(&looking->out);
	return r;
}

static int fill_row(void *arg, int64_t index, int64_t created, struct bytes data)
{
	struct looking *looking = arg;
	int r;

	if (index > looking->to)
		return 1;
	if (!row_fits(looking, data, created))
		return 0;
	r = lines_show_row(data, &looking->out);
	if (r == 0)
		r = buf_append_byte(&looking->out, '\n');
	if (r == 0 && looking->out.size >= FILL_BYTES)
		r = fill_flush(looking);
	return r;
}

int window_fill(struct view *view, const struct window_rows *rows, struct stage *stage)
{
	struct looking looking = looking_at(rows, rows->from, rows->to);
	int r;

	looking.stage = stage;
	r = look(view, &looking, false, fill_row);
	if (r == 0)
		r = fill_flush(&looking);
	buf_done(&looking.out);
	/* The rows are those that were chosen, or the view is of another version. */
	return r < 0 || stage->size == rows->size ? r : -EIO;
}
