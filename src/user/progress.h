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
 * Nothing is shown for the first second (or the seconds that SESSFS_PROGRESS_DELAY in the
 * environment says), nor when stderr is no terminal.  The line is drawn anew five times a second by
 * whatever adds to it or ticks (backend/base/tick.h), so that it moves in the middle of one long
 * call; what is counted there is followed (progress_follow).  It fits the terminal and is gone at
 * the end.
 *
 * One at a time.  All is for the thread that began it, but progress_hold() and progress_release(),
 * which any may call.
 */

#include <stdbool.h>
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
	const char *things; /* what one is called, or NULL: they are not shown */
	uint64_t items, items_total;
	uint64_t bytes, bytes_total; /* totals are 0 while they are not known */
	unsigned follows;
	uint64_t ticks_begun, reads_begun;
	int64_t begun, drawn, tried; /* when */
	int64_t delay;		     /* nanoseconds from the beginning to the first line */
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
/* The two halves of it.  To a descriptor, whatever it is; the functions may be NULL. */
void progress_begin_on(struct progress *progress, const char *what, const char *things, int fd,
		       int64_t (*now)(void), unsigned (*columns)(int fd));
/* From now on it is drawn by itself. */
void progress_start(struct progress *progress);
void progress_follow(struct progress *progress, unsigned follows);
/* 0: not known. */
void progress_set_total(struct progress *progress, uint64_t items, uint64_t bytes);
void progress_add(struct progress *progress, uint64_t items, uint64_t bytes);
/* May be called twice, or for a zeroed one. */
void progress_end(struct progress *progress);

/* Take the line away, and let nobody draw it until something else has been printed on the terminal:
 *
 *	WITH_PROGRESS_HELD;
 *
 * to the end of the block.  Sentences of the log do so by themselves. */
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
