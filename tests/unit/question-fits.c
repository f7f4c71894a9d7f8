/* SPDX-License-Identifier: MIT */
#include "fs/views/question/question.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/base/cleanup.h"
#include "fs/base/json.h"

static struct question *ask_bytes(struct bytes clauses)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	struct question *question = NULL;

	cr_assert_eq(question_parse_clauses(clauses, &question, &reason), 0, "%.*s: %.*s",
		     (int)MIN(clauses.size, (size_t)100), clauses.data, (int)reason.size,
		     reason.data);
	return question;
}

static bool passes(const char *clauses, struct bytes line)
{
	_cleanup_(question_freep) struct question *question = ask_bytes(bytes_str(clauses));

	return question_fits(question, line);
}

struct verdict {
	const char *clauses;
	struct bytes line;
	bool fits;
};

static void expect_verdicts(const struct verdict *verdicts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct verdict *is = &verdicts[i];

		cr_assert(json_valid(is->line, NULL), "%s", is->line.data);
		cr_expect_eq(passes(is->clauses, is->line), is->fits, "%s: %s", is->clauses,
			     is->line.data);
	}
}

/* ---- How clauses are merged ---- */

#define USER_OF_A BYTES("{\"role\":\"user\",\"agent\":\"a\",\"n\":1,\"text\":\"red green\"}")
#define TOOL_OF_A BYTES("{\"role\":\"tool\",\"agent\":\"a\",\"n\":2,\"text\":\"green blue\"}")
#define USER_OF_B BYTES("{\"role\":\"user\",\"agent\":\"b\",\"n\":3,\"text\":\"blue red\"}")
#define NOBODY BYTES("{\"n\":4}")

static const struct verdict merged[] = {
	/* nothing is asked of the line */
	{ "last=5", NOBODY, true },
	/* all includes together: any of them */
	{ "role=user", USER_OF_A, true },
	{ "role=user", TOOL_OF_A, false },
	{ "role=user+tool", TOOL_OF_A, true },
	{ "role=user,role=tool", TOOL_OF_A, true },
	{ "role=user,last=5,role=tool", TOOL_OF_A, true },
	{ "role=user,agent=a", TOOL_OF_A, true },
	{ "role=user,agent=a", USER_OF_B, true },
	{ "role=system,agent=c", USER_OF_B, false },
	{ "role=system,.n=3", USER_OF_B, true },
	{ "agent=c,.n=1+3", USER_OF_B, true },
	{ "agent=c,.n=1,.n=3", USER_OF_B, true },
	{ "agent=c,.n=1+2", USER_OF_B, false },
	{ "role=user", NOBODY, false },
	{ "role=user,.n=4", NOBODY, true },
	/* then none of the excludes */
	{ "not-role=user", USER_OF_A, false },
	{ "not-role=user", TOOL_OF_A, true },
	{ "not-role=user", NOBODY, true },
	{ "not-agent=a", NOBODY, true },
	{ "not-role=user+tool", TOOL_OF_A, false },
	{ "not-role=user,not-role=tool", TOOL_OF_A, false },
	{ "not-role=system,not-agent=a", TOOL_OF_A, false },
	{ "not-role=system,not-.n=2", TOOL_OF_A, false },
	{ "not-.n=1+3", TOOL_OF_A, true },
	{ "role=user,not-agent=b", USER_OF_A, true },
	{ "role=user,not-agent=b", USER_OF_B, false },
	{ "not-agent=b,role=user", USER_OF_B, false },
	{ "role=user,not-role=user", USER_OF_A, false },
	{ "agent=a,.n=2,not-role=tool", TOOL_OF_A, false },
	/* then all words */
	{ "match=red", USER_OF_A, true },
	{ "match=red", TOOL_OF_A, false },
	{ "match=red+green", USER_OF_A, true },
	{ "match=red,match=green", USER_OF_A, true },
	{ "match=red+green", USER_OF_B, false },
	{ "match=red,match=green", USER_OF_B, false },
	{ "role=user,match=red", USER_OF_B, true },
	{ "role=user,match=green", USER_OF_B, false },
	{ "role=tool,match=red", USER_OF_B, false },
	{ "match=red,not-agent=b", USER_OF_B, false },
};

