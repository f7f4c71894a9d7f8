/* SPDX-License-Identifier: MIT */

/*
 * Telling the kernel
 *
 *   Whatever changes behind the kernel's back is told to it: names, attributes, pages.  What is to
 *   be told is noted while the locks are held and told when they are free, since the kernel may
 *   wait for a page that only another request of ours can fill.
 *
 *   A file that grew has pages in the kernel whose last one ends, filled up with zeros, at the old
 *   size.  Nobody may see the new size as long as it is there.  So, for each face that readers
 *   have:
 *
 *     1. with the commit, under the same lock: the face shows the old size for now (face.bound);
 *     2. the kernel forgets the pages from the old end on, which waits for reads under way;
 *     3. the bound is lifted;
 *     4. the last byte is stored into the kernel's cache.  That sets the kernel's idea of the size,
 *        which an answer to GETATTR may fail to do: the kernel drops its size when anything else
 *        was told about the file meanwhile.
 *
 *   The write is answered after that.  Changes of one file are told in the order of their commits:
 *   each has a number (inode.changes), and who tells one waits until those before it are told.  A
 *   thread that waits for its turn holds no lock, and the numbers are given in the order in which a
 *   thread will tell, so two threads never wait for each other.
 *
 *   An answer with attributes is taken in by who asked, which may be long after others have asked
 *   again: then it sets the size back, and the later answer is dropped.  The kernel refuses what
 *   was asked for before it was told anything; so it is told that the attributes have changed when
 *   somebody begins to read a face that has changed since it was read last (face.changed), before
 *   the open is answered.
 *
 *   A file that was replaced has old faces (face.h), of which nothing is told, and faces that
 *   nobody has open: these forget all their pages, and no reader gets one before that was told
 *   (face.untold).
 *
 *   A number that the kernel does not hold needs nothing, unless the answer that tells of it is
 *   still to be taken in, with the attributes from before.  So it is told once more a second later
 *   (struct missed).
 *
 *   A caller that serves a request tells by itself (now), so that all is known when the request is
 *   answered.  Half of the threads at most do that, the others are left to serve the reads that the
 *   kernel may wait for; what they do not tell, and what is told for others, is the teller's: a
 *   thread that does nothing else.  Names are always the teller's unless the request is one that
 *   the kernel sends without holding the directory (write, flush, fsync, setattr, unlocking).  A
 *   write through the page cache holds a page of the file, so what it changes is the teller's, too.
 */

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fs/model/face.h"
#include "src/base/log.h"

/* What one face is to be told. */
struct told_face {
	unsigned number;
	bool pages; /* forget pages from offset on, and attributes; otherwise attributes only */
	int64_t offset;
	bool attr;  /* all attributes, not only those that move with the content */
	bool grown; /* then store the last byte */
	bool untold;
	bool renew;
};

struct telling {
	struct inode *inode; /* counted */
	uint64_t change;     /* its number */
	uint64_t size;	     /* when it was noted */
	char last;	     /* byte, if the file grew */
	size_t count;
	struct told_face face[];
};

struct missed {
	struct missed *next;
	uint64_t nodeid;
	int64_t at; /* time of the notice */
};

enum { MISSED_NANOSECONDS = 1000000000 };

struct tell_job {
	struct tell_job *next;
	struct notes notes;
	tree_told_fn *then; /* instead: what was to follow the jobs before it */
	void *owner;
	_Alignas(max_align_t) char arg[];
};

/* Notes. */

static struct note *notes_add(struct notes *notes)
{
	if (notes->count == notes->room) {
		size_t room = notes->room ? notes->room * 2 : 8;
		struct note *note = reallocarray(notes->note, room, sizeof(*note));

		if (!note)
			return NULL;
		notes->note = note;
		notes->room = room;
	}
	notes->note[notes->count] = (struct note){ 0 };
	return &notes->note[notes->count++];
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

void notes_own_entry(struct notes *notes, struct tree *tree, const struct inode *inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	int r;

	if (!inode->node.entry)
		return;
	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0)
		r = view.backend->ops->entry_name(view.backend, view.snapshot, inode->node.parent,
						  inode->node.entry, &name);
	if (r == 0)
		notes_entry(notes, inode->node.parent, buf_bytes(&name));
}

static struct telling *telling_new(struct notes *notes, struct tree *tree, struct inode *inode)
{
	struct telling *telling =
		calloc(1, sizeof(*telling) + inode->face_count * sizeof(telling->face[0]));
	struct note *note = telling ? notes_add(notes) : NULL;

