/* SPDX-License-Identifier: MIT */

/*
 * Documents that were read lately: what is read again and has not changed costs no row.
 *
 *   Each has the slot of its number.  What is kept of an inode is told by its number and by what
 *   moves with its content (inode.changed, inode.version): that of an inode that was forgotten and
 *   has come back is not used.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/content/kind.h"
#include "fs/inode/inodes.h"

enum { KEPT_BYTES = 32 << 10 /* of one document, at most */ };

static struct document *slot_of(struct tree *tree, const struct inode *inode)
{
	return &tree->documents.kept[inode->ino % ARRAY_SIZE(tree->documents.kept)];
}

static bool is_newest(const struct document *document, const struct inode *inode)
{
	return document->content && document->ino == inode->ino &&
	       document->changed == inode->changed && document->version == inode->version;
}

static struct version *find(struct tree *tree, const struct inode *inode)
{
	const struct document *document = slot_of(tree, inode);
	struct version *version = NULL;

	pthread_mutex_lock(&tree->documents.lock);
	if (is_newest(document, inode)) {
		version = document->content;
		version->count++;
	}
	pthread_mutex_unlock(&tree->documents.lock);
	return version;
}

static void keep(struct tree *tree, const struct inode *inode, struct version *version)
{
	struct document *document = slot_of(tree, inode);

	version->count++;
	pthread_mutex_lock(&tree->documents.lock);
	version_drop(&document->content);
	*document = (struct document){
		.ino = inode->ino,
		.changed = inode->changed,
		.version = inode->version,
		.content = version,
	};
	pthread_mutex_unlock(&tree->documents.lock);
}

int document_get(struct view *view, struct inode *inode, struct version **ret_version)
{
	struct tree *tree = view->tree;
	struct version *version = content_is_row(inode) ? find(tree, inode) : NULL;
	int r;

	*ret_version = version;
	if (version)
		return 0;
	version = calloc(1, sizeof(*version));
	if (!version)
		return -ENOMEM;
	version->count = 1;
	r = content_to_stage(view, inode, &version->stage);
	if (r < 0) {
		version_drop(&version);
		return r;
	}
	if (content_is_row(inode) && version->stage.size <= KEPT_BYTES && content_fits(view, inode))
		keep(tree, inode, version);
	*ret_version = version;
	return 0;
}

void documents_drop(struct tree *tree)
{
	pthread_mutex_lock(&tree->documents.lock);
	for (size_t i = 0; i < ARRAY_SIZE(tree->documents.kept); i++)
		version_drop(&tree->documents.kept[i].content);
	pthread_mutex_unlock(&tree->documents.lock);
}
