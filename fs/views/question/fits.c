/* SPDX-License-Identifier: MIT */
#include "fs/views/question/question.h"

#include <string.h>

#include "fs/views/question/filter.h"
#include "fs/base/look.h"
#include "fs/views/question/records.h"
#include "fs/views/question/shapes.h"
#include "backend/base/cleanup.h"

/* Nothing relies on the line being JSON: every step goes on by a byte at least, and none beyond the
 * end. */

/* ---- Members ---- */

static bool says_any(const struct question_filter *filter, const struct wanted *wanted,
		     struct bytes inside, bool any_case)
{
	const struct bytes *values = filter->texts + wanted->first + wanted->keys;

	for (size_t i = 0; i < wanted->values; i++)
		if (look_says(inside, values[i], any_case))
			return true;
	return false;
}

static bool is_any(const struct question_filter *filter, const struct wanted *wanted,
		   struct bytes value)
{
	const struct bytes *values = filter->texts + wanted->first + wanted->keys;

	if (look_is(value, '"'))
		return says_any(filter, wanted, look_inside(value), false);
	for (size_t i = 0; i < wanted->values; i++)
		if (bytes_equal(value, values[i]))
			return true;
	return false;
}

/* Members that are not on the path are skipped.  How many keys of it are around a place is all that
 * the scan must remember, so nesting costs no memory. */
static bool member_fits(const struct question_filter *filter, const struct wanted *wanted,
			struct bytes line)
{
	const struct bytes *keys = filter->texts + wanted->first;
	const char *at = line.data, *end = at + line.size, *close;
	size_t depth = 0;

	if (!look_is(line, '{'))
		return false;
	for (at++; at < end; at = close) {
		bool known;

		close = at + 1;
		if (*at == '}' && depth-- == 0)
			return false;
		if (*at != '"')
			continue;
		close = look_string(++at, end);
		known = look_says(bytes_make(at, (size_t)(close - at)), keys[depth], false);
		at = look_blanks(close + (close < end), end);
		at = look_blanks(at + (at < end && *at == ':'), end);
		if (at == end)
			return false;
		if (known && depth + 1 < wanted->keys && *at == '{') {
			depth++;
			close = at + 1;
			continue;
		}
		close = look_behind(at, end);
		if (known && depth + 1 == wanted->keys && *at != '{' && *at != '[' &&
		    is_any(filter, wanted, bytes_make(at, (size_t)(close - at))))
			return true;
	}
	return false;
}

static bool members_fit(const struct question_filter *filter, struct bytes line)
{
	struct record record = { 0 };
	struct bytes agent = { 0 };
	bool asks = false, includes = false;

	if (filter->asks[ASKS_ROLE])
		record_read(line, &record);
	if (filter->asks[ASKS_AGENT])
		agent = shape_find(line, SHAPE_AGENT);
	for (size_t i = 0; i < filter->wanted_count; i++) {
		const struct wanted *wanted = &filter->wanted[i];
		bool fits;

		asks |= wanted->side == INCLUDES;
		if (wanted->side == INCLUDES && includes)
			continue;
		fits = wanted->what == ASKS_ROLE ?
			       says_any(filter, wanted, record.word, true) ||
				       says_any(filter, wanted, record.role, true) :
		       wanted->what == ASKS_AGENT ? says_any(filter, wanted, agent, false) :
						    member_fits(filter, wanted, line);
		if (fits && wanted->side == EXCLUDES)
			return false;
		includes |= fits;
	}
	return includes || !asks;
}

/* ---- Words ---- */

/* Horspool's search: filter_word(). */
static bool text_holds(const char *text, size_t size, const struct word *word)
{
	size_t last = word->text.size - 1;

	for (size_t i = last; i < size;) {
		size_t same = 0;

		while (same <= last && byte_fold(text[i - same]) == word->text.data[last - same])
			same++;
		if (same > last)
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

	const char *at;

	if (!line.size)
		line = BYTES("");
	at = look_blanks(line.data, line.data + line.size);
	line = bytes_make(at, line.size - (size_t)(at - line.data));
	if (filter->wanted_count && !members_fit(filter, line))
		return false;
	for (size_t i = 0; i < filter->word_count; i++)
		if (!line_holds(line, &filter->words[i]))
			return false;
	return true;
}
