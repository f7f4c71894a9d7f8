/* SPDX-License-Identifier: MIT */

/* A plugin for URLs that needs no server: each process that opens one has a store in memory.  What
 * the program does with URLs is tried by it. */

#include "backend/memory/memory.h"
#include "backend/plugin.h"

static int open_memory(const struct url *url, const struct backend_options *options,
		       struct backend **ret_backend, char **ret_why)
{
	(void)url, (void)ret_why;
	return memory_backend_open(options, ret_backend);
}

const struct plugin sessfs_plugin = {
	.abi = plugin_abi,
	.seam = plugin_seam,
	.set_log_sink = log_set_sink,
	.set_log_level = log_set_level,
	.open = open_memory,
};
