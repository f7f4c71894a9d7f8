/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_INTERNAL_H
#define FS_KERNEL_INTERNAL_H

/*
 * Inside the kernel side.
 *
 *   The kernel's lookup counts of the nodeids of a file are counts of the struct inode, so the
 *   inode of every request is in the tree's table.  fi->fh is a struct open_file.
 *
 *   The kernel keeps names, attributes and pages as long as it likes (KEEP_SECONDS): it is notified
 *   of every change that it did not make (notify.c).  Handles of state files that can write, and
 *   those that read something small, bypass the page cache: the bytes that a writer holds back must
 *   not be seen by others, and a reader sees one version.
 */

#include <fuse_lowlevel.h>
#include <stdatomic.h>

#include "fs/kernel/session.h"
#include "fs/api/tree.h"
#include "backend/base/log-news.h"
#include "backend/base/thread.h"

/* An open file, in the session's list so that the end of the mount can free what is left. */
struct open_file {
	struct handle *handle; /* NULL: a directory */
	struct stream *stream; /* NULL: none; streams.c */
	uint64_t id;	       /* never used again */
	bool flushes;	       /* the kernel sends FLUSH at each close of a descriptor */
	bool can_map;	       /* an ordinary file, for reading and writing: see maps.h */
	enum tree_memory by_name;
	uint64_t lease;	   /* lease of the mount that it needs, as its name says memory; 0: none */
	uint64_t list_end; /* of a directory: later entries are not listed */
	int list_error;	   /* and what its listing ends with, or 0 */
	struct open_file *next;
	struct open_file **link;
};

struct lock_requests; /* lock-requests.c */
struct streams;	      /* streams.c */
struct stream;

struct session {
	struct tree *tree;
	struct fuse_session *fuse;
	struct session_options options;
	char *mountpoint;
	bool mounted;
	double keep;	     /* seconds that the kernel may cache names and attributes */
	double keep_missing; /* and missing names, while this is the only mount */
	unsigned threads;
	/* notify.c: the kernel has asked for something in the root directory; and a notice about
	 * that directory was held back until then. */
	atomic_bool root_used, root_changed;
	uint64_t hello;	  /* device.c: the number of the first request */
	bool direct_mmap; /* the kernel can map files that bypass the page cache */
	pthread_mutex_t files_lock;
	struct open_file *files;
	uint64_t last_file;
	struct log_news refused; /* maps.c; under files_lock */
	struct lock_requests *locks;
	struct streams *streams;
};

extern const struct fuse_lowlevel_ops session_ops;

struct open_file *open_file_new(struct session *session, struct handle *handle);
/* Takes it out of the list; the caller frees the handle inside. */
struct handle *open_file_free(struct session *session, struct open_file *file);

#endif
