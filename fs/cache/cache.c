/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "fs/cache/state.h"

int cache_init(struct tree *tree)
{
	tree->cache = calloc(1, sizeof(*tree->cache));
	if (!tree->cache)
		return -ENOMEM;
	pthread_mutex_init(&tree->cache->lock, NULL);
	pthread_cond_init(&tree->cache->changed, NULL);
	/* Until they run, nothing is left to them. */
	tree->cache->stop = true;
	for (size_t i = 0; i < NOTIFIERS; i++) {
		tree->cache->notifier[i].tree = tree;
		tree->cache->notifier[i].jobs_end = &tree->cache->notifier[i].jobs;
		pthread_cond_init(&tree->cache->notifier[i].given, NULL);
	}
	return 0;
}

void cache_done(struct tree *tree)
{
	if (!tree->cache)
		return;
	pthread_mutex_destroy(&tree->cache->lock);
	pthread_cond_destroy(&tree->cache->changed);
	for (size_t i = 0; i < NOTIFIERS; i++)
		pthread_cond_destroy(&tree->cache->notifier[i].given);
	free(tree->cache);
}
