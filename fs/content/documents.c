/* SPDX-License-Identifier: MIT */

/*
 * A cache of documents: reading one again that has not changed does not read its row.
 *
 *   Each has the slot of its number.  An entry is valid for an inode with its number and the values
 *   that change with content (inode.changed, inode.version), so it is not used for an inode that
 *   was forgotten and has come back.  The content of a window is cached as well, from its lookup
 *   on, so that the window can be opened even if the list changes meanwhile.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/content/kind.h"
#include "fs/inode/inodes.h"
#include "backend/base/tick.h"

/* The content of a document, kept for its next reader: valid while the inode with this number has
 * the same values. */
struct document {
	uint64_t ino;
	uint64_t changed;
	uint64_t version;
	struct version *content; /* counted, or NULL */
};

/* The content of a large window, kept for its next open. */
struct large {
	uint64_t ino;
	int64_t at; /* when it was read, by tick_now() */
	struct version *content;
};

struct documents_cache {
	pthread_mutex_t lock; /* a leaf */
	struct document kept[64];
	struct large large[4];
};

static struct document *slot_of(struct tree *tree, uint64_t ino)
{
	return &tree->documents->kept[ino % ARRAY_SIZE(tree->documents->kept)];
}

static struct version *document_find(struct tree *tree, uint64_t ino, uint64_t changed,
				     uint64_t number)
{
	const struct document *document = slot_of(tree, ino);

	WITH_MUTEX(&tree->documents->lock);
	if (!document->content || document->ino != ino || document->changed != changed ||
	    document->version != number)
		return NULL;
	document->content->count++;
	return document->content;
}

static bool is_large(const struct version *version)
{
	return version->past || version->stage.size > DOCUMENT_KEPT;
}

static void keep(struct tree *tree, uint64_t ino, uint64_t changed, uint64_t number,
		 struct version *version)
{
	struct document *document = slot_of(tree, ino);

	if (is_large(version))
		return;
	version->count++;
	WITH_MUTEX(&tree->documents->lock);
	version_drop(&document->content);
	*document = (struct document){
		.ino = ino,
		.changed = changed,
		.version = number,
		.content = version,
	};
}

struct version *version_new(void)
{
	struct version *version = calloc(1, sizeof(*version));

	if (version)
		version->count = 1;
	return version;
}

int document_get(struct view *view, struct inode *inode, struct version **ret_version)
{
	struct tree *tree = view->tree;
	struct version *version =
		content_is_row(inode) ?
			document_find(tree, inode->ino, inode->changed, inode->version) :
			NULL;
	int r;

	*ret_version = version;
	if (version)
		return 0;
	version = version_new();
	if (!version)
		return -ENOMEM;
	r = content_to_stage(view, inode, &version->stage);
	if (r < 0) {
		version_drop(&version);
		return r;
	}
	if (content_is_row(inode) && content_fits(view, inode))
		keep(tree, inode->ino, inode->changed, inode->version, version);
	*ret_version = version;
	return 0;
}

/* The content of a window does not change.  Large content was read to know its size, and an open
 * mostly follows at once. */

static const int64_t LARGE_FOR = INT64_C(1000000000); /* nanoseconds */

static struct large *large_of(struct tree *tree, uint64_t ino)
{
	return &tree->documents->large[ino % ARRAY_SIZE(tree->documents->large)];
}

struct version *document_of_window(struct tree *tree, const struct inode *inode)
{
	struct version *version = document_find(tree, inode->ino, 0, 0);
	struct large *large = large_of(tree, inode->ino);

	if (version)
		return version;
	WITH_MUTEX(&tree->documents->lock);
	return large->ino == inode->ino ? steal_ptr(large->content) : NULL;
}

void document_keep_window(struct tree *tree, const struct inode *inode, struct version *version)
{
	struct large *large = large_of(tree, inode->ino);

	keep(tree, inode->ino, 0, 0, version);
	if (!is_large(version))
		return;
	version->count++;
	WITH_MUTEX(&tree->documents->lock);
	version_drop(&large->content);
	*large = (struct large){ inode->ino, tick_now(), version };
}

void documents_age(struct tree *tree, int64_t now)
{
	WITH_MUTEX(&tree->documents->lock);

	for (size_t i = 0; i < ARRAY_SIZE(tree->documents->large); i++) {
		struct large *large = &tree->documents->large[i];

		if (large->content && now - large->at >= LARGE_FOR)
			version_drop(&large->content);
	}
}

int documents_init(struct tree *tree)
{
	tree->documents = calloc(1, sizeof(*tree->documents));
	if (!tree->documents)
		return -ENOMEM;
	pthread_mutex_init(&tree->documents->lock, NULL);
	return 0;
}

void documents_done(struct tree *tree)
{
	if (!tree->documents)
		return;
	documents_drop(tree);
	pthread_mutex_destroy(&tree->documents->lock);
	free(tree->documents);
}

void documents_drop(struct tree *tree)
{
	WITH_MUTEX(&tree->documents->lock);

	for (size_t i = 0; i < ARRAY_SIZE(tree->documents->kept); i++)
		version_drop(&tree->documents->kept[i].content);
	for (size_t i = 0; i < ARRAY_SIZE(tree->documents->large); i++)
		version_drop(&tree->documents->large[i].content);
}
