/* SPDX-License-Identifier: MIT */
/*
 * The log, and what it leaves.  A cut is made by going through the log from its beginning: each
 * file has the bytes that are durable, and the changes since its last sync, to which the pattern is
 * applied in the end.
 */
#include "tests/vfs/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "tests/unit/random.h"

void shim_log_add(struct shim_log *log, enum shim_entry entry, unsigned file, uint64_t offset,
		  struct bytes data)
{
	struct shim_event *event;

	if (log->count == log->room) {
		log->room = log->room ? log->room * 2 : 1024;
		log->event = reallocarray(log->event, log->room, sizeof(*log->event));
		MUST(log->event);
	}
	event = &log->event[log->count++];
	*event = (struct shim_event){ entry, file, offset, NULL, data.size };
	if (data.data) {
		event->data = bytes_dup(data);
		MUST(event->data);
	}
}

size_t shim_log_size(const struct shim_log *log)
{
	return log->count;
}

enum shim_entry shim_log_entry(const struct shim_log *log, size_t at)
{
	return log->event[at].entry;
}

uint64_t shim_log_mark(const struct shim_log *log, size_t at)
{
	return log->event[at].offset;
}

void shim_log_free(struct shim_log *log)
{
	for (size_t i = 0; i < log->count; i++)
		free(log->event[i].data);
	for (size_t i = 0; i < SHIM_FILES; i++) {
		free(log->first_name[i]);
		free(log->name[i]);
		buf_done(&log->first_bytes[i]);
	}
	free(log->event);
	free(log->dir);
	free(log);
}

const char *shim_pattern_name(enum shim_pattern pattern)
{
	static const char *const names[SHIM_PATTERNS] = {
		[SHIM_DROP_ALL] = "drop-all",	[SHIM_KEEP_ALL] = "keep-all",
		[SHIM_PREFIX] = "prefix",	[SHIM_SUBSET] = "subset",
		[SHIM_TEAR_512] = "tear-512",	[SHIM_TEAR_4096] = "tear-4096",
		[SHIM_ZERO_TAIL] = "zero-tail", [SHIM_GARBAGE_TAIL] = "garbage-tail",
	};

	return names[pattern];
}

/* ---- a medium ---- */

struct pending {
	const struct shim_event **event;
	size_t count;
	size_t room;
};

struct medium {
	const struct shim_log *log;
	uint64_t random;
	struct buf durable[SHIM_FILES];
	struct pending pending[SHIM_FILES];
	const char *name[SHIM_FILES]; /* durable */
	struct pending names;
};

static void pend(struct pending *pending, const struct shim_event *event)
{
	if (pending->count == pending->room) {
		pending->room = pending->room ? pending->room * 2 : 16;
		pending->event =
			reallocarray(pending->event, pending->room, sizeof(*pending->event));
		MUST(pending->event);
	}
	pending->event[pending->count++] = event;
}

static bool coin(struct medium *medium)
{
	return random_next(&medium->random) >> 63;
}

static void set_size(struct buf *file, uint64_t size)
{
	if (file->size < size)
		MUST(buf_append_zeros(file, size - file->size) == 0);
	file->size = size;
}

static void put(struct buf *file, uint64_t offset, const char *data, size_t size)
{
	if (file->size < offset + size)
		set_size(file, offset + size);
	if (size)
		memcpy(file->data + offset, data, size);
}

static void apply(struct buf *file, const struct shim_event *event)
{
	if (event->entry == SHIM_WRITTEN)
		put(file, event->offset, event->data, event->size);
	else
		set_size(file, event->offset);
}

static void sync_file(struct medium *medium, unsigned file)
{
	struct pending *pending = &medium->pending[file];

	for (size_t i = 0; i < pending->count; i++)
		apply(&medium->durable[file], pending->event[i]);
	pending->count = 0;
}

static void forget_name(struct medium *medium, const char *name)
{
	for (unsigned i = 0; i < medium->log->files; i++)
		if (medium->name[i] && strcmp(medium->name[i], name) == 0)
			medium->name[i] = NULL;
}

/* The first so many changes of names become durable. */
static void sync_names(struct medium *medium, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct shim_event *event = medium->names.event[i];

		forget_name(medium, event->data);
		if (event->entry == SHIM_CREATED)
			medium->name[event->file] = event->data;
	}
	medium->names.count = 0;
}

static void replay(struct medium *medium, const struct shim_cut *cut)
{
	for (size_t i = 0; i < cut->at; i++) {
		const struct shim_event *event = &medium->log->event[i];

		switch (event->entry) {
		case SHIM_WRITTEN:
		case SHIM_TRUNCATED:
			pend(&medium->pending[event->file], event);
			break;
		case SHIM_CREATED:
		case SHIM_DELETED:
			pend(&medium->names, event);
			break;
		case SHIM_SYNCED:
			if (!cut->syncs_lie)
				sync_file(medium, event->file);
			break;
		case SHIM_DIR_SYNCED:
			if (!cut->syncs_lie)
				sync_names(medium, medium->names.count);
			break;
		case SHIM_MARK:
			break;
		}
	}
}

/* ---- patterns ---- */

