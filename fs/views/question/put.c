/* SPDX-License-Identifier: MIT */
#include "fs/views/question/put.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/look.h"
#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"

static void append(struct put *put, const void *data, size_t size)
{
	if (!put->error && !put->probes)
		put->error = buf_append(put->out, data, size);
}

/* What could be markup is spelled. */
static void append_escaped(struct put *put, const char *data, size_t size)
{
	static const char marks[] = "&<>\"'";
	static const char *const spelled[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };
	const char *mark;
	size_t plain = 0;

	for (; size; data += plain + 1, size -= plain + 1) {
		for (plain = 0, mark = NULL; plain < size && !mark; plain += !mark)
			mark = data[plain] ? strchr(marks, data[plain]) : NULL;
		append(put, data, plain);
		if (!mark)
			return;
		append(put, spelled[mark - marks], strlen(spelled[mark - marks]));
	}
}

void put_text(struct put *put, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	append(put, text, strlen(text));
}

void put_begin(struct put *put, enum put_how how, size_t most)
{
	put->how = how;
	put->most = most;
	put->size = put->shown = put->lines = put->ends = 0;
	put->blank = put->cut = false;
}

/* What is visible, or a tab in lines: never an end of a line. */
static void visible(struct put *put, const char *data, size_t size)
{
	static const char blanks[] = "    ";

	put->any = true;
	if (put->probes) {
		/* That is all to know. */
		put->error = put->error ? put->error : -ECANCELED;
		return;
	}
	if (put->how == PUT_FOLDED) {
		size_t more = size + put->blank;

		put->ends = 0;
		put->cut |= put->shown + more > put->most;
		if (put->cut)
			return;
		if (put->blank)
			append(put, " ", 1);
		put->blank = false;
		put->shown += more;
	} else if (put->how == PUT_LINES) {
		bool begins = !put->shown || put->ends;

		for (; put->shown && put->ends; put->ends--)
			append(put, "\n", 1);
		put->ends = 0;
		if (begins && !put->html)
			append(put, blanks, sizeof(blanks) - 1);
		put->shown += size;
	}
	if (put->html)
		append_escaped(put, data, size);
	else
		append(put, data, size);
}

static void blank(struct put *put, char byte)
{
	if (put->how == PUT_FOLDED)
		put->blank = put->shown;
	else
		visible(put, &byte, 1);
}

static uint32_t code_of(const unsigned char *at, size_t size)
{
	static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t code = at[0] & masks[size];

	for (size_t i = 1; i < size; i++)
		code = code << 6 | (at[i] & 0x3f);
	return code;
}

