/* SPDX-License-Identifier: MIT */
#include "fs/events/log/log.h"

#include <string.h>
#include <time.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

static const char *const whats[] = {
	[EVENT_APPEND] = "append", [EVENT_SAVE] = "save", [EVENT_REMOVE] = "remove",
	[EVENT_RENAME] = "rename", [EVENT_ATTR] = "attr", [EVENT_LOST] = "lost",
};

static const char *const bys[] = {
	[EVENT_BY_MOUNT] = "mount",
	[EVENT_BY_SQL] = "sql",
	[EVENT_BY_OTHER] = "other mount",
};

static int add_text(struct buf *line, const char *name, struct bytes text)
{
	size_t start = 0;
	int r = buf_join(line, bytes_str(name), bytes_str(text.data ? "\"" : "null"));

	if (r < 0 || !text.data)
		return r;
	for (size_t i = 0; r == 0 && i < text.size; i++) {
		unsigned char byte = (unsigned char)text.data[i];

		if (byte >= ' ' && byte != '"' && byte != '\\')
			continue;
		r = buf_append(line, text.data + start, i - start);
		if (r == 0)
			r = byte == '"' || byte == '\\' ? buf_printf(line, "\\%c", byte) :
							  buf_printf(line, "\\u%04x", byte);
		start = i + 1;
	}
	if (r == 0 && start < text.size)
		r = buf_append(line, text.data + start, text.size - start);
	return r < 0 ? r : buf_append_byte(line, '"');
}

/* Behind a name or another sign, with so many digits at least.  Ten readers of a thousand events a
 * second have 40,000 numbers: printf(3) would take several times as long as all else does. */
static int add_digits(struct buf *line, const char *sign, int64_t number, int least)
{
	char digits[20];
	size_t at = sizeof(digits);
	int r = buf_append_str(line, sign);

	for (; number || least > 0; number /= 10, least--)
		digits[--at] = (char)('0' + number % 10);
	return r < 0 ? r : buf_append(line, digits + at, sizeof(digits) - at);
}

static int add_number(struct buf *line, const char *name, int64_t number)
{
	int r;

	if (number >= 0)
		return add_digits(line, name, number, 1);
	r = buf_append_str(line, name);
	return r < 0 ? r : buf_append_str(line, "null");
}

static int add_time(struct buf *line, int64_t at)
{
	const struct timespec time = time_split(at);
	struct tm tm = { 0 };
	int r;

	gmtime_r(&time.tv_sec, &tm);
	r = add_digits(line, ",\"time\":\"", tm.tm_year + 1900, 4);
	if (r == 0)
		r = add_digits(line, "-", tm.tm_mon + 1, 2);
	if (r == 0)
		r = add_digits(line, "-", tm.tm_mday, 2);
	if (r == 0)
		r = add_digits(line, "T", tm.tm_hour, 2);
	if (r == 0)
		r = add_digits(line, ":", tm.tm_min, 2);
	if (r == 0)
		r = add_digits(line, ":", tm.tm_sec, 2);
	if (r == 0)
		r = add_digits(line, ".", time.tv_nsec / 1000, 6);
	return r < 0 ? r : buf_append_str(line, "Z\"");
}

static int add_all(const struct event *event, int64_t number, struct buf *line)
{
	int r = add_digits(line, "{\"seq\":", number, 1);

	if (r == 0)
		r = add_time(line, event->at);
	if (r == 0)
		r = add_text(line, ",\"session\":", event->session);
	if (r == 0)
		r = add_text(line, ",\"key\":", event->key);
	if (r == 0)
		r = add_text(line, ",\"path\":", event->path);
	if (r == 0 && event->from.data)
		r = add_text(line, ",\"from\":", event->from);
	if (r == 0)
		r = add_text(line, ",\"what\":", bytes_str(whats[event->what]));
	if (r == 0)
		r = add_number(line, ",\"first\":", event->first);
	if (r == 0)
		r = add_number(line, ",\"count\":", event->count);
	if (r == 0)
		r = add_number(line, ",\"items\":", event->items);
	if (r == 0)
		r = add_number(line, ",\"size\":", event->size);
	if (r == 0)
		r = add_text(line, ",\"by\":",
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
	int r = buf_join(&moved, by, bytes_make(path->data + start.size, path->size - start.size));

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
