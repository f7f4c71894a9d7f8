/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_ROUNDS_H
#define TESTS_UNIT_ROUNDS_H

/*
 * How often a test repeats: the value of the environment variable `name` when it is set, else
 * `full` in a soak (SESSFS_SOAK=1, `make soak-daily`), else `quick`.
 */

#include <stdlib.h>
#include <string.h>

static inline unsigned long rounds(const char *name, unsigned long quick, unsigned long full)
{
	const char *given = getenv(name), *soak = getenv("SESSFS_SOAK");

	if (given && *given)
		return strtoul(given, NULL, 0);
	return soak && strcmp(soak, "1") == 0 ? full : quick;
}

#endif
