/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_LIMIT_H
#define BASE_LOG_LIMIT_H

/*
 * For who may warn of the same thing a thousand times: only the first warnings of a kind, which is
 * a format of log_write(), are written, and the others counted.  For one thread at a time to begin
 * and to end; warnings may come from any.
 */

#include <stdint.h>

void log_limit_begin(unsigned most);
/* How many were left out. */
uint64_t log_limit_end(void);

#endif
