/* SPDX-License-Identifier: MIT */

/* Names of windows (fs/inode/window.h): looking them up, listing through them, their attributes. */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/write/write.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "fs/views/past.h"

/* Notify the kernel to forget names, since there are too many windows. */
static void forget_outlived(struct tree *tree)
{
	struct notes notes = { 0 };
	uint64_t parent;
	char *name;

	while (window_outlived(tree, &parent, &name)) {
		if (name)
			notes_entry(&notes, parent, bytes_str(name));
		free(name);
	}
	notes_send(&notes, tree, NOTIFY_LATER);
}

/* Make a window, with its bytes if they are known. */
static int enter(struct tree *tree, const struct window_wanted *wanted, struct version *version,
		 struct inode **ret_inode)
{
	int r;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(wanted->of);

	r = window_new(tree, wanted, ret_inode);
	if (r == 0 && version)
		document_keep_window(tree, *ret_inode, version);
	return r;
}

int window_make(struct tree *tree, struct window_wanted *wanted, struct window_view *view,
		struct version **version, struct inode **ret_inode)
{
	int r = 0;

	if (view->rows.list && !*version && view->rows.size <= DOCUMENT_KEPT)
		r = window_fill(view, version);
	if (r < 0)
		return r;
	wanted->rows = view->rows;
	view_end(&view->view);
	return enter(tree, wanted, *version, ret_inode);
}

/* Whether there is a window that shows the same; version: its bytes, if they are known. */
static bool found(struct tree *tree, const struct window_wanted *wanted, struct version *version,
		  struct inode **ret_inode)
{
	*ret_inode = window_find(tree, wanted);
	if (*ret_inode && version)
		document_keep_window(tree, *ret_inode, version);
	return *ret_inode;
}

/* Documents as a list: its bytes decide which window it is.  1: the directory has gone. */
static int gather_once(struct tree *tree, struct window_wanted *wanted, struct inode **ret_inode)
{
	_cleanup_(window_view_end) struct window_view view = {
		.question = wanted->asked->question,
		.rows.now = time_now(),
	};
	_cleanup_(version_drop) struct version *version = NULL;
	int r = window_view_begin(tree, wanted->of, &view);

	if (r == 0)
		r = window_choose_and_fill(&view, &version);
	if (r != 0)
		return r;
	wanted->rows = view.rows;
	view_end(&view.view);
	if (found(tree, wanted, version, ret_inode))
		return 0;
	return enter(tree, wanted, version, ret_inode);
}

/* 1: the file has gone. */
static int open_once(struct tree *tree, struct window_wanted *wanted, uint32_t removed,
		     struct inode **ret_inode)
{
	_cleanup_(window_view_end) struct window_view view = {
		.question = wanted->asked->question,
		.rows.now = time_now(),
		.rows.removed = removed,
	};
	bool ages = question_has_ages(view.question);
	_cleanup_(version_drop) struct version *version = NULL;
	int r = past_begin(tree, wanted->of, &view);

	/* With ages, the rows decide which window it is. */
	if (r == 0 && view.rows.list && ages)
		r = past_choose(&view, &version);
	if (r != 0)
		return r;
	wanted->rows = view.rows;
	if (found(tree, wanted, version, ret_inode))
		return 0;
	if (view.rows.list && !ages)
		r = past_choose(&view, &version);
	return r < 0 ? r : window_make(tree, wanted, &view, &version, ret_inode);
}

/* What has the name now; a directory that was made since gives way to one of then. */
static int now_lookup(struct tree *tree, const struct inode *dir, struct window_wanted *wanted,
		      uint32_t *ret_removed)
{
	const int64_t time = question_moment(wanted->asked->question->at, time_now(), INT64_MAX);
	int r = removed_is(tree, dir->window->of) ? -ENOENT : shown_lookup(tree, dir, wanted);
	struct inode *now = wanted->of;

	if (r < 0 || !inode_is_dir(now) || now->node.btime <= time)
		return r;
	r = removed_lookup(tree, dir, wanted, ret_removed);
	if (r == -ENOENT)
		wanted->of = now;
	else
		inode_forget(tree, now, 1);
	return r == -ENOENT ? 0 : r;
}

/* The file may have been replaced since its name was looked up: then that is done again. */
static int lookup_once(struct tree *tree, const struct inode *dir, struct window_wanted *wanted,
		       struct inode **ret_inode)
{
	uint32_t kind = 0;
	int r = now_lookup(tree, dir, wanted, &kind);

	if (r == 0) {
		r = open_once(tree, wanted, kind, ret_inode);
		inode_forget(tree, wanted->of, 1);
	}
	if (r != -ENOENT || kind || !question_has_at(wanted->asked->question))
		return r > 0 ? -ESTALE : r;
	r = removed_lookup(tree, dir, wanted, &kind);
	if (r < 0)
		return r;
	r = open_once(tree, wanted, kind, ret_inode);
	inode_forget(tree, wanted->of, 1);
	return r > 0 ? -ESTALE : r;
}

int window_lookup(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
		  struct inode **ret_inode)
{
	struct window_wanted wanted = {
		.asked = dir->window->asked,
		.parent = dir->ino,
		.name = name,
	};
	int r;

	if (dir->window->list) {
		r = item_lookup(tree, dir, name, ret_inode);
	} else {
		wanted.alone = again_looks(tree, pid);
		r = TREE_RETRY(tree, lookup_once(tree, dir, &wanted, ret_inode));
	}

