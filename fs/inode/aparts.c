/* SPDX-License-Identifier: MIT */
#include "fs/inode/aparts.h"
#include "backend/base/chain.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	const struct apart *x = a, *y = b;
	int order = bytes_compare(x->key, y->key);

	return order ? order : bytes_compare(x->session, y->session);
}

struct apart *apart_find(const struct tree *tree, struct bytes session, struct bytes key)
{
	const struct apart wanted = { .session = session, .key = key };
	struct apart **found = tree->aparts ? tfind(&wanted, &tree->aparts_by_key, compare) : NULL;

	return found ? *found : NULL;
}

bool apart_has(const struct tree *tree, struct bytes session, struct bytes key)
{
	return apart_find(tree, session, key) != NULL;
}

struct apart *apart_make(struct tree *tree, struct bytes session, struct bytes key)
{
	struct apart *apart = calloc(1, sizeof(*apart) + session.size + key.size);
	char *text = (char *)(apart + 1);

	if (!apart)
		return NULL;
	memcpy(text, session.data, session.size);
	memcpy(text + session.size, key.data, key.size);
	apart->session = bytes_make(text, session.size);
	apart->key = bytes_make(text + session.size, key.size);
	if (!tsearch(apart, &tree->aparts_by_key, compare)) {
		free(apart);
		return NULL;
	}
	CHAIN_ENTER(tree->aparts, apart, next, link);
	return apart;
}

void apart_free(struct tree *tree, struct apart *apart)
{
	tdelete(apart, &tree->aparts_by_key, compare);
	CHAIN_LEAVE(apart, next, link);
	free(apart);
}

void aparts_done(struct tree *tree)
{
	while (tree->aparts)
		apart_free(tree, tree->aparts);
}
