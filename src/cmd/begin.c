/* SPDX-License-Identifier: MIT */
#include "src/cmd/begin.h"

#include "fs/api/layout.h"
#include "backend/base/cleanup.h"
#include "src/user/settings.h"

static void begin(struct backend *backend, const struct options *options)
{
	_cleanup_(freep) char *why = NULL;
	struct settings settings;

	if (settings_read(backend, &settings, NULL, &why) == 0 && !settings.set[SETTING_LAYOUT])
		(void)layout_begin(backend, options->layout);
}

void begin_store(const char *store, const struct options *options)
{
	const struct backend_options wanted = { .table = options->table,
						.create = true,
						.owner = "a mount that begins" };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(freep) char *why = NULL;

	if (options->set_layout && !options->tree.read_only && backend_has_path(store) &&
	    backend_open(store, &wanted, &backend, &why) == 0)
		begin(backend, options);
}

int begin_opened(const char *store, struct backend *backend, const struct options *options,
		 char **ret_why)
{
	/* A store in memory is never shared. */
	if (options->set_layout && !backend_has_path(store))
		begin(backend, options);
	return settings_agree(backend, options, ret_why);
}
