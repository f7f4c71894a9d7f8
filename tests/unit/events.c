/* SPDX-License-Identifier: MIT */
#include "fs/events/log/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "fs/base/json.h"
#include "tests/unit/failing-alloc.h"

static struct event event_of(enum event_what what, const char *path, const char *from)
{
	return (struct event){
		.what = what,
		.path = path ? bytes_str(path) : (struct bytes){ 0 },
		.from = from ? bytes_str(from) : (struct bytes){ 0 },
		.first = -1,
		.count = -1,
		.items = -1,
		.size = -1,
	};
}

static int64_t add(struct events *events, enum event_what what, const char *path, const char *from)
{
	const struct event event = event_of(what, path, from);
	int64_t number = events_add(events, &event);

	events_show(events, number);
	return number;
}

/* All that there is for a reader, "append:demo/a.jsonl rename:b<a lost". */
static const char *read_all(struct event_reader *reader)
{
	static char told[4096];
	_cleanup_(buf_done) struct buf lines = { 0 };
	char *line, *place = NULL;

	*told = '\0';
	cr_assert_eq(event_read(reader, SIZE_MAX, &lines), 0);
	cr_assert_eq(buf_append_byte(&lines, '\0'), 0);
	for (line = strtok_r(lines.data, "\n", &place); line; line = strtok_r(NULL, "\n", &place)) {
		char path[64] = "", from[64] = "", what[16] = "";
		const char *at;

		cr_assert(json_valid(bytes_str(line), NULL), "%s", line);
		if ((at = strstr(line, "\"path\":\"")))
			sscanf(at + 8, "%63[^\"]", path);
		if ((at = strstr(line, "\"from\":\"")))
			sscanf(at + 8, "%63[^\"]", from);
		if ((at = strstr(line, "\"what\":\"")))
			sscanf(at + 8, "%15[^\"]", what);
		snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s%s%s%s%s%s",
			 *told ? " " : "", what, *path ? ":" : "", path, *from ? "<" : "", from);
	}
	return told;
}

#define expect_told(reader, text)                                                                  \
	({                                                                                         \
		const char *told_ = read_all(reader);                                              \
		cr_expect_str_eq(told_, text, "%s", told_);                                        \
	})

static int64_t number_told(struct event_reader *reader)
{
	_cleanup_(buf_done) struct buf lines = { 0 };
	int64_t number = -1;

	cr_assert_eq(event_read(reader, SIZE_MAX, &lines), 0);
	cr_assert_eq(buf_append_byte(&lines, '\0'), 0);
	sscanf(lines.data, "{\"seq\":%" SCNd64, &number);
	return number;
}

static struct events events;

static void setup(void)
{
	events_init(&events);
	cr_assert_eq(events_begin(&events), 0);
}

static void teardown(void)
{
	failing_alloc_at(0);
	events_done(&events);
}

TestSuite(events, .init = setup, .fini = teardown);

static struct event_reader reader_of(const char *path, int64_t since)
{
	struct event_reader reader;

	cr_assert_eq(event_reader_begin(&reader, &events, bytes_str(path), since), 0);
	return reader;
}

/* ---- Lines ---- */

Test(events, a_line_says_all_that_is_known)
{
	_cleanup_(buf_done) struct buf line = { 0 };
	const struct event event = {
		.what = EVENT_APPEND,
		.by = EVENT_BY_OTHER,
		.at = INT64_C(1764062024123456789),
		.session = BYTES("demo"),
		.key = BYTES("messages"),
		.path = BYTES("demo/messages.jsonl"),
		.first = 12,
		.count = 1,
		.items = 13,
		.size = 4711,
	};

	cr_assert_eq(event_line(&event, 7, &line), 0);

	cr_expect(
		bytes_equal(buf_bytes(&line),
			    BYTES("{\"seq\":7,\"time\":\"2025-11-25T09:13:44.123456Z\",\"session\":"
				  "\"demo\",\"key\":\"messages\",\"path\":\"demo/messages.jsonl\","
				  "\"what\":\"append\",\"first\":12,\"count\":1,\"items\":13,"
				  "\"size\":4711,\"by\":\"other mount\"}\n")),
		"%.*s", (int)line.size, line.data);
}

