/* SPDX-License-Identifier: MIT */
#include "fs/views/question/question.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "tests/unit/failing-alloc.h"

static const int64_t SECOND = 1000000000;

/* The question of a name, which must be right. */
static struct question *ask(const char *name)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	struct question *question = NULL;
	int r = question_parse(bytes_str(name), &question, &reason);

	cr_assert_eq(r, 0, "%s: %.*s", name, (int)reason.size, reason.data);
	cr_assert_eq(reason.size, 0);
	return question;
}

static void expect_refused(struct bytes name, const char *sentence)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	struct question *untouched = (struct question *)&reason, *question = untouched;

	cr_expect_eq(question_parse(name, &question, &reason), -EINVAL, "%.*s", (int)name.size,
		     name.data);
	cr_expect_eq(question, untouched);
	cr_expect(bytes_equal(buf_bytes(&reason), bytes_str(sentence)), "%.*s: %.*s",
		  (int)MIN(name.size, (size_t)100), name.data, (int)reason.size, reason.data);
}

/* ---- Which names are questions ---- */

Test(question, a_name_is_one_if_its_first_clause_has_an_equals_sign)
{
	static const struct bytes are[] = {
		BYTES("@last=20"),	 BYTES("@a=b"), BYTES("@="),
		BYTES("@last=20,types"), BYTES("@=,"),	BYTES("@ ="),
	};
	static const struct bytes are_not[] = {
		BYTES("@types"),
		BYTES("@scope"),
		BYTES("@"),
		BYTES(""),
		BYTES("last=20"),
		BYTES("a@last=20"),
		BYTES("@types,last=20"),
		BYTES("@,last=1"),
		{ NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(are); i++)
		cr_expect(question_is(are[i]), "%s", are[i].data);
	for (size_t i = 0; i < ARRAY_SIZE(are_not); i++)
		cr_expect_not(question_is(are_not[i]), "%s", are_not[i].data);
}

/* ---- The table of clauses ---- */

Test(question, what_is_not_asked_is_said_to_be_absent)
{
	_cleanup_(question_freep) struct question *question = ask("@as=lines");

	cr_expect_eq(question->as, QUESTION_LINES);
	cr_expect_not(question->is_file);
	cr_expect_eq(question->items_from, INT64_MIN);
	cr_expect_eq(question->items_to, INT64_MAX);
	cr_expect_eq(question->since.clock, QUESTION_NEVER_SAID);
	cr_expect_eq(question->before.clock, QUESTION_NEVER_SAID);
	cr_expect_eq(question->first, -1);
	cr_expect_eq(question->last, -1);
	cr_expect_eq(question->bytes, -1);
	cr_expect_eq(question->since_event, -1);
	cr_expect_null(question->if_version.data);
	cr_expect_not(question_needs_line(question));
}

Test(question, limits_are_numbers)
{
	_cleanup_(question_freep) struct question *last = ask("@last=20");
	_cleanup_(question_freep) struct question *none = ask("@last=0");
	_cleanup_(question_freep) struct question *first = ask("@first=9223372036854775807");

	cr_expect_eq(last->last, 20);
	cr_expect_eq(last->first, -1);
	cr_expect_eq(none->last, 0);
	cr_expect_eq(first->first, INT64_MAX);
}

Test(question, bytes_may_have_a_unit_and_go_with_either_limit)
{
	static const struct {
		const char *name;
		int64_t bytes;
	} sizes[] = {
		{ "@bytes=0", 0 },
		{ "@bytes=4096", 4096 },
		{ "@bytes=156K", 156 * 1024 },
		{ "@bytes=2M,last=5", 2 << 20 },
		{ "@first=5,bytes=1G", 1 << 30 },
		{ "@bytes=8589934591G", INT64_MAX / (1 << 30) << 30 },
		{ "@bytes=9223372036854775807", INT64_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(question_freep) struct question *question = ask(sizes[i].name);

		cr_expect_eq(question->bytes, sizes[i].bytes, "%s", sizes[i].name);
	}
}

Test(question, items_are_a_range_that_may_be_open)
{
	_cleanup_(question_freep) struct question *some = ask("@items=10-19");
	_cleanup_(question_freep) struct question *one = ask("@items=7-7");
	_cleanup_(question_freep) struct question *open = ask("@items=100-");

	cr_expect(some->items_from == 10 && some->items_to == 19);
	cr_expect(one->items_from == 7 && one->items_to == 7);
	cr_expect(open->items_from == 100 && open->items_to == INT64_MAX);
}

Test(question, times_are_dates_of_utc_or_ages)
{
	static const struct {
		const char *text;
		enum question_clock clock;
		int64_t seconds, ns;
	} times[] = {
		{ "1970-01-01", QUESTION_AT, 0, 0 },
		{ "2026-01-31", QUESTION_AT, 1769817600, 0 },
		{ "2024-02-29", QUESTION_AT, 1709164800, 0 },
		{ "2000-02-29Z", QUESTION_AT, 951782400, 0 },
		{ "2026-01-31T18:30", QUESTION_AT, 1769884200, 0 },
		{ "2026-01-31T18:30:05", QUESTION_AT, 1769884205, 0 },
		{ "2026-01-31 18:30:05Z", QUESTION_AT, 1769884205, 0 },
		{ "2026-01-31%2018%3A30", QUESTION_AT, 1769884200, 0 },
		{ "2026-01-31T18:30:05.5", QUESTION_AT, 1769884205, 500000000 },
		{ "2026-01-31T18:30:05.1234567891", QUESTION_AT, 1769884205, 123456789 },
		{ "1969-12-31T23:59:59", QUESTION_AT, -1, 0 },
		{ "0s", QUESTION_AGO, 0, 0 },
		{ "90s", QUESTION_AGO, 90, 0 },
		{ "5m", QUESTION_AGO, 300, 0 },
		{ "2h", QUESTION_AGO, 7200, 0 },
		{ "7d", QUESTION_AGO, 604800, 0 },
		{ "2w", QUESTION_AGO, 1209600, 0 },
		{ "1y", QUESTION_AGO, 31536000, 0 },
		{ "292y", QUESTION_AGO, 292 * INT64_C(31536000), 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		_cleanup_(freep) char *since = str_printf("@since=%s", times[i].text);
		_cleanup_(freep) char *before = str_printf("@before=%s", times[i].text);
		_cleanup_(question_freep) struct question *a = ask(since);
		_cleanup_(question_freep) struct question *b = ask(before);
		int64_t ns = times[i].seconds * SECOND + times[i].ns;

		cr_expect(a->since.clock == times[i].clock && a->since.ns == ns, "%s: %lld", since,
			  (long long)a->since.ns);
		cr_expect(b->before.clock == times[i].clock && b->before.ns == ns, "%s: %lld",
			  before, (long long)b->before.ns);
		cr_expect_eq(a->before.clock, QUESTION_NEVER_SAID);
		cr_expect_eq(b->since.clock, QUESTION_NEVER_SAID);
	}
}

Test(question, an_age_is_before_the_moment_of_the_look_up)
{
	_cleanup_(question_freep) struct question *question = ask("@since=2h,before=2026-01-31");

	cr_expect_eq(question_moment(question->since, 7205 * SECOND, 1), 5 * SECOND);
	cr_expect_eq(question_moment(question->since, INT64_MIN, 1), INT64_MIN);
	cr_expect_eq(question_moment(question->before, 7205 * SECOND, 1), 1769817600 * SECOND);
	cr_expect_eq(question_moment((struct question_time){ 0 }, 7205 * SECOND, 1), 1);
}

Test(question, a_version_is_any_word)
{
	_cleanup_(question_freep) struct question *question = ask("@first=5,if=3f%2Ca.b%00-Z");

	cr_expect(bytes_equal(question->if_version, BYTES("3f,a.b\0-Z")));
	cr_expect_eq(question->first, 5);
}

Test(question, what_it_is_shown_as_makes_it_a_directory_or_a_file)
{
	static const struct {
		const char *name;
		enum question_as as;
		bool is_file;
		int64_t last, since_event;
	} shown[] = {
		{ "@last=3", QUESTION_LINES, false, 3, -1 },
		{ "@as=lines,last=3", QUESTION_LINES, false, 3, -1 },
		{ "@as=items", QUESTION_ITEMS, false, -1, -1 },
		{ "@last=3,as=items", QUESTION_ITEMS, false, 3, -1 },
		{ "@as=list.jsonl", QUESTION_LIST, true, -1, -1 },
		{ "@as=list,last=5.jsonl", QUESTION_LIST, true, 5, -1 },
		{ "@last=5,as=list.jsonl", QUESTION_LIST, true, 5, -1 },
		{ "@as=text", QUESTION_TEXT, false, -1, -1 },
		{ "@as=text.txt", QUESTION_TEXT, true, -1, -1 },
		{ "@last=3,as=text.txt", QUESTION_TEXT, true, 3, -1 },
		{ "@as=text,match=a.jsonl", QUESTION_TEXT, false, -1, -1 },
		{ "@as=events.jsonl", QUESTION_EVENTS, true, -1, -1 },
		{ "@as=events,since=71.jsonl", QUESTION_EVENTS, true, -1, 71 },
		{ "@since=71,as=events.jsonl", QUESTION_EVENTS, true, -1, 71 },
		{ "@as=events,since=0.jsonl", QUESTION_EVENTS, true, -1, 0 },
		/* the end of a word */
		{ "@match=a.jsonl", QUESTION_LINES, false, -1, -1 },
		{ "@as=items,match=a.jsonl", QUESTION_ITEMS, false, -1, -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		_cleanup_(question_freep) struct question *question = ask(shown[i].name);

		cr_expect_eq(question->as, shown[i].as, "%s", shown[i].name);
		cr_expect_eq(question->is_file, shown[i].is_file, "%s", shown[i].name);
		cr_expect_eq(question->last, shown[i].last, "%s", shown[i].name);
		cr_expect_eq(question->since_event, shown[i].since_event, "%s", shown[i].name);
		cr_expect_eq(question->since.clock, QUESTION_NEVER_SAID, "%s", shown[i].name);
	}
}

Test(question, only_items_are_what_a_save_may_replace)
{
	static const char *const may[] = {
		"@first=200",	     "@items=0-199",	       "@items=7-7,if=abc",
		"@if=abc,first=200", "@items=100-199,first=5", "@items=0-",
		"@as=lines,first=1",
	};
	static const char *const may_not[] = {
		"@last=200",
		"@as=lines",
		"@if=abc",
		"@first=200,bytes=1K",
		"@bytes=1K",
		"@first=200,role=user",
		"@items=0-5,not-agent=x",
		"@first=1,.a=1",
		"@first=1,match=x",
		"@first=1,since=1h",
		"@items=0-,last=1",
		"@items=0-5,before=2026-01-01",
		"@as=items,first=5",
		"@as=list,first=5.jsonl",
	};

	for (size_t i = 0; i < ARRAY_SIZE(may); i++) {
		_cleanup_(question_freep) struct question *question = ask(may[i]);

		cr_expect(question_only_items(question), "%s", may[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(may_not); i++) {
		_cleanup_(question_freep) struct question *question = ask(may_not[i]);

		cr_expect_not(question_only_items(question), "%s", may_not[i]);
	}
}

Test(question, a_line_is_needed_for_what_is_in_it)
{
	static const char *const need[] = { "@role=user",   "@not-role=user", "@agent=a",
					    "@not-agent=a", "@.a=1",	      "@not-.a=1",
					    "@match=x" };
	static const char *const need_none[] = { "@last=5", "@items=0-5,bytes=1K", "@since=1h",
						 "@as=items,if=x", "@as=events.jsonl" };

	for (size_t i = 0; i < ARRAY_SIZE(need); i++) {
		_cleanup_(question_freep) struct question *question = ask(need[i]);

		cr_expect(question_needs_line(question), "%s", need[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(need_none); i++) {
		_cleanup_(question_freep) struct question *question = ask(need_none[i]);

		cr_expect_not(question_needs_line(question), "%s", need_none[i]);
		cr_expect(question_fits(question, BYTES("{}")), "%s", need_none[i]);
	}
}

Test(question, clauses_without_a_sign_are_the_text_of_an_option)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	_cleanup_(question_freep) struct question *question = NULL;
	struct question *none;

	cr_assert_eq(question_parse_clauses(BYTES("role=user,last=5"), &question, &reason), 0);
	cr_expect_eq(question->last, 5);
	cr_expect(question_needs_line(question));
	cr_expect_eq(question_parse_clauses(BYTES("@last=5"), &none, &reason), -EINVAL);
	cr_expect(bytes_equal(buf_bytes(&reason), BYTES("there is no clause @last=")));
	buf_clear(&reason);
	cr_expect_eq(question_parse_clauses(bytes_make(NULL, 0), &none, &reason), -EINVAL);
	cr_expect(bytes_equal(buf_bytes(&reason), BYTES("a clause is empty")));
	buf_clear(&reason);
	cr_expect_eq(question_parse_clauses(BYTES("as=list.jsonl"), &none, &reason), -EINVAL);
}

/* ---- Wrong questions ---- */

#define TIME_SENTENCE(clause, value)                                                               \
	clause " takes a date or time of UTC as in 2026-01-31 or 2026-01-31T18:30, or an age in "  \
	       "s, m, h, d, w or y as in 12h, not \"" value "\""
#define NUMBER_SENTENCE(clause, value)                                                             \
	clause " takes a number up to 9223372036854775807, not \"" value "\""
#define SIZE_SENTENCE(value)                                                                       \
	"bytes= takes a number of bytes as in 4096, 156K, 2M or 1G, not \"" value "\""
#define ITEMS_SENTENCE(value)                                                                      \
	"items= takes two indices as in 0-99, or one as in 100-, not \"" value "\""

static const struct {
	struct bytes name;
	const char *sentence;
} wrong[] = {
	/* no clauses */
	{ BYTES("@types"), "\"@types\" is not a question" },
	{ BYTES("last=5"), "\"last=5\" is not a question" },
	{ BYTES("@last=5,"), "a clause is empty" },
	{ BYTES("@last=5,,role=user"), "a clause is empty" },
	{ BYTES("@last=5,types"), "\"types\" is not a clause: it has no =" },
	{ BYTES("@last=5,as"), "\"as\" is not a clause: it has no =" },
	{ BYTES("@="), "there is no clause =" },
	{ BYTES("@size=5"), "there is no clause size=" },
	{ BYTES("@Last=5"), "there is no clause Last=" },
	{ BYTES("@last=5, role=user"), "there is no clause  role=" },
	{ BYTES("@not-last=5"), "there is no clause not-last=" },
	{ BYTES("@not-match=x"), "there is no clause not-match=" },
	{ BYTES("@a.b=x"), "there is no clause a.b=" },
	{ BYTES("@r%6Fle=user"), "there is no clause r%6Fle=" },
	/* no values */
	{ BYTES("@last="), "last= has an empty value" },
	{ BYTES("@role="), "role= has an empty value" },
	{ BYTES("@role=,last=5"), "role= has an empty value" },
	{ BYTES("@role=user+"), "role= has an empty value" },
	{ BYTES("@role=+user"), "role= has an empty value" },
	{ BYTES("@match=a++b"), "match= has an empty value" },
	{ BYTES("@if="), "if= has an empty value" },
	{ BYTES("@as="), "as= has an empty value" },
	{ BYTES("@.a="), ".a= has an empty value" },
	{ BYTES("@.=1"), ".= has an empty key" },
	{ BYTES("@..a=1"), "..a= has an empty key" },
	{ BYTES("@.a.=1"), ".a.= has an empty key" },
	{ BYTES("@not-.=1"), "not-.= has an empty key" },
	{ BYTES("@not-.a..b=1"), "not-.a..b= has an empty key" },
	/* values that are none */
	{ BYTES("@role=a%"), "role= has a value with a % but not two hexadecimal digits after it" },
	{ BYTES("@role=a%2"),
	  "role= has a value with a % but not two hexadecimal digits after it" },
	{ BYTES("@match=a%g0b"),
	  "match= has a value with a % but not two hexadecimal digits after it" },
	{ BYTES("@match=a%0gb"),
	  "match= has a value with a % but not two hexadecimal digits after it" },
	{ BYTES("@.a%=1"), ".a%= has a key with a % but not two hexadecimal digits after it" },
	{ BYTES("@last=five"), NUMBER_SENTENCE("last=", "five") },
	{ BYTES("@last=-5"), NUMBER_SENTENCE("last=", "-5") },
	{ BYTES("@last=%2B5"), NUMBER_SENTENCE("last=", "+5") },
	{ BYTES("@last= 5"), NUMBER_SENTENCE("last=", " 5") },
	{ BYTES("@last=5 "), NUMBER_SENTENCE("last=", "5 ") },
	{ BYTES("@last=0x10"), NUMBER_SENTENCE("last=", "0x10") },
	{ BYTES("@last=1K"), NUMBER_SENTENCE("last=", "1K") },
	{ BYTES("@last=5.jsonl"), NUMBER_SENTENCE("last=", "5.jsonl") },
	{ BYTES("@last=9223372036854775808"), NUMBER_SENTENCE("last=", "9223372036854775808") },
	{ BYTES("@first=18446744073709551617"), NUMBER_SENTENCE("first=", "18446744073709551617") },
	{ BYTES("@bytes=K"), SIZE_SENTENCE("K") },
	{ BYTES("@bytes=1k"), SIZE_SENTENCE("1k") },
	{ BYTES("@bytes=1KB"), SIZE_SENTENCE("1KB") },
	{ BYTES("@bytes=1P"), SIZE_SENTENCE("1P") },
	{ BYTES("@bytes=1.5M"), SIZE_SENTENCE("1.5M") },
	{ BYTES("@bytes=-1"), SIZE_SENTENCE("-1") },
	{ BYTES("@bytes=8589934592G"), SIZE_SENTENCE("8589934592G") },
	{ BYTES("@items=7"), ITEMS_SENTENCE("7") },
	{ BYTES("@items=-7"), ITEMS_SENTENCE("-7") },
	{ BYTES("@items=-"), ITEMS_SENTENCE("-") },
	{ BYTES("@items=1-2-3"), ITEMS_SENTENCE("1-2-3") },
	{ BYTES("@items=1-x"), ITEMS_SENTENCE("1-x") },
	{ BYTES("@items=1-9223372036854775808"), ITEMS_SENTENCE("1-9223372036854775808") },
	{ BYTES("@items=9-3"), "items=9-3 ends before it begins" },
	{ BYTES("@since=yesterday"), TIME_SENTENCE("since=", "yesterday") },
	{ BYTES("@since=5"), TIME_SENTENCE("since=", "5") },
	{ BYTES("@since=5x"), TIME_SENTENCE("since=", "5x") },
	{ BYTES("@since=5H"), TIME_SENTENCE("since=", "5H") },
	{ BYTES("@since=h"), TIME_SENTENCE("since=", "h") },
	{ BYTES("@since=-5h"), TIME_SENTENCE("since=", "-5h") },
	{ BYTES("@since=2h30m"), TIME_SENTENCE("since=", "2h30m") },
	{ BYTES("@since=293y"), TIME_SENTENCE("since=", "293y") },
	{ BYTES("@since=99999999999999999999s"), TIME_SENTENCE("since=", "99999999999999999999s") },
	{ BYTES("@before=9223372036854775807s"), TIME_SENTENCE("before=", "9223372036854775807s") },
	{ BYTES("@before=2026-1-31"), TIME_SENTENCE("before=", "2026-1-31") },
	{ BYTES("@before=2026-13-01"), TIME_SENTENCE("before=", "2026-13-01") },
	{ BYTES("@before=2026-00-01"), TIME_SENTENCE("before=", "2026-00-01") },
	{ BYTES("@before=2026-04-31"), TIME_SENTENCE("before=", "2026-04-31") },
	{ BYTES("@before=2026-04-00"), TIME_SENTENCE("before=", "2026-04-00") },
	{ BYTES("@before=2026-02-29"), TIME_SENTENCE("before=", "2026-02-29") },
	{ BYTES("@before=2100-02-29"), TIME_SENTENCE("before=", "2100-02-29") },
	{ BYTES("@before=2026-02"), TIME_SENTENCE("before=", "2026-02") },
	{ BYTES("@before=2026-02-01T"), TIME_SENTENCE("before=", "2026-02-01T") },
	{ BYTES("@before=2026-02-01T24:00"), TIME_SENTENCE("before=", "2026-02-01T24:00") },
	{ BYTES("@before=2026-02-01T12:60"), TIME_SENTENCE("before=", "2026-02-01T12:60") },
	{ BYTES("@before=2026-02-01T12"), TIME_SENTENCE("before=", "2026-02-01T12") },
	{ BYTES("@before=2026-02-01T12:00:"), TIME_SENTENCE("before=", "2026-02-01T12:00:") },
	{ BYTES("@before=2026-02-01T12:00:60"), TIME_SENTENCE("before=", "2026-02-01T12:00:60") },
	{ BYTES("@before=2026-02-01T12:00:00."), TIME_SENTENCE("before=", "2026-02-01T12:00:00.") },
	{ BYTES("@before=2026-02-01T12:00-05:00"),
	  TIME_SENTENCE("before=", "2026-02-01T12:00-05:00") },
	{ BYTES("@before=1600-01-01"), TIME_SENTENCE("before=", "1600-01-01") },
	{ BYTES("@before=2300-01-01"), TIME_SENTENCE("before=", "2300-01-01") },
	{ BYTES("@before=12026-01-01"), TIME_SENTENCE("before=", "12026-01-01") },
	{ BYTES("@as=texts"), "as= takes lines, items, list, events, text, records or html, "
			      "not \"texts\"" },
	{ BYTES("@as=json"), "as= takes lines, items, list, events, text, records or html, "
			     "not \"json\"" },
	{ BYTES("@as=lines.jsonl"),
	  "as= takes lines, items, list, events, text, records or html, not \"lines.jsonl\"" },
	/* clauses that do not go together */
	{ BYTES("@first=1,last=1"), "first= and last= do not go together" },
	{ BYTES("@last=1,last=1"), "last= appears twice" },
	{ BYTES("@bytes=1,bytes=1"), "bytes= appears twice" },
	{ BYTES("@items=1-2,items=3-4"), "items= appears twice" },
	{ BYTES("@since=1h,since=2h"), "since= appears twice" },
	{ BYTES("@if=a,if=b"), "if= appears twice" },
	{ BYTES("@as=items,as=items"), "as= appears twice" },
	{ BYTES("@last=1+2"), "last= takes one value" },
	{ BYTES("@items=1-2+3-4"), "items= takes one value" },
	{ BYTES("@since=2026-01-31T18:30+01:00"), "since= takes one value" },
	{ BYTES("@if=a+b"), "if= takes one value" },
	{ BYTES("@as=list"), "as=list is a file: its name must end in .jsonl" },
	{ BYTES("@as=list,last=5"), "as=list is a file: its name must end in .jsonl" },
	{ BYTES("@as=events"), "as=events is a file: its name must end in .jsonl" },
	{ BYTES("@as=events,since=5"), "as=events is a file: its name must end in .jsonl" },
	{ BYTES("@as=events,last=5.jsonl"), "last= does not go with as=events" },
	{ BYTES("@role=user,as=events.jsonl"), "role= does not go with as=events" },
	{ BYTES("@as=events,if=x.jsonl"), "if= does not go with as=events" },
	{ BYTES("@as=list,last=5,if=x.jsonl"), "if= does not go with as=list" },
	{ BYTES("@as=events,since=1h.jsonl"),
	  "since= takes the number of an event here, not \"1h\"" },
	{ BYTES("@as=events,since=-1.jsonl"),
	  "since= takes the number of an event here, not \"-1\"" },
};

Test(question, a_wrong_one_is_refused_with_a_sentence)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		expect_refused(wrong[i].name, wrong[i].sentence);
}

/* ---- Hostile ones ---- */

static void fill(struct buf *buf, struct bytes unit, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(buf_append_bytes(buf, unit), 0);
}

Test(question, a_sentence_shows_no_more_than_the_beginning_of_a_value)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(buf_done) struct buf reason = { 0 };
	struct question *question;

	fill(&name, BYTES("@last="), 1);
	fill(&name, BYTES("9"), 60000);
	cr_expect_eq(question_parse(buf_bytes(&name), &question, &reason), -EINVAL);
	cr_expect_lt(reason.size, 200);
	cr_expect_eq(reason.data[reason.size], '\0');
}

Test(question, a_word_has_at_most_255_bytes)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(buf_done) struct buf reason = { 0 };
	_cleanup_(question_freep) struct question *question = NULL;
	struct question *none;

	fill(&name, BYTES("match="), 1);
	fill(&name, BYTES("%41"), QUESTION_WORD_MAX);
	cr_expect_eq(question_parse_clauses(buf_bytes(&name), &question, &reason), 0);
	fill(&name, BYTES("b"), 1);
	cr_expect_eq(question_parse_clauses(buf_bytes(&name), &none, &reason), -EINVAL);
	cr_expect(bytes_starts_with(buf_bytes(&reason),
				    BYTES("a word of match= has more than 255 bytes: \"AAA")));
}

/* What fills 64 KiB, over and over. */
static const struct bytes floods[] = {
	BYTES("role=a,"),	 BYTES("role=assistant+assistant,"),
	BYTES("not-agent=a+b,"), BYTES("match=a+b,"),
	BYTES(".a=1,"),		 BYTES(".a.a=1,"),
	BYTES("not-.b.c=2+3,"),	 BYTES("role=%00,"),
	BYTES("match=a+a+a,"),	 BYTES("role=tool+tool+tool+tool+tool+tool,"),
};

Test(question, sixty_four_kibibytes_are_a_question_and_one_byte_more_is_none)
{
	for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
		_cleanup_(buf_done) struct buf text = { 0 };
		_cleanup_(buf_done) struct buf reason = { 0 };
		_cleanup_(question_freep) struct question *question = NULL;
		struct question *none;

		fill(&text, BYTES("last=7"), 1);
		while (text.size + 1 + floods[i].size <= QUESTION_TEXT_MAX) {
			fill(&text, BYTES(","), 1);
			fill(&text, bytes_make(floods[i].data, floods[i].size - 1), 1);
		}
		while (text.size < QUESTION_TEXT_MAX)
			fill(&text, BYTES("x"), 1);
		cr_expect_eq(question_parse_clauses(buf_bytes(&text), &question, &reason), 0,
			     "%s: %s", floods[i].data, reason.data);
		cr_expect_eq(question->last, 7);
		fill(&text, BYTES("x"), 1);
		cr_expect_eq(question_parse_clauses(buf_bytes(&text), &none, &reason), -EINVAL);
		cr_expect(bytes_equal(buf_bytes(&reason),
				      BYTES("a question has at most 65536 bytes")));
	}
}

/* Ten thousand of them may live, so that of 255 bytes is what counts. */
Test(question, takes_memory_for_its_text_alone)
{
	static const size_t sizes[] = { 255, QUESTION_TEXT_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(floods) * ARRAY_SIZE(sizes); i++) {
		struct bytes flood = floods[i / ARRAY_SIZE(sizes)];
		size_t size = sizes[i % ARRAY_SIZE(sizes)];
		_cleanup_(buf_done) struct buf text = { 0 };
		_cleanup_(buf_done) struct buf reason = { 0 };
		_cleanup_(question_freep) struct question *question = NULL;

		fill(&text, flood, size / flood.size);
		text.size--;
		failing_alloc_at(0);
		cr_assert_eq(question_parse_clauses(buf_bytes(&text), &question, &reason), 0);
		cr_expect_lt(failing_alloc_bytes(), 2048 + 64 * size, "%s of %zu: %zu", flood.data,
			     size, failing_alloc_bytes());
	}
}

Test(question, a_path_of_thirty_thousand_keys_and_ten_thousand_paths_are_fine)
{
	_cleanup_(buf_done) struct buf deep = { 0 };
	_cleanup_(buf_done) struct buf wide = { 0 };
	_cleanup_(buf_done) struct buf reason = { 0 };
	_cleanup_(question_freep) struct question *a = NULL, *b = NULL;

	fill(&deep, BYTES(".a"), 30000);
	fill(&deep, BYTES("=1"), 1);
	for (unsigned i = 0; wide.size < 65000; i++)
		cr_assert_eq(buf_printf(&wide, "%s.%x=1", i ? "," : "", i), 0);
	cr_expect_eq(question_parse_clauses(buf_bytes(&deep), &a, &reason), 0);
	cr_expect_eq(question_parse_clauses(buf_bytes(&wide), &b, &reason), 0);
}

Test(question, any_bytes_are_a_question_or_are_refused)
{
	_cleanup_(buf_done) struct buf name = { 0 };

	for (int byte = 0; byte < 256; byte++) {
		_cleanup_(buf_done) struct buf reason = { 0 };
		struct question *question = NULL;
		int r;

		buf_clear(&name);
		fill(&name, BYTES("@.a="), 1);
		cr_assert_eq(buf_append_byte(&name, (char)byte), 0);
		r = question_parse(buf_bytes(&name), &question, &reason);
		cr_expect_eq(r, byte == '%' || byte == '+' || byte == ',' ? -EINVAL : 0, "%d: %d",
			     byte, r);
		question_free(question);
	}
}

Test(question, any_byte_can_be_encoded)
{
	static const char digits[2][17] = { "0123456789abcdef", "0123456789ABCDEF" };

	for (int byte = 0; byte < 256; byte++) {
		const char *hex = digits[byte % 2];
		_cleanup_(freep) char *name =
			str_printf("@if=<%%%c%c>", hex[byte / 16], hex[byte % 16]);
		_cleanup_(question_freep) struct question *question = ask(name);
		const char is[] = { '<', (char)byte, '>' };

		cr_expect(bytes_equal(question->if_version, bytes_make(is, sizeof(is))), "%s",
			  name);
	}
}

Test(question, without_memory_there_is_none)
{
	static const struct bytes text = BYTES("@role=user,not-agent=a+b,.a.b=1+2,match=x,last=5");
	unsigned failures = 0;

	for (unsigned nth = 1;; nth++) {
		struct buf reason = { 0 };
		struct question *question = NULL;
		int r;

		failing_alloc_at(nth);
		r = question_parse(text, &question, &reason);
		failures = failing_alloc_failures();
		failing_alloc_at(0);
		question_free(question);
		buf_done(&reason);
		if (!failures) {
			cr_expect_eq(r, 0);
			cr_expect_gt(nth, 3);
			return;
		}
		cr_expect_eq(r, -ENOMEM, "%u: %d", nth, r);
	}
}

Test(question, without_memory_for_the_sentence_there_is_none)
{
	struct buf reason = { 0 };
	struct question *question;

	failing_alloc_at(1);
	cr_expect_eq(question_parse(BYTES("@types"), &question, &reason), -ENOMEM);
	failing_alloc_at(0);
	buf_done(&reason);
}
