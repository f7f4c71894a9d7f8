/* SPDX-License-Identifier: MIT */
#include "fs/views/question/question.h"

#include <string.h>

#include "fs/views/question/filter.h"
#include "fs/base/look.h"
#include "fs/views/question/records.h"
#include "backend/base/cleanup.h"

/*
 * A line is scanned once for its members, and once for each word.  Members that the question does
 * not name are skipped: a string to its quote, an object or array to its last bracket, by counting.
 * The position in the tree of keys is all that the scan must remember of the objects around it, so
 * nesting costs no memory.  Nothing relies on the line being JSON: every step goes on by a byte at
 * least, and none beyond the end.
 */

/* ---- Strings ---- */

static bool bytes_match(const char *a, const char *b, size_t size, bool any_case)
{
	if (!any_case)
		return memcmp(a, b, size) == 0;
	while (size--)
		if (byte_fold((unsigned char)*a++) != (unsigned char)*b++)
			return false;
	return true;
}

/* Whether the inside of a string stands for this text, which is in lower case if any case will
 * do. */
static bool string_is(struct bytes string, struct bytes text, bool any_case)
{
	const char *at = string.data, *end = at + string.size;
	char decoded[4];
	size_t size;

	if (string.size < text.size)
		return false;
	for (; at < end; text = bytes_make(text.data + size, text.size - size)) {
		if (*at == '\\') {
			size = look_unescape(&at, end, decoded);
		} else {
			size = 1;
			*decoded = *at++;
		}
		if (size > text.size || !bytes_match(decoded, text.data, size, any_case))
			return false;
	}
	return !text.size;
}

/* ---- Members ---- */

struct scan {
	const struct question_filter *filter;
	struct made_by {
		uint8_t rank; /* of the path that it was found at */
		bool fits[SIDES];
	} made_by[SHAPES];
	bool fits[SIDES]; /* a value of a member */
};

static bool is_one_of(const struct question_filter *filter, uint32_t value, struct bytes text,
		      bool string, bool any_case)
{
	for (; value; value = filter->values[value].next)
		if (string ? string_is(text, filter->values[value].text, any_case) :
			     bytes_equal(text, filter->values[value].text))
			return true;
	return false;
}

/* The text is what is between the quotes of a string. */
static void find_value(struct scan *scan, uint32_t at, struct bytes text, bool string)
{
	const struct node *node = &scan->filter->nodes[at];

	for (enum side side = INCLUDES; side < SIDES; side++)
		scan->fits[side] |=
			is_one_of(scan->filter, node->values[side], text, string, false);
	for (enum shape shape = SHAPE_ROLE; string && shape < SHAPES; shape++) {
		struct made_by *made_by = &scan->made_by[shape];
		const uint8_t rank = node->rank[shape];

		if (!rank || (made_by->rank && made_by->rank <= rank))
			continue;
		made_by->rank = rank;
		for (enum side side = INCLUDES; side < SIDES; side++)
			made_by->fits[side] =
				is_one_of(scan->filter, scan->filter->made_by[shape][side], text,
					  true, shape == SHAPE_ROLE);
	}
}

/* Whether the rest of the line cannot change the answer. */
static bool is_settled(const struct scan *scan)
{
	const struct question_filter *filter = scan->filter;

	if (scan->fits[EXCLUDES] || (scan->fits[INCLUDES] && !filter->asks[EXCLUDES]))
		return true;
	for (enum shape shape = SHAPE_ROLE; shape < SHAPES; shape++)
		if (filter->asks_shape[shape] && scan->made_by[shape].rank != 1)
			return false;
	return !filter->asks_members;
}

static bool fits(const struct scan *scan, enum side side)
{
	return scan->fits[side] || scan->made_by[SHAPE_ROLE].fits[side] ||
	       scan->made_by[SHAPE_AGENT].fits[side];
}

