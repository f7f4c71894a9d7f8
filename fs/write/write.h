/* SPDX-License-Identifier: MIT */
#ifndef FS_WRITE_WRITE_H
#define FS_WRITE_WRITE_H

/* The door of this room: the life of an open file, for rooms that change files in other ways. */

#include "fs/api/tree.h"
#include "fs/base/batch.h"
#include "fs/cache/cache.h"
#include "fs/events/events.h"

/* Remember that thread pid writes by a handle; its process is looked up in /proc only when another
 * thread has written before.  Under writing.lock and inode.lock. */
void handle_written_by(struct handle *handle, pid_t pid);
/* The size that the writer sees of a file with so many published bytes: with what is held back.
 * Under inode.lock. */
uint64_t writing_size(const struct writing *writing, uint64_t published);
/* Whether thread pid may have a descriptor of an open file on a writer's own face.  If not, it came
 * there by a name, before the kernel knew that the name leads elsewhere.  Under inode.lock. */
bool face_is_reached(const struct tree *tree, const struct inode *inode, const struct face *face,
		     pid_t pid);
/* Publish what writers hold back, if it is whole and they have paused for about a second at now, by
 * tick_now().  Called by the tree's own thread, without a lock. */
void handles_publish_paused(struct tree *tree, int64_t now);
/* An explicit time was set: saves under way must not change it.  Under inode.lock. */
void handles_times_set(struct inode *inode);
/* Whether a handle holds something back, perhaps of a file that was renamed since and is ordinary
 * now. */
bool handle_holds_back(const struct handle *handle);
/* The same, or it has a stage of its own (temporary.h). */
bool handle_is_staged(const struct handle *handle);
/* Set the size of a state file by a handle, as part of what that writes; or as a save of its own if
 * handle is NULL or may not write.  Under writing.lock of the handle and inode.lock; -EFBIG,
 * -ESTALE. */
int handle_truncate(struct tree *tree, struct inode *inode, struct handle *handle, uint64_t size,
		    struct notes *notes);
/* writer.c: the same for a window: remember that thread pid has opened or written; and whether
 * descriptors are left when it closes one.  Under window.lock. */
void through_opened_by(struct through *through, pid_t pid);
void through_written_by(const struct through *through, pid_t pid);
bool through_goes_on(const struct tree *tree, const struct through *through, pid_t pid);
/* Open a handle of the writer that thread pid reached by an open file (/proc/self/fd), for a
 * request during which the kernel holds the file; NULL when it reached none.  No lock is held;
 * -ESTALE as tree_open_file(). */
int handle_join(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
		struct handle **ret_handle);
/* Before a name leads to a face, or the face is opened: wait until closed handles there are
 * released.  FACE_ANY: the face that the name led to last.  No lock is held. */
void wait_for_release(struct tree *tree, struct inode *inode, unsigned face);
/* Close it again; the last one that writes publishes. */
void handle_leave(struct tree *tree, struct handle *handle);

/* temporary.c: files with a temporary name and several saves (temporary.h). */

/* Whether a rename by the thread may take something else than the file as it is. */
bool temporary_is_asked(const struct tree *tree, const struct inode *inode, pid_t pid);
/* The rename. */
struct taking {
	const struct inode *dir; /* from where */
	struct bytes name;
	bool any;		  /* there is a save to take */
	uint64_t at;		  /* tree.saves of the save that is taken */
	struct writing *away;	  /* its writing, of another file; or NULL */
	struct kept_save *saves;  /* that get the name again; owned */
	struct backend_node like; /* the mode and owner that these get */
};
void taking_done(struct taking *taking);
/* Give the file the content that the thread's rename takes, for a file of that kind; and finish
 * behind the rename.  -ENOENT: nothing whole is there.  Under tree.lock for writing. */
int temporary_take(struct tree *tree, struct inode *inode, pid_t pid, uint32_t kind,
		   struct taking *taking, struct notes *notes);
