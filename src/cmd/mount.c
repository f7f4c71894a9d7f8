/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "backend/backend.h"
#include "fs/kernel/session.h"
#include "fs/api/layout.h"
#include "fs/api/tree-options.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/heap.h"
#include "backend/base/log.h"
#include "src/daemon/daemon.h"
#include "src/daemon/guard.h"
#include "src/mounts/mounts.h"
#include "src/user/options.h"
#include "src/daemon/remount.h"
#include "src/user/say.h"
#include "src/user/settings.h"
#include "src/daemon/service.h"
#include "src/daemon/signals.h"
#include "src/mounts/trust.h"
#include "src/cmd/cmd.h"
#include "src/daemon/aide.h"

/* How many dead mounts may lie on top of each other before we give up. */
enum { DEAD_MOUNTS_MAX = 16 };

/* Milliseconds that a daemon gets to finish, when umount(8) has returned before it was done. */
enum { LAST_OWNER_LIMIT = 1000 };

struct mount {
	struct options options;
	bool foreground;
	char *store;			   /* an absolute path, memory:, or the name of a URL */
	char *dir;			   /* absolute */
	struct backend_prepared *prepared; /* of a URL, otherwise NULL */
	struct guard guard;
	struct aide aide;
	struct tree *tree;
	int turn;  /* locked while it mounts: of two that come at once, one is the first */
	char *why; /* the store could not be opened: a sentence for the user */
};

/* The session that the signals stop. */
static struct session *serving;

static void stop_serving(void)
{
	session_stop(serving);
}

/* Messages of a daemon without a terminal go to a log, or are lost.  A sentence that is printed
 * here still reaches the user that has called mount. */
static void choose_log(const struct mount *mount)
{
	static const char missing[] = "there is no system log here (/dev/log)";
	_cleanup_(freep) char *path = NULL;
	int r = -ENOENT;

	if (mount->foreground || say_has_syslog())
		return;
	if (backend_has_path(mount->store)) {
		path = str_printf("%s.log", mount->store);
		r = path ? say_open_file(path) : -ENOMEM;
	}
	if (r == 0)
		log_warning("%s, so the mount on %s logs to %s", missing, mount->dir, path);
	else
		log_warning("%s, and %s%s%s: the mount on %s logs nothing; with -f it logs to the "
			    "standard error",
			    missing, path ? path : "such a store has no place for a log",
			    path ? " cannot be written: " : "", path ? strerror(-r) : "",
			    mount->dir);
}

static void on_ready(void *arg)
{
	const struct mount *mount = arg;
	bool flawed;
	const char *version = backend_library(&flawed);

	choose_log(mount);
	daemon_ready();
	log_info("%s is mounted on %s", mount->store, mount->dir);
	if (flawed && backend_has_path(mount->store))
		log_info("SQLite %s can lose what two other programs commit to one database at "
			 "once, the WAL-reset bug; if any write to %s beside this mount, see SQL "
			 "CLIENTS in sessfs(5)",
			 version, mount->store);
	service_ready("%s is mounted on %s", mount->store, mount->dir);
}

/* The layout, an option that a store can only get while it is new. */
static void begin(struct backend *backend, const struct options *options)
{
	_cleanup_(freep) char *why = NULL;
	struct settings settings;

	if (settings_read(backend, &settings, NULL, &why) == 0 && !settings.set[SETTING_LAYOUT])
		(void)layout_begin(backend, options->layout);
}

/* Before the mount opens the store: a new one that nobody else has is made with the layout.
 * settings_agree() reports anything that stands against it. */
static void begin_store(const char *store, const struct options *options)
{
	const struct backend_options wanted = { .table = options->table,
						.create = true,
						.owner = "a mount that begins" };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(freep) char *why = NULL;

	if (options->set_layout && !options->tree.read_only && backend_has_path(store) &&
	    backend_open(store, &wanted, &backend, &why) == 0)
		begin(backend, options);
}

