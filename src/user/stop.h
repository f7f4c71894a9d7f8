/* SPDX-License-Identifier: MIT */
#ifndef STOP_H
#define STOP_H

/*
 * Ending in order on SIGINT, SIGTERM or SIGHUP: a loop that may run long asks stop_wanted(), undoes
 * what it has begun, and returns.  A call that no signal interrupts is ended after five seconds,
 * with the process.
 */

#include <stdbool.h>

/* From now on these signals do not end the process; they interrupt calls that wait. */
void stop_watch(void);
bool stop_wanted(void);
/* Wait until a descriptor has something to read, or its end; false: a signal has come. */
bool stop_await(int fd);
/* End the process as the signal would have, if there was one. */
void stop_now(void);

#endif
