/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_H
#define BASE_LOG_H

/*
 * The log: one sentence a call, no newline at its end.  Levels are those of syslog(3).  The ground
 * floor only hands the sentence to the sink that the program has set (stderr in the foreground,
 * syslog otherwise); until one is set, warnings and worse go to stderr.  Thread-safe once the
 * sink is set.  Control characters in the sentence are shown as \xNN, so that no file name or row
 * can forge a line of the log.
 */

#include <syslog.h>

typedef void log_sink(int level, const char *sentence);

void log_set_sink(log_sink *sink);
/* Sentences above this level (LOG_INFO unless set) are dropped. */
void log_set_level(int level);

void log_write(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_write(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
/* An error that has a sentence, to stand behind return. */
#define log_fail(error, ...) (log_error(__VA_ARGS__), (error))

#endif