/* at: behind the bracket that opens the line's object. */
static void scan_members(struct scan *scan, const char *at, const char *end)
{
	const struct question_filter *filter = scan->filter;
	uint32_t node = 0, child;
	struct bytes key;

	while (at < end) {
		const char *close;
		char byte = *at++;

		if (byte == '}' && node == 0)
			return;
		if (byte == '}')
			node = filter->nodes[node].parent;
		if (byte != '"')
			continue;
		close = look_string(at, end);
		key = bytes_make(at, (size_t)(close - at));
		child = filter->nodes[node].child;
		while (child && !string_is(key, filter->nodes[child].key, false))
			child = filter->nodes[child].sibling;
		at = look_blanks(close + (close < end), end);
		at = look_blanks(at + (at < end && *at == ':'), end);
		if (at == end)
			return;
		if (*at == '{' && child && filter->nodes[child].child) {
			node = child;
			at++;
		} else if (*at == '{' || *at == '[') {
			at = look_container(at, end);
		} else {
			bool string = *at == '"';

			close = string ? look_string(++at, end) : look_token(at, end);
			if (child) {
				find_value(scan, child, bytes_make(at, (size_t)(close - at)),
					   string);
				if (is_settled(scan))
					return;
			}
			at = close + (string && close < end);
		}
	}
}

/* Records that are known, and results of tools, may have their role in another place. */
static void find_role(struct scan *scan, struct bytes line)
{
	const struct question_filter *filter = scan->filter;
	struct made_by *made_by = &scan->made_by[SHAPE_ROLE];
	struct record record;

	record_read(line, &record);
	if (!record.known && !record.plumbing && !bytes_equal(record.role, BYTES("tool")))
		return;
	made_by->rank = 1;
	for (enum side side = INCLUDES; record.role.data && side < SIDES; side++) {
		const uint32_t values = filter->made_by[SHAPE_ROLE][side];

		made_by->fits[side] = is_one_of(filter, values, record.word, true, true) ||
				      is_one_of(filter, values, record.role, true, true);
	}
}

static bool members_fit(const struct question_filter *filter, struct bytes line)
{
	struct scan scan = { .filter = filter };
	const char *end = line.data + line.size;
	const char *at = look_blanks(line.data, end);

	if (filter->asks_shape[SHAPE_ROLE])
		find_role(&scan, line);
	if (at < end && *at == '{')
		scan_members(&scan, at + 1, end);
	return (!filter->asks[INCLUDES] || fits(&scan, INCLUDES)) && !fits(&scan, EXCLUDES);
}

/* ---- Words ---- */

/* Horspool's search: filter_word(). */
static bool text_holds(const char *text, size_t size, const struct word *word)
{
	size_t last = word->text.size - 1;
	unsigned char end = (unsigned char)word->text.data[last];

	for (size_t i = last; i < size;) {
		unsigned char byte = (unsigned char)text[i];

		if (byte_fold(byte) == end &&
		    bytes_match(text + i - last, word->text.data, last, true))
			return true;
		i += word->skip[byte_class(text[i])];
	}
	return false;
}

/* A string with escapes is decoded part by part; of each, as much stays as may begin the word. */
static bool string_holds(struct bytes string, const struct word *word)
{
	const char *at = string.data, *end = at + string.size;
	char part[4096];
	size_t size = 0;

	if (string.size < word->text.size)
		return false;
	if (!memchr(at, '\\', string.size))
		return text_holds(at, string.size, word);
	while (at < end) {
		size_t room = MIN(sizeof(part) - size, (size_t)(end - at)), keep;
		const char *escape = memchr(at, '\\', room);
		size_t plain = escape ? (size_t)(escape - at) : room;

		memcpy(part + size, at, plain);
		size += plain;
		at += plain;
		if (escape && sizeof(part) - size >= 4)
			size += look_unescape(&at, end, part + size);
		if (at < end && sizeof(part) - size >= 4)
			continue;
		if (text_holds(part, size, word))
			return true;
		keep = MIN(size, word->text.size - 1);
		memmove(part, part + size - keep, keep);
		size = keep;
	}
	return false;
}

static bool line_holds(struct bytes line, const struct word *word)
{
	const char *at = line.data, *end = at + line.size;

	while ((at = memchr(at, '"', (size_t)(end - at)))) {
		const char *start = at + 1, *close = look_string(start, end), *next;

		at = close + (close < end);
		next = look_blanks(at, end);
		if (next < end && *next == ':')
			continue;
		if (string_holds(bytes_make(start, (size_t)(close - start)), word))
			return true;
	}
	return false;
}

bool question_fits(const struct question *question, struct bytes line)
{
	const struct question_filter *filter = question->filter;

	if (!line.size)
		line = BYTES("");
	if ((filter->asks[INCLUDES] || filter->asks[EXCLUDES]) && !members_fit(filter, line))
		return false;
	for (size_t i = 0; i < filter->word_count; i++)
		if (!line_holds(line, &filter->words[i]))
			return false;
	return true;
}
