/* SPDX-License-Identifier: MIT */
#include "backend/uses.h"

#include <string.h>

#include "backend/base/array.h"

/* Where the number is, or would be. */
static size_t place_of(const struct uses *uses, uint64_t ino)
{
	size_t from = 0, to = uses->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (uses->ino[middle] < ino)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static bool is_at(const struct uses *uses, size_t place, uint64_t ino)
{
	return place < uses->count && uses->ino[place] == ino;
}

int uses_add(struct uses *uses, uint64_t ino)
{
	size_t place = place_of(uses, ino);

	if (is_at(uses, place, ino))
		return 0;
	if (ARRAY_ROOM(uses->ino, uses->count, uses->room) < 0)
		return -ENOMEM;
	memmove(&uses->ino[place + 1], &uses->ino[place],
		(uses->count - place) * sizeof(*uses->ino));
	uses->ino[place] = ino;
	uses->count++;
	return 0;
}

void uses_remove(struct uses *uses, uint64_t ino)
{
	size_t place = place_of(uses, ino);

	if (!is_at(uses, place, ino))
		return;
	uses->count--;
	memmove(&uses->ino[place], &uses->ino[place + 1],
		(uses->count - place) * sizeof(*uses->ino));
}

bool uses_has(const struct uses *uses, uint64_t ino)
{
	return is_at(uses, place_of(uses, ino), ino);
}

void uses_done(struct uses *uses)
{
	free(uses->ino);
	*uses = (struct uses){ 0 };
}
