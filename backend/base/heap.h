/* SPDX-License-Identifier: MIT */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

/*
 * What the C library keeps of freed memory, as far as it can be told.  Where it cannot (not the GNU
 * C library), these do nothing.
 */

/*
 * Of a daemon, before its first thread.  Threads have arenas of their own, up to eight a processor,
 * and of each but the first the freed end stays with the process, mostly two or three MiB, even
 * after heap_give_back() (glibc's malloc.c: mtrim() calls systrim() for the main arena only).
 * With one arena, threads that read at once would wait for each other; with one a processor they
 * do not.
 */
void heap_keep_little(void);
/* Freed memory goes back to the system; thread-safe. */
void heap_give_back(void);

#endif