	if (!note) {
		free(telling);
		log_error("out of memory: the kernel may show old bytes of inode %llu",
			  (unsigned long long)inode->ino);
		return NULL;
	}
	note->telling = telling;
	telling->inode = inode_ref(tree, inode);
	telling->change = ++inode->changes;
	return telling;
}

/* The last byte of a file that has grown. */
static void telling_end(struct telling *telling, struct tree *tree, struct inode *inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(buf_done) struct buf last = { 0 };
	uint64_t size = 0;

	if (inode->node.kind == BACKEND_LIST && inode->loaded && !inode->list.tail_size) {
		telling->size = inode->list.size;
		telling->last = '\n';
		return;
	}
	if (view_begin(tree, BACKEND_ANYWAY, &view) < 0 ||
	    content_size(tree, &view, inode, &size) < 0 || !size ||
	    content_read(tree, &view, inode, NULL, size - 1, 1, &last) < 0 || !last.size)
		return;
	telling->size = size;
	telling->last = last.data[0];
}

static bool face_is_concerned(const struct inode *inode, const struct face *face,
			      enum change change)
{
	return !face->old && (face->shown || (change != CHANGE_ATTR && face->filled) ||
			      (change == CHANGE_GREW && face_is_read(inode, face)));
}

static void telling_add(struct telling *telling, struct face *face, enum change change,
			uint64_t size_before)
{
	const struct inode *inode = telling->inode;
	struct told_face *told = &telling->face[telling->count++];

	*told = (struct told_face){ .number = face->number };
	face->shown = false;
	told->attr = change == CHANGE_ATTR;
	/* Whatever is told, the kernel drops the size that it is just being answered. */
	told->grown = face_is_read(inode, face);
	if (change == CHANGE_ATTR)
		return;
	told->pages = face->filled;
	if (told->grown) {
		told->offset = change == CHANGE_GREW ? (int64_t)size_before : 0;
		/* The byte that is stored is a page. */
		face->filled = true;
		face->bound = MIN(face->bound, size_before);
	}
	/* Who comes now would be shown the bound of other bytes. */
	told->untold = !told->grown || change == CHANGE_REPLACED;
	face->untold += told->untold;
	if (told->grown)
		return;
	/* Nobody reads it now: it begins anew when somebody does. */
	face->filled = false;
}

void notes_change(struct notes *notes, struct tree *tree, struct inode *inode, enum change change,
		  uint64_t size_before, const struct face *by)
{
	struct telling *telling = NULL;
	bool grown = false;

	/* The kernel knows what it did through the only one. */
	if (change == CHANGE_ATTR && inode->face_count == 1)
		return;
	for (struct face *face = &inode->face; face; face = face->next) {
		face->changed |= change != CHANGE_ATTR;
		/* By itself it forgets pages only where it believes that the file ended; but what
		 * it writes to an ordinary file is in its pages, which it holds meanwhile. */
		if ((face == by && (!face->filled || !inode_is_state(inode))) ||
		    !face_is_concerned(inode, face, change))
			continue;
		if (!telling)
			telling = telling_new(notes, tree, inode);
		if (!telling)
			return;
		telling_add(telling, face, change, size_before);
		grown |= telling->face[telling->count - 1].grown;
	}
	if (grown)
		telling_end(telling, tree, inode);
}

void notes_renew(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face)
{
	struct telling *telling = face->renewing ? NULL : telling_new(notes, tree, inode);

	if (!telling)
		return;
	face->renewing = true;
	telling->face[telling->count++] = (struct told_face){
		.number = face->number,
		.pages = true,
		.grown = face->open[FACE_READ] != 0,
		.renew = true,
	};
	face->shown = false;
	if (face->open[FACE_READ])
		telling_end(telling, tree, inode);
}

void notes_forget(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face)
{
	struct telling *telling = telling_new(notes, tree, inode);

	if (!telling)
		return;
	telling->face[telling->count++] = (struct told_face){
		.number = face->number,
		.pages = true,
		.untold = true,
	};
	face->untold++;
	face->filled = face->shown = false;
}

/* Telling. */

static void tell_forget(struct tree *tree, const struct tree_watcher *watcher, uint64_t nodeid,
			int64_t offset)
{
	struct missed *missed;

	if (!watcher->forget || watcher->forget(watcher->arg, nodeid, offset))
		return;
	missed = malloc(sizeof(*missed));
	if (!missed)
		return;
	missed->nodeid = nodeid;
	missed->at = time_now();
	pthread_mutex_lock(&tree->tell_lock);
	missed->next = tree->missed;
	tree->missed = missed;
	pthread_mutex_unlock(&tree->tell_lock);
}

