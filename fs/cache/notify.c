/* SPDX-License-Identifier: MIT */

/*
 * Notifying the kernel
 *
 *   The kernel is notified of every change that it did not make itself: of names, attributes,
 *   pages.  Notices are collected while locks are held and sent without them, since the kernel may
 *   wait for a page that only another request of ours can fill.
 *
 *   When a file grows, the kernel's last page of it ends at the old size and is filled up with
 *   zeros.  The new size must not be seen while that page is there.  So, for each face that readers
 *   have:
 *
 *   1. with the commit, under the same lock: all faces show the old size for now (inode.bound);
 *   2. the pages from the old end on are invalidated, which waits for reads under way, and the
 *      attributes, of all faces before one shows the new size;
 *   3. the bound is lifted;
 *   4. the last byte is stored into the kernel's cache.  That sets the kernel's size, which an
 *      answer to GETATTR may fail to do: the kernel drops its size when it was notified of
 *      anything else about the file meanwhile.
 *
 *   The write is answered after that.  Notices of one file are sent in the order of the commits:
 *   each has a number (inode.changes), and a thread that sends one waits until those before it are
 *   sent.  It holds no lock meanwhile, and the numbers are given in the order in which a thread
 *   sends, so two threads never wait for each other.
 *
 *   A process may apply an answer with attributes long after others have asked again: this sets the
 *   size back, and the later answer is dropped.  The kernel refuses an answer to a request from
 *   before an invalidation; so the attributes are invalidated when a handle begins to read a face
 *   that has changed since its last reader (face.changed), before the open is answered.
 *
 *   A file that was replaced has old faces (cache.h), of which no notice is sent, and faces that
 *   are not open: all their pages are invalidated, and no reader gets one before that (face.stale).
 *
 *   A nodeid that the kernel does not have needs no notice, unless an answer with that nodeid and
 *   the attributes from before is still to be applied.  So the notice is sent once more: before the
 *   file is opened or a lock of it granted, when the kernel has the nodeid for sure, and a second
 *   later (struct missed).
 *
 *   A thread that serves a request sends the notices itself, so that the kernel has them when the
 *   request is answered.  At most half of the threads do that; the others are left for the reads
 *   that the kernel may wait for.  The rest is sent by the notifiers, two threads that do nothing
 *   else.  They send all notices of names, unless the kernel sends the request without holding the
 *   directory or the file (open, flush, unlocking), and those of a write through the page cache,
 *   which holds a page of the file.
 *
 *   A notice of a name waits for the directory, which an unlink may hold that waits for a file,
 *   which a write may hold that waits for its answer.  So names have a notifier of their own, and
 *   no answer waits for it.
 */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fs/cache/state.h"
#include "fs/cache/notice.h"
#include "backend/base/array.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

struct missed {
	struct missed *next;
	uint64_t nodeid;
	int64_t at; /* time of the notice */
};

enum { MISSED_NANOSECONDS = 1000000000 };

struct notify_job {
	struct notify_job *next;
	struct notes notes;
	tree_notified_fn *then; /* instead: a function to call after the jobs before it */
	void *owner;
	_Alignas(max_align_t) char arg[];
};

/* inode: if it has a count. */
static void notify_forget(struct tree *tree, const struct tree_watcher *watcher,
			  struct inode *inode, uint64_t nodeid, int64_t offset)
{
	struct missed *missed;

	if (!watcher->forget || watcher->forget(watcher->arg, nodeid, offset) ||
	    (inode && face_is_fresh(inode_face(inode, nodeid_face(nodeid)))))
		return;
	missed = malloc(sizeof(*missed));
	if (!missed)
		return;
	missed->nodeid = nodeid;
	missed->at = tick_now();
	pthread_mutex_lock(&tree->cache->lock);
	missed->next = tree->cache->missed;
	tree->cache->missed = missed;
	pthread_mutex_unlock(&tree->cache->lock);
	/* It may have been opened before that was known. */
	watcher->forget(watcher->arg, nodeid, offset);
}

/* Under notify_lock. */
static bool note_has_turn(const struct note *note)
{
	const struct notice *notice = note->notice;

	return !notice || notice->inode->changes_notified + 1 == notice->change;
}

/* The kernel has forgotten what it had: it may see the new content. */
static void notice_settle(struct tree *tree, struct notice *notice, struct notes *names)
{
	struct inode *inode = notice->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	for (size_t i = 0; i < notice->count; i++) {
		struct notice_face *of_face = &notice->face[i];
		struct face *face = inode_face(inode, of_face->number);

		if (of_face->stale)
			face->stale--;
		if (of_face->renew && face_is_needed(inode, face)) {
			face->renewing = of_face->grown = false;
			continue;
		}
		if (of_face->renew) {
			face_renew(face);
			face_settle(names, tree, inode, face);
		}
	}
	if (inode->changes == notice->change)
		inode->bound = UINT64_MAX;
	else if (inode->bound != UINT64_MAX && notice->change > inode->replaced)
		inode->bound = MAX(inode->bound, notice->size);
}

