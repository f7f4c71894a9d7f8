/* SPDX-License-Identifier: MIT */
#include "src/base/tick.h"

#include <stdatomic.h>

static atomic_uint_fast64_t count;

void tick(uint64_t more)
{
	atomic_fetch_add_explicit(&count, more, memory_order_relaxed);
}

uint64_t ticks(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}
