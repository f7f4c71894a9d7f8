/* SPDX-License-Identifier: MIT */
#include "src/user/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/plural.h"
#include "backend/base/tick.h"
#include "src/user/units.h"

static const int64_t second = 1000000000;
static const int64_t step = second / 5; /* between two drawings */

enum {
	COLUMNS_UNKNOWN = 80,
	MEMORY = 5, /* seconds that the rates look back, more or less */
};

/* The state of the line on the terminal.  lock protects all of it; code that prints holds lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct progress *drawn; /* the progress that ticks redraw; or NULL */
static int shown_on = -1;
static size_t shown_size;

static unsigned terminal_columns(int fd)
{
	struct winsize size;

	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : COLUMNS_UNKNOWN;
}

/* If the terminal cannot be written to, go on without the line. */
static void put(int fd, const char *text, size_t size)
{
	if (write(fd, text, size) < 0)
		return;
}

void progress_hold(void)
{
	/* Blanks rather than a sequence to erase with: every terminal understands these. */
	char blank[PROGRESS_COLUMNS + 2];

	pthread_mutex_lock(&lock);
	if (shown_on < 0 || !shown_size)
		return;
	memset(blank, ' ', sizeof(blank));
	blank[0] = blank[shown_size + 1] = '\r';
	put(shown_on, blank, shown_size + 2);
	shown_size = 0;
}

void progress_release(void)
{
	pthread_mutex_unlock(&lock);
}

/* Bytes that this process has read by any call (proc(5), io); 0 where the kernel does not count
 * them. */
static uint64_t bytes_read(void)
{
	static const char label[] = "rchar: ";
	_cleanup_(closep) int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *found;

	if (size <= 0)
		return 0;
	text[size] = '\0';
	found = strstr(text, label);
	return found ? strtoull(found + strlen(label), NULL, 10) : 0;
}

static void follow(struct progress *progress)
{
	if (progress->follows & PROGRESS_TICKS)
		progress->items = ticks() - progress->ticks_begun;
	if (progress->follows & PROGRESS_READS) {
		uint64_t bytes = bytes_read();

		bytes -= MIN(bytes, progress->reads_begun);
		if (progress->bytes_total)
			bytes = MIN(bytes, progress->bytes_total);
		progress->bytes = MAX(bytes, progress->bytes);
	}
}

static void draw_line(const struct progress *progress)
{
	char text[2 * PROGRESS_COLUMNS + 4], line[PROGRESS_COLUMNS + 1];
	size_t room = progress->columns(progress->fd);
	size_t size, padding;
	int written;

	progress_show(progress, line);
	/* Behind the last column some terminals begin a new line. */
	room = MIN(MAX(room, 2U) - 1, (size_t)PROGRESS_COLUMNS);
	size = MIN(strlen(line), room);
	padding = shown_size > size ? MIN(shown_size, room) - size : 0;
	written = snprintf(text, sizeof(text), "\r%.*s%*s%s", (int)size, line, (int)padding, "",
			   padding ? "\r" : "");
	shown_on = progress->fd;
	shown_size = size;
	put(shown_on, text, (size_t)written);
}

/* A moving average over about MEMORY seconds: a longer interval weighs more. */
static double mix(double rate, uint64_t more, double seconds)
{
	double now = (double)more / seconds;
	double weight = seconds / (seconds + MEMORY);

	return rate > 0 ? rate + (now - rate) * weight : now;
}

static void take_rates(struct progress *progress, int64_t now)
{
	double seconds = (double)(now - progress->drawn) / (double)second;

	if (seconds <= 0)
		return;
	progress->bytes_rate =
		mix(progress->bytes_rate, progress->bytes - progress->drawn_bytes, seconds);
	progress->items_rate =
		mix(progress->items_rate, progress->items - progress->drawn_items, seconds);
	progress->drawn = now;
	progress->drawn_bytes = progress->bytes;
	progress->drawn_items = progress->items;
}

/* The caller holds the lock. */
static void draw(struct progress *progress)
{
	int64_t now = progress->now();

	if (progress->fd < 0 || now - progress->begun < progress->delay)
		return;
	follow(progress);
	take_rates(progress, now);
	draw_line(progress);
}

void progress_draw(struct progress *progress)
{
	pthread_mutex_lock(&lock);
	draw(progress);
	pthread_mutex_unlock(&lock);
}

/* Likewise. */
static void draw_now_and_then(void)
{
	int64_t now = drawn ? drawn->now() : 0;

	if (!drawn || now - drawn->tried < step)
		return;
	drawn->tried = now;
	draw(drawn);
}

