/* SPDX-License-Identifier: MIT */
#include "backend/base/moment.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t SECOND = 1000000000;

/* A number of at most so many digits, behind a byte unless that is 0; text goes on behind it. */
static bool take_number(const char **text, char before, int digits, int *ret_number)
{
	const char *first = *text + (before != 0), *at = first;
	int number = 0;

	if (before && **text != before)
		return false;
	for (; at < first + digits && *at >= '0' && *at <= '9'; at++)
		number = 10 * number + (*at - '0');
	if (at == first)
		return false;
	*ret_number = number;
	*text = at;
	return true;
}

/* "", "Z", "+01", "+0130", "+01:30": seconds to take away. */
static int64_t read_zone(const char *text)
{
	const char *at = text + 1;
	int hours = 0, minutes = 0;

	if (*text != '+' && *text != '-')
		return 0;
	if (take_number(&at, 0, 2, &hours) && !take_number(&at, ':', 2, &minutes))
		take_number(&at, 0, 2, &minutes);
	return (*text == '-' ? -60 : 60) * (60 * hours + minutes);
}

/* Days from 1970 to a day of the Gregorian calendar; months and days may be beyond their ends.
 * timegm(3) takes longer than to read a row. */
static int64_t days_to(const struct tm *date)
{
	/* From March on, so that a leap day is the last of its year; and never below 0. */
	const int64_t months = (date->tm_year + 4800) * INT64_C(12) + date->tm_mon - 3;
	const int64_t year = months / 12, before = 719468 + 12 * 146097;

	return 365 * year + year / 4 - year / 100 + year / 400 + (153 * (months % 12) + 2) / 5 +
	       date->tm_mday - 1 - before;
}

int64_t moment_read(const char *text)
{
	struct tm utc = { 0 };
	int64_t fraction = 0, unit = SECOND, time;
	const char *day_time;

	if (!take_number(&text, 0, 4, &utc.tm_year) || !take_number(&text, '-', 2, &utc.tm_mon) ||
	    !take_number(&text, '-', 2, &utc.tm_mday))
		return 0;
	day_time = text + 1;
	if (*text == ' ' || *text == 'T') {
		if (take_number(&day_time, 0, 2, &utc.tm_hour) &&
		    take_number(&day_time, ':', 2, &utc.tm_min))
			text = day_time;
		take_number(&text, ':', 2, &utc.tm_sec);
	}
	if (*text == '.' || *text == ',')
		for (text++; *text >= '0' && *text <= '9'; text++) {
			unit /= 10;
			fraction += (*text - '0') * unit;
		}
	time = 86400 * days_to(&utc) + 3600 * utc.tm_hour + 60 * utc.tm_min + utc.tm_sec;
	if (__builtin_mul_overflow(time - read_zone(text), SECOND, &time) ||
	    __builtin_add_overflow(time, fraction, &time))
		return 0;
	return time;
}

bool moment_exact(struct bytes text, int64_t *ret_time)
{
	static const char digits[] = "0123456789";
	char wanted[64], shown[32] = "";
	struct timespec time;
	const char *end;
	struct tm utc;
	size_t whole;

	text.size -= text.size && text.data[text.size - 1] == 'Z';
	if (text.size >= sizeof(wanted))
		return false;
	snprintf(wanted, sizeof(wanted), "%.*s", (int)text.size, text.data);
	*ret_time = moment_read(wanted);
	time = time_split(*ret_time);
	if (gmtime_r(&time.tv_sec, &utc))
		strftime(shown, sizeof(shown), "%Y-%m-%d %H:%M:%S", &utc);
	whole = strcspn(wanted, ".");
	end = wanted + whole;
	if (whole == 19 && *end && end[1])
		end += 1 + strspn(end + 1, digits);
	if (end != wanted + text.size || (whole != 10 && whole != 16 && whole != 19))
		return false;
	if (wanted[10] == 'T')
		wanted[10] = ' ';
	return strncmp(wanted, shown, whole) == 0;
}

int64_t time_join(struct timespec time)
{
	if (time.tv_sec > INT64_MAX / 1000000000 - 1)
		return INT64_MAX / 1000000000 * 1000000000 - 1;
	if (time.tv_sec < INT64_MIN / 1000000000 + 1)
		return INT64_MIN / 1000000000 * 1000000000 + 1;
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

struct timespec time_split(int64_t time)
{
	int64_t sec = time / 1000000000;
	int64_t nsec = time % 1000000000;

	if (nsec < 0) {
		nsec += 1000000000;
		sec--;
	}
	return (struct timespec){ .tv_sec = sec, .tv_nsec = nsec };
}

int64_t time_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return time_join(now);
}
