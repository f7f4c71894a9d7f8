/* SPDX-License-Identifier: MIT */
/* The words of a line, for full-text search. */
#include "fs/api/text.h"

#include <stdint.h>

#include "fs/base/look.h"
#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"
#include "fs/base/json.h"

enum { CODE_LEAST = 256 /* bytes of a string that may encode something */ };

/* Base64 of either alphabet, or hexadecimal, which is not said text.  A string of that length has
 * letters of all kinds, which a path with the same letters does not have, or signs of both
 * alphabets. */
static bool is_code(struct bytes inside)
{
	bool upper = false, lower = false, digit = false, one = false, other = false, hex = true;

	if (inside.size < CODE_LEAST)
		return false;
	for (size_t i = 0; i < inside.size; i++) {
		const char byte = inside.data[i];
		const bool is_upper = byte >= 'A' && byte <= 'Z';
		const bool is_lower = byte >= 'a' && byte <= 'z';
		const bool is_digit = byte >= '0' && byte <= '9';

		if (!is_upper && !is_lower && !is_digit && !memchr("+/=-_", byte, 5))
			return false;
		upper |= is_upper;
		lower |= is_lower;
		digit |= is_digit;
		one |= byte == '+' || byte == '/';
		other |= byte == '-' || byte == '_';
		hex &= is_digit || (is_upper && byte <= 'F') || (is_lower && byte <= 'f');
	}
	return hex || (upper && lower && digit && !(one && other));
}

/* Han, kana: each letter is looked for as a word of its own. */
static bool is_alone(const unsigned char *at, size_t size)
{
	uint32_t code;

	if (size < 3)
		return false;
	code = size == 3 ? (uint32_t)(at[0] & 0xf) << 12 | (uint32_t)(at[1] & 0x3f) << 6 |
				   (at[2] & 0x3f) :
			   (uint32_t)(at[0] & 7) << 18 | (uint32_t)(at[1] & 0x3f) << 12;
	return (code >= 0x3041 && code <= 0x30ff) || (code >= 0x3400 && code <= 0x4dbf) ||
	       (code >= 0x4e00 && code <= 0x9fff) || (code >= 0xf900 && code <= 0xfaff) ||
	       (code >= 0x20000 && code <= 0x3ffff);
}

/* Bytes that are not characters become blanks. */
static int said_put(struct bytes bytes, bool apart, struct buf *out)
{
	int r = 0;

	while (r == 0 && bytes.size) {
		size_t run = 0, size;
		bool alone;

		while (run < bytes.size && (signed char)bytes.data[run] > 0)
			run++;
		if (run) {
			r = buf_append(out, bytes.data, run);
			bytes = bytes_make(bytes.data + run, bytes.size - run);
			continue;
		}
		size = utf8_sequence(bytes);
		alone = apart && is_alone((const unsigned char *)bytes.data, size);

		if (!size || !*bytes.data)
			r = buf_append_byte(out, ' ');
		else if (alone)
			r = buf_append_byte(out, ' ');
		if (r == 0 && size && *bytes.data)
			r = buf_append(out, bytes.data, size);
		if (r == 0 && alone)
			r = buf_append_byte(out, ' ');
		size = MAX(size, 1);
		bytes = bytes_make(bytes.data + size, bytes.size - size);
	}
	return r;
}

static int say_string(struct bytes inside, bool apart, struct buf *out)
{
	const char *at = inside.data, *end = at + inside.size;
	char decoded[4];
	int r = 0;

	while (r == 0 && at < end) {
		const char *escape = memchr(at, '\\', (size_t)(end - at));
		const char *stop = escape ? escape : end;

		r = said_put(bytes_make(at, (size_t)(stop - at)), apart, out);
		at = stop;
		if (r == 0 && at < end) {
			size_t size = look_unescape(&at, end, decoded);

			r = said_put(bytes_make(decoded, size), apart, out);
		}
	}
	return r == 0 ? buf_append_byte(out, apart ? '\n' : '\0') : r;
}

static int say_line(struct bytes text, bool apart, struct buf *out)
{
	int r = text.size ? said_put(text, apart, out) : 0;

	return r == 0 ? buf_append_byte(out, apart ? '\n' : '\0') : r;
}

static int say_strings(struct bytes line, bool apart, struct buf *out)
{
	const char *at = line.data, *end = at + line.size;
	int r = 0;

	if (!line.size)
		return 0;
	if (!json_valid(line, NULL))
		return say_line(line, apart, out);
	while (r == 0 && (at = memchr(at, '"', (size_t)(end - at)))) {
		const char *start = at + 1, *close = look_string(start, end), *next;
		struct bytes inside = bytes_make(start, (size_t)(close - start));

		at = close + (close < end);
		next = look_blanks(at, end);
		if ((next == end || *next != ':') && inside.size && !is_code(inside))
			r = say_string(inside, apart, out);
	}
	return r;
}

int text_said(struct bytes line, struct buf *out)
{
	return say_strings(line, true, out);
}

int text_strings(struct bytes line, struct buf *out)
{
	return say_strings(line, false, out);
}

int text_said_by(struct bytes text, struct buf *out)
{
	return say_line(text, true, out);
}
