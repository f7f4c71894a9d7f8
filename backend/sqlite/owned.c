/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/internal.h"
#include "backend/sqlite/sqlite.h"

bool sqlite_backend_is_owned(const char *path)
{
	struct backend_options options = { .read_only = true };
	struct sqlite_place place;
	bool owned;

	if (sqlite_place_find(path, &options, &place, NULL) < 0)
		return false;
	owned = sqlite_file_owned(place.file);
	sqlite_place_done(&place);
	return owned;
}
