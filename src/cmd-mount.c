/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "backend/backend.h"
#include "fs/kernel/session.h"
#include "fs/model/trash.h"
#include "fs/model/tree-options.h"
#include "src/base/buf.h"
#include "src/base/cleanup.h"
#include "src/base/heap.h"
#include "src/base/log.h"
#include "src/cmd.h"
#include "src/daemon.h"
#include "src/guard.h"
#include "src/mounts.h"
#include "src/options.h"
#include "src/remount.h"
#include "src/say.h"
#include "src/service.h"
#include "src/trust.h"
#include "src/aide.h"

/* How many dead mounts may lie on top of each other before we give up. */
enum { DEAD_MOUNTS_MAX = 16 };

/* Milliseconds that a daemon gets to finish, when umount(8) has returned before it was done. */
enum { LAST_OWNER_LIMIT = 1000 };

struct mount {
	struct options options;
	bool foreground;
	char *store; /* absolute, or memory: */
	char *dir;   /* absolute */
	struct guard guard;
	struct aide aide;
	struct tree *tree;
	char *why; /* the store could not be opened: a sentence for the user */
};

/* The session that the signals stop. */
static struct session *serving;

static void mount_done(struct mount *mount)
{
	options_done(&mount->options);
	free(mount->store);
	free(mount->dir);
	free(mount->why);
	guard_done(&mount->guard);
}

/* A sentence of a lower room, or the plain error when there was no memory for one. */
static void say_why(const char *why, int error)
{
	log_error("%s", why ? why : strerror(-error));
}

static void on_stop(int number)
{
	(void)number;
	session_stop(serving);
}

static void stop_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

/* From here on the signals end the session.  They were blocked since before there was a mount, so
 * none can end the process and leave a dead mount behind. */
static void watch_signals(struct session *session)
{
	struct sigaction action = { .sa_handler = on_stop };
	sigset_t set;

	serving = session;
	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	stop_signals(&set);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void forget_signals(void)
{
	sigset_t set;

	stop_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	serving = NULL;
}

static void on_ready(void *arg)
{
	const struct mount *mount = arg;

	daemon_ready();
	log_info("%s is mounted on %s", mount->store, mount->dir);
	service_ready("%s is mounted on %s", mount->store, mount->dir);
}

static int open_store(const struct mount *mount, struct backend **ret_backend, char **ret_why)
{
	const struct options *options = &mount->options;
	_cleanup_(buf_done) struct buf owner = { 0 };
	struct backend_options wanted = {
		.table = options->table,
		.read_only = options->read_only,
		.create = !options->read_only,
		.max_size = options->max_size,
	};
	int r = buf_printf(&owner, "process %d, mounted on %s", (int)getpid(), mount->dir);

	if (r < 0)
		return r;
	wanted.owner = owner.data;
	if (!options->read_only)
		mounts_wait_unowned(mount->store, LAST_OWNER_LIMIT);
	return backend_open(mount->store, &wanted, ret_backend, ret_why);
}

static unsigned on_count(void *arg, pid_t pid, uint64_t ino, int access, struct bytes name)
{
	struct mount *mount = arg;

	return aide_count(&mount->aide, pid, ino, access, name);
}

/* Runs in a thread with no more rights than the store's owner has. */
static int open_tree(void *arg)
{
	struct mount *mount = arg;
	const struct options *options = &mount->options;
	struct tree_options wanted = {
		.read_only = options->read_only,
		.strict = options->strict,
		.exact = options->exact,
		.set_pause = options->set_pause,
		.pause = options->pause,
		.expires = true,
		.ttl = options->ttl,
		.grace = options->set_grace ? options->grace : TRASH_GRACE,
		.set_uid = options->set_uid,
		.set_gid = options->set_gid,
		.set_umask = options->set_umask,
		.uid = options->uid,
		.gid = options->gid,
		.umask = options->umask,
		.count_descriptors = on_count,
		.arg = mount,
	};
	struct backend *backend;
	int r = open_store(mount, &backend, &mount->why);

	if (r < 0)
		return r;
	r = tree_open(backend, &wanted, &mount->tree, &mount->why);
	if (r < 0)
		backend_close(backend);
	return r;
}

/* There is a mount, and no thread yet that serves it. */
static int on_mounted(void *arg)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	struct mount *mount = arg;
	int r = mounts_find(mount->dir, &entry);

	if (r == 0)
		aide_tell_device(&mount->aide, entry.device);
	else
		log_warning("the mount on %s is not in the kernel's table: %s", mount->dir,
			    strerror(-r));
	r = guard_enter(&mount->guard);
	if (r < 0)
		log_error("cannot give up root's rights: %s", strerror(-r));
	return r;
}

static void on_unmount(void *arg)
{
	struct mount *mount = arg;

	aide_unmount(&mount->aide);
}

