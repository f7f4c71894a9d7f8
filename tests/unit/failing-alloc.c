/* SPDX-License-Identifier: MIT */
#include "tests/unit/failing-alloc.h"

#include <stdbool.h>
#include <stddef.h>

/* Names that the linker's --wrap option prescribes. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *data, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *data, size_t size);

static unsigned calls_left;
static unsigned failures;

void failing_alloc_at(unsigned nth)
{
	calls_left = nth;
	failures = 0;
}

unsigned failing_alloc_failures(void)
{
	return failures;
}

static bool fails_now(void)
{
	if (calls_left == 0)
		return false;
	if (calls_left > 1) {
		calls_left--;
		return false;
	}
	failures++;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *data, size_t size)
{
	return fails_now() ? NULL : __real_realloc(data, size);
}
