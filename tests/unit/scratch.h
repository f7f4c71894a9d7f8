/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

/* Files of a test lie in TMPDIR. */

#include <stdio.h>
#include <stdlib.h>

/* For mkdtemp() and mkstemp(). */
static inline void scratch_template(char *path, size_t size, const char *name)
{
	const char *folder = getenv("TMPDIR");

	snprintf(path, size, "%s/sessfs-%s-XXXXXX", folder && *folder ? folder : "/tmp", name);
}

#endif
