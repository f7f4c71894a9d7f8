/* SPDX-License-Identifier: MIT */
#include "fs/kernel/ranges.h"

#include <stdbool.h>
#include <stddef.h>

#include "backend/base/cleanup.h"

static bool is_before(const struct range *a, const struct range *b)
{
	return a->start != b->start ? a->start < b->start : (uintptr_t)a < (uintptr_t)b;
}

static void measure(struct range *range)
{
	range->reach = range->end;
	if (range->left)
		range->reach = MAX(range->reach, range->left->reach);
	if (range->right)
		range->reach = MAX(range->reach, range->right->reach);
}

/* Random ranks, so that no order of calls makes the tree deep. */
static uint32_t next_rank(void)
{
	static _Thread_local uint32_t state = 0x9e3779b9;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

/* Those before a range, and those behind it. */
static void split(struct range *root, const struct range *at, struct range **before,
		  struct range **behind)
{
	if (!root) {
		*before = *behind = NULL;
	} else if (is_before(root, at)) {
		split(root->right, at, &root->right, behind);
		measure(root);
		*before = root;
	} else {
		split(root->left, at, before, &root->left);
		measure(root);
		*behind = root;
	}
}

/* All of left are before all of right. */
static struct range *join(struct range *left, struct range *right)
{
	if (!left || !right)
		return left ? left : right;
	if (left->rank > right->rank) {
		left->right = join(left->right, right);
		measure(left);
		return left;
	}
	right->left = join(left, right->left);
	measure(right);
	return right;
}

void ranges_add(struct range **root, struct range *range)
{
	struct range *before, *behind;

	range->left = range->right = NULL;
	range->rank = next_rank();
	measure(range);
	split(*root, range, &before, &behind);
	*root = join(join(before, range), behind);
}

void ranges_remove(struct range **root, struct range *range)
{
	struct range *node = *root;

	if (node == range) {
		*root = join(node->left, node->right);
		return;
	}
	ranges_remove(is_before(node, range) ? &node->right : &node->left, range);
	measure(node);
}

struct range *ranges_next(struct range *root, const struct range *after, uint64_t start,
			  uint64_t end)
{
	struct range *found = NULL;

	if (!root || root->reach < start)
		return NULL;
	if (!after || is_before(after, root)) {
		found = ranges_next(root->left, after, start, end);
		if (!found && root->start <= end && root->end >= start)
			found = root;
	}
	if (found || root->start > end)
		return found;
	return ranges_next(root->right, after, start, end);
}
