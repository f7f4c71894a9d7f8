/* SPDX-License-Identifier: MIT */
#include "src/lib/name.h"

#include <errno.h>

#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"
#include "src/lib/why.h"

/* Cut between two characters. */
int name_shown(struct bytes bytes)
{
	size_t size = MIN(bytes.size, (size_t)SHOWN_MAX);

	while (size && size < bytes.size && ((unsigned char)bytes.data[size] & 0xc0) == 0x80)
		size--;
	return (int)size;
}

int name_take_id(const char *id, const char *what, struct bytes *ret_bytes)
{
	if (!id || !*id)
		return why_refuse(-EINVAL, "the %s is empty", what);
	*ret_bytes = bytes_str(id);
	if (!utf8_valid(*ret_bytes))
		return why_refuse(-EINVAL, "the %s is not UTF-8", what);
	return 0;
}

int name_take(const char *session, const char *key, struct name *ret_name)
{
	int r = name_take_id(session, "session", &ret_name->session);

	return r < 0 ? r : name_take_id(key, "key", &ret_name->key);
}

int name_take_state(const char *session, const char *key, struct name *ret_name)
{
	int r = name_take(session, key, ret_name);

	if (r == 0 && bytes_ends_with(ret_name->key, SIDECAR))
		return why_refuse(-EINVAL, NAMED ": a key that ends in %s belongs to a list",
				  SHOWN_NAME(ret_name), SIDECAR.data);
	return r;
}
