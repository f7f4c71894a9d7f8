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
	const bool host = strcmp(value, "host") == 0;

	(void)ret_why;
	*(enum s3_style *)field = host ? S3_STYLE_HOST : S3_STYLE_PATH;
	return host || strcmp(value, "path") == 0 ? 0 : -EINVAL;
}

int cmd_judge_bucket(const struct command *command, const char *operand, const void *options,
		     size_t size)
{
	const char *const bytes = options;

	if (bucket_is(operand))
		return 1;
	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return -cmd_misused(command,
					    "%s is no bucket, and these options are for one: "
					    "s3://BUCKET",
					    operand);
	return 0;
}

const struct bucket_layout *cmd_find_layout(const char *name)
{
	for (size_t i = 0; i < BUCKET_LAYOUTS; i++)
		if (strcmp(bucket_layouts[i].name, name) == 0)
			return &bucket_layouts[i];
	return NULL;
}

static void report(struct sync *sync)
{
	const struct copier *copier = &sync->copier;
	const uint64_t *counts = sync->counts;
	char bytes[UNITS_TEXT];

	if (copier->list.json && sync->dry)
		return say_list_end(&sync->copier.list);
	if (copier->list.json)
		return say_json(json_pack("{sI sI sI sI sI sI sI sI}", "created",
					  counts[SYNC_CREATED], "replaced", counts[SYNC_REPLACED],
					  "deleted", counts[SYNC_DELETED], "unchanged",
					  counts[SYNC_UNCHANGED], "conflicts",
					  counts[SYNC_CONFLICTS], "failed", copier->failed,
					  "left_out", copier->left, "bytes", copier->bytes));
	printf("%s%" PRIu64 " created, %" PRIu64 " replaced, %" PRIu64 " deleted, %" PRIu64
	       " unchanged, %" PRIu64 " changed on both sides, %" PRIu64 " left out, %" PRIu64
	       " failed; %s written\n",
	       sync->dry ? "it would be: " : "", counts[SYNC_CREATED], counts[SYNC_REPLACED],
	       counts[SYNC_DELETED], counts[SYNC_UNCHANGED], counts[SYNC_CONFLICTS], copier->left,
	       copier->failed, units_show_size(copier->bytes, bytes));
	fflush(stdout);
}

static bool did_nothing(const struct sync *sync)
{
	uint64_t sum = sync->copier.failed;

	for (size_t i = 0; i < SYNC_UNCHANGED; i++)
		sum += sync->counts[i];
	return sum == 0;
}

/* Round after round until a signal comes.  A server that is away for a while is asked again. */
static int watch(struct sync *sync, int64_t every)
{
	const struct timespec pause = time_split(every ? every : INT64_C(5000000000));
	int r = 0;

	for (bool first = true; !stop_wanted() && (r == 0 || r == -EIO); first = false) {
		sync->copier.failed = sync->copier.bytes = 0;
		r = sync_run(sync);
		if (r == 0 && (first || !did_nothing(sync)))
			report(sync);
		if (!stop_wanted())
			nanosleep(&pause, NULL);
	}
	return r == -EINTR ? 0 : r;
}

int cmd_sync_run(struct cmd_sync *cmd, struct options *options, char **operands, bool json)
{
	const char *store = operands[0];
	_cleanup_(bucket_done) struct bucket bucket = { 0 };
	_cleanup_(access_closep) struct access *files = NULL;
	struct sync *sync = &cmd->sync;
	const unsigned flags = sync->dry ? 0 : ACCESS_WRITE | (sync->up ? 0 : ACCESS_CREATE);
	int r;

	heap_keep_little();
	stop_watch();
	if (bucket_open(operands[1], &cmd->where, &bucket) < 0)
		return CMD_FAILED;
	if (!sync->dry || sync->up || !backend_has_path(store) || access(store, F_OK) == 0)
		if (store_open(store, flags, options, &files) < 0 ||
		    cmd_read_layouts(store, options, &sync->store_layouts) < 0)
			return CMD_FAILED;
	sync->bucket = &bucket;
	sync->access = files;
	sync->copier = (struct copier){ .store = store,
					.to = files,
					.flags = COPIER_ROWS | COPIER_CHECKSUM,
					.list.json = json,
					.progress.fd = -1 };
	r = sync_open(sync);
	if (r == 0)
		r = cmd->watch ? watch(sync, cmd->every) : sync_run(sync);
	if (sync_close(sync) < 0)
		r = r < 0 ? r : -EIO;
	if (r == -EINTR || (r < 0 && sync->copier.stopped))
		log_error("it is not complete; the same command goes on");
	if (!cmd->watch && (r == 0 || !did_nothing(sync)))
		report(sync);
	r = r < 0 || sync->copier.failed || sync->counts[SYNC_CONFLICTS] ? CMD_FAILED : CMD_DONE;
	copier_done(&sync->copier);
	return r;
}