static void notify_change(struct tree *tree, const struct tree_watcher *watcher,
			  struct notice *notice)
{
	struct notes names = { 0 };

	pthread_mutex_lock(&tree->cache->lock);
	while (notice->inode->changes_notified + 1 != notice->change)
		pthread_cond_wait(&tree->cache->changed, &tree->cache->lock);
	pthread_mutex_unlock(&tree->cache->lock);
	for (size_t i = 0; i < notice->count; i++) {
		const struct notice_face *of_face = &notice->face[i];

		notify_forget(tree, watcher, notice->inode,
			      inode_nodeid(notice->inode, of_face->number),
			      of_face->pages ? of_face->offset : -1);
	}
	notice_settle(tree, notice, &names);
	for (size_t i = 0; i < notice->count; i++) {
		const struct notice_face *of_face = &notice->face[i];

		if (watcher->grown && of_face->grown && notice->size)
			watcher->grown(watcher->arg, inode_nodeid(notice->inode, of_face->number),
				       notice->size, notice->last);
	}
	pthread_mutex_lock(&tree->cache->lock);
	notice->inode->changes_notified = notice->change;
	pthread_cond_broadcast(&tree->cache->changed);
	pthread_mutex_unlock(&tree->cache->lock);
	notes_send(&names, tree, NOTIFY_LATER);
}

static void notify_note(struct tree *tree, const struct tree_watcher *watcher, struct note *note)
{
	if (note->notice) {
		notify_change(tree, watcher, note->notice);
		inode_forget(tree, note->notice->inode, 1);
		free(note->notice);
	} else if (note->is_entry && !note->name && watcher->all_names) {
		watcher->all_names(watcher->arg);
	} else if (note->is_entry && note->name && watcher->entry) {
		watcher->entry(watcher->arg, note->number, bytes_make(note->name, note->name_size),
			       note->is_own);
	} else if (note->is_event) {
		events_show(&tree->events, note->event);
	} else if (!note->is_entry) {
		notify_forget(tree, watcher, NULL, note->number, note->offset);
	}
	free(note->name);
}

/* Under notify_lock, which is released meanwhile: send the next notes; with wait all of them,
 * otherwise those with their turn. */
static void notify_notes(struct tree *tree, struct notes *notes, bool wait)
{
	struct tree_watcher watcher = tree->cache->watcher;

	while (notes->sent < notes->count && (wait || note_has_turn(&notes->note[notes->sent]))) {
		pthread_mutex_unlock(&tree->cache->lock);
		notify_note(tree, &watcher, &notes->note[notes->sent++]);
		pthread_mutex_lock(&tree->cache->lock);
	}
	if (notes->sent < notes->count)
		return;
	free(notes->note);
	*notes = (struct notes){ 0 };
}

/* Under notify_lock. */
static void notify_ends(struct tree *tree)
{
	tree->cache->notifying--;
	pthread_cond_broadcast(&tree->cache->changed);
}

static struct tree_watcher watcher_begin(struct tree *tree)
{
	WITH_MUTEX(&tree->cache->lock);

	tree->cache->notifying++;
	return tree->cache->watcher;
}

static void watcher_end(struct tree *tree)
{
	WITH_MUTEX(&tree->cache->lock);

	notify_ends(tree);
}

void notify_attr(struct tree *tree, const struct inode *inode, unsigned face)
{
	struct tree_watcher watcher = watcher_begin(tree);

	if (watcher.forget)
		watcher.forget(watcher.arg, inode_nodeid(inode, face), -1);
	watcher_end(tree);
}

bool kernel_holds(struct tree *tree, uint64_t nodeid)
{
	struct tree_watcher watcher = watcher_begin(tree);
	bool holds = !watcher.holds || watcher.holds(watcher.arg, nodeid);

	watcher_end(tree);
	return holds;
}

/* Under notify_lock: those of a file. */
static struct missed *missed_take_of(struct tree *tree, uint64_t ino)
{
	struct missed **link = &tree->cache->missed, *taken = NULL, *missed;

	while ((missed = *link)) {
		if (nodeid_ino(missed->nodeid) != ino) {
			link = &missed->next;
			continue;
		}
		*link = missed->next;
		missed->next = taken;
		taken = missed;
	}
	return taken;
}

