/* SPDX-License-Identifier: MIT */
#include "fs/views/windows.h"

const struct views views = {
	.unlink = window_unlink,
	.free = window_free,
	.open = through_open,
	.close = through_free,
	.read = through_read,
	.write = saving_write,
	.flush = saving_flush,
	.abandon = saving_abandon,
	.lookup = window_lookup,
	.ask = question_lookup,
	.list = window_list,
	.stat = window_stat,
	.show = window_show,
	.set_attr = window_set_attr,
};
