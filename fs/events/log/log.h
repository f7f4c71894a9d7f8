/* SPDX-License-Identifier: MIT */
#ifndef FS_EVENTS_LOG_LOG_H
#define FS_EVENTS_LOG_LOG_H

/*
 * Events: what has changed in a tree, kept for a while for readers that follow it.
 *
 *	events_init(&events)
 *	events_begin(&events)                   a reader follows
 *	number = events_add(&events, &event)    something has changed
 *	events_show(&events, number)            and can be seen
 *	event_reader_begin(&reader, &events, directory, since)
 *	event_read(&reader, size, &lines)       its next lines
 *
 * Each event has a number, one above that of the event before it; the first one is random, so that
 * a number from another process is not mistaken for one of these (event_reader_begin()).  Events
 * are read in the order of their numbers.  So an event that cannot be seen yet holds up those
 * behind it.
 *
 * The memory for events is bounded; the oldest go first.  A reader that misses an event, or one
 * that there was no memory for, gets EVENT_LOST, with a number to go on from.
 *
 * Any thread may use a struct events; a reader is used by one at a time.  Nothing here blocks.
 * Outputs are appended to buffers.  0, a count where it says so, or -ENOMEM.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"
#include "backend/base/thread.h"

enum event_what {
	EVENT_APPEND, /* something was added at the end */
	EVENT_SAVE,   /* the content was replaced, or the file is new */
	EVENT_REMOVE,
	EVENT_RENAME,
	EVENT_ATTR, /* mode, owner, times or attributes */
	EVENT_LOST, /* anything may have changed */
};

enum event_by {
	EVENT_BY_MOUNT, /* this mount */
	EVENT_BY_SQL,
	EVENT_BY_OTHER, /* another mount */
};

/* How an event moves the paths below a directory; of no meaning for files. */
enum event_moves {
	EVENT_MOVES,	 /* paths below from are below path now, if from is set */
	EVENT_EXCHANGES, /* and the other way round */
	EVENT_EXCHANGED, /* as the event before has said */
};

/* Texts are UTF-8; data NULL: there is none, or it is not known.  Numbers: -1 means the same. */
struct event {
	enum event_what what;
	enum event_by by;
	enum event_moves moves;
	int64_t at; /* nanoseconds since 1970 */
	struct bytes session;
	struct bytes key;
	struct bytes path; /* below the root, without '/' in front: the root itself is "" */
	struct bytes from; /* the path that it had before */
	int64_t first;	   /* index of the first item that was added */
	int64_t count;	   /* number of items that were added */
	int64_t items;	   /* number of items now */
	int64_t size;	   /* in bytes, now */
};

enum {
	EVENTS_MOST = 65536, /* a power of two */
	EVENTS_BYTES = 16 << 20,
};

struct kept_event;

struct events {
	_Atomic bool wanted; /* events_begin() was called, and events_end() was not called since */
	pthread_mutex_t lock;
	struct kept_event **kept; /* by number; NULL: there was no memory for it */
	size_t bytes;
	int64_t first; /* number of the oldest that is kept */
	int64_t next;  /* number of the next one */
	/* following.c; the lock is a leaf, but for what happened() takes. */
	pthread_mutex_t follow_lock;
	unsigned readers;
	int64_t until; /* without readers: tick_now() at which the kept events go */
	void (*happened)(void *arg);
	void *arg;
};

void events_init(struct events *events);
void events_done(struct events *events);
/* From now on events are kept, until events_end(), which forgets them. */
int events_begin(struct events *events);
void events_end(struct events *events);

/* Whether events are kept: otherwise they need not be reported. */
static inline bool events_wanted(const struct events *events)
{
	return atomic_load_explicit(&events->wanted, memory_order_relaxed);
}

/* Keep a copy of one; its number, or -1: nothing is kept.  It can be read after events_show(). */
int64_t events_add(struct events *events, const struct event *event);
/* One more events_show() is needed before it can be read; the last one calls happened(). */
void events_hide(struct events *events, int64_t number);
void events_show(struct events *events, int64_t number);

/* A reader that follows a directory.  Zeroed at first, ended with event_reader_done(). */
struct event_reader {
	struct events *events;
	int64_t after;	 /* number of the last event that it got or skipped */
	bool lost;	 /* it must get EVENT_LOST first */
	struct buf path; /* of its directory at that event */
	struct buf rest; /* the part of a line that did not fit */
};

/* path is the directory's present one.  since: the last event that the reader knows; if that is not
 * known here, events are lost.  -1: begin now. */
int event_reader_begin(struct event_reader *reader, struct events *events, struct bytes path,
		       int64_t since);
void event_reader_done(struct event_reader *reader);
/* Append the reader's next lines, at most size bytes: whole lines, or the beginning of the first
 * line if not even that fits; the rest of it comes next.  Appends nothing when there are none. */
int event_read(struct event_reader *reader, size_t size, struct buf *lines);
/* Whether there are lines. */
bool event_waits(struct event_reader *reader);

/* One of now, of which no more is known. */
struct event event_new(enum event_what what);
/* Copy a text, if there is one, to *at, which goes on behind it and one byte more. */
void text_move(struct bytes *text, char **at);
/* The line of an event, with its newline. */
int event_line(const struct event *event, int64_t number, struct buf *line);
/* Whether an event is at or below a directory, or moves it. */
bool event_concerns(const struct event *event, struct bytes path);
/* Change a path to what it is after an event, or (back) was before it. */
int event_follow(const struct event *event, bool back, struct buf *path);

#endif