Test(question_fits, a_line_passes_any_include_no_exclude_and_all_words)
{
	expect_verdicts(merged, ARRAY_SIZE(merged));
}

/* ---- Members ---- */

static const struct verdict members[] = {
	/* values as they are spelled */
	{ ".a=1", BYTES("{\"a\":1}"), true },
	{ ".a=1", BYTES(" { \"a\" : 1 } "), true },
	{ ".a=1", BYTES("{\"a\":10}"), false },
	{ ".a=10", BYTES("{\"a\":1}"), false },
	{ ".a=1", BYTES("{\"a\":1.0}"), false },
	{ ".a=1e%2B5", BYTES("{\"a\":1e+5}"), true },
	{ ".a=1e5", BYTES("{\"a\":1E5}"), false },
	{ ".a=-0.5", BYTES("{\"a\":-0.5,\"b\":2}"), true },
	{ ".a=1", BYTES("{\"a\":\"1\"}"), true },
	{ ".a=true", BYTES("{\"a\":true}"), true },
	{ ".a=false", BYTES("{\"a\":true}"), false },
	{ ".a=True", BYTES("{\"a\":true}"), false },
	{ ".a=null", BYTES("{\"a\":null}"), true },
	{ ".a=null", BYTES("{}"), false },
	/* strings after their escapes, in full and with their case */
	{ ".a=x", BYTES("{\"a\":\"x\"}"), true },
	{ ".a=x", BYTES("{\"a\":\"X\"}"), false },
	{ ".a=x", BYTES("{\"a\":\"xy\"}"), false },
	{ ".a=xy", BYTES("{\"a\":\"x\"}"), false },
	{ ".a=x", BYTES("{\"a\":\"\"}"), false },
	{ ".a=x", BYTES("{\"a\":\"\\u0078\"}"), true },
	{ ".a=xx", BYTES("{\"a\":\"\\u0078\\u0078\"}"), true },
	{ ".a=x", BYTES("{\"a\":\"\\u0078x\"}"), false },
	{ ".a=%22%5C/%08%0C%0A%0D%09", BYTES("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}"), true },
	{ ".a=%5Cn", BYTES("{\"a\":\"\\\\n\"}"), true },
	{ ".a=%5Cn", BYTES("{\"a\":\"\\n\"}"), false },
	{ ".a=%00", BYTES("{\"a\":\"\\u0000\"}"), true },
	{ ".a=\xc3\xa9", BYTES("{\"a\":\"\xc3\xa9\"}"), true },
	{ ".a=\xc3\xa9", BYTES("{\"a\":\"\\u00E9\"}"), true },
	{ ".a=%e6%97%a5", BYTES("{\"a\":\"\\u65e5\"}"), true },
	{ ".a=\xf0\x9f\x98\x80", BYTES("{\"a\":\"\\ud83d\\ude00\"}"), true },
	{ ".a=\xf0\x9f\x98\x80", BYTES("{\"a\":\"\\ud83d \\ude00\"}"), false },
	{ ".a=%ED%A0%BDx", BYTES("{\"a\":\"\\ud83dx\"}"), true },
	{ ".a=%ED%A0%BD%ED%A0%BD", BYTES("{\"a\":\"\\ud83d\\ud83d\"}"), true },
	{ ".a=%ED%B8%80%ED%A0%BD", BYTES("{\"a\":\"\\ude00\\ud83d\"}"), true },
	{ ".a=b%2Cc", BYTES("{\"a\":\"b,c\"}"), true },
	{ ".a=b%2Bc", BYTES("{\"a\":\"b+c\"}"), true },
	/* objects and arrays have none */
	{ ".a={}", BYTES("{\"a\":{}}"), false },
	{ ".a=1", BYTES("{\"a\":[1]}"), false },
	{ ".a=1", BYTES("[{\"a\":1}]"), false },
	{ ".a.b=1", BYTES("{\"a\":[{\"b\":1}]}"), false },
	{ ".a.b=1", BYTES("{\"a\":[{\"b\":2}],\"a\":{\"b\":1}}"), true },
	{ ".a=1", BYTES("\"a\""), false },
	{ ".a=1", BYTES("1"), false },
	{ "not-.a=1", BYTES("1"), true },
	/* paths */
	{ ".a.b=1", BYTES("{\"a\":{\"b\":1}}"), true },
	{ ".a.b=1", BYTES("{\"b\":1,\"a\":{\"c\":{\"b\":1},\"b\":2}}"), false },
	{ ".a=1", BYTES("{\"b\":{\"a\":1}}"), false },
	{ ".a.b=1", BYTES("{\"x\":{\"a\":{\"b\":1}},\"a\":2,\"b\":1}"), false },
	{ ".a.b=1", BYTES("{\"a\":{},\"b\":1}"), false },
	{ ".a.b=1", BYTES("{\"a\":{\"x\":{\"y\":[{}]}},\"b\":1}"), false },
	{ ".a.b=1,.a.c=2,.d=3", BYTES("{\"a\":{\"x\":0,\"c\":2}}"), true },
	{ ".a.b=1,.a.c=2,.d=3", BYTES("{\"a\":{\"x\":{}},\"d\":3}"), true },
	{ ".a=1,.a.b=2", BYTES("{\"a\":1}"), true },
	{ ".a=1,.a.b=2", BYTES("{\"a\":{\"b\":2}}"), true },
	{ ".a.b.c.d=1", BYTES("{\"a\":{\"b\":{\"c\":{\"d\":1}}}}"), true },
	{ ".a.b=1,not-.a.c=1", BYTES("{\"a\":{\"b\":1,\"c\":1}}"), false },
	{ ".a.b=1,not-.a.c=1", BYTES("{\"a\":{\"b\":1,\"c\":2}}"), true },
	/* keys: with escapes, with dots, with what looks like the end of a string */
	{ ".ab=1", BYTES("{\"\\u0061b\":1}"), true },
	{ ".ab=1", BYTES("{\"a\":1,\"b\":1,\"abc\":1}"), false },
	{ ".a%2Eb=1", BYTES("{\"a.b\":1}"), true },
	{ ".a.b=1", BYTES("{\"a.b\":1}"), false },
	{ ".a%3Db=1", BYTES("{\"a=b\":1}"), true },
	{ ".a%22=1", BYTES("{\"a\\\"\":1}"), true },
	{ ".b=1", BYTES("{\"a\":\"\\\\\",\"b\":1}"), true },
	{ ".b=1", BYTES("{\"a\":\"\\\\\\\",\",\"c\":\",\",\"b\":1}"), true },
	{ ".b=1", BYTES("{\"a\":\"},{\\\"b\\\":1\",\"c\":[\"]}\",{\"d\":\"}\"}],\"b\":1}"), true },
	{ ".b=1", BYTES("{\"a\":\"},{\\\"b\\\":1\",\"c\":[\"]}\",{\"d\":\"}\"}]}"), false },
	/* a key that stands twice */
	{ ".a=1", BYTES("{\"a\":2,\"a\":1}"), true },
	{ ".a=1", BYTES("{\"a\":1,\"a\":2}"), true },
	{ "not-.a=1", BYTES("{\"a\":2,\"a\":1}"), false },
	{ ".a.b=1", BYTES("{\"a\":{\"b\":2},\"a\":{\"b\":1}}"), true },
};

