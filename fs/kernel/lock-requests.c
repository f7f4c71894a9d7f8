/* SPDX-License-Identifier: MIT */
#include "fs/kernel/lock-requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "fs/kernel/locks-others.h"
#include "fs/kernel/locks.h"
#include "fs/kernel/maps.h"
#include "fs/kernel/reply.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

struct lock_requests {
	pthread_mutex_t lock;
	struct locks locks;
	pthread_t thread; /* ends the waits that have a time-out */
	pthread_cond_t changed;
	bool stopping;
	struct tree *tree;
	bool pending;	/* there may be locks that other mounts do not know, as there were none */
	bool noted;	/* the store may say so: also when its answer did not come */
	uint64_t lease; /* of the mount (tree_lease()), under which all were granted */
};

enum {
	LOOK_NS = 50000000, /* whether there are other mounts now, while they were not notified */
	POLL_NS = 5000000,  /* whether they have released what is in the way */
};

/* A request for a lock, which may have to wait. */
struct lock_request {
	struct lock_wait wait; /* first: a wait is a request */
	fuse_req_t req;
	struct handle *handle;
	int error; /* error of the work before it */
};

static bool is_granted(const struct lock_wait *wait)
{
	return wait->error == 0 && wait->lock.type != F_UNLCK;
}

static void answer_one(void *owner, void *arg)
{
	struct session *session = owner;
	struct lock_request *request = *(struct lock_request **)arg;

	if (is_granted(&request->wait))
		handle_lock_granted(session->tree, request->handle);
	reply_error(request->req, request->wait.error);
	free(request);
}

/* The holder of a new lock must see what was written under it, on any mount: 1 when the kernel has
 * to be notified of that first, 0 at once, or -errno. */
static int take_in(struct session *session, const struct lock_wait *ended)
{
	int r;

	while (ended && !is_granted(ended))
		ended = ended->next;
	if (!ended || !tree_is_shared(session->tree))
		return 0;
	r = tree_take_in(session->tree);
	return r < 0 ? r : 1;
}

static struct lock_wait **end_of(struct lock_wait **list)
{
	while (*list)
		list = &(*list)->next;
	return list;
}

/* What was written under it cannot be read: release it, and grant those of others. */
static void refuse(struct session *session, struct lock_request *request, int error,
		   struct lock_wait **ret_ended)
{
	struct lock_requests *requests = session->locks;
	struct lock_wait none = request->wait;

	none.lock.type = F_UNLCK;
	pthread_mutex_lock(&requests->lock);
	locks_set(&requests->locks, &none, tick_now(), ret_ended);
	pthread_mutex_unlock(&requests->lock);
	request->wait.error = error;
}

/* Answer the requests whose wait has ended.  The handles are there: the kernel closes no file that
 * a request is about. */
static void answer(struct session *session, struct lock_wait *ended)
{
	int r = take_in(session, ended);

	while (ended) {
		struct lock_request *request = (struct lock_request *)ended;

		if (r < 0 && is_granted(ended))
			refuse(session, request, r, end_of(&ended));
		ended = ended->next;
		if (r > 0)
			tree_when_notified(session->tree, answer_one, session, &request,
					   sizeof(request));
		else
			answer_one(session, &request);
	}
}

/* Other mounts. */

/* When other mounts have ended this one, its locks are gone; what was written under them and not
 * stored fails (writing_lost_lock()). */
static void look_at_lease(struct lock_requests *requests)
{
	uint64_t lease = tree_lease(requests->tree);

	if (lease == requests->lease)
		return;
	requests->lease = lease;
	requests->pending = requests->noted = false;
	locks_lose(&requests->locks);
	pthread_cond_signal(&requests->changed);
}

/* Notify other mounts of all locks of a file, and of one more if that is granted. */
static int notify_file(struct lock_requests *requests, uint64_t ino, const struct lock *more)
{
	_cleanup_(buf_done) struct buf locks = { 0 };
	int r = locks_each(&requests->locks, ino, others_lock_add, &locks);

	if (r == 0 && more)
		r = others_lock_add(&locks, more);
	if (r == 0)
		r = tree_tell_locks(requests->tree, ino, buf_bytes(&locks), more != NULL);
	/* The lease ended before the locks were stored. */
	if (r == 0 && tree_lease(requests->tree) != requests->lease) {
		tree_tell_locks(requests->tree, ino, (struct bytes){ 0 }, false);
		r = -EAGAIN;
	}
	if (r == 0 && locks.size)
		r = locks_set_notified(&requests->locks, ino);
	return r;
}

static int notify_pending(void *arg, const struct lock *lock)
{
	struct lock_requests *requests = arg;

	return locks_notified(&requests->locks, lock->ino) ? 0 :
							     notify_file(requests, lock->ino, NULL);
}

