/* SPDX-License-Identifier: MIT */

/*
 * All of a list as of a time.
 *
 *   What a list was is rows of now, and kept ones in the place of those that have changed since
 *   (struct as_of).  So its bytes need not be read to know how many they are: the marks say where a
 *   row of now begins, and only rows that have changed are measured.  A read finds the run that an
 *   offset is in by halves, the row in it by a mark, and goes on from there.
 *
 *   What is shown never changes, but the list does: while its version stays, only rows behind the
 *   end come.  When it has moved, the runs are found again.  They are then of the same time and
 *   have the same size, and no row in them has changed since the lookup; otherwise, and where a
 *   kept row is not there any more, the read fails with ESTALE.  Of a row that was changed and then
 *   forgotten nothing but its time tells: not where SQL says whole seconds, and the view is as of
 *   the same second.
 *
 *   Otherwise the window is filled at its open (choose.c), as with any other question: a list that
 *   is small, a draft, has pieces or a last line without a newline, lacks marks, or of which too
 *   much has changed: on a server, where each row is asked for by itself, a few dozen rows.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/lines.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/views/past.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

enum {
	RUNS_MOST = 8192, /* runs, and kept rows; */
	RUNS_ASKED = 64,  /* where each read is a round trip */
	/* Rows at the end without a mark: a list that lacks more gets them, or is filled. */
	UNMARKED_MOST = 16384,
	GAP_READ = 64,		/* rows that are measured one by one */
	NEAR_BYTES = 256 << 10, /* so far a read goes on from the last one */
	ROW_LARGE = 1 << 20,	/* bytes of a row that is kept for the next read */
};

/* ---- Where rows are ---- */

struct sum {
	int64_t end;
	int64_t bytes;
	uint64_t rows;
};

static int sum_row(void *arg, int64_t index, struct bytes data)
{
	struct sum *sum = arg;

	if (index >= sum->end)
		return 1;
	sum->bytes += (int64_t)data.size + 1;
	sum->rows++;
	return index == sum->end - 1 ? 1 : check_patience(data.size + 1);
}

static int sum_kept(void *arg, int64_t n, struct backend_times times, struct bytes data)
{
	(void)times;
	return sum_row(arg, n, data);
}

static int sum_rows(struct window_view *view, int64_t from, int64_t to, int64_t *bytes)
{
	struct sum sum = { .end = to };
	int r = from < to ? ASK(&view->view, row_read, buf_bytes(&view->session),
				buf_bytes(&view->key), from, sum_row, &sum) :
			    0;

	*bytes += sum.bytes;
	return r;
}

/* Add the bytes of the rows of now before an index. */
static int add_before(struct window_view *view, int64_t index, int64_t *bytes)
{
	struct backend_mark mark = { .index = INT64_MIN };
	int r = index == INT64_MIN ? 0 : ASK(&view->view, mark_find_index, view->ino, index, &mark);

	if (r < 0 && r != -ENOENT)
		return r;
	*bytes += (int64_t)mark.offset;
	return sum_rows(view, mark.index, index, bytes);
}

/* The bytes of the rows of now from one to another. */
static int measure(struct window_view *view, int64_t from, int64_t to, int64_t *ret_bytes)
{
	int64_t before = 0, behind = 0;
	int r = 0;

	if (from > to || (uint64_t)to - (uint64_t)from > GAP_READ) {
		r = add_before(view, from, &before);
		if (r == 0)
			r = add_before(view, to, &behind);
	} else {
		r = sum_rows(view, from, to, &behind);
	}
	*ret_bytes = behind - before;
	return r;
}

/* 1: some are not there. */
static int measure_kept(struct window_view *view, const struct as_of_run *run, uint64_t *kept,
			int64_t *by)
{
	const uint64_t rows = (uint64_t)run[1].index - (uint64_t)run->index;
	struct sum sum = { .end = run->at + (int64_t)rows };
	int r;

	if (rows > RUNS_MOST || (*kept += rows) > RUNS_MOST)
		return 1;
	r = backend_past_read(view->view.backend, view->view.snapshot, &view->as_of.key, run->at,
			      run->at + (int64_t)rows - 1, false, sum_kept, &sum);
	*by += sum.bytes;
	return r < 0 ? r : sum.rows != rows;
}