Test(question_fits, members_are_compared_by_their_path_and_value)
{
	expect_verdicts(members, ARRAY_SIZE(members));
}

/* ---- Roles and agents ---- */

/* Lines as programs write them, but for what does not matter here. */
#define AGENTSCOPE                                                                                 \
	BYTES("{\"id\":\"6ef92f13\",\"name\":\"Friday\",\"role\":\"USER\",\"content\":[{"          \
	      "\"type\":\"text\",\"text\":\"two\"}],\"metadata\":{},\"timestamp\":\"2026-11-21 "   \
	      "04:48:49.942\"}")
#define STRANDS                                                                                    \
	BYTES("{\"message\":{\"role\":\"user\",\"content\":[{\"text\":\"x\"}]},\"message_id\":0}")
#define CLAUDE_CODE                                                                                \
	BYTES("{\"type\":\"assistant\",\"agentId\":\"a1b2\",\"message\":{\"id\":\"msg_002\","      \
	      "\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\","       \
	      "\"text\":\"\"}]}}")
#define CLAUDE_CODE_PLAIN BYTES("{\"type\":\"user\",\"message\":{\"content\":\"Your turn\"}}")
#define CODEX                                                                                      \
	BYTES("{\"payload\":{\"content\":[{\"text\":\"Run\",\"type\":\"input_text\"}],"            \
	      "\"role\":\"user\",\"type\":\"message\"},\"type\":\"response_item\"}")