/* Only trylock: the thread that holds the lock and prints may be the one that ticks. */
static void on_tick(void)
{
	if (pthread_mutex_trylock(&lock) != 0)
		return;
	draw_now_and_then();
	pthread_mutex_unlock(&lock);
}

static int64_t delay(void)
{
	const char *text = getenv("SESSFS_PROGRESS_DELAY");
	uint64_t seconds;
	char *end;

	if (!text || units_number(text, 10, INT32_MAX, &seconds, &end) < 0 || *end)
		return second;
	return (int64_t)seconds * second;
}

void progress_begin_on(struct progress *progress, const char *what, const char *things, int fd,
		       int64_t (*now)(void), unsigned (*columns)(int fd))
{
	*progress = (struct progress){
		.what = what,
		.things = things,
		.fd = fd,
		.now = now ? now : tick_now,
		.columns = columns ? columns : terminal_columns,
	};
	progress->delay = delay();
	progress->begun = progress->drawn = progress->tried = progress->now();
}

static void watch(struct progress *progress)
{
	pthread_mutex_lock(&lock);
	drawn = progress;
	pthread_mutex_unlock(&lock);
	tick_watch(progress ? on_tick : NULL);
}

void progress_start(struct progress *progress)
{
	watch(progress);
	progress_draw(progress);
}

void progress_begin(struct progress *progress, const char *what, const char *things)
{
	progress_begin_on(progress, what, things, isatty(STDERR_FILENO) ? STDERR_FILENO : -1, NULL,
			  NULL);
	if (progress->fd >= 0)
		progress_start(progress);
}

void progress_follow(struct progress *progress, unsigned follows)
{
	pthread_mutex_lock(&lock);
	progress->follows = follows;
	progress->ticks_begun = ticks();
	progress->reads_begun = bytes_read();
	pthread_mutex_unlock(&lock);
}

void progress_set_total(struct progress *progress, uint64_t items, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	progress->items_total = items;
	progress->bytes_total = bytes;
	pthread_mutex_unlock(&lock);
}

void progress_add(struct progress *progress, uint64_t items, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	progress->items += items;
	progress->bytes += bytes;
	draw_now_and_then();
	pthread_mutex_unlock(&lock);
}

void progress_end(struct progress *progress)
{
	if (drawn == progress) {
		progress_draw(progress);
		watch(NULL);
	}
	if (progress->what && progress->fd >= 0) {
		progress_hold();
		progress_release();
	}
	progress->what = NULL;
}

/* By bytes, where their total is known; otherwise by items.  Negative: not known. */
static int64_t seconds_left(const struct progress *progress)
{
	bool by_bytes = progress->bytes_total;
	uint64_t total = by_bytes ? progress->bytes_total : progress->items_total;
	uint64_t done = by_bytes ? progress->bytes : progress->items;
	double rate = by_bytes ? progress->bytes_rate : progress->items_rate;
	double left;

	if (!total || done >= total || rate <= 0)
		return -1;
	left = (double)(total - done) / rate;
	return left < 100 * 3600 ? (int64_t)(left + 0.5) : -1;
}

void progress_show(const struct progress *progress, char text[PROGRESS_COLUMNS + 1])
{
	_cleanup_(buf_done) struct buf line = { 0 };
	char done[UNITS_TEXT], total[UNITS_TEXT];
	const int64_t left = seconds_left(progress);

	buf_printf(&line, "%s", progress->what);
	if (progress->things && progress->items_total)
		buf_printf(&line, "  %" PRIu64 " of %" PRIu64 " %s%s", progress->items,
			   progress->items_total, progress->things,
			   plural_s(progress->items_total));
	else if (progress->things)
		buf_printf(&line, "  %" PRIu64 " %s%s", progress->items, progress->things,
			   plural_s(progress->items));
	if (progress->bytes || progress->bytes_total)
		buf_printf(&line, "  %s", units_show_size(progress->bytes, done));
	if (progress->bytes_total)
		buf_printf(&line, " of %s", units_show_size(progress->bytes_total, total));
	if (progress->bytes_rate >= 1)
		buf_printf(&line, "  %s/s", units_show_size((uint64_t)progress->bytes_rate, done));
	if (left >= 3600)
		buf_printf(&line, "  %" PRId64 ":%02d:%02d left", left / 3600,
			   (int)(left / 60 % 60), (int)(left % 60));
	else if (left >= 0)
		buf_printf(&line, "  %d:%02d left", (int)(left / 60), (int)(left % 60));
	snprintf(text, PROGRESS_COLUMNS + 1, "%s", line.data ? line.data : "");
}
