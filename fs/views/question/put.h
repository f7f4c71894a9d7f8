/* SPDX-License-Identifier: MIT */
#ifndef FS_QUESTION_PUT_H
#define FS_QUESTION_PUT_H

/*
 * Text for people, put together: with blanks before its lines, or folded to one, and always tame.
 *
 *	put_begin(&put, PUT_FOLDED)
 *	put_string(&put, ...) ...
 *	put_end(&put)
 */

#include <stdint.h>

#include "backend/base/buf.h"

enum put_how {
	PUT_LINES,  /* each line behind four blanks, without empty ones at both ends */
	PUT_FOLDED, /* one line, which goes on in the one that is there, of so many bytes at most */
	PUT_PLAIN,  /* as it is */
};

enum { PUT_FOLD = 120 };

struct put {
	struct buf *out;
	enum put_how how;
	size_t most;  /* of PUT_FOLDED */
	size_t size;  /* bytes so far, also those that were left out */
	size_t shown; /* those that are there */
	size_t lines; /* ends of lines so far */
	size_t ends;  /* of them, those that wait for something behind them */
	bool blank;   /* a blank does */
	bool html;    /* of an element, without blanks before lines */
	bool probes;  /* there is no output, only whether there would be any: */
	bool any;
	bool cut;
	int error; /* -ENOMEM; nothing more is done then */
};

void put_begin(struct put *put, enum put_how how, size_t most);
/* What is between the quotes of a string; bytes as they are. */
void put_string(struct put *put, struct bytes inside);
void put_bytes(struct put *put, struct bytes bytes);
/* A value: what a string says, and anything else as it is spelled. */
void put_value(struct put *put, struct bytes value);
/* End of PUT_LINES and PUT_FOLDED: with how much was left out, if with_size. */
void put_end(struct put *put, bool with_size);

/* A value as it is spelled, on one line of its own. */
void put_line(struct put *put, struct bytes value);

/* Straight into the output. */
void put_text(struct put *put, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A length in bytes: "812", "1.5K". */
enum { PUT_SIZE = 16 };
const char *put_size(uint64_t size, char text[PUT_SIZE]);

#endif
