/* SPDX-License-Identifier: MIT */
/*
 * The copy is made under a name of its own beside its final one, and gets that by one rename.
 * Before that it is read from its first page to its last, as `sessfs check` does: users rely on a
 * copy, so a bad one is worse than none.
 *
 * Damage in the pages, the tables and their indexes fails the copy.  Other findings (a row of
 * another program that is not JSON) are the same in the store that was copied: they are reported,
 * and the copy is good.
 */
#include "src/exchange/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/plural.h"
#include "backend/base/tick.h"
#include "src/mounts/mounts.h"
#include "src/user/progress.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/mounts/trust.h"
#include "src/user/units.h"
#include "src/store/store.h"
#include "src/exchange/transfer.h"

enum { PATIENCE = 5000 }; /* milliseconds to wait for another command to be done with the store */

int copy_judge(const struct copy *copy)
{
	_cleanup_(freep) char *why = NULL;
	struct stat st;
	int r = copy->to ? trust_path(copy->to, TRUST_STORE, &why) : 0;

	if (r < 0)
		return say_why(why, r);
	if (!copy->to && isatty(STDOUT_FILENO))
		return log_fail(
			-EINVAL,
			"a store cannot be written to a terminal; redirect the standard output");
	if (backend_is_private(copy->from) || (copy->to && backend_is_private(copy->to)))
		return log_fail(-EINVAL,
				"a store in memory exists only in its mount; copy the files there");
	if (!copy->to || !backend_has_path(copy->to) || lstat(copy->to, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return log_fail(-EISDIR, "%s is a directory; name a file in it", copy->to);
	if (!copy->replace)
		return log_fail(-EEXIST, "%s exists already; --force replaces it", copy->to);
	/* Another command may be about to end. */
	if (!mounts_wait_unowned(copy->to, PATIENCE))
		return log_fail(-EBUSY, "%s is mounted or in use; unmount it first", copy->to);
	return 0;
}

/* True while the name leads to this file, whose lock we hold. */
static bool is_ours(int fd, const char *name)
{
	struct stat st, there;

	return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_uid == geteuid() && lstat(name, &there) == 0 && there.st_ino == st.st_ino &&
	       there.st_dev == st.st_dev;
}

/* A copy is a database, or does not have its first page yet. */
static bool may_be_copy(int fd)
{
	static const char database[16] = "SQLite format 3", none[16];
	char begin[sizeof(none)];
	ssize_t size = pread(fd, begin, sizeof(begin), 0);

	return size == 0 ||
	       (size == sizeof(begin) && (memcmp(begin, database, sizeof(begin)) == 0 ||
					  memcmp(begin, none, sizeof(begin)) == 0));
}

/* Remove the files that killed commands have left in a folder, under any name, since the next
 * backup may have another one.  A command that is alive holds the lock of its file. */
static void sweep(const char *from, struct bytes folder)
{
	static const char ours[] = ".*.sessfs-[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9]"
				   "[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9]";
	_cleanup_(globfree) glob_t found = { 0 };
	_cleanup_(buf_done) struct buf pattern = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < folder.size; i++) {
		if (strchr("*?[\\", folder.data[i]))
			r = buf_append_byte(&pattern, '\\');
		if (r == 0)
			r = buf_append_byte(&pattern, folder.data[i]);
	}
	if (r == 0)
		r = buf_append(&pattern, ours, sizeof(ours));
	if (r < 0 || glob(pattern.data, GLOB_NOSORT, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *name = found.gl_pathv[i];
		struct stat st, source;
		_cleanup_(closep) int fd =
			open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd < 0 || !is_ours(fd, name) || !may_be_copy(fd) || backend_is_owned(name) ||
		    fstat(fd, &st) < 0)
			continue;
		/* It may be the source of this copy. */
		if (stat(from, &source) < 0 || source.st_ino != st.st_ino ||
		    source.st_dev != st.st_dev)
			backend_discard(name);
	}
}

/* -EAGAIN when another command removed the file before we had the lock. */
static int make_file(const char *pattern, char **ret_name)
{
	_cleanup_(freep) char *name = bytes_dup(bytes_str(pattern));
	int fd = name ? mkostemp(name, O_CLOEXEC | O_NOFOLLOW) : -1;

	if (fd < 0)
		return name ? -errno : -ENOMEM;
	if (!is_ours(fd, name)) {
		unlink(name);
		close(fd);
		return -EAGAIN;
	}
	*ret_name = steal_ptr(name);
	return fd;
}

/* A new file in the directory of the path.  The descriptor has its lock; close it last, since
 * closing it would release SQLite's locks. */
int copy_make_temporary(const char *from, const char *path, char **ret_name)
{
	enum { TRIES = 20 };
	const char *tmp = getenv("TMPDIR");
	_cleanup_(freep) char *place =
		path ? strdup(path) : str_printf("%s/sessfs-copy", tmp && *tmp ? tmp : "/var/tmp");
	const char *slash = place ? strrchr(place, '/') : NULL;
	const int size = slash ? (int)(slash - place) + 1 : 0;
	_cleanup_(freep) char *pattern =
		place ? str_printf("%.*s.%s.sessfs-XXXXXX", size, place, place + size) : NULL;
	int r = -EAGAIN;

	if (!pattern)
		return -ENOMEM;
	sweep(from, bytes_make(place, (size_t)size));
	for (int i = 0; r == -EAGAIN && i < TRIES; i++)
		r = make_file(pattern, ret_name);
	if (r < 0)
		log_error("cannot create a file beside %s: %s", place, strerror(-r));
	return r;
}

static int on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct progress *progress = arg;

	progress_set_total(progress, 0, total);
	if (done > progress->bytes)
		progress_add(progress, 0, done - progress->bytes);
	return stop_wanted() ? -EINTR : 0;
}

