/* SPDX-License-Identifier: MIT */

/* Attributes: what stat shows, and what chmod, chown, utimensat and truncate change. */

#include <errno.h>
#include <limits.h>

#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/quota.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/inode/waiting.h"
#include "fs/tree/attr.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"

enum {
	ELSEWHERE = 1,
	/* Libraries read so much of a directory at once (st_blksize): the entries of some 1,500
	 * files for one request and one read of the store. */
	DIR_BLOCK = 256 * 1024,
};

static void attr_fill(const struct tree *tree, const struct inode *inode, uint64_t size,
		      uint64_t stored, struct stat *st)
{
	const struct backend_node *node = &inode->node;
	const struct tree_options *options = &tree->options;

	*st = (struct stat){
		.st_ino = node->ino,
		.st_mode = node->mode,
		.st_nlink = node->nlink,
		.st_uid = options->set_uid ? options->uid : node->uid,
		.st_gid = options->set_gid ? options->gid : node->gid,
		.st_rdev = node->rdev,
		.st_size = (off_t)size,
		.st_blksize = 4096,
		.st_blocks = (blkcnt_t)((stored + 511) / 512),
		.st_atim = time_split(node->atime),
		.st_mtim = time_split(node->mtime),
		.st_ctim = time_split(node->ctime),
	};
	if (options->set_umask)
		st->st_mode &= ~options->umask;
	if (S_ISDIR(node->mode)) {
		st->st_size = 4096;
		st->st_blksize = DIR_BLOCK;
	}
	if (S_ISLNK(node->mode))
		st->st_size = (off_t)node->target.size;
}

static int inode_stat(struct tree *tree, struct view *view, struct inode *inode,
		      struct stat *ret_stat)
{
	uint64_t size = 0, stored;
	/* A file whose bytes cannot be read can still be seen, and removed. */
	int r = inode->apart ? 0 : content_size(tree, view, inode, &size);

	stored = size;
	if (r == 0 && (inode->node.flags & BACKEND_SPARSE))
		r = file_stored(view, inode, &stored);
	if (r == 0)
		attr_fill(tree, inode, size, stored, ret_stat);
	return r;
}

/* In a view of its own, if needed.  Mostly it is not: the size is known. */
static int inode_stat_fresh(struct tree *tree, struct inode *inode, struct stat *ret_stat)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	if ((inode_is_state(inode) && !inode_is_draft(inode) && !inode->loaded && !inode->apart) ||
	    ((inode->node.flags & BACKEND_SPARSE) && !inode->stored_known)) {
		r = inode_view_begin(tree, inode, &view);
		if (r < 0)
			return r;
	}
	return inode_stat(tree, &view, inode, ret_stat);
}

/* The size that a face shows.  *ret_own: the kernel must not cache the answer. */
static void face_size(struct inode *inode, struct face *face, struct stat *st, bool *ret_own)
{
	uint64_t size = (uint64_t)st->st_size;

	*ret_own |= face->open[FACE_WRITE] != 0;
	if (face->old) {
		size = face->old->stage.size;
		/* A thread that asks by the name must ask again. */
		*ret_own = true;
	} else if (face->own) {
		size = writing_size(face->writing, size);
	} else if (inode->bound < size) {
		/* A face does not show bytes that another face does not show yet: otherwise the
		 * name would have a size that a descriptor on the other face cannot read. */
		size = inode->bound;
		*ret_own = true;
	}
	if (size != (uint64_t)st->st_size) {
		st->st_size = (off_t)size;
		st->st_blocks = (blkcnt_t)((size + 511) / 512);
	}
}

