/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_SCRIPT_H
#define TESTS_UNIT_SCRIPT_H

/*
 * A script of operations on the tree of world.h, for tests in which some of them fail.  It begins
 * in a new store.  A step that has failed can be made again; when it has succeeded at last, all is
 * as if nothing had happened.
 */

#include <stdbool.h>
#include <stddef.h>

size_t script_steps(void);
/* Make one step, which must be the next one or the last one again; its error. */
int script_run(size_t step);
/* Whether the step answers for the medium. */
bool script_syncs(size_t step);
/* Read a file, or list a directory, and assert that this is in it; the error. */
int script_read(const char *path, const char *text);
int script_list(const char *path, const char *names);
/* Assert that the tree is as it must be behind the last step. */
void script_check_end(void);

#endif