#define CODEX_CALL                                                                                 \
	BYTES("{\"type\":\"response_item\",\"payload\":{\"type\":\"function_call\",\"name\":"      \
	      "\"exec_command\"}}")
#define CODEX_RESULT                                                                               \
	BYTES("{\"type\":\"response_item\",\"payload\":{\"type\":\"function_call_output\"}}")
#define CODEX_META BYTES("{\"type\":\"session_meta\",\"payload\":{\"id\":\"abc-123\"}}")
#define GEMINI BYTES("{\"content\":\"Let me read it.\",\"id\":\"a1\",\"type\":\"gemini\"}")
#define GEMINI_USER BYTES("{\"content\":\"Read it\",\"id\":\"u1\",\"type\":\"user\"}")
#define OPENAI BYTES("{\"role\":\"developer\",\"content\":\"You are\",\"name\":\"ops\"}")
#define OPENAI_TOOL BYTES("{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"\"}")
#define AKKA_USER                                                                                  \
	BYTES("{\"@type\":\"UM\",\"timestamp\":\"\",\"text\":\"hi\",\"componentId\":\"planner\"}")
#define AKKA_AI BYTES("{\"@type\":\"AIM\",\"text\":\"\",\"componentId\":\"planner\"}")
#define AKKA_TOOL BYTES("{\"@type\":\"TCR\",\"componentId\":\"planner\",\"name\":\"search\"}")
#define PI_TOOL BYTES("{\"type\":\"message\",\"message\":{\"role\":\"toolResult\"}}")

