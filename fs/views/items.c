/* SPDX-License-Identifier: MIT */

/*
 * Lists as directories of documents (as=items): "l.jsonl" is shown as "l", and its rows as
 * "0.json", "1.json" ... by their indices.  With as=text, "l.jsonl" is shown as "l.txt", and so is
 * "l.json".
 *
 *   Where something else is called "l" (or "l.txt"), that is shown, and the list by its own name,
 *   which always leads to it.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/inode/called.h"
#include "fs/views/windows.h"

/* ---- Which list ---- */

static bool is_kind(struct tree *tree, struct inode *inode, enum backend_kind kind)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return inode->node.kind == kind;
}

static bool is_items(const struct inode *dir)
{
	return dir->window->asked->question->as == QUESTION_ITEMS;
}

/* Look up a name, as a file or (with as=items) as a list. */
static int items_look(struct tree *tree, const struct inode *dir, struct window_wanted *wanted,
		      struct bytes name)
{
	const struct window *window = dir->window;
	int r = name_lookup(tree, window->of, name, &wanted->of);

	if (r < 0 || !is_items(dir) || !is_kind(tree, wanted->of, BACKEND_LIST))
		return r;
	inode_forget(tree, wanted->of, 1);
	wanted->of = inode_ref(tree, window->of);
	snprintf(wanted->list, sizeof(wanted->list), "%.*s", (int)name.size, name.data);
	return 0;
}

/* As "STEM.jsonl" of a list, or "STEM.json". */
static int look_state(struct tree *tree, const struct inode *dir, struct window_wanted *wanted,
		      struct bytes stem, enum backend_kind kind)
{
	char name[NAME_LIMIT + 1];
	int size = snprintf(name, sizeof(name), "%.*s%s", (int)stem.size, stem.data,
			    names_suffix(kind).data);
	int r = size > NAME_LIMIT ? -ENOENT :
				    items_look(tree, dir, wanted, bytes_make(name, (size_t)size));

	if (r < 0 || *wanted->list || (!is_items(dir) && is_kind(tree, wanted->of, kind)))
		return r;
	inode_forget(tree, wanted->of, 1);
	return -ENOENT;
}

int shown_lookup(struct tree *tree, const struct inode *dir, struct window_wanted *wanted)
{
	struct bytes stem = wanted->name;
	int r;

	*wanted->list = '\0';
	r = items_look(tree, dir, wanted, wanted->name);
	if (r != -ENOENT)
		return r;
	if (is_items(dir))
		return look_state(tree, dir, wanted, stem, BACKEND_LIST);
	if (dir->window->asked->question->as != QUESTION_TEXT ||
	    !bytes_ends_with(stem, BYTES(TEXT_END)))
		return r;
	stem.size -= strlen(TEXT_END);
	r = look_state(tree, dir, wanted, stem, BACKEND_LIST);
	return r == -ENOENT ? look_state(tree, dir, wanted, stem, BACKEND_SINGLE) : r;
}

/* Called for each document, and for each question about the directory. */
static int find_list(struct tree *tree, const struct window *items, struct inode **ret_list)
{
	const struct bytes name = bytes_str(items->list);

	{
		WITH_READ_LOCK(tree);

		*ret_list = called_recall(tree, items->of, name);
	}
	return *ret_list ? 0 : name_lookup(tree, items->of, name, ret_list);
}

int items_begin(struct tree *tree, struct window *items, struct window_view *view,
		struct inode **ret_list)
{
	struct inode *list;
	int r = find_list(tree, items, &list);

	if (r < 0)
		return r;
	view->question = items->asked->question;
	view->rows.now = time_now();
	r = window_view_begin(tree, list, view);
	if (r == 0 && !view->rows.list)
		r = -ENOENT;
	if (r == 0)
		r = window_choose_items(view, items);
	if (r == 0)
		*ret_list = list;
	else
		inode_forget(tree, list, 1);
	return r;
}

int items_stat(struct tree *tree, const struct window *window, struct stat *ret_stat)
{
	struct inode *list;
	struct stat st;
	int r = find_list(tree, window, &list);

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	r = tree_stat(tree, list, &st);
	inode_forget(tree, list, 1);
	if (r < 0)
		return r;
	/* Users that may read the list may list it and enter it. */
	st.st_mode = S_IFDIR | (st.st_mode & 0777) | (st.st_mode & 0444) >> 2;
	st.st_nlink = 2;
	st.st_size = 4096;
	st.st_blocks = 0;
	*ret_stat = st;
	return 0;
}

/* ---- One document ---- */

static bool item_index(struct bytes name, int64_t *ret_index)
{
	char text[32], same[32];

	if (name.size >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)name.size, name.data);
	errno = 0;
	*ret_index = strtoll(text, NULL, 10);
	snprintf(same, sizeof(same), "%" PRId64 ".json", *ret_index);
	return errno == 0 && *ret_index >= 0 && bytes_equal(name, bytes_str(same));
}

static int item_once(struct tree *tree, struct inode *dir, struct window_wanted *wanted,
		     int64_t index, struct inode **ret_inode)
{
	_cleanup_(window_view_end) struct window_view view = { 0 };
	_cleanup_(version_drop) struct version *version = NULL;
	int r = items_begin(tree, dir->window, &view, &wanted->of);

	if (r != 0)
		return r > 0 ? -ESTALE : r;
	r = window_choose_item(&view, index, &version);
	wanted->rows = view.rows;
	*ret_inode = r == 0 ? window_find(tree, wanted) : NULL;
	if (r == 0 && !*ret_inode)
		r = window_make(tree, wanted, &view, &version, ret_inode);
	window_view_end(&view);
	view = (struct window_view){ 0 };
	inode_forget(tree, wanted->of, 1);
	return r;
}

int item_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode)
{
	struct window_wanted wanted = {
		.asked = dir->window->asked,
		.parent = dir->ino,
		.name = name,
	};
	int64_t index;

	if (!item_index(name, &index))
		return -ENOENT;
	return TREE_RETRY(tree, item_once(tree, dir, &wanted, index, ret_inode));
}
