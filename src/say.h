/* SPDX-License-Identifier: MIT */
#ifndef SAY_H
#define SAY_H

/*
 * The place that prints: where the sentences of the log go, and what is written to stdout.
 */

/* Everything up to this level to stderr, as "sessfs: SENTENCE". */
void say_to_stderr(int level);
/* For a daemon that starts: warnings and worse to stderr, the rest to the system log. */
void say_while_starting(void);
/* Everything to the system log; the process has no terminal any more. */
void say_to_syslog(void);

/* Flush stdout.  0, or -errno after a sentence when what was printed did not get out. */
int say_finish(void);

#endif
