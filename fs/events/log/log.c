/* SPDX-License-Identifier: MIT */

/* The events that are kept.  Threads that change files wait for the lock, so it is held for a few
 * instructions only, and not while a line is made. */

#include "fs/events/log/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

/* Random numbers begin below this: programs that know numbers as doubles have them exactly. */
enum { NUMBER_BITS = 52 };

/* Events were dropped: skip numbers, so that a reader cannot take its next events for known. */
enum { SKIPPED = 2 };

struct kept_event {
	_Atomic unsigned count; /* counts of this struct */
	unsigned hidden;	/* calls of events_show() still needed */
	size_t size;
	struct event event; /* its texts lie behind */
	char text[];
};

void events_init(struct events *events)
{
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		number = (uint64_t)time_now() * UINT64_C(0x9e3779b97f4a7c15);
	*events = (struct events){ 0 };
	pthread_mutex_init(&events->lock, NULL);
	pthread_mutex_init(&events->follow_lock, NULL);
	events->first = events->next = 1 + (int64_t)(number >> (64 - NUMBER_BITS));
}

static struct kept_event **slot(struct events *events, int64_t number)
{
	return &events->kept[number & (EVENTS_MOST - 1)];
}

static void kept_drop(struct kept_event *kept)
{
	if (kept && atomic_fetch_sub(&kept->count, 1) == 1)
		free(kept);
}

static void forget_oldest(struct events *events)
{
	struct kept_event **oldest = slot(events, events->first++);

	if (*oldest)
		events->bytes -= (*oldest)->size;
	kept_drop(*oldest);
	*oldest = NULL;
}

int events_begin(struct events *events)
{
	WITH_MUTEX(&events->lock);

	if (!events->kept)
		events->kept = calloc(EVENTS_MOST, sizeof(events->kept[0]));
	events->wanted |= events->kept != NULL;
	return events->kept ? 0 : -ENOMEM;
}

void events_end(struct events *events)
{
	WITH_MUTEX(&events->lock);

	while (events->first < events->next)
		forget_oldest(events);
	free(events->kept);
	events->kept = NULL;
	events->wanted = false;
	events->next += SKIPPED;
	events->first = events->next;
}

void events_done(struct events *events)
{
	events_end(events);
	pthread_mutex_destroy(&events->lock);
	pthread_mutex_destroy(&events->follow_lock);
}

void text_move(struct bytes *text, char **at)
{
	if (!text->data)
		return;
	if (text->size)
		memcpy(*at, text->data, text->size);
	text->data = *at;
	*at += text->size + 1; /* so that an empty text has an address, too */
}

static struct kept_event *kept_new(const struct event *event)
{
	size_t size = sizeof(struct kept_event) + event->session.size + event->key.size +
		      event->path.size + event->from.size + 4;
	struct kept_event *kept = malloc(size);
	char *at;

	if (!kept)
		return NULL;
	*kept = (struct kept_event){ .count = 1, .hidden = 1, .size = size, .event = *event };
	at = kept->text;
	text_move(&kept->event.session, &at);
	text_move(&kept->event.key, &at);
	text_move(&kept->event.path, &at);
	text_move(&kept->event.from, &at);
	return kept;
}

int64_t events_add(struct events *events, const struct event *event)
{
	struct kept_event *kept = kept_new(event);
	int64_t number = -1;

	pthread_mutex_lock(&events->lock);
	if (events->wanted) {
		number = events->next++;
		if (events->next - events->first > EVENTS_MOST)
			forget_oldest(events);
		*slot(events, number) = kept;
		events->bytes += kept ? kept->size : 0;
		kept = NULL;
		while (events->bytes > EVENTS_BYTES)
			forget_oldest(events);
	}
	pthread_mutex_unlock(&events->lock);
	kept_drop(kept);
	return number;
}

/* Under the lock; NULL: it is not kept. */
static struct kept_event *events_find(struct events *events, int64_t number)
{
	return number >= events->first && number < events->next ? *slot(events, number) : NULL;
}

void events_hide(struct events *events, int64_t number)
{
	struct kept_event *kept;

	WITH_MUTEX(&events->lock);
	kept = events_find(events, number);
	if (kept)
		kept->hidden++;
}

