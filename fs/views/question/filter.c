/* SPDX-License-Identifier: MIT */
#include "fs/views/question/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

int filter_clause(struct question_filter *filter, enum asks_for what, enum side side)
{
	int r = ARRAY_ROOM(filter->wanted, filter->wanted_count, filter->wanted_room);

	if (r < 0)
		return r;
	filter->wanted[filter->wanted_count++] = (struct wanted){
		.what = what,
		.side = side,
		.first = filter->text_count,
	};
	filter->asks[what] = true;
	return 0;
}

static int add_text(struct question_filter *filter, struct bytes text, size_t *count)
{
	int r = ARRAY_ROOM(filter->texts, filter->text_count, filter->text_room);

	if (r < 0)
		return r;
	filter->texts[filter->text_count++] = text;
	++*count;
	return 0;
}

int filter_key(struct question_filter *filter, struct bytes key)
{
	return add_text(filter, key, &filter->wanted[filter->wanted_count - 1].keys);
}

int filter_value(struct question_filter *filter, struct bytes value)
{
	return add_text(filter, value, &filter->wanted[filter->wanted_count - 1].values);
}

/* Horspool's search: from a place where the word does not stand, the last byte there says how far
 * it is to the next where it may.  Bytes of one class share the shortest way. */
int filter_word(struct question_filter *filter, struct bytes text)
{
	size_t last = text.size - 1;
	struct word *word;
	int r = ARRAY_ROOM(filter->words, filter->word_count, filter->word_room);

	if (r < 0)
		return r;
	word = &filter->words[filter->word_count++];
	word->text = text;
	memset(word->skip, (int)text.size, sizeof(word->skip));
	for (size_t i = 0; i < last; i++)
		word->skip[byte_class(text.data[i])] = (uint8_t)(last - i);
	return 0;
}

struct question_filter *filter_new(size_t size)
{
	struct question_filter *filter = calloc(1, sizeof(*filter));

	if (filter && buf_reserve(&filter->decoded, size) < 0) {
		filter_free(filter);
		return NULL;
	}
	return filter;
}

void filter_free(struct question_filter *filter)
{
	if (!filter)
		return;
	buf_done(&filter->decoded);
	free(filter->wanted);
	free(filter->texts);
	free(filter->words);
	free(filter);
}