/* 1: too much has changed. */
static int place_runs(struct window_view *view, struct window_past *past)
{
	struct past_place at = { .row = INT64_MIN };
	uint64_t kept = 0;
	int64_t gap, size = 0;
	int r = 0;

	/* The last one has no rows (as_of_cut()). */
	for (size_t i = 0; r == 0 && i < past->count; i++) {
		const struct as_of_run *run = &past->run[i];

		if (run->where == RUN_ROWS) {
			r = measure(view, at.row, run->at, &gap);
			at = (struct past_place){ run->at, at.by - gap };
		}
		past->place[i] = at;
		if (run->where == RUN_ROWS)
			at.row = (int64_t)((uint64_t)run->at + (uint64_t)run[1].index -
					   (uint64_t)run->index);
		else if (run->where == RUN_PAST && r == 0)
			r = measure_kept(view, run, &kept, &at.by);
	}
	if (r == 0)
		r = add_before(view, at.row, &size);
	past->size = (uint64_t)(size + at.by);
	return r;
}

static int past_new(struct window_view *view, struct window_past **ret_past)
{
	const struct as_of *as_of = &view->as_of;
	const size_t runs = as_of->count * sizeof(*as_of->run);
	struct window_past *past;
	int r;

	past = calloc(1, sizeof(*past) + as_of->count * sizeof(*past->place) + runs);
	if (!past)
		return -ENOMEM;
	past->version = view->rows.version ^ as_of_sum(as_of);
	past->time = as_of->time;
	past->index = INT64_MIN;
	past->count = as_of->count;
	past->run = memcpy(past->place + past->count, as_of->run, runs);
	r = place_runs(view, past);
	if (r == 0)
		*ret_past = past;
	else
		free(past);
	return r;
}

/* ---- Windows ---- */

static bool asks_for_all(const struct question *question)
{
	return question_has_at(question) && question->as == QUESTION_LINES &&
	       question->items_from == INT64_MIN && question->items_to == INT64_MAX &&
	       question->first < 0 && question->last < 0 && question->bytes < 0 &&
	       question->since.clock == QUESTION_NEVER_SAID &&
	       question->before.clock == QUESTION_NEVER_SAID && !question_needs_line(question);
}

/* Whether walks from the last mark would be long. */
static int lacks_marks(struct window_view *view, bool *ret_lacks)
{
	struct backend_mark mark = { 0 };
	int r = ASK(&view->view, mark_find_index, view->ino, view->rows.end, &mark);

	*ret_lacks = view->rows.end - MAX(mark.index, 0) > UNMARKED_MOST;
	return r == -ENOENT ? 0 : r;
}

int past_begin(struct tree *tree, struct inode *of, struct window_view *view)
{
	const struct window_view again = *view;
	bool lacks = true;
	int r = 0;

	for (int tries = 0; r == 0 && lacks && tries < 2; tries++) {
		if (tries) {
			window_view_end(view);
			*view = again;
			r = list_mark(tree, of);
		}
		if (r == 0)
			r = window_view_begin(tree, of, view);
		if (r != 0 || !view->marked || !asks_for_all(view->question))
			return r;
		r = lacks_marks(view, &lacks);
	}
	view->marked = !lacks;
	return r;
}

/* 1: it must be filled. */
static int past_find(struct window_view *view, struct version **ret_version)
{
	const size_t most = view->view.backend->ops->joined ? RUNS_ASKED : RUNS_MOST;
	_cleanup_(version_drop) struct version *version = NULL;
	bool pieces;
	int r;

	if (!view->marked || !asks_for_all(view->question) || view->as_of.count > most ||
	    view->rows.end == INT64_MAX)
		return 1;
	r = list_has_pieces(&view->view, view->ino, &pieces);
	if (r < 0 || pieces)
		return r < 0 ? r : 1;
	version = version_new();
	if (!version)
		return -ENOMEM;
	r = past_new(view, &version->past);
	if (r != 0)
		return r;
	view->rows.from = INT64_MIN;
	view->rows.to = view->rows.end - 1;
	view->rows.size = version->past->size;
	*ret_version = steal_ptr(version);
	return 0;
}

