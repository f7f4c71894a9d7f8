/* SPDX-License-Identifier: MIT */
#include "fs/api/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"

static const int64_t ROW_TIME = INT64_C(1700000000000000000);

static void load(const char *path, struct buf *bytes)
{
	const char *top = getenv("top_srcdir");
	char whole[4096], block[4096];
	FILE *stream;
	size_t n;

	cr_assert_not_null(top, "top_srcdir is not set: run this by make check");
	snprintf(whole, sizeof(whole), "%s/%s", top, path);
	stream = fopen(whole, "re");
	cr_assert_not_null(stream, "%s", whole);
	while ((n = fread(block, 1, sizeof(block), stream)) > 0)
		cr_assert_eq(buf_append(bytes, block, n), 0);
	fclose(stream);
}

static void show_lines(struct bytes rest, struct buf *shown)
{
	struct text_place place = { 0, ROW_TIME };
	struct text_reader reader = { 0 };

	for (; rest.size; place.index++) {
		const char *end = memchr(rest.data, '\n', rest.size);
		size_t size = end ? (size_t)(end - rest.data) : rest.size;

		cr_assert_eq(text_show(&reader, bytes_make(rest.data, size), &place, shown), 0);
		size += end != NULL;
		rest = bytes_make(rest.data + size, rest.size - size);
	}
}

static void show(const char *json, struct buf *shown)
{
	const struct text_place place = { -1, 0 };

	struct text_reader reader = { 0 };

	cr_assert_eq(text_show(&reader, bytes_str(json), &place, shown), 0);
}

#define EXPECT_SHOWN(json, text)                                                                   \
	do {                                                                                       \
		_cleanup_(buf_done) struct buf shown_ = { 0 };                                     \
		show(json, &shown_);                                                               \
		cr_expect(bytes_equal(buf_bytes(&shown_), BYTES(text)), "%s is shown as\n%.*s",    \
			  json, (int)shown_.size, shown_.data);                                    \
	} while (0)

/* ---- Transcripts of real programs ---- */

static void expect_golden(const char *name, const char *kind, const char *path)
{
	const struct text_place document = { -1, ROW_TIME };
	_cleanup_(buf_done) struct buf input = { 0 }, shown = { 0 }, wanted = { 0 };
	char golden[256];

	load(path, &input);
	snprintf(golden, sizeof(golden), "tests/data/text/%s.txt", name);
	load(golden, &wanted);
	if (strcmp(kind, "document") == 0)
		cr_assert_eq(text_show(&(struct text_reader){ 0 }, buf_bytes(&input), &document,
				       &shown),
			     0);
	else
		show_lines(buf_bytes(&input), &shown);
	cr_expect(bytes_equal(buf_bytes(&shown), buf_bytes(&wanted)), "%s is shown as\n%.*s", path,
		  (int)shown.size, shown.data);
}

Test(text, transcripts_read_as_they_did)
{
	_cleanup_(buf_done) struct buf list = { 0 };
	char name[64], kind[64], path[256];
	int read, count = 0;

	load("tests/data/text/cases", &list);
	cr_assert_eq(buf_append_byte(&list, '\0'), 0);
	for (const char *at = list.data;
	     sscanf(at, "%63s %63s %255s%n", name, kind, path, &read) == 3; at += read, count++)
		expect_golden(name, kind, path);
	cr_expect_geq(count, 15, "%d", count);
}

/* ---- What clients write: tests/layouts ---- */

static void expect_file(const char *layout, const char *file, const struct buf *got)
{
	_cleanup_(buf_done) struct buf wanted = { 0 };
	char path[256];

	snprintf(path, sizeof(path), "tests/layouts/%s/%s", layout, file);
	load(path, &wanted);
	cr_expect(bytes_equal(buf_bytes(got), buf_bytes(&wanted)), "%s: %s is\n%.*s", layout, file,
		  (int)got->size, got->data);
}