static const struct verdict shapes[] = {
	{ "role=user", AGENTSCOPE, true },
	{ "role=User", AGENTSCOPE, true },
	{ "agent=Friday", AGENTSCOPE, true },
	{ "agent=friday", AGENTSCOPE, false },
	{ "role=user", STRANDS, true },
	{ "role=assistant", STRANDS, false },
	{ "role=assistant", CLAUDE_CODE, true },
	{ "role=message", CLAUDE_CODE, false },
	{ "agent=a1b2", CLAUDE_CODE, true },
	{ "role=user", CLAUDE_CODE_PLAIN, true },
	{ "role=user", CODEX, true },
	{ "role=message+response_item", CODEX, false },
	{ "role=assistant", CODEX_CALL, true },
	{ "role=tool", CODEX_CALL, false },
	{ "role=tool", CODEX_RESULT, true },
	{ "not-role=tool", CODEX_RESULT, false },
	{ "role=session_meta", CODEX_META, true },
	{ "role=assistant", GEMINI, true },
	{ "role=gemini", GEMINI, true },
	{ "role=gemini", CLAUDE_CODE, false },
	{ "role=user", GEMINI, false },
	{ "role=user", GEMINI_USER, true },
	{ "role=system", OPENAI, true },
	{ "role=developer", OPENAI, true },
	{ "agent=ops", OPENAI, true },
	{ "role=tool", OPENAI_TOOL, true },
	{ "agent=ops", OPENAI_TOOL, false },
	{ "role=user", AKKA_USER, true },
	{ "role=assistant", AKKA_AI, true },
	{ "role=tool", AKKA_TOOL, true },
	{ "agent=planner", AKKA_TOOL, true },
	{ "agent=search", AKKA_TOOL, false },
	{ "role=tool", PI_TOOL, true },
	/* in any case of ASCII, after their escapes */
	{ "role=ASSISTANT", GEMINI, true },
	{ "role=user", BYTES("{\"role\":\"\\u0055ser\"}"), true },
	{ "role=%C3%A9", BYTES("{\"role\":\"\xc3\xa9\"}"), true },
	{ "role=%C3%A9", BYTES("{\"role\":\"\xc3\x89\"}"), false },
	{ "role=user", BYTES("{\"role\":\"USER2\"}"), false },
	/* the first path that leads to a string, wherever it stands */
	{ "role=user", BYTES("{\"type\":\"user\",\"role\":\"tool\"}"), false },
	{ "role=tool", BYTES("{\"type\":\"user\",\"role\":\"tool\"}"), true },
	{ "role=user", BYTES("{\"role\":null,\"type\":\"user\"}"), true },
	{ "role=user", BYTES("{\"role\":{\"name\":\"tool\"},\"type\":\"user\"}"), true },
	{ "role=user", BYTES("{\"role\":[\"tool\"],\"type\":\"user\"}"), true },
	{ "role=user", BYTES("{\"role\":\"\",\"type\":\"user\"}"), false },
	{ "role=user", BYTES("{\"a\":{\"role\":\"user\"}}"), false },
	{ "role=user", BYTES("[{\"role\":\"user\"}]"), false },
	{ "role=1", BYTES("{\"role\":1}"), false },
	{ "agent=x", BYTES("{\"name\":\"y\",\"agent\":\"x\"}"), true },
	{ "agent=y", BYTES("{\"name\":\"y\",\"agent\":\"x\"}"), false },
	{ "role=user", BYTES("{\"role\":\"user\",\"role\":\"tool\"}"), true },
	{ "role=tool", BYTES("{\"role\":\"user\",\"role\":\"tool\"}"), false },
	/* a member of one of these paths is one as any other */
	{ ".type=gemini", GEMINI, true },
	{ ".type=assistant", GEMINI, false },
	{ "role=assistant,not-.type=gemini", GEMINI, false },
	{ "role=user,.message.type=message", CLAUDE_CODE, true },
	/* a question that could be settled early, and may not be */
	{ "role=user,not-agent=b", BYTES("{\"role\":\"user\",\"agent\":\"b\"}"), false },
	{ "role=user,not-.n=1", BYTES("{\"role\":\"user\",\"n\":1}"), false },
	{ "role=tool,.n=1", BYTES("{\"role\":\"user\",\"n\":1}"), true },
	{ "role=user,.n=1,not-role=tool", BYTES("{\"n\":1,\"role\":\"tool\"}"), false },
};

Test(question_fits, roles_and_agents_are_found_in_the_shapes_of_many_programs)
{
	expect_verdicts(shapes, ARRAY_SIZE(shapes));
}

/* ---- Words ---- */

