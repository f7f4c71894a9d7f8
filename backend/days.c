/* SPDX-License-Identifier: MIT */
#include "backend/days.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

static const int64_t day_length = 86400LL * 1000000000;

/* Where a day is, or has to be. */
static size_t days_place(const struct backend_days *days, int64_t day)
{
	size_t low = 0, high = days->count;

	/* Most rows are of the newest day so far. */
	if (high && days->day[high - 1].day < day)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (days->day[middle].day < day)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int backend_days_add(struct backend_days *days, int64_t created, uint64_t bytes)
{
	int64_t day = created / day_length - (created % day_length < 0);
	size_t place = days_place(days, day);

	if (!created)
		return 0;
	if (place == days->count || days->day[place].day != day) {
		if (ARRAY_ROOM(days->day, days->count, days->room) < 0)
			return -ENOMEM;
		memmove(days->day + place + 1, days->day + place,
			(days->count - place) * sizeof(*days->day));
		days->day[place] = (struct backend_day){ .day = day };
		days->count++;
	}
	days->day[place].items++;
	days->day[place].bytes += bytes;
	return 0;
}

int backend_days_tell(const struct backend_days *days, backend_day_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < days->count; i++)
		r = fn(arg, &days->day[i]);
	return MIN(r, 0);
}

void backend_days_done(struct backend_days *days)
{
	free(days->day);
	*days = (struct backend_days){ 0 };
}
