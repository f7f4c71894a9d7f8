/* SPDX-License-Identifier: MIT */
#include "fs/views/question/values.h"

#include "backend/base/moment.h"
#include "fs/base/ttl.h"

bool number_read(struct bytes *text, int64_t *ret_number)
{
	uint64_t number;

	if (!number_take(text, INT64_MAX, &number))
		return false;
	*ret_number = (int64_t)number;
	return true;
}

bool byte_read(struct bytes *text, char byte)
{
	if (!text->size || *text->data != byte)
		return false;
	*text = bytes_make(text->data + 1, text->size - 1);
	return true;
}

bool time_read(struct bytes text, struct question_time *ret_time)
{
	int64_t ns;

	if (amount_parse(text, units_of_time, false, &ns) > 0) {
		*ret_time = (struct question_time){ QUESTION_AGO, ns };
		return true;
	}
	if (!moment_exact(text, &ns))
		return false;
	*ret_time = (struct question_time){ QUESTION_AT, ns };
	return true;
}
