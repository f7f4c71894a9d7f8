/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_SESSION_H
#define FS_KERNEL_SESSION_H

/*
 * A mount: the FUSE session that serves a tree at a mount point.
 *
 * session_mount() must run in the process that will serve (after any fork), session_serve() blocks
 * until the tree was unmounted or session_stop() was called.  session_stop() may be called from a
 * signal handler.  The tree is borrowed and must outlive the session.
 */

#include <stdbool.h>

struct session;
struct tree;

struct session_options {
	const char *mountpoint; /* an existing directory */
	const char *source;	/* what the mount table shows: the store's name */
	bool allow_other;
	bool read_only;
	bool dev;	   /* device nodes are devices */
	bool suid;	   /* set-id bits have effect */
	bool debug;	   /* libfuse prints each request to stderr */
	unsigned threads;  /* at the most; 0: a default */
	const char *extra; /* options that are handed on unchanged ("noexec,sync"), or NULL */
	/* Called once, and each may be NULL: */
	int (*mounted)(void *arg);  /* by session_mount(), before it starts threads; 0 or -errno */
	void (*ready)(void *arg);   /* when the kernel has said hello */
	void (*unmount)(void *arg); /* by session_free(), if it is still mounted; unmounts lazily */
	void *arg;
};

/* The version of libfuse that this process runs with; it was built with FUSE_BUILT. */
const char *session_library(void);

/* Mount.  On failure *ret_why is a sentence for the user, owned by the caller. */
int session_mount(struct tree *tree, const struct session_options *options,
		  struct session **ret_session, char **ret_why);
/* Serve until unmounted or stopped; 0, or -errno when the device failed. */
int session_serve(struct session *session);
/* Make session_serve() return soon; async-signal-safe. */
void session_stop(struct session *session);
/* Unmounts, if still mounted. */
void session_free(struct session *session);

#endif
