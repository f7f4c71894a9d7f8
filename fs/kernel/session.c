/* SPDX-License-Identifier: MIT */
#include "fs/kernel/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs/kernel/device.h"
#include "fs/kernel/lock-requests.h"
#include "fs/kernel/notify.h"
#include "fs/kernel/streams.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

enum {
	THREADS = 32,	  /* that serve requests, at most, unless the options say otherwise */
	THREADS_IDLE = 8, /* that stay when there is nothing to do */
	KEEP_SECONDS = 86400,
};

/* A mount that may not write its own tables cannot know what changed: use a short time-out
 * instead. */
static const double KEEP_READ_ONLY = 0.05;

/* A name is missing until another mount makes it.  While there are other mounts, the kernel must
 * not cache missing names; a mount that joins waits until the kernels have forgotten those from
 * before. */
static const double KEEP_MISSING = 0.2;

const char *session_library(void)
{
	return fuse_pkgversion();
}

/* The mount options: the kernel checks permissions. */
static char *mount_options(const struct session_options *options)
{
	_cleanup_(freep) char *source = str_printf("fsname=%s", options->source);
	char *list = NULL;
	int r = source ? 0 : -1;

	r |= fuse_opt_add_opt(&list, "default_permissions,noatime,subtype=sessfs");
	r |= fuse_opt_add_opt(&list, options->dev ? "dev" : "nodev");
	r |= fuse_opt_add_opt(&list, options->suid ? "suid" : "nosuid");
	if (source)
		r |= fuse_opt_add_opt_escaped(&list, source);
	if (options->read_only)
		r |= fuse_opt_add_opt(&list, "ro");
	if (options->allow_other)
		r |= fuse_opt_add_opt(&list, "allow_other");
	if (options->extra && *options->extra)
		r |= fuse_opt_add_opt(&list, options->extra);
	if (r < 0) {
		free(list);
		return NULL;
	}
	return list;
}

static int session_create(struct session *session, char **ret_why)
{
	_cleanup_(freep) char *list = mount_options(&session->options);
	char *argv[] = { (char *)"sessfs", (char *)"-o", list, (char *)"-d", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(session->options.debug ? 4 : 3, argv);

	if (!list)
		return -ENOMEM;
	session->fuse = fuse_session_new(&args, &session_ops, sizeof(session_ops), session);
	fuse_opt_free_args(&args);
	return session->fuse ? 0 :
			       str_explain(ret_why, -EINVAL,
					   "the mount options were refused; see `sessfs mount "
					   "--help`");
}

/* The lines of libfuse and of fusermount3 in the text from stderr, as one line; NULL: none.  Lines
 * of other threads are written to stderr. */
static char *mount_words(char *said)
{
	char *words = NULL, *place = NULL;

	for (char *line = strtok_r(said, "\n", &place); line; line = strtok_r(NULL, "\n", &place)) {
		if (strncmp(line, "fuse", strlen("fuse")) != 0 &&
		    strncmp(line, "mount", strlen("mount")) != 0)
			fprintf(stderr, "%s\n", line);
		else
			str_explain(&words, 0, "%s%s%s", words ? words : "", words ? "; " : "",
				    line);
	}
	return words;
}

/* Mount, and catch stderr meanwhile: libfuse returns no reason, and fusermount3 can only write one
 * there. */
static int mount_listening(struct session *session, char **ret_words)
{
	enum { MOST = 4096 };
	_cleanup_(closep) int stderr_kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_(closep) int file = descriptor_above(memfd_create("sessfs-mount", MFD_CLOEXEC));
	char said[MOST + 1];
	ssize_t size;
	int r, error;

	if (stderr_kept >= 0 && file >= 0)
		dup2(file, STDERR_FILENO);
	errno = 0;
	r = fuse_session_mount(session->fuse, session->mountpoint);
	error = errno;
	if (stderr_kept >= 0 && file >= 0)
		dup2(stderr_kept, STDERR_FILENO);
	size = file >= 0 ? pread(file, said, MOST, 0) : 0;
	said[MAX(size, 0)] = '\0';
	if (r < 0)
		*ret_words = mount_words(said);
	else
		fputs(said, stderr);
	errno = error;
	return r;
}

int session_mount(struct tree *tree, const struct session_options *options,
		  struct session **ret_session, char **ret_why)
{
	struct session *session = calloc(1, sizeof(*session));
	_cleanup_(freep) char *words = NULL;
	int r = -ENOMEM;

	if (!session)
		return -ENOMEM;
	session->tree = tree;
	session->options = *options;
	session->threads = options->threads ? options->threads : THREADS;
	session->keep = tree_is_read_only(tree) ? KEEP_READ_ONLY : KEEP_SECONDS;
	session->keep_missing = MIN(session->keep, KEEP_MISSING);
	if (tree_is_shared(tree))
		usleep((useconds_t)(KEEP_MISSING * 1.25 * 1000000));
	pthread_mutex_init(&session->files_lock, NULL);
	session->mountpoint = strdup(options->mountpoint);
	if (session->mountpoint)
		r = session_create(session, ret_why);
	if (r < 0)
		goto fail;
	if (mount_listening(session, &words) < 0) {
		r = errno ? -errno : -EPERM;
		if (words)
			str_explain(ret_why, r, "cannot mount on %s: %s", session->mountpoint,
				    words);
		else
			str_explain(ret_why, r,
				    "cannot mount on %s (%s); is /dev/fuse there, and fusermount3 "
				    "installed?",
				    session->mountpoint, strerror(-r));
		goto fail;
	}
	session->mounted = true;
	r = options->mounted ? options->mounted(options->arg) : 0;
	if (r == 0)
		r = device_start(session);
	if (r == 0)
		r = lock_requests_start(session);
	if (r == 0)
		r = streams_start(session);
	if (r < 0)
		goto fail;
	notify_start(session);
	*ret_session = session;
	return 0;
fail:
	session_free(session);
	return r;
}

int session_serve(struct session *session)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r;

	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_max_threads(config, session->threads);
	fuse_loop_cfg_set_idle_threads(config, THREADS_IDLE);
	r = session->threads == 1 ? fuse_session_loop(session->fuse) :
				    fuse_session_loop_mt(session->fuse, config);
	fuse_loop_cfg_destroy(config);
	/* Not an errno: a thread could not be started (libfuse 3.14, fuse_loop_start_thread()). */
	if (r == -1)
		r = -EAGAIN;
	/* Positive: a signal ended the loop.  A read gets this error while the kernel aborts
	 * waiting requests (Linux, fuse_dev_do_read()): it is unmounted. */
	return r == -ECONNABORTED ? 0 : MIN(r, 0);
}

void session_stop(struct session *session)
{
	fuse_session_exit(session->fuse);
}

void session_free(struct session *session)
{
	if (!session)
		return;
	if (session->mounted) {
		notify_stop(session);
		lock_requests_stop(session);
		streams_stop(session);
		/* A daemon that has dropped the right to unmount lets another process do it.
		 * libfuse then finds the device cut off, and does not try. */
		if (session->options.unmount && !device_is_cut(session)) {
			session->options.unmount(session->options.arg);
			device_cut(session);
		}
		fuse_session_unmount(session->fuse);
	}
	while (session->files) {
		struct handle *handle = open_file_free(session, session->files);

		if (handle)
			handle_abandon(session->tree, handle);
	}
	streams_free(session);
	if (session->fuse)
		fuse_session_destroy(session->fuse);
	pthread_mutex_destroy(&session->files_lock);
	free(session->mountpoint);
	free(session);
}
