/* SPDX-License-Identifier: MIT */
#include "fs/base/look.h"

#include <string.h>

const char *look_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
		at++;
	return at;
}

const char *look_string(const char *at, const char *end)
{
	for (;;) {
		const char *quote = memchr(at, '"', (size_t)(end - at));
		const char *first = quote;

		if (!quote)
			return end;
		while (first > at && first[-1] == '\\')
			first--;
		if ((quote - first) % 2 == 0)
			return quote;
		at = quote + 1;
	}
}

/* The number of \uXXXX, with at behind the 'u'; -1: not hexadecimal. */
static int32_t code_unit(const char *at, const char *end)
{
	int32_t unit = 0;

	if (end - at < 4)
		return -1;
	for (const char *stop = at + 4; at < stop; at++) {
		char letter = *at | 0x20;

		if (*at >= '0' && *at <= '9')
			unit = unit << 4 | (*at - '0');
		else if (letter >= 'a' && letter <= 'f')
			unit = unit << 4 | (letter - 'a' + 10);
		else
			return -1;
	}
	return unit;
}

static size_t encode_utf8(int32_t code, char ret[4])
{
	size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
	static const int leads[] = { 0x00, 0xc0, 0xe0, 0xf0 };

	for (size_t i = more; i > 0; i--, code >>= 6)
		ret[i] = (char)(0x80 | (code & 0x3f));
	ret[0] = (char)(leads[more] | code);
	return more + 1;
}

size_t look_unescape(const char **at, const char *end, char ret[4])
{
	static const char letters[] = "b\bf\fn\nr\rt\t";
	const char *letter;
	int32_t code, low;

	ret[0] = *(*at)++;
	if (*at == end)
		return 1;
	ret[0] = *(*at)++;
	if (ret[0] == 'u') {
		code = code_unit(*at, end);
		if (code < 0)
			return 1;
		*at += 4;
		if (code >> 10 == 0xd800 >> 10 && end - *at >= 6 && (*at)[0] == '\\' &&
		    (*at)[1] == 'u') {
			low = code_unit(*at + 2, end);
			if (low >> 10 == 0xdc00 >> 10) {
				code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
				*at += 6;
			}
		}
		return encode_utf8(code, ret);
	}
	letter = memchr(letters, ret[0], sizeof(letters) - 1);
	if (letter && (letter - letters) % 2 == 0)
		ret[0] = letter[1];
	return 1;
}

bool look_says(struct bytes inside, struct bytes text, bool any_case)
{
	const char *at = inside.data, *end;
	char decoded[4];
	size_t size;

	if (inside.size < text.size)
		return false;
	for (end = at + inside.size; at < end;
	     text = bytes_make(text.data + size, text.size - size)) {
		if (*at == '\\') {
			size = look_unescape(&at, end, decoded);
		} else {
			size = 1;
			*decoded = *at++;
		}
		if (size > text.size)
			return false;
		for (size_t i = 0; i < size; i++)
			if ((any_case ? byte_fold(decoded[i]) : decoded[i]) != text.data[i])
				return false;
	}
	return !text.size;
}

const char *look_container(const char *at, const char *end)
{
	size_t depth = 0;

	while (at < end) {
		switch (*at++) {
		case '"':
			at = look_string(at, end);
			at += at < end;
			break;
		case '{':
		case '[':
			depth++;
			break;
		case '}':
		case ']':
			if (--depth == 0)
				return at;
			break;
		}
	}
	return end;
}

const char *look_token(const char *at, const char *end)
{
	while (at < end && !memchr(",}] \t\r\n", *at, 7))
		at++;
	return at;
}

struct look look_into(struct bytes value)
{
	bool object = look_is(value, '{');

	if (!object && !look_is(value, '['))
		return (struct look){ NULL, NULL, false };
	return (struct look){ value.data + 1, value.data + value.size, object };
}

const char *look_behind(const char *at, const char *end)
{
	if (*at == '{' || *at == '[')
		return look_container(at, end);
	if (*at != '"')
		return look_token(at + 1, end);
	at = look_string(at + 1, end);
	return at + (at < end);
}

bool look_next(struct look *look, struct bytes *ret_key, struct bytes *ret_value)
{
	const char *end = look->end, *at = look_blanks(look->at, end), *close;

	*ret_key = bytes_make("", 0);
	if (at < end && *at == ',')
		at = look_blanks(at + 1, end);
	if (at == end || *at == ']' || *at == '}')
		return false;
	if (look->object) {
		close = *at == '"' ? look_string(at + 1, end) : end;
		if (close == end)
			return false;
		*ret_key = bytes_make(at + 1, (size_t)(close - at - 1));
		at = look_blanks(close + 1, end);
		at = look_blanks(at + (at < end && *at == ':'), end);
		if (at == end)
			return false;
	}
	look->at = look_behind(at, end);
	*ret_value = bytes_make(at, (size_t)(look->at - at));
	return true;
}

static struct bytes member(struct bytes object, struct bytes wanted)
{
	struct look look = look_into(object);
	struct bytes key, value;

	while (look.object && look_next(&look, &key, &value))
		if (look_says(key, wanted, false))
			return value;
	return bytes_make(NULL, 0);
}

struct bytes look_at(struct bytes value, const char *path)
{
	while (*path && value.data) {
		size_t size = strcspn(path, ".");

		value = member(value, bytes_make(path, size));
		path += size + (path[size] == '.');
	}
	return value;
}

void look_first(struct bytes object, const char *const *paths, look_take_fn *take, void *arg)
{
	struct look look = look_into(object);
	struct bytes key, value;
	size_t most = SIZE_MAX;

	while (look.object && look_next(&look, &key, &value))
		for (size_t i = 0; i < most && paths[i]; i++) {
			const char *dot = strchrnul(paths[i], '.');

			if (look_says(key, bytes_make(paths[i], (size_t)(dot - paths[i])), false) &&
			    take(look_at(value, dot + (*dot == '.')), arg))
				most = i;
		}
}