static int copy_file(struct copy *copy, const char *temporary)
{
	_cleanup_(progress_end) struct progress progress = { 0 };
	const struct backend_copy how = { on_progress, &progress };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	int r = store_open_backend(copy->from, copy->options, NULL, &backend);

	if (r < 0)
		return r;
	progress_begin(&progress, copy->what, NULL);
	r = backend_copy(backend, temporary, &how);
	progress_end(&progress);
	if (r < 0 && r != -EINTR)
		log_error("cannot copy %s: %s", copy->from, strerror(-r));
	return r;
}

/* ---- Between two kinds of stores (transfer.h) ---- */

/* Begin a snapshot without pending changes of other programs: opening the store to read takes them
 * in. */
static int look_into(const struct copy *copy, struct backend *backend,
		     struct backend_snapshot **ret_snapshot)
{
	enum { TRIES = 20 };
	int r = -ESTALE;

	for (int i = 0; r == -ESTALE && i < TRIES && !stop_wanted(); i++) {
		struct access *access;

		r = store_open(copy->from, 0, copy->options, &access);
		if (r < 0)
			return r;
		access_close(access);
		r = backend->ops->snapshot_begin(backend, BACKEND_BEGUN, ret_snapshot);
	}
	if (r < 0 && r != -EINTR && !stop_wanted())
		log_error("cannot copy %s: %s", copy->from,
			  r == -ESTALE ? "other programs change its rows all the time, or it is "
					 "not a store yet: its first mount makes it one" :
					 strerror(-r));
	return stop_wanted() ? -EINTR : r;
}

static int transfer_between(const struct copy *copy, struct backend *from,
			    struct backend_snapshot *snapshot, const char *name, const char *table)
{
	_cleanup_(progress_end) struct progress progress = { 0 };
	_cleanup_(backend_closep) struct backend *to = NULL;
	const struct transfer transfer = { copy->from, copy->to ? copy->to : name, &progress };
	_cleanup_(freep) char *why = NULL;
	char owner[64];
	const struct backend_options wanted = { .create = true, .owner = owner, .table = table };
	int r;

	snprintf(owner, sizeof(owner), "process %d, a command of sessfs", (int)getpid());
	r = backend_open(name, &wanted, &to, &why);
	if (r < 0)
		return say_why(why, r);
	r = backend_has_path(name) ? 1 : transfer_is_empty(to);
	if (r < 0)
		return say_why(NULL, r);
	if (r == 0 && !copy->replace)
		return log_fail(-EEXIST, "%s is not empty; --force deletes everything in it",
				copy->to);
	progress_begin(&progress, copy->what, "record");
	r = transfer_run(&transfer, from, snapshot, to);
	progress_end(&progress);
	if (r < 0 && r != -EINTR)
		log_error("cannot copy %s: %s", copy->from,
			  r == -ESTALE ?
				  "it was written to meanwhile, and its server shows no past "
				  "state; 'sessfs export' copies each file as it is by then" :
				  strerror(-r));
	return r;
}

/* Into a new file, or a store on a server. */
static int transfer(const struct copy *copy, const char *name)
{
	_cleanup_(backend_closep) struct backend *from = NULL;
	struct backend_snapshot *snapshot;
	_cleanup_(freep) char *table = NULL;
	struct settings settings;
	int r = store_open_backend(copy->from, copy->options, NULL, &from);

	if (r == 0)
		r = look_into(copy, from, &snapshot);
	if (r < 0)
		return r;
	r = store_settings(from, &settings, &table);
	if (r == 0)
		r = transfer_between(copy, from, snapshot, name,
				     backend_has_path(name) ? table : NULL);
	from->ops->snapshot_end(from, snapshot);
	return r;
}

/* Log the first findings. */
struct findings {
	const char *of;
	unsigned told;
};

static void on_finding(void *arg, const char *sentence)
{
	enum { TOLD = 3 };
	struct findings *findings = arg;

	if (findings->told++ < TOLD)
		log_info("%s: %s", findings->of, sentence);
}

