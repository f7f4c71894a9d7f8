/* SPDX-License-Identifier: MIT */
#include "backend/plugin.h"

#include "backend/mysql/mysql.h"

const struct plugin sessfs_plugin = {
	.abi = plugin_abi,
	.seam = plugin_seam,
	.set_log_sink = log_set_sink,
	.set_log_level = log_set_level,
	.prepare = mysql_store_prepare,
	.open = mysql_store_open,
	.read_older = mysql_store_read_older,
};
