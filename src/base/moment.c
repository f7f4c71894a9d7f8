/* SPDX-License-Identifier: MIT */
#include "src/base/moment.h"

#include <stdio.h>
#include <time.h>

static const int64_t SECOND = 1000000000;

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

int64_t moment_read(const char *text)
{
	struct tm utc = { 0 };
	int64_t fraction = 0, unit = SECOND, time;
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
	if (*text == '.' || *text == ',')
		for (text++; *text >= '0' && *text <= '9'; text++) {
			unit /= 10;
			fraction += (*text - '0') * unit;
		}
	utc.tm_year -= 1900;
	utc.tm_mon -= 1;
	if (__builtin_mul_overflow(timegm(&utc) - read_zone(text), SECOND, &time) ||
	    __builtin_add_overflow(time, fraction, &time))
		return 0;
	return time;
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
