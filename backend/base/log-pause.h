/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_PAUSE_H
#define BASE_LOG_PAUSE_H

/*
 * For a failure that may repeat for as long as its cause lasts: it is said at once, and then now
 * and then, with pauses that grow from a second to a minute.  After a while without it, the next
 * one is a new one.  All zeros to begin with; for one thread at a time.
 */

#include <stdbool.h>
#include <stdint.h>

struct log_pause {
	int64_t last;  /* when it failed, by tick_now() */
	int64_t again; /* when it is to be said again */
	int64_t pause;
};

/* It has failed now: whether to say so. */
bool log_pause_over(struct log_pause *pause, int64_t now);

#endif
