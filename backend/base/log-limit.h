/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_LIMIT_H
#define BASE_LOG_LIMIT_H

/*
 * Limits repeated warnings: only the first ones of a kind (a format of log_write()) are written,
 * and the others counted.  One thread at a time may begin and end a limit; warnings may come from
 * any.
 */

#include <stdint.h>

void log_limit_begin(unsigned most);
/* How many were left out. */
uint64_t log_limit_end(void);

#endif