static const struct verdict words[] = {
	{ "match=world", BYTES("\"hello world\""), true },
	{ "match=World", BYTES("\"HELLO WORLD\""), true },
	{ "match=o w", BYTES("\"hello world\""), true },
	{ "match=h", BYTES("\"hello world\""), true },
	{ "match=d", BYTES("\"hello world\""), true },
	{ "match=hello world", BYTES("\"hello world\""), true },
	{ "match=hello world!", BYTES("\"hello world\""), false },
	{ "match=aab", BYTES("\"aaaaab\""), true },
	{ "match=abab", BYTES("\"abacabab\""), true },
	{ "match=z", BYTES("\"hello world\""), false },
	/* any string, but no key, number or sign */
	{ "match=red", BYTES("{\"a\":[1,{\"b\":[\"x\",\"red\"]}]}"), true },
	{ "match=red", BYTES("{\"red\":1}"), false },
	{ "match=red", BYTES("{\"red\" : \"blue\"}"), false },
	{ "match=red", BYTES("{\"red\":\"red\"}"), true },
	{ "match=42", BYTES("{\"a\":42}"), false },
	{ "match=true", BYTES("[true]"), false },
	{ "match=%22", BYTES("[\"a\",\"b\"]"), false },
	{ "match=%22", BYTES("[\"a\",\"b\\\"\"]"), true },
	/* not over two strings, and each word in any */
	{ "match=ab", BYTES("[\"a\",\"b\"]"), false },
	{ "match=a+b", BYTES("[\"a\",\"b\"]"), true },
	/* after the escapes are decoded */
	{ "match=b%0Ac", BYTES("\"ab\\ncd\""), true },
	{ "match=nc", BYTES("\"ab\\ncd\""), false },
	{ "match=b%5Cn", BYTES("\"ab\\ncd\""), false },
	{ "match=b%5Cn", BYTES("\"ab\\\\ncd\""), true },
	{ "match=u0062", BYTES("\"a\\u0062c\""), false },
	{ "match=abc", BYTES("\"a\\u0042c\""), true },
	{ "match=c%22", BYTES("\"abc\\\"\""), true },
	{ "match=\xf0\x9f\x98\x80", BYTES("\"\\ud83d\\ude00\""), true },
	{ "match=caf\xc3\xa9", BYTES("\"un caf\\u00e9\""), true },
	/* the case of ASCII alone */
	{ "match=CAF\xc3\xa9", BYTES("\"un caf\xc3\xa9\""), true },
	{ "match=caf\xc3\xa9", BYTES("\"un caf\xc3\x89\""), false },
	{ "match=%5B", BYTES("\"{\""), false },
	{ "match=%40", BYTES("\"`\""), false },
	{ "match=%E9", BYTES("\"\\u00e9\""), false },
	{ "match=%A9", BYTES("\"\\u00e9\""), true },
};

Test(question_fits, words_are_found_in_strings_in_any_case)
{
	expect_verdicts(words, ARRAY_SIZE(words));
}

static void fill(struct buf *buf, struct bytes unit, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(buf_append_bytes(buf, unit), 0);
}

/* A string with escapes is decoded in parts: the word is put at every place around their ends. */
Test(question_fits, a_word_is_found_at_any_place_of_a_long_string)
{
	static const struct bytes spelled[] = {
		BYTES("needle"),
		BYTES("n\\u0065edl\\u0065"),
		BYTES("\\u006E\\u0065\\u0065\\u0064\\u006C\\u0065"),
	};
	_cleanup_(question_freep) struct question *question = ask_bytes(BYTES("match=needle"));

	for (size_t before = 3 * 4096 / 2; before < 9000; before++) {
		struct bytes needle = spelled[before % ARRAY_SIZE(spelled)];
		_cleanup_(buf_done) struct buf line = { 0 };

		fill(&line, BYTES("\"\\n"), 1);
		fill(&line, BYTES("x"), before);
		fill(&line, needle, 1);
		cr_assert_not(question_fits(question, bytes_make(line.data, line.size - 1)), "%zu",
			      before);
		fill(&line, BYTES("\\t\""), 1);
		cr_assert(question_fits(question, buf_bytes(&line)), "%zu", before);
	}
}

Test(question_fits, the_longest_word_is_found_between_escapes)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	_cleanup_(buf_done) struct buf line = { 0 };
	_cleanup_(question_freep) struct question *question = NULL;

	fill(&text, BYTES("match="), 1);
	fill(&text, BYTES("%0A"), QUESTION_WORD_MAX - 1);
	fill(&text, BYTES("A"), 1);
	question = ask_bytes(buf_bytes(&text));
	fill(&line, BYTES("\""), 1);
	fill(&line, BYTES("\\n"), 100000);
	cr_expect_not(question_fits(question, buf_bytes(&line)));
	fill(&line, BYTES("a\""), 1);
	cr_expect(question_fits(question, buf_bytes(&line)));
}