int past_choose(struct window_view *view, struct version **ret_version)
{
	int r = past_find(view, ret_version);

	return r > 0 ? window_choose(view, ret_version) : r;
}

int past_fill_again(struct window_view *view, const struct window_rows *rows,
		    struct version **ret_version)
{
	int r = view->rows.version == rows->version ? past_find(view, ret_version) : 1;

	return r > 0 ? window_fill_again(view, rows, ret_version) : r;
}

/* ---- Reading ---- */

/* Where a run begins. */
static int find_start(struct window_view *view, const struct window_past *past, size_t i,
		      uint64_t *ret_offset)
{
	int64_t offset = past->place[i].by;
	int r = add_before(view, past->place[i].row, &offset);

	*ret_offset = (uint64_t)offset;
	return r;
}

/* Set a row that begins at the offset or before. */
static int find_row(struct window_view *view, struct window_past *past, uint64_t offset)
{
	struct backend_mark mark = { .index = INT64_MIN };
	const struct as_of_run *run;
	size_t low = 0, high = past->count;
	uint64_t start = 0, at;
	int r = 0;

	while (r == 0 && high - low > 1) {
		size_t middle = low + (high - low) / 2;

		r = find_start(view, past, middle, &at);
		if (r == 0 && at <= offset) {
			low = middle;
			start = at;
		} else {
			high = middle;
		}
	}
	run = &past->run[low];
	past->offset = start;
	past->index = run->index;
	if (r < 0 || run->where != RUN_ROWS)
		return r;
	r = ASK(&view->view, mark_find, view->ino, offset - (uint64_t)past->place[low].by, &mark);
	if (r == 0 && mark.index > run->at) {
		past->offset = mark.offset + (uint64_t)past->place[low].by;
		past->index =
			(int64_t)((uint64_t)run->index + (uint64_t)mark.index - (uint64_t)run->at);
	}
	return r == -ENOENT ? 0 : r;
}

/* Whether a row of now has changed since the lookup: SQL may say whole seconds. */
static bool is_newer(struct backend_times times, int64_t time, int64_t now)
{
	const int64_t second = 1000000000;
	const int64_t latest = times.updated + (times.updated % second ? 0 : second - 1);

	return times.updated > time && latest > now;
}

struct past_reading {
	struct version *version;
	int64_t now; /* of the lookup */
	size_t i;    /* the run */
	uint64_t offset, end;
	bool lost; /* a row is not what it was */
	struct buf *out;
};

/* Whether a row is where it must be, when those before it were read. */
static bool is_next(struct past_reading *reading, int64_t index, struct backend_times times)
{
	const struct window_past *past = reading->version->past;
	const struct as_of_run *run = &past->run[reading->i];
	int64_t next = past->index;

	for (; index >= run[1].index; run++, next = run->index)
		if (run->where == RUN_PAST && next < run[1].index)
			return false;
	reading->i = (size_t)(run - past->run);
	if (run->where == RUN_PAST)
		return index == next;
	return !past->again || !is_newer(times, past->time, reading->now);
}

static int put_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct past_reading *reading = arg;
	struct version *version = reading->version;
	struct window_past *past = version->past;
	uint64_t at = past->offset, from = MAX(at, reading->offset);
	uint64_t to = MIN(at + data.size, reading->end);
	int r = 0;

	reading->lost = !is_next(reading, index, times);
	if (reading->lost)
		return 1;
	if (data.size > ROW_LARGE && !memchr(data.data, '\n', data.size)) {
		stage_done(&version->stage);
		past->large = at;
		r = stage_write(&version->stage, 0, data);
	}
	if (r == 0 && from < to)
		r = lines_show_row(bytes_make(data.data + (from - at), to - from), reading->out);
	if (r == 0 && at + data.size >= reading->offset && at + data.size < reading->end)
		r = buf_append_byte(reading->out, '\n');
	if (r < 0 || at + data.size + 1 > reading->end)
		return r < 0 ? r : 1;
	past->offset += data.size + 1;
	past->index = index + 1;
	return past->offset == reading->end;
}

