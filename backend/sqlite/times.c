/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/sqlite/internal.h"

static const int64_t SECOND = 1000000000;

int64_t sqlite_milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * CURRENT_TIMESTAMP with milliseconds: SQLite's own functions, sqlite-jdbc and Python's adapters
 * read this form, and it sorts among stamps without a fraction.
 */
void sqlite_stamp_now(char stamp[SQLITE_STAMP])
{
	struct timespec now;
	struct tm utc;
	size_t size;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	size = strftime(stamp, SQLITE_STAMP, "%Y-%m-%d %H:%M:%S", &utc);
	snprintf(stamp + size, SQLITE_STAMP - size, ".%03u", (unsigned)(now.tv_nsec / 1000000));
}

/* Outside of the years 1677 to 2262 there is no such number. */
static int64_t nanoseconds(int64_t count, int64_t unit, int64_t fraction)
{
	int64_t result;

	if (__builtin_mul_overflow(count, unit, &result) ||
	    __builtin_add_overflow(result, fraction, &result))
		return 0;
	return result;
}

/* A number: seconds since 1970, or so many of a smaller unit that they cannot be seconds. */
static int64_t read_number(int64_t number)
{
	static const int64_t biggest = 100000000000; /* seconds: the year 5138 */
	int64_t unit = SECOND;

	for (int64_t rest = number; (rest > biggest || rest < -biggest) && unit > 1; rest /= 1000)
		unit /= 1000;
	return nanoseconds(number, unit, 0);
}

/* "", "Z", "+01", "+0130", "+01:30": seconds to take away. */
static int64_t read_zone(const char *text)
{
	int hours = 0, minutes = 0;

	if (*text != '+' && *text != '-')
		return 0;
	if (sscanf(text + 1, "%2d:%2d", &hours, &minutes) < 2)
		sscanf(text + 1, "%2d%2d", &hours, &minutes);
	return (*text == '-' ? -60 : 60) * (60 * hours + minutes);
}

static int64_t read_text(const char *text)
{
	struct tm utc = { 0 };
	int64_t fraction = 0, unit = SECOND;
	int used = 0;

	if (sscanf(text, "%4d-%2d-%2d%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday, &used) < 3)
		return 0;
	text += used;
	if (*text == ' ' || *text == 'T') {
		used = 0;
		if (sscanf(text + 1, "%2d:%2d%n", &utc.tm_hour, &utc.tm_min, &used) == 2)
			text += 1 + used;
		used = 0;
		if (sscanf(text, ":%2d%n", &utc.tm_sec, &used) == 1)
			text += used;
	}
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++) {
			unit /= 10;
			fraction += (*text - '0') * unit;
		}
	utc.tm_year -= 1900;
	utc.tm_mon -= 1;
	return nanoseconds(timegm(&utc) - read_zone(text), SECOND, fraction);
}

int64_t sqlite_stamp_read(sqlite3_stmt *statement, int index)
{
	const char *text;

	switch (sqlite3_column_type(statement, index)) {
	case SQLITE_INTEGER:
		return read_number(sqlite3_column_int64(statement, index));
	case SQLITE_FLOAT:
		return read_number((int64_t)(sqlite3_column_double(statement, index) * 1000));
	case SQLITE_TEXT:
		text = (const char *)sqlite3_column_text(statement, index);
		return text ? read_text(text) : 0;
	default:
		return 0;
	}
}
