/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/redis/wire.h"

void words_add(struct words *words, struct bytes word)
{
	if (words->error == 0)
		words->error = buf_printf(&words->buf, "$%zu\r\n", word.size);
	if (words->error == 0)
		words->error = buf_append_bytes(&words->buf, word);
	if (words->error == 0)
		words->error = buf_append_str(&words->buf, "\r\n");
	words->count++;
}

void words_str(struct words *words, const char *word)
{
	words_add(words, bytes_str(word));
}

void words_number(struct words *words, int64_t number)
{
	char text[24];

	words_add(words,
		  bytes_make(text, (size_t)snprintf(text, sizeof(text), "%" PRId64, number)));
}

void words_done(struct words *words)
{
	buf_done(&words->buf);
	*words = (struct words){ 0 };
}

int words_head(struct buf *buf, size_t count)
{
	return buf_printf(buf, "*%zu\r\n", count);
}

void reply_done(struct reply *reply)
{
	for (size_t i = 0; i < reply->count; i++)
		reply_done(&reply->items[i]);
	free(reply->items);
	buf_done(&reply->text);
	*reply = (struct reply){ 0 };
}

const struct reply *reply_at(const struct reply *reply, size_t i)
{
	static const struct reply nil = { 0 };

	return i < reply->count ? &reply->items[i] : &nil;
}

struct bytes reply_bytes(const struct reply *reply)
{
	if (reply->type != REPLY_TEXT && reply->type != REPLY_ERROR)
		return (struct bytes){ 0 };
	return bytes_make(reply->text.data ? reply->text.data : "", reply->text.size);
}

int64_t reply_number(const struct reply *reply)
{
	return reply->type == REPLY_NUMBER ? reply->number :
	       reply->text.data		   ? strtoll(reply->text.data, NULL, 10) :
					     0;
}

bool reply_is(const struct reply *reply, const char *text)
{
	return reply->type == REPLY_TEXT && bytes_equal(buf_bytes(&reply->text), bytes_str(text));
}
