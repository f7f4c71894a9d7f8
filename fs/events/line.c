/* SPDX-License-Identifier: MIT */
#include "fs/events/events.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "src/base/cleanup.h"

static const char *const whats[] = {
	[EVENT_APPEND] = "append", [EVENT_SAVE] = "save", [EVENT_REMOVE] = "remove",
	[EVENT_RENAME] = "rename", [EVENT_ATTR] = "attr", [EVENT_LOST] = "lost",
};

static const char *const bys[] = {
	[EVENT_BY_MOUNT] = "mount",
	[EVENT_BY_SQL] = "sql",
	[EVENT_BY_OTHER] = "other mount",
};

static int add_escaped(struct buf *line, unsigned char byte)
{
	if (byte == '"' || byte == '\\')
		return buf_printf(line, "\\%c", byte);
	return buf_printf(line, "\\u%04x", byte);
}

static int add_text(struct buf *line, const char *name, struct bytes text)
{
	size_t start = 0;
	int r = buf_printf(line, text.data ? ",\"%s\":\"" : ",\"%s\":null", name);

	if (r < 0 || !text.data)
		return r;
	for (size_t i = 0; r == 0 && i < text.size; i++) {
		unsigned char byte = (unsigned char)text.data[i];

		if (byte >= ' ' && byte != '"' && byte != '\\')
			continue;
		r = buf_append(line, text.data + start, i - start);
		if (r == 0)
			r = add_escaped(line, byte);
		start = i + 1;
	}
	if (r == 0 && start < text.size)
		r = buf_append(line, text.data + start, text.size - start);
	return r < 0 ? r : buf_append_byte(line, '"');
}

static int add_number(struct buf *line, const char *name, int64_t number)
{
	return number < 0 ? buf_printf(line, ",\"%s\":null", name) :
			    buf_printf(line, ",\"%s\":%" PRId64, name, number);
}

static int add_time(struct buf *line, int64_t at)
{
	const time_t seconds = (time_t)(at / 1000000000);
	struct tm tm = { 0 };

	gmtime_r(&seconds, &tm);
	return buf_printf(line, ",\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\"",
			  tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
			  tm.tm_sec, (int)(at % 1000000000 / 1000));
}

static int add_all(const struct event *event, int64_t number, struct buf *line)
{
	int r = buf_printf(line, "{\"seq\":%" PRId64, number);

	if (r == 0)
		r = add_time(line, event->at);
	if (r == 0)
		r = add_text(line, "session", event->session);
	if (r == 0)
		r = add_text(line, "key", event->key);
	if (r == 0)
		r = add_text(line, "path", event->path);
	if (r == 0 && event->from.data)
		r = add_text(line, "from", event->from);
	if (r == 0)
		r = add_text(line, "what", bytes_str(whats[event->what]));
	if (r == 0)
		r = add_number(line, "first", event->first);
	if (r == 0)
		r = add_number(line, "count", event->count);
	if (r == 0)
		r = add_number(line, "items", event->items);
	if (r == 0)
		r = add_number(line, "size", event->size);
	if (r == 0)
		r = add_text(line, "by",
			     event->what == EVENT_LOST ? (struct bytes){ 0 } :
							 bytes_str(bys[event->by]));
	return r < 0 ? r : buf_append_str(line, "}\n");
}

int event_line(const struct event *event, int64_t number, struct buf *line)
{
	size_t before = line->size;
	int r = add_all(event, number, line);

	if (r < 0)
		line->size = before;
	return r;
}

static bool is_below(struct bytes path, struct bytes dir)
{
	return path.data && (!dir.size || (bytes_starts_with(path, dir) &&
					   (path.size == dir.size || path.data[dir.size] == '/')));
}

static bool moves(const struct event *event)
{
	return event->from.data && event->moves != EVENT_EXCHANGED;
}

bool event_concerns(const struct event *event, struct bytes path)
{
	return event->what == EVENT_LOST || is_below(event->path, path) ||
	       is_below(event->from, path) ||
	       (event->from.data && (is_below(path, event->from) || is_below(path, event->path)));
}

static int replace(struct buf *path, struct bytes start, struct bytes by)
{
	_cleanup_(buf_done) struct buf moved = { 0 };
	int r = buf_append_bytes(&moved, by);

	if (r == 0)
		r = buf_append(&moved, path->data + start.size, path->size - start.size);
	if (r < 0)
		return r;
	buf_clear(path);
	return buf_append_bytes(path, buf_bytes(&moved));
}

int event_follow(const struct event *event, bool back, struct buf *path)
{
	struct bytes from = back ? event->path : event->from;
	struct bytes to = back ? event->from : event->path;

	if (!moves(event) || !path->size)
		return 0;
	if (is_below(buf_bytes(path), from))
		return replace(path, from, to);
	if (event->moves == EVENT_EXCHANGES && is_below(buf_bytes(path), to))
		return replace(path, to, from);
	return 0;
}