static int look_at(struct copy *copy, const char *temporary)
{
	const struct backend_options reading = { .read_only = true };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct findings findings = { copy->from, 0 };
	_cleanup_(freep) char *why = NULL;
	struct check_result result = { 0 };
	struct backend_space space;
	int r = backend_open(temporary, &reading, &backend, &why);

	if (r == 0)
		r = store_check(temporary, backend, on_finding, &findings, &result);
	if (r < 0)
		return log_fail(r, "cannot read the copy of %s: %s", copy->from,
				why ? why : strerror(-r));
	if (result.damage)
		return log_fail(
			-EIO,
			"%s is damaged, and its copy would be, too; 'sessfs check' lists the "
			"damage, and 'sessfs check --repair' rescues what is intact",
			copy->from);
	if (backend->ops->space(backend, &space) == 0)
		copy->bytes = space.used;
	copy->findings = result.violations;
	copy->sessions = result.sessions;
	copy->files = result.files;
	copy->rows = result.rows;
	return stop_wanted() ? -EINTR : 0;
}

/* A command that reads may own the store for a moment. */
static int install_patiently(const struct copy *copy, const char *temporary, const char *path,
			     char **ret_why)
{
	const int64_t until = tick_now() + PATIENCE * INT64_C(1000000);
	int r;

	for (;;) {
		r = backend_install(temporary, path, copy->replace, ret_why);
		if (r != -EBUSY || tick_now() >= until || stop_wanted())
			return r;
		freep(ret_why);
		usleep(20000);
	}
}

static int name_it(struct copy *copy, const char *temporary, const char *path)
{
	_cleanup_(freep) char *why = NULL;
	struct stat st;
	int r;

	if (stat(temporary, &st) < 0)
		return say_why(NULL, -errno);
	copy->bytes = (uint64_t)st.st_size;
	r = install_patiently(copy, temporary, path, &why);
	return r < 0 ? say_why(why, r) : 0;
}

/* To the standard output. */
static int write_out(struct copy *copy, const char *temporary)
{
	_cleanup_(closep) int fd = open(temporary, O_RDONLY | O_CLOEXEC);
	char block[65536];
	ssize_t size = fd < 0 ? -1 : 0;

	while (fd >= 0 && !stop_wanted() && (size = read(fd, block, sizeof(block))) > 0) {
		copy->bytes += (uint64_t)size;
		if (fwrite(block, 1, (size_t)size, stdout) != (size_t)size)
			break; /* say_finish() says why */
	}
	if (size < 0)
		return say_why(NULL, -errno);
	return stop_wanted() ? -EINTR : size ? -EIO : 0;
}

int copy_run(struct copy *copy)
{
	_cleanup_(freep) char *temporary = NULL;
	_cleanup_(freep) char *path = NULL;
	_cleanup_(closep) int lock = -1;
	int r;

	if (copy->to && !backend_has_path(copy->to)) {
		r = transfer(copy, copy->to);
		return r < 0 ? r : look_at(copy, copy->to);
	}
	/* For stdout a temporary file is made, which is checked first. */
	r = copy->to ? mounts_absolute(copy->to, &path) : 0;
	if (r < 0)
		return log_fail(r, "cannot reach %s: %s", copy->to, strerror(-r));
	r = lock = copy_make_temporary(copy->from, path, &temporary);
	if (r < 0)
		return r;
	r = backend_has_path(copy->from) ? copy_file(copy, temporary) : transfer(copy, temporary);
	if (r == 0)
		r = look_at(copy, temporary);
	if (r == 0)
		r = copy->to   ? name_it(copy, temporary, path) :
		    copy->take ? copy->take(copy, temporary) :
				 write_out(copy, temporary);
	if (r < 0 || !copy->to)
		backend_discard(temporary);
	return r;
}

void copy_print(const struct copy *copy, bool json)
{
	char size[UNITS_TEXT];

	if (copy->findings)
		log_warning("%s: %" PRIu64
			    " finding%s, in the copy as well; 'sessfs check %s' lists them",
			    copy->from, copy->findings, plural_s(copy->findings), copy->from);
	if (!copy->to)
		return;
	if (json) {
		say_json(json_pack("{so so sI sI sI sI sI}", "from",
				   say_json_name(copy->from, strlen(copy->from)), "to",
				   say_json_name(copy->to, strlen(copy->to)), "sessions",
				   copy->sessions, "files", copy->files, "items", copy->rows,
				   "bytes", copy->bytes, "findings", copy->findings));
		return;
	}
	say_name(copy->to, ": ");
	printf("%" PRIu64 " session%s, %" PRIu64 " file%s, %" PRIu64 " item%s, %s\n",
	       copy->sessions, plural_s(copy->sessions), copy->files, plural_s(copy->files),
	       copy->rows, plural_s(copy->rows), units_show_size(copy->bytes, size));
}
