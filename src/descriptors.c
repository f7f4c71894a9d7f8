/* SPDX-License-Identifier: MIT */
#include "src/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_name(pid_t pid, const char *number, const char *name)
{
	char path[64], target[PATH_MAX];
	size_t length = strlen(name);
	ssize_t size;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, number);
	size = readlink(path, target, sizeof(target));
	return size > (ssize_t)length && target[(size_t)size - length - 1] == '/' &&
	       memcmp(target + (size_t)size - length, name, length) == 0;
}

static bool is_of(pid_t pid, const char *number, uint64_t ino, int access)
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
	return found == ino && ((int)flags & O_ACCMODE) == access;
}

unsigned descriptors_count(pid_t pid, uint64_t ino, int access, const char *name)
{
	struct dirent *entry;
	unsigned count = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.' && has_name(pid, entry->d_name, name) &&
			 is_of(pid, entry->d_name, ino, access);
	closedir(dir);
	return count;
}
