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
static const char *const made_paths[] = {
	"timestamp", "created_at", "createdAt", "time.created",	     "startTime", "start_time",
	"created",   "time",	   "ts",	"message.timestamp", NULL,
};
static const char *const changed_paths[] = {
	"updated_at",	"updatedAt", "time.updated", "lastUpdated",
	"last_updated", "endTime",   "end_time",     NULL,
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

static bool take_time(struct bytes value, void *arg)
{
	const int64_t time =
		look_is(value, '"') ? read_text(look_inside(value)) : read_number(value);

	if (time <= 0)
		return false;
	*(int64_t *)arg = time;
	return true;
}

void dates_read(struct bytes record, int64_t *ret_made, int64_t *ret_changed)
{
	const char *end = record.data + record.size, *at = look_blanks(record.data, end);

	record = bytes_make(at, (size_t)(end - at));
	*ret_made = *ret_changed = 0;
	look_first(record, made_paths, take_time, ret_made);
	look_first(record, changed_paths, take_time, ret_changed);
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
