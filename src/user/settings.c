/* SPDX-License-Identifier: MIT */
#include "src/user/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fs/api/trash.h"
#include "fs/base/layout.h"
#include "backend/base/cleanup.h"

static const int64_t second = 1000000000;

/* The value that the options give a setting; returns whether they give one. */
static bool option_says(const struct options *options, enum setting setting, uint64_t *ret_value)
{
	const struct tree_options *tree = &options->tree;
	const struct {
		bool given;
		uint64_t value;
	} said[SETTINGS] = {
		[SETTING_STRICT] = { tree->strict, tree->strict },
		[SETTING_EXACT] = { tree->exact, tree->exact },
		[SETTING_MAX_SIZE] = { options->set_max_size, tree->max_size },
		[SETTING_QUOTA] = { options->set_quota, tree->quota },
		[SETTING_TTL] = { options->set_ttl, (uint64_t)(tree->ttl / second) },
		[SETTING_GRACE] = { options->set_grace, (uint64_t)(tree->grace / second) },
		[SETTING_HISTORY] = { options->set_history, (uint64_t)(tree->history / second) },
		[SETTING_HISTORY_SIZE] = { options->set_history_size, tree->history_size },
		[SETTING_PAUSE] = { tree->set_pause, tree->pause },
		[SETTING_LAYOUT] = { options->set_layout, options->layout },
	};

	*ret_value = said[setting].value;
	return said[setting].given;
}

static bool is_flag(enum setting setting)
{
	return setting == SETTING_STRICT || setting == SETTING_EXACT;
}

int setting_parse(enum setting setting, const char *text, uint64_t *ret_value, char **ret_why)
{
	_cleanup_(options_done) struct options options = { 0 };
	_cleanup_(freep) char *option = str_printf("%s=%s", setting_name(setting), text);
	int r;

	if (!option)
		return -ENOMEM;
	if (is_flag(setting)) {
		*ret_value = strcmp(text, "yes") == 0;
		return *ret_value || strcmp(text, "no") == 0 ?
			       0 :
			       str_explain(ret_why, -EINVAL,
					   "the setting '%s' is not understood: it takes yes or no",
					   option);
	}
	r = strchr(text, ',') ?
		    str_explain(ret_why, -EINVAL,
				"the setting '%s' is not understood: it has a comma", option) :
		    options_parse(&options, OPTIONS_MOUNT, option, ret_why);
	if (r == 0)
		option_says(&options, setting, ret_value);
	return r;
}

/* With the largest unit in which it is a whole number. */
static const char *show_units(uint64_t value, const char *letters, const uint64_t *units,
			      size_t count, char text[SETTING_TEXT])
{
	char letter[2] = "";

	for (size_t i = 0; value && i < count; i++)
		if (value % units[i] == 0) {
			value /= units[i];
			letter[0] = letters[i];
			break;
		}
	snprintf(text, SETTING_TEXT, "%" PRIu64 "%s", value, letter);
	return text;
}

const char *setting_show(enum setting setting, uint64_t value, char text[SETTING_TEXT])
{
	_Static_assert((int)SETTING_TEXT >= (int)LAYOUTS_TEXT, "room for layouts");
	static const uint64_t sizes[] = { 1ULL << 40, 1ULL << 30, 1ULL << 20, 1ULL << 10 };
	static const uint64_t times[] = { 86400, 3600, 60, 1 };

	if (is_flag(setting))
		return value ? "yes" : "no";
	if (setting == SETTING_LAYOUT)
		return layouts_show(value, text);
	if (setting == SETTING_TTL && !value)
		return "never";
	if (setting == SETTING_MAX_SIZE || setting == SETTING_QUOTA ||
	    setting == SETTING_HISTORY_SIZE)
		return show_units(value, "TGMK", sizes, ARRAY_SIZE(sizes), text);
	if (setting == SETTING_TTL || setting == SETTING_GRACE || setting == SETTING_HISTORY)
		return show_units(value, "dhms", times, ARRAY_SIZE(times), text);
	return show_units(value, "", NULL, 0, text);
}

uint64_t setting_default(enum setting setting)
{
	static const uint64_t defaults[SETTINGS] = {
		[SETTING_GRACE] = TRASH_GRACE / 1000000000,
		[SETTING_HISTORY] = TRASH_GRACE / 1000000000,
		[SETTING_PAUSE] = 1,
	};

	return defaults[setting];
}

void settings_assume(const struct options *options, struct tree_options *tree)
{
	if (!options->set_grace)
		tree->grace = TRASH_GRACE;
	if (!options->set_history)
		tree->history = TRASH_GRACE;
}

int64_t setting_time(const struct settings *settings, enum setting setting)
{
	uint64_t seconds =
		settings->set[setting] ? settings->value[setting] : setting_default(setting);

	return (int64_t)seconds * second;
}

int settings_agree(struct backend *backend, const struct options *options, char **ret_why)
{
	struct settings settings;
	int r = settings_read(backend, &settings, NULL, ret_why);

	if (options->set_max_size && !backend_has_quota(backend))
		return str_explain(ret_why, -EOPNOTSUPP,
				   "max_size is for stores in files; on a server, its "
				   "administrator limits the room");
	/* Of a damaged store what can be read is shown; nothing is written to it. */
	if (r == -EIO)
		return 0;
	for (int i = 0; r == 0 && i < SETTINGS; i++) {
		char wanted[SETTING_TEXT], has[SETTING_TEXT];
		const char *name = setting_name(i), *text;
		uint64_t value;

		/* A store always has a layout. */
		if (!option_says(options, i, &value) || settings.value[i] == value ||
		    (!settings.set[i] && i != SETTING_LAYOUT))
			continue;
		text = setting_show(i, value, wanted);
		r = str_explain(
			ret_why, -EINVAL,
			"the option %s=%s contradicts the setting of the store, which is %s=%s; "
			"leave it out, or change the setting with 'sessfs config STORE %s=%s'",
			name, text, name, setting_show(i, settings.value[i], has), name, text);
	}
	return r;
}
