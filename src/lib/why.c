/* SPDX-License-Identifier: MIT */
#include "src/lib/why.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/log.h"
#include "src/lib/sessfs.h"

enum { WHY_MAX = 1024 }; /* longer sentences are cut */

static _Thread_local char sentence[WHY_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* What was cut is cut in front of a character, not in it. */
static void end_whole(size_t wanted)
{
	size_t end = sizeof(sentence) - 1;

	if (wanted <= end)
		return;
	while (end && ((unsigned char)sentence[end - 1] & 0xc0) == 0x80)
		end--;
	/* The first byte of the last character, unless that is ASCII. */
	if (end && (unsigned char)sentence[end - 1] >= 0x80)
		end--;
	sentence[end] = '\0';
}

static void keep_error(int level, const char *text)
{
	if (level <= LOG_ERR)
		end_whole((size_t)snprintf(sentence, sizeof(sentence), "%s", text));
}

static void take_log(void)
{
	log_set_sink(keep_error);
}

void why_begin(void)
{
	pthread_once(&once, take_log);
	*sentence = '\0';
}

int why_refuse(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end_whole((size_t)vsnprintf(sentence, sizeof(sentence), format, args));
	va_end(args);
	return error;
}

int why_result(int result, const char *format, ...)
{
	char words[WHY_MAX];
	va_list args;

	if (result >= 0) /* a callback may have met an error and gone on */
		*sentence = '\0';
	if (result >= 0 || *sentence)
		return result;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	if (!strerrordesc_np(-result))
		return why_refuse(result, "%s: error %d", words, -result);
	return why_refuse(result, "%s: %s", words, strerrordesc_np(-result));
}

const char *sessfs_why(void)
{
	return sentence;
}
