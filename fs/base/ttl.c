/* SPDX-License-Identifier: MIT */
#include "fs/base/ttl.h"

#include <errno.h>

#define SECOND INT64_C(1000000000)

const struct unit units_of_time[] = {
	{ 's', SECOND },
	{ 'm', 60 * SECOND },
	{ 'h', 3600 * SECOND },
	{ 'd', 86400 * SECOND },
	{ 'w', 7 * 86400 * SECOND },
	{ 'y', 365 * 86400 * SECOND },
	{ 0 },
};
const struct unit units_of_size[] = {
	{ 'K', INT64_C(1) << 10 },
	{ 'M', INT64_C(1) << 20 },
	{ 'G', INT64_C(1) << 30 },
	{ 'T', INT64_C(1) << 40 },
	{ 0 },
};

bool number_take(struct bytes *text, uint64_t most, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t i = 0;

	for (; i < text->size && text->data[i] >= '0' && text->data[i] <= '9'; i++) {
		uint64_t digit = (uint64_t)(text->data[i] - '0');

		if (number > (most - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	*text = bytes_make(text->data + i, text->size - i);
	*ret_number = number;
	return i > 0;
}

int amount_parse(struct bytes text, const struct unit *units, bool any_case, int64_t *ret_amount)
{
	const char fold = any_case ? 0x20 : 0;
	uint64_t number;
	int64_t amount;

	if (!number_take(&text, INT64_MAX, &number) || text.size > 1)
		return -EINVAL;
	amount = (int64_t)number;
	while (text.size && units->letter && (units->letter | fold) != (*text.data | fold))
		units++;
	if (text.size && (!units->letter || __builtin_mul_overflow(amount, units->size, &amount)))
		return -EINVAL;
	*ret_amount = amount;
	return text.size != 0;
}

int duration_parse(struct bytes text, int64_t *ret_duration)
{
	int64_t amount;
	int r = amount_parse(text, units_of_time, false, &amount);

	if (r < 0 || (r == 0 && __builtin_mul_overflow(amount, SECOND, &amount)))
		return -EINVAL;
	*ret_duration = amount;
	return 0;
}

int ttl_parse(struct bytes text, int64_t *ret_ttl)
{
	if (!bytes_equal(text, BYTES("never")))
		return duration_parse(text, ret_ttl);
	*ret_ttl = 0;
	return 0;
}
