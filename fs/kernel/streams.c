/* SPDX-License-Identifier: MIT */
#include "fs/kernel/streams.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/api/events.h"
#include "fs/kernel/ops.h"
#include "backend/base/chain.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"

/* Between two rounds. */
static const int64_t PAUSE_NS = 50000000;

enum { READ_MOST = 1 << 17 /* bytes of an answer, at most */ };

struct stream_read {
	struct stream_read *next;
	struct stream *stream;
	fuse_req_t req;
	size_t size;
};

/* An open one; under streams.lock. */
struct stream {
	struct stream *next;
	struct stream **link;
	struct handle *handle;
	struct fuse_pollhandle *poll; /* a poll that waits for an event; or NULL */
};

struct streams {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	_Atomic bool happened; /* an event, since the last round began */
	_Atomic bool asleep;   /* the thread, until it is woken */
	bool stopping;
	struct stream *first;
	struct stream_read *reads; /* that wait, in the order in which they were checked last */
	struct stream_read **reads_end;
	size_t waiting; /* how many there are */
};

/* Called by any thread after an event. */
static void on_happened(void *arg)
{
	struct streams *streams = arg;

	if (atomic_exchange(&streams->happened, true) || !streams->asleep)
		return;
	WITH_MUTEX(&streams->lock);
	pthread_cond_signal(&streams->changed);
}

static void add_read(struct streams *streams, struct stream_read *read)
{
	read->next = NULL;
	*streams->reads_end = read;
	streams->reads_end = &read->next;
	streams->waiting++;
}

static struct stream_read *take_read(struct streams *streams, struct stream_read **link)
{
	struct stream_read *read = *link;

	*link = read->next;
	if (!*link)
		streams->reads_end = link;
	streams->waiting--;
	return read;
}

/* Under the lock: the next of so many reads that has an answer, with that. */
static struct stream_read *take_answered(struct streams *streams, size_t *left, int *ret_error,
					 struct buf *lines)
{
	while (*left && streams->reads) {
		struct stream_read *read = take_read(streams, &streams->reads);

		--*left;
		*ret_error = stream_read(read->stream->handle, read->size, lines);
		if (*ret_error < 0 || lines->size)
			return read;
		add_read(streams, read);
	}
	return NULL;
}

static void wake_pollers(struct streams *streams)
{
	for (struct stream *stream = streams->first; stream; stream = stream->next) {
		if (!stream->poll || !(streams->stopping || stream_waits(stream->handle)))
			continue;
		fuse_lowlevel_notify_poll(stream->poll);
		fuse_pollhandle_destroy(stream->poll);
		stream->poll = NULL;
	}
}

/* Under the lock, which is released meanwhile. */
static void play_round(struct streams *streams)
{
	size_t left = streams->waiting;
	struct stream_read *read;
	int r;

	do {
		_cleanup_(buf_done) struct buf lines = { 0 };

		read = take_answered(streams, &left, &r, &lines);
		if (!read)
			break;
		pthread_mutex_unlock(&streams->lock);
		reply_buf(read->req, r, buf_bytes(&lines));
		free(read);
		pthread_mutex_lock(&streams->lock);
	} while (!streams->stopping);
	wake_pollers(streams);
}

static void *streams_run(void *arg)
{
	struct streams *streams = arg;
	int64_t until;

	pthread_mutex_lock(&streams->lock);
	while (!streams->stopping) {
		streams->asleep = true;
		while (!streams->happened && !streams->stopping)
			pthread_cond_wait(&streams->changed, &streams->lock);
		streams->asleep = false;
		streams->happened = false;
		play_round(streams);
		/* Only the end wakes the thread. */
		until = tick_now() + PAUSE_NS;
		while (!streams->stopping &&
		       tick_cond_wait(&streams->changed, &streams->lock, until) == 0)
			;
	}
	pthread_mutex_unlock(&streams->lock);
	return NULL;
}

int streams_start(struct session *session)
{
	struct streams *streams = calloc(1, sizeof(*streams));
	int r;

	if (!streams)
		return -ENOMEM;
	pthread_mutex_init(&streams->lock, NULL);
	tick_cond_init(&streams->changed);
	streams->reads_end = &streams->reads;
	r = thread_start(&streams->thread, streams_run, streams);
	if (r < 0) {
		free(streams);
		return r;
	}
	session->streams = streams;
	tree_set_follower(session->tree, on_happened, streams);
	return 0;
}

static void end_reads(struct streams *streams)
{
	pthread_mutex_lock(&streams->lock);
	while (streams->reads) {
		struct stream_read *read = take_read(streams, &streams->reads);

		pthread_mutex_unlock(&streams->lock);
		reply_error(read->req, -ENOTCONN);
		free(read);
		pthread_mutex_lock(&streams->lock);
	}
	wake_pollers(streams);
	pthread_mutex_unlock(&streams->lock);
}

