/* SPDX-License-Identifier: MIT */
#ifndef SAY_H
#define SAY_H

/* Output: where the sentences of the log go, and what is written to stdout. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Everything up to this level to stderr, as "sessfs: SENTENCE", or "<3>SENTENCE" to the journal. */
void say_to_stderr(int level);
/* For a daemon that starts: notices and worse to stderr, the rest to the system log. */
void say_while_starting(void);
/* Everything to the system log, or to the file that say_open_file() has opened; the process no
 * longer has a terminal. */
void say_to_log(void);
/* Whether the system has a log. */
bool say_has_syslog(void);
/* Open the file that say_to_log() is to log to; mode 0600.  0, or -errno: -EEXIST when the name
 * is not that of a regular file with one link. */
int say_open_file(const char *path);
/* The process ends well: a file that was made for its log goes if it holds no notice or worse. */
void say_close_file(void);

/* Log a sentence of a lower room, or if there is none, the meaning of the error (nothing for
 * -EINTR); returns error. */
int say_why(const char *why, int error);

/* Call this first: stdout then remembers why something could not be written. */
int say_begin(void);

/* JSON on stdout: a list, an object a line, or objects alone.  The value is taken over; NULL, which
 * is what jansson makes without memory, is an error that say_finish() tells. */
struct say_list {
	bool json;
	bool begun;
};
void say_item(struct say_list *list, json_t *value);
void say_list_end(struct say_list *list);
void say_json(json_t *value);
/* Before each line of a list that is not JSON: on a terminal, a heading stands above the first one.
 * Elsewhere there are only lines, for programs that count and cut them. */
void say_heading(struct say_list *list, const char *heading);
/* Whether it stands there, so that sums belong below the last line. */
bool say_has_heading(const struct say_list *list);
/* A name as JSON; bytes that are not UTF-8 as %XX. */
json_t *say_json_name(const char *name, size_t size);
/* A name on a line of its own, or at its end: byte for byte, but on a terminal as a shell takes it,
 * with nothing in it that could end the line or move the cursor. */
void say_name(const char *name, const char *end);

/* Whether the reader of stdout has seen enough, as head(1) does. */
bool say_is_unheard(void);
/* Flush stdout.  0, or -errno after a sentence when what was printed did not get out. */
int say_finish(void);

#endif