typedef void pattern_fn(struct medium *medium, struct buf *file, const struct pending *pending);

static void drop_all(struct medium *medium, struct buf *file, const struct pending *pending)
{
	(void)medium;
	(void)file;
	(void)pending;
}

static void keep_all(struct medium *medium, struct buf *file, const struct pending *pending)
{
	(void)medium;
	for (size_t i = 0; i < pending->count; i++)
		apply(file, pending->event[i]);
}

static void keep_prefix(struct medium *medium, struct buf *file, const struct pending *pending)
{
	size_t count = random_below(&medium->random, pending->count + 1);

	for (size_t i = 0; i < count; i++)
		apply(file, pending->event[i]);
}

static void keep_subset(struct medium *medium, struct buf *file, const struct pending *pending)
{
	for (size_t i = 0; i < pending->count; i++)
		if (coin(medium))
			apply(file, pending->event[i]);
}

static void tear_write(struct medium *medium, struct buf *file, const struct shim_event *event,
		       size_t sector)
{
	size_t done = 0;

	while (done < event->size) {
		uint64_t offset = event->offset + done;
		size_t part = MIN(sector - offset % sector, event->size - done);

		if (coin(medium))
			put(file, offset, event->data + done, part);
		done += part;
	}
	if (coin(medium) && file->size < event->offset + event->size)
		set_size(file, event->offset + event->size);
}

static void tear(struct medium *medium, struct buf *file, const struct pending *pending,
		 size_t sector)
{
	for (size_t i = 0; i < pending->count; i++) {
		if (pending->event[i]->entry == SHIM_WRITTEN)
			tear_write(medium, file, pending->event[i], sector);
		else if (coin(medium))
			apply(file, pending->event[i]);
	}
}

static void tear_512(struct medium *medium, struct buf *file, const struct pending *pending)
{
	tear(medium, file, pending, 512);
}

static void tear_4096(struct medium *medium, struct buf *file, const struct pending *pending)
{
	tear(medium, file, pending, 4096);
}

static uint64_t size_after(uint64_t size, const struct pending *pending)
{
	for (size_t i = 0; i < pending->count; i++) {
		const struct shim_event *event = pending->event[i];

		if (event->entry == SHIM_TRUNCATED)
			size = event->offset;
		else
			size = MAX(size, event->offset + event->size);
	}
	return size;
}

static void zero_tail(struct medium *medium, struct buf *file, const struct pending *pending)
{
	(void)medium;
	set_size(file, size_after(file->size, pending));
}

static void garbage_tail(struct medium *medium, struct buf *file, const struct pending *pending)
{
	size_t before = file->size;

	set_size(file, size_after(file->size, pending));
	for (size_t i = before; i < file->size; i++)
		file->data[i] = (char)random_next(&medium->random);
}

static pattern_fn *const patterns[SHIM_PATTERNS] = {
	[SHIM_DROP_ALL] = drop_all,   [SHIM_KEEP_ALL] = keep_all,
	[SHIM_PREFIX] = keep_prefix,  [SHIM_SUBSET] = keep_subset,
	[SHIM_TEAR_512] = tear_512,   [SHIM_TEAR_4096] = tear_4096,
	[SHIM_ZERO_TAIL] = zero_tail, [SHIM_GARBAGE_TAIL] = garbage_tail,
};

static size_t names_left(struct medium *medium, enum shim_pattern pattern)
{
	switch (pattern) {
	case SHIM_DROP_ALL:
		return 0;
	case SHIM_KEEP_ALL:
		return medium->names.count;
	default:
		return random_below(&medium->random, medium->names.count + 1);
	}
}

static void write_file(const char *dir, const char *name, const struct buf *bytes)
{
	_cleanup_(freep) char *path = NULL;
	_cleanup_(closep) int fd = -1;

	MUST(asprintf(&path, "%s/%s", dir, name) > 0);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	MUST(fd >= 0);
	for (size_t done = 0; done < bytes->size;) {
		ssize_t n = write(fd, bytes->data + done, bytes->size - done);

		MUST(n > 0);
		done += (size_t)n;
	}
}

static void medium_done(struct medium *medium)
{
	for (unsigned i = 0; i < SHIM_FILES; i++) {
		buf_done(&medium->durable[i]);
		free(medium->pending[i].event);
	}
	free(medium->names.event);
	free(medium);
}

void shim_cut(const struct shim_log *log, const struct shim_cut *cut, const char *dir)
{
	struct medium *medium = calloc(1, sizeof(*medium));

	MUST(medium);
	medium->log = log;
	medium->random = cut->seed;
	for (unsigned i = 0; i < log->first_files; i++) {
		medium->name[i] = log->first_name[i];
		MUST(buf_append_bytes(&medium->durable[i], buf_bytes(&log->first_bytes[i])) == 0);
	}
	replay(medium, cut);
	sync_names(medium, names_left(medium, cut->pattern));
	for (unsigned i = 0; i < log->files; i++) {
		if (!medium->name[i])
			continue;
		patterns[cut->pattern](medium, &medium->durable[i], &medium->pending[i]);
		write_file(dir, medium->name[i], &medium->durable[i]);
	}
	medium_done(medium);
}
