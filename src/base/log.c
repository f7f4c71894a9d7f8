/* SPDX-License-Identifier: MIT */
#include "src/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/cleanup.h"

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

/* Longer sentences are cut: a log line is for a person. */
enum { SENTENCE_MAX = 2048 };

void log_write(int level, const char *format, ...)
{
	char raw[SENTENCE_MAX];
	char shown[4 * SENTENCE_MAX + 1];
	size_t used = 0;
	va_list args;

	if (level > highest_level)
		return;
	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);

	for (const char *p = raw; *p; p++) {
		unsigned char byte = (unsigned char)*p;

		if (byte < 0x20 || byte == 0x7f)
			used += (size_t)snprintf(shown + used, sizeof(shown) - used, "\\x%02x",
						 byte);
		else
			shown[used++] = *p;
	}
	shown[used] = '\0';
	current_sink(level, shown);
}
