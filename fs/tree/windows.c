/* SPDX-License-Identifier: MIT */

/* Names of windows (fs/inode/window.h): looking them up, listing through them, their attributes. */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/content/content.h"
#include "fs/inode/window.h"
#include "fs/tree/attr.h"
#include "fs/tree/tree.h"
#include "src/base/log.h"

/* The names that the kernel is to forget, since there are too many windows. */
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

static int open_once(struct tree *tree, struct window_wanted *wanted, struct inode **ret_inode)
{
	_cleanup_(window_rows_done) struct window_rows rows = {
		.question = wanted->asked->question,
		.now = time_now(),
	};
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(version_drop) struct version *version = NULL;
	int r = window_begin(tree, &view, wanted->of, &rows);

	if (r < 0)
		return r;
	wanted->list = rows.list;
	wanted->version = rows.version;
	wanted->end = rows.end;
	*ret_inode = window_find(tree, wanted);
	if (*ret_inode)
		return 0;
	if (rows.list)
		r = window_choose(&view, &rows);
	if (r == 0 && rows.list && rows.size <= DOCUMENT_KEPT) {
		version = version_new();
		r = version ? window_fill(&view, &rows, &version->stage) : -ENOMEM;
	}
	view_end(&view);
	if (r < 0)
		return r;
	wanted->now = rows.now;
	wanted->from = rows.from;
	wanted->to = rows.to;
	wanted->size = rows.size;

	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(wanted->of);

	r = window_new(tree, wanted, ret_inode);
	if (r == 0 && version)
		document_keep_window(tree, *ret_inode, version);
	return r;
}

static int window_open(struct tree *tree, struct window_wanted *wanted, struct inode **ret_inode)
{
	int r = TREE_RETRY(tree, open_once(tree, wanted, ret_inode));

	forget_outlived(tree);
	return r;
}

static bool is_gone(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return inode->gone;
}

int window_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode)
{
	struct window_wanted wanted = { .asked = dir->window->asked,
					.parent = dir->ino,
					.name = name };
	bool again;
	int r;

	/* The file may be replaced by another before it is looked at. */
	do {
		r = name_lookup(tree, dir->window->of, name, &wanted.of);
		if (r < 0)
			return r;
		r = window_open(tree, &wanted, ret_inode);
		again = r == -ENOENT && is_gone(tree, wanted.of);
		inode_forget(tree, wanted.of, 1);
	} while (again);
	return r;
}

int question_lookup(struct tree *tree, struct inode *dir, struct bytes name,
		    struct inode **ret_inode)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	struct window_wanted wanted = { .of = dir, .parent = dir->ino, .name = name };
	struct question *question;
	int r = name.size > NAME_LIMIT ? -ENAMETOOLONG : question_parse(name, &question, &reason);

	if (r == -EINVAL) {
		log_warning("%.*s: %.*s", (int)name.size, name.data, (int)reason.size, reason.data);
		return -ENOENT;
	}
	if (r == 0)
		r = asked_new(name, question, &wanted.asked);
	if (r < 0)
		return r;
	if (question->as != QUESTION_LINES)
		log_warning("%.*s: lists as documents, documents as a list and events are not to "
			    "be had yet",
			    (int)name.size, name.data);
	/* Or numbers of files reach into those of windows. */
	r = tree->last_ino >> WINDOW_BIT || question->as != QUESTION_LINES ?
		    -ENOENT :
		    window_open(tree, &wanted, ret_inode);
	asked_drop(wanted.asked);
	return r;
}

/* Attributes: those of the file, but for its number and of a list the size. */

int window_stat(struct tree *tree, const struct inode *inode, struct stat *ret_stat)
{
	const struct window *window = inode->window;
	int r = tree_stat(tree, window->of, ret_stat);

	ret_stat->st_ino = inode->ino;
	if (r < 0 || !window->list)
		return r;
	ret_stat->st_size = (off_t)window->size;
	ret_stat->st_blocks = (blkcnt_t)((window->size + 511) / 512);
	return 0;
}

int window_show(struct tree *tree, const struct inode *inode, struct shown *ret_shown)
{
	ret_shown->nodeid = inode->ino;
	ret_shown->own = ret_shown->brief = true;
	return window_stat(tree, inode, &ret_shown->st);
}
