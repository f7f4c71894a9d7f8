/* SPDX-License-Identifier: MIT */
/*
 * Owning a store's file.
 *
 * An owner has a lock of an open file description on BACKEND_OWNER_BYTE: for writing when it has
 * the store alone, for reading when it shares it.  The kernel drops the lock with the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "backend/backend.h"
#include "backend/sqlite/owner/owner.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

/* All that share a file must use one log, which SQLite puts beside the name by which the file was
 * opened.  So each owner locks a byte that follows from the directory and the name, and no other
 * byte behind NAMES_AT may be locked. */
static const off_t NAMES_AT = INT64_C(1) << 61;
enum { NAMES_BITS = 61 };

/* The owner's name remains in the store when the owner ends, and a read-only owner does not write
 * one.  So a sole owner that has written its name locks a byte that follows from the name. */
static const off_t TOLD_AT = INT64_C(1) << 62;

off_t sqlite_owner_name(int dir, const char *name)
{
	uint64_t hash;
	struct stat st;

	if (!dir || fstat(dir, &st) < 0)
		return 0;
	hash = bytes_hash(BYTES_HASH, bytes_make(&st.st_dev, sizeof(st.st_dev)));
	hash = bytes_hash(hash, bytes_make(&st.st_ino, sizeof(st.st_ino)));
	hash = bytes_hash(hash, bytes_str(name));
	return NAMES_AT + (off_t)(hash >> (64 - NAMES_BITS));
}

static bool is_free(int fd, off_t start, off_t size)
{
	return size == 0 || !descriptor_is_locked(fd, start, size);
}

/* Filesystems on which another machine may have the file, too; there, locks and the memory by which
 * connections of SQLite know of each other need not be one (statfs(2) has the numbers). */
static const unsigned long remote[] = {
	0x6969,	    /* NFS */
	0x517b,	    /* SMB */
	0xff534d42, /* CIFS */
	0xfe534d42, /* SMB 2 */
	0x01021997, /* 9P */
	0x65735546, /* FUSE, and virtiofs */
	0x00c36400, /* Ceph */
	0x5346414f, /* AFS */
	0x6b414653, /* AFS, the kernel's own */
	0x73757245, /* Coda */
	0x0bd00bd0, /* Lustre */
	0x7461636f, /* OCFS2 */
	0x01161970, /* GFS2 */
	0x47504653, /* GPFS */
	0xa501fcf5, /* VxFS */
	0xbacbacbc, /* VMware's shared folders */
	0x786f4256, /* VirtualBox's */
};

bool sqlite_owner_is_local(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(remote); i++)
		if (((unsigned long)fs.f_type & 0xffffffff) == remote[i])
			return false;
	return true;
}

static int own_name(struct sqlite_owner *owner, int fd, off_t name)
{
	const off_t end = NAMES_AT + (INT64_C(1) << NAMES_BITS);
	int r = owner->name && owner->name != name ? -EBUSY :
						     descriptor_lock(fd, F_RDLCK, name, 1, false);

	if (r < 0)
		return r;
	owner->name = name;
	return is_free(fd, NAMES_AT, name - NAMES_AT) && is_free(fd, name + 1, end - name - 1) ?
		       0 :
		       -EBUSY;
}

static void unlock(struct sqlite_owner *owner, int fd)
{
	descriptor_lock(fd, F_UNLCK, BACKEND_OWNER_BYTE, 1, false);
	descriptor_lock(fd, F_UNLCK, NAMES_AT, 0, false);
	owner->name = owner->told = 0;
}

int sqlite_owner_take(struct sqlite_owner *owner, int fd, bool shared, off_t name)
{
	int r = 0;

	if (owner->count && !(shared && owner->shared))
		return -EBUSY;
	if (!owner->count)
		r = descriptor_lock(fd, shared ? F_RDLCK : F_WRLCK, BACKEND_OWNER_BYTE, 1, false);
	if (r == 0 && shared)
		r = own_name(owner, fd, name);
	if (r < 0 && !owner->count)
		unlock(owner, fd);
	if (r < 0)
		return r == -EAGAIN || r == -EACCES ? -EBUSY : r;
	owner->count++;
	owner->shared = shared;
	return 0;
}

void sqlite_owner_give(struct sqlite_owner *owner, int fd)
{
	if (--owner->count == 0)
		unlock(owner, fd);
}

static off_t told_byte(const char *called)
{
	return TOLD_AT + (off_t)(bytes_hash(BYTES_HASH, bytes_str(called)) >> (64 - NAMES_BITS));
}

void sqlite_owner_tell(struct sqlite_owner *owner, int fd, const char *called)
{
	const off_t byte = told_byte(called);

	owner->told = descriptor_lock(fd, F_WRLCK, byte, 1, false) < 0 ? 0 : byte;
}

bool sqlite_owner_told(const struct sqlite_owner *owner, int fd, const char *called)
{
	const off_t byte = told_byte(called);

	return owner->count ? owner->told == byte : !is_free(fd, byte, 1);
}

bool sqlite_owner_there(int fd)
{
	return descriptor_is_locked(fd, BACKEND_OWNER_BYTE, 1);
}