void streams_stop(struct session *session)
{
	struct streams *streams = session->streams;

	if (!streams)
		return;
	tree_set_follower(session->tree, NULL, NULL);
	pthread_mutex_lock(&streams->lock);
	streams->stopping = true;
	pthread_cond_signal(&streams->changed);
	pthread_mutex_unlock(&streams->lock);
	pthread_join(streams->thread, NULL);
	end_reads(streams);
}

void streams_free(struct session *session)
{
	struct streams *streams = session->streams;

	if (!streams)
		return;
	pthread_cond_destroy(&streams->changed);
	pthread_mutex_destroy(&streams->lock);
	free(streams);
	session->streams = NULL;
}

int stream_opened(struct session *session, struct open_file *file, struct fuse_file_info *fi)
{
	struct streams *streams = session->streams;
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->handle = file->handle;
	pthread_mutex_lock(&streams->lock);
	CHAIN_ENTER(streams->first, stream, next, link);
	pthread_mutex_unlock(&streams->lock);
	file->stream = stream;
	fi->nonseekable = 1;
	return 0;
}

void stream_closing(struct session *session, struct open_file *file)
{
	struct streams *streams = session->streams;
	struct stream *stream = file->stream;

	if (!stream)
		return;
	pthread_mutex_lock(&streams->lock);
	CHAIN_LEAVE(stream, next, link);
	pthread_mutex_unlock(&streams->lock);
	if (stream->poll)
		fuse_pollhandle_destroy(stream->poll);
	free(stream);
	file->stream = NULL;
}

/* The reading process has got a signal. */
static void interrupted(fuse_req_t req, void *arg)
{
	struct streams *streams = arg;
	struct stream_read **link, *read = NULL;

	pthread_mutex_lock(&streams->lock);
	for (link = &streams->reads; *link && !read;) {
		if ((*link)->req == req)
			read = take_read(streams, link);
		else
			link = &(*link)->next;
	}
	pthread_mutex_unlock(&streams->lock);
	if (!read)
		return;
	reply_error(req, -EINTR);
	free(read);
}

/* The lines that there are; without any -EAGAIN, or 1 when the request waits.  A signal that came
 * before has found nothing to end. */
static int read_or_wait(struct streams *streams, struct stream_read *read, bool waits,
			struct buf *lines)
{
	int r = -ENOTCONN;

	WITH_MUTEX(&streams->lock);
	if (!streams->stopping)
		r = stream_read(read->stream->handle, read->size, lines);
	if (r == 0 && !lines->size)
		r = !waits ? -EAGAIN : fuse_req_interrupted(read->req) ? -EINTR : 1;
	if (r > 0)
		add_read(streams, read);
	return r;
}

void stream_request_read(fuse_req_t req, struct open_file *file, size_t size, bool waits)
{
	struct streams *streams = request_session(req)->streams;
	_cleanup_(buf_done) struct buf lines = { 0 };
	struct stream_read *read = calloc(1, sizeof(*read));
	int r;

	if (!read) {
		reply_error(req, -ENOMEM);
		return;
	}
	*read = (struct stream_read){
		.stream = file->stream,
		.req = req,
		.size = MIN(size, (size_t)READ_MOST),
	};
	if (waits)
		fuse_req_interrupt_func(req, interrupted, streams);
	r = read_or_wait(streams, read, waits, &lines);
	if (r > 0)
		return;
	free(read);
	reply_buf(req, r, buf_bytes(&lines));
}

static void request_poll(fuse_req_t req, struct open_file *file, struct fuse_pollhandle *waiting)
{
	struct streams *streams = request_session(req)->streams;
	struct fuse_pollhandle *before = waiting;
	unsigned ready = 0;

	pthread_mutex_lock(&streams->lock);
	if (streams->stopping)
		ready = POLLERR;
	else if (stream_waits(file->stream->handle))
		ready = POLLIN | POLLRDNORM;
	if (waiting && !ready) {
		before = file->stream->poll;
		file->stream->poll = waiting;
	}
	pthread_mutex_unlock(&streams->lock);
	if (before)
		fuse_pollhandle_destroy(before);
	reply_poll(req, ready);
}

/* A file that is not a stream can always be read and written. */
void op_poll(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi,
	     struct fuse_pollhandle *waiting)
{
	struct open_file *file = request_file(fi);

	(void)nodeid;
	if (file && file->stream) {
		request_poll(req, file, waiting);
		return;
	}
	if (waiting)
		fuse_pollhandle_destroy(waiting);
	reply_poll(req, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM);
}
