/* SPDX-License-Identifier: MIT */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

/* UTF-8 as RFC 3629 has it: no surrogates, nothing overlong, nothing above U+10FFFF. */

#include <stdbool.h>
#include <stddef.h>

#include "backend/base/buf.h"

static inline bool utf8_continues(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

/* Length of the valid sequence at the start (1 to 4), or 0; NUL counts as valid. */
static inline size_t utf8_sequence(struct bytes text)
{
	const unsigned char *at = (const unsigned char *)text.data;

	if (text.size == 0)
		return 0;
	if (at[0] < 0x80)
		return 1;
	if (at[0] < 0xc2 || at[0] > 0xf4)
		return 0;
	if (at[0] < 0xe0)
		return text.size >= 2 && utf8_continues(at[1]) ? 2 : 0;
	/* The first byte narrows the second where the form would be overlong, a surrogate or above
	 * U+10FFFF (section 4). */
	if (at[0] < 0xf0) {
		if (text.size < 3 || !utf8_continues(at[1]) || !utf8_continues(at[2]))
			return 0;
		return (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ? 0 : 3;
	}
	if (text.size < 4 || !utf8_continues(at[1]) || !utf8_continues(at[2]) ||
	    !utf8_continues(at[3]))
		return 0;
	return (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f) ? 0 : 4;
}

bool utf8_valid(struct bytes text);

#endif