Test(events, what_is_not_known_is_null)
{
	_cleanup_(buf_done) struct buf line = { 0 };
	const struct event event = event_of(EVENT_LOST, NULL, NULL);

	cr_assert_eq(event_line(&event, 1, &line), 0);

	cr_expect(bytes_equal(
			  buf_bytes(&line),
			  BYTES("{\"seq\":1,\"time\":\"1970-01-01T00:00:00.000000Z\",\"session\":"
				"null,\"key\":null,\"path\":null,\"what\":\"lost\",\"first\":null,"
				"\"count\":null,\"items\":null,\"size\":null,\"by\":null}\n")),
		  "%.*s", (int)line.size, line.data);
}

Test(events, numbers_and_times_of_any_size_are_told)
{
	_cleanup_(buf_done) struct buf line = { 0 };
	struct event event = event_of(EVENT_LOST, NULL, NULL);

	event.at = -1;
	event.first = INT64_MAX;
	event.count = 0;
	event.items = 10;
	cr_assert_eq(event_line(&event, INT64_MAX, &line), 0);

	cr_expect(bytes_equal(buf_bytes(&line),
			      BYTES("{\"seq\":9223372036854775807,\"time\":"
				    "\"1969-12-31T23:59:59.999999Z\",\"session\":null,"
				    "\"key\":null,\"path\":null,\"what\":\"lost\","
				    "\"first\":9223372036854775807,\"count\":0,\"items\":10,"
				    "\"size\":null,\"by\":null}\n")),
		  "%.*s", (int)line.size, line.data);
}

Test(events, whatever_a_name_holds_a_line_is_json)
{
	for (int byte = 1; byte < 128; byte++) {
		const char name[] = { 'a', (char)byte, '"', '\\', (char)byte, '\0' };
		const struct event event = event_of(EVENT_RENAME, name, name);
		_cleanup_(buf_done) struct buf line = { 0 };

		cr_assert_eq(event_line(&event, 1, &line), 0);

		cr_expect_eq(line.data[line.size - 1], '\n');
		cr_expect_eq(memchr(line.data, '\n', line.size), line.data + line.size - 1);
		cr_expect(json_valid(bytes_make(line.data, line.size - 1), NULL), "%.*s",
			  (int)line.size, line.data);
	}
}

/* ---- Which directory ---- */

Test(events, a_directory_is_told_what_is_at_or_below_it)
{
	static const struct {
		const char *dir, *path, *from;
		bool told;
	} cases[] = {
		{ "", "demo/a.json", NULL, true },   { "", "", NULL, true },
		{ "demo", "demo/a", NULL, true },    { "demo", "demo", NULL, true },
		{ "demo", "demo/b/c", NULL, true },  { "demo", "demo2/a", NULL, false },
		{ "demo", "dem", NULL, false },	     { "demo", "", NULL, false },
		{ "demo/b", "demo", NULL, false },   { "demo", "other", "demo/a", true },
		{ "demo", "demo/a", "other", true }, { "demo/b", "new", "demo", true },
		{ "demo/b", "new", "dem", false },   { "demo", "other/a", "another/a", false },
		{ "demo", NULL, NULL, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct event event = event_of(EVENT_ATTR, cases[i].path, cases[i].from);

		cr_expect_eq(event_concerns(&event, bytes_str(cases[i].dir)), cases[i].told,
			     "%s: %s", cases[i].dir, cases[i].path);
	}
}

Test(events, everybody_is_told_that_anything_may_have_changed)
{
	const struct event event = event_of(EVENT_LOST, NULL, NULL);

	cr_expect(event_concerns(&event, BYTES("demo")));
}

Test(events, a_reader_follows_his_directory_when_it_is_renamed)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("a/b", -1);

	add(&events, EVENT_APPEND, "a/b/one", NULL);
	add(&events, EVENT_RENAME, "c", "a");
	add(&events, EVENT_APPEND, "a/b/another", NULL);
	add(&events, EVENT_APPEND, "c/b/two", NULL);

	expect_told(&reader, "append:a/b/one rename:c<a append:c/b/two");
}

Test(events, a_directory_that_is_exchanged_has_one_new_path)
{
	struct event event = event_of(EVENT_RENAME, "c", "a");
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("a/b", -1);
	_cleanup_(event_reader_done) struct event_reader other = reader_of("c/b", -1);

	event.moves = EVENT_EXCHANGES;
	events_show(&events, events_add(&events, &event));
	event = event_of(EVENT_RENAME, "a", "c");
	event.moves = EVENT_EXCHANGED;
	events_show(&events, events_add(&events, &event));
	add(&events, EVENT_APPEND, "c/b/two", NULL);

	expect_told(&reader, "rename:c<a rename:a<c append:c/b/two");
	expect_told(&other, "rename:c<a rename:a<c");
}