/* Under inode.lock. */
static int stat_face(struct tree *tree, struct inode *inode, struct face *face,
		     struct stat *ret_stat, bool *ret_own)
{
	/* The kernel may have just forgotten what nobody has open, and make it anew for this
	 * answer.  A notice then has it drop the answer, and so be without a mode and an owner; if
	 * another one comes before it has asked, an open by any user but root fails with EACCES.
	 * So while somebody writes it asks each time, and is not notified. */
	const bool asks = inode_is_state(inode) && inode_is_written(inode) &&
			  !face->open[FACE_READ] && !face->open[FACE_WRITE];
	int r = inode_stat_fresh(tree, inode, ret_stat);

	*ret_own = asks;
	if (r == 0 && inode_is_state(inode))
		face_size(inode, face, ret_stat, ret_own);
	/* Of an ordinary file, too: a rename may make it a state file.  And also another answer
	 * that must not be cached: the kernel may apply it long after others have asked again. */
	if (r == 0)
		face->shown |= !asks;
	return r;
}

/* again: it is the second try of the thread. */
static int stat_once(struct tree *tree, struct inode *inode, unsigned number, pid_t pid, bool again,
		     struct stat *ret_stat, bool *ret_own, struct notes *notes)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	struct face *face = inode_face(inode, number);
	int r;

	if (inode_is_changing(tree, inode))
		return -ESTALE;
	/* With the published size the kernel would cut the writer's pages. */
	if (!again && !face_is_reached(tree, inode, face, pid))
		return ELSEWHERE;
	r = stat_face(tree, inode, face, ret_stat, ret_own);
	/* Tries of one question count once. */
	if (r < 0)
		return r;
	face_asked(inode, face, pid);
	face_unless_needed(notes, tree, inode, face);
	return 0;
}

static int stat_published_once(struct tree *tree, struct inode *inode, struct stat *ret_stat)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return inode_stat_fresh(tree, inode, ret_stat);
}

int tree_stat(struct tree *tree, struct inode *inode, struct stat *ret_stat)
{
	if (inode->window)
		return tree->views->stat(tree, inode, ret_stat);
	return TREE_RETRY(tree, stat_published_once(tree, inode, ret_stat));
}

int tree_stat_face(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
		   struct stat *ret_stat, bool *ret_own)
{
	bool again;
	int r;

	*ret_own = inode->window;
	if (inode->window)
		return tree->views->stat(tree, inode, ret_stat);
	again = again_asks(tree, pid, inode_nodeid(inode, face));
	r = TREE_RETRY_NOTING(tree, NOTIFY_LATER,
			      stat_once(tree, inode, face, pid, again, ret_stat, ret_own, &notes));
	if (r != ELSEWHERE)
		return r;
	again_add(tree, pid, FACE_ASKS, inode_nodeid(inode, face));
	return -ESTALE;
}

/* The answer to the kernel with a nodeid. */
static int show_face(struct tree *tree, struct inode *inode, struct face *face, bool brief,
		     struct shown *shown)
{
	const bool asks = face_is_fresh(face) && inode_is_state(inode) && inode_is_written(inode);
	int r = stat_face(tree, inode, face, &shown->st, &shown->own);

	/* Of a nodeid that the kernel does not know yet it can be notified of nothing, and it takes
	 * the size of this answer as right, however late: it asks again where somebody writes. */
	shown->own |= asks;
	face->shown &= !asks;
	shown->nodeid = inode_nodeid(inode, face->number);
	shown->just = false;
	shown->brief = brief;
	if (r == 0)
		face_answers(face);
	return r;
}

/* A thread that is led opens the face that it is shown now, also when others have replaced the
 * content in between, and reads as many bytes as that has now. */
static int keep_shown(struct tree *tree, struct inode *inode)
{
	const uint64_t most = MIN(content_kept_most(tree, inode), (uint64_t)CONTENT_CACHED);
	_cleanup_(view_end) struct view view = { 0 };
	int r = reader_snapshot_begin(tree, inode);

	if (r < 0 || !most)
		return r;
	r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_keep(&view, inode, most);
	return r == -ESTALE ? r : 0;
}

