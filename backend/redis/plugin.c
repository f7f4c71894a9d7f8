/* SPDX-License-Identifier: MIT */
#include "backend/plugin.h"

#include "backend/redis/redis.h"
#include "backend/redis/wire.h"

const struct plugin sessfs_plugin = {
	.abi = plugin_abi,
	.seam = plugin_seam,
	.set_log_sink = log_set_sink,
	.set_log_level = log_set_level,
	.prepare = wire_prepare,
	.open = redis_store_open,
	.read_older = redis_store_read_older,
};
