/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "src/user/say.h"
#include "src/user/terminal.h"
#include "src/cmd/summary.h"
#include "src/user/units.h"
#include "src/cmd/cmd.h"

enum {
	SIZES = 7, /* classes of sessions */
	DAYS_SHOWN = 14,
	WIDTH = 80, /* where there is no terminal */
	WIDTH_LEAST = 40,
};

/* Where each class begins, in bytes. */
static const uint64_t size_from[SIZES] = { 0, 1, 1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26 };

struct stats {
	struct options options;
	bool json;
	uint64_t sessions;
	struct backend_session_stat sum;
	uint64_t in_class[SIZES];
	struct buf largest; /* its name, with a NUL */
	uint64_t largest_bytes;
	struct backend_day *days;
	size_t n_days;
	size_t room;
	struct summary_questions questions;
};

static const struct cmd_option stats_options[] = {
	CMD_JSON(struct stats, json),
	CMD_TABLE,
};

static int on_session(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	struct stats *stats = arg;
	size_t class = SIZES - 1;
	int r;

	stats->sessions++;
	summary_add(&stats->sum, stat);
	while (stat->bytes < size_from[class])
		class --;
	stats->in_class[class]++;
	if (stats->largest.size && stat->bytes <= stats->largest_bytes)
		return 0;
	buf_clear(&stats->largest);
	stats->largest_bytes = stat->bytes;
	r = summary_name(&stats->questions, session, &stats->largest);
	return r < 0 ? r : buf_append_byte(&stats->largest, '\0');
}

static int on_day(void *arg, const struct backend_day *day)
{
	struct stats *stats = arg;

	if (ARRAY_ROOM(stats->days, stats->n_days, stats->room) < 0)
		return -ENOMEM;
	stats->days[stats->n_days++] = *day;
	return 0;
}

static const char *show_day(int64_t day, char text[UNITS_TEXT])
{
	time_t seconds = (time_t)day * 86400;
	struct tm utc;

	if (!gmtime_r(&seconds, &utc) || !strftime(text, UNITS_TEXT, "%Y-%m-%d", &utc))
		snprintf(text, UNITS_TEXT, "-");
	return text;
}

static const char *show_class(size_t class, char text[UNITS_TEXT])
{
	char from[UNITS_TEXT], to[UNITS_TEXT];

	if (class == 0)
		return "empty";
	if (class == SIZES - 1)
		snprintf(text, UNITS_TEXT, "%.12s or more",
			 units_show_size(size_from[class], from));
	else
		snprintf(text, UNITS_TEXT, "%.12s to %.12s",
			 units_show_size(size_from[class], from),
			 units_show_size(size_from[class + 1], to));
	return text;
}

/* Bars. */

/* Something is never shown as nothing. */
static void print_bar(const char *label, uint64_t value, uint64_t most)
{
	int room = terminal_columns(WIDTH, WIDTH_LEAST) -
		   printf("  %-13s %10" PRIu64, label, value) - 2;
	int length = value ? MAX((int)((double)value / (double)most * room), 1) : 0;

	printf("%*s", length ? 2 : 0, "");
	for (; length > 0; length--)
		putchar('#');
	putchar('\n');
}

static void print_sizes(const struct stats *stats)
{
	char label[UNITS_TEXT];
	uint64_t most = 0;

	printf("\nSessions by the bytes of their items\n");
	for (size_t i = 0; i < SIZES; i++)
		most = MAX(most, stats->in_class[i]);
	for (size_t i = 0; i < SIZES; i++)
		print_bar(show_class(i, label), stats->in_class[i], most);
}

static void print_days(const struct stats *stats)
{
	size_t first = stats->n_days > DAYS_SHOWN ? stats->n_days - DAYS_SHOWN : 0;
	char label[UNITS_TEXT];
	uint64_t most = 0;

	if (!stats->n_days)
		return;
	printf("\nItems by the day on which they were made (UTC)%s\n",
	       first ? ", the last days" : "");
	for (size_t i = first; i < stats->n_days; i++)
		most = MAX(most, stats->days[i].items);
	for (size_t i = first; i < stats->n_days; i++)
		print_bar(show_day(stats->days[i].day, label), stats->days[i].items, most);
}

static void print_text(const struct stats *stats, const struct backend_space *space)
{
	const struct backend_session_stat *sum = &stats->sum;
	char text[UNITS_TEXT];

	printf("sessions  %" PRIu64 "\n", stats->sessions);
	printf("keys      %" PRIu64 "\n", sum->keys);
	printf("items     %" PRIu64 "\n", sum->items);
	printf("bytes     %s", units_show_size(sum->bytes, text));
	if (stats->largest_bytes) {
		printf(", the largest session %s: ", units_show_size(stats->largest_bytes, text));
		say_name(stats->largest.data, "");
	}
	printf("\nstore     %s\n", units_show_size(space->used, text));
	printf("changed   %s\n", units_show_time(sum->updated, text));
	print_sizes(stats);
	print_days(stats);
}

static json_t *sizes_json(const struct stats *stats)
{
	json_t *list = json_array();

	for (size_t i = 0; i < SIZES; i++)
		json_array_append_new(list, json_pack("{sI sI}", "from", size_from[i], "sessions",
						      stats->in_class[i]));
	return list;
}

static json_t *days_json(const struct stats *stats)
{
	json_t *list = json_array();
	char text[UNITS_TEXT];

	for (size_t i = 0; i < stats->n_days; i++) {
		const struct backend_day *day = &stats->days[i];

		json_array_append_new(list, json_pack("{ss sI sI}", "day", show_day(day->day, text),
						      "items", day->items, "bytes", day->bytes));
	}
	return list;
}

static json_t *stats_json(const struct stats *stats, const struct backend_space *space)
{
	json_t *value = json_pack("{sI}", "sessions", stats->sessions);

	summary_add_json(value, &stats->sum);
	json_object_set_new(value, "store_bytes", json_integer((json_int_t)space->used));
	json_object_set_new(value, "sizes", sizes_json(stats));
	json_object_set_new(value, "days", days_json(stats));
	return value;
}

static int run_stats(void *values, char **operands)
{
	struct stats *stats = values;
	int r;

	stats->questions = (struct summary_questions){
		.what = "stats", .session = on_session, .day = on_day, .arg = stats
	};
	r = summary_all(operands[0], &stats->options, &stats->questions);
	if (r == 0 && stats->json)
		say_json(stats_json(stats, &stats->questions.space));
	else if (r == 0)
		print_text(stats, &stats->questions.space);
	free(stats->days);
	buf_done(&stats->largest);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_stats = {
	.name = "stats",
	.arguments = "[--json] [-o table=NAME] STORE",
	.summary = "count what is in a store",
	.help = "Counts sessions, keys, items and bytes, and shows how many sessions there are of "
		"which size, and how many items were created on which day.  The store may be "
		"mounted.",
	.failed = "STORE cannot be read",
	CMD_OPTIONS(stats_options),
	.least = 1,
	.most = 1,
	.operands = "takes a store",
	.size = sizeof(struct stats),
	.run = run_stats,
};
