/* SPDX-License-Identifier: MIT */

/* Threads that got ESTALE (cache.h). */

#include "fs/cache/state.h"
#include "fs/inode/inodes.h"
#include "fs/inode/window.h"
#include "backend/base/tick.h"

static const int64_t BRIEF_TIME = 1000000000; /* for a question for attributes */
static const int64_t AT_ONCE = 100000000;     /* within one call */
static const uint64_t NOTHING = UINT64_MAX;   /* as the nodeid of a name that leads nowhere */

static struct retrying *again_find(struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(tree->cache->again); i++)
		if (tree->cache->again[i].pid == pid && tree->cache->again[i].until)
			return &tree->cache->again[i];
	return NULL;
}

void again_add(struct tree *tree, pid_t pid, enum face_kind kind, uint64_t nodeid)
{
	struct retrying *again, *oldest = tree->cache->again;

	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	for (size_t i = 0; !again && i < ARRAY_SIZE(tree->cache->again); i++)
		if (tree->cache->again[i].until < oldest->until)
			oldest = &tree->cache->again[i];
	if (!again)
		again = oldest;
	if (!again->until)
		tree->cache->again_count++;
	*again = (struct retrying){
		.pid = pid,
		.kind = kind,
		.nodeid = nodeid,
		.until = tick_now() + (kind == FACE_ASKS ? BRIEF_TIME : AGAIN_TIME),
	};
	pthread_mutex_unlock(&tree->table_lock);
}

void again_end(struct tree *tree, pid_t pid)
{
	struct retrying *again;

	if (!tree->cache->again_count)
		return;
	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	if (again) {
		again->until = 0;
		tree->cache->again_count--;
	}
	pthread_mutex_unlock(&tree->table_lock);
}

bool again_get(struct tree *tree, pid_t pid, struct retrying *ret_again)
{
	const struct retrying *again;
	bool found;

	if (!tree->cache->again_count || pid == NOBODY)
		return false;
	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	found = again && again->until >= tick_now();
	if (found)
		*ret_again = *again;
	pthread_mutex_unlock(&tree->table_lock);
	return found;
}

bool again_asks(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying again;

	if (!again_get(tree, pid, &again))
		return false;
	if (again.kind == FACE_ASKS && again.nodeid != nodeid)
		again_end(tree, pid);
	return again.kind != FACE_ASKS || again.nodeid == nodeid;
}

bool again_is(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying again;

	return again_get(tree, pid, &again) && again.nodeid == nodeid;
}

bool again_looks(struct tree *tree, pid_t pid)
{
	struct retrying again;

	return again_get(tree, pid, &again) && again.nodeid >> WINDOW_BIT & 1 &&
	       tick_now() <= again.until - AGAIN_TIME + BRIEF_TIME;
}

bool again_opens(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying again;

	if (!again_get(tree, pid, &again))
		return false;
	if (again.found == nodeid)
		return true;
	/* A thread that opens an open file does not look a name up between the question and the
	 * open. */
	return again.nodeid == nodeid &&
	       (again.kind != FACE_ASKS || tick_now() <= again.until - BRIEF_TIME + AT_ONCE);
}

bool tree_opens_again(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying again;

	/* On any of its faces. */
	return again_opens(tree, pid, nodeid) ||
	       (again_get(tree, pid, &again) && nodeid_ino(again.found) == nodeid_ino(nodeid));
}

bool again_found_other(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying again;

	return again_get(tree, pid, &again) && again.found &&
	       nodeid_ino(again.found) != nodeid_ino(nodeid);
}

static bool is_dir(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return inode_is_dir(inode);
}

void again_led(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying *again;

	if (!tree->cache->again_count)
		return;
	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	if (again)
		again->found = nodeid;
	pthread_mutex_unlock(&tree->table_lock);
}

void tree_found(struct tree *tree, pid_t pid, struct inode *inode)
{
	struct retrying *again;

	if (!tree->cache->again_count || (inode && is_dir(tree, inode)))
		return;
	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	if (again)
		again->found = inode ? inode->ino : NOTHING;
	pthread_mutex_unlock(&tree->table_lock);
}
