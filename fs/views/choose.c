/* SPDX-License-Identifier: MIT */

/*
 * The content of a window of a list: choosing the rows, and reading their bytes.
 *
 *   Both are read in one view, with no lock held, since that may take long: the view shows the rows
 *   that the window's version and end stand for, and what is appended later lies behind its end.
 */

#include <errno.h>
#include <string.h>

#include "fs/api/text.h"
#include "fs/base/lines.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "backend/base/digest.h"
#include "fs/views/windows.h"
#include "fs/base/packed.h"

enum {
	FILL_BYTES = 256 << 10, /* put into the stage at once */
	PATIENCE = 256 << 10,	/* bytes that are read between two checks whether the request is
				   given up */
};

/* The request that this thread works for. */
static __thread struct {
	tree_given_up_fn *fn;
	void *arg;
	size_t looked_at; /* bytes since the last check */
} given_up;

void tree_give_up_when(tree_given_up_fn *fn, void *arg)
{
	given_up.fn = fn;
	given_up.arg = arg;
	given_up.looked_at = 0;
}

int check_patience(size_t size)
{
	given_up.looked_at += size;
	if (given_up.looked_at < PATIENCE)
		return 0;
	given_up.looked_at = 0;
	return given_up.fn && given_up.fn(given_up.arg) ? -EINTR : 0;
}

struct looking {
	struct window_view *view;
	int64_t since;	/* the row is made then or later, */
	int64_t before; /* and before then */
	int64_t from;	/* index that it has at least, */
	int64_t to;	/* and at the most */
	uint64_t most;	/* number of lines to choose, */
	uint64_t room;	/* and of their bytes */
	uint64_t count; /* number of lines so far */
	uint64_t size;
	uint64_t sum;
	int64_t first; /* index of the first one, */
	int64_t last;  /* and of the last */
	int64_t final; /* index behind which the search ends */
	struct buf out;
	struct text_reader reader;
	bool document;		     /* the only row, which is not an item */
	struct version *version;     /* gets the lines that fit, or NULL */
	uint8_t digest[DIGEST_SIZE]; /* of what is in it */
	window_item_fn *item;
	void *arg;
	backend_row_time_fn *fn;
};

static struct looking looking_at(struct window_view *view, int64_t from, int64_t to)
{
	const struct question *question = view->question;

	return (struct looking){
		.view = view,
		.since = question_moment(question->since, view->rows.now, INT64_MIN),
		.before = question_moment(question->before, view->rows.now, INT64_MAX),
		.from = from,
		.to = to,
		.most = UINT64_MAX,
		.room = UINT64_MAX,
		.document = view->document,
		.reader = { .all = question->all, .html = question->html },
	};
}

static bool is_text(const struct looking *looking)
{
	return looking->view->question->as == QUESTION_TEXT;
}

static bool asks_times(const struct question *question)
{
	return question->since.clock != QUESTION_NEVER_SAID ||
	       question->before.clock != QUESTION_NEVER_SAID;
}

static bool row_fits(const struct looking *looking, int64_t index, struct bytes data,
		     int64_t created)
{
	const struct question *question = looking->view->question;

	if (looking->document)
		return true;
	/* 0: it is not known. */
	if (asks_times(question) &&
	    (!created || created < looking->since || created >= looking->before))
		return false;
	if (question_needs_line(question) && !question_fits(question, data))
		return false;
	return !is_text(looking) || question->all || looking->view->documents ||
	       text_is_talk(data, index);
}

/* Scrambled, so that two sets of rows hardly ever have the same sum. */
static uint64_t scrambled(uint64_t number)
{
	number += UINT64_C(0x9e3779b97f4a7c15);
	number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
	return number ^ number >> 31;
}

static int flush(struct looking *looking)
{
	struct stage *stage = &looking->version->stage;
	struct bytes data = buf_bytes(&looking->out);
	int r = stage_write(stage, stage->size, data);

	if (looking->view->documents && data.size)
		digest_make(looking->digest, data, looking->digest);
	buf_clear(&looking->out);
	return r;
}

static int put_line(struct looking *looking, struct bytes data)
{
	int r = lines_show_row(data, &looking->out);

	return r < 0 ? r : buf_append_byte(&looking->out, '\n');
}

