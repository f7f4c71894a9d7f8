/* SPDX-License-Identifier: MIT */
#include "fs/api/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fs/base/layout.h"
#include "fs/base/ttl.h"
#include "fs/inode/quota.h"
#include "fs/share/share.h"
#include "fs/upkeep/upkeep.h"
#include "backend/base/log.h"

static const int64_t second = 1000000000;

static const struct {
	const char *name;
	uint64_t most;
	const char *unit;
} rows[SETTINGS] = {
	[SETTING_STRICT] = { "strict", 1, "" },
	[SETTING_EXACT] = { "exact", 1, "" },
	[SETTING_MAX_SIZE] = { "max_size", INT64_MAX, " bytes" },
	[SETTING_QUOTA] = { "quota", INT64_MAX, " bytes" },
	[SETTING_TTL] = { "ttl", INT64_MAX / 1000000000, " s" },
	[SETTING_GRACE] = { "grace", INT64_MAX / 1000000000, " s" },
	[SETTING_HISTORY] = { "history", INT64_MAX / 1000000000, " s" },
	[SETTING_HISTORY_SIZE] = { "history_size", INT64_MAX, " bytes" },
	[SETTING_PAUSE] = { "pause", 1024, " s" },
	[SETTING_LAYOUT] = { "layout", LAYOUTS_ALL, "" },
};

const char *setting_name(enum setting setting)
{
	return rows[setting].name;
}

const char setting_moving[] = "layout_moving";
const char setting_incomplete[] = "incomplete";
static const char setting_quotas[] = "quotas";

struct reading {
	struct settings settings;
	char *table;
	char **why;
};

/* A setting with an unknown name belongs to a newer version. */
static int keep_setting(void *arg, struct bytes name, struct bytes data)
{
	struct reading *reading = arg;
	struct settings *settings = &reading->settings;
	struct bytes rest = data;

	if (bytes_equal(name, BYTES("table"))) {
		free(reading->table);
		reading->table = bytes_dup(data);
		return reading->table ? 0 : -ENOMEM;
	}
	if (bytes_equal(name, BYTES(BACKEND_UNADOPTED))) {
		settings->unadopted = true;
		settings->listed = bytes_equal(data, BYTES(BACKEND_UNADOPTED_KEYS));
	}
	settings->moving |= bytes_equal(name, bytes_str(setting_moving));
	settings->quotas |= bytes_equal(name, bytes_str(setting_quotas));
	settings->incomplete |= bytes_equal(name, bytes_str(setting_incomplete));
	for (size_t i = 0; i < SETTINGS; i++) {
		if (!bytes_equal(name, bytes_str(rows[i].name)))
			continue;
		settings->set[i] =
			number_take(&rest, rows[i].most, &settings->value[i]) && !rest.size;
		if (!settings->set[i])
			return str_explain(reading->why, -EINVAL,
					   "the store has the setting %s=%.*s, which is not "
					   "understood; 'sessfs config STORE %s=' removes it",
					   rows[i].name, (int)MIN(data.size, 100), data.data,
					   rows[i].name);
	}
	return 0;
}

int settings_read(struct backend *backend, struct settings *ret_settings, char **ret_table,
		  char **ret_why)
{
	struct reading reading = { .why = ret_why };
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin_plain(backend, &view);

	if (r == 0)
		r = ASK(&view, setting_list, keep_setting, &reading);
	if (r == 0)
		*ret_settings = reading.settings;
	if (r == 0 && ret_table)
		*ret_table = reading.table;
	else
		free(reading.table);
	return r;
}

/* In a tree. */

static uint64_t choose(const struct settings *settings, enum setting setting, uint64_t own)
{
	return settings->set[setting] ? settings->value[setting] : own;
}

static void apply_quotas(struct tree *tree, const struct settings *settings)
{
	const uint64_t each = choose(settings, SETTING_QUOTA, tree->options.quota);
	const bool any = tree->quota.any || settings->quotas;

	/* Without a quota nothing was counted. */
	if (each != tree->quota.each || any != tree->quota.any)
		quota_void(tree);
	tree->quota.each = each;
	tree->quota.any = any;
	/* A change of the layout adds no bytes. */
	tree->quota.on = (each || any) && !tree->options.relayout;
}

