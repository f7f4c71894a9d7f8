/* SPDX-License-Identifier: MIT */

/* Saves by one temporary name (temporary.h). */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/content/content.h"
#include "fs/inode/called.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/write/handle.h"
#include "fs/write/temporary.h"
#include "backend/base/log.h"

enum { SAVES_KEPT = 8 }; /* of one file */

/* Under inode.lock, or tree.lock for writing, as all that follows. */
static bool is_temporary(const struct tree *tree, const struct inode *inode)
{
	return inode->node.kind == BACKEND_ORDINARY && S_ISREG(inode->node.mode) &&
	       inode->node.nlink == 1 && !inode->nameless &&
	       inode->node.parent != tree->root->ino && names_is_temporary(called_name(inode));
}

/* Kept saves. */

/* Keep the file's content, if it is a whole save.  Without room it is not kept. */
int temporary_meets(struct tree *tree, struct inode *inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct kept_save *save, **link = &inode->saves;
	int r;

	if (!inode->saved || !file_size(inode))
		return 0;
	save = calloc(1, sizeof(*save));
	if (!save)
		return 0;
	r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_to_stage(&view, inode, &save->stage);
	if (r < 0) {
		kept_saves_done(&save);
		if (r != -ESTALE)
			log_warning("there is no room to keep a save of inode %llu: %s",
				    (unsigned long long)inode->ino, strerror(-r));
		return r == -ESTALE ? r : 0;
	}
	save->process = inode->saver;
	save->at = inode->saved_at;
	save->next = inode->saves;
	inode->saves = save;
	for (int i = 0; *link && i < SAVES_KEPT; i++)
		link = &(*link)->next;
	kept_saves_done(link);
	return 0;
}

/* The saves of a process go, and those of processes that have ended; but stays is kept, and taken
 * goes. */
static void drop_saves(struct inode *inode, pid_t process, const struct kept_save *stays,
		       const struct kept_save *taken)
{
	struct kept_save **link = &inode->saves;

	while (*link) {
		struct kept_save *save = *link;

		if (save == stays ||
		    (save != taken && save->process != process && process_lives(save->process))) {
			link = &save->next;
			continue;
		}
		*link = steal_ptr(save->next);
		kept_saves_done(&save);
	}
}

/* The file has a whole save now; those of other processes stay kept, since they may still
 * rename. */
void temporary_replaced(struct tree *tree, struct inode *inode, pid_t process)
{
	inode->saver = process;
	inode->saved = true;
	inode->saved_at = ++tree->saves;
	drop_saves(inode, process, NULL, NULL);
}

void temporary_saved(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;

	const pid_t owner = handle->writing->owner;

	if (handle->writing->apart || !is_temporary(tree, inode))
		return;
	/* It has joined a save; or another open has emptied the file since, while this handle was
	 * closed and not released yet. */
	if (!owner || handle->writing->saved_at != inode->saved_at) {
		inode->saved |= !owner;
		return;
	}
	temporary_replaced(tree, inode, owner);
	handle->writing->saved_at = inode->saved_at;
}

/* Parting. */

/* Whether a writing handle is still open: a close may have been that of a duplicate. */
static bool is_open(const struct tree *tree, const struct handle *handle)
{
	return !handle->closed || (!handle_has_sibling(handle) && handle_is_held(tree, handle));
}

/* Give the writing a stage of its own, which begins as the file is. */
static int part(struct tree *tree, struct handle *handle)
{
	struct writing *writing = handle->writing;
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(stage_done) struct stage stage = { 0 };
	struct inode *inode = handle->inode;
	int r;

	if (writing->apart)
		return 0;
	r = file_write_back(tree, inode);
	if (r == 0)
		r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_to_stage(&view, inode, &stage);
	if (r < 0)
		return r;
	stage_done(&writing->base);
	writing->base = stage;
	stage = (struct stage){ 0 };
	writing->apart = writing->parted = true;
	writing->written = inode->node.mtime;
	writing_is_saver(tree, writing);
	writing->version = inode->version;
	return 0;
}