static int is_any(void *arg, const struct lock *lock)
{
	(void)arg, (void)lock;
	return 1;
}

/* Notify of locks that were granted while there were no other mounts. */
static int notify_all(struct lock_requests *requests)
{
	int r = locks_each(&requests->locks, 0, notify_pending, requests);

	if (r == 0)
		r = tree_hold_locks(requests->tree, false);
	if (r >= 0)
		requests->pending = requests->noted = false;
	return MIN(r, 0);
}

/* First note, then look: a mount that joins counts itself before it looks, so one of the two sees
 * the other. */
static int ask_others(void *arg, const struct lock *lock)
{
	struct lock_requests *requests = arg;
	int r;

	if (lock->lease && lock->lease != requests->lease)
		return -ENOLCK;
	if (!requests->pending && !tree_is_shared(requests->tree) &&
	    !locks_notified(&requests->locks, lock->ino)) {
		r = tree_hold_locks(requests->tree, true);
		requests->noted = r != 0;
		if (r < 0)
			pthread_cond_signal(&requests->changed);
		if (r <= 0)
			return r;
		requests->pending = true;
		pthread_cond_signal(&requests->changed);
	}
	if (!tree_is_shared(requests->tree) && !locks_notified(&requests->locks, lock->ino))
		return 0;
	r = requests->noted ? notify_all(requests) : 0;
	if (r == 0)
		r = notify_file(requests, lock->ino, lock);
	if (r == -EAGAIN)
		pthread_cond_signal(&requests->changed);
	return r;
}

static void notify_others(void *arg, uint64_t ino)
{
	struct lock_requests *requests = arg;
	int r = notify_file(requests, ino, NULL);

	/* -EAGAIN: the lease has ended, and they with it. */
	if (r < 0 && r != -EAGAIN)
		log_error("cannot tell other mounts that locks of inode %llu are released (%s): "
			  "they wait until this mount ends",
			  (unsigned long long)ino, strerror(-r));
}

/* When to check other mounts again, or INT64_MAX. */
static int64_t look_at_others(struct lock_requests *requests, struct lock_wait **ret_ended)
{
	int64_t next = INT64_MAX;

	*ret_ended = NULL;
	look_at_lease(requests);
	if (requests->noted && tree_is_shared(requests->tree))
		notify_all(requests);
	else if (requests->noted && locks_each(&requests->locks, 0, is_any, NULL) == 0)
		notify_all(requests);
	if (requests->noted)
		next = tick_now() + LOOK_NS;
	if (locks_poll(&requests->locks, ret_ended))
		next = tick_now() + POLL_NS;
	return next;
}

static void *expire_run(void *arg)
{
	struct session *session = arg;
	struct lock_requests *requests = session->locks;

	pthread_mutex_lock(&requests->lock);
	while (!requests->stopping) {
		struct lock_wait *ended, *granted;
		int64_t look = look_at_others(requests, &granted);
		int64_t next = locks_expire(&requests->locks, tick_now(), &ended);

		next = MIN(next, look);
		*end_of(&granted) = ended;
		if (granted) {
			pthread_mutex_unlock(&requests->lock);
			answer(session, granted);
			pthread_mutex_lock(&requests->lock);
		} else if (next == INT64_MAX) {
			pthread_cond_wait(&requests->changed, &requests->lock);
		} else {
			tick_cond_wait(&requests->changed, &requests->lock, next);
		}
	}
	pthread_mutex_unlock(&requests->lock);
	return NULL;
}

int lock_request_map(struct session *session, const struct open_file *file)
{
	struct lock_requests *requests = session->locks;

	WITH_MUTEX(&requests->lock);
	look_at_lease(requests);
	return locks_map(&requests->locks, inode_number(handle_inode(file->handle)), file->id);
}

int lock_requests_start(struct session *session)
{
	struct lock_requests *requests = calloc(1, sizeof(*requests));
	int r;

	if (!requests)
		return -ENOMEM;
	locks_init(&requests->locks);
	requests->tree = session->tree;
	requests->lease = tree_lease(session->tree);
	requests->locks.ask = ask_others;
	requests->locks.changed = notify_others;
	requests->locks.arg = requests;
	pthread_mutex_init(&requests->lock, NULL);
	tick_cond_init(&requests->changed);
	session->locks = requests;
	r = thread_start(&requests->thread, expire_run, session);
	if (r < 0) {
		session->locks = NULL;
		free(requests);
	}
	return r;
}

