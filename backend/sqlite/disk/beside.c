/* SPDX-License-Identifier: MIT */

/*
 * Files of ours beside the store.
 *
 * They begin with a sentence that says what they are.  A file of such a name without that sentence
 * is not ours and stays as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

const char *sqlite_beside_name(char name[BESIDE_NAME], const char *path, const char *ending)
{
	snprintf(name, BESIDE_NAME, "%s%s", path, ending);
	return name;
}

uint64_t sqlite_beside_size(const char *path, const char *ending)
{
	struct stat st;

	return stat(BESIDE(path, ending), &st) == 0 ? (uint64_t)st.st_size : 0;
}

int sqlite_beside_open(const char *path, const char *ending, const char *sentence, int flags)
{
	const size_t size = strlen(sentence);
	char begin[256];
	_cleanup_(closep) int fd = -1;
	struct stat st, store;
	ssize_t got;

	if (stat(path, &store) < 0 || size > sizeof(begin))
		return -ENAMETOOLONG;
	fd = descriptor_open(BESIDE(path, ending), O_RDWR | O_NOFOLLOW | O_NONBLOCK | flags,
			     store.st_mode & 0666);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return -EEXIST;
	got = pread(fd, begin, size, 0);
	if (got != 0 && (got != (ssize_t)size || memcmp(begin, sentence, size) != 0))
		return -EEXIST;
	/* As SQLite does with its own files beside the store. */
	if (geteuid() == 0 && (st.st_uid != store.st_uid || st.st_gid != store.st_gid) &&
	    fchown(fd, store.st_uid, store.st_gid) < 0)
		return -errno;
	got = fd;
	fd = -1;
	return (int)got;
}

static void remove_own(const char *path, const char *ending, const char *sentence)
{
	const char *name = BESIDE(path, ending);
	_cleanup_(closep) int fd = descriptor_open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	const size_t size = strlen(sentence);
	char begin[256];

	if (fd >= 0 && size <= sizeof(begin) && pread(fd, begin, size, 0) == (ssize_t)size &&
	    memcmp(begin, sentence, size) == 0)
		unlink(name);
}

void sqlite_beside_remove(const char *path)
{
	remove_own(path, sqlite_reserve_ending, sqlite_reserve_sentence);
	remove_own(path, sqlite_mounts_ending, sqlite_mounts_sentence);
}

const char sqlite_mounts_ending[] = "-mounts";
const char sqlite_mounts_sentence[] = "sessfs keeps here which mounts have the store.  The file "
				      "may be deleted while its store is "
				      "not mounted.\n";
const char sqlite_reserve_ending[] = "-reserve";
const char sqlite_reserve_sentence[] =
	"sessfs keeps this room to be able to delete on a full disk.  The file may be deleted "
	"while its store is not mounted.\n";