/* Under notify_lock, which is released meanwhile.  again: the number of their file, which is
 * counted: those that are missed once more are sent later; or 0. */
static void missed_send(struct tree *tree, struct missed *missed, uint64_t again)
{
	struct tree_watcher watcher = tree->cache->watcher;
	struct missed *next;

	if (!missed)
		return;
	tree->cache->notifying++;
	pthread_mutex_unlock(&tree->cache->lock);
	for (; missed; missed = next) {
		next = missed->next;
		if (again)
			notify_forget(tree, &watcher, tree_inode(tree, again), missed->nodeid, -1);
		else if (watcher.forget)
			watcher.forget(watcher.arg, missed->nodeid, -1);
		free(missed);
	}
	pthread_mutex_lock(&tree->cache->lock);
	notify_ends(tree);
}

void notify_missed(struct tree *tree)
{
	int64_t before = tree->stopping ? INT64_MAX : tick_now() - MISSED_NANOSECONDS;
	struct missed **link;

	WITH_MUTEX(&tree->cache->lock);
	link = &tree->cache->missed;
	/* The newest come first. */
	while (*link && (*link)->at > before)
		link = &(*link)->next;
	missed_send(tree, steal_ptr(*link), 0);
}

void tree_tell_missed(struct tree *tree, uint64_t ino)
{
	WITH_MUTEX(&tree->cache->lock);

	missed_send(tree, missed_take_of(tree, ino), ino);
}

static void job_add(struct notifier *notifier, struct notify_job *job)
{
	job->next = NULL;
	*notifier->jobs_end = job;
	notifier->jobs_end = &job->next;
	pthread_cond_signal(&notifier->given);
	pthread_cond_broadcast(&notifier->tree->cache->changed);
}

/* Move the notices of names to a job; without memory they are sent with the others.  An event waits
 * for both. */
static void split_names(struct events *events, struct notes *notes, struct notes *names)
{
	size_t kept = 0;

	for (size_t i = 0; i < notes->count; i++) {
		struct note note = notes->note[i];

		if (note.is_event && names->count &&
		    ARRAY_ROOM(names->note, names->count, names->room) == 0) {
			events_hide(events, note.event);
			names->note[names->count++] = note;
		}
		if (note.is_entry && ARRAY_ROOM(names->note, names->count, names->room) == 0)
			names->note[names->count++] = note;
		else
			notes->note[kept++] = note;
	}
	notes->count = kept;
	if (!kept) {
		free(notes->note);
		*notes = (struct notes){ 0 };
	}
}

static bool has_only_events(const struct notes *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		if (!notes->note[i].is_event)
			return false;
	return true;
}

static void send_to(struct tree *tree, unsigned number, struct notes *notes, bool now)
{
	struct notify_job *job = NULL;

	if (!notes->count)
		return;
	/* Only events: wait for nothing. */
	if (has_only_events(notes)) {
		for (size_t i = 0; i < notes->count; i++)
			events_show(&tree->events, notes->note[i].event);
		free(notes->note);
		*notes = (struct notes){ 0 };
		return;
	}
	WITH_MUTEX(&tree->cache->lock);
	now = now &&
	      (!tree->cache->watcher.arg || tree->cache->notifying < tree->cache->watcher.at_once);
	if (!tree->cache->stop && !now)
		job = calloc(1, sizeof(*job));
	if (job) {
		job->notes = *notes;
		*notes = (struct notes){ 0 };
		job_add(&tree->cache->notifier[number], job);
	} else {
		tree->cache->notifying++;
		notify_notes(tree, notes, true);
		notify_ends(tree);
	}
}

void notes_send(struct notes *notes, struct tree *tree, enum notify_how how)
{
	struct notes names = { 0 };

	split_names(&tree->events, notes, &names);
	send_to(tree, NOTIFIER_NAMES, &names, how == NOTIFY_ALL);
	send_to(tree, NOTIFIER_FILES, notes, how != NOTIFY_LATER);
}

void notes_queue(struct notes *notes, struct tree *tree)
{
	struct notify_job *jobs[NOTIFIERS];
	bool whole = notes->count;

	for (size_t i = 0; i < NOTIFIERS; i++) {
		jobs[i] = notes->count ? calloc(1, sizeof(*jobs[i])) : NULL;
		whole &= jobs[i] != NULL;
	}
	pthread_mutex_lock(&tree->cache->lock);
	if (whole && !tree->cache->stop) {
		split_names(&tree->events, notes, &jobs[NOTIFIER_NAMES]->notes);
		jobs[NOTIFIER_FILES]->notes = *notes;
		*notes = (struct notes){ 0 };
		for (size_t i = 0; i < NOTIFIERS; i++) {
			if (!jobs[i]->notes.count)
				continue;
			job_add(&tree->cache->notifier[i], jobs[i]);
			jobs[i] = NULL;
		}
	}
	pthread_mutex_unlock(&tree->cache->lock);
	for (size_t i = 0; i < NOTIFIERS; i++)
		free(jobs[i]);
}