void lock_requests_stop(struct session *session)
{
	struct lock_requests *requests = session->locks;
	struct lock_wait *ended;

	if (!requests)
		return;
	pthread_mutex_lock(&requests->lock);
	requests->stopping = true;
	locks_end(&requests->locks, -ENOTCONN, &ended);
	pthread_cond_signal(&requests->changed);
	pthread_mutex_unlock(&requests->lock);
	answer(session, ended);
	pthread_join(requests->thread, NULL);
	locks_done(&requests->locks);
	pthread_cond_destroy(&requests->changed);
	pthread_mutex_destroy(&requests->lock);
	free(requests);
	session->locks = NULL;
}

/* The waiting process has got a signal.  It may come before the request waits: see below. */
static void interrupted(fuse_req_t req, void *arg)
{
	struct session *session = arg;
	struct lock_wait *wait;

	pthread_mutex_lock(&session->locks->lock);
	wait = locks_cancel(&session->locks->locks, req);
	pthread_mutex_unlock(&session->locks->lock);
	if (!wait)
		return;
	wait->error = -EINTR;
	answer(session, wait);
}

/* With the mutex held: a signal that came before the request waited found nothing to end; and a
 * mapping on another mount is not released soon. */
static int set_unless_interrupted(struct lock_requests *requests, struct lock_request *request,
				  struct lock_wait **ret_ended)
{
	const struct lock *lock = &request->wait.lock;
	int r = locks_set(&requests->locks, &request->wait, tick_now(), ret_ended);

	if (r > 0 && fuse_req_interrupted(request->req)) {
		locks_cancel(&requests->locks, request->req);
		return -EINTR;
	}
	if (r > 0 && request->wait.others && others_map(requests->tree, lock->ino) > 0) {
		locks_cancel(&requests->locks, request->req);
		maps_warn(request_session(request->req), lock->ino);
		return -ENOLCK;
	}
	if (r > 0 && (!request->wait.sleeps || request->wait.others))
		pthread_cond_signal(&requests->changed);
	return r;
}

/* Take, change or release a lock, and answer or leave it waiting. */
static void request_set(void *owner, void *arg)
{
	struct session *session = owner;
	struct lock_requests *requests = session->locks;
	struct lock_request *request = *(struct lock_request **)arg;
	struct lock_wait *ended;
	const bool gives = request->wait.lock.type == F_UNLCK;
	bool over;
	int r;

	if (request->wait.lock.type != F_UNLCK)
		fuse_req_interrupt_func(request->req, interrupted, session);
	pthread_mutex_lock(&requests->lock);
	look_at_lease(requests);
	r = set_unless_interrupted(requests, request, &ended);
	over = gives && !locks_any(&requests->locks, request->wait.lock.ino);
	pthread_mutex_unlock(&requests->lock);
	if (over)
		handle_locks_over(session->tree, request->handle);
	answer(session, ended);
	if (r > 0)
		return;
	/* The lock is released in any case; the answer has the error of publishing. */
	request->wait.error = r < 0 ? r : request->error;
	request->wait.next = NULL;
	answer(session, &request->wait);
}

static struct lock_request *request_new(fuse_req_t req, struct open_file *file)
{
	struct lock_request *request = calloc(1, sizeof(*request));

	if (!request)
		return NULL;
	inode_set_locked(handle_inode(file->handle));
	request->req = req;
	request->handle = file->handle;
	request->wait.who = req;
	request->wait.lock = (struct lock){
		.ino = inode_number(handle_inode(file->handle)),
		.file = file->id,
		.silent = !file->flushes,
		.maps = file->by_name == TREE_MEMORY,
		/* After its end the program may rely on what it has read before. */
		.lease = file->lease ? file->lease : handle_lock_lease(file->handle),
	};
	return request;
}

/* Releasing a lock, or letting others read, means that the writing under it is complete. */
static void request_start(struct lock_request *request)
{
	struct session *session = request_session(request->req);
	struct lock_requests *requests = session->locks;
	bool gives_up;

	pthread_mutex_lock(&requests->lock);
	gives_up = locks_gives_up(&requests->locks, &request->wait.lock);
	pthread_mutex_unlock(&requests->lock);
	if (!gives_up) {
		request_set(session, &request);
		return;
	}
	request->error = handle_unlocking(session->tree, request->handle);
	tree_when_notified(session->tree, request_set, session, &request, sizeof(request));
}

static bool range_set(struct lock *lock, uint64_t owner, const struct flock *range)
{
	if (range->l_start < 0 || range->l_len < 0 || range->l_len > INT64_MAX - range->l_start)
		return false;
	lock->type = range->l_type;
	lock->owner = owner;
	lock->start = (uint64_t)range->l_start;
	lock->end = range->l_len ? (uint64_t)(range->l_start + range->l_len - 1) : INT64_MAX;
	lock->pid = range->l_pid;
	return lock->type == F_RDLCK || lock->type == F_WRLCK || lock->type == F_UNLCK;
}