void temporary_moved(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		     struct taking *taking);
/* A save that gets a name from which its file was renamed away. */
struct away {
	struct inode *dir; /* counted */
	struct bytes name;
	pid_t process;
	int64_t mtime;
	struct stage stage;
	struct backend_node like; /* the mode and owner that it gets */
};
/* The newest save that a rename has left, without dir and name; false: there is none. */
bool taking_next(struct taking *taking, struct away *ret_away);
/* 1: what a handle has written that was just closed; its name is that of the handle. */
int temporary_come_back(struct tree *tree, struct handle *handle, struct away *ret_away);
/* The same for a writing that the thread's process still has open, when it asks for its name. */
int temporary_find(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
		   struct away *ret_away);
/* Make it the content of the file with that name; -EEXIST: that is another file.  And keep the
 * others.  No lock is held. */
int temporary_put(struct tree *tree, struct inode *inode, struct away *away);
void temporary_keep(struct tree *tree, struct inode *inode, struct taking *taking);

/* save.c */

/*
 * Where content is published: the same file, or the file that a rename makes of it.
 *
 * node is the node as it shall be: ino, kind, session, key and times are the caller's; flags, size
 * and generation are set by the plan.  same: ino already was the file of this key, so its pieces
 * and marks belong to the rows that are there.  had_chunks: ino has chunks to be dropped or
 * overwritten.
 */
struct save_target {
	struct backend_node *node;
	bool same;
	bool had_chunks;
	bool fresh; /* rows that the key has now are another file's: do not compare with them */
	struct dates dates; /* of the rows that are written */
};

/* A planned save: the difference between a stage and the store, as the view shows it.  The plan
 * sets flags, size and generation of target->node; it borrows the stage and the node until
 * save_free().  -EFBIG: a line or a document that the store cannot take. */
struct save;
int save_plan(struct tree *tree, struct view *view, const struct save_target *target,
	      struct stage *stage, struct save **ret_save);
/* Nothing that the key had before stays in its history. */
void save_forget(struct save *save);
/* All of them; save may be NULL. */
int save_emit_all(struct save *save, struct batch *batch);
void save_free(struct save *save);
static inline void save_freep(struct save **save)
{
	save_free(*save);
}
/* Commit the operations in batch and then all of the save, as one transaction; the view that it was
 * planned in has ended. */
int save_commit(struct tree *tree, struct save *save, struct batch *batch, unsigned flags);

/* A save that is planned without any lock of the tree, so that others go on while a large stage is
 * walked.  The plan holds as long as the content is what it was. */
struct save_ahead {
	struct view view;
	struct backend_node node; /* the node before planning, and then with the plan's changes */
	bool had_chunks;
	uint64_t version; /* of the inode */
	uint64_t size;	  /* bytes that it had */
	struct save *save;
};
/* Note the present content, under inode.lock. */
int save_ahead_begin(struct tree *tree, struct inode *inode, struct save_ahead *ahead);
/* Plan it with writing.lock alone: the stage must stay as it is until it is published. */
int save_ahead_plan(struct tree *tree, struct save_ahead *ahead, struct stage *stage);
void save_ahead_done(struct save_ahead *ahead);

/* Replace the content of a file by a stage, with this time of change; saver is the writer, or NULL.
 * ahead: a plan for the same stage, or NULL; it is used if nothing has changed since it was made.
 * A state file that is gone gets it too, for its handles.  Under inode.lock, or tree.lock for
 * writing. */
int save_publish(struct tree *tree, struct inode *inode, struct writing *saver, struct stage *stage,
		 int64_t mtime, struct save_ahead *ahead, struct notes *notes);
/* The same by a stage that begins with the present content: to readers that is an append. */
int save_extend(struct tree *tree, struct inode *inode, struct stage *stage, int64_t mtime,
		struct notes *notes);

#endif
