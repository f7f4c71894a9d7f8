/* SPDX-License-Identifier: MIT */
#include "tests/unit/failing-alloc.h"

#include <stdbool.h>

/* Names that the linker's --wrap option prescribes. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *data, size_t size);
void *__real_reallocarray(void *data, size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *data, size_t size);
void *__wrap_reallocarray(void *data, size_t count, size_t size);

/* Of the thread that asks for it alone. */
static _Thread_local unsigned calls_left;
static _Thread_local unsigned failures;
static _Thread_local size_t asked;

void failing_alloc_at(unsigned nth)
{
	calls_left = nth;
	failures = 0;
	asked = 0;
}

unsigned failing_alloc_failures(void)
{
	return failures;
}

size_t failing_alloc_bytes(void)
{
	return asked;
}

static bool fails_now(size_t size)
{
	asked += size;
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
	return fails_now(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails_now(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *data, size_t size)
{
	return fails_now(size) ? NULL : __real_realloc(data, size);
}

void *__wrap_reallocarray(void *data, size_t count, size_t size)
{
	return fails_now(count * size) ? NULL : __real_reallocarray(data, count, size);
}
