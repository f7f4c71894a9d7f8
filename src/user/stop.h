/* SPDX-License-Identifier: MIT */
#ifndef STOP_H
#define STOP_H

/*
 * Ending in order when SIGINT, SIGTERM or SIGHUP comes: whoever works in a loop asks whether he is
 * to stop, takes back what he has begun, and returns.  A call that no signal interrupts is ended
 * after five seconds, with the process.
 */

#include <stdbool.h>

/* From now on these signals end nothing by themselves, but calls that wait. */
void stop_watch(void);
bool stop_wanted(void);
/* End the process as the signal would have, if there was one. */
void stop_now(void);

#endif
