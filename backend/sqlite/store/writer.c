/* SPDX-License-Identifier: MIT */

/* The queue of threads that want the writer's connection (commit.c describes it). */

#include <sched.h>

#include "backend/sqlite/store/store.h"
#include "backend/sqlite/store/writer.h"
#include "backend/base/thread.h"

enum { YIELDS = 40 }; /* before a committer sleeps */

void sqlite_queue_leave(struct sqlite *store, struct sqlite_request *end)
{
	store->queue.first = end;
	if (!end)
		store->queue.last = &store->queue.first;
}

void sqlite_queue_wait(struct sqlite *store, struct sqlite_request *request)
{
	if (!store->queue.writing) {
		store->queue.writing = true;
		pthread_mutex_unlock(&store->queue.lock);
		return;
	}
	pthread_mutex_unlock(&store->queue.lock);
	for (int i = 0; i < YIELDS; i++) {
		if (sem_trywait(&request->turn) == 0)
			return;
		sched_yield();
	}
	while (sem_wait(&request->turn) < 0)
		;
}

void sqlite_writer_give(struct sqlite *store)
{
	struct sqlite_request *next;

	pthread_mutex_lock(&store->queue.lock);
	next = store->queue.first;
	store->queue.writing = next;
	pthread_mutex_unlock(&store->queue.lock);
	if (next)
		sem_post(&next->turn);
}

void sqlite_queue_join(struct sqlite *store, struct sqlite_request *request)
{
	sem_init(&request->turn, 0, 0);
	*store->queue.last = request;
	store->queue.last = &request->next;
}

bool sqlite_writer_try(struct sqlite *store)
{
	WITH_MUTEX(&store->queue.lock);
	const bool free = !store->queue.writing;

	store->queue.writing = true;
	return free;
}

void sqlite_writer_take(struct sqlite *store)
{
	struct sqlite_request request = { 0 };

	pthread_mutex_lock(&store->queue.lock);
	sqlite_queue_join(store, &request);
	sqlite_queue_wait(store, &request);
	pthread_mutex_lock(&store->queue.lock);
	sqlite_queue_leave(store, request.next);
	pthread_mutex_unlock(&store->queue.lock);
	sem_destroy(&request.turn);
}
