/* SPDX-License-Identifier: MIT */
#ifndef PROGRESS_H
#define PROGRESS_H

/*
 * Progress of a long operation, in one line of the terminal:
 *
 *	import  812 of 4031 files  1.2G of 3.4G  45M/s  0:49 left
 *
 *	progress_begin(&progress, "import", "files")
 *	progress_set_total(&progress, 4031, bytes)	when it is known, also later
 *	progress_add(&progress, 1, size) ...		as often as one likes
 *	progress_end(&progress)
 *
 * Nothing is shown for the first second (or the seconds that SESSFS_PROGRESS_DELAY in the
 * environment says), nor when stderr is not a terminal.  Adding to it and ticks
 * (backend/base/tick.h) redraw the line at most five times a second, so it moves in the middle of
 * one long call, too; progress_follow() has it count ticks or bytes read.  The line fits the
 * terminal and is gone at the end.
 *
 * Only one progress at a time.  All functions are for the thread that began it, except that any
 * thread may call progress_hold() and progress_release().
 */

#include <stdint.h>

#include "backend/base/cleanup.h"

enum {
	PROGRESS_COLUMNS = 200, /* at the most */

	/* What is followed. */
	PROGRESS_TICKS = 1, /* items: what the process ticks off from now on (tick.h) */
	PROGRESS_READS = 2, /* bytes: what it reads by any call, and no more than the total */
};

struct progress {
	const char *what;   /* borrowed, as is the next */
	const char *things; /* what one item is called; NULL: items are not shown */
	uint64_t items, items_total;
	uint64_t bytes, bytes_total; /* totals are 0 while they are not known */
	unsigned follows;
	uint64_t ticks_begun, reads_begun;
	int64_t begun, drawn, tried; /* in nanoseconds of now() */
	int64_t delay;		     /* nanoseconds from the beginning to the first line */
	uint64_t drawn_bytes;	     /* and drawn_items: when it was drawn last */
	uint64_t drawn_items;
	double bytes_rate, items_rate; /* a second; 0: not known yet */
	int fd;			       /* -1: silent */
	/* Nanoseconds that only rise, and the width of the terminal: for tests. */
	int64_t (*now)(void);
	unsigned (*columns)(int fd);
};

/* To stderr, if that is a terminal. */
void progress_begin(struct progress *progress, const char *what, const char *things);
/* progress_begin() is these two.  fd may be anything; the functions may be NULL. */
void progress_begin_on(struct progress *progress, const char *what, const char *things, int fd,
		       int64_t (*now)(void), unsigned (*columns)(int fd));
/* From now on ticks redraw it. */
void progress_start(struct progress *progress);
void progress_follow(struct progress *progress, unsigned follows);
/* 0: not known. */
void progress_set_total(struct progress *progress, uint64_t items, uint64_t bytes);
void progress_add(struct progress *progress, uint64_t items, uint64_t bytes);
/* May be called twice, or for a zeroed one. */
void progress_end(struct progress *progress);

/* Take the line away and keep all threads from drawing it, to the end of the block, to print
 * something else on the terminal:
 *
 *	WITH_PROGRESS_HELD;
 *
 * The sentences of the log do so by themselves. */
void progress_hold(void);
void progress_release(void);

static inline void progress_releasep(const int *held)
{
	(void)held;
	progress_release();
}
#define WITH_PROGRESS_HELD                                                                         \
	__attribute__((unused)) _cleanup_(progress_releasep) const int progress_held_ =            \
		(progress_hold(), 0)

/* Draw the line, unless it is too early for that. */
void progress_draw(struct progress *progress);
/* The line, as it would be drawn now. */
void progress_show(const struct progress *progress, char line[PROGRESS_COLUMNS + 1]);

#endif
