/* SPDX-License-Identifier: MIT */

/* Listing the content of windows; each name is looked up when it is used. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/base/sound.h"
#include "fs/views/windows.h"

enum { LISTS_BLOCK = 64 /* names that are checked at a time */ };

/* ---- A directory: its names, but for sidecars ---- */

struct window_listing {
	struct tree *tree;
	struct inode *window;
	struct inode *of;
	tree_entry_fn *fn;
	void *arg;
	int64_t time; /* of at= */
	bool stopped;
	struct view view;
};

/* Whether a directory of now is what its name shows: one that was removed may come before it. */
static int is_shown_now(struct window_listing *listing, struct bytes name,
			const struct shown *shown, bool *ret_is)
{
	struct inode *inode;
	int r = tree_lookup(listing->tree, listing->window, name, &inode);

	*ret_is = false;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	*ret_is = inode_shown(inode)->ino == shown->st.st_ino;
	inode_forget(listing->tree, inode, 1);
	return 0;
}

/* Names that were not there yet are not shown. */
static int was_shown(struct window_listing *listing, struct bytes name, const struct shown *shown,
		     bool *ret_was)
{
	struct view *view = &listing->view;
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	int r = 0;

	*ret_was = true;
	if (!view->backend)
		r = view_begin(listing->tree, BACKEND_ANYWAY, view);
	if (r == 0)
		r = ASK(view, node_get, shown->st.st_ino, &node);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (S_ISDIR(node.mode) && node.btime > listing->time) {
		view_end(view);
		return is_shown_now(listing, name, shown, ret_was);
	}
	*ret_was = was_there(&node, listing->time);
	return !kind_is_state(node.kind) ?
		       0 :
		       as_of_any(view->backend, view->snapshot,
				 &(struct backend_past_key){ 0, node.session, node.key },
				 listing->time, *ret_was, ret_was);
}

static int list_shown_name(void *arg, struct bytes name, struct inode *inode,
			   const struct shown *shown, uint64_t position)
{
	struct window_listing *listing = arg;
	bool was = true;
	int r = 0;

	if (listing->time != INT64_MAX)
		r = was_shown(listing, name, shown, &was);
	/* A sidecar is not listed. */
	else if (S_ISREG(shown->st.st_mode) && bytes_ends_with(name, names_suffix(BACKEND_HASH)) &&
		 place_kind(listing->tree, listing->of, name) == BACKEND_HASH)
		return 0;
	if (r < 0 || !was)
		return r;
	r = listing->fn(listing->arg, name, inode, shown, position);
	listing->stopped = r != 0;
	return r;
}

static int list_shown(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		      tree_entry_fn *fn, void *arg)
{
	struct inode *of = dir->window->of;
	const struct question *question = dir->window->asked->question;
	struct window_listing listing = {
		.time = question_moment(question->at, time_now(), INT64_MAX),
		.tree = tree,
		.window = (struct inode *)dir,
		.of = of,
		.fn = fn,
		.arg = arg,
	};

	int r = position & REMOVED_BIT || removed_is(tree, of) ?
			0 :
			tree_list(tree, of, position, end, false, list_shown_name, &listing);

	view_end(&listing.view);
	if ((r < 0 && r != -EUCLEAN) || listing.stopped || !question_has_at(question))
		return r;
	return removed_list(tree, dir, position, end, fn, arg);
}

/* ---- A list as a directory ---- */

struct items_listing {
	uint64_t ino; /* for each entry: a document has its own number when it is looked up */
	int64_t next; /* index to be listed next */
	tree_entry_fn *fn;
	void *arg;
};

static int list_item(void *arg, int64_t index)
{
	struct items_listing *listing = arg;
	const struct shown shown = { .st = { .st_ino = listing->ino, .st_mode = S_IFREG } };
	char name[32];
	int r;

	snprintf(name, sizeof(name), "%" PRId64 ".json", index);
	r = listing->fn(listing->arg, bytes_str(name), NULL, &shown,
			(uint64_t)index + 1 + LIST_DOTS);
	if (r == 0)
		listing->next = index + 1;
	return r;
}

static int items_once(struct tree *tree, struct window *items, struct items_listing *listing)
{
	_cleanup_(window_view_end) struct window_view view = { 0 };
	struct inode *list;
	int r = items_begin(tree, items, &view, &list);

	if (r != 0)
		return r > 0 ? -ESTALE : r;
	listing->ino = list->ino;
	/* Positions of entries have 63 bits. */
	view.rows.to = MIN(view.rows.to, (int64_t)SOUND_NUMBER_MAX);
	r = window_items(&view, listing->next, list_item, listing);
	window_view_end(&view);
	view = (struct window_view){ 0 };
	inode_forget(tree, list, 1);
	return MIN(r, 0);
}