/* Controls, what turns text around, and what ends lines for some. */
static bool is_wild(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x80, 0x9f },	    { 0xad, 0xad },	  { 0x61c, 0x61c },   { 0x180e, 0x180e },
		{ 0x200b, 0x200f }, { 0x2028, 0x202e },	  { 0x2060, 0x206f }, { 0xfeff, 0xfeff },
		{ 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/* One character, or a byte that is not part of one. */
static void character(struct put *put, const char *data, size_t size)
{
	const unsigned char *at = (const unsigned char *)data;
	char spelled[16];

	put->size += size;
	if (*at == '\n') {
		put->lines++;
		put->ends++;
		if (put->how == PUT_FOLDED)
			put->blank = put->shown;
		else if (put->how == PUT_PLAIN)
			append(put, "\n", 1);
		return;
	}
	if (*at == ' ' || *at == '\t') {
		blank(put, data[0]);
		return;
	}
	if (size == 1 && (*at < 0x20 || *at == 0x7f))
		snprintf(spelled, sizeof(spelled), "^%c", *at ^ 0x40);
	else if (size == 1 && *at >= 0x80)
		snprintf(spelled, sizeof(spelled), "\\x%02x", *at);
	else if (size > 1 && is_wild(code_of(at, size)))
		snprintf(spelled, sizeof(spelled), "\\u%04x", (unsigned)code_of(at, size));
	else {
		visible(put, data, size);
		return;
	}
	visible(put, spelled, strlen(spelled));
}

/* How many bytes from here on are plain and not blank. */
static size_t plain(struct bytes rest)
{
	size_t size = 0;

	while (size < rest.size && rest.data[size] > ' ' && rest.data[size] < 0x7f &&
	       rest.data[size] != '\\')
		size++;
	return size;
}

static void characters(struct put *put, struct bytes bytes)
{
	while (bytes.size && !put->error) {
		size_t size = utf8_sequence(bytes);

		/* The end of a line as others write it. */
		if (*bytes.data == '\r' && bytes.size > 1 && bytes.data[1] == '\n')
			put->size++;
		else
			character(put, bytes.data, MAX(size, 1));
		size = MAX(size, 1);
		bytes = bytes_make(bytes.data + size, bytes.size - size);
	}
}

/* Where a line is folded, byte by byte until no more is shown. */
static void plain_run(struct put *put, const char *data, size_t size)
{
	size_t at = 0;

	put->size += size;
	if (put->how != PUT_FOLDED) {
		visible(put, data, size);
		return;
	}
	do
		visible(put, data + at, 1);
	while (++at < size && !put->cut && !put->error);
}

/* Runs of plain bytes are put at once. */
static void put_runs(struct put *put, struct bytes bytes, bool escapes)
{
	const char *at = bytes.data, *end = at + bytes.size;
	char decoded[8];

	while (at < end && !put->error) {
		struct bytes rest = bytes_make(at, (size_t)(end - at));
		size_t size = plain(rest);

		if (size) {
			plain_run(put, at, size);
			at += size;
			continue;
		}
		if (escapes && *at == '\\') {
			size = look_unescape(&at, end, decoded);
			/* "\r\n" */
			if (size == 1 && *decoded == '\r' && end - at >= 2 && at[0] == '\\' &&
			    at[1] == 'n')
				continue;
			characters(put, bytes_make(decoded, size));
			continue;
		}
		size = MAX(utf8_sequence(rest), 1);
		if (*at == '\r' && at + 1 < end && at[1] == '\n')
			size = 2;
		characters(put, bytes_make(at, size));
		at += size;
	}
}

void put_string(struct put *put, struct bytes inside)
{
	put_runs(put, inside, true);
}

void put_bytes(struct put *put, struct bytes bytes)
{
	put_runs(put, bytes, false);
}

void put_value(struct put *put, struct bytes value)
{
	struct bytes inside = look_inside(value);

	if (inside.data)
		put_string(put, inside);
	else
		put_bytes(put, value);
}

void put_end(struct put *put, bool with_size)
{
	size_t lines = put->lines + !put->ends;
	char size[PUT_SIZE];

	if (put->how == PUT_FOLDED && put->cut) {
		put_text(put, " ...");
		if (with_size && lines > 1)
			put_text(put, " (%zu lines, %s)", lines, put_size(put->size, size));
		else if (with_size)
			put_text(put, " (%s)", put_size(put->size, size));
	}
	if (put->how == PUT_FOLDED || (put->how == PUT_LINES && put->shown))
		append(put, "\n", 1);
}

void put_line(struct put *put, struct bytes value)
{
	put_text(put, put->html ? "<p>" : "    ");
	put_begin(put, PUT_FOLDED, PUT_FOLD);
	put_bytes(put, value);
	put_end(put, true);
	put_text(put, put->html ? "</p>\n" : "");
}

const char *put_size(uint64_t size, char text[PUT_SIZE])
{
	static const char units[] = "KMGTPE";
	double shown = (double)size / 1024;
	size_t unit = 0;

	if (size < 1024) {
		snprintf(text, PUT_SIZE, "%u", (unsigned)size);
		return text;
	}
	for (; shown >= 999.5 && units[unit + 1]; unit++)
		shown /= 1024;
	snprintf(text, PUT_SIZE, shown < 9.95 ? "%.1f%c" : "%.0f%c", shown, units[unit]);
	return text;
}