static int open_store(const struct mount *mount, struct backend **ret_backend, char **ret_why)
{
	const struct options *options = &mount->options;
	_cleanup_(buf_done) struct buf owner = { 0 };
	struct backend_options wanted = {
		.table = options->table,
		.read_only = options->tree.read_only,
		.create = !options->tree.read_only,
		.shared = !options->exclusive && !options->tree.read_only,
		.durable = options->durable,
		.prepared = mount->prepared,
	};
	int r = buf_printf(&owner, "process %d, mounted on %s", (int)getpid(), mount->dir);

	if (r < 0)
		return r;
	begin_store(mount->store, options);
	wanted.owner = owner.data;
	if (options->exclusive)
		mounts_wait_unowned(mount->store, LAST_OWNER_LIMIT);
	r = backend_open(mount->store, &wanted, ret_backend, ret_why);
	if (r != -EBUSY || options->tree.read_only ||
	    !mounts_wait_unowned(mount->store, LAST_OWNER_LIMIT))
		return r;
	/* A mount that does not share the store had it, and has ended now. */
	free(*ret_why);
	*ret_why = NULL;
	return backend_open(mount->store, &wanted, ret_backend, ret_why);
}

static int on_has_open(void *arg, pid_t pid, uint64_t nodeid, unsigned access)
{
	struct mount *mount = arg;

	return aide_has_open(&mount->aide, pid, nodeid, access);
}

/* Runs in a thread with no more rights than the store's owner has. */
static int open_tree(void *arg)
{
	struct mount *mount = arg;
	const struct options *options = &mount->options;
	struct tree_options wanted = options->tree;
	struct backend *backend;
	int r = tree_judge_view(options->view, &mount->why);

	if (r == 0)
		r = open_store(mount, &backend, &mount->why);
	if (r < 0)
		return r;
	wanted.expires = true;
	settings_assume(options, &wanted);
	wanted.view = options->view;
	wanted.has_open = on_has_open;
	wanted.arg = mount;
	/* A store in memory is never shared. */
	if (!wanted.read_only && options->set_layout && !backend_has_path(mount->store))
		begin(backend, options);
	if (!wanted.read_only)
		r = settings_agree(backend, options, &mount->why);
	if (r == 0)
		r = tree_open(backend, &wanted, &mount->tree, &mount->why);
	if (r < 0)
		backend_close(backend);
	return r;
}

static void end_turn(struct mount *mount)
{
	closep(&mount->turn);
	mount->turn = -1;
}

/* There is a mount, and no thread yet that serves it. */
static int on_mounted(void *arg)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	struct mount *mount = arg;
	int r = mounts_find(mount->dir, &entry);

	end_turn(mount);
	if (r == 0)
		aide_tell_device(&mount->aide, entry.device);
	else
		log_warning("the mount on %s is not in the kernel's table: %s", mount->dir,
			    strerror(-r));
	r = guard_enter(&mount->guard);
	if (r < 0)
		log_error("cannot drop root's rights: %s", strerror(-r));
	guard_done(&mount->guard);
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
		.read_only = options->tree.read_only,
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
		log_info("removed a dead mount on %s", mount->dir);
	}
	return 0;
}

/* A dead mount may have come since: a daemon was killed while fusermount3 mounted for it. */
static int check_unused(const struct mount *mount)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	int r = detach_dead(mount);

	if (r < 0)
		return r;
	if (mounts_find(mount->dir, &entry) < 0 || strcmp(entry.type, MOUNTS_TYPE) != 0)
		return 0;
	return log_fail(-EBUSY, "%s is in use: %s is mounted there ('sessfs umount %s' ends that)",
			mount->dir, entry.source, mount->dir);
}

/* A directory that cannot be read is mounted on all the same. */
static int take_turn(struct mount *mount)
{
	int r = check_unused(mount);

	if (r < 0)
		return r;
	mount->turn = descriptor_open(mount->dir, O_RDONLY | O_DIRECTORY, 0);
	if (mount->turn < 0)
		return 0;
	while (flock(mount->turn, LOCK_EX) < 0 && errno == EINTR)
		;
	return check_unused(mount);
}

