/* SPDX-License-Identifier: MIT */
#include "src/user/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* A unit of one letter: its value, or 0.  Large letters count as small ones. */
static uint64_t unit_value(const char *letters, const uint64_t *values, const char *text)
{
	const char *letter = *text && !text[1] ? strchr(letters, *text | 0x20) : NULL;

	return letter ? values[letter - letters] : 0;
}

int units_size(const char *text, uint64_t *ret_size)
{
	static const uint64_t values[] = { 1ULL << 10, 1ULL << 20, 1ULL << 30, 1ULL << 40 };
	uint64_t number, unit = 1;
	char *end;
	int r = units_number(text, 10, INT64_MAX, &number, &end);

	if (r == 0 && *end)
		unit = unit_value("kmgt", values, end);
	if (r < 0 || !unit || number > INT64_MAX / unit)
		return -EINVAL;
	*ret_size = number * unit;
	return 0;
}

int units_age(const char *text, int64_t *ret_age)
{
	static const uint64_t values[] = { 1, 60, 3600, 86400, 7 * 86400, 365 * 86400 };
	uint64_t number, unit;
	char *end;
	int r = units_number(text, 10, INT64_MAX, &number, &end);

	unit = r == 0 ? unit_value("smhdwy", values, end) : 0;
	if (!unit || number > (uint64_t)(INT64_MAX / second) / unit)
		return -EINVAL;
	*ret_age = (int64_t)(number * unit) * second;
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
