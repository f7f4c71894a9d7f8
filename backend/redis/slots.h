/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_SLOTS_H
#define BACKEND_REDIS_SLOTS_H

/* The slots of a store on Redis. */

#include "backend/redis/store.h"
#define SLOT(slot) redis_##slot
#include "backend/slots-declare.h"
#undef SLOT

#endif