Test(events, who_goes_on_is_told_by_the_path_that_his_directory_had_then)
{
	int64_t since = add(&events, EVENT_APPEND, "a/zero", NULL);

	add(&events, EVENT_APPEND, "a/one", NULL);
	add(&events, EVENT_RENAME, "c", "a");
	add(&events, EVENT_APPEND, "c/two", NULL);

	_cleanup_(event_reader_done) struct event_reader reader = reader_of("c", since);

	expect_told(&reader, "append:a/one rename:c<a append:c/two");
}

/* ---- What is kept ---- */

Test(events, a_reader_begins_now_and_is_told_each_event_once)
{
	add(&events, EVENT_SAVE, "before", NULL);
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);

	cr_expect_not(event_waits(&reader));
	add(&events, EVENT_APPEND, "a", NULL);
	cr_expect(event_waits(&reader));
	add(&events, EVENT_REMOVE, "b", NULL);

	expect_told(&reader, "append:a remove:b");
	expect_told(&reader, "");
	cr_expect_not(event_waits(&reader));
}

Test(events, nothing_waits_when_it_is_for_others)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("demo", -1);

	add(&events, EVENT_APPEND, "other/a", NULL);

	cr_expect_not(event_waits(&reader));
}

Test(events, what_is_not_to_be_seen_yet_holds_up_what_is_behind_it)
{
	const struct event event = event_of(EVENT_APPEND, "first", NULL);
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);
	int64_t number = events_add(&events, &event);

	add(&events, EVENT_APPEND, "second", NULL);
	cr_expect_not(event_waits(&reader));
	events_hide(&events, number);
	events_show(&events, number);
	expect_told(&reader, "");
	events_show(&events, number);

	expect_told(&reader, "append:first append:second");
}

Test(events, numbers_rise_by_one_and_doubles_have_them_exactly)
{
	int64_t first = add(&events, EVENT_SAVE, "a", NULL);
	int64_t second = add(&events, EVENT_SAVE, "b", NULL);

	cr_expect_eq(second, first + 1);
	cr_expect_gt(first, 0);
	cr_expect_lt(second, INT64_C(1) << 53);
}

Test(events, who_names_the_last_event_that_he_knows_goes_on_behind_it)
{
	int64_t first = add(&events, EVENT_SAVE, "a", NULL);

	add(&events, EVENT_SAVE, "b", NULL);

	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", first);
	_cleanup_(event_reader_done) struct event_reader none = reader_of("", first + 1);

	expect_told(&reader, "save:b");
	expect_told(&none, "");
}

Test(events, a_number_that_is_none_of_these_is_lost)
{
	int64_t first = add(&events, EVENT_SAVE, "a", NULL);
	const int64_t numbers[] = { 0, 1, first - 2, first + 1, first + 1000, INT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		_cleanup_(event_reader_done) struct event_reader reader =
			reader_of("demo", numbers[i]);

		expect_told(&reader, "lost");
	}
}

Test(events, other_events_have_other_numbers)
{
	struct events others;
	int64_t number = add(&events, EVENT_SAVE, "a", NULL);
	_cleanup_(event_reader_done) struct event_reader reader = { 0 };

	events_init(&others);
	cr_assert_eq(events_begin(&others), 0);
	add(&others, EVENT_SAVE, "a", NULL);
	cr_assert_eq(event_reader_begin(&reader, &others, BYTES(""), number), 0);

	expect_told(&reader, "lost");
	events_done(&others);
}

Test(events, who_is_told_that_something_is_lost_can_go_on_from_there)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", 1);
	int64_t number = number_told(&reader);

	add(&events, EVENT_SAVE, "a", NULL);

	_cleanup_(event_reader_done) struct event_reader again = reader_of("", number);

	expect_told(&again, "save:a");
	expect_told(&reader, "save:a");
}

Test(events, who_is_too_slow_loses_the_oldest_and_goes_on)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("demo", -1);
	int64_t last = 0;

	add(&events, EVENT_SAVE, "demo/a", NULL);
	for (int i = 0; i < EVENTS_MOST; i++)
		last = add(&events, EVENT_SAVE, i == EVENTS_MOST - 1 ? "demo/b" : "c", NULL);

	_cleanup_(event_reader_done) struct event_reader other =
		reader_of("demo", last - EVENTS_MOST);

	cr_expect_eq(events.next - events.first, EVENTS_MOST);
	expect_told(&reader, "lost save:demo/b");
	/* The one before the oldest is still a place to go on from. */
	expect_told(&other, "save:demo/b");
}

