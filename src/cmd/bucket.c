/* SPDX-License-Identifier: MIT */
#include "src/cmd/bucket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/heap.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "src/user/stop.h"

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
	if (!*bytes && memcmp(bytes, bytes + 1, size - 1) == 0)
		return 0;
	return -cmd_misused(command, "%s is no bucket, and these options are for one: s3://BUCKET",
			    operand);
}

/* What was done; nothing new, only if that is to be told, too. */
static void report(struct sync *sync, bool always)
{
	struct copier *copier = &sync->copier;
	uint64_t did = sync->told;

	for (size_t i = COPIER_UNCHANGED + 1; i < COPIER_DIDS; i++)
		did += i == COPIER_CONFLICTS ? 0 : copier->did[i];
	if (always || did)
		cmd_report_copied(copier, sync->up ? "not exported" : "not imported");
	fflush(stdout);
}

int cmd_sync_run(struct sync *sync, struct options *options, char **operands, bool json)
{
	const char *store = operands[0];
	_cleanup_(bucket_done) struct bucket bucket = { 0 };
	_cleanup_(access_closep) struct access *files = NULL;
	const struct timespec pause = time_split(sync->every ? sync->every : INT64_C(5000000000));
	const unsigned flags = sync->dry ? 0 : ACCESS_WRITE | (sync->up ? 0 : ACCESS_CREATE);
	int r;

	heap_keep_little();
	stop_watch();
	sync->watch |= sync->every > 0;
	if (bucket_open(operands[1], &sync->where, &bucket) < 0)
		return CMD_FAILED;
	/* A server that is away for a while is asked again; before it has answered, no store is
	 * made. */
	while ((r = layout_find(&bucket, &sync->layout, &sync->base)) == -EIO && sync->watch &&
	       !stop_wanted())
		nanosleep(&pause, NULL);
	if (r < 0)
		return CMD_FAILED;
	if (!sync->dry || sync->up || !backend_has_path(store) || access(store, F_OK) == 0)
		if (store_open(store, flags, options, &files) < 0 ||
		    cmd_read_layouts(store, options, &sync->store_layouts) < 0)
			return CMD_FAILED;
	sync->bucket = &bucket;
	sync->access = files;
	sync->copier = (struct copier){ .store = store,
					.flags = sync->dry ? COPIER_DRY : 0,
					.list.json = json };
	r = sync_run(sync);
	report(sync, r == 0);
	/* Round after round until a signal comes. */
	while (sync->watch && !stop_wanted() && (r == 0 || r == -EIO)) {
		nanosleep(&pause, NULL);
		if (stop_wanted())
			break;
		r = sync_run(sync);
		if (r == 0)
			report(sync, false);
	}
	r = r == -EINTR && sync->watch ? 0 : r;
	if (r == -EINTR || (r < 0 && sync->copier.stopped))
		log_error("it is not complete; the same command goes on");
	r = r < 0 || sync->copier.failed || sync->copier.did[COPIER_CONFLICTS] ? CMD_FAILED :
										 CMD_DONE;
	sync_close(sync);
	return r;
}
