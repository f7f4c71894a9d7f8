/* SPDX-License-Identifier: MIT */
#include "backend/sql/lanes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

void sql_lanes_done(struct sql_lanes *lanes)
{
	free(lanes->lane);
	*lanes = (struct sql_lanes){ 0 };
}

int sql_lanes_copy(const struct sql_lanes *from, struct sql_lanes *to)
{
	struct sql_lane *lane = calloc(from->count + 1, sizeof(*lane));

	if (!lane)
		return -ENOMEM;
	if (from->count)
		memcpy(lane, from->lane, from->count * sizeof(*lane));
	free(to->lane);
	*to = (struct sql_lanes){ lane, from->count, from->count + 1, from->newest };
	return 0;
}

int sql_lanes_raise(struct sql_lanes *lanes, uint64_t mount, uint64_t number)
{
	for (size_t i = 0; i < lanes->count; i++)
		if (lanes->lane[i].mount == mount) {
			lanes->lane[i].number = MAX(lanes->lane[i].number, number);
			return 0;
		}
	if (ARRAY_ROOM(lanes->lane, lanes->count, lanes->room) < 0)
		return -ENOMEM;
	lanes->lane[lanes->count++] = (struct sql_lane){ mount, number };
	return 0;
}

uint64_t sql_lanes_number(const struct sql_lanes *lanes, uint64_t mount)
{
	for (size_t i = 0; i < lanes->count; i++)
		if (lanes->lane[i].mount == mount)
			return lanes->lane[i].number;
	return 0;
}

int sql_lanes_say(struct buf *buf, const struct sql_lanes *lanes, const char *mount,
		  const char *number)
{
	int r = buf_printf(buf, "(%s > %" PRIu64, mount, lanes->newest);

	for (size_t i = 0; r == 0 && i < lanes->count; i++)
		r = buf_printf(buf, " OR (%s = %" PRIu64 " AND %s > %" PRIu64 ")", mount,
			       lanes->lane[i].mount, number, lanes->lane[i].number);
	return r < 0 ? r : buf_append_byte(buf, ')');
}