/* All but one. */
static int part_others(struct tree *tree, struct inode *inode, const struct writing *but)
{
	int r = 0;

	for (struct handle *handle = inode->open; r == 0 && handle; handle = handle->next)
		if (handle_writes(handle) && handle->writing != but && is_open(tree, handle))
			r = part(tree, handle);
	return r;
}

static bool is_shared(const struct tree *tree, const struct handle *handle)
{
	for (const struct handle *other = handle->inode->open; other; other = other->next)
		if (handle_writes(other) && other->writing != handle->writing &&
		    is_open(tree, other))
			return true;
	return false;
}

int temporary_open(struct tree *tree, struct handle *handle, pid_t pid)
{
	struct inode *inode = handle->inode;
	int r;

	if (!handle_writes(handle) || !(handle->flags & (O_TRUNC | O_CREAT)) ||
	    handle->writing->count > 1 || !is_temporary(tree, inode))
		return 0;
	handle_opened_by(handle, pid);
	handle->writing->owner = pid ? handle->opener : -1;
	if (!is_shared(tree, handle)) {
		r = temporary_meets(tree, inode);
		if (r < 0)
			return r;
		/* A file that it has made has bytes if another save was put there since. */
		if (file_size(inode))
			handle->flags |= O_TRUNC;
		inode->saver = handle->writing->owner;
		inode->saved = false;
		inode->saved_at = handle->writing->saved_at = ++tree->saves;
		return 0;
	}
	r = part_others(tree, inode, handle->writing);
	if (r == 0)
		r = handle_begin_save(tree, handle, false);
	if (r < 0)
		return r;
	handle->direct = handle->writing->apart = true;
	handle->writing->saved_at = ++tree->saves;
	handle_staged(tree, handle);
	return 1;
}

/* What a rename takes. */

static bool has_saves(const struct inode *inode)
{
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->writing->apart)
			return true;
	return inode->saves;
}

bool temporary_is_asked(const struct tree *tree, const struct inode *inode, pid_t pid)
{
	const pid_t process = process_number(pid);

	if (inode->node.kind != BACKEND_ORDINARY)
		return false;
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->writing->owner && handle->writing->owner != process)
			return true;
	return tree->aways || inode->opening || has_saves(inode);
}

/* The newest writing that the process has open and that was renamed away from the name.  Under
 * tree.lock for writing. */
static struct writing *find_away(struct tree *tree, const struct inode *dir, struct bytes name,
				 pid_t process)
{
	struct writing *found = NULL;

	WITH_MUTEX(&tree->times_lock);
	for (struct writing *writing = tree->savers; writing; writing = writing->saver_next)
		if (process > 0 && writing->away_dir == dir && writing->owner == process &&
		    (writing->parted || writing->dirty) && !writing->settled && !writing->refused &&
		    bytes_equal(bytes_make(writing->away_name, writing->away_size), name) &&
		    (!found || writing->saved_at > found->saved_at))
			found = writing;
	return found;
}

/* Whether others are writing the file, and the process is not known to have even an inherited
 * descriptor of it. */
static bool is_of_others(const struct tree *tree, const struct inode *inode, pid_t process)
{
	bool found = inode->opening;

	if (process <= 0 || !is_temporary(tree, inode))
		return false;
	for (const struct handle *handle = inode->open; handle; handle = handle->next) {
		if (!handle_writes(handle) || handle->writing->owner <= 0 || !is_open(tree, handle))
			continue;
		if (handle->writing->owner == process || handle_is_held_by(tree, handle, process))
			return false;
		found = true;
	}
	return found;
}

/* The file, one that was kept, or an open one. */
struct candidate {
	struct kept_save *kept;
	struct writing *open;
	pid_t process;
	bool own;
	bool whole;
	uint64_t at;
};

static bool is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->own != b->own)
		return a->own;
	if (a->whole != b->whole)
		return a->whole;
	return a->at > b->at;
}

/* What an open writing has so far. */
static struct stage *writing_bytes(struct writing *writing)
{
	return writing->parted ? &writing->base : &writing->stage;
}

/* Whether an open save may be complete: for a state, its bytes decide. */
static bool is_whole(const struct tree *tree, uint32_t kind, struct stage *stage)
{
	_cleanup_(stage_done) struct stage copy = { 0 };
	struct bytes bytes;

	return !kind_is_state(kind) ||
	       (stage->size && stage_copy(stage, &copy) == 0 && stage_map(&copy, &bytes) == 0 &&
		content_is_whole(tree, kind, bytes));
}