/* Under tell_lock. */
static bool note_has_turn(const struct note *note)
{
	const struct telling *telling = note->telling;

	return !telling || telling->inode->changes_told + 1 == telling->change;
}

static void tell_turn(struct tree *tree, const struct telling *telling)
{
	pthread_mutex_lock(&tree->tell_lock);
	while (telling->inode->changes_told + 1 != telling->change)
		pthread_cond_wait(&tree->tell_changed, &tree->tell_lock);
	pthread_mutex_unlock(&tree->tell_lock);
}

static void tell_turn_end(struct tree *tree, const struct telling *telling)
{
	pthread_mutex_lock(&tree->tell_lock);
	telling->inode->changes_told = telling->change;
	pthread_cond_broadcast(&tree->tell_changed);
	pthread_mutex_unlock(&tree->tell_lock);
}

/* The kernel has forgotten what it had: it may see what there is. */
static void tell_settle(struct tree *tree, const struct telling *telling)
{
	struct inode *inode = telling->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	for (size_t i = 0; i < telling->count; i++) {
		const struct told_face *told = &telling->face[i];
		struct face *face = inode_face(inode, told->number);

		if (told->untold)
			face->untold--;
		if (told->renew)
			face_renew(tree, face);
		else if (told->grown)
			face->bound =
				inode->changes == telling->change ? UINT64_MAX : telling->size;
	}
}

static void tell_change(struct tree *tree, const struct tree_watcher *watcher,
			const struct telling *telling)
{
	tell_turn(tree, telling);
	for (size_t i = 0; i < telling->count; i++) {
		const struct told_face *told = &telling->face[i];

		/* Storing a byte tells that size and times have changed, too. */
		if (told->pages || told->attr || !told->grown)
			tell_forget(tree, watcher, inode_nodeid(telling->inode, told->number),
				    told->pages ? told->offset : -1);
	}
	tell_settle(tree, telling);
	for (size_t i = 0; i < telling->count; i++) {
		const struct told_face *told = &telling->face[i];

		if (watcher->grown && told->grown && telling->size)
			watcher->grown(watcher->arg, inode_nodeid(telling->inode, told->number),
				       telling->size, telling->last);
	}
	tell_turn_end(tree, telling);
}

static void tell_note(struct tree *tree, const struct tree_watcher *watcher, struct note *note)
{
	if (note->telling) {
		tell_change(tree, watcher, note->telling);
		inode_forget(tree, note->telling->inode, 1);
		free(note->telling);
	} else if (note->is_entry && watcher->entry) {
		watcher->entry(watcher->arg, note->number, bytes_make(note->name, note->name_size));
	} else if (!note->is_entry) {
		tell_forget(tree, watcher, note->number, note->offset);
	}
	free(note->name);
}

/* Under tell_lock, which it drops meanwhile: tell the next notes; with wait all of them, otherwise
 * those whose turn it is. */
static void tell_notes(struct tree *tree, struct notes *notes, bool wait)
{
	struct tree_watcher watcher = tree->watcher;

	while (notes->told < notes->count && (wait || note_has_turn(&notes->note[notes->told]))) {
		pthread_mutex_unlock(&tree->tell_lock);
		tell_note(tree, &watcher, &notes->note[notes->told++]);
		pthread_mutex_lock(&tree->tell_lock);
	}
	if (notes->told < notes->count)
		return;
	free(notes->note);
	*notes = (struct notes){ 0 };
}

/* Under tell_lock. */
static void tell_ends(struct tree *tree)
{
	tree->telling--;
	pthread_cond_broadcast(&tree->tell_changed);
}

void tell_attr(struct tree *tree, const struct inode *inode, unsigned face)
{
	struct tree_watcher watcher;

	pthread_mutex_lock(&tree->tell_lock);
	watcher = tree->watcher;
	tree->telling++;
	pthread_mutex_unlock(&tree->tell_lock);
	if (watcher.forget)
		watcher.forget(watcher.arg, inode_nodeid(inode, face), -1);
	pthread_mutex_lock(&tree->tell_lock);
	tell_ends(tree);
	pthread_mutex_unlock(&tree->tell_lock);
}

/* Under tell_lock: those that were missed before a time, which are the last of the list. */
static struct missed *missed_take(struct tree *tree, int64_t before)
{
	struct missed **link = &tree->missed, *taken;

	while (*link && (*link)->at > before)
		link = &(*link)->next;
	taken = *link;
	*link = NULL;
	return taken;
}

