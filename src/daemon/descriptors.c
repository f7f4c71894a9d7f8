/* SPDX-License-Identifier: MIT */
#include "src/daemon/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/base/descriptor.h"

/* What fuse.ko answers name_to_handle_at(2) with, without asking a daemon (Linux, fs/fuse/inode.c,
 * fuse_encode_fh()): the halves of the nodeid, and a generation. */
enum { HANDLE_TYPE = 0x81, HANDLE_WORDS = 3 };

static bool has_nodeid(const char *path, uint64_t nodeid)
{
	union {
		struct file_handle head;
		unsigned char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} handle;
	uint32_t word[HANDLE_WORDS];
	int mount;

	handle.head.handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, path, &handle.head, &mount, AT_SYMLINK_FOLLOW) < 0 ||
	    handle.head.handle_type != HANDLE_TYPE || handle.head.handle_bytes != sizeof(word))
		return false;
	memcpy(word, handle.head.f_handle, sizeof(word));
	return ((uint64_t)word[0] << 32 | word[1]) == nodeid;
}

/* Other mounts have the same numbers. */
static bool is_on(const char *path, unsigned device)
{
	struct statx known;

	return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, 0, &known) == 0 && !known.stx_dev_major &&
	       known.stx_dev_minor == device;
}

static unsigned access_of(pid_t pid, const char *number)
{
	unsigned flags = 0;
	char path[64], line[128];
	bool known = false;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.20s", (int)pid, number);
	info = fopen(path, "re");
	if (!info)
		return 0;
	while (!known && fgets(line, sizeof(line), info))
		known = sscanf(line, "flags: %o", &flags) == 1;
	fclose(info);
	return known ? descriptor_access((int)flags) : 0;
}

enum { FILES_MAX = 64 }; /* that are told from their duplicates */

/* Where that cannot be told, each is one. */
static bool is_duplicate(pid_t pid, const int *files, int count, int file)
{
	for (int i = 0; i < MIN(count, FILES_MAX); i++)
		if (syscall(SYS_kcmp, pid, pid, KCMP_FILE, files[i], file) == 0)
			return true;
	return false;
}

int descriptors_count(pid_t pid, unsigned device, uint64_t nodeid, unsigned access)
{
	int files[FILES_MAX], count = 0;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		int file = atoi(entry->d_name);

		snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, entry->d_name);
		if (entry->d_name[0] == '.' || !has_nodeid(path, nodeid) || !is_on(path, device) ||
		    !(access & access_of(pid, entry->d_name)) ||
		    is_duplicate(pid, files, count, file))
			continue;
		if (count < FILES_MAX)
			files[count] = file;
		count++;
	}
	closedir(dir);
	return count;
}
