/* SPDX-License-Identifier: MIT */
#include "src/daemon/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/descriptor.h"

static bool ends_with(const char *text, size_t size, const char *name)
{
	size_t length = strlen(name);

	return size > length && text[size - length - 1] == '/' &&
	       memcmp(text + size - length, name, length) == 0;
}

static bool has_name(pid_t pid, const char *number, const char *name)
{
	/* The kernel puts it behind every name that it was told to forget. */
	static const char forgotten[] = " (deleted)";
	char path[64], target[PATH_MAX], wanted[NAME_MAX + sizeof(forgotten)];
	ssize_t size;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, number);
	size = readlink(path, target, sizeof(target));
	snprintf(wanted, sizeof(wanted), "%s%s", name, forgotten);
	return size > 0 &&
	       (ends_with(target, (size_t)size, name) || ends_with(target, (size_t)size, wanted));
}

static bool is_of(pid_t pid, const char *number, uint64_t ino, unsigned access)
{
	unsigned long long found = 0;
	unsigned flags = 0;
	char path[64], line[128];
	FILE *info;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.20s", (int)pid, number);
	info = fopen(path, "re");
	if (!info)
		return false;
	while (!found && fgets(line, sizeof(line), info))
		if (sscanf(line, "flags: %o", &flags) != 1)
			sscanf(line, "ino: %llu", &found);
	fclose(info);
	return found == ino && (access & descriptor_access((int)flags));
}

int descriptors_count(pid_t pid, uint64_t ino, unsigned access, const char *name)
{
	struct dirent *entry;
	int count = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.' &&
			 (!*name || has_name(pid, entry->d_name, name)) &&
			 is_of(pid, entry->d_name, ino, access);
	closedir(dir);
	return count;
}
