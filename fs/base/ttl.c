/* SPDX-License-Identifier: MIT */
#include "fs/base/ttl.h"

#include <errno.h>
#include <string.h>

bool number_take(struct bytes *text, uint64_t most, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t i = 0;

	for (; i < text->size && text->data[i] >= '0' && text->data[i] <= '9'; i++) {
		uint64_t digit = (uint64_t)(text->data[i] - '0');

		if (number > (most - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	*text = bytes_make(text->data + i, text->size - i);
	*ret_number = number;
	return i > 0;
}

int duration_parse(struct bytes text, int64_t *ret_duration)
{
	static const char letters[] = "smhdwy";
	static const int64_t second = 1000000000;
	static const int64_t units[] = { 1, 60, 3600, 86400, 7 * 86400, 365 * 86400 };
	const char *letter;
	uint64_t number;
	int64_t unit = 1;

	if (!number_take(&text, INT64_MAX, &number) || text.size > 1)
		return -EINVAL;
	if (text.size) {
		letter = *text.data ? strchr(letters, *text.data) : NULL;
		if (!letter)
			return -EINVAL;
		unit = units[letter - letters];
	}
	if (number > (uint64_t)(INT64_MAX / second / unit))
		return -EINVAL;
	*ret_duration = (int64_t)number * unit * second;
	return 0;
}

int ttl_parse(struct bytes text, int64_t *ret_ttl)
{
	if (!bytes_equal(text, BYTES("never")))
		return duration_parse(text, ret_ttl);
	*ret_ttl = 0;
	return 0;
}
