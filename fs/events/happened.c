/* SPDX-License-Identifier: MIT */

#include "fs/events/events.h"

#include "fs/content/content.h"
#include "fs/inode/called.h"
#include "fs/inode/inodes.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"

static int take_path(const struct inode *dir, struct bytes name, struct buf *buf,
		     struct bytes *ret_path)
{
	int r = following_path(dir, name, buf);

	if (r == 0)
		*ret_path = composing_text(buf);
	return r;
}

/* The directory that a file is in; counted. */
static int dir_of(struct tree *tree, const struct inode *inode, struct inode **ret_dir)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	*ret_dir = inode_known(tree, inode->node.parent);
	if (*ret_dir)
		return 0;
	r = view_begin(tree, BACKEND_ANYWAY, &view);
	return r < 0 ? r : inode_get_dir(tree, &view, inode->node.parent, ret_dir);
}

static int take_place(struct composing *composing, const struct happened *happened,
		      const struct inode *dir, struct bytes name)
{
	const struct backend_node *node = happened->node ? happened->node : &happened->inode->node;
	struct event *event = &composing->event;
	struct bytes session = node->session;
	int r;

	for (const struct inode *home = dir; !session.data && home; home = home->parent)
		if (home->node.kind == BACKEND_SESSION)
			session = home->node.session;
	r = composing_show(session, &composing->session, &event->session);
	if (r == 0 && kind_is_state(node->kind))
		r = composing_show(node->key, &composing->key, &event->key);
	if (r == 0)
		r = take_path(dir, name, &composing->path, &event->path);
	if (r == 0 && happened->from.data)
		r = take_path(happened->from_dir, happened->from, &composing->from, &event->from);
	return r;
}

/* The name and directory that the node says. */
static int take_own_place(struct tree *tree, struct composing *composing,
			  const struct happened *happened)
{
	struct inode *inode = happened->inode, *dir;
	struct bytes name;
	int r;

	if (inode_is_dir(inode))
		return take_place(composing, happened, inode, (struct bytes){ 0 });
	r = called_find(tree, inode, &name);
	if (r == 0)
		r = dir_of(tree, inode, &dir);
	if (r < 0)
		return r;
	r = take_place(composing, happened, dir, name);
	inode_forget(tree, dir, 1);
	return r;
}

static void measure(struct tree *tree, const struct happened *happened, struct event *event)
{
	_cleanup_(view_end) struct view own = { 0 };
	struct view *view = happened->view ? happened->view : &own;
	struct inode *inode = happened->inode;
	uint64_t size;

	if (!S_ISREG(inode->node.mode) || inode->gone || inode->orphaned || inode->apart)
		return;
	if (inode_is_state(inode) && !inode_is_draft(inode) && !inode->loaded && view == &own &&
	    view_begin(tree, BACKEND_ANYWAY, view) < 0)
		return;
	if (content_size(tree, view, inode, &size) < 0)
		return;
	event->size = (int64_t)size;
	if (inode->node.kind == BACKEND_LIST && !inode_is_draft(inode) && inode->loaded)
		event->items = inode->list.next;
}

/* The size and items of the file then. */
static void count(struct tree *tree, const struct happened *happened, struct event *event)
{
	if (!happened->node && happened->what != EVENT_REMOVE &&
	    (happened->by == EVENT_BY_MOUNT || happened->view))
		measure(tree, happened, event);
	if (happened->by == EVENT_BY_MOUNT && !happened->node)
		return;
	/* The file may be larger by now; a later event reports that. */
	if (event->items != happened->items)
		event->size = -1;
	event->items = happened->items;
}

/* Notify the kernel of what it may have cached itself: a reader of the event must not find that any
 * more. */
static void notify_kernel(struct notes *notes, const struct happened *happened)
{
	struct inode *inode = happened->inode;

	if (happened->by != EVENT_BY_MOUNT || !inode)
		return;
	if (happened->name.data)
		notes_name(notes, happened->dir->ino, happened->name);
	if (happened->from.data)
		notes_name(notes, happened->from_dir->ino, happened->from);
	/* The kernel knows the new attributes of the face that was written through, but only when
	 * the writer goes on.  After a notice it does not have them until it asks. */
	for (struct face *face = &inode->face; face; face = face->next) {
		if (!face->shown && inode_is_state(inode))
			continue;
		notes_attr(notes, inode, face);
		face->shown = false;
	}
}

void notes_event(struct notes *notes, struct tree *tree, const struct event *event)
{
	int64_t number = events_add(&tree->events, event);

	if (number >= 0)
		notes_number(notes, tree, number);
}

void notes_lost(struct notes *notes, struct tree *tree)
{
	const struct event lost = event_new(EVENT_LOST);

	notes_event(notes, tree, &lost);
}

void notes_happened_now(struct notes *notes, struct tree *tree, const struct happened *happened)
{
	struct inode *inode = happened->inode;
	_cleanup_(composing_done) struct composing composing = {
		.event = event_new(happened->what),
	};
	int r;

	composing.event.by = happened->by;
	composing.event.moves = happened->moves;

	/* A file without a name cannot be found. */
	if (!happened->name.data &&
	    (!inode->node.nlink || (!inode->node.entry && inode->ino != BACKEND_ROOT)))
		return;
	r = happened->name.data ? take_place(&composing, happened, happened->dir, happened->name) :
				  take_own_place(tree, &composing, happened);
	notify_kernel(notes, happened);
	/* Without memory, or if the store cannot be read, readers must learn that an event is
	 * lost. */
	if (r < 0) {
		notes_lost(notes, tree);
		return;
	}
	count(tree, happened, &composing.event);
	if (happened->what == EVENT_APPEND && composing.event.items >= happened->first) {
		composing.event.first = happened->first;
		composing.event.count = composing.event.items - happened->first;
	}
	notes_event(notes, tree, &composing.event);
}
