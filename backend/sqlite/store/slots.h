/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SLOTS_H
#define BACKEND_SQLITE_SLOTS_H

/* What the table of slots is filled with (open.c); backend.h describes each. */

#define SLOT(slot) sqlite_##slot
#include "backend/slots-declare.h"
#undef SLOT

#endif
