/* SPDX-License-Identifier: MIT */
#ifndef CMD_BUCKET_H
#define CMD_BUCKET_H

/* What import, export, backup and restore have in common for s3://BUCKET. */

#include "src/bucket/bucket.h"
#include "src/cmd/cmd.h"

int cmd_take_style(void *field, const char *value, char **ret_why);

#define CMD_WHERE(type, field)                                                                     \
	CMD_VALUE(type, field.endpoint, "endpoint", "URL", cmd_take_text,                          \
		  "the server of a bucket, http[s]://HOST[:PORT], instead of AWS's"),              \
		CMD_VALUE(                                                                         \
			type, field.region, "region", "NAME", cmd_take_text,                       \
			"the bucket's region, instead of what AWS_REGION or ~/.aws/config says"),  \
		CMD_VALUE(type, field.style, "style", "path|host", cmd_take_style,                 \
			  "where the bucket's name stands in a request: the default is path with " \
			  "--endpoint, else host")

#define CMD_SYNC(type, field)                                                                      \
	CMD_VALUE(type, field.glob, "session", "GLOB", cmd_take_text,                              \
		  "with a bucket: only sessions with such ids"),                                   \
		CMD_YES(type, field.watch, "watch", 0, "with a bucket: go on, round after round"), \
		CMD_VALUE(type, field.every, "every", "AGE", cmd_take_age,                         \
			  "as --watch, and from one round to the next so long, instead of 5s"),    \
		CMD_YES(type, field.drop, "delete", 0,                                             \
			"with a bucket: also delete what an earlier run has brought over and the " \
			"source has no more"),                                                     \
		CMD_WHERE(type, field.where)

/* 1: the operand is a bucket; 0: it is none, and no option was given that only a bucket has, so all
 * of them are zeros; -EINVAL after a sentence. */
int cmd_judge_bucket(const struct command *command, const char *operand, const void *options,
		     size_t size);
/* Of import.c: what was copied, or would be, and what is said of that which was not. */
void cmd_report_copied(struct copier *copier, const char *failed);
/* Brings a bucket to a store, or a store to a bucket; the command's status. */
int cmd_sync_run(struct sync *sync, struct options *options, char **operands, bool json);

#endif
