/* SPDX-License-Identifier: MIT */
/*
 * The settings of a store, for all its mounts.
 *
 * They are in the store itself.  Mounts that write take in changes of ttl, grace, history,
 * history_size, pause, max_size and quota while they live.  The settings that decide what the
 * bytes of a file mean (strict, exact), which path is which session (layout), and where the rows
 * are (table) change only while no mount has the store, so that no two mounts ever go by
 * different rules.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "fs/api/layout.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/cmd/cmd.h"
#include "src/mounts/mounts.h"
#include "src/user/say.h"
#include "src/user/progress.h"
#include "src/user/settings.h"

#define TABLE "agentscope_sessions"

enum {
	CONFIG_TABLE = SETTINGS,
	CONFIG_KEYS,
	WAIT_MS = 1000, /* to wait for a mount that is about to end */
};

struct config {
	struct options options;
	bool named[CONFIG_KEYS]; /* is to be printed */
	char *set[CONFIG_KEYS];	 /* new value, as it is stored; NULL: unchanged */
};

static const char *name_of(int key)
{
	return key == CONFIG_TABLE ? "table" : setting_name(key);
}

/* KEY=VALUE; an empty value takes the setting back. */
static int take_value(struct config *config, int key, const char *value)
{
	_cleanup_(freep) char *why = NULL;
	uint64_t number;
	char *set = NULL;

	if (!*value || key == CONFIG_TABLE)
		set = bytes_dup(bytes_str(value));
	else if (setting_parse(key, value, &number, &why) == 0)
		set = str_printf("%" PRIu64, number);
	free(config->set[key]);
	config->set[key] = set;
	return set ? CMD_DONE : cmd_misused(&cmd_config, "%s", why ? why : strerror(ENOMEM));
}

/* Which key it names, with or without a value; CONFIG_KEYS: none. */
static int key_of(const char *operand)
{
	size_t size = strcspn(operand, "=");
	int key = 0;

	while (key < CONFIG_KEYS &&
	       (strlen(name_of(key)) != size || strncmp(name_of(key), operand, size) != 0))
		key++;
	return key;
}

static int take_operand(struct config *config, const char *operand)
{
	_cleanup_(buf_done) struct buf keys = { 0 };
	const char *value = strchr(operand, '=');
	int key = key_of(operand);

	if (key == CONFIG_KEYS) {
		for (int i = 0; i < CONFIG_KEYS; i++)
			buf_printf(&keys, "%s%s", i ? ", " : "", name_of(i));
		return cmd_misused(&cmd_config, "there is no setting '%.*s'; there are %s",
				   (int)strcspn(operand, "="), operand,
				   keys.size ? keys.data : "others");
	}
	if (value)
		return take_value(config, key, value + 1);
	config->named[key] = true;
	return CMD_DONE;
}

static int open_store(const char *path, bool alone, struct backend **ret_backend, char **ret_why)
{
	char owner[64];
	struct backend_options wanted = { .create = true, .owner = alone ? owner : NULL };
	int r;

	snprintf(owner, sizeof(owner), "process %d, a command of sessfs", (int)getpid());
	if (alone)
		mounts_wait_unowned(path, WAIT_MS);
	r = backend_open(path, &wanted, ret_backend, ret_why);
	if (r == -EBUSY && alone)
		str_explain(ret_why, r,
			    "%s; strict, exact, layout and table can change only while nothing "
			    "else uses the store",
			    *ret_why);
	return r;
}

static int explain(int r, const char *store, const char *table, char **ret_why)
{
	if (r == -EBUSY && table && !backend_has_path(store))
		return str_explain(ret_why, r,
				   "%s: on a server, the table of the rows cannot change (table= "
				   "in the URL names it)",
				   store);
	if (r == -ENOTEMPTY)
		return str_explain(ret_why, r,
				   "%s: the table of the rows cannot change, because it has rows",
				   store);
	if (r == -EINVAL)
		return str_explain(ret_why, r, "%s: '%s' cannot be the table of the rows", store,
				   table);
	return str_explain(ret_why, r, "%s: cannot change the settings: %s", store, strerror(-r));
}

/* Takes the store over. */
static int change_layout(struct backend *backend, const char *store, const char *number,
			 char **ret_why)
{
	struct layout_changed changed;
	struct progress progress;
	int r;

	progress_begin(&progress, "layout", "file");
	store_follow(&progress, store, 1);
	r = layout_change(backend, strtoull(number, NULL, 10), &changed, ret_why);
	progress_end(&progress);
	if (r == 0 && changed.moved)
		log_warning("%s: %" PRIu64
			    " file%s a new path now: that of the session and key of the rows",
			    store, changed.moved, changed.moved == 1 ? " has" : "s have");
	return r;
}

