/* SPDX-License-Identifier: MIT */
#ifndef FS_EVENTS_LOG_LOG_H
#define FS_EVENTS_LOG_LOG_H

/*
 * Events: what has changed in a tree, kept for a while for those who follow it.
 *
 *	events_init(&events)
 *	events_begin(&events)                   somebody follows
 *	number = events_add(&events, &event)    something has changed
 *	events_show(&events, number)            and can be seen
 *	event_reader_begin(&reader, &events, directory, since)
 *	event_read(&reader, size, &lines)       what there is for him
 *
 * Each event has a number, one above that of the event before it; the first one is random, so that
 * a number that another process has told means nothing here (event_reader_begin()).  Events are
 * read in the order of their numbers.  So one that cannot be seen yet holds up those behind it.
 *
 * What is kept is bounded, the oldest goes first.  A reader to whom such a one was to be told, or
 * one that there was no memory for, is told that something is lost, with a number to go on from.
 *
 * Any thread may use a struct events; a reader is used by one at a time.  Nothing here waits for
 * anything.  Outputs are appended to buffers.  0, a count where it says so, or -ENOMEM.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

enum event_what {
	EVENT_APPEND, /* something was added behind what was there */
	EVENT_SAVE,   /* the content is another one, or something is there that was not */
	EVENT_REMOVE,
	EVENT_RENAME,
	EVENT_ATTR, /* mode, owner, times or attributes */
	EVENT_LOST, /* anything may have changed */
};

enum event_by {
	EVENT_BY_MOUNT, /* this one */
	EVENT_BY_SQL,
	EVENT_BY_OTHER, /* another mount */
};

/* How an event moves the paths below a directory; of files it does not matter. */
enum event_moves {
	EVENT_MOVES,	 /* what was below from is below path, if from is set */
	EVENT_EXCHANGES, /* and the other way round, too */
	EVENT_EXCHANGED, /* as the event before has said */
};

/* Texts are UTF-8; data NULL: there is none, or it is not known.  Numbers: -1: the same. */
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
	int64_t count;	   /* items that were added */
	int64_t items;	   /* that there are now */
	int64_t size;	   /* in bytes, now */
};

enum {
	EVENTS_MOST = 65536, /* a power of two */
	EVENTS_BYTES = 16 << 20,
};

struct kept_event;

struct events {
	_Atomic bool wanted; /* events_begin() was called last, and not events_end() */
	pthread_mutex_t lock;
	struct kept_event **kept; /* by number; NULL: there was no memory for that one */
	size_t bytes;
	int64_t first; /* number of the oldest that is kept */
	int64_t next;  /* that the next one gets */
	/* following.c; the lock is a leaf, but for what happened() takes. */
	pthread_mutex_t follow_lock;
	unsigned readers;
	int64_t until; /* tick_now() when nobody needs what is kept, without readers */
	void (*happened)(void *arg);
	void *arg;
};

void events_init(struct events *events);
void events_done(struct events *events);
/* From now on events are kept, until events_end(), which forgets them. */
int events_begin(struct events *events);
void events_end(struct events *events);

/* Whether they are kept: otherwise nobody need say what happens. */
static inline bool events_wanted(const struct events *events)
{
	return atomic_load_explicit(&events->wanted, memory_order_relaxed);
}

/* Keep a copy of one; its number, or -1: nothing is kept.  It can be read after events_show(). */
int64_t events_add(struct events *events, const struct event *event);
/* One more events_show() is needed before it can be read, which calls happened(). */
void events_hide(struct events *events, int64_t number);
void events_show(struct events *events, int64_t number);

/* Who follows a directory.  Zeroed at first, ended with event_reader_done(). */
struct event_reader {
	struct events *events;
	int64_t after;	 /* the last one that he was told, or passed */
	bool lost;	 /* he is to be told so first */
	struct buf path; /* of his directory at that event */
	struct buf rest; /* of a line that there was no room for */
};

/* The directory's path is that of now.  since: the last event that the reader knows; one that is
 * not known here is lost.  -1: he begins now. */
int event_reader_begin(struct event_reader *reader, struct events *events, struct bytes path,
		       int64_t since);
void event_reader_done(struct event_reader *reader);
/* What there is for him, at most size bytes: whole lines, and the beginning of one only if there is
 * room for no more, whose rest comes next.  Nothing is appended when there is nothing. */
int event_read(struct event_reader *reader, size_t size, struct buf *lines);
/* Whether there is something. */
bool event_waits(struct event_reader *reader);

/* The line of an event, with its newline. */
int event_line(const struct event *event, int64_t number, struct buf *line);
/* Whether an event is at or below a directory, or moves it. */
bool event_concerns(const struct event *event, struct bytes path);
/* The path that something has behind an event, or (back) had before it. */
int event_follow(const struct event *event, bool back, struct buf *path);

#endif
