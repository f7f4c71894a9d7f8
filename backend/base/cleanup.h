/* SPDX-License-Identifier: MIT */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

/*
 * Scope-bound clean-up.  A declaration says how its value is released, beside the declaration:
 *
 *	_cleanup_(buf_done) struct buf line = { 0 };
 *	_cleanup_(freep) char *name = NULL;
 *
 * The function receives a pointer to the variable.  steal_ptr() hands ownership on.
 */

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void freep(void *pointer)
{
	free(*(void **)pointer);
}

static inline void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define steal_ptr(pointer)                                                                         \
	({                                                                                         \
		__typeof__(pointer) stolen_ = (pointer);                                           \
		(pointer) = NULL;                                                                  \
		stolen_;                                                                           \
	})

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
