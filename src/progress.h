/* SPDX-License-Identifier: MIT */
#ifndef PROGRESS_H
#define PROGRESS_H

/*
 * How far something is that takes long, in one line of the terminal:
 *
 *	import  812 of 4031 files  1.2G of 3.4G  45M/s  0:49 left
 *
 *	progress_begin(&progress, "import", "files")
 *	progress_set_total(&progress, 4031, bytes)	when it is known, also later
 *	progress_add(&progress, 1, size) ...		as often as one likes
 *	progress_end(&progress)
 *
 * Nothing is shown for the first second, nor when stderr is no terminal; the line is drawn anew
 * five times a second at most, fits the terminal, and is gone at the end.  progress_add() costs
 * little enough to be called for each block.
 *
 * One at a time, by one thread; progress_hide() may be called by any.
 */

#include <stdbool.h>
#include <stdint.h>

enum { PROGRESS_COLUMNS = 200 }; /* at the most */

struct progress {
	const char *what;   /* borrowed, as is the next */
	const char *things; /* what items are called, or NULL: they are not shown */
	uint64_t items, items_total;
	uint64_t bytes, bytes_total; /* totals are 0 while they are not known */
	int64_t begun, drawn;	     /* when */
	uint64_t drawn_bytes;	     /* when it was drawn last; likewise drawn_items */
	uint64_t drawn_items;
	double bytes_rate, items_rate; /* a second; 0: not known yet */
	int fd;			       /* -1: silent */
	/* Nanoseconds that only rise, and the width of the terminal: for tests. */
	int64_t (*now)(void);
	unsigned (*columns)(int fd);
};

/* To stderr, if that is a terminal. */
void progress_begin(struct progress *progress, const char *what, const char *things);
/* To a descriptor, whatever it is; the functions may be NULL. */
void progress_begin_on(struct progress *progress, const char *what, const char *things, int fd,
		       int64_t (*now)(void), unsigned (*columns)(int fd));
/* 0: not known. */
void progress_set_total(struct progress *progress, uint64_t items, uint64_t bytes);
void progress_add(struct progress *progress, uint64_t items, uint64_t bytes);
/* May be called twice, or for a zeroed one. */
void progress_end(struct progress *progress);

/* Take the line away for a moment, so that something else can be printed on the terminal; the next
 * progress_add() draws it again.  Sentences of the log do so by themselves. */
void progress_hide(void);

/* The line, as it would be drawn now. */
void progress_show(const struct progress *progress, char line[PROGRESS_COLUMNS + 1]);

#endif
