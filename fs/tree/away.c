/* SPDX-License-Identifier: MIT */

/* Saves that get a temporary name again from which their file was renamed away
 * (fs/write/temporary.h). */

#include <errno.h>
#include <string.h>

#include "fs/inode/waiting.h"
#include "fs/tree/place.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"
#include "backend/base/log.h"

/* -EEXIST: the name leads to another file, maybe only by now. */
static int put_once(struct tree *tree, struct away *away, struct notes *notes,
		    struct inode **ret_inode)
{
	const struct caller caller = { .uid = away->like.uid, .gid = away->like.gid };
	/* The new file is not renamed while it is empty. */
	const struct tree_new what = { .mode = away->like.mode, .will_open = true };
	struct inode *inode = NULL;
	int r = tree_make(tree, &caller, away->dir, away->name, &what, &inode);
	const bool made = r == 0;
	bool unopened = false;

	if (r == -EEXIST) {
		r = name_lookup(tree, away->dir, away->name, &inode);
		if (r == -ENOENT)
			return -EEXIST;
	} else if (made) {
		notes_entry(notes, away->dir->ino, away->name);
	}
	if (r == 0)
		r = temporary_put(tree, inode, away);
	if (made) {
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(inode);

		/* Another thread may have opened it meanwhile. */
		unopened = inode->opening;
		inode->opening = false;
	}
	if (unopened)
		tree_use_end(tree, inode);
	if (r == 0)
		*ret_inode = inode;
	else if (inode)
		inode_forget(tree, inode, 1);
	return r;
}

enum { PUT_TRIES = 10 };

/* Give the file of its name, which is counted, the content of a save. */
static int away_put(struct tree *tree, struct away *away, enum notify_how how,
		    struct inode **ret_inode)
{
	struct notes notes = { 0 };
	int r = -EEXIST;

	/* Another process may rename the file with that name meanwhile. */
	for (int tries = 0; r == -EEXIST && tries < PUT_TRIES; tries++)
		r = put_once(tree, away, &notes, ret_inode);
	notes_send(&notes, tree, how);
	return r;
}

int away_find(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
	      struct inode **ret_inode)
{
	struct away away = { 0 };
	int r = temporary_find(tree, dir, name, pid, &away);

	/* The name is that of an open file, which may be closed meanwhile. */
	away.name = name;
	if (r > 0)
		r = away_put(tree, &away, NOTIFY_LATER, ret_inode);
	else if (r == 0)
		r = -ENOENT;
	inode_forget(tree, away.dir, 1);
	stage_done(&away.stage);
	return r;
}

int tree_flush(struct tree *tree, struct handle *handle, pid_t pid)
{
	struct away away = { 0 };
	struct inode *inode;
	int r = handle_flush(tree, handle, pid);

	if (r < 0)
		return r;
	r = temporary_come_back(tree, handle, &away);
	if (r > 0) {
		r = away_put(tree, &away, NOTIFY_ALL, &inode);
		if (r == 0)
			inode_forget(tree, inode, 1);
		/* The directory has gone, or another file has the name: the save counts as
		 * removed. */
		if (r == -ENOENT || r == -EEXIST)
			r = 0;
	}
	inode_forget(tree, away.dir, 1);
	stage_done(&away.stage);
	return r;
}

int away_take(struct tree *tree, struct view *view, const struct entry_pair *pair, pid_t pid,
	      struct taking *taking, struct notes *notes)
{
	int r;

	if (!temporary_is_asked(tree, pair->inode, pid))
		return 0;
	view_end(view);
	r = temporary_take(tree, pair->inode, pid, place_kind(tree, pair->dir_to, pair->name_to),
			   taking, notes);
	return r < 0 ? r : view_begin(tree, 0, view);
}

void away_put_others(struct tree *tree, struct inode *dir, struct bytes name, struct taking *taking)
{
	struct away away = { .dir = dir, .name = name };
	struct inode *inode;
	int r;

	if (!taking_next(taking, &away))
		return;
	r = away_put(tree, &away, NOTIFY_LATER, &inode);
	if (r == 0) {
		temporary_keep(tree, inode, taking);
		inode_forget(tree, inode, 1);
	} else if (r != -ENOENT && r != -EEXIST) {
		log_warning("a save by a temporary name that another save used, too, is lost: %s",
			    strerror(-r));
	}
	stage_done(&away.stage);
}

int tree_rename(struct tree *tree, struct inode *dir, struct bytes name, struct inode *dir_to,
		struct bytes name_to, unsigned flags)
{
	return tree_rename_by(tree, dir, name, dir_to, name_to, flags, 0);
}
