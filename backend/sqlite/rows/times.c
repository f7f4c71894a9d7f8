/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/sqlite/rows/times.h"
#include "backend/base/moment.h"

static const int64_t SECOND = 1000000000;

/*
 * CURRENT_TIMESTAMP with milliseconds: SQLite's own functions, sqlite-jdbc and Python's adapters
 * read this form, and it sorts among stamps without a fraction.
 */
void sqlite_stamp(int64_t nanoseconds, char stamp[SQLITE_STAMP])
{
	/* Most are of the same second as the one before. */
	static _Thread_local struct {
		time_t second;
		size_t size; /* 0: there was none */
		char text[SQLITE_STAMP];
	} last;
	const struct timespec time = time_split(nanoseconds);
	unsigned milliseconds = (unsigned)(time.tv_nsec / 1000000);
	struct tm utc;
	char *end;

	if (!last.size || last.second != time.tv_sec) {
		gmtime_r(&time.tv_sec, &utc);
		last.size = strftime(last.text, SQLITE_STAMP, "%Y-%m-%d %H:%M:%S.", &utc);
		last.second = time.tv_sec;
	}
	memcpy(stamp, last.text, last.size);
	end = stamp + last.size;
	*end++ = (char)('0' + milliseconds / 100);
	*end++ = (char)('0' + milliseconds / 10 % 10);
	*end++ = (char)('0' + milliseconds % 10);
	*end = '\0';
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

static const int64_t BIGGEST = 100000000000; /* seconds: the year 5138 */

/* A number: seconds since 1970, or so many of a smaller unit that they cannot be seconds. */
static int64_t read_number(int64_t number)
{
	int64_t unit = SECOND;

	for (int64_t rest = number; (rest > BIGGEST || rest < -BIGGEST) && unit > 1; rest /= 1000)
		unit /= 1000;
	return nanoseconds(number, unit, 0);
}

/* Likewise with a fraction, to the microsecond: a double has no more digits for times of today. */
static int64_t read_real(double number)
{
	static const double most = 9.2e15; /* microseconds: the year 2261 */
	double unit = 1e6, time;

	for (double rest = number; (rest > BIGGEST || rest < -BIGGEST) && unit > 1e-3; rest /= 1000)
		unit /= 1000;
	time = number * unit;
	if (time > most || time < -most)
		return 0;
	return (int64_t)(time < 0 ? time - 0.5 : time + 0.5) * 1000;
}

/* Of a column, too: no connection is used by two threads at a time. */
static int64_t read_value(sqlite3_value *value)
{
	const char *text;

	switch (sqlite3_value_type(value)) {
	case SQLITE_INTEGER:
		return read_number(sqlite3_value_int64(value));
	case SQLITE_FLOAT:
		return read_real(sqlite3_value_double(value));
	case SQLITE_TEXT:
		text = (const char *)sqlite3_value_text(value);
		return text ? moment_read(text) : 0;
	default:
		return 0;
	}
}

int64_t sqlite_stamp_read(sqlite3_stmt *statement, int index)
{
	return read_value(sqlite3_column_value(statement, index));
}

static void tell_time(sqlite3_context *context, int count, sqlite3_value **values)
{
	int64_t time = read_value(values[0]);

	if (time)
		sqlite3_result_int64(context, time);
}

int sqlite_stamp_function(sqlite3 *db)
{
	return sqlite3_create_function_v2(db, "sessfs_time", 1,
					  SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
					  NULL, tell_time, NULL, NULL, NULL);
}
