/* SPDX-License-Identifier: MIT */
#include "src/user/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fs/base/ttl.h"

static const int64_t second = 1000000000;

int units_number(const char *text, int base, uint64_t most, uint64_t *ret_number, char **end)
{
	unsigned long long number;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	number = strtoull(text, end, base);
	if (errno || number > most)
		return -EINVAL;
	*ret_number = number;
	return 0;
}

int units_size(const char *text, uint64_t *ret_size)
{
	int64_t size;
	int r = amount_parse(bytes_str(text), units_of_size, true, &size);

	if (r >= 0)
		*ret_size = (uint64_t)size;
	return r < 0 ? r : 0;
}

int units_age(const char *text, int64_t *ret_age)
{
	int64_t age;

	if (amount_parse(bytes_str(text), units_of_time, true, &age) <= 0)
		return -EINVAL;
	*ret_age = age;
	return 0;
}

const char *units_show_size(uint64_t size, char text[UNITS_TEXT])
{
	static const char letters[] = " KMGTPE";
	unsigned unit = 0;
	double shown = (double)size;

	/* What would be rounded to 1024 has the next unit. */
	for (; shown >= 1023.5; shown /= 1024)
		unit++;
	if (!unit)
		snprintf(text, UNITS_TEXT, "%u", (unsigned)size);
	else
		snprintf(text, UNITS_TEXT, "%.*f%c", shown < 9.95, shown, letters[unit]);
	return text;
}

const char *units_show_time(int64_t time, char text[UNITS_TEXT])
{
	time_t seconds = time / second - (time % second < 0);
	struct tm local;

	if (!time || !localtime_r(&seconds, &local) ||
	    !strftime(text, UNITS_TEXT, "%Y-%m-%d %H:%M", &local))
		snprintf(text, UNITS_TEXT, "-");
	return text;
}