static void apply(struct tree *tree, const struct settings *settings)
{
	const struct tree_options *own = &tree->options;
	uint64_t max_size = choose(settings, SETTING_MAX_SIZE, own->max_size);

	tree->ttl = (int64_t)choose(settings, SETTING_TTL, (uint64_t)(own->ttl / second)) * second;
	tree->grace =
		(int64_t)choose(settings, SETTING_GRACE, (uint64_t)(own->grace / second)) * second;
	tree->history =
		(int64_t)choose(settings, SETTING_HISTORY, (uint64_t)(own->history / second)) *
		second;
	tree->upkeep->history_size = choose(settings, SETTING_HISTORY_SIZE, own->history_size);
	tree->backend->forgets = !tree->history;
	tree->pause = (unsigned)choose(settings, SETTING_PAUSE, own->set_pause ? own->pause : 1);
	if (max_size != tree->upkeep->max_size)
		backend_set_quota(tree->backend, max_size);
	tree->upkeep->max_size = max_size;
	apply_quotas(tree, settings);
	tree->upkeep->settings = *settings;
}

int settings_obey(struct tree *tree, char **ret_why)
{
	struct settings settings = { 0 };
	char text[LAYOUTS_TEXT];
	int r = 0;

	/* The options are in force while the store cannot be read. */
	apply(tree, &settings);
	r = settings_read(tree->backend, &settings, NULL, ret_why);
	if (r == 0)
		tree->layout = choose(&settings, SETTING_LAYOUT, 0);
	if (r == 0 && settings.incomplete)
		return str_explain(
			ret_why, -EUCLEAN,
			"the store is a copy that is not complete: a command is still making it, "
			"or was interrupted; 'sessfs restore --force' makes it again");
	if (r == 0) {
		tree->rest.any = settings.unadopted;
		tree->rest.listed = settings.listed;
	}
	if (tree->options.read_only)
		return 0;
	if (r == 0 && settings.moving && !tree->options.relayout)
		r = str_explain(ret_why, -EBUSY,
				"the change to another layout is not complete; 'sessfs config "
				"STORE layout=%s' continues it",
				layouts_show(settings.value[SETTING_LAYOUT], text));
	if (r < 0)
		return r;
	tree->options.strict = choose(&settings, SETTING_STRICT, tree->options.strict);
	tree->options.exact = choose(&settings, SETTING_EXACT, tree->options.exact);
	apply(tree, &settings);
	return 0;
}

void settings_look(struct tree *tree)
{
	_cleanup_(freep) char *why = NULL;
	const uint64_t at = tree->backend->settings;
	struct settings settings;
	bool any = false;

	if (at && at == tree->upkeep->settings_at)
		return;
	/* A setting that cannot be read or understood changes nothing; the next open of the store
	 * reports it. */
	if (tree->options.read_only || settings_read(tree->backend, &settings, NULL, &why) < 0)
		return;
	tree->upkeep->settings_at = at;
	if (!settings.unadopted && tree->rest.any)
		rest_end(tree);
	tree->rest.listed = settings.listed;
	any = settings.quotas && !tree->quota.any;
	for (size_t i = SETTING_MAX_SIZE; i < SETTING_LAYOUT; i++) {
		if (settings.set[i] == tree->upkeep->settings.set[i] &&
		    settings.value[i] == tree->upkeep->settings.value[i])
			continue;
		any = true;
		if (settings.set[i])
			log_info("the store now has the setting %s=%" PRIu64 "%s", rows[i].name,
				 settings.value[i], rows[i].unit);
		else
			log_info("the store no longer has the setting %s", rows[i].name);
	}
	if (!any)
		return;
	apply(tree, &settings);
	expire_soon(tree);
}

void settings_note_quotas(struct tree *tree, struct batch *batch)
{
	if (!tree->quota.any)
		BATCH_PUT(batch, BACKEND_SETTING, .name = bytes_str(setting_quotas),
			  .data = BYTES("1"));
}