static int open_session(struct mount *mount, struct session **ret_session)
{
	const struct options *options = &mount->options;
	struct session_options wanted = {
		.mountpoint = mount->dir,
		.source = mount->store,
		.allow_other = options->allow_other,
		.read_only = options->read_only,
		.auto_unmount = options->auto_unmount,
		.dev = options->allow_dev && !options->nodev,
		.suid = options->allow_suid && !options->nosuid,
		.debug = options->debug,
		.threads = options->threads,
		.extra = options->extra.data,
		.mounted = on_mounted,
		.ready = on_ready,
		.unmount = on_unmount,
		.arg = mount,
	};

	return session_mount(mount->tree, &wanted, ret_session, &mount->why);
}

static int serve_session(struct mount *mount)
{
	struct session *session;
	int r = open_session(mount, &session);

	if (r < 0) {
		say_why(mount->why, r);
		return CMD_FAILED;
	}
	watch_signals(session);
	r = session_serve(session);
	forget_signals();
	service_stopping();
	if (r < 0)
		log_error("the mount on %s has failed: %s", mount->dir, strerror(-r));
	session_free(session);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

static int serve_store(struct mount *mount)
{
	int r = guard_run(&mount->guard, open_tree, mount);
	int status;

	if (r < 0) {
		say_why(mount->why, r);
		return CMD_FAILED;
	}
	status = serve_session(mount);
	tree_close(mount->tree);
	return status;
}

/* Mount and serve until the end; the exit status.  The store's file is for its owner alone, since
 * the modes of the files in it do not bind who reads the database. */
static int serve(void *arg)
{
	struct mount *mount = arg;
	sigset_t set;
	int status;
	int r;

	heap_keep_little();
	umask(077);
	signal(SIGPIPE, SIG_IGN);
	stop_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	r = aide_start(&mount->aide, mount->dir);
	if (r < 0) {
		log_error("cannot start a process: %s", strerror(-r));
		return CMD_FAILED;
	}
	status = serve_store(mount);
	aide_done(&mount->aide);
	return status;
}

static int answers(void *arg)
{
	const struct mount *mount = arg;
	struct statfs space;

	if (statfs(mount->dir, &space) == 0)
		return 0;
	log_error("the mount on %s does not answer: %s", mount->dir, strerror(errno));
	return -EIO;
}

/* A daemon that was killed leaves a mount point that answers ENOTCONN: take it away. */
static int detach_dead(const struct mount *mount)
{
	for (int i = 0; i < DEAD_MOUNTS_MAX; i++) {
		_cleanup_(freep) char *why = NULL;
		int r = mounts_end_dead(mount->dir, &why);

		if (r < 0)
			say_why(why, r);
		if (r <= 0)
			return r;
		log_info("took away a dead mount on %s", mount->dir);
	}
	return 0;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int check_unused(const struct mount *mount)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	int r = mounts_find(mount->dir, &entry);

	if (r < 0 || strcmp(entry.type, MOUNTS_TYPE) != 0)
		return 0;
	log_error("%s is in use: %s is mounted there ('sessfs umount %s' ends that)", mount->dir,
		  entry.source, mount->dir);
	return -EBUSY;
}

static int check_empty(const struct mount *mount)
{
	const struct dirent *entry;
	DIR *dir = opendir(mount->dir);
	int r = 0;

	if (!dir) {
		r = -errno;
		log_error("cannot look into %s: %s", mount->dir, strerror(-r));
		return r;
	}
	do
		entry = readdir(dir);
	while (entry && is_dots(entry->d_name));
	/* It may be another mount by now, which came at the same time. */
	if (entry)
		r = check_unused(mount);
	if (entry && r == 0) {
		log_error("%s is not empty, and a mount would hide what is in it; choose an empty "
			  "directory, or add -o nonempty",
			  mount->dir);
		r = -ENOTEMPTY;
	}
	closedir(dir);
	return r;
}

/* A store below the mount point could not be reached any more, least of all by its own daemon. */
static int check_store_outside(const struct mount *mount)
{
	size_t size = strlen(mount->dir);

	if (strncmp(mount->store, mount->dir, size) != 0 || mount->store[size] != '/')
		return 0;
	log_error("the store %s lies in the mount point %s; put it elsewhere", mount->store,
		  mount->dir);
	return -EINVAL;
}

static int check_dir(const struct mount *mount)
{
	struct stat status;
	int r = check_unused(mount);

	if (r < 0)
		return r;
	if (stat(mount->dir, &status) < 0) {
		r = -errno;
		if (r == -ENOENT)
			log_error("the mount point %s does not exist; make it first", mount->dir);
		else
			log_error("cannot use %s as mount point: %s", mount->dir, strerror(-r));
		return r;
	}
	if (!S_ISDIR(status.st_mode)) {
		log_error("%s is not a directory; the mount point must be one", mount->dir);
		return -ENOTDIR;
	}
	if (mount->options.nonempty)
		return 0;
	return check_empty(mount);
}

static int check_trust(const char *path, enum trust_kind kind)
{
	_cleanup_(freep) char *why = NULL;
	int r = trust_path(path, kind, &why);

	if (r < 0)
		say_why(why, r);
	return r;
}

static int find_store(struct mount *mount, const char *store)
{
	int r;

	if (strcmp(store, "memory:") == 0) {
		mount->store = bytes_dup(bytes_str(store));
		return mount->store ? 0 : -ENOMEM;
	}
	r = check_trust(store, TRUST_STORE);
	if (r < 0)
		return r;
	r = mounts_absolute(store, &mount->store);
	if (r == -ENOENT)
		log_error("the directory of the store %s does not exist; make it first", store);
	else if (r < 0)
		log_error("cannot reach the store %s: %s", store, strerror(-r));
	return r;
}

static int find_dir(struct mount *mount, const char *dir)
{
	int r = check_trust(dir, TRUST_MOUNTPOINT);

	if (r < 0)
		return r;
	r = mounts_absolute(dir, &mount->dir);
	if (r < 0)
		log_error("cannot reach the mount point %s: %s", dir, strerror(-r));
	return r;
}

static int plan_guard(struct mount *mount)
{
	const char *store = strcmp(mount->store, "memory:") == 0 ? NULL : mount->store;

	return guard_plan(&mount->guard, store, mount->options.read_only);
}

/* Everything that can be found out before the store is opened. */
static int prepare(struct mount *mount, const char *store, const char *dir)
{
	int r = find_store(mount, store);

	if (r == 0)
		r = find_dir(mount, dir);
	if (r == 0)
		r = plan_guard(mount);
	if (r == 0)
		r = detach_dead(mount);
	if (r == 0)
		r = check_dir(mount);
	if (r == 0)
		r = check_store_outside(mount);
	return r;
}

static int take_options(struct mount *mount, const char *text)
{
	_cleanup_(freep) char *why = NULL;
	int r = options_parse(&mount->options, text, &why);

	if (r < 0)
		say_why(why, r);
	return r;
}

/* The operands are then argv[optind] and argv[optind + 1]. */
static int parse(struct mount *mount, int argc, char **argv)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };
	int option;

	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, ":fdo:", none, NULL)) != -1) {
		switch (option) {
		case 'f':
			mount->foreground = true;
			break;
		case 'd':
			mount->options.debug = true;
			break;
		case 'o':
			if (take_options(mount, optarg) < 0)
				return CMD_USAGE;
			break;
		case ':':
			return cmd_misused(&cmd_mount, "the options are missing behind -o");
		default:
			return cmd_misused(&cmd_mount, "the option '%s' is unknown",
					   argv[optind - 1]);
		}
	}
	if (argc - optind != 2)
		return cmd_misused(&cmd_mount, "mount takes a store and a directory");
	return CMD_DONE;
}