static int serve_session(struct mount *mount)
{
	struct session *session;
	int r = take_turn(mount);

	if (r < 0)
		return CMD_FAILED;
	r = open_session(mount, &session);
	end_turn(mount);
	if (r < 0) {
		say_why(mount->why, r);
		return CMD_FAILED;
	}
	serving = session;
	signals_watch(stop_serving);
	r = session_serve(session);
	signals_end();
	service_stopping();
	if (r < 0)
		log_error("the mount on %s has failed: %s", mount->dir, strerror(-r));
	session_free(session);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

static int serve_store(struct mount *mount)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	int r = guard_run(&mount->guard, open_tree, mount);
	const char *why = mount->why;
	int status;

	/* How to end the mount that has the store. */
	if (r == -EBUSY && why && mounts_last(mounts_is_of, mount->store, &entry) == 0)
		str_explain(&mount->why, 0, "%s; 'sessfs umount %s' ends a mount", why,
			    mount->store);
	else if (r == -EBUSY && why && !backend_has_path(mount->store))
		str_explain(&mount->why, 0,
			    "%s; no mount here has this URL: unmount it where it is", why);
	else if (r == -EBUSY && why)
		str_explain(&mount->why, 0,
			    "%s; 'sessfs umount --force %s' ends a mount that you cannot see here",
			    why, mount->store);
	if (store_say_opened(mount->store, r, mount->why) < 0)
		return CMD_FAILED;
	status = serve_session(mount);
	tree_close(mount->tree);
	return status;
}

/* Mount and serve until the end; the exit status.  The store's file has mode 0600, since the modes
 * of the files in it do not bind a program that reads the database. */
static int serve(void *arg)
{
	struct mount *mount = arg;
	int status;
	int r;

	heap_keep_little();
	umask(077);
	mount->turn = -1;
	signals_hold();
	r = aide_start(&mount->aide, mount->dir, mount->options.auto_unmount);
	if (r < 0)
		return log_fail(CMD_FAILED, "cannot start a process: %s", strerror(-r));
	status = serve_store(mount);
	aide_done(&mount->aide);
	if (status == CMD_DONE)
		say_close_file();
	return status;
}

static int answers(void *arg)
{
	const struct mount *mount = arg;
	struct statfs space;

	if (statfs(mount->dir, &space) == 0)
		return 0;
	return log_fail(-EIO, "the mount on %s does not answer: %s", mount->dir, strerror(errno));
}

static int check_empty(const struct mount *mount)
{
	const struct dirent *entry;
	DIR *dir = opendir(mount->dir);
	int r = 0;

	if (!dir) {
		r = -errno;
		return log_fail(r, "cannot read %s: %s", mount->dir, strerror(-r));
	}
	do
		entry = readdir(dir);
	while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	/* It may be another mount by now, which came at the same time. */
	if (entry)
		r = check_unused(mount);
	if (entry && r == 0) {
		log_error("%s is not empty, and a mount would hide its files; choose an empty "
			  "directory, or add -o nonempty",
			  mount->dir);
		r = -ENOTEMPTY;
	}
	closedir(dir);
	return r;
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
			log_error("the mount point %s does not exist; create it first", mount->dir);
		else
			log_error("cannot use %s as mount point: %s", mount->dir, strerror(-r));
		return r;
	}
	if (!S_ISDIR(status.st_mode))
		return log_fail(-ENOTDIR, "%s is not a directory; the mount point must be one",
				mount->dir);
	if (mount->options.nonempty)
		return 0;
	return check_empty(mount);
}

static int check_trust(const char *path, enum trust_kind kind)
{
	_cleanup_(freep) char *why = NULL;
	int r = trust_path(path, kind, &why);

	return r < 0 ? say_why(why, r) : r;
}

static int find_store(struct mount *mount, const char *store)
{
	_cleanup_(freep) char *why = NULL;
	int r;

	if (backend_has_path(store) && (r = check_trust(store, TRUST_STORE)) < 0)
		return r;
	r = mounts_store(store, &mount->store, &why);
	if (r == 0)
		r = backend_prepare(store, &mount->prepared, &why);
	return r < 0 ? say_why(why, r) : 0;
}

