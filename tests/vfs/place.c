/* SPDX-License-Identifier: MIT */
#include "tests/vfs/place.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/base/log.h"
#include "tests/unit/scratch.h"
#include "tests/unit/until.h"

enum {
	PATH = 512,
};

static char scratch[256];

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[4096];
static unsigned said_count;

static void hear(int level, const char *sentence)
{
	size_t used;

	if (level > LOG_ERR)
		return;
	pthread_mutex_lock(&said_lock);
	used = strlen(said);
	snprintf(said + used, sizeof(said) - used, "%s%s", used ? "\n" : "", sentence);
	said_count++;
	pthread_mutex_unlock(&said_lock);
}

unsigned place_errors(void)
{
	unsigned count;

	pthread_mutex_lock(&said_lock);
	count = said_count;
	pthread_mutex_unlock(&said_lock);
	return count;
}

const char *place_error(void)
{
	return said;
}

void place_hush(void)
{
	pthread_mutex_lock(&said_lock);
	said_count = 0;
	*said = '\0';
	pthread_mutex_unlock(&said_lock);
}

static bool has_heard(const char *part)
{
	bool heard;

	pthread_mutex_lock(&said_lock);
	heard = said_count && strstr(said, part);
	pthread_mutex_unlock(&said_lock);
	return heard;
}

bool place_hears(const char *part)
{
	return UNTIL(has_heard(part));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void place_begin(void)
{
	shim_install();
	log_set_sink(hear);
	scratch_template(scratch, sizeof(scratch), "vfs");
	cr_assert_not_null(mkdtemp(scratch));
}

void place_end(void)
{
	nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *join(const char *dir, const char *name)
{
	static char path[8][PATH];
	static unsigned next;
	char *shown = path[next++ % ARRAY_SIZE(path)];

	cr_assert_lt(snprintf(shown, PATH, "%s/%s", dir, name), PATH);
	return shown;
}

const char *place_path(const char *name)
{
	return join(scratch, name);
}

const char *place_fresh(const char *name)
{
	const char *path = place_path(name);

	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	cr_assert_eq(mkdir(path, 0700), 0, "%s: %s", path, strerror(errno));
	return path;
}

const char *place_store(const char *dir)
{
	return join(dir, "store.db");
}

int place_open(const char *dir, char **ret_why)
{
	const struct backend_options options = { .create = true, .owner = "the test" };
	int r = backend_open(place_store(dir), &options, &world_store, ret_why);

	if (r < 0)
		return r;
	r = tree_open(world_store, &world_options, &world_tree, ret_why);
	if (r < 0)
		backend_close(world_store);
	return r;
}

void place_must_open(const char *dir)
{
	_cleanup_(freep) char *why = NULL;
	int r = place_open(dir, &why);

	cr_assert_eq(r, 0, "%s: %s (%s)", dir, why ? why : strerror(-r), said);
}

void place_close(void)
{
	tree_close(world_tree);
	world_tree = NULL;
}
