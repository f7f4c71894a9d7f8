/* SPDX-License-Identifier: MIT */
#include "backend/base/utf8.h"

#include <stdint.h>
#include <string.h>

static const char *skip_ascii(const char *from, const char *end)
{
	for (uint64_t word; end - from >= 8; from += 8) {
		memcpy(&word, from, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	while (from < end && !(*from & 0x80))
		from++;
	return from;
}

bool utf8_valid(struct bytes text)
{
	const char *next = text.data, *end = text.size ? next + text.size : next;

	while ((next = skip_ascii(next, end)) < end) {
		size_t size = utf8_sequence(bytes_make(next, (size_t)(end - next)));

		if (size == 0)
			return false;
		next += size;
	}
	return true;
}
