/* SPDX-License-Identifier: MIT */

/*
 * Threads that got ESTALE (cache.h).  How long the kernel takes for its second try is not known: on
 * a machine with much to do a thread may come back after seconds.  So what the thread does ends it,
 * and no time: it opens what it came for, or looks up more names than one try can need.  Until then
 * a try that is served as a second one, and is none, is led to a face that is free; that costs
 * time, and nothing else.
 */

#include "fs/cache/state.h"
#include "fs/inode/inodes.h"
#include "fs/inode/window.h"

enum { LOOKUPS_MOST = 16 }; /* in one try; the kernel repeats them while others rename */

static const uint64_t NOTHING = UINT64_MAX; /* as the nodeid of a name that leads nowhere */

static struct retrying *again_slots(struct tree *tree, pid_t pid)
{
	return tree->cache->again[(unsigned)pid % AGAIN_SETS];
}

static struct retrying *again_find(struct tree *tree, pid_t pid)
{
	struct retrying *slots = again_slots(tree, pid);

	for (size_t i = 0; i < AGAIN_SLOTS; i++)
		if (slots[i].number && slots[i].pid == pid)
			return &slots[i];
	return NULL;
}

void again_add(struct tree *tree, pid_t pid, enum face_kind kind, uint64_t nodeid)
{
	struct retrying *again, *slots = again_slots(tree, pid);

	WITH_MUTEX(&tree->table_lock);
	again = again_find(tree, pid);
	if (!again) {
		again = slots;
		for (size_t i = 1; i < AGAIN_SLOTS; i++)
			if (slots[i].number < again->number)
				again = &slots[i];
		tree->cache->again_count += !again->number;
	}
	*again = (struct retrying){
		.pid = pid,
		.kind = kind,
		.nodeid = nodeid,
		.number = ++tree->cache->again_last,
	};
}

/* Under table_lock. */
static void again_free(struct tree *tree, struct retrying *again)
{
	again->number = 0;
	tree->cache->again_count--;
}

void again_end(struct tree *tree, pid_t pid)
{
	struct retrying *again;

	if (!tree->cache->again_count)
		return;
	WITH_MUTEX(&tree->table_lock);
	again = again_find(tree, pid);
	if (again)
		again_free(tree, again);
}

bool again_get(struct tree *tree, pid_t pid, struct retrying *ret_again)
{
	const struct retrying *again;

	if (!tree->cache->again_count || pid == NOBODY)
		return false;
	WITH_MUTEX(&tree->table_lock);
	again = again_find(tree, pid);
	if (again)
		*ret_again = *again;
	return again;
}

bool again_is(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying again;

	return again_get(tree, pid, &again) && again.nodeid == nodeid && !again.found;
}

bool again_looks(struct tree *tree, pid_t pid)
{
	struct retrying again;

	return again_get(tree, pid, &again) && again.nodeid >> WINDOW_BIT & 1;
}

bool tree_opens_again(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying again;

	return again_get(tree, pid, &again) && (again.found ? again.found : again.nodeid) == nodeid;
}

bool again_asks(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying *again;
	bool comes;

	if (!tree->cache->again_count || pid == NOBODY)
		return false;
	WITH_MUTEX(&tree->table_lock);
	again = again_find(tree, pid);
	if (!again || !again->found)
		return again && again->nodeid == nodeid;
	comes = again->found == nodeid && !again->asked;
	again->asked |= comes;
	return comes;
}

void again_led(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying *again;

	if (!tree->cache->again_count)
		return;
	WITH_MUTEX(&tree->table_lock);
	again = again_find(tree, pid);
	if (again && ++again->lookups > LOOKUPS_MOST) {
		again_free(tree, again);
	} else if (again) {
		again->found = nodeid;
		again->asked = false;
	}
}

void again_lost(struct tree *tree, pid_t pid, uint64_t nodeid)
{
	struct retrying *again;
	WITH_MUTEX(&tree->table_lock);

	again = again_find(tree, pid);
	if (again && again->found == nodeid)
		again->found = NOTHING;
}

void tree_found(struct tree *tree, pid_t pid, const struct inode *inode)
{
	/* Of a file, its face is what counts (face_for_lookup()). */
	if (!inode || inode->window)
		again_led(tree, pid, inode ? inode->ino : NOTHING);
}
