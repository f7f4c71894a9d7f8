/* SPDX-License-Identifier: MIT */
#include "src/exchange/document.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "fs/base/look.h"

/* A surrogate as three bytes, which UTF-8 does not allow: ED A0..BF 80..BF. */
static bool is_surrogate(struct bytes text)
{
	const unsigned char *at = (const unsigned char *)text.data;

	return text.size >= 3 && at[0] == 0xED && at[1] >= 0xA0 && at[1] <= 0xBF && at[2] >= 0x80 &&
	       at[2] <= 0xBF;
}

enum { ESCAPE = 6 }; /* bytes of "\ud800", which take the place of three */

static int escape_surrogates(struct bytes text, struct buf *out)
{
	int r = buf_reserve(out, text.size);

	while (r == 0 && text.size) {
		const char *next = memchr(text.data, 0xED, text.size);
		size_t size = next ? (size_t)(next - text.data) : text.size;

		r = buf_append(out, text.data, size);
		text = bytes_make(text.data + size, text.size - size);
		if (r < 0 || !text.size)
			break;
		size = is_surrogate(text) ? 3 : 1;
		if (size == 3)
			r = buf_printf(out, "\\u%04x",
				       0xD000U | (text.data[1] & 0x3FU) << 6 |
					       (text.data[2] & 0x3FU));
		else
			r = buf_append(out, text.data, 1);
		text = bytes_make(text.data + size, text.size - size);
	}
	return r;
}

/* Turns a position in the output of escape_surrogates() into one in its input. */
static size_t place_before(struct bytes text, size_t place)
{
	size_t at = 0, moved = 0;

	while (at < text.size && moved < place) {
		bool is = is_surrogate(bytes_make(text.data + at, text.size - at));

		at += is ? 3 : 1;
		moved += is ? ESCAPE : 1;
	}
	return at;
}

/* From here on the text is valid. */

/* A string between its quotes; a lone surrogate becomes three bytes. */
static int unescape(struct bytes string, struct buf *out)
{
	const char *at = string.data, *end = at + string.size;
	int r = buf_reserve(out, string.size + 1);
	char code[4];

	while (r == 0 && at < end)
		if (*at == '\\')
			r = buf_append(out, code, look_unescape(&at, end, code));
		else
			r = buf_append_byte(out, *at++);
	return r;
}

static int add_member(struct document *document, struct bytes key, struct bytes value)
{
	_cleanup_(buf_done) struct buf decoded = { 0 };
	int r = unescape(key, &decoded);

	if (r == 0 && ARRAY_ROOM(document->members, document->count, document->room) < 0)
		return -ENOMEM;
	if (r < 0)
		return r;
	document->members[document->count] = (struct document_member){
		.key = steal_ptr(decoded.data),
		.key_size = decoded.size,
		.value = value,
		.place = document->count,
	};
	document->count++;
	return 0;
}

static int compare_members(const void *a, const void *b)
{
	const struct document_member *one = a, *other = b;
	int order = bytes_compare(bytes_make(one->key, one->key_size),
				  bytes_make(other->key, other->key_size));

	return order ? order : (one->place > other->place) - (one->place < other->place);
}

/* Of members with the same key the last one counts, as every client reads it. */
static void keep_last(struct document *document)
{
	struct document_member *members = document->members;
	size_t kept = 0;

	if (document->count)
		qsort(members, document->count, sizeof(*members), compare_members);
	for (size_t i = 0; i < document->count; i++) {
		bool again = i + 1 < document->count &&
			     bytes_equal(bytes_make(members[i].key, members[i].key_size),
					 bytes_make(members[i + 1].key, members[i + 1].key_size));

		if (again)
			free(members[i].key);
		else
			members[kept++] = members[i];
	}
	document->count = kept;
}

static int refuse(struct json_error *ret_error, size_t offset, const char *reason)
{
	*ret_error = (struct json_error){ offset, reason };
	return -EINVAL;
}

int document_parse(struct bytes text, struct document *document, struct json_error *ret_error)
{
	struct json_error error;
	struct bytes key, value;
	const char *first, *end;
	struct look look;
	int r = escape_surrogates(text, &document->text);

	if (r < 0)
		return r;
	if (!json_valid(buf_bytes(&document->text), &error))
		return refuse(ret_error, place_before(text, error.offset), error.reason);
	end = document->text.data + document->text.size;
	first = look_blanks(document->text.data, end);
	if (*first != '{')
		return refuse(ret_error, (size_t)(first - document->text.data),
			      "expected an object, which holds the states of a session");
	look = look_into(bytes_make(first, (size_t)(end - first)));
	while (r == 0 && look_next(&look, &key, &value))
		r = add_member(document, key, value);
	keep_last(document);
	return r;
}

void document_done(struct document *document)
{
	for (size_t i = 0; i < document->count; i++)
		free(document->members[i].key);
	free(document->members);
	buf_done(&document->text);
	*document = (struct document){ 0 };
}

int document_content(struct bytes value, struct buf *content)
{
	struct look look = look_into(value);
	struct bytes key, item;
	int r = buf_reserve(content, value.size + 1);

	if (!look_is(value, '['))
		return r < 0 ? r : json_compact(value, content);
	while (r == 0 && look_next(&look, &key, &item)) {
		r = json_compact(item, content);
		if (r == 0)
			r = buf_append_byte(content, '\n');
	}
	return r;
}
