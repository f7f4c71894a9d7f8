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
	*(const char **)field = value;
	return strcmp(value, "path") == 0 || strcmp(value, "host") == 0 ? 0 : -EINVAL;
}

int cmd_judge_bucket(const struct command *command, const char *operand, const void *options,
		     size_t size)
{
	const char *const bytes = options;

	if (strncmp(operand, bucket_scheme, strlen(bucket_scheme)) == 0)
		return 1;
	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return -cmd_misused(command,
					    "%s is no bucket, and these options are for one: "
					    "s3://BUCKET",
					    operand);
	return 0;
}

/* What was done; nothing, only if that is to be told, too. */
static void report(struct sync *sync, bool always)
{
	const struct copier *copier = &sync->copier;
	const uint64_t created = sync->counts[SYNC_CREATED];
	const uint64_t replaced = sync->counts[SYNC_REPLACED];
	const uint64_t deleted = sync->counts[SYNC_DELETED];
	const uint64_t same = sync->counts[SYNC_UNCHANGED];
	const uint64_t conflicts = sync->counts[SYNC_CONFLICTS];
	char bytes[UNITS_TEXT];

	if (!always && !(created || replaced || deleted || conflicts || copier->failed))
		return;
	if (copier->list.json && sync->dry)
		return say_list_end(&sync->copier.list);
	if (copier->list.json)
		return say_json(json_pack("{sI sI sI sI sI sI sI sI}", "created", created,
					  "replaced", replaced, "deleted", deleted, "unchanged",
					  same, "conflicts", conflicts, "failed", copier->failed,
					  "left_out", copier->left, "bytes", copier->bytes));
	printf("%s%" PRIu64 " created, %" PRIu64 " replaced, %" PRIu64 " deleted, %" PRIu64
	       " unchanged, %" PRIu64 " changed on both sides, %" PRIu64 " left out, %" PRIu64
	       " failed; %s written\n",
	       sync->dry ? "it would be: " : "", created, replaced, deleted, same, conflicts,
	       copier->left, copier->failed, units_show_size(copier->bytes, bytes));
	fflush(stdout);
}

/* Round after round until a signal comes.  A server that is away for a while is asked again. */
static int watch(struct sync *sync)
{
	const struct timespec pause = time_split(sync->every ? sync->every : INT64_C(5000000000));
	int r;

	for (bool first = true;; first = false) {
		r = sync_run(sync);
		if (r == 0)
			report(sync, first);
		if (stop_wanted() || (r < 0 && r != -EIO))
			break;
		nanosleep(&pause, NULL);
	}
	return r == -EINTR ? 0 : r;
}

int cmd_sync_run(struct sync *sync, struct options *options, char **operands, bool json)
{
	const char *store = operands[0];
	_cleanup_(bucket_done) struct bucket bucket = { 0 };
	_cleanup_(access_closep) struct access *files = NULL;
	const unsigned flags = sync->dry ? 0 : ACCESS_WRITE | (sync->up ? 0 : ACCESS_CREATE);
	int r;

	heap_keep_little();
	stop_watch();
	if (bucket_open(operands[1], &sync->where, &bucket) < 0)
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
	r = sync->watch ? watch(sync) : sync_run(sync);
	if (r == -EINTR || (r < 0 && sync->copier.stopped))
		log_error("it is not complete; the same command goes on");
	if (!sync->watch)
		report(sync, r == 0);
	r = r < 0 || sync->copier.failed || sync->counts[SYNC_CONFLICTS] ? CMD_FAILED : CMD_DONE;
	sync_close(sync);
	return r;
}
