/* SPDX-License-Identifier: MIT */
#include "backend/base/buf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/base/cleanup.h"

int bytes_compare(struct bytes a, struct bytes b)
{
	size_t common = MIN(a.size, b.size);
	int order = common ? memcmp(a.data, b.data, common) : 0;

	if (order)
		return order;
	return (a.size > b.size) - (a.size < b.size);
}

uint64_t bytes_hash(uint64_t hash, struct bytes bytes)
{
	for (size_t i = 0; i < bytes.size; i++)
		hash = (hash ^ (unsigned char)bytes.data[i]) * UINT64_C(0x100000001b3);
	return hash;
}

bool bytes_starts_with(struct bytes bytes, struct bytes start)
{
	return bytes.size >= start.size && bytes_equal(bytes_make(bytes.data, start.size), start);
}

bool bytes_ends_with(struct bytes bytes, struct bytes end)
{
	return end.size == 0 ||
	       (bytes.size >= end.size &&
		bytes_equal(bytes_make(bytes.data + bytes.size - end.size, end.size), end));
}

void bytes_hex(struct bytes bytes, char *ret_text)
{
	*ret_text = '\0';
	for (size_t i = 0; i < bytes.size; i++)
		snprintf(ret_text + 2 * i, 3, "%02x", (unsigned char)bytes.data[i]);
}

char *bytes_dup(struct bytes bytes)
{
	char *copy = malloc(bytes.size + 1);

	if (!copy)
		return NULL;
	if (bytes.size)
		memcpy(copy, bytes.data, bytes.size);
	copy[bytes.size] = '\0';
	return copy;
}

char *str_printf(const char *format, ...)
{
	va_list args;
	char *text;
	int size;

	va_start(args, format);
	size = vasprintf(&text, format, args);
	va_end(args);
	return size < 0 ? NULL : text;
}

int str_explain(char **text, int error, const char *format, ...)
{
	va_list args;
	char *made;
	int size;

	if (!text)
		return error;
	va_start(args, format);
	size = vasprintf(&made, format, args);
	va_end(args);
	if (size >= 0) {
		free(*text);
		*text = made;
	}
	return error;
}

int buf_reserve(struct buf *buf, size_t extra)
{
	size_t room = buf->room ? buf->room : 64;
	char *data;

	if (extra > SIZE_MAX / 2 - buf->size)
		return -ENOMEM;
	if (buf->size + extra <= buf->room)
		return 0;
	while (room < buf->size + extra)
		room *= 2;
	data = realloc(buf->data, room);
	if (!data)
		return -ENOMEM;
	buf->data = data;
	buf->room = room;
	return 0;
}

int buf_append(struct buf *buf, const void *data, size_t size)
{
	int r = buf_reserve(buf, size);

	if (r < 0)
		return r;
	if (size)
		memcpy(buf->data + buf->size, data, size);
	buf->size += size;
	return 0;
}

int buf_append_runs(struct buf *buf, const struct bytes *runs, size_t count)
{
	const size_t start = buf->size;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = buf_append_bytes(buf, runs[i]);
	if (r < 0)
		buf->size = start;
	return r;
}

int buf_append_bytes(struct buf *buf, struct bytes bytes)
{
	return buf_append(buf, bytes.data, bytes.size);
}

int buf_append_str(struct buf *buf, const char *text)
{
	return buf_append(buf, text, strlen(text));
}

int buf_append_byte(struct buf *buf, char byte)
{
	return buf_append(buf, &byte, 1);
}

int buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args;
	int size, r;

	va_start(args, format);
	size = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (size < 0)
		return -EINVAL;
	r = buf_reserve(buf, (size_t)size + 1);
	if (r < 0)
		return r;
	va_start(args, format);
	vsnprintf(buf->data + buf->size, (size_t)size + 1, format, args);
	va_end(args);
	buf->size += (size_t)size;
	return 0;
}

int buf_append_encoded(struct buf *buf, const char *text, const char *plain)
{
	int r = 0;

	for (; r == 0 && text && *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("-._~", *text) || strchr(plain, *text))
			r = buf_append_byte(buf, *text);
		else
			r = buf_printf(buf, "%%%02X", (unsigned)(unsigned char)*text);
	}
	return r;
}

static int hex_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int buf_append_decoded(struct buf *buf, struct bytes text)
{
	const size_t before = buf->size;
	int r = buf_reserve(buf, text.size);

	for (size_t i = 0; r == 0 && i < text.size; i++) {
		char byte = text.data[i];

		if (byte == '%') {
			int high = text.size - i > 2 ? hex_value(text.data[i + 1]) : -1;
			int low = high < 0 ? -1 : hex_value(text.data[i + 2]);

			if (low < 0) {
				buf->size = before;
				return -EINVAL;
			}
			byte = (char)(high << 4 | low);
			i += 2;
		}
		buf->data[buf->size++] = byte;
	}
	return r;
}

int buf_append_zeros(struct buf *buf, size_t size)
{
	int r = buf_reserve(buf, size);

	if (r < 0)
		return r;
	if (size)
		memset(buf->data + buf->size, 0, size);
	buf->size += size;
	return 0;
}

void buf_consume(struct buf *buf, size_t size)
{
	if (!size)
		return;
	memmove(buf->data, buf->data + size, buf->size - size);
	buf->size -= size;
}

void buf_done(struct buf *buf)
{
	if (!buf)
		return;
	free(buf->data);
	*buf = (struct buf){ 0 };
}
