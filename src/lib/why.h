/* SPDX-License-Identifier: MIT */
#ifndef LIB_WHY_H
#define LIB_WHY_H

/*
 * The sentence that sessfs_why() hands out, one a thread.
 *
 * A library does not print.  What the rooms below write to the log as an error (SQLite's own
 * message, for one) becomes the sentence of the thread that met it, unless a function finds better
 * words; warnings are dropped.
 */

/* At the start of every function of the library: forget the last sentence. */
void why_begin(void);
/* Put a sentence there.  Returns error, so that it can stand behind return. */
int why_refuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Return result.  For an error without an explanation, make a sentence of these words and what the
 * error means. */
int why_result(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