static int put_row(struct looking *looking, int64_t index, int64_t created, struct bytes data)
{
	const struct text_place place = { looking->document ? -1 : index, created };
	struct window_view *view = looking->view;
	int r;

	if (view->documents)
		view->rows.closed |= documents_closed(view);
	r = is_text(looking) ? text_show(&looking->reader, data, &place, &looking->out) :
			       put_line(looking, data);

	if (r == 0 && looking->out.size >= FILL_BYTES)
		r = flush(looking);
	return r;
}

/* The version has all that fits: give it to the caller. */
static int filled(struct looking *looking, struct version **ret_version)
{
	struct window_rows *rows = &looking->view->rows;
	int r = flush(looking);

	if (r < 0)
		return r;
	if (looking->view->documents || is_text(looking))
		rows->size = looking->version->stage.size;
	if (looking->view->documents) {
		memcpy(&rows->version, looking->digest, sizeof(rows->version));
		rows->version ^= rows->closed;
		rows->sum = 0;
		rows->end = (int64_t)rows->size;
	}
	*ret_version = steal_ptr(looking->version);
	return 0;
}

static void looking_end(struct looking *looking)
{
	buf_done(&looking->out);
	version_drop(&looking->version);
}

static int count_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct looking *looking = arg;
	uint64_t size = looking->size + data.size + 1;

	if (!row_fits(looking, index, data, times.created))
		return 0;
	if (looking->count == looking->most || size > looking->room)
		return 1;
	if (!looking->count++)
		looking->first = index;
	looking->size = size;
	looking->sum += scrambled((uint64_t)index);
	looking->last = index;
	/* Without room for it, it will be read again. */
	if (looking->version && put_row(looking, index, times.created, data) < 0)
		version_drop(&looking->version);
	return looking->count == looking->most;
}

static int timed(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct looking *looking = arg;
	int r;

	if (index > looking->to || index < looking->from)
		return 1;
	r = looking->fn(looking, index, times, data);
	if (r != 0 || index == looking->final)
		return r < 0 ? r : 1;
	return check_patience(data.size + 1);
}

static int untimed(void *arg, int64_t index, struct bytes data)
{
	return timed(arg, index, (struct backend_times){ 0 }, data);
}

/* Read rows from an index on, rising or falling. */
static int rows_look(struct looking *looking, bool back, backend_row_time_fn *fn)
{
	struct window_view *of = looking->view;
	struct view *view = &of->view;
	struct bytes session = buf_bytes(&of->session), key = buf_bytes(&of->key);
	int64_t start = back ? looking->to : looking->from;

	if (looking->from > looking->to || !looking->most)
		return 0;
	looking->fn = fn;
	looking->final = back ? looking->from : looking->to;
	if (of->documents)
		return documents_look(of, start, back, timed, looking);
	if (of->rows.packed)
		return unpacked_look(of, start, back, timed, looking);
	if (asks_times(of->question) || is_text(looking))
		return backend_row_read_times(view->backend, view->snapshot, session, key, start,
					      back, UINT64_MAX, timed, looking);
	if (back)
		return ASK(view, row_read_back, session, key, start,
			   question_needs_line(of->question) ? UINT64_MAX : looking->most, untimed,
			   looking);
	return ASK(view, row_read, session, key, start, untimed, looking);
}

static int list_begin(struct tree *tree, struct inode *of, struct window_view *ret)
{
	struct view *view = &ret->view;
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
		r = buf_append_bytes(&ret->session, of->node.session);
	if (r == 0)
		r = buf_append_bytes(&ret->key, of->node.key);
	if (r < 0)
		return r;
	ret->ino = of->ino;
	ret->changed = of->changed;
	ret->rows.list = true;
	ret->rows.version = of->version;
	ret->rows.generation = of->node.generation;
	ret->rows.end = of->list.next;
	ret->document = of->node.kind == BACKEND_SINGLE;
	/* A draft's rows are its old content. */
	if (inode_is_draft(of) || ret->document) {
		r = ASK(view, key_stat, of->node.session, of->node.key, &stat);
		ret->rows.end = r == 0 ? MIN(stat.last, INT64_MAX - 1) + 1 : 0;
	}
	return r == -ENOENT ? 0 : r;
}

