/* SPDX-License-Identifier: MIT */
#include "src/daemon/remount.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/mounts/mounts.h"

static const struct {
	const char *name;
	unsigned long flag;
} words[] = {
	{ "noexec", MS_NOEXEC },
	{ "sync", MS_SYNCHRONOUS },
	{ "dirsync", MS_DIRSYNC },
};

static bool has_word(const char *list, const char *word)
{
	size_t size = strlen(word);

	for (; list && *list; list = strchr(list, ','), list += list != NULL)
		if (strncmp(list, word, size) == 0 && (!list[size] || list[size] == ','))
			return true;
	return false;
}

static unsigned long flags_of(const struct options *options)
{
	unsigned long flags = MS_REMOUNT | MS_NOATIME;

	if (options->tree.read_only)
		flags |= MS_RDONLY;
	if (!options->allow_dev || options->nodev)
		flags |= MS_NODEV;
	if (!options->allow_suid || options->nosuid)
		flags |= MS_NOSUID;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (has_word(options->extra.data, words[i].name))
			flags |= words[i].flag;
	return flags;
}

int remount(const char *dir, const struct options *options)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	int r = mounts_find(dir, &entry);

	if (r < 0 || strcmp(entry.type, MOUNTS_TYPE) != 0) {
		log_error("%s is not a mount of sessfs that can be remounted", dir);
		return r < 0 ? r : -EINVAL;
	}
	if (mount(entry.source, dir, NULL, flags_of(options), NULL) < 0) {
		r = -errno;
		return log_fail(r, "cannot remount %s: %s", dir, strerror(-r));
	}
	return 0;
}