void tell_missed(struct tree *tree)
{
	struct tree_watcher watcher;
	struct missed *missed, *next;

	pthread_mutex_lock(&tree->tell_lock);
	watcher = tree->watcher;
	missed = missed_take(tree, tree->stopping ? INT64_MAX : time_now() - MISSED_NANOSECONDS);
	tree->telling += missed != NULL;
	pthread_mutex_unlock(&tree->tell_lock);
	if (!missed)
		return;
	for (; missed; missed = next) {
		next = missed->next;
		if (watcher.forget)
			watcher.forget(watcher.arg, missed->nodeid, -1);
		free(missed);
	}
	pthread_mutex_lock(&tree->tell_lock);
	tell_ends(tree);
	pthread_mutex_unlock(&tree->tell_lock);
}

static void job_add(struct tree *tree, struct tell_job *job)
{
	job->next = NULL;
	*tree->jobs_end = job;
	tree->jobs_end = &job->next;
	pthread_cond_broadcast(&tree->tell_changed);
}

void notes_tell(struct notes *notes, struct tree *tree, bool now)
{
	struct tell_job *job = NULL;

	if (!notes->count)
		return;
	pthread_mutex_lock(&tree->tell_lock);
	if (!tree->teller_stops && (!now || tree->telling >= tree->watcher.at_once))
		job = calloc(1, sizeof(*job));
	if (job) {
		job->notes = *notes;
		*notes = (struct notes){ 0 };
		job_add(tree, job);
	} else {
		tree->telling++;
		tell_notes(tree, notes, true);
		tell_ends(tree);
	}
	pthread_mutex_unlock(&tree->tell_lock);
}

static bool job_has_turn(const struct tell_job *job, bool first)
{
	return job->then ? first : note_has_turn(&job->notes.note[job->notes.told]);
}

/* The first job whose turn it is.  Jobs come into the list later than their changes got their
 * numbers, so it need not be the first one. */
static struct tell_job *job_take(struct tree *tree)
{
	struct tell_job **link = &tree->jobs, *job;

	while (*link && !job_has_turn(*link, link == &tree->jobs))
		link = &(*link)->next;
	job = *link;
	if (!job)
		return NULL;
	*link = job->next;
	if (!*link)
		tree->jobs_end = link;
	return job;
}

static void job_put_back(struct tree *tree, struct tell_job *job)
{
	job->next = tree->jobs;
	tree->jobs = job;
	if (!job->next)
		tree->jobs_end = &job->next;
}

/* Under tell_lock, which it drops meanwhile. */
static void job_run(struct tree *tree, struct tell_job *job)
{
	if (!job->then) {
		tell_notes(tree, &job->notes, false);
		return;
	}
	pthread_mutex_unlock(&tree->tell_lock);
	job->then(job->owner, job->arg);
	pthread_mutex_lock(&tree->tell_lock);
}

void tree_when_told(struct tree *tree, tree_told_fn *function, void *owner, const void *arg,
		    size_t size)
{
	struct tell_job *job = NULL;

	pthread_mutex_lock(&tree->tell_lock);
	if (tree->jobs || tree->teller_busy)
		job = calloc(1, sizeof(*job) + size);
	if (job) {
		job->then = function;
		job->owner = owner;
		memcpy(job->arg, arg, size);
		job_add(tree, job);
	}
	pthread_mutex_unlock(&tree->tell_lock);
	/* Without memory, too: early is better than never for who waits. */
	if (!job)
		function(owner, (void *)(uintptr_t)arg);
}

void *tree_tell(void *arg)
{
	struct tree *tree = arg;

	pthread_mutex_lock(&tree->tell_lock);
	while (tree->jobs || !tree->teller_stops) {
		struct tell_job *job = job_take(tree);

		if (!job) {
			pthread_cond_wait(&tree->tell_changed, &tree->tell_lock);
			continue;
		}
		tree->teller_busy = true;
		job_run(tree, job);
		tree->teller_busy = false;
		if (job->notes.count)
			job_put_back(tree, job);
		else
			free(job);
		pthread_cond_broadcast(&tree->tell_changed);
	}
	pthread_mutex_unlock(&tree->tell_lock);
	return NULL;
}

void tree_set_watcher(struct tree *tree, const struct tree_watcher *watcher)
{
	pthread_mutex_lock(&tree->tell_lock);
	tree->watcher = *watcher;
	while (!watcher->arg && (tree->jobs || tree->teller_busy || tree->telling))
		pthread_cond_wait(&tree->tell_changed, &tree->tell_lock);
	pthread_mutex_unlock(&tree->tell_lock);
}

bool tree_is_telling(struct tree *tree)
{
	bool telling;

	pthread_mutex_lock(&tree->tell_lock);
	telling = tree->jobs || tree->teller_busy || tree->telling;
	pthread_mutex_unlock(&tree->tell_lock);
	return telling;
}
