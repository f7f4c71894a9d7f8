/* SPDX-License-Identifier: MIT */
#include "src/exchange/linked.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct file {
	dev_t dev;
	ino_t ino;
	char *path;
};

static int compare(const void *a, const void *b)
{
	const struct file *one = a, *other = b;

	if (one->dev != other->dev)
		return one->dev < other->dev ? -1 : 1;
	return one->ino < other->ino ? -1 : one->ino > other->ino;
}

static void file_free(void *node)
{
	struct file *file = node;

	free(file->path);
	free(file);
}

static struct file *linked_file(const struct linked *linked, const struct stat *st)
{
	const struct file wanted = { .dev = st->st_dev, .ino = st->st_ino };
	struct file **found = tfind(&wanted, &linked->root, compare);

	return found ? *found : NULL;
}

const char *linked_find(const struct linked *linked, const struct stat *st)
{
	const struct file *file = linked_file(linked, st);

	return file ? file->path : NULL;
}

int linked_keep(struct linked *linked, const struct stat *st, const char *path)
{
	struct file *file = linked_file(linked, st);
	char *copy = strdup(path);

	if (file && copy) {
		free(file->path);
		file->path = copy;
		return 0;
	}
	file = copy ? calloc(1, sizeof(*file)) : NULL;
	if (!file) {
		free(copy);
		return -ENOMEM;
	}
	*file = (struct file){ st->st_dev, st->st_ino, copy };
	if (tsearch(file, &linked->root, compare))
		return 0;
	file_free(file);
	return -ENOMEM;
}

void linked_done(struct linked *linked)
{
	tdestroy(linked->root, file_free);
	linked->root = NULL;
}
