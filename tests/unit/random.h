/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H

/*
 * Random numbers that can be had again: a test with random input prints its seed, and
 * SESSFS_TEST_SEED=N in the environment sets it.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint64_t random_seed(const char *test)
{
	const char *given = getenv("SESSFS_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 20240611;

	fprintf(stderr, "%s: SESSFS_TEST_SEED=%llu\n", test, (unsigned long long)seed);
	return seed;
}

/* The generator SplitMix64: a counter whose value is scrambled. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ mixed >> 31;
}

/* 0 to limit - 1. */
static inline size_t random_below(uint64_t *state, size_t limit)
{
	return (size_t)(random_next(state) % limit);
}

#endif