void events_show(struct events *events, int64_t number)
{
	struct kept_event *kept;

	pthread_mutex_lock(&events->lock);
	kept = events_find(events, number);
	if (kept)
		kept->hidden--;
	pthread_mutex_unlock(&events->lock);
	pthread_mutex_lock(&events->follow_lock);
	if (events->happened)
		events->happened(events->arg);
	pthread_mutex_unlock(&events->follow_lock);
}

/* ---- Readers ---- */

/* Find the path that the directory had at the event from which the reader goes on. */
static int go_back(struct event_reader *reader)
{
	struct events *events = reader->events;
	int r = 0;

	for (int64_t i = events->next - 1; r == 0 && i > reader->after; i--) {
		const struct kept_event *kept = events_find(events, i);

		if (kept)
			r = event_follow(&kept->event, true, &reader->path);
	}
	return r;
}

int event_reader_begin(struct event_reader *reader, struct events *events, struct bytes path,
		       int64_t since)
{
	int r;

	*reader = (struct event_reader){ .events = events };
	r = buf_append_bytes(&reader->path, path);
	if (r < 0)
		return r;
	WITH_MUTEX(&events->lock);
	reader->after = events->next - 1;
	if (since >= events->first - 1 && since < events->next) {
		reader->after = since;
		return go_back(reader);
	}
	reader->lost = since >= 0;
	return 0;
}

void event_reader_done(struct event_reader *reader)
{
	buf_done(&reader->path);
	buf_done(&reader->rest);
}

/* The reader's next event, counted, or NULL; 1: it is not kept. */
static int next(struct event_reader *reader, struct kept_event **ret_kept)
{
	struct events *events = reader->events;
	struct kept_event *kept;

	*ret_kept = NULL;
	WITH_MUTEX(&events->lock);
	if (reader->after + 1 < events->first) {
		reader->after = events->first - 1;
		return 1;
	}
	if (reader->after + 1 >= events->next)
		return 0;
	kept = *slot(events, reader->after + 1);
	reader->after += !kept || !kept->hidden;
	if (kept && !kept->hidden) {
		atomic_fetch_add(&kept->count, 1);
		*ret_kept = kept;
	}
	return !kept;
}

struct event event_new(enum event_what what)
{
	return (struct event){
		.what = what,
		.at = time_now(),
		.first = -1,
		.count = -1,
		.items = -1,
		.size = -1,
	};
}

/* Put the reader's next line into rest: 1, or 0 when there is none. */
static int next_line(struct event_reader *reader)
{
	const struct event lost = event_new(EVENT_LOST);
	struct kept_event *kept;
	int r;

	if (!reader->lost && next(reader, &kept) > 0)
		reader->lost = true;
	else if (!reader->lost && !kept)
		return 0;
	if (reader->lost) {
		r = event_line(&lost, reader->after, &reader->rest);
		reader->lost = r < 0;
		return r < 0 ? r : 1;
	}
	r = event_follow(&kept->event, false, &reader->path);
	if (r == 0 && event_concerns(&kept->event, buf_bytes(&reader->path)))
		r = event_line(&kept->event, reader->after, &reader->rest);
	reader->lost = r < 0;
	kept_drop(kept);
	return r < 0 ? r : 1;
}

static int fill(struct event_reader *reader)
{
	int r = 1;

	while (r > 0 && !reader->rest.size)
		r = next_line(reader);
	return r;
}

bool event_waits(struct event_reader *reader)
{
	return fill(reader) != 0 || reader->rest.size;
}

int event_read(struct event_reader *reader, size_t size, struct buf *lines)
{
	size_t start = lines->size, taken;
	int r;

	while ((r = fill(reader)) >= 0 && reader->rest.size) {
		taken = size - (lines->size - start);
		if (reader->rest.size > taken && lines->size > start)
			break;
		taken = MIN(taken, reader->rest.size);
		r = buf_append(lines, reader->rest.data, taken);
		if (r < 0)
			break;
		buf_consume(&reader->rest, taken);
		if (reader->rest.size)
			break;
	}
	return lines->size > start ? 0 : MIN(r, 0);
}