/* The same for the content of the file. */
static bool file_is_whole(struct tree *tree, struct inode *inode, uint32_t kind)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(stage_done) struct stage stage = { 0 };

	return inode_view_begin(tree, inode, &view) == 0 &&
	       content_to_stage(&view, inode, &stage) == 0 && is_whole(tree, kind, &stage);
}

static void choose_open(const struct tree *tree, struct writing *writing, uint32_t kind,
			struct candidate *best)
{
	const struct candidate one = {
		.open = writing,
		.process = writing->owner,
		.own = true,
		.whole = is_whole(tree, kind, writing_bytes(writing)),
		.at = writing->saved_at,
	};

	if (is_better(&one, best))
		*best = one;
}

/* away: one of another file, or NULL. */
static struct candidate choose(struct tree *tree, struct inode *inode, struct writing *away,
			       pid_t process, uint32_t kind)
{
	struct candidate best = {
		.process = inode->saver,
		.own = process && inode->saver == process,
		.whole = inode->saved && !inode->opening,
		.at = inode->saved_at,
	};

	if (best.own && !best.whole)
		best.whole = file_is_whole(tree, inode, kind);

	for (struct kept_save *save = inode->saves; save; save = save->next) {
		const struct candidate one = {
			.kept = save,
			.process = save->process,
			.own = process && save->process == process,
			.whole = true,
			.at = save->at,
		};

		if (is_better(&one, &best))
			best = one;
	}
	for (struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->writing->apart && process && handle->writing->owner == process)
			choose_open(tree, handle->writing, kind, &best);
	if (away)
		choose_open(tree, away, kind, &best);
	return best;
}

/* Put what was chosen into the file, and keep what the file had. */
static int put_candidate(struct tree *tree, struct inode *inode, const struct candidate *best,
			 struct notes *notes)
{
	_cleanup_(stage_done) struct stage stage = { 0 };
	int r = stage_copy(best->kept ? &best->kept->stage : writing_bytes(best->open), &stage);

	if (r == 0)
		r = file_write_back(tree, inode);
	if (r == 0)
		r = save_publish(tree, inode, NULL, &stage, inode->node.mtime, NULL, notes);
	if (r < 0)
		return r;
	inode->saver = best->process;
	inode->saved = true;
	inode->saved_at = best->at;
	return 0;
}

int temporary_take(struct tree *tree, struct inode *inode, pid_t pid, uint32_t kind,
		   struct taking *taking, struct notes *notes)
{
	const pid_t process = pid > 0 ? process_number(pid) : 0;
	struct writing *away = find_away(tree, taking->dir, taking->name, process);
	struct candidate best = choose(tree, inode, away, process, kind);
	const struct kept_save *stays = NULL;
	const bool replaces = best.kept || best.open;
	int r = 0;

	if (!best.own && !best.whole && is_of_others(tree, inode, process) &&
	    !file_is_whole(tree, inode, kind))
		return -ENOENT;
	if (!away && !has_saves(inode))
		return 0;
	taking->any = true;
	taking->away = best.open == away ? away : NULL;
	taking->at = best.at;
	/* A writer in place goes on in the file only if its own save moves. */
	if (replaces || !best.own)
		r = part_others(tree, inode, NULL);
	if (r == 0 && replaces && inode->saved && file_size(inode)) {
		r = temporary_meets(tree, inode);
		stays = inode->saves;
	}
	if (r == 0 && replaces)
		r = put_candidate(tree, inode, &best, notes);
	if (r < 0)
		return r;
	drop_saves(inode, process, stays, best.kept);
	return 0;
}

