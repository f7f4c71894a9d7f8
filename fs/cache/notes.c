/* SPDX-License-Identifier: MIT */

#include <stdlib.h>

#include "fs/base/entries.h"
#include "fs/cache/notice.h"
#include "fs/cache/state.h"
#include "fs/content/content.h"
#include "fs/inode/called.h"
#include "fs/inode/inodes.h"
#include "backend/base/array.h"
#include "backend/base/log.h"

static struct note *notes_add(struct notes *notes)
{
	if (ARRAY_ROOM(notes->note, notes->count, notes->room) < 0)
		return NULL;
	notes->note[notes->count] = (struct note){ 0 };
	return &notes->note[notes->count++];
}

static void notes_face(struct notes *notes, const struct inode *inode, const struct face *face,
		       int64_t offset)
{
	struct note *note = notes_add(notes);

	if (!note)
		return;
	note->number = inode_nodeid(inode, face->number);
	note->offset = offset;
}

void notes_attr(struct notes *notes, const struct inode *inode, const struct face *face)
{
	notes_face(notes, inode, face, -1);
}

void notes_misplaced(struct notes *notes, const struct inode *inode, const struct face *face,
		     uint64_t offset)
{
	notes_face(notes, inode, face, (int64_t)offset);
}

void notes_dir(struct notes *notes, uint64_t ino)
{
	struct note *note = notes_add(notes);

	if (!note) {
		log_error("out of memory: the kernel may show an old list of inode %llu",
			  (unsigned long long)ino);
		return;
	}
	note->number = ino;
}

void notes_entry(struct notes *notes, uint64_t parent, struct bytes name)
{
	char *copy = bytes_dup(name);
	struct note *note = copy ? notes_add(notes) : NULL;

	if (!note) {
		free(copy);
		log_error("out of memory: the kernel may show an old name in inode %llu",
			  (unsigned long long)parent);
		return;
	}
	note->is_entry = true;
	note->number = parent;
	note->name = copy;
	note->name_size = name.size;
}

void notes_name(struct notes *notes, uint64_t parent, struct bytes name)
{
	size_t before = notes->count;

	notes_entry(notes, parent, name);
	if (notes->count > before)
		notes->note[before].is_own = true;
}

void notes_number(struct notes *notes, struct tree *tree, int64_t number)
{
	struct note *note = notes_add(notes);

	if (!note) {
		events_show(&tree->events, number);
		return;
	}
	note->is_event = true;
	note->event = number;
}

void notes_all_names(struct notes *notes)
{
	struct note *note = notes_add(notes);

	if (!note) {
		log_error("out of memory: the kernel may show old names");
		return;
	}
	note->is_entry = true;
}

void notes_own_entry(struct notes *notes, struct tree *tree, struct inode *inode)
{
	struct bytes name;

	if (inode->node.entry && called_find(tree, inode, &name) == 0)
		notes_name(notes, inode->node.parent, name);
}

static struct notice *notice_new(struct notes *notes, struct tree *tree, struct inode *inode)
{
	struct notice *notice =
		calloc(1, sizeof(*notice) + inode->face_count * sizeof(notice->face[0]));
	struct note *note = notice ? notes_add(notes) : NULL;

	if (!note) {
		free(notice);
		log_error("out of memory: the kernel may show old bytes of inode %llu",
			  (unsigned long long)inode->ino);
		return NULL;
	}
	note->notice = notice;
	notice->inode = inode_ref(tree, inode);
	notice->change = ++inode->changes;
	return notice;
}

/* The last byte of a file that has grown. */
static void notice_end(struct notice *notice, struct tree *tree, struct inode *inode,
		       struct view *view)
{
	_cleanup_(view_end) struct view own = { 0 };
	_cleanup_(buf_done) struct buf last = { 0 };
	uint64_t size = 0;

	if (inode->node.kind == BACKEND_LIST && inode->loaded && !inode->list.tail_size) {
		notice->size = inode->list.size;
		notice->last = '\n';
		return;
	}
	/* A change that the store shows and memory does not have yet is notified by the thread that
	 * makes it. */
	if (!view || !view->backend)
		view = view_begin(tree, BACKEND_ANYWAY, &own) == 0 ? &own : NULL;
	if (!view || tree->applying.pending || inode->unapplied ||
	    content_size(tree, view, inode, &size) < 0 || !size ||
	    content_read(tree, view, inode, NULL, size - 1, 1, &last) < 0 || !last.size)
		return;
	notice->size = size;
	notice->last = last.data[0];
}

