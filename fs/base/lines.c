/* SPDX-License-Identifier: MIT */
#include "fs/base/lines.h"

bool lines_next(struct bytes *rest, struct line *ret_line)
{
	const char *newline;

	if (!rest->size)
		return false;
	newline = memchr(rest->data, '\n', rest->size);
	ret_line->newline = newline != NULL;
	ret_line->text =
		bytes_make(rest->data, newline ? (size_t)(newline - rest->data) : rest->size);
	ret_line->size = ret_line->text.size + (newline ? 1 : 0);
	*rest = bytes_make(rest->data + ret_line->size, rest->size - ret_line->size);
	return true;
}

struct bytes lines_whole(struct bytes data)
{
	const char *newline = data.size ? memrchr(data.data, '\n', data.size) : NULL;

	return bytes_make(data.data, newline ? (size_t)(newline - data.data) + 1 : 0);
}

struct bytes lines_tail(struct bytes data)
{
	size_t whole = lines_whole(data).size;

	/* Empty data may have no address. */
	return whole ? bytes_make(data.data + whole, data.size - whole) : data;
}

bool lines_is_row(struct bytes text, struct json_error *error)
{
	return json_valid(text, error);
}

bool lines_is_blank(struct bytes text)
{
	for (size_t i = 0; i < text.size; i++)
		if (!memchr(" \t\r\n", text.data[i], 4))
			return false;
	return true;
}

int lines_show_row(struct bytes row, struct buf *out)
{
	size_t start = out->size;
	int r = buf_append_bytes(out, row);
	char *p, *end;

	if (r < 0)
		return r;
	end = out->data + out->size;
	for (p = out->data + start; p < end; p++) {
		p = memchr(p, '\n', (size_t)(end - p));
		if (!p)
			break;
		*p = ' ';
	}
	return 0;
}

bool lines_row_equals(struct bytes row, struct bytes text)
{
	if (row.size != text.size)
		return false;
	if (bytes_equal(row, text))
		return true;
	for (size_t i = 0; i < row.size; i++)
		if (row.data[i] != text.data[i] && !(row.data[i] == '\n' && text.data[i] == ' '))
			return false;
	return true;
}
