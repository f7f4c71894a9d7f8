/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_BESIDE_H
#define BACKEND_SQLITE_BESIDE_H

/* Files of ours beside the store. */

#include <limits.h>
#include <stdint.h>

/* The name of a file beside the store.  One that is too long is cut, and still too long for every
 * system call. */
enum { BESIDE_NAME = PATH_MAX + 16 };
const char *sqlite_beside_name(char name[BESIDE_NAME], const char *path, const char *ending);
#define BESIDE(path, ending) sqlite_beside_name((char[BESIDE_NAME]){ 0 }, path, ending)
/* Its size; 0: it is not there. */
uint64_t sqlite_beside_size(const char *path, const char *ending);

/* The file with this ending, if it begins with the sentence or is empty, opened with further flags;
 * -EEXIST when it is not ours. */
int sqlite_beside_open(const char *path, const char *ending, const char *sentence, int flags);
/* Of the file of the reserve (room.c). */
extern const char sqlite_reserve_ending[], sqlite_reserve_sentence[];
/* Of the file by which mounts know of each other (mounts.c). */
extern const char sqlite_mounts_ending[], sqlite_mounts_sentence[];
/* Take away those files that are ours by their sentences. */
void sqlite_beside_remove(const char *path);

#endif
