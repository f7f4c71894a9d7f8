/* SPDX-License-Identifier: MIT */

/* Setting keys apart, and trying them again (aparts.h). */

#include <errno.h>
#include <stdlib.h>

#include "fs/content/content.h"
#include "fs/inode/aparts.h"
#include "fs/share/reconcile.h"
#include "fs/share/share.h"
#include "fs/tree/tree.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

static const int64_t AGAIN_FIRST = 1000000000, AGAIN_LAST = 60 * (int64_t)1000000000;

/* Files that are known in memory know it themselves. */
static void mark_inodes(struct reconciling *reconciling, const struct changed_key *key, bool apart)
{
	struct tree *tree = reconciling->tree;
	struct inodes all = inodes_get(tree, NULL);

	for (size_t i = 0; i < all.count; i++) {
		struct inode *inode = all.inode[i];

		if (!kind_is_state(inode->node.kind) || inode->gone ||
		    !bytes_equal(inode->node.key, key_key(key)) ||
		    !bytes_equal(inode->node.session, key_session(key)))
			continue;
		inode->apart = apart;
		inode_unload(inode);
		inode->version++;
		notes_change(&reconciling->notes, tree, inode, CHANGE_REPLACED, UINT64_MAX, NULL);
	}
	inodes_forget(tree, &all);
}

int apart_set(struct reconciling *reconciling, const struct changed_key *key, int error)
{
	struct tree *tree = reconciling->tree;
	int64_t stamp = key->logged ? llabs(key->stamp) : reconciling->all_stamp;
	struct apart *apart = apart_find(tree, key_session(key), key_key(key));
	_cleanup_(batch_done) struct batch batch = { 0 };
	bool is_new = !apart;
	int r;

	if (!apart)
		apart = apart_make(tree, key_session(key), key_key(key));
	if (!apart)
		return -ENOMEM;
	batch_change_apart(&batch, key_session(key), key_key(key), key->first, stamp);
	r = reconcile_commit(reconciling, &batch);
	if (r < 0) {
		if (is_new)
			apart_free(tree, apart);
		return r == -EROFS ? r : error;
	}
	if (is_new)
		log_error("session %s, key %s: cannot process a change of another program (%s), so "
			  "its file cannot be read or written; sessfs tries again within a minute",
			  SHOWN(key_session(key)), SHOWN(key_key(key)), strerror(-error));
	apart->pause = is_new ? AGAIN_FIRST : MIN(2 * apart->pause, AGAIN_LAST);
	apart->again = tick_now() + apart->pause;
	apart->first = is_new ? key->first : MIN(apart->first, key->first);
	apart->stamp = -stamp;
	ghost_set_theirs(tree, key_session(key), key_key(key));
	mark_inodes(reconciling, key, true);
	return reconciling->view_error;
}

void apart_end(struct reconciling *reconciling, const struct changed_key *key)
{
	struct tree *tree = reconciling->tree;
	struct apart *apart = apart_find(tree, key_session(key), key_key(key));

	if (!apart)
		return;
	apart_free(tree, apart);
	mark_inodes(reconciling, key, false);
	log_info("session %s, key %s: the change of another program is processed now",
		 SHOWN(key_session(key)), SHOWN(key_key(key)));
}

/* Of a file that was removed since, the rows go with it in a moment. */
static bool apart_is_due(struct tree *tree, const struct apart *apart, int64_t now)
{
	const struct ghost *ghost;

	if (apart->again > now)
		return false;
	ghost = ghost_find(tree, apart->session, apart->key);
	return !ghost || ghost_is_theirs(ghost);
}

bool aparts_are_due(struct tree *tree)
{
	int64_t now = tick_now();
	bool due = false;
	WITH_READ_LOCK(tree);

	for (const struct apart *apart = tree->aparts; apart && !due; apart = apart->next)
		due = apart_is_due(tree, apart, now);
	return due;
}

int aparts_collect(struct reconciling *reconciling)
{
	struct tree *tree = reconciling->tree;
	int64_t now = tick_now();
	int r = 0;

	for (const struct apart *apart = tree->aparts; r == 0 && apart; apart = apart->next)
		if (apart_is_due(tree, apart, now))
			r = reconcile_add(reconciling,
					  &(struct backend_change){ .session = apart->session,
								    .key = apart->key,
								    .first = apart->first,
								    .rewritten = true,
								    .stamp = apart->stamp },
					  true);
	return r;
}