/* The documents are listed without locks. */
static int directory_begin(struct tree *tree, struct inode *of, struct window_view *ret)
{
	const struct inode *session = inode_session(of);
	const struct bytes all = { 0 };
	int r = view_begin(tree, BACKEND_BEGUN, &ret->view);

	if (r == 0 && session)
		r = key_heed(tree, &ret->view, session->node.session, all);
	ret->ino = of->ino;
	ret->uid = of->node.uid;
	ret->gid = of->node.gid;
	ret->rows.list = true;
	return r;
}

int window_view_begin(struct tree *tree, struct inode *of, struct window_view *view)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(of);

	if (of->node.kind == BACKEND_HASH)
		return -ENOENT;
	if (of->gone)
		return 1;
	if (inode_is_changing(tree, of))
		return -ESTALE;
	if (question_gathers(view->question))
		return directory_begin(tree, of, view);
	if (of->node.kind == BACKEND_ORDINARY && packed_layouts(tree->layout))
		return unpacked_view_begin(tree, of, view);
	if (of->node.kind != BACKEND_LIST &&
	    (of->node.kind != BACKEND_SINGLE || view->question->as != QUESTION_TEXT))
		return 0;
	return of->apart ? -EIO : list_begin(tree, of, view);
}

void window_view_end(struct window_view *view)
{
	view_end(&view->view);
	documents_free(view->documents);
	unpacked_free(view->unpacked);
	buf_done(&view->session);
	buf_done(&view->key);
}

static void chosen(struct looking *looking, int64_t from, int64_t to)
{
	struct window_rows *rows = &looking->view->rows;

	rows->size = looking->size;
	rows->sum = looking->sum;
	rows->from = looking->count ? from : 0;
	rows->to = looking->count ? to : -1;
}

/* All of them, and items= alone. */
static int choose_from(struct window_view *view)
{
	const struct question *question = view->question;
	bool documents = question_gathers(question);
	int r = documents	  ? documents_begin(view, DOCUMENTS_BLOCK) :
		view->rows.packed ? unpacked_begin(view) :
				    0;

	if (r < 0)
		return r;
	view->rows.from = documents ? 0 : INT64_MIN;
	/* Behind the highest number there is none. */
	view->rows.to = view->rows.packed ? unpacked_count(view) - 1 :
					    view->rows.end - (view->rows.end < INT64_MAX);
	if (!documents && !view->document) {
		view->rows.from = question->items_from;
		view->rows.to = MIN(view->rows.to, question->items_to);
	}
	return 0;
}

/* What stands before the first row decides whether that goes on with it. */
static int see_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	const struct text_place place = { index, times.created };
	struct looking *looking = arg;
	int r = text_show(&looking->reader, data, &place, &looking->out);

	buf_clear(&looking->out);
	return r;
}

static int see_before(struct looking *looking)
{
	enum { BEFORE = 8 };
	const int64_t from = looking->from, to = looking->to;
	int r;

	if (!is_text(looking) || looking->document || looking->view->documents || from <= 0)
		return 0;
	looking->from = MAX(from - BEFORE, 0);
	looking->to = from - 1;
	r = rows_look(looking, false, see_row);
	looking->from = from;
	looking->to = to;
	return r;
}

/* Choose from the beginning on.  If one pass finds all, their bytes are read with it. */
static int choose_on(struct window_view *view, struct version **ret_version)
{
	const struct question *question = view->question;
	struct looking looking = looking_at(view, view->rows.from, view->rows.to);
	int r;

	if (question->first >= 0 && !view->document)
		looking.most = (uint64_t)question->first;
	if (ret_version && (question->bytes < 0 || view->document))
		looking.version = version_new();
	r = see_before(&looking);
	if (r == 0)
		r = rows_look(&looking, false, count_row);
	if (r == 0) {
		chosen(&looking, looking.first, looking.last);
		if (looking.version)
			(void)filled(&looking, ret_version);
	}
	looking_end(&looking);
	return r;
}

/* From the end on. */
static int choose_back(struct window_view *view)
{
	const struct question *question = view->question;
	struct looking looking = looking_at(view, view->rows.from, view->rows.to);
	int r;

	if (question->last >= 0)
		looking.most = (uint64_t)question->last;
	if (question->bytes >= 0)
		looking.room = (uint64_t)question->bytes;
	r = rows_look(&looking, true, count_row);
	if (r == 0)
		chosen(&looking, looking.last, looking.to);
	return r;
}

