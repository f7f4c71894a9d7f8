/* SPDX-License-Identifier: MIT */
#include "backend/base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/log-limit.h"
#include "backend/base/thread.h"

static void sink_stderr(int level, const char *sentence)
{
	if (level <= LOG_WARNING)
		fprintf(stderr, "sessfs: %s\n", sentence);
}

static log_sink *current_sink = sink_stderr;
static int highest_level = LOG_INFO;

void log_set_sink(log_sink *sink)
{
	current_sink = sink ? sink : sink_stderr;
}

void log_set_level(int level)
{
	highest_level = level;
}

/* Formats that have been counted; those that find no place are written. */
enum { KINDS = 16 };

static struct {
	pthread_mutex_t lock;
	unsigned most; /* 0: no limit */
	const char *formats[KINDS];
	unsigned counts[KINDS];
	uint64_t left_out;
} limit = { .lock = PTHREAD_MUTEX_INITIALIZER };

void log_limit_begin(unsigned most)
{
	WITH_MUTEX(&limit.lock);

	limit.most = most;
	limit.left_out = 0;
	memset(limit.formats, 0, sizeof(limit.formats));
	memset(limit.counts, 0, sizeof(limit.counts));
}

uint64_t log_limit_end(void)
{
	WITH_MUTEX(&limit.lock);

	limit.most = 0;
	return limit.left_out;
}

static bool is_beyond_limit(const char *format)
{
	bool beyond = false;
	WITH_MUTEX(&limit.lock);

	for (size_t i = 0; limit.most && i < KINDS; i++) {
		if (!limit.formats[i])
			limit.formats[i] = format;
		if (limit.formats[i] != format)
			continue;
		beyond = limit.counts[i] >= limit.most;
		limit.counts[i] += !beyond;
		limit.left_out += beyond;
		break;
	}
	return beyond;
}

/* Also the second set of control characters, U+0080 to U+009F, which are two bytes. */
static bool is_control(const char *text, const char *at)
{
	const unsigned char byte = (unsigned char)*at, next = (unsigned char)at[1];
	const unsigned char before = at > text ? (unsigned char)at[-1] : 0;

	return byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0) ||
	       (before == 0xc2 && byte >= 0x80 && byte < 0xa0);
}

/* Longer sentences are cut: a log line is for a person. */
enum { SENTENCE_MAX = 2048 };

void log_write(int level, const char *format, ...)
{
	char raw[SENTENCE_MAX];
	char shown[4 * SENTENCE_MAX + 1];
	size_t used = 0;
	va_list args;

	if (level > highest_level || (level == LOG_WARNING && is_beyond_limit(format)))
		return;
	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);

	for (const char *p = raw; *p; p++) {
		unsigned char byte = (unsigned char)*p;

		if (is_control(raw, p))
			used += (size_t)snprintf(shown + used, sizeof(shown) - used, "\\x%02x",
						 byte);
		else
			shown[used++] = *p;
	}
	shown[used] = '\0';
	current_sink(level, shown);
}