/* 1: it cannot be read any more, also below. */
static int read_rows(struct window_view *view, struct version *version, uint64_t offset,
		     size_t size, struct buf *out)
{
	struct window_past *past = version->past;
	struct past_reading reading = { .version = version, .now = view->rows.now, .out = out };
	struct as_of as_of = { .run = past->run, .count = past->count, .cut = true };
	const size_t before = out->size;
	int r = 0;

	if (offset >= past->size)
		return 0;
	reading.offset = offset;
	reading.end = MIN(offset + size, past->size);
	as_of.key =
		(struct backend_past_key){ 0, buf_bytes(&view->session), buf_bytes(&view->key) };
	if (offset < past->offset || offset - past->offset > NEAR_BYTES)
		r = find_row(view, past, offset);
	while (reading.i + 1 < past->count && past->run[reading.i + 1].index <= past->index)
		reading.i++;
	if (r == 0)
		r = as_of_read(view->view.backend, view->view.snapshot, &as_of, past->index, false,
			       put_row, &reading);
	return r < 0 ? r : reading.lost || out->size - before < reading.end - offset;
}

struct judging {
	const struct as_of *as_of;
	size_t i; /* the run */
	int64_t now;
	bool lost;
};

static int judge_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct judging *judging = arg;
	const struct as_of *as_of = judging->as_of;

	while (judging->i + 1 < as_of->count && as_of->run[judging->i + 1].index <= index)
		judging->i++;
	judging->lost = as_of->run[judging->i].where == RUN_ROWS &&
			is_newer(times, as_of->time, judging->now);
	return judging->lost ? 1 : check_patience(data.size + 1);
}

/* Bytes that were filled: 1: some are not those of then. */
static int judge_rows(struct window_view *view)
{
	struct judging judging = { .as_of = &view->as_of, .now = view->rows.now };
	int r = as_of_read(view->view.backend, view->view.snapshot, &view->as_of, INT64_MIN, false,
			   judge_row, &judging);

	return r < 0 ? r : judging.lost;
}

/* The list has changed since. */
static int find_again(struct tree *tree, struct window *window, struct window_view *view)
{
	_cleanup_(version_drop) struct version *version = NULL;
	int r = past_choose(view, &version);

	if (r == 0 && !version)
		r = window_fill(view, &version);
	if (r < 0)
		return r;
	if (tree->backend->forgets || view->as_of.time != window->content->past->time ||
	    view->rows.size != window->rows.size)
		return 1;
	if (version->past)
		version->past->again = true;
	else
		r = judge_rows(view);
	if (r != 0)
		return r;
	version_drop(&window->content);
	window->content = steal_ptr(version);
	return 0;
}

static int read_once(struct tree *tree, struct window *window, uint64_t offset, size_t size,
		     struct buf *out)
{
	_cleanup_(window_view_end) struct window_view view = {
		.question = window->asked->question,
		.rows.now = window->rows.now,
		.past = window->content->past,
	};
	const size_t before = out->size;
	int r = past_begin(tree, window->of, &view);

	if (r == 0 && view.as_of.count)
		r = find_again(tree, window, &view);
	if (r == 0)
		r = window->content->past ? read_rows(&view, window->content, offset, size, out) :
					    stage_read(&window->content->stage, offset, size, out);
	if (r != 0)
		out->size = before;
	return r;
}

static void tell_lost(struct tree *tree, const struct window *window)
{
	bool say;

	pthread_mutex_lock(&tree->table_lock);
	say = log_news_is(&tree->windows.refused, bytes_str(window->asked->text), tick_now());
	pthread_mutex_unlock(&tree->table_lock);
	if (say)
		log_warning("inode %llu: reading an open view through %s fails: what it shows is "
			    "forgotten, or has gone as the history was thinned",
			    (unsigned long long)window->of->ino, window->asked->text);
}

int past_read(struct tree *tree, struct window *window, uint64_t offset, size_t size,
	      struct buf *out)
{
	struct version *version = window->content;
	const uint64_t large = version->past->large;
	const size_t before = out->size;
	int r = 0;

	if (offset >= large && offset - large < version->stage.size)
		r = stage_read(&version->stage, offset - large, size, out);
	if (r < 0 || out->size - before == size)
		return r;
	offset += out->size - before;
	size -= out->size - before;
	r = TREE_RETRY(tree, read_once(tree, window, offset, size, out));
	if (r > 0)
		tell_lost(tree, window);
	return r > 0 ? -ESTALE : r;
}
