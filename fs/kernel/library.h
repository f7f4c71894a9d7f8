/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_LIBRARY_H
#define FS_KERNEL_LIBRARY_H

/*
 * Differences between versions of libfuse; no other file checks its version.
 *
 *   3.17   Capabilities are 64 bits wide and are changed by functions.  Among them is
 *          FUSE_CAP_DIRECT_IO_ALLOW_MMAP, which device.c asks for otherwise.  There is an operation
 *          for open(2) with O_TMPFILE.
 *   3.18   Requests may come by io_uring, if the daemon's environment says so (FUSE_URING_ENABLE);
 *          ops.c tells why ours do not.
 */

#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
enum { LIBRARY_MAPS_DIRECT = 1 };
#else
enum { LIBRARY_MAPS_DIRECT = 0 };
#define FUSE_CAP_DIRECT_IO_ALLOW_MMAP 0
#endif

#ifndef FUSE_CAP_OVER_IO_URING
#define FUSE_CAP_OVER_IO_URING 0
#endif

/* -ENOSYS: the kernel cannot do it (before Linux 6.2), or libfuse 3.12 or 3.13, which have the
 * function in another form. */
static inline int library_expire_entry(struct fuse_session *se, fuse_ino_t parent, const char *name,
				       size_t size)
{
#if FUSE_VERSION >= 314
	return fuse_lowlevel_notify_expire_entry(se, parent, name, size, FUSE_LL_EXPIRE_ONLY);
#else
	(void)se;
	(void)parent;
	(void)name;
	(void)size;
	return -ENOSYS;
#endif
}

/* Ask for a capability, if the kernel offers it; returns whether it does. */
static inline bool library_want(struct fuse_conn_info *conn, uint64_t capability)
{
#ifdef HAVE_FUSE_SET_FEATURE_FLAG
	return fuse_set_feature_flag(conn, capability);
#else
	conn->want |= conn->capable & (unsigned)capability;
	return conn->capable & (unsigned)capability;
#endif
}

static inline void library_refuse(struct fuse_conn_info *conn, uint64_t capability)
{
#ifdef HAVE_FUSE_SET_FEATURE_FLAG
	fuse_unset_feature_flag(conn, capability);
#else
	conn->want &= ~(unsigned)capability;
#endif
}

#endif
