/* SPDX-License-Identifier: MIT */

/*
 * Versions: the content of a file before a save, for readers that are in the middle of it.
 *
 *   A handle with direct reads begins with the content at its open, or if it may write at its
 *   first read, and is in the middle until a read finds the end of the file (handle.fresh,
 *   handle.middle).  A handle that reads through the page cache may have pages of it in the
 *   kernel until it is closed.  When a save replaces the content, and does not only add to it,
 *   the content is copied once before the commit, and they all share the copy.
 *
 *   A reader of a document has one from its first read on (handle_pin()).
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fs/cache/cache.h"
#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "backend/base/log.h"

static bool handle_wants(const struct handle *handle, const struct writing *saver)
{
	/* A writer that has read nothing goes by the size, which is the newest. */
	bool begins = handle->fresh && (handle->flags & O_ACCMODE) == O_RDONLY;

	return handle->writing != saver && (handle->middle || begins) && !handle->old &&
	       !(handle->writing->mode == HANDLE_SAVE && handle->writing->dirty);
}

static bool face_wants(const struct inode *inode, const struct face *face)
{
	return !face->old && face_is_needed(inode, face);
}

bool versions_wanted(const struct inode *inode, const struct writing *saver)
{
	for (const struct face *face = &inode->face; face; face = face->next)
		if (face_wants(inode, face))
			return true;
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle_wants(handle, saver))
			return true;
	return false;
}

int version_take(struct view *view, struct inode *inode, struct version **ret_version)
{
	_cleanup_(version_drop) struct version *version = version_new();
	int r = version ? content_to_stage(view, inode, &version->stage) : -ENOMEM;

	*ret_version = NULL;
	if (r == -ESTALE)
		return r;
	if (r < 0) {
		log_warning("there is no room for the previous content of inode %llu (%s): its "
			    "readers go on with the new one",
			    (unsigned long long)inode->ino, strerror(-r));
		return 0;
	}
	*ret_version = steal_ptr(version);
	return 0;
}

bool versions_apply(struct notes *notes, struct inode *inode, const struct writing *saver,
		    struct version *version)
{
	bool any_face = false;

	for (struct face *face = &inode->face; face; face = face->next) {
		if (!face_wants(inode, face))
			continue;
		face->old = version;
		notes_attr(notes, inode, face);
		version->count++;
		any_face = true;
	}
	for (struct handle *handle = inode->open; handle; handle = handle->next) {
		if (!handle_wants(handle, saver))
			continue;
		handle->old = version;
		version->count++;
	}
	return any_face;
}

enum { ASKS_OF_MAPPING = 4 }; /* for the size of a descriptor, before a program maps the file */

void face_asked(const struct inode *inode, const struct face *face, pid_t pid)
{
	if (!face->old)
		return;
	for (struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->face == face && handle->ended && handle->reader == pid)
			handle->again |= ++handle->asked > ASKS_OF_MAPPING;
}

void face_unless_needed(struct notes *notes, struct tree *tree, struct inode *inode,
			struct face *face)
{
	if (face->old && !face_is_needed(inode, face))
		notes_renew(notes, tree, inode, face);
}