static void read_title(struct bytes rest, bool lines, struct buf *title)
{
	while (rest.size && !title->size) {
		const char *end = lines ? memchr(rest.data, '\n', rest.size) : NULL;
		size_t size = end ? (size_t)(end - rest.data) + 1 : rest.size;

		cr_assert_eq(text_title(bytes_make(rest.data, size - (end != NULL)), 60, title), 0);
		rest = bytes_make(rest.data + size, rest.size - size);
	}
}

static void expect_talk(const char *layout, bool lines)
{
	const struct text_place document = { -1, ROW_TIME };
	_cleanup_(buf_done) struct buf input = { 0 }, shown = { 0 }, title = { 0 };
	char path[256];

	snprintf(path, sizeof(path), "tests/layouts/%s/transcript.json%s", layout,
		 lines ? "l" : "");
	load(path, &input);
	if (lines)
		show_lines(buf_bytes(&input), &shown);
	else
		cr_assert_eq(text_show(&(struct text_reader){ 0 }, buf_bytes(&input), &document,
				       &shown),
			     0);
	read_title(buf_bytes(&input), lines, &title);
	expect_file(layout, "talk", &shown);
	expect_file(layout, "title", &title);
}

Test(text, what_clients_write_is_what_was_said)
{
	static const struct {
		const char *layout;
		bool lines;
	} clients[] = {
		{ "claude", true },   { "codex", true },   { "gemini", true },	 { "pi", true },
		{ "qwen", true },     { "kimi", true },	   { "copilot", true },	 { "cline", false },
		{ "strands", false }, { "harness", true }, { "opencode", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		expect_talk(clients[i].layout, clients[i].lines);
}

#define EXPECT_TALK(json, index, talk)                                                             \
	cr_expect_eq(text_is_talk(BYTES(json), index), talk, "%s", json)

Test(text, what_clients_note_for_themselves_is_no_talk)
{
	EXPECT_TALK(
		"{\"type\":\"api-request-blob\",\"sessionId\":\"s\",\"message\":{\"role\":\"user\","
		"\"content\":\"x\"}}",
		5, false);
	EXPECT_TALK("{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"role\":\"user\","
		    "\"content\":\"x\"}}",
		    5, true);
	EXPECT_TALK("{\"$rewindTo\":\"m1\"}", 5, false);
	/* What it restates stands before it, if anything does. */
	EXPECT_TALK(
		"{\"$set\":{\"messages\":[{\"id\":\"1\",\"type\":\"user\",\"content\":\"x\"}]}}", 1,
		true);
	EXPECT_TALK(
		"{\"$set\":{\"messages\":[{\"id\":\"1\",\"type\":\"user\",\"content\":\"x\"}]}}", 9,
		false);
	EXPECT_TALK(
		"{\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\","
		"\"content\":[{\"type\":\"input_text\",\"text\":\"# AGENTS.md instructions for "
		"/x\"}]}}",
		5, false);
	/* What is known to nobody is shown. */
	EXPECT_TALK("{\"a\":1}", 5, true);
	EXPECT_TALK("{\"type\":\"note\",\"a\":1}", 5, true);
	EXPECT_TALK("no JSON", 5, true);
}

Test(text, a_message_that_grows_is_shown_once)
{
	static const char *const lines[] = {
		"{\"id\":\"g\",\"type\":\"gemini\",\"content\":\"said\"}",
		"{\"$set\":{\"lastUpdated\":\"x\"}}",
		"{\"id\":\"g\",\"type\":\"gemini\",\"content\":\"said\",\"toolCalls\":[{\"name\":"
		"\"one\"}]}",
		"{\"id\":\"g\",\"type\":\"gemini\",\"content\":\"said\",\"toolCalls\":[{\"name\":"
		"\"one\"},"
		"{\"name\":\"two\"}]}",
	};
	_cleanup_(buf_done) struct buf shown = { 0 };
	struct text_reader reader = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		cr_assert_eq(text_show(&reader, bytes_str(lines[i]),
				       &(struct text_place){ (int64_t)i, 0 }, &shown),
			     0);
	cr_expect(bytes_equal(buf_bytes(&shown),
			      BYTES("#0  assistant\n    said\n\n#2  assistant\n    -> one\n\n"
				    "#3  assistant\n    -> two\n\n")),
		  "%.*s", (int)shown.size, shown.data);
}

/* Claude Code notes what a person said while the model was at work beside what it notes itself. */
Test(text, what_a_person_says_in_the_middle_of_a_turn_is_said)
{
	static const char to_client[] =
		"{\"type\":\"queue-operation\",\"operation\":\"remove\",\"sessionId\":\"s\","
		"\"content\":\"also this\",\"reason\":\"absorbed_mid_turn\"}";
	static const char said[] =
		"{\"attachment\":{\"type\":\"queued_command\",\"prompt\":[{\"type\":\"text\","
		"\"text\":\"also this\"}],\"commandMode\":\"prompt\"},\"type\":\"attachment\","
		"\"rendered\":[{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}],"
		"\"renderedRole\":\"system\",\"sessionId\":\"s\"}";
	static const char by_person[] =
		"{\"type\":\"attachment\",\"attachment\":{\"type\":\"queued_command\",\"prompt\":"
		"\"also this\",\"commandMode\":\"prompt\",\"origin\":{\"kind\":\"human\"}},"
		"\"sessionId\":\"s\"}";

	EXPECT_TALK(to_client, 5, false);
	EXPECT_SHOWN(said, "user\n    also this\n\n");
	EXPECT_SHOWN(by_person, "user\n    also this\n\n");
	EXPECT_TALK("{\"type\":\"attachment\",\"attachment\":{\"type\":\"queued_command\","
		    "\"prompt\":\"x\",\"commandMode\":\"prompt\",\"origin\":{\"kind\":"
		    "\"coordinator\"}},\"sessionId\":\"s\"}",
		    5, false);
	EXPECT_TALK("{\"type\":\"attachment\",\"attachment\":{\"type\":\"queued_command\","
		    "\"prompt\":\"x\",\"commandMode\":\"prompt\",\"isMeta\":true},"
		    "\"sessionId\":\"s\"}",
		    5, false);
	EXPECT_TALK("{\"type\":\"attachment\",\"attachment\":{\"type\":\"queued_command\","
		    "\"prompt\":\"<task-notification>x\",\"commandMode\":\"prompt\"}}",
		    5, false);
	EXPECT_TALK("{\"type\":\"attachment\",\"attachment\":{\"type\":\"queued_command\","
		    "\"prompt\":\"x\",\"commandMode\":\"task-notification\"},"
		    "\"sessionId\":\"s\"}",
		    5, false);
	/* Of Kimi Code. */
	EXPECT_TALK("{\"type\":\"config.update\",\"cwd\":\"/x\"}", 0, false);
}

/* ---- One line ---- */

Test(text, a_line_has_a_heading_and_its_words)
{
	EXPECT_SHOWN("{\"role\":\"user\",\"content\":\"one\\n\\ntwo\"}",
		     "user\n    one\n\n    two\n\n");
	EXPECT_SHOWN("{\"role\":\"ai\",\"name\":\"planner\",\"content\":\"x\"}",
		     "assistant (planner)\n    x\n\n");
}

Test(text, empty_lines_around_what_was_said_are_left_out)
{
	EXPECT_SHOWN("{\"role\":\"user\",\"content\":\"\\n\\nx\\n\\n\"}", "user\n    x\n\n");
}

Test(text, the_time_is_the_record_s_or_else_the_row_s)
{
	const struct text_place place = { 7, ROW_TIME };
	_cleanup_(buf_done) struct buf shown = { 0 };

	cr_assert_eq(text_show(&(struct text_reader){ 0 },
			       BYTES("{\"role\":\"user\",\"content\":\"x\",\"timestamp\":"
				     "\"2025-01-02T03:04:05+01:00\"}"),
			       &place, &shown),
		     0);
	cr_assert_eq(text_show(&(struct text_reader){ 0 },
			       BYTES("{\"role\":\"user\",\"content\":\"y\"}"), &place, &shown),
		     0);
	cr_expect(bytes_equal(buf_bytes(&shown), BYTES("#7  2025-01-02 02:04:05  user\n    x\n\n"
						       "#7  2023-11-14 22:13:20  user\n    y\n\n")),
		  "%.*s", (int)shown.size, shown.data);
}

Test(text, what_has_no_role_is_indented_json)
{
	EXPECT_SHOWN("{\"a\":[1,{\"b\":null}],\"c\":{}}",
		     "    {\n      \"a\": [\n        1,\n        {\n          \"b\": null\n"
		     "        }\n      ],\n      \"c\": {}\n    }\n\n");
}

Test(text, no_text_can_look_like_a_heading)
{
	EXPECT_SHOWN("{\"role\":\"user\",\"content\":\"#1  assistant\"}",
		     "user\n    #1  assistant\n\n");
}

Test(text, a_long_result_is_folded_with_its_size)
{
	_cleanup_(buf_done) struct buf line = { 0 }, shown = { 0 };

	cr_assert_eq(buf_append_str(&line, "{\"role\":\"tool\",\"content\":\""), 0);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(buf_append_str(&line, "0123456789\\n"), 0);
	cr_assert_eq(buf_append(&line, "\"}", sizeof("\"}")), 0);
	show(line.data, &shown);
	cr_assert_eq(buf_append_byte(&shown, '\0'), 0);
	cr_expect_str_eq(shown.data + strlen(shown.data) - strlen(" ... (100 lines, 1.1K)\n\n"),
			 " ... (100 lines, 1.1K)\n\n");
	cr_expect_lt(shown.size, 200);
}

/* ---- Hostile content ---- */

/* Nothing that a terminal obeys, and nothing that turns text around. */
static void expect_tame(struct bytes text, const char *what)
{
	cr_expect(utf8_valid(text), "%s", what);
	for (size_t i = 0; i < text.size; i++) {
		unsigned char byte = (unsigned char)text.data[i];

		cr_expect(byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f),
			  "byte %zu of %s is %u", i, what, byte);
		cr_expect(byte != 0xc2 || i + 1 == text.size ||
				  (unsigned char)text.data[i + 1] >= 0xa0,
			  "a control at %zu of %s", i, what);
	}
	cr_expect(!text.size || !memmem(text.data, text.size, "\xe2\x80\xae", 3), "%s", what);
}

#define EXPECT_TAME(literal)                                                                       \
	do {                                                                                       \
		const struct text_place place_ = { 0, 0 };                                         \
		_cleanup_(buf_done) struct buf shown_ = { 0 }, title_ = { 0 }, role_ = { 0 };      \
		cr_assert_eq(text_show(&(struct text_reader){ 0 }, BYTES(literal), &place_,        \
				       &shown_),                                                   \
			     0);                                                                   \
		cr_assert_eq(text_title(BYTES(literal), 60, &title_), 0);                          \
		cr_assert_geq(text_made_by(BYTES(literal), 0, &role_, &title_), 0);                \
		expect_tame(buf_bytes(&shown_), literal);                                          \
		expect_tame(buf_bytes(&title_), literal);                                          \
		expect_tame(buf_bytes(&role_), literal);                                           \
	} while (0)

Test(text, nothing_reaches_a_terminal_raw)
{
	EXPECT_TAME("{\"role\":\"user\",\"content\":\"\\u001b]0;owned\\u0007\\u009b31m\\u202e\"}");
	EXPECT_TAME("{\"role\":\"\\u001b[2J\",\"name\":\"\\u001b[2J\",\"content\":\"x\"}");
	EXPECT_TAME("{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"\\u001bc\","
		    "\"arguments\":\"\\u001bc\"}}]}");
	EXPECT_TAME("{\"role\":\"tool\",\"content\":\"\\u001bc\\u0000\\ud800\"}");
	EXPECT_TAME("{\"type\":\"\\u001bc\",\"x\":\"\xc2\x9b\x7f\"}");
	EXPECT_TAME("{\"\\u001bc\xc2\x9b\":\"\xe2\x80\xae\"}");
	EXPECT_TAME("{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"name\":\"\\u001bc\","
		    "\"media_type\":\"\\u001bc\",\"url\":\"\\u001bc\"}]}");
	EXPECT_TAME("\x1b[2J no JSON \xff\xc2\x9b\xe2\x80\xae\x00 at all");
}

Test(text, bytes_that_are_no_json_are_tamed_as_they_are)
{
	_cleanup_(buf_done) struct buf shown = { 0 };

	cr_assert_eq(text_tame(BYTES("a\tb\n  c \x1b[m\xff\xc3\xa9\r\n\n"), &shown), 0);
	cr_expect(bytes_equal(buf_bytes(&shown), BYTES("a\tb\n  c ^[[m\\xff\xc3\xa9\n\n")), "%.*s",
		  (int)shown.size, shown.data);
}

Test(text, depth_costs_no_stack)
{
	enum { DEEP = 900 };
	_cleanup_(buf_done) struct buf line = { 0 }, shown = { 0 };

	cr_assert_eq(buf_append_str(&line, "{\"role\":\"tool\",\"content\":"), 0);
	for (int i = 0; i < DEEP; i++)
		cr_assert_eq(buf_append_byte(&line, '['), 0);
	for (int i = 0; i < DEEP; i++)
		cr_assert_eq(buf_append_byte(&line, ']'), 0);
	cr_assert_eq(buf_append(&line, "}", sizeof("}")), 0);
	show(line.data, &shown);
	cr_expect_gt(shown.size, 0);
}

Test(text, a_long_word_that_is_folded_takes_no_longer_than_one_that_is_not)
{
	enum { LONG = 256 << 10, TIMES = 20 };
	static const char *const begins[] = {
		"{\"role\":\"user\",\"content\":\"",
		"{\"role\":\"tool\",\"content\":\"",
	};
	clock_t took[2];

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		_cleanup_(buf_done) struct buf line = { 0 }, shown = { 0 };

		cr_assert_eq(buf_append_str(&line, begins[i]), 0);
		for (int j = 0; j < LONG; j++)
			cr_assert_eq(buf_append_byte(&line, 'x'), 0);
		cr_assert_eq(buf_append(&line, "\"}", sizeof("\"}")), 0);
		took[i] = clock();
		show(line.data, &shown);
		took[i] = clock() - took[i];
		cr_expect_gt(shown.size, 0);
	}
	cr_expect_lt(took[1], TIMES * took[0] + CLOCKS_PER_SEC / 4, "%ld, and %ld", (long)took[1],
		     (long)took[0]);
}