/* ---- Any bytes ---- */

#define EVERYTHING                                                                                 \
	BYTES("role=user+assistant,not-role=system,agent=a,not-agent=b,.a.b=1+x,.a=\"\\,not-.c=2," \
	      ".message.content=x,match=e+o")

/* A copy of exactly its size lets a sanitizer see a read too far. */
static bool fits_copy(const struct question *question, struct bytes line)
{
	_cleanup_(freep) char *copy = malloc(line.size ? line.size : 1);

	cr_assert_not_null(copy);
	if (line.size)
		memcpy(copy, line.data, line.size);
	return question_fits(question, bytes_make(copy, line.size));
}

Test(question_fits, a_line_that_is_cut_anywhere_is_safe)
{
	static const struct bytes lines[] = {
		AGENTSCOPE,
		STRANDS,
		CLAUDE_CODE,
		CODEX,
		AKKA_TOOL,
		BYTES(" \t{ \"a\" : { \"b\" : \"\\\"\\\\\\u00e9\\ud83d\\ude00\" } } "),
		BYTES("[\"\\\\\"]"),
		BYTES("{\"a\":{\"b\":1,\"c\":[{},[]]},\"c\":-2.5e+7}"),
	};
	_cleanup_(question_freep) struct question *question = ask_bytes(EVERYTHING);
	unsigned answers[2] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		for (size_t size = 0; size <= lines[i].size; size++) {
			answers[fits_copy(question, bytes_make(lines[i].data, size))]++;
			fits_copy(question, bytes_make(lines[i].data + size, lines[i].size - size));
		}
	cr_expect_gt(answers[false], 0);
	cr_expect_not(question_fits(question, bytes_make(NULL, 0)));
}

Test(question_fits, bytes_that_are_no_json_are_safe)
{
	static const struct bytes texts[] = {
		BYTES("}"),
		BYTES("{}}}}}"),
		BYTES("{]]]]\"a\":]}"),
		BYTES("{\"a\""),
		BYTES("{\"a\":"),
		BYTES("{\"a\":}"),
		BYTES("{\"a\"\"b\"\"c\"}"),
		BYTES("{\"a\":{\"a\":{\"a\":{"),
		BYTES("{\"a\":{\"b\""),
		BYTES("{\"a\":\"\\"),
		BYTES("{\"a\":\"\\u"),
		BYTES("{\"a\":\"\\u12\"}"),
		BYTES("{\"a\":\"\\ud83d\\u\"}"),
		BYTES("{\"a\":\"\\x\"}"),
		BYTES("{\"a\":\"\xff\xc0\x80\"}"),
		BYTES("{\"a\xe6\x97\":1}"),
		BYTES("\0\0\0"),
		BYTES("{\0\"a\0\":1}"),
		BYTES("not JSON at all, \"quoted\": yes"),
	};
	_cleanup_(question_freep) struct question *question = ask_bytes(EVERYTHING);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		fits_copy(question, texts[i]);
	cr_expect(passes("match=quoted", BYTES("no JSON at all, \"quoted\"")));
}

static void nest(struct buf *line, struct bytes open, size_t depth, struct bytes inside,
		 struct bytes close)
{
	fill(line, open, depth);
	fill(line, inside, 1);
	fill(line, close, depth);
}

Test(question_fits, a_line_may_be_nested_a_million_deep)
{
	enum { DEPTH = 1 << 20 };
	_cleanup_(question_freep) struct question *question = ask_bytes(BYTES(".z=1"));
	_cleanup_(question_freep) struct question *word = ask_bytes(BYTES("match=deep"));
	_cleanup_(buf_done) struct buf arrays = { 0 };
	_cleanup_(buf_done) struct buf objects = { 0 };

	fill(&arrays, BYTES("{\"a\":"), 1);
	nest(&arrays, BYTES("["), DEPTH, BYTES("\"deep\""), BYTES("]"));
	cr_expect_not(question_fits(question, buf_bytes(&arrays)));
	fill(&arrays, BYTES(",\"z\":1}"), 1);
	cr_expect(question_fits(question, buf_bytes(&arrays)));
	cr_expect(question_fits(word, buf_bytes(&arrays)));

	fill(&objects, BYTES("{\"b\":"), 1);
	nest(&objects, BYTES("{\"z\":"), DEPTH, BYTES("1"), BYTES("}"));
	cr_expect_not(question_fits(question, buf_bytes(&objects)));
	fill(&objects, BYTES(",\"z\":1}"), 1);
	cr_expect(question_fits(question, buf_bytes(&objects)));
}

