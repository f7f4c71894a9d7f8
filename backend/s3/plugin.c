/* SPDX-License-Identifier: MIT */
#include "backend/plugin.h"

#include "backend/s3/s3.h"

const struct plugin sessfs_plugin = {
	.abi = plugin_abi,
	.seam = plugin_seam,
	.set_log_sink = log_set_sink,
	.set_log_level = log_set_level,
	.s3 = &s3_ops,
};