/* The answer to a lookup by thread pid; under inode.lock. */
static int show(struct tree *tree, struct inode *inode, pid_t pid, struct shown *shown)
{
	struct face *face;
	int r = 0;

	if (inode_is_changing(tree, inode))
		return -ESTALE;
	face = face_for_lookup(tree, inode, pid);
	if (!inode->orphaned && face_is_reserved(inode, pid))
		r = keep_shown(tree, inode);
	if (r < 0)
		return r;
	return show_face(tree, inode, face, !inode->name_kept, shown);
}

static int enter_once(struct tree *tree, struct inode *inode, unsigned number, pid_t pid,
		      struct shown *shown)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	if (number == FACE_ANY)
		return show(tree, inode, pid, shown);
	if (inode_is_changing(tree, inode))
		return -ESTALE;
	return show_face(tree, inode, face_for_number(inode, number), false, shown);
}

int inode_list(struct tree *tree, struct inode *inode, const struct view *view,
	       const struct entry_copy *entry, const struct backend_tail *tail, bool patient,
	       struct shown *shown)
{
	_cleanup_(mutex_unlockp) pthread_mutex_t *locked = NULL;

	if (!patient && pthread_mutex_trylock(&inode->lock) != 0)
		return -EBUSY;
	locked = patient ? mutex_lock(&inode->lock) : &inode->lock;
	content_take(inode, view, tail);
	if (inode->node.parent == entry->parent && inode->node.entry == entry->id)
		called_is(tree, inode, entry_name(entry));
	return show(tree, inode, NOBODY, shown);
}

int tree_enter(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
	       struct shown *ret_shown)
{
	if (inode->window)
		return tree->views->show(tree, inode, ret_shown);
	if (face == FACE_ANY) {
		wait_for_release(tree, inode, FACE_ANY);
		faces_ask(tree, inode);
	}
	return TREE_RETRY(tree, enter_once(tree, inode, face, pid, ret_shown));
}

static int created_once(struct tree *tree, struct handle *handle, struct shown *shown)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	r = show_face(tree, inode, handle->face, !inode->name_kept, shown);
	/* The kernel asks at once whether the file that it has just made may be opened.  A save
	 * shows its own bytes, and the kernel asks again after each write by it. */
	shown->just = handle->writing->mode == HANDLE_SAVE;
	if (r == 0)
		face_created(handle, (uint64_t)shown->st.st_size);
	return r;
}

int handle_show(struct tree *tree, struct handle *handle, struct shown *ret_shown)
{
	return TREE_RETRY(tree, created_once(tree, handle, ret_shown));
}

static void apply_attr(struct backend_node *node, const struct stat *st, unsigned mask)
{
	int64_t now = time_now();

	if (mask & TREE_SET_MODE)
		node->mode = (node->mode & S_IFMT) | (st->st_mode & 07777);
	if (mask & TREE_SET_UID)
		node->uid = st->st_uid;
	if (mask & TREE_SET_GID)
		node->gid = st->st_gid;
	if (mask & TREE_SET_ATIME)
		node->atime = time_join(st->st_atim);
	if (mask & TREE_SET_MTIME)
		node->mtime = time_join(st->st_mtim);
	if (mask & TREE_SET_ATIME_NOW)
		node->atime = now;
	if (mask & TREE_SET_MTIME_NOW)
		node->mtime = now;
	node->ctime = mask & TREE_SET_CTIME ? time_join(st->st_ctim) : now;
}

/* What apply_attr() sets. */
static unsigned fields_of(unsigned mask)
{
	return BACKEND_CTIME | (mask & TREE_SET_MODE ? BACKEND_MODE : 0U) |
	       (mask & TREE_SET_UID ? BACKEND_UID : 0U) | (mask & TREE_SET_GID ? BACKEND_GID : 0U) |
	       (mask & (TREE_SET_ATIME | TREE_SET_ATIME_NOW) ? BACKEND_ATIME : 0U) |
	       (mask & (TREE_SET_MTIME | TREE_SET_MTIME_NOW) ? BACKEND_MTIME : 0U);
}

