/* SPDX-License-Identifier: MIT */
#ifndef CMD_INPUT_H
#define CMD_INPUT_H

/* What a command takes in: a file, or the standard input. */

#include "backend/base/buf.h"

/* A descriptor of it, or -errno; name is NULL or "-" for the standard input.  Before the store is
 * opened: without it there is nothing to do. */
int input_open(const char *name);
/* One block more behind what data holds: 0 at the end of the input, 1 before, -errno. */
int input_block(int fd, struct buf *data);
/* Says that it cannot be read, unless a signal has come; returns CMD_FAILED. */
int input_fail(const char *name, int error);

#endif
