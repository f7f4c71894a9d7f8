/* SPDX-License-Identifier: MIT */

/* Following by a tree in this process. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "fs/api/events.h"
#include "src/store/way.h"
#include "backend/base/tick.h"
#include "src/user/stop.h"

struct access_news {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool happened; /* something has happened since the last look */
};

static void on_happened(void *arg)
{
	struct access_news *news = arg;

	pthread_mutex_lock(&news->lock);
	news->happened = true;
	pthread_cond_signal(&news->changed);
	pthread_mutex_unlock(&news->lock);
}

static int news_begin(struct access *access)
{
	struct access_news *news = access->news ? access->news : calloc(1, sizeof(*news));

	if (!news)
		return -ENOMEM;
	if (access->news)
		return 0;
	pthread_mutex_init(&news->lock, NULL);
	tick_cond_init(&news->changed);
	access->news = news;
	tree_set_follower(access->tree, on_happened, news);
	return 0;
}

void access_news_end(struct access *access)
{
	if (!access->news)
		return;
	tree_set_follower(access->tree, NULL, NULL);
	pthread_cond_destroy(&access->news->changed);
	pthread_mutex_destroy(&access->news->lock);
	free(access->news);
}

int access_tree_next(struct access_file *file, size_t size, int milliseconds, struct buf *data)
{
	const int64_t until = tick_now() + (int64_t)milliseconds * 1000000;
	int r = handle_is_stream(file->handle) ? news_begin(file->access) : -EINVAL;

	while (r == 0 && !stream_waits(file->handle) && tick_now() < until && !stop_wanted()) {
		struct access_news *news = file->access->news;

		pthread_mutex_lock(&news->lock);
		while (!news->happened &&
		       tick_cond_wait(&news->changed, &news->lock, until) != -ETIMEDOUT)
			;
		news->happened = false;
		pthread_mutex_unlock(&news->lock);
	}
	return r < 0 ? r : stream_read(file->handle, size, data);
}