static int set_size(struct tree *tree, struct inode *inode, const struct set_attr *set,
		    struct notes *notes)
{
	uint64_t before = file_size(inode), size = (uint64_t)set->st->st_size;
	int r;

	if (set->handle && inode_is_state(inode))
		handle_written_by(set->handle, set->pid);
	if (inode_is_state(inode) || (set->handle && handle_is_staged(set->handle)))
		return handle_truncate(tree, inode, set->handle, size, notes);
	r = file_truncate(tree, inode, size);
	inode->saved = false;
	if (r == 0)
		notes_plain(notes, tree, inode, before, size,
			    set->handle ? set->handle->face : inode_face(inode, set->face));
	if (r == 0)
		notes_happened(notes, tree,
			       &(struct happened){ .what = EVENT_SAVE, .inode = inode });
	return r;
}

/* Content that was inherited from another file must not become visible to more users. */
static int set_owner_or_mode(struct tree *tree, struct inode *inode, const struct set_attr *set,
			     struct notes *notes)
{
	struct backend_node node = inode->node;

	apply_attr(&node, set->st, set->mask);
	return node_shows_no_more(&node, &inode->node) ? 0 : inherited_drop(tree, inode, notes);
}

static void attr_happened(struct notes *notes, struct tree *tree, struct inode *inode)
{
	notes_happened(notes, tree, &(struct happened){ .what = EVENT_ATTR, .inode = inode });
}

static int set_attr_once(struct tree *tree, struct inode *inode, const struct set_attr *set,
			 struct stat *ret_stat, bool *ret_own, struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_HANDLE_LOCK(set->handle);
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	struct face *face = inode_face(inode, set->face);
	struct handle *handle = set->handle;
	unsigned mask = set->mask;
	struct backend_node node;
	int r = 0;

	/* The kernel cuts the pages of the face: it must have no readers. */
	if ((mask & TREE_SET_SIZE) && !handle &&
	    !face_for_truncate(tree, inode, set->face, set->pid))
		return ELSEWHERE;
	if (mask & TREE_SET_SIZE)
		r = set_size(tree, inode, set, notes);
	/* An explicit time must win over the times of writes that are still to be stored. */
	if (r == 0 && (mask & ~(unsigned)TREE_SET_SIZE))
		r = file_write_back(tree, inode);
	if (r < 0)
		return r;
	if (mask & ~(unsigned)TREE_SET_SIZE)
		r = set_owner_or_mode(tree, inode, set, notes);
	if (r < 0)
		return r;
	node = inode->node;
	if (mask & ~(unsigned)TREE_SET_SIZE) {
		apply_attr(&node, set->st, mask);
		if (!inode->gone)
			batch_node_set(&batch, &node, fields_of(mask), 0);
		r = tree_commit_file(tree, inode, &batch, BACKEND_FREES);
		if (r < 0)
			return r;
		inode->node = node;
		notes_change(notes, tree, inode, CHANGE_ATTR, 0, face);
		/* With the size the kernel sets times as well. */
		if (!(mask & TREE_SET_SIZE))
			attr_happened(notes, tree, inode);
	}
	if (mask & (TREE_SET_MTIME | TREE_SET_MTIME_NOW))
		handles_times_set(inode);
	return stat_face(tree, inode, face, ret_stat, ret_own);
}

int tree_set_attr(struct tree *tree, struct inode *inode, const struct set_attr *asked,
		  struct stat *ret_stat, bool *ret_own)
{
	struct set_attr joined = *asked, *set = &joined;
	struct handle *handle = NULL;
	struct notes notes = { 0 };
	int r = 0;

