/* SPDX-License-Identifier: MIT */
#include "src/daemon/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/base/descriptor.h"
#include "src/mounts/holders.h"

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

struct wanted {
	unsigned device;
	uint64_t nodeid;
	unsigned access;
};

/* process: as in /proc.  *ret_any: it has descriptors at all. */
static int process_find(const char *process, const struct wanted *wanted, bool *ret_any)
{
	struct dirent *entry;
	struct statx known;
	long long flags;
	bool found = false;
	char path[96];
	DIR *dir;

	*ret_any = false;
	snprintf(path, sizeof(path), "/proc/%s/fd", process);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!found && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		*ret_any = true;
		snprintf(path, sizeof(path), "/proc/%s/fd/%.20s", process, entry->d_name);
		/* Other mounts have the same numbers. */
		found = has_nodeid(path, wanted->nodeid) &&
			statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, 0, &known) == 0 &&
			!known.stx_dev_major && known.stx_dev_minor == wanted->device;
		flags = found ? holders_number(process, entry->d_name, "flags: %llo", -1) : -1;
		found = flags >= 0 && (wanted->access & descriptor_access((int)flags));
	}
	closedir(dir);
	return found;
}

/* Of a process whose first thread has ended the others have the descriptors. */
static int find_in_threads(const char *process, const struct wanted *wanted)
{
	struct dirent *entry;
	bool any = false;
	char path[64];
	int r = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/task", process);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!any && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/task/%.20s", process, entry->d_name);
		r = process_find(path, wanted, &any);
	}
	closedir(dir);
	return any ? r : -ESRCH;
}

int descriptors_find(pid_t pid, unsigned device, uint64_t nodeid, unsigned access)
{
	const struct wanted wanted = { device, nodeid, access };
	char process[32];
	bool any;
	int r;

	snprintf(process, sizeof(process), "%d", (int)pid);
	r = process_find(process, &wanted, &any);
	return r != 0 || any ? r : find_in_threads(process, &wanted);
}