/* ---- Titles and words ---- */

#define EXPECT_TITLE(json, text)                                                                   \
	do {                                                                                       \
		_cleanup_(buf_done) struct buf title_ = { 0 };                                     \
		cr_assert_eq(text_title(BYTES(json), 20, &title_), 0);                             \
		cr_expect(bytes_equal(buf_bytes(&title_), BYTES(text)), "%s has the title %.*s",   \
			  json, (int)title_.size, title_.data);                                    \
	} while (0)

Test(text, a_title_is_what_a_person_wrote)
{
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"Fix\\n the  bug\"}", "Fix the bug");
	EXPECT_TITLE("{\"role\":\"human\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]}",
		     "Hi");
	EXPECT_TITLE("{\"message\":{\"role\":\"user\",\"content\":[{\"text\":\"Hello\"}]}}",
		     "Hello");
	EXPECT_TITLE("{\"messages\":[{\"role\":\"system\",\"content\":\"no\"},"
		     "{\"role\":\"user\",\"content\":\"yes\"}]}",
		     "yes");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"0123456789 0123456789\"}",
		     "0123456789 012345678...");
	/* Of pi, with the files that its command names; and of Gemini CLI, as it was typed. */
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"<file name=\\\"a\\\">\\nx\\n</file>\\n"
		     "<file name=\\\"b.png\\\"></file>\\nwhat is it?\"}",
		     "what is it?");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"<file name= is not closed\"}",
		     "<file name= is not c...");
	EXPECT_TITLE(
		"{\"type\":\"user\",\"id\":\"1\",\"content\":[{\"text\":\"/help, at length\"}],"
		"\"displayContent\":\"/help\"}",
		"/help");
}

