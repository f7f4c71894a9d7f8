/* SPDX-License-Identifier: MIT */
#include "src/cmd/bucket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/heap.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/user/units.h"

int cmd_take_style(void *field, const char *value, char **ret_why)
{
	(void)ret_why;
	*(enum s3_style *)field = strcmp(value, "host") == 0 ? S3_STYLE_HOST : S3_STYLE_PATH;
	return strcmp(value, "host") == 0 || strcmp(value, "path") == 0 ? 0 : -EINVAL;
}

bool cmd_sync_used(const struct cmd_sync *sync)
{
	return sync->layout || sync->session || sync->watch || sync->every || sync->drop ||
	       sync->where.endpoint || sync->where.region || sync->where.style;
}

const struct bucket_layout *cmd_sync_layout(const char *name)
{
	for (size_t i = 0; i < BUCKET_LAYOUTS; i++)
		if (strcmp(bucket_layouts[i].name, name) == 0)
			return &bucket_layouts[i];
	return NULL;
}

static void report(struct sync *sync)
{
	const struct copier *copier = &sync->copier;
	char bytes[UNITS_TEXT];

	if (copier->list.json && sync->dry) {
		say_list_end(&sync->copier.list);
	} else if (copier->list.json) {
		say_json(json_pack("{sI sI sI sI sI sI sI sI}", "created", sync->created,
				   "replaced", sync->replaced, "deleted", sync->removed,
				   "unchanged", sync->unchanged, "conflicts", sync->conflicts,
				   "failed", copier->failed, "left_out", copier->left, "bytes",
				   copier->bytes));
	} else {
		printf("%s%" PRIu64 " created, %" PRIu64 " replaced, %" PRIu64 " deleted, %" PRIu64
		       " unchanged",
		       sync->dry ? "it would be: " : "", sync->created, sync->replaced,
		       sync->removed, sync->unchanged);
		if (copier->left)
			printf(", %" PRIu64 " left out", copier->left);
		if (sync->conflicts)
			printf(", %" PRIu64 " changed on both sides", sync->conflicts);
		if (copier->failed)
			printf(", %" PRIu64 " failed", copier->failed);
		printf("; %s written\n", units_show_size(copier->bytes, bytes));
	}
	fflush(stdout);
}

static bool did_nothing(const struct sync *sync)
{
	return !sync->created && !sync->replaced && !sync->removed && !sync->conflicts &&
	       !sync->copier.failed;
}

/* Round after round until a signal comes.  A server that is away for a while is asked again. */
static int watch(struct sync *sync, int64_t every)
{
	const struct timespec pause = time_split(every ? every : INT64_C(5000000000));
	bool first = true;
	int r = 0;

	while (!stop_wanted() && (r == 0 || r == -EIO)) {
		sync->created = sync->replaced = sync->removed = sync->conflicts = 0;
		sync->copier.failed = sync->copier.bytes = 0;
		r = sync_run(sync);
		if (r == 0 && (first || !did_nothing(sync)))
			report(sync);
		first = false;
		if (!stop_wanted())
			nanosleep(&pause, NULL);
	}
	return r == -EINTR ? 0 : r;
}

static int store_layouts(const char *store, const struct options *options, uint64_t *ret_layouts)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct settings settings = { 0 };
	int r = store_open_backend(store, options, &backend);

	if (r == 0)
		r = store_settings(backend, &settings, NULL);
	*ret_layouts = settings.value[SETTING_LAYOUT];
	return r;
}

static int run_open(struct sync *sync, const struct cmd_sync *cmd)
{
	int r = sync_open(sync);

	if (r == 0)
		r = cmd->watch ? watch(sync, cmd->every) : sync_run(sync);
	if (sync_close(sync) < 0)
		r = r < 0 ? r : -EIO;
	if (r == -EINTR || (r < 0 && sync->copier.stopped))
		log_error("it is not complete; the same command goes on");
	if (!cmd->watch && (r == 0 || !did_nothing(sync)))
		report(sync);
	return r < 0 || sync->copier.failed || sync->conflicts ? CMD_FAILED : CMD_DONE;
}

int cmd_sync_run(const struct cmd_sync *cmd, struct options *options, const char *store,
		 const char *url, bool up, unsigned copier_flags)
{
	const unsigned flags = cmd->dry ? 0 : ACCESS_WRITE | (up ? 0 : ACCESS_CREATE);
	_cleanup_(bucket_done) struct bucket bucket = { 0 };
	_cleanup_(access_closep) struct access *files = NULL;
	struct sync sync = {
		.copier = { .store = store, .flags = copier_flags, .progress = { .fd = -1 } },
		.bucket = &bucket,
		.layout = cmd->layout,
		.glob = cmd->session,
		.up = up,
		.drop = cmd->drop,
		.dry = cmd->dry
	};
	int status;

	if (up && !cmd->layout)
		return cmd_misused(&cmd_export, "an export to a bucket needs --layout: strands, "
						"strands-snapshots, claude-parts or agentscope");
	heap_keep_little();
	stop_watch();
	sync.copier.list.json = cmd->json;
	if (bucket_open(url, &cmd->where, &bucket) < 0)
		return CMD_FAILED;
	if (!cmd->dry || up || !backend_has_path(store) || access(store, F_OK) == 0) {
		if (store_open(store, flags, options, &files) < 0 ||
		    store_layouts(store, options, &sync.store_layouts) < 0)
			return CMD_FAILED;
	}
	sync.access = sync.copier.to = files;
	status = run_open(&sync, cmd);
	copier_done(&sync.copier);
	return status;
}
