/* SPDX-License-Identifier: MIT */
#include "fs/base/template.h"

#include <errno.h>
#include <stdint.h>

#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"

/* ---- What the client writes for a value ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static bool is_safe(struct bytes text)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] != '.' &&
		    (!text.data[i] || !memchr(digits, text.data[i], sizeof(digits) - 1)))
			return false;
	return true;
}

static int base64_write(struct bytes value, struct buf *text)
{
	uint32_t bits = 0;
	unsigned count = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < value.size; i++) {
		bits = bits << 8 | (unsigned char)value.data[i];
		for (count += 8; r == 0 && count >= 6; count -= 6)
			r = buf_append_byte(text, digits[bits >> (count - 6) & 63]);
	}
	if (r == 0 && count)
		r = buf_append_byte(text, digits[bits << (6 - count) & 63]);
	return r;
}

/* A shorter text is the value itself, since names such as "adam" could be base64 as well.  Of eight
 * lower-case letters one text in two hundred is, of longer ones hardly any. */
enum { BASE64_LEAST = 8 };

/* A text is base64 if it decodes to a value that could not be written as it is. */
static int safe_read(struct bytes text, struct buf *value)
{
	_cleanup_(buf_done) struct buf again = { 0 };
	size_t start = value->size;
	uint32_t bits = 0;
	unsigned count = 0;
	struct bytes read;
	bool text_only = text.size >= BASE64_LEAST;
	int r = 0;

	for (size_t i = 0; r == 0 && text_only && i < text.size; i++) {
		const char *digit = memchr(digits, text.data[i], sizeof(digits) - 1);

		text_only = digit != NULL;
		bits = bits << 6 | (digit ? (uint32_t)(digit - digits) : 0);
		count += 6;
		if (count >= 8) {
			count -= 8;
			r = buf_append_byte(value, (char)(bits >> count));
		}
	}
	if (r < 0)
		return r;
	read = bytes_make(value->data ? value->data + start : "", value->size - start);
	for (size_t i = 0; i < read.size; i++)
		text_only &= (unsigned char)read.data[i] >= 0x20 && read.data[i] != 0x7f;
	if (text_only && utf8_valid(read) && !is_safe(read)) {
		r = base64_write(read, &again);
		if (r < 0 || bytes_equal(buf_bytes(&again), text))
			return r;
	}
	value->size = start;
	return buf_append_bytes(value, text);
}

static bool is_uuid(struct bytes text)
{
	if (text.size != 36)
		return false;
	for (size_t i = 0; i < text.size; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text.data[i] != '-' :
			   !text.data[i] || !strchr("0123456789abcdefABCDEF", text.data[i]))
			return false;
	}
	return true;
}

/* ---- Templates ---- */

/* A piece of a template: text, or a variable. */
struct piece {
	bool variable;
	struct bytes text; /* or its name */
	struct bytes type;
};

static bool next_piece(struct bytes *rest, struct piece *ret)
{
	const char *end, *bar;

	if (!rest->size)
		return false;
	ret->variable = *rest->data == '{';
	end = memchr(rest->data, ret->variable ? '}' : '{', rest->size);
	ret->text = bytes_make(rest->data + ret->variable,
			       (end ? (size_t)(end - rest->data) : rest->size) - ret->variable);
	*rest = bytes_make(rest->data + ret->text.size + 2 * ret->variable,
			   rest->size - ret->text.size - 2 * ret->variable);
	ret->type = bytes_make("", 0);
	bar = ret->variable ? memchr(ret->text.data, '|', ret->text.size) : NULL;
	if (bar) {
		size_t size = (size_t)(bar - ret->text.data);

		ret->type = bytes_make(bar + 1, ret->text.size - size - 1);
		ret->text.size = size;
	}
	return true;
}

void values_done(struct values *values)
{
	for (size_t i = 0; i < values->count; i++)
		buf_done(&values->value[i]);
	values->count = 0;
}

static const struct buf *value_of(const struct values *values, struct bytes name)
{
	for (size_t i = 0; i < values->count; i++)
		if (bytes_equal(values->name[i], name))
			return &values->value[i];
	return NULL;
}

/* 1; 0: the value does not fit its type, or another one is set already. */
static int value_set(struct values *values, const struct piece *piece, struct bytes text)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	const struct buf *had = value_of(values, piece->text);
	int r;

	if ((bytes_equal(piece->type, BYTES("uuid")) && !is_uuid(text)) ||
	    (bytes_equal(piece->type, BYTES("bare")) && bytes_starts_with(text, BYTES("session_"))))
		return 0;
	r = bytes_equal(piece->type, BYTES("safe")) ? safe_read(text, &value) :
						      buf_append_bytes(&value, text);
	if (r == 0)
		r = buf_printf(&value, "%s", "");
	if (r < 0)
		return r;
	if (had)
		return bytes_equal(buf_bytes(had), buf_bytes(&value));
	values->name[values->count] = piece->text;
	values->value[values->count++] = value;
	value = (struct buf){ 0 };
	return 1;
}

int template_read(struct bytes template, struct bytes text, struct values *values)
{
	struct piece piece, next;
	int r = 1;

	if (!text.data)
		text = BYTES("");
	while (r > 0 && next_piece(&template, &piece)) {
		struct bytes after = template, value = text;

		if (!piece.variable) {
			if (!bytes_starts_with(text, piece.text))
				return 0;
			text = bytes_make(text.data + piece.text.size, text.size - piece.text.size);
			continue;
		}
		/* It goes as far as the first of what stands behind it, or the last if nothing is
		 * behind that. */
		if (next_piece(&after, &next)) {
			const char *end = after.size ? memmem(text.data, text.size, next.text.data,
							      next.text.size) :
					  bytes_ends_with(text, next.text) ?
						       text.data + text.size - next.text.size :
						       NULL;

			if (!end)
				return 0;
			value.size = (size_t)(end - text.data);
		}
		r = value_set(values, &piece, value);
		text = bytes_make(text.data + value.size, text.size - value.size);
	}
	return r <= 0 ? r : text.size == 0;
}

int template_start(struct bytes template, const struct values *values, struct buf *text)
{
	struct piece piece;
	int r = 0;

	while (r == 0 && next_piece(&template, &piece)) {
		const struct buf *value = piece.variable ? value_of(values, piece.text) : NULL;

		if (!piece.variable)
			r = buf_append_bytes(text, piece.text);
		else if (!value)
			return 1;
		else
			r = bytes_equal(piece.type, BYTES("safe")) &&
					    !(value->size && is_safe(buf_bytes(value))) ?
				    base64_write(buf_bytes(value), text) :
				    buf_append_bytes(text, buf_bytes(value));
	}
	return r;
}

int template_write(struct bytes template, const struct values *values, struct buf *text)
{
	int r = template_start(template, values, text);

	return r > 0 ? -EINVAL : r;
}