Test(question_fits, a_path_may_be_as_deep_as_a_question_can_say)
{
	enum { DEPTH = 30000 };
	_cleanup_(question_freep) struct question *question = NULL;
	_cleanup_(buf_done) struct buf text = { 0 };
	_cleanup_(buf_done) struct buf line = { 0 };

	fill(&text, BYTES(".a"), DEPTH);
	fill(&text, BYTES("=1"), 1);
	question = ask_bytes(buf_bytes(&text));
	nest(&line, BYTES("{\"a\":"), DEPTH, BYTES("1"), BYTES("}"));
	cr_expect(question_fits(question, buf_bytes(&line)));
	line.size--;
	cr_expect(question_fits(question, buf_bytes(&line)));
	buf_clear(&line);
	nest(&line, BYTES("{\"a\":"), DEPTH - 1, BYTES("1"), BYTES("}"));
	cr_expect_not(question_fits(question, buf_bytes(&line)));
}

/* ---- Time ---- */

static double seconds_of_processor(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A thousand clauses of one kind, and a line of 64 KiB that is made of what they are slow with. */
static const struct {
	const char *clause; /* with the number of the clause */
	struct bytes begin, unit, end;
} slow[] = {
	{ "role=r%d", BYTES("{"), BYTES("\"role\":1,"), BYTES("\"type\":\"r\"}") },
	{ "not-agent=%d", BYTES("{"), BYTES("\"agent\":[{}],"), BYTES("\"name\":\"n\"}") },
	{ ".a%d=1", BYTES("{"), BYTES("\"a\":1,"), BYTES("\"b\":1}") },
	{ ".a=%d", BYTES("{"), BYTES("\"a\":\"\\u0078\","), BYTES("\"b\":1}") },
	{ "not-.%d.b=1", BYTES("{"), BYTES("\"0\":{\"b\":2},"), BYTES("\"b\":1}") },
	{ "match=aaaaaaaabaaaaaaaa", BYTES("["), BYTES("\"aaaaaaaaaaaaaaaaaaaaaaaaaaaa\","),
	  BYTES("\"aaaaaaaabaaaaaaaa\"]") },
	{ "match=%%22%%5C%%22a", BYTES("["), BYTES("\"\\\"\\\\\\\"\\\\\\\\\","),
	  BYTES("\"\\\"\\\\\\\"a\"]") },
};

Test(question_fits, a_thousand_clauses_and_a_long_line_end)
{
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		_cleanup_(question_freep) struct question *question = NULL;
		_cleanup_(buf_done) struct buf text = { 0 };
		_cleanup_(buf_done) struct buf line = { 0 };
		double took;

		for (int n = 0; n < 1000; n++) {
			cr_assert_eq(buf_append_str(&text, n ? "," : ""), 0);
			cr_assert_eq(buf_printf(&text, slow[i].clause, n), 0);
		}
		question = ask_bytes(buf_bytes(&text));
		fill(&line, slow[i].begin, 1);
		fill(&line, slow[i].unit, 65536 / slow[i].unit.size);
		fill(&line, slow[i].end, 1);
		cr_assert(json_valid(buf_bytes(&line), NULL), "%s", slow[i].clause);
		took = seconds_of_processor();
		question_fits(question, buf_bytes(&line));
		took = seconds_of_processor() - took;
		cr_expect_lt(took, 10, "%s: %.1f s", slow[i].clause, took);
	}
}