	window_used(tree, dir);
	forget_outlived(tree);
	return r;
}

/* Log why a name is not a view; asking in a loop does not fill the log. */
static int refuse(struct tree *tree, struct bytes name, struct bytes reason)
{
	bool news, full;

	pthread_mutex_lock(&tree->table_lock);
	news = log_news_is(&tree->windows.refused, name, tick_now());
	full = log_news_full(&tree->windows.refused);
	pthread_mutex_unlock(&tree->table_lock);
	if (news)
		log_warning("%.*s: %.*s%s", (int)name.size, name.data, (int)reason.size,
			    reason.data, full ? "; others are not logged for a minute" : "");
	return -ENOENT;
}

#define NO_HISTORY "this kind of store keeps no history"

static int open_question(struct tree *tree, struct window_wanted *wanted, struct inode **ret_inode)
{
	uint64_t last;
	int r;
	{
		WITH_READ_LOCK(tree);

		last = tree->numbers.ino;
	}
	if (last >> WINDOW_BIT)
		return refuse(tree, wanted->name,
			      BYTES("inode numbers are so large that none are left for views"));
	if (question_has_at(wanted->asked->question) && !tree->backend->ops->history)
		return refuse(tree, wanted->name, BYTES(NO_HISTORY));
	if (question_gathers(wanted->asked->question))
		r = TREE_RETRY(tree, gather_once(tree, wanted, ret_inode));
	else
		r = TREE_RETRY(tree, open_once(tree, wanted, 0, ret_inode));
	return r > 0 ? -ENOENT : r;
}

int question_lookup(struct tree *tree, struct inode *dir, struct bytes name,
		    struct inode **ret_inode)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	struct window_wanted wanted = { .of = dir, .parent = dir->ino, .name = name };
	struct question *question;
	int r = name.size > NAME_LIMIT ? -ENAMETOOLONG : question_parse(name, &question, &reason);

	if (r == -EINVAL)
		return refuse(tree, name, buf_bytes(&reason));
	if (r == 0)
		r = asked_new(name, question, &wanted.asked);
	if (r < 0)
		return r;
	r = open_question(tree, &wanted, ret_inode);
	forget_outlived(tree);
	asked_drop(wanted.asked);
	return r;
}

/* A mount that is a view. */

static int parse_clauses(const char *clauses, struct question **ret_question, char **ret_why)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	int r = question_parse_clauses(bytes_str(clauses), ret_question, &reason);

	return r == -EINVAL ? str_explain(ret_why, r, "cannot mount the view '%s': %.*s", clauses,
					  (int)reason.size, reason.data) :
			      r;
}

int tree_judge_view(const char *clauses, char **ret_why)
{
	struct question *question = NULL;
	int r = clauses ? parse_clauses(clauses, &question, ret_why) : 0;

	if (r == 0)
		question_free(question);
	return r;
}

int root_shown_through(struct tree *tree, const char *clauses, char **ret_why)
{
	struct question *question = NULL;
	struct asked *asked = NULL;
	int r = parse_clauses(clauses, &question, ret_why);

	if (r == 0 && question_has_at(question) && !tree->backend->ops->history) {
		question_free(question);
		r = str_explain(ret_why, -EOPNOTSUPP, "cannot mount the view '%s': " NO_HISTORY,
				clauses);
	}
	if (r == 0)
		r = asked_new(bytes_str(clauses), question, &asked);
	if (r == 0)
		r = window_of_root(tree, asked);
	asked_drop(asked);
	return r;
}

/* Attributes: those of the file, but for the number, and the size of rows. */

int window_stat(struct tree *tree, const struct inode *inode, struct stat *ret_stat)
{
	const struct window *window = inode->window;
	int r = window->list ? items_stat(tree, window, ret_stat) :
			       tree_stat(tree, window->of, ret_stat);

	if (r < 0)
		return r;
	ret_stat->st_ino = inode->ino;
	if (asked_is_stream(window->asked)) {
		ret_stat->st_mode = STREAM_MODE;
		ret_stat->st_nlink = 1;
		ret_stat->st_size = ret_stat->st_blocks = 0;
	} else if (S_ISDIR(ret_stat->st_mode) && window->rows.list) {
		ret_stat->st_mode = window_mode(&window->rows, ret_stat->st_mode);
		ret_stat->st_nlink = 1;
	}
	ret_stat->st_mode &= ~removed_hides(&window->rows);
	if (window->rows.list) {
		ret_stat->st_size = (off_t)window->size;
		ret_stat->st_blocks = (blkcnt_t)((window->size + 511) / 512);
	}
	return 0;
}

/* Only the size can be set, by a writer that saves. */
int window_set_attr(struct tree *tree, struct inode *inode, const struct set_attr *set,
		    struct stat *ret_stat, bool *ret_own)
{
	int r = set->mask & TREE_SET_SIZE ? 0 : -EROFS;

	if (r == 0)
		r = window_truncate(tree, inode, set->handle, (uint64_t)set->st->st_size, set->pid);
	*ret_own = true;
	return r < 0 ? r : window_stat(tree, inode, ret_stat);
}

int window_show(struct tree *tree, const struct inode *inode, struct shown *ret_shown)
{
	ret_shown->nodeid = inode->ino;
	ret_shown->own = ret_shown->brief = true;
	ret_shown->just = false;
	return window_stat(tree, inode, &ret_shown->st);
}
