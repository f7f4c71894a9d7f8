/* SPDX-License-Identifier: MIT */
/* fork: a new session with what another one has, or had. */
#include <errno.h>
#include <string.h>

#include "backend/base/log.h"
#include "src/cmd/past.h"

struct fork_values {
	struct options options; /* must be first */
	int64_t at;
	struct past_items items;
	const char *key;
	bool rewrites;
};

static const struct cmd_option fork_options[] = {
	{ "at", 0, "TIME", past_take_time, offsetof(struct fork_values, at),
	  "as it was at this time, or this long ago (2h)" },
	{ "items", 0, "A-B", past_take_items, offsetof(struct fork_values, items),
	  "of lists, only the items with these indexes, from 0" },
	{ "key", 0, "KEY", cmd_take_text, offsetof(struct fork_values, key), "only this key" },
	CMD_YES(struct fork_values, rewrites, "rewrite-id", 0,
		"replace the id by the new one also in items and names"),
	CMD_WRITER,
};

static int fail(char **operands, int error)
{
	if (error == -ENOENT)
		log_error("%s: there is no session %s", operands[0], operands[1]);
	else if (error == -EEXIST)
		log_error("%s: there is a session %s already", operands[0], operands[2]);
	else if (error == -EINVAL)
		log_error("%s: the id %s is no part of the path of the session, or '%s' cannot "
			  "be an id there",
			  operands[0], operands[1], operands[2]);
	else if (error == -EOPNOTSUPP)
		log_error("%s: this kind of store, or the version of sessfs that has mounted it, "
			  "makes no forks",
			  operands[0]);
	else
		return cmd_fail(operands[0], operands[1], error);
	return CMD_FAILED;
}

/* An id whose bytes are the same in JSON, and long enough to be nothing else. */
static bool can_rewrite(const char *id)
{
	/* With a layout, it is the last part. */
	if (strpbrk(id, ":/"))
		id = MAX(strrchr(id, ':'), strrchr(id, '/')) + 1;
	return strlen(id) >= 8 &&
	       !id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			      "0123456789-_.")];
}

static int run_fork(void *given, char **operands)
{
	struct fork_values *values = given;
	_cleanup_(access_closep) struct access *access = NULL;
	_cleanup_(buf_done) struct buf order = { 0 };
	const struct history_fork fork = {
		.session = bytes_str(operands[1]),
		.to = bytes_str(operands[2]),
		.key = values->key ? bytes_str(values->key) : (struct bytes){ 0 },
		.time = values->at ? values->at : INT64_MAX,
		.first = values->items.given ? values->items.first : INT64_MIN,
		.last = values->items.given ? values->items.last : INT64_MAX,
		.rewrites = values->rewrites,
	};
	int r;

	if (fork.rewrites && (!can_rewrite(operands[1]) || !can_rewrite(operands[2])))
		return cmd_misused(&cmd_fork, "--rewrite-id takes ids of at least 8 letters, "
					      "digits, dots, - and _");
	if (store_open(operands[0], ACCESS_WRITE, &values->options, &access) < 0)
		return CMD_FAILED;
	r = order_fork(&order, &fork);
	if (r == 0)
		r = access_order(access, buf_bytes(&order));
	return r < 0 ? fail(operands, r) : CMD_DONE;
}

const struct command cmd_fork = {
	.name = "fork",
	.arguments = "[--at=TIME] [--items=A-B] [--key=KEY] [--rewrite-id] [-o OPTIONS] STORE "
		     "SESSION NEW",
	.summary = "make a new session of another one",
	.help = "Makes the session NEW with what SESSION has, or had at a time, in one "
		"transaction.  "
		"Items keep their times; ordinary files are copied as they are now.  In a store "
		"with a layout, the new session has the path of the other one with NEW in the "
		"place of its id.",
	.more = "NEW may be what the client knows a session by, such as the UUID in the name of a "
		"transcript of Codex.  A client that has written the id into the items, as all "
		"coding agents do, resumes a fork that has the new one there: --rewrite-id.  The "
		"store may be mounted.",
	.failed = "nothing was changed",
	CMD_OPTIONS(fork_options),
	.least = 3,
	.most = 3,
	.operands = "takes a store, a session, and the id of the new one",
	.size = sizeof(struct fork_values),
	.run = run_fork,
};