static void notice_add(struct notice *notice, struct face *face, enum change change,
		       uint64_t size_before)
{
	const struct inode *inode = notice->inode;
	struct notice_face *of_face = &notice->face[notice->count++];

	*of_face = (struct notice_face){ .number = face->number };
	face->shown = false;
	/* After any notice the kernel drops the size of an answer that is under way. */
	of_face->grown = face_is_read(inode, face) &&
			 (change != CHANGE_REPLACED || face_is_needed(inode, face));
	if (change == CHANGE_ATTR)
		return;
	of_face->pages = face->filled;
	if (of_face->grown) {
		of_face->offset = change == CHANGE_GREW && size_before != UINT64_MAX ?
					  (int64_t)size_before :
					  0;
		/* Storing the byte makes a page. */
		face->filled = true;
	}
	/* A reader that opened it now would see old pages. */
	of_face->stale = !of_face->grown || change == CHANGE_REPLACED;
	face->stale += of_face->stale;
	if (of_face->grown)
		return;
	/* It has no reader: the next one begins anew. */
	face->filled = false;
}

/* Whether the kernel still has to be notified of an earlier change.  Of what that has made old, the
 * faces of this one are not notified again. */
static bool notice_is_due(struct tree *tree, const struct inode *inode)
{
	WITH_MUTEX(&tree->cache->lock);

	return inode->changes != inode->changes_notified;
}

void notes_change(struct notes *notes, struct tree *tree, struct inode *inode, enum change change,
		  uint64_t size_before, const struct face *by)
{
	struct notice *notice = NULL;
	bool grown = false, waits;

	/* The kernel knows what it did through the only face. */
	if (change == CHANGE_ATTR && inode->face_count == 1)
		return;
	if (change != CHANGE_ATTR)
		inode->changed = ++tree->changes;
	/* The size before belongs to other bytes. */
	if (change == CHANGE_REPLACED) {
		inode->bound = UINT64_MAX;
		inode->replaced = inode->changes;
		inode->replaced_at = inode->changed;
		inode->list_known = false;
		for (struct handle *handle = inode->open; handle; handle = handle->next)
			if (handle->old)
				handle->old->replaced = true;
	}
	for (struct face *face = &inode->face; face; face = face->next) {
		/* The kernel has the size from the append itself. */
		if (change != CHANGE_ATTR && (change != CHANGE_GREW || face != by || face->own))
			face->changed = true;
		/* Its readers may get the new size by a notice, or the kernel has it from its own
		 * append. */
		if ((change == CHANGE_REPLACED ||
		     (change != CHANGE_ATTR && inode_is_state(inode))) &&
		    !face->old &&
		    (change != CHANGE_GREW || (face != by && !face_is_read(inode, face)))) {
			face->doubted = true;
			face->traced &= face->own;
		}
		/* The kernel forgets pages only where it believes that the file ended; but what it
		 * writes to an ordinary file is in its pages, which it holds meanwhile. */
		if ((face == by && (!face->filled || !inode_is_state(inode))) || face->old ||
		    !(face->shown || (change != CHANGE_ATTR && face->filled) ||
		      (change == CHANGE_GREW && face->open[FACE_READ])))
			continue;
		if (!notice)
			notice = notice_new(notes, tree, inode);
		if (!notice)
			return;
		notice_add(notice, face, change, size_before);
		grown |= notice->face[notice->count - 1].grown;
	}
	if (grown && change == CHANGE_GREW)
		inode->bound = MIN(inode->bound, size_before);
	/* Earlier notices wait: the thread that has added this waits for them, and then it is
	 * shown. */
	waits = change == CHANGE_GREW && inode->bound != UINT64_MAX;
	if (!notice && (waits || notice_is_due(tree, inode)))
		notice = notice_new(notes, tree, inode);
	if (notice && (grown || waits))
		notice_end(notice, tree, inode, notes->view);
}

void notes_renew(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face)
{
	struct notice *notice = face->renewing ? NULL : notice_new(notes, tree, inode);

	if (!notice)
		return;
	face->renewing = true;
	notice->face[notice->count++] = (struct notice_face){
		.number = face->number,
		.pages = true,
		.grown = face->open[FACE_READ] != 0,
		.renew = true,
	};
	face->shown = false;
	if (face->open[FACE_READ])
		notice_end(notice, tree, inode, notes->view);
}

void notes_forget(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face)
{
	struct notice *notice = notice_new(notes, tree, inode);

	if (!notice)
		return;
	notice->face[notice->count++] = (struct notice_face){
		.number = face->number,
		.pages = true,
		.stale = true,
	};
	face->stale++;
	face->filled = face->shown = false;
}

void notes_plain(struct notes *notes, struct tree *tree, struct inode *inode, uint64_t size_before,
		 uint64_t offset, const struct face *by)
{
	/* Stages of writers are merged with this when they are published. */
	inode->version++;
	if (offset >= size_before)
		inode_extended(inode, inode->version - 1);
	if (inode->face_count > 1 || !by)
		notes_change(notes, tree, inode,
			     offset < size_before ? CHANGE_REPLACED : CHANGE_GREW, size_before, by);
}