Test(text, what_programs_wrote_is_no_title)
{
	EXPECT_TITLE("{\"role\":\"assistant\",\"content\":\"x\"}", "");
	EXPECT_TITLE("{\"type\":\"user\",\"isMeta\":true,\"message\":{\"role\":\"user\","
		     "\"content\":\"x\"}}",
		     "");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"content\":"
		     "\"x\"}]}",
		     "");
	EXPECT_TITLE("{\"a\":\"b\"}", "");
	EXPECT_TITLE("user", "");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"<environment_context>\\n x\\n</environment_"
		     "context>\"}",
		     "");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"<a>x</a> <b>y</b>\"}", "");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":[{\"text\":\"<a>x</a>\"},{\"text\":\"yes\"}]}",
		     "yes");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"<a>x</a> why?\"}", "<a>x</a> why?");
	EXPECT_TITLE("{\"role\":\"user\",\"content\":\"<3\"}", "<3");
}

#define EXPECT_SAID(json, text)                                                                    \
	do {                                                                                       \
		_cleanup_(buf_done) struct buf said_ = { 0 };                                      \
		cr_assert_eq(text_said(BYTES(json), &said_), 0);                                   \
		cr_expect(bytes_equal(buf_bytes(&said_), BYTES(text)), "%s says %.*s", json,       \
			  (int)said_.size, said_.data);                                            \
	} while (0)

