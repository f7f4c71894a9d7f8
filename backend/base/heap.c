/* SPDX-License-Identifier: MIT */
#include <malloc.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/heap.h"

#ifdef __GLIBC__

enum { ARENAS = 4 };

void heap_keep_little(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	mallopt(M_ARENA_MAX, (int)MAX(2, MIN(processors, ARENAS)));
}

void heap_give_back(void)
{
	malloc_trim(0);
}

#else

void heap_keep_little(void)
{
}

void heap_give_back(void)
{
}

#endif
