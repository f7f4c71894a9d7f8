/* SPDX-License-Identifier: MIT */

/* A plugin that opens nothing, and says what it was asked for. */

#include <errno.h>

#include "backend/plugin.h"
#include "backend/url/url.h"
#include "backend/base/buf.h"

#ifndef FAKE_ABI
#define FAKE_ABI plugin_abi
#endif

#ifndef FAKE_SEAM
#define FAKE_SEAM plugin_seam
#endif

static int fake_prepare(const struct url *url, char **ret_why)
{
	if (url->database && strcmp(url->database, "unprepared") == 0)
		return str_explain(ret_why, -EPERM, "not prepared");
	log_info("prepared for %s", url->database);
	return 0;
}

static int fake_open(const struct url *url, const struct backend_options *options,
		     struct backend **ret_backend, char **ret_why)
{
	(void)ret_backend;
	return str_explain(ret_why, -EXDEV, "%s %s %s table %s%s%s", url->scheme, url->user,
			   url->password ? url->password : "-",
			   options->table ? options->table : "-", url->durable ? " durable" : "",
			   options->read_only ? " read-only" : "");
}

const struct plugin sessfs_plugin = {
	.abi = FAKE_ABI,
	.seam = FAKE_SEAM,
	.set_log_sink = log_set_sink,
	.set_log_level = log_set_level,
	.prepare = fake_prepare,
	.open = fake_open,
};