	if (tree->options.read_only)
		return -EROFS;
	if (inode->window)
		return tree->views->set_attr(tree, inode, asked, ret_stat, ret_own);
	/* truncate(2) of /proc/self/fd is ftruncate(2) by the writer there. */
	if ((set->mask & TREE_SET_SIZE) && !set->handle)
		r = handle_join(tree, inode, set->face, set->pid, &handle);
	if (r < 0)
		return r;
	if (handle)
		joined.handle = handle;
	r = TREE_RETRY(tree, set_attr_once(tree, inode, set, ret_stat, ret_own, &notes));
	if (handle)
		handle_leave(tree, handle);
	notes_send(&notes, tree, NOTIFY_CONTENT);
	if (r == ELSEWHERE) {
		again_add(tree, set->pid, FACE_WRITE, inode_nodeid(inode, set->face));
		return -ESTALE;
	}
	again_end(tree, set->pid);
	return r;
}

static int drop_setuid_once(struct tree *tree, struct inode *inode, tree_group_fn *in_group,
			    void *arg, struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	struct backend_node node = inode->node;
	int r;

	node.mode &= ~(mode_t)S_ISUID;
	/* Without the group's right to execute it is not a program, but only a member of the group
	 * could set this bit. */
	if ((node.mode & S_ISGID) && ((node.mode & S_IXGRP) || !in_group(arg, node.gid)))
		node.mode &= ~(mode_t)S_ISGID;
	if (!S_ISREG(node.mode) || node.mode == inode->node.mode)
		return 0;
	node.ctime = time_now();
	if (!inode->gone) {
		/* The new mode is made of the old one. */
		batch_guard(&batch, node.ino, true);
		batch_node_set(&batch, &node, BACKEND_MODE | BACKEND_CTIME, 0);
	}
	r = tree_commit_file(tree, inode, &batch, BACKEND_FREES);
	if (r < 0)
		return r;
	inode->node = node;
	notes_change(notes, tree, inode, CHANGE_ATTR, 0, NULL);
	attr_happened(notes, tree, inode);
	return 1;
}

int tree_drop_setuid(struct tree *tree, struct inode *inode, tree_group_fn *in_group, void *arg)
{
	int r;

	if (tree->options.read_only)
		return -EROFS;
	inode = inode_shown(inode);
	r = TREE_RETRY_NOTING(tree, NOTIFY_CONTENT,
			      drop_setuid_once(tree, inode, in_group, arg, &notes));
	/* With one face the kernel is not notified of attributes that it has changed itself; but it
	 * does not know of this change. */
	if (r > 0)
		notify_attr(tree, inode, 0);
	return MIN(r, 0);
}

/* A session with a quota looks like a filesystem of that size. */
static int bound_space(struct tree *tree, struct inode *inode, struct backend_space *space)
{
	uint64_t limit, used;
	WITH_READ_LOCK(tree);
	int r;

	inode = inode_shown(inode);
	r = quota_stat(tree, inode_is_dir(inode) ? inode->ino : quota_dir(inode), false, &limit,
		       &used);
	if (r < 0 || !limit)
		return r == -ENODATA ? 0 : r;
	space->total = limit;
	space->free = MIN(space->free, limit > used ? limit - used : 0);
	return 0;
}

int tree_statfs(struct tree *tree, struct inode *inode, struct statvfs *ret_statvfs)
{
	struct backend_space space;
	int r = tree->backend->ops->space(tree->backend, &space);

	if (r == 0 && inode && quota_on(tree))
		r = TREE_RETRY(tree, bound_space(tree, inode, &space));

	if (r < 0)
		return r;
	*ret_statvfs = (struct statvfs){
		.f_bsize = 4096,
		.f_frsize = 4096,
		.f_blocks = space.total / 4096,
		.f_bfree = space.free / 4096,
		.f_bavail = space.free / 4096,
		/* Files are rows: as many as there is room for. */
		.f_files = space.total / 512,
		.f_ffree = space.free / 512,
		.f_favail = space.free / 512,
		.f_namemax = NAME_MAX,
	};
	return 0;
}
