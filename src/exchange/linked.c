/* SPDX-License-Identifier: MIT */
#include "src/exchange/linked.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct file {
	dev_t dev;
	ino_t ino;
	char path[];
};

static int compare(const void *a, const void *b)
{
	const struct file *one = a, *other = b;

	if (one->dev != other->dev)
		return one->dev < other->dev ? -1 : 1;
	return one->ino < other->ino ? -1 : one->ino > other->ino;
}

const char *linked_find(const struct linked *linked, const struct stat *st)
{
	const struct file wanted = { .dev = st->st_dev, .ino = st->st_ino };
	struct file **found = tfind(&wanted, &linked->root, compare);

	return found ? (*found)->path : NULL;
}

int linked_keep(struct linked *linked, const struct stat *st, const char *path)
{
	struct file *file = malloc(sizeof(*file) + strlen(path) + 1), **found;

	if (!file)
		return -ENOMEM;
	*file = (struct file){ .dev = st->st_dev, .ino = st->st_ino };
	strcpy(file->path, path);
	found = tsearch(file, &linked->root, compare);
	if (found && *found == file)
		return 0;
	/* It is known already: in its place. */
	free(found ? *found : file);
	if (found)
		*found = file;
	return found ? 0 : -ENOMEM;
}

void linked_done(struct linked *linked)
{
	tdestroy(linked->root, free);
	linked->root = NULL;
}