static int find_dir(const char *dir, char **ret_dir)
{
	int r = mounts_absolute(dir, ret_dir);

	if (r < 0)
		log_error("cannot reach the mount point %s: %s", dir, strerror(-r));
	return r;
}

/* Everything that can be found out before the store is opened. */
static int prepare(struct mount *mount, const char *store, const char *dir)
{
	int r = find_store(mount, store);
	const struct backend_prepared *server = mount->prepared;
	size_t size;

	if (r == 0)
		r = check_trust(dir, TRUST_MOUNTPOINT);
	if (r == 0)
		r = find_dir(dir, &mount->dir);
	if (r == 0)
		r = check_dir(mount);
	if (r == 0)
		r = server ? guard_plan_server(&mount->guard, mount->dir, server->port,
					       server->file) :
			     guard_plan(&mount->guard,
					backend_has_path(mount->store) ? mount->store : NULL,
					mount->options.tree.read_only);
	if (r < 0)
		return r;
	/* It could not be reached any more, least of all by its own daemon. */
	size = strlen(mount->dir);
	if (strncmp(mount->store, mount->dir, size) == 0 && mount->store[size] == '/')
		return log_fail(-EINVAL, "the store %s is in the mount point %s; move it elsewhere",
				mount->store, mount->dir);
	guard_choose_temporary(mount->dir);
	return 0;
}

static int take_options(void *field, const char *value, char **ret_why)
{
	int r = options_parse(field, OPTIONS_MOUNT, value, ret_why);

	return r < 0 ? say_why(*ret_why, r), -ECANCELED : 0;
}

static const struct cmd_option mount_options[] = {
	CMD_YES(struct mount, foreground, NULL, 'f', "stay in the foreground"),
	CMD_YES(struct mount, options.debug, NULL, 'd',
		"stay in the foreground and log every request"),
	{ NULL, 'o', "OPTIONS", take_options, 0, "options, separated by commas:" },
};

static int mount_now(struct mount *mount, char **operands)
{
	const struct options *options = &mount->options;
	struct daemon daemon = { .run = serve, .answers = answers, .arg = mount };

	guard_begin(options->debug);
	mount->foreground |= options->debug;
	if (mount->foreground) {
		say_to_stderr(options->debug ? LOG_DEBUG : LOG_INFO);
		service_begin();
	} else {
		say_while_starting();
	}
	if (prepare(mount, operands[0], operands[1]) < 0)
		return CMD_FAILED;
	return mount->foreground ? serve(mount) : daemon_start(&daemon);
}

static int run_mount(void *values, char **operands)
{
	struct mount *mount = values;
	int status;

	if (mount->options.privileged && geteuid() != 0)
		return log_fail(CMD_FAILED, "only root may mount with -o %s",
				mount->options.privileged);
	if (mount->options.remount) {
		status = find_dir(operands[1], &mount->dir);
		if (status == 0)
			status = remount(mount->dir, &mount->options);
		free(mount->dir);
		return status < 0 ? CMD_FAILED : CMD_DONE;
	}
	status = mount_now(mount, operands);
	free(mount->store);
	free(mount->dir);
	free(mount->why);
	backend_prepared_free(mount->prepared);
	guard_done(&mount->guard);
	return status;
}

const struct command cmd_mount = {
	.name = "mount",
	.arguments = "[-f] [-d] [-o OPTIONS] STORE DIR",
	.summary = "mount a store on a directory",
	.help = "STORE is a file, which is created if it does not exist, a URL (mysql://, "
		"postgresql://, redis://) for a store on a server, or 'memory:' for a store that "
		"is lost at unmount.  DIR is an empty directory.  Returns when the mount is ready.",
	.list = options_print,
	.more = "default_permissions is always on, and so are nosuid and nodev unless an option "
		"allows the opposite.  Other options of mount(8) and fstab(5), such as rw, "
		"noatime, user and x-systemd.automount, are accepted.\nThe exit status is 0, 1 if "
		"the store cannot be mounted, 2 for a wrong command line.",
	CMD_OPTIONS(mount_options),
	.least = 2,
	.most = 2,
	.operands = "takes a store and a directory",
	.store = -1,
	.size = sizeof(struct mount),
	.run = run_mount,
};