static int items_list(struct tree *tree, const struct inode *dir, uint64_t position,
		      tree_entry_fn *fn, void *arg)
{
	struct window *items = dir->window;
	struct items_listing listing = { .fn = fn, .arg = arg };
	int r = list_dots(dir->ino, items->of->ino, position, fn, arg);

	if (r != 0)
		return MIN(r, 0);
	listing.next = position > LIST_DOTS ? (int64_t)(position - LIST_DOTS) : 0;
	r = TREE_RETRY(tree, items_once(tree, items, &listing));
	return r == -ENOENT ? 0 : r;
}

/* ---- A directory with lists under other names ---- */

struct shown_names {
	struct shown_name {
		char name[NAME_LIMIT + 1];
		struct stat st;
		uint64_t position;
	} item[LISTS_BLOCK];
	size_t count;
};

static int keep_name(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		     uint64_t position)
{
	struct shown_names *names = arg;
	struct shown_name *item = &names->item[names->count];

	(void)inode;
	if (names->count == LISTS_BLOCK)
		return 1;
	snprintf(item->name, sizeof(item->name), "%.*s", (int)name.size, name.data);
	item->st = shown->st;
	item->position = position;
	names->count++;
	return 0;
}

static uint32_t kind_of(struct tree *tree, const struct inode *dir, const struct shown_name *item)
{
	WITH_READ_LOCK(tree);

	return S_ISREG(item->st.st_mode) ?
		       place_kind(tree, dir->window->of, bytes_str(item->name)) :
		       BACKEND_ORDINARY;
}

static bool is_free(struct tree *tree, const struct inode *dir, struct bytes name, int *ret_error)
{
	struct inode *other;

	*ret_error = name_lookup(tree, dir->window->of, name, &other);
	if (*ret_error == 0)
		inode_forget(tree, other, 1);
	return *ret_error == -ENOENT;
}

/* The name of a list as a directory: without its suffix, unless another file has that name. */
static int list_as_dir(struct tree *tree, const struct inode *dir, struct shown_name *item)
{
	struct names_split split = names_split(bytes_str(item->name));
	int r = 0;

	if (kind_of(tree, dir, item) != BACKEND_LIST)
		return 0;
	item->st.st_mode = S_IFDIR;
	if (sound_name(split.stem) && is_free(tree, dir, split.stem, &r))
		item->name[split.stem.size] = '\0';
	return r == -ENOENT ? 0 : r;
}

/* The name of a list or document as a text: with another suffix, unless another file has that
 * name. */
static int state_as_text(struct tree *tree, const struct inode *dir, struct shown_name *item)
{
	struct names_split split = names_split(bytes_str(item->name));
	const uint32_t kind = kind_of(tree, dir, item);
	char text[NAME_LIMIT + 1];
	int size = (int)split.stem.size, r = -ENOENT;
	bool as_text = sound_name(split.stem) && (kind == BACKEND_LIST || kind == BACKEND_SINGLE);

	if (as_text && kind == BACKEND_SINGLE) {
		snprintf(text, sizeof(text), "%.*s%s", size, item->name,
			 names_suffix(BACKEND_LIST).data);
		as_text = is_free(tree, dir, bytes_str(text), &r);
	}
	if (as_text) {
		snprintf(text, sizeof(text), "%.*s%s", size, item->name, TEXT_END);
		as_text = is_free(tree, dir, bytes_str(text), &r);
	}
	if (as_text)
		snprintf(item->name, sizeof(item->name), "%s", text);
	return r == -ENOENT ? 0 : MIN(r, 0);
}

static int list_lists(struct tree *tree, const struct inode *dir, struct shown_names *names,
		      tree_entry_fn *fn, void *arg)
{
	bool texts = dir->window->asked->question->as == QUESTION_TEXT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < names->count; i++) {
		struct shown_name *item = &names->item[i];
		struct shown shown;

		r = (texts ? state_as_text : list_as_dir)(tree, dir, item);
		shown = (struct shown){ .st = item->st };
		if (r == 0)
			r = fn(arg, bytes_str(item->name), NULL, &shown, item->position);
	}
	return r;
}

static int lists_list(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		      tree_entry_fn *fn, void *arg)
{
	_cleanup_(freep) struct shown_names *names = malloc(sizeof(*names));
	bool unsound = false;
	int r = 0;

	if (!names)
		return -ENOMEM;
	do {
		names->count = 0;
		r = list_shown(tree, dir, position, end, keep_name, names);
		/* The others were handed out. */
		unsound |= r == -EUCLEAN;
		if (r < 0 && r != -EUCLEAN)
			return r;
		if (names->count)
			position = names->item[names->count - 1].position;
		r = list_lists(tree, dir, names, fn, arg);
	} while (r == 0 && names->count == LISTS_BLOCK);
	return r < 0 ? r : unsound ? -EUCLEAN : 0;
}

int window_list(struct tree *tree, const struct inode *dir, uint64_t position, uint64_t end,
		tree_entry_fn *fn, void *arg)
{
	if (dir->window->list)
		return items_list(tree, dir, position, fn, arg);
	if (dir->window->asked->question->as == QUESTION_ITEMS ||
	    dir->window->asked->question->as == QUESTION_TEXT)
		return lists_list(tree, dir, position, end, fn, arg);
	return list_shown(tree, dir, position, end, fn, arg);
}
