/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/upkeep/mending.h"

enum { OPS_AT_ONCE = 1024 };

void mend_report(struct mending *mending, const char *format, ...)
{
	char sentence[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	mending->repaired->lost++;
	mending->report(mending->arg, sentence);
}

int mend_view(struct mending *mending)
{
	view_end(&mending->view);
	return view_begin_plain(mending->backend, &mending->view);
}

int mend_commit(struct mending *mending)
{
	int r;

	view_end(&mending->view);
	r = batch_commit(&mending->batch, mending->backend, BACKEND_ANYWAY);
	batch_clear(&mending->batch);
	return r < 0 ? r : mend_view(mending);
}

int mend_commit_some(struct mending *mending)
{
	if (mending->batch.error)
		return mending->batch.error;
	return mending->batch.count >= OPS_AT_ONCE ? mend_commit(mending) : 0;
}

/* A node lives until the batch is committed. */
void mend_put_node(struct mending *mending, const struct backend_node *node)
{
	struct backend_node kept = *node;

	if (node->session.data)
		kept.session = batch_keep(&mending->batch, node->session);
	if (node->key.data)
		kept.key = batch_keep(&mending->batch, node->key);
	if (node->target.data)
		kept.target = batch_keep(&mending->batch, node->target);
	batch_node_put(&mending->batch, &kept);
}

void mend_put_entry(struct mending *mending, uint64_t parent, uint64_t id, struct bytes name,
		    uint64_t ino)
{
	batch_entry_put(&mending->batch, parent, id, batch_keep(&mending->batch, name), ino);
}

static int by_ino(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return (x->ino > y->ino) - (x->ino < y->ino);
}

struct seen *seen_get(struct mending *mending, uint64_t ino)
{
	struct seen *seen = calloc(1, sizeof(*seen)), **found = NULL;

	if (seen) {
		seen->ino = ino;
		found = tsearch(seen, &mending->seen, by_ino);
	}
	if (!found || *found != seen)
		free(seen);
	return found ? *found : NULL;
}

bool was_seen(struct mending *mending, uint64_t ino)
{
	struct seen **found = tfind(&(struct seen){ .ino = ino }, &mending->seen, by_ino);

	return ino == BACKEND_ROOT || ino == BACKEND_TRASH || (found && (*found)->names > 0);
}

int mend_see(struct mending *mending, uint64_t parent, uint64_t entry,
	     const struct backend_node *node)
{
	struct seen *seen = seen_get(mending, node->ino);

	if (!seen)
		return -ENOMEM;
	seen->names++;
	seen->parent = parent;
	seen->entry = entry;
	seen->at_home |= node->parent == parent && node->entry == entry;
	if (!S_ISDIR(node->mode) || parent == BACKEND_TRASH)
		return 0;
	seen = seen_get(mending, parent);
	if (!seen)
		return -ENOMEM;
	seen->directories++;
	return 0;
}

void place_dir_free(struct place_dir *dir)
{
	if (!dir)
		return;
	buf_done(&dir->session);
	buf_done(&dir->dirs);
	buf_done(&dir->path);
	free(dir);
}

int mend_walk_later(struct mending *mending, uint64_t ino, const struct place_dir *above,
		    struct bytes session, struct bytes name)
{
	struct place_dir *dir = calloc(1, sizeof(*dir));
	int r = dir ? 0 : -ENOMEM;

	if (r == 0)
		r = buf_reserve(&dir->session, 1);
	if (r == 0)
		r = buf_append_bytes(&dir->session, above ? buf_bytes(&above->session) : session);
	if (r == 0 && above)
		r = buf_append_bytes(&dir->dirs, buf_bytes(&above->dirs));
	if (r == 0 && above)
		r = names_decode(NAMES_KEY, name, &dir->dirs);
	if (r == 0 && above)
		r = buf_append_byte(&dir->dirs, '/');
	if (r < 0) {
		place_dir_free(dir);
		return r;
	}
	dir->ino = ino;
	dir->next = mending->todo;
	mending->todo = dir;
	return 0;
}

int mend_walk_outside(struct mending *mending, uint64_t ino, const struct place_dir *above,
		      struct bytes name)
{
	struct place_dir *dir;
	int r = mend_walk_later(mending, ino, NULL, (struct bytes){ 0 }, (struct bytes){ 0 });

	if (r < 0)
		return r;
	dir = mending->todo;
	dir->outside = true;
	if (!above)
		return 0;
	return buf_join(&dir->path, buf_bytes(&above->path), name, BYTES("/"));
}
