/* SPDX-License-Identifier: MIT */
#include "fs/inode/generation.h"

#include <inttypes.h>
#include <stdio.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

/* From the clock, so that a store that was restored from a backup does not use a number again. */
void node_rewritten(struct backend_node *node)
{
	const int64_t now = time_now();

	node->generation = MAX(node->generation + 1, (uint64_t)MAX(now, 0));
}

void version_word(uint64_t ino, uint64_t generation, char ret_word[VERSION_WORD])
{
	snprintf(ret_word, VERSION_WORD, "%" PRIx64 "%016" PRIx64, ino, generation);
}