void temporary_moved(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		     struct taking *taking)
{
	if (!taking->any)
		return;
	if (taking->away)
		taking->away->settled = true;
	taking->saves = inode->saves;
	taking->like = inode->node;
	inode->saves = NULL;
	for (struct handle *handle = inode->open; handle; handle = handle->next) {
		struct writing *writing = handle->writing;

		if (!writing->apart || writing->away_name)
			continue;
		/* It is the save that was taken, or was that when it was synced. */
		if (writing->saved_at == taking->at) {
			writing->apart = false;
			continue;
		}
		writing->away_name = bytes_dup(name);
		if (!writing->away_name)
			continue;
		writing->away_size = name.size;
		for (struct kept_save *save = taking->saves; save; save = save->next)
			writing->settled |= save->at == writing->saved_at;
		writing->away_dir = inode_ref(tree, dir);
		tree->aways++;
	}
}

void taking_done(struct taking *taking)
{
	kept_saves_done(&taking->saves);
}

static int put_once(struct tree *tree, struct inode *inode, struct away *away, struct notes *notes)
{
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int r;

	if (!is_temporary(tree, inode))
		return -EEXIST;
	r = file_write_back(tree, inode);
	if (r == 0)
		r = part_others(tree, inode, NULL);
	if (r == 0)
		r = temporary_meets(tree, inode);
	if (r == 0)
		r = save_publish(tree, inode, NULL, &away->stage, away->mtime, NULL, notes);
	if (r == 0)
		temporary_replaced(tree, inode, away->process);
	return r;
}

int temporary_put(struct tree *tree, struct inode *inode, struct away *away)
{
	return TREE_RETRY_NOTING(tree, NOTIFY_CONTENT, put_once(tree, inode, away, &notes));
}

/* Other kept saves move to the file that has the name now. */
void temporary_keep(struct tree *tree, struct inode *inode, struct taking *taking)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	struct kept_save **link = &inode->saves;

	while (*link)
		link = &(*link)->next;
	*link = taking->saves;
	taking->saves = NULL;
}

/* The newest kept save. */
bool taking_next(struct taking *taking, struct away *ret_away)
{
	struct kept_save **newest = &taking->saves;
	struct kept_save *save;

	if (!*newest)
		return false;
	for (struct kept_save **link = newest; *link; link = &(*link)->next)
		if ((*link)->at > (*newest)->at)
			newest = link;
	save = *newest;
	*newest = save->next;
	ret_away->process = save->process;
	ret_away->stage = save->stage;
	ret_away->mtime = time_now();
	ret_away->like = taking->like;
	free(save);
	return true;
}

/* Under writing.lock and inode.lock, or tree.lock for writing. */
static int come_back(struct tree *tree, struct writing *writing, struct away *away)
{
	int r = stage_copy(writing_bytes(writing), &away->stage);

	if (r < 0)
		return r;
	writing->settled = true;
	away->dir = inode_ref(tree, writing->away_dir);
	away->name = bytes_make(writing->away_name, writing->away_size);
	away->process = writing->owner;
	away->mtime = writing->written;
	away->like = writing->inode->node;
	return 1;
}

static int come_back_once(struct tree *tree, struct handle *handle, struct away *away,
			  struct notes *notes)
{
	struct writing *writing = handle->writing;
	struct inode *inode = handle->inode;
	WITH_HANDLE_LOCK(handle);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	handle_part(tree, handle);
	if (!writing->away_name || !writing->dirty || writing->settled)
		return 0;
	if (writing->refused)
		return writing->refused;
	/* The kernel's pages of this handle do not show the file any more. */
	notes_forget(notes, tree, inode, handle->face);
	return come_back(tree, writing, away);
}

int temporary_come_back(struct tree *tree, struct handle *handle, struct away *ret_away)
{
	struct notes notes = { 0 };
	int r;

	if (handle->through || !handle->writing->away_name)
		return 0;
	r = come_back_once(tree, handle, ret_away, &notes);
	notes_send(&notes, tree, NOTIFY_LATER);
	return r;
}

int temporary_find(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
		   struct away *ret_away)
{
	const pid_t process = process_number(pid);
	WITH_WRITE_LOCK(tree);
	struct writing *writing = find_away(tree, dir, name, process);

	return writing ? come_back(tree, writing, ret_away) : 0;
}

void temporary_left(struct tree *tree, struct writing *writing)
{
	stage_done(&writing->base);
	free(writing->away_name);
	if (!writing->away_dir)
		return;
	tree->aways--;
	inode_forget(tree, writing->away_dir, 1);
}
