/* SPDX-License-Identifier: MIT */
#include "src/mounts/elsewhere.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "src/mounts/holders.h"

/* The mount namespaces that can be seen, each with a process through which to read its table of
 * mounts. */
struct spaces {
	struct elsewhere *list;
	size_t count, room;
	unsigned long here;
};

/* 0: it has ended, or may not be seen. */
static unsigned long space_of(const char *pid)
{
	char path[64], target[64];
	unsigned long number;
	ssize_t size;

	snprintf(path, sizeof(path), "/proc/%.20s/ns/mnt", pid);
	size = readlink(path, target, sizeof(target) - 1);
	target[MAX(size, 0)] = '\0';
	return sscanf(target, "mnt:[%lu]", &number) == 1 ? number : 0;
}

/* A daemon and its aide stay in the namespace in which mount was called; they do not keep it alive.
 */
static bool is_ours(long pid)
{
	char name[HOLDERS_NAME];

	return strncmp(holders_name(pid, name), "sessfs", strlen("sessfs")) == 0;
}

static int add_process(struct spaces *spaces, unsigned long space, long pid)
{
	for (size_t i = 0; i < spaces->count; i++) {
		struct elsewhere *known = &spaces->list[i];

		if (known->space != space)
			continue;
		if (is_ours(known->pid))
			known->pid = pid;
		else if (!is_ours(pid))
			known->more++;
		return 0;
	}
	if (ARRAY_ROOM(spaces->list, spaces->count, spaces->room) < 0)
		return -ENOMEM;
	spaces->list[spaces->count++] = (struct elsewhere){ .space = space, .pid = pid };
	return 0;
}

static int find_spaces(struct spaces *spaces)
{
	DIR *proc = opendir("/proc");
	const struct dirent *process;
	int r = 0;

	spaces->here = space_of("self");
	while (r == 0 && proc && (process = readdir(proc))) {
		unsigned long space =
			isdigit((unsigned char)*process->d_name) ? space_of(process->d_name) : 0;

		if (space && space != spaces->here)
			r = add_process(spaces, space, atol(process->d_name));
	}
	if (proc)
		closedir(proc);
	return r;
}

struct walk {
	elsewhere_fn *fn;
	void *arg;
	const struct elsewhere *where;
};

static int visit(void *arg, const struct mount_entry *entry)
{
	const struct walk *walk = arg;

	return strcmp(entry->type, MOUNTS_TYPE) == 0 ? walk->fn(walk->arg, entry, walk->where) : 0;
}

int elsewhere_each(elsewhere_fn *fn, void *arg)
{
	struct walk walk = { .fn = fn, .arg = arg };
	struct spaces spaces = { 0 };
	int r = find_spaces(&spaces);

	for (size_t i = 0; r == 0 && i < spaces.count; i++) {
		walk.where = &spaces.list[i];
		r = mounts_each_of(walk.where->pid, visit, &walk);
		/* Its last process may have ended meanwhile. */
		if (r == -ENOENT || r == -ESRCH || r == -EACCES || r == -EINVAL)
			r = 0;
	}
	free(spaces.list);
	return r;
}

int elsewhere_name(const struct elsewhere *where, struct buf *words)
{
	char name[HOLDERS_NAME];
	int r = buf_printf(words, "the mount namespace %lu of %s (%ld)", where->space,
			   holders_name(where->pid, name), where->pid);

	return r == 0 && where->more ? buf_printf(words, " and %u more", where->more) : r;
}

struct told {
	const struct mount_entry *entry;
	struct buf *words;
	unsigned long last; /* a namespace may have the mount several times */
};

static int tell_one(void *arg, const struct mount_entry *entry, const struct elsewhere *where)
{
	struct told *told = arg;
	int r = 0;

	/* A connection has the same number in the whole system. */
	if (!mounts_same(told->entry, entry) || where->space == told->last)
		return 0;
	told->last = where->space;
	if (told->words->size)
		r = buf_printf(told->words, ", ");
	return r < 0 ? r : elsewhere_name(where, told->words);
}

int elsewhere_tell(const struct mount_entry *entry, struct buf *words)
{
	struct told told = { .entry = entry, .words = words };

	return elsewhere_each(tell_one, &told);
}
