/* SPDX-License-Identifier: MIT */

#include "fs/inode/following.h"

#include <errno.h>
#include <string.h>

#include "fs/base/names.h"
#include "fs/inode/called.h"
#include "fs/inode/inodes.h"
#include "backend/base/utf8.h"
#include "backend/base/tick.h"

/* Who has ended may come back and go on. */
static const int64_t KEPT_NS = INT64_C(60000000000);

void following_init(struct tree *tree)
{
	events_init(&tree->events);
	pthread_mutex_init(&tree->following.lock, NULL);
}

void following_done(struct tree *tree)
{
	events_done(&tree->events);
	pthread_mutex_destroy(&tree->following.lock);
}

static int count_one(struct tree *tree)
{
	int r;

	pthread_mutex_lock(&tree->following.lock);
	r = events_begin(&tree->events);
	tree->following.readers += r == 0;
	pthread_mutex_unlock(&tree->following.lock);
	return r;
}

void following_end(struct tree *tree, struct event_reader *reader)
{
	event_reader_done(reader);
	pthread_mutex_lock(&tree->following.lock);
	tree->following.readers--;
	tree->following.until = tick_now() + KEPT_NS;
	pthread_mutex_unlock(&tree->following.lock);
}

int following_begin(struct tree *tree, struct inode *dir, int64_t since,
		    struct event_reader *reader)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	int r;

	/* What others did before is no news. */
	if (backend_is_shared(tree->backend))
		(void)tree_take_in(tree);
	r = count_one(tree);
	if (r < 0)
		return r;
	{
		WITH_READ_LOCK(tree);

		r = following_path(dir, (struct bytes){ 0 }, &path);
		if (r == 0)
			r = event_reader_begin(reader, &tree->events, buf_bytes(&path), since);
	}
	if (r < 0)
		following_end(tree, reader);
	return r;
}

void following_look(struct tree *tree)
{
	if (!events_wanted(&tree->events))
		return;
	pthread_mutex_lock(&tree->following.lock);
	if (!tree->following.readers && tick_now() >= tree->following.until)
		events_end(&tree->events);
	pthread_mutex_unlock(&tree->following.lock);
}

void tree_set_follower(struct tree *tree, tree_happened_fn *happened, void *arg)
{
	pthread_mutex_lock(&tree->following.lock);
	tree->following.happened = happened;
	tree->following.arg = arg;
	pthread_mutex_unlock(&tree->following.lock);
}

void following_show(struct tree *tree, int64_t number)
{
	events_show(&tree->events, number);
	pthread_mutex_lock(&tree->following.lock);
	if (tree->following.happened)
		tree->following.happened(tree->following.arg);
	pthread_mutex_unlock(&tree->following.lock);
}

int following_text(struct bytes text, struct buf *shown)
{
	return utf8_valid(text) ? buf_append_bytes(shown, text) :
				  names_encode(NAMES_KEY, text, SIZE_MAX, shown);
}

static int add_name(struct bytes name, struct buf *path)
{
	int r = path->size ? buf_append_byte(path, '/') : 0;

	return r < 0 ? r : following_text(name, path);
}

int following_path(const struct inode *dir, struct bytes name, struct buf *path)
{
	_cleanup_(buf_done) struct buf names = { 0 }; /* of directories, from below */
	int r = 0;

	for (; r == 0 && dir && dir->parent; dir = dir->parent)
		r = buf_append(&names, &dir->name, sizeof(dir->name));
	while (r == 0 && names.size) {
		const char *above;

		names.size -= sizeof(above);
		memcpy(&above, names.data + names.size, sizeof(above));
		r = add_name(bytes_str(above), path);
	}
	return r < 0 || !name.data ? r : add_name(name, path);
}

int following_name(struct tree *tree, struct inode *inode, struct bytes *ret_name)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	int r;

	*ret_name = called_name(inode);
	if (ret_name->data)
		return 0;
	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0)
		r = ASK(&view, entry_name, inode->node.parent, inode->node.entry, &name);
	if (r < 0)
		return r;
	called_is(tree, inode, buf_bytes(&name));
	*ret_name = called_name(inode);
	return ret_name->data ? 0 : -ENOMEM;
}
