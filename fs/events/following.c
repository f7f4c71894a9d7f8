/* SPDX-License-Identifier: MIT */

#include "fs/events/events.h"

#include <errno.h>
#include <string.h>

#include "fs/api/events.h"
#include "fs/base/names.h"
#include "fs/inode/inodes.h"
#include "backend/base/utf8.h"
#include "backend/base/tick.h"

/* A reader that has ended may come back and go on. */
static const int64_t KEPT_NS = INT64_C(60000000000);

void following_end(struct tree *tree, struct event_reader *reader)
{
	event_reader_done(reader);
	WITH_MUTEX(&tree->events.follow_lock);
	tree->events.readers--;
	tree->events.until = tick_now() + KEPT_NS;
}

int following_begin(struct tree *tree, struct inode *dir, int64_t since,
		    struct event_reader *reader)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	int r;

	/* Skip what others did before. */
	if (backend_is_shared(tree->backend))
		(void)tree_take_in(tree);
	pthread_mutex_lock(&tree->events.follow_lock);
	r = events_begin(&tree->events);
	tree->events.readers += r == 0;
	pthread_mutex_unlock(&tree->events.follow_lock);
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
	WITH_MUTEX(&tree->events.follow_lock);
	if (!tree->events.readers && tick_now() >= tree->events.until)
		events_end(&tree->events);
}

void tree_set_follower(struct tree *tree, tree_happened_fn *happened, void *arg)
{
	WITH_MUTEX(&tree->events.follow_lock);

	tree->events.happened = happened;
	tree->events.arg = arg;
}

int following_text(struct bytes text, struct buf *shown)
{
	return utf8_valid(text) ? buf_append_bytes(shown, text) :
				  names_encode(NAMES_KEY, text, SIZE_MAX, shown);
}

void composing_done(struct composing *composing)
{
	buf_done(&composing->session);
	buf_done(&composing->key);
	buf_done(&composing->path);
	buf_done(&composing->from);
}

int composing_show(struct bytes text, struct buf *buf, struct bytes *ret_text)
{
	int r = text.data ? following_text(text, buf) : 0;

	if (r == 0 && text.data)
		*ret_text = composing_text(buf);
	return r;
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