static int choose(struct window_view *view, struct version **ret_version)
{
	const struct question *question = view->question;
	int r = choose_from(view);

	if (r < 0)
		return r;
	/* A document is shown whole; clauses for lists do not count. */
	if (view->document)
		return choose_on(view, ret_version);
	if (question->last >= 0 || (question->first < 0 && question->bytes >= 0))
		return choose_back(view);
	if (question->first < 0 && !ret_version)
		return 0;
	r = choose_on(view, ret_version);
	if (r < 0 || question->bytes < 0 || view->rows.size <= (uint64_t)question->bytes)
		return r;
	/* What bytes= leaves of the first ones. */
	return choose_back(view);
}

/* The size of a text is known only when it is made. */
int window_choose(struct window_view *view, struct version **ret_version)
{
	int r = choose(view, ret_version);

	if (r == 0 && view->question->as == QUESTION_TEXT && ret_version && !*ret_version)
		r = window_fill(view, ret_version);
	return r;
}

/* With ages, the choice differs each time. */
int window_choose_items(struct window_view *view, struct window *items)
{
	const struct window_choice *choice = &items->choice;
	bool known;
	int r;

	pthread_mutex_lock(&items->lock);
	known = choice->ino == view->ino && choice->changed == view->changed &&
		choice->rows.version == view->rows.version && choice->rows.end == view->rows.end &&
		!question_has_ages(view->question);
	if (known)
		view->rows = items->choice.rows;
	pthread_mutex_unlock(&items->lock);
	if (known)
		return 0;
	r = window_choose(view, NULL);
	if (r < 0)
		return r;
	pthread_mutex_lock(&items->lock);
	items->choice = (struct window_choice){ view->ino, view->changed, view->rows };
	pthread_mutex_unlock(&items->lock);
	return 0;
}

int window_choose_item(struct window_view *view, int64_t index, struct version **ret_version)
{
	struct looking looking = looking_at(view, index, index);
	int r;

	if (index < view->rows.from || index > view->rows.to)
		return -ENOENT;
	looking.most = 1;
	looking.version = version_new();
	r = rows_look(&looking, true, count_row);
	if (r == 0 && !looking.count)
		r = -ENOENT;
	if (r == 0) {
		chosen(&looking, index, index);
		view->rows.end = index; /* distinguishes it from others */
		if (looking.version)
			(void)filled(&looking, ret_version);
	}
	looking_end(&looking);
	return r;
}

static int visit_item(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct looking *looking = arg;

	return row_fits(looking, index, data, times.created) ? looking->item(looking->arg, index) :
							       0;
}

int window_items(struct window_view *view, int64_t from, window_item_fn *fn, void *arg)
{
	struct looking looking = looking_at(view, MAX(from, view->rows.from), view->rows.to);

	looking.item = fn;
	looking.arg = arg;
	return rows_look(&looking, false, visit_item);
}

static int fill_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct looking *looking = arg;

	return row_fits(looking, index, data, times.created) ?
		       put_row(looking, index, times.created, data) :
		       0;
}

int window_fill(struct window_view *view, struct version **ret_version)
{
	struct looking looking = looking_at(view, view->rows.from, view->rows.to);
	int r;

	looking.version = version_new();
	if (!looking.version)
		return -ENOMEM;
	r = see_before(&looking);
	if (r == 0)
		r = rows_look(&looking, false, fill_row);
	if (r == 0)
		r = filled(&looking, ret_version);
	looking_end(&looking);
	return r;
}

int window_choose_and_fill(struct window_view *view, struct version **ret_version)
{
	int r = window_choose(view, ret_version);

	return r == 0 && !*ret_version ? window_fill(view, ret_version) : r;
}

int window_fill_again(struct window_view *view, const struct window_rows *rows,
		      struct version **ret_version)
{
	_cleanup_(version_drop) struct version *version = NULL;
	bool documents = question_gathers(view->question);
	int r;

	if (documents) {
		r = window_choose_and_fill(view, &version);
	} else {
		if (!view->rows.list || view->rows.version != rows->version)
			return 1;
		view->rows = *rows;
		r = window_fill(view, &version);
	}
	if (r < 0)
		return r;
	if (documents && (view->rows.version != rows->version || view->rows.size != rows->size))
		return 1;
	*ret_version = steal_ptr(version);
	return 0;
}
