/* SPDX-License-Identifier: MIT */
/*
 * The copy is made under a name of its own beside the one that it is to have, so that it gets that
 * by one rename.  Before, it is read from its first page to its last, as `sessfs check` does: a
 * copy that cannot be used is worse than none, since somebody relies on it.
 *
 * What that finds in the pages, the tables and their indexes fails the copy.  What it finds beyond
 * (a row of another program that is not JSON) is the same in the store that was copied, so it is
 * told and the copy is good.
 */
#include "src/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/mounts.h"
#include "src/progress.h"
#include "src/say.h"
#include "src/stop.h"
#include "src/trust.h"
#include "src/units.h"
#include "src/verb.h"

static int say_why(const char *why, int error)
{
	if (error != -EINTR)
		log_error("%s", why ? why : strerror(-error));
	return error;
}

int copy_judge(const struct copy *copy)
{
	_cleanup_(freep) char *why = NULL;
	struct stat st;
	int r = trust_path(copy->to, TRUST_STORE, &why);

	if (r < 0)
		return say_why(why, r);
	if (strcmp(copy->from, "memory:") == 0 || strcmp(copy->to, "memory:") == 0) {
		log_error(
			"a store in memory is in its mount and nowhere else; use the files there");
		return -EINVAL;
	}
	if (lstat(copy->to, &st) < 0)
		return 0;
	if (!copy->replace) {
		log_error("%s is there already; --force replaces it", copy->to);
		return -EEXIST;
	}
	if (backend_is_owned(copy->to)) {
		log_error("%s is mounted or in use; unmount it first", copy->to);
		return -EBUSY;
	}
	return 0;
}

/* A file of its own in the directory of the path, which nobody else has made. */
static int make_temporary(const char *path, char **ret_name)
{
	const char *slash = strrchr(path, '/');
	size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
	char *name;
	int fd;

	if (asprintf(&name, "%.*s.%s.sessfs-XXXXXX", (int)folder, path, path + folder) < 0)
		return -ENOMEM;
	fd = mkostemp(name, O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		int error = errno;

		log_error("cannot make a file beside %s: %s", path, strerror(error));
		free(name);
		return -error;
	}
	close(fd);
	*ret_name = name;
	return 0;
}

static int on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct progress *progress = arg;

	progress_set_total(progress, 0, total);
	if (done > progress->bytes)
		progress_add(progress, 0, done - progress->bytes);
	return stop_wanted() ? -EINTR : 0;
}

static int copy_to(struct copy *copy, const char *temporary)
{
	_cleanup_(progress_end) struct progress progress = { 0 };
	const struct backend_copy how = { on_progress, &progress };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	int r = verb_open_backend(copy->from, copy->options, &backend);

	if (r < 0)
		return r;
	progress_begin(&progress, copy->what, NULL);
	r = backend->ops->copy(backend, temporary, &how);
	progress_end(&progress);
	if (r < 0 && r != -EINTR)
		log_error("%s could not be copied: %s", copy->from, strerror(-r));
	return r;
}

/* The first findings, so that somebody can tell what it is about. */
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
	const struct backend_options reading = { .read_only = true, .table = copy->options->table };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct findings findings = { copy->from, 0 };
	_cleanup_(freep) char *why = NULL;
	struct check_result result = { 0 };
	int r = backend_open(temporary, &reading, &backend, &why);

	if (r == 0)
		r = verb_check(temporary, backend, on_finding, &findings, &result);
	if (r < 0) {
		log_error("the copy of %s cannot be read: %s", copy->from,
			  why ? why : strerror(-r));
		return r;
	}
	if (result.damage) {
		log_error(
			"%s is damaged, and so would be its copy; 'sessfs check' tells what it is, "
			"and 'sessfs check --repair' rescues what is whole",
			copy->from);
		return -EIO;
	}
	copy->findings = result.violations;
	copy->sessions = result.sessions;
	copy->files = result.files;
	copy->rows = result.rows;
	return stop_wanted() ? -EINTR : 0;
}

static int name_it(struct copy *copy, const char *temporary, const char *path)
{
	_cleanup_(freep) char *why = NULL;
	struct stat st;
	int r;

	if (stat(temporary, &st) < 0)
		return say_why(NULL, -errno);
	copy->bytes = (uint64_t)st.st_size;
	r = backend_install(temporary, path, copy->replace, &why);
	return r < 0 ? say_why(why, r) : 0;
}

int copy_run(struct copy *copy)
{
	_cleanup_(freep) char *temporary = NULL;
	_cleanup_(freep) char *path = NULL;
	int r = mounts_absolute(copy->to, &path);

	if (r < 0) {
		log_error("cannot reach %s: %s", copy->to, strerror(-r));
		return r;
	}
	r = make_temporary(path, &temporary);
	if (r < 0)
		return r;
	r = copy_to(copy, temporary);
	if (r == 0)
		r = look_at(copy, temporary);
	if (r == 0)
		r = name_it(copy, temporary, path);
	if (r < 0)
		backend_discard(temporary);
	return r;
}

static void print_json(const struct copy *copy)
{
	json_t *value = json_object();

	json_object_set_new(value, "from", say_json_name(copy->from, strlen(copy->from)));
	json_object_set_new(value, "to", say_json_name(copy->to, strlen(copy->to)));
	json_object_set_new(value, "sessions", json_integer((json_int_t)copy->sessions));
	json_object_set_new(value, "files", json_integer((json_int_t)copy->files));
	json_object_set_new(value, "items", json_integer((json_int_t)copy->rows));
	json_object_set_new(value, "bytes", json_integer((json_int_t)copy->bytes));
	json_object_set_new(value, "findings", json_integer((json_int_t)copy->findings));
	say_json(value);
}

void copy_print(const struct copy *copy, bool json)
{
	char size[UNITS_TEXT];

	if (copy->findings)
		log_warning("%s: %" PRIu64
			    " findings, which are in the copy as well; 'sessfs check "
			    "%s' tells them",
			    copy->from, copy->findings, copy->to);
	if (json) {
		print_json(copy);
		return;
	}
	say_name(copy->to, ": ");
	printf("%" PRIu64 " sessions, %" PRIu64 " files, %" PRIu64 " items, %s\n", copy->sessions,
	       copy->files, copy->rows, units_show_size(copy->bytes, size));
}