/* All of them in one transaction, but for the layout, which may have to place files anew. */
static int change(const struct config *config, const char *store, char **ret_why)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct backend_op ops[CONFIG_KEYS];
	_cleanup_(freep) char *path = NULL;
	bool alone = false;
	size_t count = 0;
	int r;

	for (int i = 0; i < CONFIG_KEYS; i++) {
		if (!config->set[i])
			continue;
		/* These change only while no mount has the store. */
		alone |= i == SETTING_STRICT || i == SETTING_EXACT || i == SETTING_LAYOUT ||
			 i == CONFIG_TABLE;
		if (i == SETTING_LAYOUT)
			continue;
		ops[count++] = (struct backend_op){ .type = BACKEND_SETTING,
						    .name = bytes_str(name_of(i)),
						    .data = bytes_str(config->set[i]) };
	}
	if (!count && !config->set[SETTING_LAYOUT])
		return 0;
	r = access_name(store, true, &path, ret_why);
	if (r == 0)
		r = open_store(backend_has_path(store) ? path : store, alone, &backend, ret_why);
	if (r < 0)
		return r;
	if (config->set[SETTING_MAX_SIZE] && *config->set[SETTING_MAX_SIZE] &&
	    !backend_has_quota(backend))
		return str_explain(ret_why, -EOPNOTSUPP,
				   "%s: max_size is for stores in files; on a server, its "
				   "administrator limits the room",
				   store);
	r = count ? backend_commit(backend, ops, count, BACKEND_ANYWAY) : 0;
	if (r == 0)
		r = backend->ops->sync(backend);
	if (r < 0)
		return explain(r, store, config->set[CONFIG_TABLE], ret_why);
	return config->set[SETTING_LAYOUT] ? change_layout(steal_ptr(backend), store,
							   config->set[SETTING_LAYOUT], ret_why) :
					     0;
}

static void print(const struct settings *settings, const char *table, int key)
{
	const char *end = "\n";
	char text[SETTING_TEXT];
	uint64_t value;

	if (key == CONFIG_TABLE) {
		printf("table=");
		say_name(table, strcmp(table, TABLE) == 0 ? " (default)\n" : "\n");
		return;
	}
	value = settings->set[key] ? settings->value[key] : setting_default(key);
	if (!settings->set[key])
		end = " (default)\n";
	printf("%s=%s%s", name_of(key), setting_show(key, value, text), end);
}

/* Those that are named, or all if there is none. */
static int show(const struct config *config, const char *store, bool all)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(freep) char *table = NULL;
	struct settings settings;
	int r = store_open_backend(store, &config->options, NULL, &backend);

	if (r == 0)
		r = store_settings(backend, &settings, &table);
	if (r < 0)
		return r;
	for (int i = 0; i < CONFIG_KEYS; i++)
		if (all || config->named[i])
			print(&settings, table ? table : TABLE, i);
	return 0;
}

static int work(const struct config *config, const char *store, bool all)
{
	_cleanup_(freep) char *why = NULL;
	bool any = all;
	int r = change(config, store, &why);

	store_say_opened(store, r, why);
	for (int i = 0; i < CONFIG_KEYS; i++)
		any |= config->named[i];
	if (r == 0 && any)
		r = show(config, store, all);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

static int run_config(void *values, char **operands)
{
	struct config *config = values;
	int status = CMD_DONE;

	/* It would be made. */
	if (strchr(operands[0], '=') && key_of(operands[0]) < CONFIG_KEYS)
		return cmd_misused(&cmd_config, "a store is missing before '%s'%s", operands[0],
				   cmd_default_store() ? " ('-' stands for $SESSFS_STORE)" : "");
	for (char **operand = operands + 1; *operand && status == CMD_DONE; operand++)
		status = take_operand(config, *operand);
	if (status == CMD_DONE)
		status = work(config, operands[0], !operands[1]);
	for (int i = 0; i < CONFIG_KEYS; i++)
		free(config->set[i]);
	return status;
}

const struct command cmd_config = {
	.name = "config",
	.arguments = "STORE [KEY[=VALUE]...]",
	.summary = "show and change the settings of a store",
	.help = "Prints the settings of the store, all of them or the given KEYs: strict and "
		"exact (yes or no), max_size, quota, ttl, grace, history, history_size, pause and "
		"layout, which "
		"have the "
		"values of the options of 'sessfs mount', and the table that has the rows.  "
		"KEY=VALUE sets one, and KEY= removes it; several change at once.  The store is "
		"created if it does not exist.",
	.more = "All mounts that write and all commands follow the settings, and refuse an option "
		"that differs.  ttl, grace, history, history_size, pause, max_size and quota can "
		"change at any "
		"time; "
		"strict, exact, layout and table can change only while nothing else uses the "
		"store, "
		"and table only while there are no rows.  A new layout keeps paths, modes and "
		"bytes, "
		"and gives the files other sessions and keys.",
	.failed = "the store cannot be read or changed",
	.least = 1,
	.operands = "takes a store",
	.size = sizeof(struct config),
	.run = run_config,
};