void lock_request_test(fuse_req_t req, struct open_file *file, uint64_t owner,
		       const struct flock *range)
{
	struct lock_requests *requests = request_session(req)->locks;
	struct lock lock = { .ino = inode_number(handle_inode(file->handle)) };
	struct flock found = { .l_type = F_UNLCK };
	struct lock held;
	bool granted;

	if (!range_set(&lock, owner, range)) {
		reply_error(req, -EINVAL);
		return;
	}
	pthread_mutex_lock(&requests->lock);
	look_at_lease(requests);
	granted = locks_test(&requests->locks, &lock, &held);
	pthread_mutex_unlock(&requests->lock);
	if (granted && lock.type != F_UNLCK)
		granted = !others_lock_find(request_session(req)->tree, &lock, &held);
	if (!granted && others_map(request_session(req)->tree, lock.ino) > 0) {
		maps_warn(request_session(req), lock.ino);
		reply_error(req, -ENOLCK);
		return;
	}
	if (!granted) {
		found.l_type = held.type;
		found.l_whence = SEEK_SET;
		found.l_start = (off_t)held.start;
		found.l_len = held.end == INT64_MAX ? 0 : (off_t)(held.end - held.start + 1);
		found.l_pid = held.pid;
	}
	reply_lock(req, &found);
}

void lock_request_range(fuse_req_t req, struct open_file *file, uint64_t owner,
			const struct flock *range, bool sleeps)
{
	struct lock_request *request = request_new(req, file);

	if (!request || !range_set(&request->wait.lock, owner, range)) {
		reply_error(req, request ? -EINVAL : -ENOLCK);
		free(request);
		return;
	}
	request->wait.sleeps = sleeps;
	request_start(request);
}

void lock_request_whole(fuse_req_t req, struct open_file *file, int operation)
{
	const int wanted = operation & ~LOCK_NB;
	struct lock_request *request = request_new(req, file);

	if (!request || (wanted != LOCK_SH && wanted != LOCK_EX && wanted != LOCK_UN)) {
		reply_error(req, request ? -EINVAL : -ENOLCK);
		free(request);
		return;
	}
	request->wait.lock.whole = true;
	request->wait.lock.type = wanted == LOCK_SH ? F_RDLCK :
				  wanted == LOCK_EX ? F_WRLCK :
						      F_UNLCK;
	request->wait.sleeps = !(operation & LOCK_NB);
	request_start(request);
}

/* Releasing at a close: what was written is published by then. */
struct lock_close {
	fuse_req_t req;
	int error;
	uint64_t ino;
	uint64_t file;
	bool flush;
	uint64_t owner;
	struct handle *handle; /* to be freed behind that, or NULL */
};

static void close_now(void *owner, void *arg)
{
	struct session *session = owner;
	struct lock_requests *requests = session->locks;
	const struct lock_close *close = arg;
	struct lock_wait *ended;

	pthread_mutex_lock(&requests->lock);
	if (close->flush) {
		locks_flush(&requests->locks, close->ino, close->file, close->owner, tick_now(),
			    &ended);
	} else {
		/* The right to map goes to another open file that may be mapped, since the kernel
		 * writes pages by any of them. */
		struct locks *locks = &session->locks->locks;
		uint64_t next = locks_maps(locks, close->ino, close->file) ?
					maps_file_left(session, close->ino) :
					0;

		if (next)
			(void)locks_map(locks, close->ino, next);
		locks_release(&requests->locks, close->ino, close->file, &ended);
	}
	pthread_mutex_unlock(&requests->lock);
	answer(session, ended);
	reply_error(close->req, close->error);
}

static void close_start(struct lock_close *close)
{
	struct session *session = request_session(close->req);
	bool locked;

	pthread_mutex_lock(&session->locks->lock);
	locked = locks_any(&session->locks->locks, close->ino);
	pthread_mutex_unlock(&session->locks->lock);
	if (!locked)
		reply_error(close->req, close->error);
	if (close->handle)
		handle_free(session->tree, close->handle);
	if (locked)
		tree_when_notified(session->tree, close_now, session, close, sizeof(*close));
}

void lock_request_flush(fuse_req_t req, struct open_file *file, uint64_t owner, int error)
{
	struct lock_close close = {
		.req = req,
		.error = error,
		.ino = inode_number(handle_inode(file->handle)),
		.file = file->id,
		.flush = true,
		.owner = owner,
	};

	close_start(&close);
}

void lock_request_release(fuse_req_t req, uint64_t ino, uint64_t file_id, struct handle *handle)
{
	struct lock_close close = { .req = req, .ino = ino, .file = file_id, .handle = handle };

	close_start(&close);
}
