/* SPDX-License-Identifier: MIT */
#include "fs/kernel/locks-others.h"

#include <errno.h>
#include <fcntl.h>

static const struct backend_lock right = {
	.end = INT64_MAX,
	.whole = BACKEND_MAPPED,
	.exclusive = 1,
};

int others_lock_add(void *buf, const struct lock *lock)
{
	const struct backend_lock other = {
		.start = lock->whole ? 0 : lock->start,
		.end = lock->whole ? 0 : lock->end,
		.pid = lock->pid,
		.whole = lock->whole,
		.exclusive = lock->type == F_WRLCK,
	};
	int r = lock->maps ? buf_append(buf, &right, sizeof(right)) : 0;

	return r < 0 || lock->type == F_UNLCK ? r : buf_append(buf, &other, sizeof(other));
}

bool others_lock_find(struct tree *tree, const struct lock *lock, struct lock *ret_lock)
{
	const struct backend_lock wanted = {
		.start = lock->start,
		.end = lock->end,
		.exclusive = lock->type == F_WRLCK,
	};
	struct backend_lock found;

	if (!tree_is_shared(tree) || tree_find_lock(tree, lock->ino, &wanted, &found) < 0)
		return false;
	*ret_lock = (struct lock){
		.type = found.exclusive ? F_WRLCK : F_RDLCK,
		.start = found.start,
		.end = found.end,
		.pid = (pid_t)found.pid,
	};
	return true;
}

int others_map(struct tree *tree, uint64_t ino)
{
	struct backend_lock found;
	int r = tree_is_shared(tree) ? tree_find_lock(tree, ino, &right, &found) : -ENOENT;

	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}
