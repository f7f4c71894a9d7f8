/* SPDX-License-Identifier: MIT */
#include "fs/views/question/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

static int add_node(struct question_filter *filter, struct node node)
{
	int r = ARRAY_ROOM(filter->nodes, filter->node_count, filter->node_room);

	if (r == 0)
		filter->nodes[filter->node_count++] = node;
	return r;
}

int filter_key(struct question_filter *filter, uint32_t parent, struct bytes key,
	       uint32_t *ret_node)
{
	uint32_t node = filter->nodes[parent].child;
	int r;

	while (node && !bytes_equal(filter->nodes[node].key, key))
		node = filter->nodes[node].sibling;
	if (!node) {
		node = (uint32_t)filter->node_count;
		r = add_node(filter, (struct node){ .key = key,
						    .parent = parent,
						    .sibling = filter->nodes[parent].child });
		if (r < 0)
			return r;
		filter->nodes[parent].child = node;
	}
	*ret_node = node;
	return 0;
}

/* Put a value before those that begin with *first. */
static int add_value(struct question_filter *filter, uint32_t *first, struct bytes text)
{
	int r = ARRAY_ROOM(filter->values, filter->value_count, filter->value_room);

	if (r < 0)
		return r;
	filter->values[filter->value_count] = (struct value){ text, *first };
	*first = (uint32_t)filter->value_count++;
	return 0;
}

static bool has_value(const struct question_filter *filter, uint32_t at, struct bytes text)
{
	while (at && !bytes_equal(filter->values[at].text, text))
		at = filter->values[at].next;
	return at;
}

int filter_member(struct question_filter *filter, uint32_t node, enum side side, struct bytes value)
{
	filter->asks[side] = filter->asks_members = true;
	return add_value(filter, &filter->nodes[node].values[side], value);
}

static int add_path(struct question_filter *filter, enum shape shape, const char *path,
		    uint8_t rank)
{
	uint32_t node = 0;
	size_t size;
	int r = 0;

	for (;; path += size + 1) {
		size = strcspn(path, ".");
		r = filter_key(filter, node, bytes_make(path, size), &node);
		if (r < 0 || !path[size])
			break;
	}
	if (r == 0)
		filter->nodes[node].rank[shape] = rank;
	return r;
}

int filter_shape(struct question_filter *filter, enum shape shape, enum side side,
		 struct bytes value)
{
	uint32_t *made_by = filter->made_by[shape];
	struct bytes spelling;
	int r = 0;

	/* A role with several spellings is added once. */
	if (shape == SHAPE_ROLE && role_spelling(value, 0).data &&
	    has_value(filter, made_by[side], value))
		return 0;
	if (!filter->asks_shape[shape])
		for (uint8_t i = 0; r == 0 && shape_paths[shape][i]; i++)
			r = add_path(filter, shape, shape_paths[shape][i], i + 1);
	if (r == 0)
		r = add_value(filter, &made_by[side], value);
	for (unsigned n = 0; r == 0 && shape == SHAPE_ROLE; n++) {
		spelling = role_spelling(value, n);
		if (!spelling.data)
			break;
		r = add_value(filter, &made_by[side], spelling);
	}
	filter->asks[side] = filter->asks_shape[shape] = true;
	return r;
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
	uint32_t none = 0;

	/* Index 0 means none, so a first entry is added that is not used. */
	if (filter &&
	    (buf_reserve(&filter->text, size) < 0 || add_node(filter, (struct node){ 0 }) < 0 ||
	     add_value(filter, &none, bytes_make(NULL, 0)) < 0)) {
		filter_free(filter);
		return NULL;
	}
	return filter;
}

void filter_free(struct question_filter *filter)
{
	if (!filter)
		return;
	buf_done(&filter->text);
	free(filter->nodes);
	free(filter->values);
	free(filter->words);
	free(filter);
}
