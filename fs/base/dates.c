/* SPDX-License-Identifier: MIT */
#include "fs/base/dates.h"
#include "fs/base/look.h"
#include "fs/base/ttl.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

#include <errno.h>
#include <string.h>

static const int64_t SECOND = 1000000000;

/*
 * Where records have their times, the first one that is there counts.  Claude Code, Codex, Gemini
 * CLI, pi, gptme and AgentScope write "timestamp"; sessions in one document have a beginning and a
 * last change; OpenCode has both in an object "time".
 */
static const struct shape {
	const char *in; /* member that is an object, or "" */
	const char *name;
	bool changed; /* the last change, not the beginning */
} shapes[] = {
	{ "", "timestamp", false },   { "", "created_at", false },
	{ "", "createdAt", false },   { "time", "created", false },
	{ "", "startTime", false },   { "", "start_time", false },
	{ "", "created", false },     { "", "time", false },
	{ "", "ts", false },	      { "message", "timestamp", false },
	{ "", "updated_at", true },   { "", "updatedAt", true },
	{ "time", "updated", true },  { "", "lastUpdated", true },
	{ "", "last_updated", true }, { "", "endTime", true },
	{ "", "end_time", true },
};

/* Numbers are seconds, or so many of a smaller unit that they cannot be; smaller ones are counts,
 * not times. */
static int64_t read_number(struct bytes text)
{
	static const uint64_t first = 1000000000, last = 100000000000;
	int64_t unit = SECOND, fraction = 0;
	uint64_t number;

	if (!number_take(&text, INT64_MAX, &number))
		return 0;
	for (uint64_t rest = number; rest > last && unit > 1; rest /= 1000)
		unit /= 1000;
	if (text.size > 1 && *text.data == '.') {
		int64_t part = unit;

		for (size_t i = 1; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; i++)
			fraction += (text.data[i] - '0') * (part /= 10);
	} else if (text.size) {
		return 0;
	}
	if (number < first || __builtin_mul_overflow((int64_t)number, unit, &unit))
		return 0;
	return unit + fraction;
}

/* A day without a time is not taken as a record's date. */
static int64_t read_text(struct bytes string)
{
	char text[48];

	if (string.size < sizeof("2000-01-01T00:00") - 1 || string.size >= sizeof(text) ||
	    !strchr("T ", string.data[10]) || string.data[13] != ':')
		return 0;
	memcpy(text, string.data, string.size);
	text[string.size] = '\0';
	return moment_read(text);
}

struct reading {
	int64_t found[2]; /* made, changed */
	size_t rank[2];	  /* of the shape that it was found by */
};

static void read_shape(struct reading *reading, const char *in, struct bytes name,
		       struct bytes value)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		const struct shape *shape = &shapes[i];
		const bool known = reading->found[shape->changed] != 0;
		int64_t time;

		if (strcmp(shape->in, in) != 0 || !bytes_equal(name, bytes_str(shape->name)) ||
		    (known && reading->rank[shape->changed] <= i))
			continue;
		time = value.size > 2 && *value.data == '"' ?
			       read_text(bytes_make(value.data + 1, value.size - 2)) :
			       read_number(value);
		if (time <= 0)
			continue;
		reading->found[shape->changed] = time;
		reading->rank[shape->changed] = i;
	}
}

static const char *object_name(struct bytes name)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (*shapes[i].in && bytes_equal(name, bytes_str(shapes[i].in)))
			return shapes[i].in;
	return NULL;
}

static void read_object(struct reading *reading, const char *in, struct bytes text)
{
	struct look look = look_into(text);
	struct bytes name, value;

	while (look.object && look_next(&look, &name, &value)) {
		const char *below = *in || !look_is(value, '{') ? NULL : object_name(name);

		if (below)
			read_object(reading, below, value);
		else
			read_shape(reading, in, name, value);
	}
}

void dates_read(struct bytes record, int64_t *ret_made, int64_t *ret_changed)
{
	struct reading reading = { 0 };
	const char *end = record.data + record.size, *at = look_blanks(record.data, end);

	read_object(&reading, "", bytes_make(at, (size_t)(end - at)));
	*ret_made = reading.found[false];
	*ret_changed = reading.found[true];
}

int dates_parse(struct bytes value, struct dates *ret_dates)
{
	uint64_t time;

	if (!number_take(&value, INT64_MAX, &time) || value.size || !time)
		return -EINVAL;
	ret_dates->other = (int64_t)time;
	return 0;
}

void dates_apply(const struct dates *dates, uint32_t kind, struct backend_op *op)
{
	const int64_t now = time_now();
	int64_t made = 0, changed = 0;

	if (!dates->other || !op)
		return;
	if (kind != BACKEND_HASH)
		dates_read(op->data, &made, &changed);
	made = made > now ? 0 : made;
	changed = changed > now ? 0 : changed;
	/* An item of a list is written once. */
	if (!changed)
		changed = kind == BACKEND_LIST && made ? made : dates->other;
	if (!made)
		made = MIN(dates->other, changed);
	op->created = MIN(made, now);
	op->updated = MIN(MAX(changed, made), now);
}