Test(events, large_ones_are_bounded_by_their_bytes)
{
	enum { SIZE = 1 << 20 };
	char *name = calloc(1, SIZE + 1);
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);

	memset(name, 'x', SIZE);
	for (int i = 0; i < 20; i++)
		add(&events, EVENT_SAVE, name, NULL);

	cr_expect_leq(events.bytes, (size_t)EVENTS_BYTES);
	cr_expect_geq(events.bytes, (size_t)(EVENTS_BYTES - 2 * SIZE));
	cr_expect_eq(event_waits(&reader), true);
	free(name);
}

Test(events, nothing_is_kept_while_nobody_follows)
{
	int64_t number = add(&events, EVENT_SAVE, "a", NULL);

	events_end(&events);
	cr_expect_not(events_wanted(&events));
	cr_expect_eq(add(&events, EVENT_SAVE, "b", NULL), -1);
	cr_assert_eq(events_begin(&events), 0);

	/* What has happened meanwhile is not known. */
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", number);

	cr_expect_gt(add(&events, EVENT_SAVE, "c", NULL), number);
	expect_told(&reader, "lost save:c");
}

Test(events, a_small_read_gets_a_line_in_parts)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);
	_cleanup_(event_reader_done) struct event_reader whole = reader_of("", -1);
	_cleanup_(buf_done) struct buf parts = { 0 };
	_cleanup_(buf_done) struct buf all = { 0 };
	size_t before;

	add(&events, EVENT_SAVE, "a", NULL);
	add(&events, EVENT_SAVE, "b", NULL);
	do {
		before = parts.size;
		cr_assert_eq(event_read(&reader, 7, &parts), 0);
		cr_expect_leq(parts.size - before, 7);
	} while (parts.size > before);
	cr_assert_eq(event_read(&whole, SIZE_MAX, &all), 0);

	cr_expect(bytes_equal(buf_bytes(&parts), buf_bytes(&all)));
}

Test(events, a_read_with_room_ends_with_a_whole_line)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);
	_cleanup_(buf_done) struct buf lines = { 0 };

	for (int i = 0; i < 10; i++)
		add(&events, EVENT_SAVE, "a", NULL);
	cr_assert_eq(event_read(&reader, 500, &lines), 0);

	cr_expect_gt(lines.size, 0);
	cr_expect_leq(lines.size, 500);
	cr_expect_eq(lines.data[lines.size - 1], '\n');
}

Test(events, an_event_that_there_is_no_memory_for_is_lost)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);
	const struct event event = event_of(EVENT_SAVE, "a", NULL);

	failing_alloc_at(1);
	events_show(&events, events_add(&events, &event));
	failing_alloc_at(0);
	add(&events, EVENT_SAVE, "b", NULL);

	expect_told(&reader, "lost save:b");
}

Test(events, a_line_that_there_is_no_memory_for_is_lost)
{
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);
	_cleanup_(buf_done) struct buf lines = { 0 };

	add(&events, EVENT_SAVE, "a", NULL);
	failing_alloc_at(1);
	cr_expect_eq(event_read(&reader, SIZE_MAX, &lines), -ENOMEM);
	failing_alloc_at(0);

	expect_told(&reader, "lost");
}

/* ---- Threads ---- */

enum { WRITERS = 4, EACH = 5000 };

static void *write_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < EACH; i++)
		add(&events, EVENT_SAVE, "a", NULL);
	return NULL;
}

Test(events, readers_and_writers_do_not_disturb_each_other)
{
	pthread_t threads[WRITERS];
	_cleanup_(event_reader_done) struct event_reader reader = reader_of("", -1);
	int64_t last = -1;
	unsigned count = 0;

	for (size_t i = 0; i < WRITERS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, write_many, NULL), 0);
	while (count < WRITERS * EACH) {
		_cleanup_(buf_done) struct buf lines = { 0 };
		char *line, *place = NULL;

		cr_assert_eq(event_read(&reader, 4096, &lines), 0);
		cr_assert_eq(buf_append_byte(&lines, '\0'), 0);
		for (line = strtok_r(lines.data, "\n", &place); line;
		     line = strtok_r(NULL, "\n", &place)) {
			int64_t number = -1;

			sscanf(line, "{\"seq\":%" SCNd64, &number);
			cr_assert(last < 0 || number == last + 1);
			last = number;
			count++;
		}
	}
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);

	cr_expect_not(event_waits(&reader));
}