Test(text, words_are_those_of_strings_and_not_of_keys)
{
	EXPECT_SAID("{\"key\":\"a\\nb\",\"n\":12,\"l\":[\"c\\u0000d\"]}", "a\nb\nc d\n");
	EXPECT_SAID("\"\xe6\x97\xa5\xe6\x9c\xac go\"", " \xe6\x97\xa5  \xe6\x9c\xac  go\n");
	EXPECT_SAID("no json", "no json\n");
}

Test(text, what_encodes_bytes_says_nothing)
{
	_cleanup_(buf_done) struct buf line = { 0 }, said = { 0 };

	cr_assert_eq(buf_append_str(&line, "[\"word\",\""), 0);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(buf_append_str(&line, "iVBORw0K"), 0);
	cr_assert_eq(buf_append_str(&line, "\"]"), 0);
	cr_assert_eq(text_said(buf_bytes(&line), &said), 0);
	cr_expect(bytes_equal(buf_bytes(&said), BYTES("word\n")));
}

/* Of the letters that encode bytes. */
Test(text, a_long_path_says_its_words)
{
	static const char *const names[] = { "/Volumes/Ann/v1/some-project",
					     "/srv/ann/src/directory" };

	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		_cleanup_(buf_done) struct buf line = { 0 }, said = { 0 };

		cr_assert_eq(buf_append_byte(&line, '"'), 0);
		for (int i = 0; i < 20; i++)
			cr_assert_eq(buf_append_str(&line, names[n]), 0);
		cr_assert_eq(buf_append_byte(&line, '"'), 0);
		cr_assert_eq(text_said(buf_bytes(&line), &said), 0);
		cr_expect_eq(said.size, line.size - 1, "%s", names[n]);
	}
}