/* The first job that has its turn.  Jobs come into the list later than their changes got their
 * numbers, so it need not be the first one. */
static struct notify_job *job_take(struct notifier *notifier)
{
	struct notify_job **link = &notifier->jobs, *job;

	while ((job = *link) && !(job->then ? link == &notifier->jobs :
					      note_has_turn(&job->notes.note[job->notes.sent])))
		link = &job->next;
	if (!job)
		return NULL;
	*link = job->next;
	if (!*link)
		notifier->jobs_end = link;
	return job;
}

void tree_when_notified(struct tree *tree, tree_notified_fn *function, void *owner, const void *arg,
			size_t size)
{
	struct notifier *notifier = &tree->cache->notifier[NOTIFIER_FILES];
	struct notify_job *job = NULL;

	pthread_mutex_lock(&tree->cache->lock);
	if (notifier->jobs || notifier->busy)
		job = calloc(1, sizeof(*job) + size);
	if (job) {
		job->then = function;
		job->owner = owner;
		memcpy(job->arg, arg, size);
		job_add(notifier, job);
	}
	pthread_mutex_unlock(&tree->cache->lock);
	/* Without memory: it is better to call the function early than never. */
	if (!job)
		function(owner, (void *)(uintptr_t)arg);
}

static void *notifier_run(void *arg)
{
	struct notifier *notifier = arg;
	struct tree *tree = notifier->tree;

	pthread_mutex_lock(&tree->cache->lock);
	while (notifier->jobs || !tree->cache->stop) {
		struct notify_job *job = job_take(notifier);

		if (!job) {
			/* Without a job it need not wake for each change of a file. */
			pthread_cond_wait(notifier->jobs ? &tree->cache->changed : &notifier->given,
					  &tree->cache->lock);
			continue;
		}
		notifier->busy = true;
		if (job->then) {
			pthread_mutex_unlock(&tree->cache->lock);
			job->then(job->owner, job->arg);
			pthread_mutex_lock(&tree->cache->lock);
		} else {
			notify_notes(tree, &job->notes, false);
		}
		notifier->busy = false;
		if (job->notes.count) {
			job->next = notifier->jobs;
			notifier->jobs = job;
			if (!job->next)
				notifier->jobs_end = &job->next;
		} else {
			free(job);
		}
		pthread_cond_broadcast(&tree->cache->changed);
	}
	pthread_mutex_unlock(&tree->cache->lock);
	return NULL;
}

static void stop(struct tree *tree, size_t count)
{
	pthread_mutex_lock(&tree->cache->lock);
	tree->cache->stop = true;
	pthread_cond_broadcast(&tree->cache->changed);
	for (size_t i = 0; i < NOTIFIERS; i++)
		pthread_cond_signal(&tree->cache->notifier[i].given);
	pthread_mutex_unlock(&tree->cache->lock);
	for (size_t i = 0; i < count; i++)
		pthread_join(tree->cache->notifier[i].thread, NULL);
}

int notifiers_start(struct tree *tree)
{
	int r = 0;

	tree->cache->stop = false;
	for (size_t i = 0; r == 0 && i < NOTIFIERS; i++) {
		r = thread_start(&tree->cache->notifier[i].thread, notifier_run,
				 &tree->cache->notifier[i]);
		if (r < 0)
			stop(tree, i);
	}
	return r;
}

void notifiers_stop(struct tree *tree)
{
	stop(tree, NOTIFIERS);
}

/* Under notify_lock. */
static bool is_notifying(const struct tree *tree)
{
	bool notifying = tree->cache->notifying;

	for (size_t i = 0; i < NOTIFIERS; i++)
		notifying |= tree->cache->notifier[i].jobs || tree->cache->notifier[i].busy;
	return notifying;
}

void tree_set_watcher(struct tree *tree, const struct tree_watcher *watcher)
{
	WITH_MUTEX(&tree->cache->lock);

	tree->cache->watcher = *watcher;
	while (!watcher->arg && is_notifying(tree))
		pthread_cond_wait(&tree->cache->changed, &tree->cache->lock);
}

bool tree_is_notifying(struct tree *tree)
{
	WITH_MUTEX(&tree->cache->lock);

	return is_notifying(tree);
}