static int run_remount(const struct mount *mount, const char *dir)
{
	_cleanup_(freep) char *path = NULL;
	int r = mounts_absolute(dir, &path);

	if (r < 0)
		log_error("cannot reach the mount point %s: %s", dir, strerror(-r));
	else
		r = remount(path, &mount->options);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

static int run_mount(int argc, char **argv)
{
	_cleanup_(mount_done) struct mount mount = { 0 };
	struct daemon daemon = { .run = serve, .answers = answers, .arg = &mount };
	int status = parse(&mount, argc, argv);

	if (status != CMD_DONE)
		return status;
	if (mount.options.privileged && geteuid() != 0) {
		log_error("only root may mount with -o %s", mount.options.privileged);
		return CMD_FAILED;
	}
	if (mount.options.remount)
		return run_remount(&mount, argv[optind + 1]);
	guard_begin(mount.options.debug);
	if (mount.options.debug)
		mount.foreground = true;
	if (mount.foreground) {
		say_to_stderr(mount.options.debug ? LOG_DEBUG : LOG_INFO);
		service_begin();
	} else {
		say_while_starting();
	}
	if (prepare(&mount, argv[optind], argv[optind + 1]) < 0)
		return CMD_FAILED;
	return mount.foreground ? serve(&mount) : daemon_start(&daemon);
}

static void help(void)
{
	printf("STORE is a file, made when it is not there, or 'memory:' for a store that is gone "
	       "when\n"
	       "the mount ends.  DIR is an empty directory.  Returns when the mount can be used.\n"
	       "\n"
	       "  -f            stay in the foreground\n"
	       "  -d            stay in the foreground and log every request\n"
	       "  -o OPTIONS    options with commas between them:\n"
	       "\n");
	options_print(stdout);
	printf("\n"
	       "default_permissions is always on, and nosuid and nodev are unless allowed.  "
	       "Further "
	       "words of\n"
	       "mount(8) and fstab(5), such as rw, noatime, user and x-systemd.automount, are "
	       "accepted.\n"
	       "The exit status is 0, 1 when the store cannot be mounted, 2 for a wrong command "
	       "line.\n");
}

const struct command cmd_mount = {
	.name = "mount",
	.arguments = "[-f] [-d] [-o OPTIONS] STORE DIR",
	.summary = "show a store as a directory",
	.help = help,
	.run = run_mount,
};
