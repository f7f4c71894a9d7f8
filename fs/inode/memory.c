/* SPDX-License-Identifier: MIT */

/* Files that processes map to share memory: no request shows what is written so
 * (fs/kernel/maps.h). */

#include <string.h>

#include "fs/api/tree.h"
#include "fs/inode/called.h"
#include "fs/inode/locks.h"
#include "fs/inode/tree.h"
#include "backend/base/cleanup.h"

static const struct {
	const char *end; /* of the name */
	enum tree_memory what;
} names[] = {
	{ "-shm", TREE_MEMORY },	    /* SQLite, of a database with a log */
	{ "-wal", TREE_BESIDE_MEMORY },	    /* that log */
	{ "lock.mdb", TREE_MEMORY },	    /* LMDB */
	{ "data.mdb", TREE_BESIDE_MEMORY }, /* its database */
};

enum tree_memory tree_memory_by_name(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	struct bytes name;

	if (!inode->node.entry || called_find(tree, inode, &name) < 0)
		return TREE_NO_MEMORY;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (bytes_ends_with(name, bytes_str(names[i].end)))
			return names[i].what;
	return TREE_NO_MEMORY;
}
