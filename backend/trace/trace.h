/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_TRACE_TRACE_H
#define BACKEND_TRACE_TRACE_H

/* A wrapper that logs each call of the store inside with its arguments, result and duration, at
 * LOG_DEBUG.  Takes over inner and closes it. */

#include "backend/backend.h"

int trace_backend_open(struct backend *inner, struct backend **ret_backend);

#endif
