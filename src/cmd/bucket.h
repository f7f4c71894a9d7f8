/* SPDX-License-Identifier: MIT */
#ifndef CMD_BUCKET_H
#define CMD_BUCKET_H

/* What import, export, backup and restore have in common for s3://BUCKET. */

#include "src/bucket/bucket.h"
#include "src/bucket/sync.h"
#include "src/cmd/cmd.h"

int cmd_take_style(void *field, const char *value, char **ret_why);

#define CMD_WHERE(type, field)                                                                     \
	{ "endpoint",                                                                              \
	  0,                                                                                       \
	  "URL",                                                                                   \
	  cmd_take_text,                                                                           \
	  offsetof(type, field.endpoint),                                                          \
	  "the server of a bucket, http[s]://HOST[:PORT], instead of AWS's" },                     \
		{ "region",                                                                        \
		  0,                                                                               \
		  "NAME",                                                                          \
		  cmd_take_text,                                                                   \
		  offsetof(type, field.region),                                                    \
		  "the bucket's region, instead of what AWS_REGION or ~/.aws/config says" },       \
	{                                                                                          \
		"style", 0, "path|host", cmd_take_style, offsetof(type, field.style),              \
			"where the bucket's name stands in a request: the default is path with "   \
			"--endpoint, else host"                                                    \
	}

struct cmd_sync {
	struct bucket_where where;
	const struct bucket_layout *layout;
	const char *session;
	bool watch, drop, dry, json;
	int64_t every; /* nanoseconds */
};

#define CMD_SYNC(type, field)                                                                      \
	{ "session",                                                                               \
	  0,                                                                                       \
	  "GLOB",                                                                                  \
	  cmd_take_text,                                                                           \
	  offsetof(type, field.session),                                                           \
	  "with a bucket: only sessions with such ids" },                                          \
		CMD_YES(type, field.watch, "watch", 0, "with a bucket: go on, round after round"), \
		{ "every",                                                                         \
		  0,                                                                               \
		  "AGE",                                                                           \
		  cmd_take_age,                                                                    \
		  offsetof(type, field.every),                                                     \
		  "with --watch: from one round to the next, instead of 5s" },                     \
		CMD_YES(type, field.drop, "delete", 0,                                             \
			"with a bucket: also delete what an earlier run has brought over and the " \
			"source "                                                                  \
			"has no more"),                                                            \
		CMD_WHERE(type, field.where)

/* Whether an option was given that only a bucket has. */
bool cmd_sync_used(const struct cmd_sync *sync);
/* A layout by its name, or NULL. */
const struct bucket_layout *cmd_sync_layout(const char *name);
/* Brings a store to a bucket (up) or a bucket to a store; the command's status. */
int cmd_sync_run(const struct cmd_sync *cmd, struct options *options, const char *store,
		 const char *url, bool up, unsigned copier_flags);

#endif
