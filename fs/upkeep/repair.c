/* SPDX-License-Identifier: MIT */
#include "fs/api/repair.h"
#include "fs/api/settings.h"
#include "fs/base/entries.h"
#include "fs/base/names.h"
#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/share/share.h"
#include "fs/upkeep/mending.h"
#include "fs/base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum nodes {
	NODES_SEEN,
	NODES_LOST,
	NODES_LOST_LINKED, /* lost, and not deleted before */
};

static int each_node(struct mending *mending, enum nodes which,
		     int (*fn)(struct mending *mending, struct backend_node *node))
{
	int r = 0;

	for (uint64_t after = 0; r == 0;) {
		struct view *view = &mending->view;
		struct backend_node node = { 0 };

		r = ASK(view, node_list, after, false, node_keep, &node);
		if (r < 0 || !node.ino)
			break;
		after = node.ino;
		if (was_seen(mending, node.ino) == (which == NODES_SEEN) &&
		    (which != NODES_LOST_LINKED || node.nlink)) {
			struct backend_node changed = node;

			changed.owned = NULL;
			r = fn(mending, &changed);
		}
		backend_node_done(&node);
	}
	return r < 0 ? r : mend_commit(mending);
}

/* Nodes that were reached: their counts of names, and states whose rows are all lost. */

static int finish_node(struct mending *mending, struct backend_node *node)
{
	struct view *view = &mending->view;
	struct backend_node before = *node;
	const struct seen *seen = seen_get(mending, node->ino);
	struct backend_key_stat stat;
	int r;

	if (!seen)
		return -ENOMEM;
	if (kind_is_state(node->kind) && !(node->flags & BACKEND_DRAFT) &&
	    ASK(view, key_stat, node->session, node->key, &stat) == -ENOENT) {
		/* The page that said that it is in the trash may be the one that is damaged. */
		r = mend_show_rows(mending, node);
		if (r < 0)
			return r;
		if (node->kind != BACKEND_LIST &&
		    ASK(view, key_stat, node->session, node->key, &stat) == -ENOENT) {
			mend_report(mending, "session %s, key %s: its row is lost",
				    SHOWN(node->session), SHOWN(node->key));
			batch_entry_delete(&mending->batch, seen->parent, seen->entry);
			batch_node_delete(&mending->batch, node->ino);
			return mend_commit_some(mending);
		}
	}
	node->nlink = S_ISDIR(node->mode) ? 2 + seen->directories : seen->names;
	if (node->ino == BACKEND_ROOT) {
		node->mode = S_IFDIR | (node->mode & 07777);
		node->kind = BACKEND_ORDINARY;
		node->nlink = 2 + seen->directories;
	} else if (!seen->at_home) {
		node->parent = seen->parent;
		node->entry = seen->entry;
	}
	if (node->nlink != before.nlink || node->parent != before.parent ||
	    node->entry != before.entry || node->mode != before.mode || node->kind != before.kind)
		mend_put_node(mending, node);
	return mend_commit_some(mending);
}

static bool is_row(void *arg, struct bytes session, struct bytes key, struct bytes data)
{
	(void)arg, (void)session;
	return bytes_ends_with(key, names_hash_suffix) || json_valid(data, NULL);
}

/* Make a tree of the nodes, entries and rows that the store has handed over. */
static int mend(struct mending *mending)
{
	int r = mend_view(mending);

	if (r == 0)
		r = mending->backend->ops->last_ids(mending->backend, mending->view.snapshot,
						    &mending->last_ino, &mending->last_entry);
	if (r == 0)
		r = mend_walk_outside(mending, BACKEND_ROOT, NULL, (struct bytes){ 0 });
	if (r == 0)
		r = mend_walk(mending);
	if (r == 0)
		r = mend_walk_later(mending, BACKEND_TRASH, NULL, (struct bytes){ 0 },
				    (struct bytes){ 0 });
	if (r == 0) {
		mending->todo->trash = true;
		r = mend_walk(mending);
	}
	if (r == 0)
		r = each_node(mending, NODES_LOST_LINKED, mend_session);
	if (r == 0)
		r = each_node(mending, NODES_LOST_LINKED, mend_directory);
	if (r == 0)
		r = each_node(mending, NODES_LOST_LINKED, mend_file);
	if (r == 0)
		r = each_node(mending, NODES_LOST, mend_drop_node);
	if (r == 0)
		r = each_node(mending, NODES_SEEN, finish_node);
	view_end(&mending->view);
	while (mending->todo) {
		struct place_dir *dir = mending->todo;

		mending->todo = dir->next;
		place_dir_free(dir);
	}
	batch_done(&mending->batch);
	tdestroy(mending->seen, free);
	return r;
}

/* The tree makes a file for each key that has none, as if its rows had been there before the store.
 */
static int adopt_keys(struct backend *backend)
{
	const struct backend_op op = { .type = BACKEND_SETTING,
				       .name = BYTES(BACKEND_UNADOPTED),
				       .data = BYTES("1") };

	return backend_commit(backend, &op, 1, BACKEND_ANYWAY);
}

static int mend_tree(const char *store, struct mending *mending, char **ret_why)
{
	struct backend_options options = { 0 };
	const struct tree_options plain = { .relayout = true, .whole = true };
	struct settings settings;
	struct tree *tree;
	int r = backend_open(store, &options, &mending->backend, ret_why);

	if (r < 0)
		return r;
	r = settings_read(mending->backend, &settings, NULL, ret_why);
	mending->layout = r == 0 ? settings.value[SETTING_LAYOUT] : 0;
	mending->moving = r == 0 && settings.moving;
	if (r == 0)
		r = mend(mending);
	if (r == 0)
		r = adopt_keys(mending->backend);
	if (r < 0) {
		backend_close(mending->backend);
		return r;
	}
	r = tree_open(mending->backend, &plain, &tree, ret_why);
	if (r < 0) {
		backend_close(mending->backend);
		return r;
	}
	/* Rows that were never mounted had no files. */
	if (tree->rest.made && mending->repaired->records > mending->repaired->rows)
		mend_report(mending,
			    "keys that had lost their files, and so the modes and times of these: "
			    "%" PRId64,
			    tree->rest.made);
	tree_close(tree);
	return 0;
}

int repair_store(const char *store, const char *new_store, const struct backend_repair *repair,
		 struct backend_repaired *ret_repaired, char **ret_why)
{
	struct backend_repair records = *repair;
	struct backend_repaired repaired = { 0 };
	struct mending mending = { .report = repair->report,
				   .arg = repair->arg,
				   .repaired = &repaired };
	int r;

	records.is_row = is_row;
	r = backend_repair(store, new_store, &records, &repaired, ret_why);
	if (r == 0)
		r = mend_tree(new_store, &mending, ret_why);
	if (r == 0)
		*ret_repaired = repaired;
	return r;
}
