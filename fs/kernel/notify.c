/* SPDX-License-Identifier: MIT */
#include "fs/kernel/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"

struct notice {
	struct notice *next;
	uint64_t ino;
	uint64_t offset;
	bool is_entry;
	notify_fn *then; /* no notice, but what was to follow those before it */
	size_t size;
	_Alignas(max_align_t) char data[]; /* the name, or the argument of then */
};

struct notify {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct notice *first;
	struct notice **last;
	bool sending;
	bool stopping;
	_Atomic unsigned waiting; /* threads that send by themselves */
};

static void notify_send(struct session *session, const struct notice *notice)
{
	int r;

	if (notice->then) {
		notice->then(session, (void *)notice->data);
		return;
	}
	if (notice->is_entry)
		r = fuse_lowlevel_notify_inval_entry(session->fuse, notice->ino, notice->data,
						     notice->size);
	else
		r = fuse_lowlevel_notify_inval_inode(session->fuse, notice->ino,
						     (off_t)notice->offset, 0);
	/* -ENOENT: the kernel does not know it anyway. */
	if (r < 0 && r != -ENOENT && r != -ENOTCONN && r != -EBADF && r != -ENODEV)
		log_debug("the kernel did not take a notice about inode %llu: %s",
			  (unsigned long long)notice->ino, strerror(-r));
}

static void *notify_run(void *arg)
{
	struct session *session = arg;
	struct notify *notify = session->notify;

	pthread_mutex_lock(&notify->lock);
	while (!notify->stopping) {
		struct notice *notice = notify->first;

		if (!notice) {
			pthread_cond_wait(&notify->changed, &notify->lock);
			continue;
		}
		notify->first = notice->next;
		if (!notify->first)
			notify->last = &notify->first;
		notify->sending = true;
		pthread_mutex_unlock(&notify->lock);
		notify_send(session, notice);
		free(notice);
		pthread_mutex_lock(&notify->lock);
		notify->sending = false;
	}
	pthread_mutex_unlock(&notify->lock);
	return NULL;
}

static struct notice *notice_new(struct bytes data)
{
	struct notice *notice = calloc(1, sizeof(*notice) + data.size + 1);

	if (!notice)
		return NULL;
	notice->size = data.size;
	if (data.size)
		memcpy(notice->data, data.data, data.size);
	return notice;
}

/* With the lock held. */
static void notice_queue(struct notify *notify, struct notice *notice)
{
	*notify->last = notice;
	notify->last = &notice->next;
	pthread_cond_signal(&notify->changed);
}

static void notify_queue(struct session *session, bool is_entry, uint64_t ino, uint64_t offset,
			 struct bytes name)
{
	struct notify *notify = session->notify;
	struct notice *notice = notice_new(name);

	if (!notice) {
		log_error("out of memory: the kernel may show what is old of inode %llu",
			  (unsigned long long)ino);
		return;
	}
	notice->is_entry = is_entry;
	notice->ino = ino;
	notice->offset = offset;
	pthread_mutex_lock(&notify->lock);
	notice_queue(notify, notice);
	pthread_mutex_unlock(&notify->lock);
}

void notify_then(struct session *session, notify_fn *function, void *arg, size_t size)
{
	struct notify *notify = session->notify;
	struct notice *notice = NULL;

	pthread_mutex_lock(&notify->lock);
	if (notify->first || notify->sending)
		notice = notice_new(bytes_make(arg, size));
	if (notice) {
		notice->then = function;
		notice_queue(notify, notice);
	}
	pthread_mutex_unlock(&notify->lock);
	/* Without memory, too: late is worse than early for who waits. */
	if (!notice)
		function(session, arg);
}

static void notify_content(void *arg, uint64_t ino, uint64_t offset, bool now)
{
	struct session *session = arg;
	const struct notice notice = { .ino = ino, .offset = offset };
	struct notify *notify = session->notify;

	/* Half of the threads stay free for the reads that the kernel may wait for. */
	if (now && atomic_fetch_add(&notify->waiting, 1) < session->threads / 2) {
		notify_send(session, &notice);
		atomic_fetch_sub(&notify->waiting, 1);
		return;
	}
	if (now)
		atomic_fetch_sub(&notify->waiting, 1);
	notify_queue(session, false, ino, offset, (struct bytes){ 0 });
}

static void notify_entry(void *arg, uint64_t parent, struct bytes name)
{
	notify_queue(arg, true, parent, 0, name);
}

int notify_start(struct session *session)
{
	struct notify *notify = calloc(1, sizeof(*notify));
	const struct tree_watcher watcher = {
		.content = notify_content,
		.entry = notify_entry,
		.arg = session,
	};
	int r;

	if (!notify)
		return -ENOMEM;
	pthread_mutex_init(&notify->lock, NULL);
	pthread_cond_init(&notify->changed, NULL);
	notify->last = &notify->first;
	session->notify = notify;
	r = -pthread_create(&notify->thread, NULL, notify_run, session);
	if (r < 0) {
		session->notify = NULL;
		free(notify);
		return r;
	}
	tree_set_watcher(session->tree, &watcher);
	return 0;
}

void notify_stop(struct session *session)
{
	struct notify *notify = session->notify;
	const struct tree_watcher nobody = { 0 };

	if (!notify)
		return;
	tree_set_watcher(session->tree, &nobody);
	pthread_mutex_lock(&notify->lock);
	notify->stopping = true;
	pthread_cond_signal(&notify->changed);
	pthread_mutex_unlock(&notify->lock);
	pthread_join(notify->thread, NULL);
	while (notify->first) {
		struct notice *notice = notify->first;

		notify->first = notice->next;
		if (notice->then)
			notify_send(session, notice);
		free(notice);
	}
	pthread_cond_destroy(&notify->changed);
	pthread_mutex_destroy(&notify->lock);
	free(notify);
	session->notify = NULL;
}
