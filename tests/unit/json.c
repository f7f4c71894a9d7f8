/* SPDX-License-Identifier: MIT */
#include "backend/base/utf8.h"
#include "fs/base/json.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/base/cleanup.h"
#include "tests/unit/random.h"

/* ---- Tables ---- */

static const struct bytes accepted[] = {
	/* literals, and white space around them */
	BYTES("null"),
	BYTES("true"),
	BYTES("false"),
	BYTES(" \t\r\nnull \t\r\n"),
	BYTES("{}\r"),
	/* numbers */
	BYTES("0"),
	BYTES("-0"),
	BYTES("7"),
	BYTES("10"),
	BYTES("-12345678901234567890123456789012345678901234567890"),
	BYTES("0.0"),
	BYTES("0.5e10"),
	BYTES("1E5"),
	BYTES("1e+5"),
	BYTES("1e-5"),
	BYTES("-0.0e-0"),
	BYTES("1e00005"),
	BYTES("1e999999"),
	BYTES("1.00000000000000000000000000000000000000000000000000001"),
	BYTES("0e1"),
	/* strings */
	BYTES("\"\""),
	BYTES("\"plain\""),
	BYTES("\"exactly8\""),
	BYTES("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\""),
	BYTES("\"\\u0000\""),
	BYTES("\"\\ud800\""),
	BYTES("\"\\uDC00\\uD800\""),
	BYTES("\"\\ud83d\\ude00\""),
	BYTES("\"\\uAbCdEf\""),
	BYTES("\"\x7f\""),
	BYTES("\"/\""),
	BYTES("\"\xc2\x80\xdf\xbf\""),
	BYTES("\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\""),
	BYTES("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""),
	BYTES("\"\xe2\x80\xa8\xe2\x80\xa9\""),
	BYTES("\"\xef\xbb\xbf\""),
	/* arrays and objects */
	BYTES("[]"),
	BYTES("[ ]"),
	BYTES("{ }"),
	BYTES("[1,2 , 3]"),
	BYTES("[[],{},[[]]]"),
	BYTES("{\"a\":1}"),
	BYTES("{ \"a\" : 1 , \"b\" : [ { } ] }"),
	BYTES("{\"\":0}"),
	BYTES("{\"a\":1,\"a\":2}"),
	BYTES("{\"a\\n\":{\"b\":[null,true,false]}}"),
};

Test(json, what_the_grammar_allows_is_accepted)
{
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		struct json_error error = { 77, "untouched" };

		cr_expect(json_valid(accepted[i], &error), "%s: %s at %zu", accepted[i].data,
			  error.reason, error.offset);
		cr_expect(error.offset == 77 && strcmp(error.reason, "untouched") == 0);
	}
}

struct refusal {
	struct bytes text;
	size_t offset;
	const char *reason;
};

static const struct refusal refused[] = {
	/* nothing, or not all of it */
	{ { NULL, 0 }, 0, "unexpected end" },
	{ BYTES(""), 0, "unexpected end" },
	{ BYTES(" \t\r\n"), 4, "unexpected end" },
	{ BYTES("["), 1, "unexpected end" },
	{ BYTES("[1"), 2, "unexpected end" },
	{ BYTES("[1,"), 3, "unexpected end" },
	{ BYTES("{"), 1, "unexpected end" },
	{ BYTES("{\"a"), 3, "unexpected end" },
	{ BYTES("{\"a\""), 4, "unexpected end" },
	{ BYTES("{\"a\":"), 5, "unexpected end" },
	{ BYTES("{\"a\":1"), 6, "unexpected end" },
	{ BYTES("{\"a\":1,"), 7, "unexpected end" },
	{ BYTES("\""), 1, "unexpected end" },
	{ BYTES("\"a\\"), 3, "unexpected end" },
	{ BYTES("\"\\u"), 3, "unexpected end" },
	{ BYTES("\"\\u00"), 5, "unexpected end" },
	{ BYTES("tru"), 3, "unexpected end" },
	{ BYTES("n"), 1, "unexpected end" },
	{ BYTES("-"), 1, "unexpected end" },
	{ BYTES("1."), 2, "unexpected end" },
	{ BYTES("1e"), 2, "unexpected end" },
	{ BYTES("1e+"), 3, "unexpected end" },
	/* numbers */
	{ BYTES("01"), 1, "invalid number" },
	{ BYTES("-01"), 2, "invalid number" },
	{ BYTES("00"), 1, "invalid number" },
	{ BYTES(".5"), 0, "expected a value" },
	{ BYTES("+1"), 0, "expected a value" },
	{ BYTES("[1.]"), 3, "invalid number" },
	{ BYTES("[1.e5]"), 3, "invalid number" },
	{ BYTES("[-]"), 2, "invalid number" },
	{ BYTES("--1"), 1, "invalid number" },
	{ BYTES("-a"), 1, "invalid number" },
	{ BYTES("[1e+]"), 4, "invalid number" },
	{ BYTES("[1e]"), 3, "invalid number" },
	{ BYTES("1e+-1"), 3, "invalid number" },
	{ BYTES("1.2.3"), 3, "invalid number" },
	{ BYTES("1e5e5"), 3, "invalid number" },
	{ BYTES("1-2"), 1, "invalid number" },
	{ BYTES("0x10"), 1, "more than one value" },
	{ BYTES("1_000"), 1, "more than one value" },
	{ BYTES("NaN"), 0, "expected a value" },
	{ BYTES("nan"), 0, "expected a value" },
	{ BYTES("Infinity"), 0, "expected a value" },
	{ BYTES("-Infinity"), 1, "invalid number" },
	{ BYTES("[NaN]"), 1, "expected a value" },
	/* literals */
	{ BYTES("True"), 0, "expected a value" },
	{ BYTES("nulL"), 0, "expected a value" },
	{ BYTES("tralse"), 0, "expected a value" },
	{ BYTES("truefalse"), 4, "more than one value" },
	{ BYTES("undefined"), 0, "expected a value" },
	/* strings */
	{ BYTES("\"a\nb\""), 2, "control character in a string" },
	{ BYTES("\"a\tb\""), 2, "control character in a string" },
	{ BYTES("\"a\0b\""), 2, "control character in a string" },
	{ BYTES("\"1234567\x1f"
		"8\""),
	  8, "control character in a string" },
	{ BYTES("\"\\a\""), 2, "invalid escape" },
	{ BYTES("\"\\'\""), 2, "invalid escape" },
	{ BYTES("\"\\x41\""), 2, "invalid escape" },
	{ BYTES("\"\\U0041\""), 2, "invalid escape" },
	{ BYTES("\"\\u004\""), 6, "invalid escape" },
	{ BYTES("\"\\u00g0\""), 5, "invalid escape" },
	{ BYTES("\"\\u+041\""), 3, "invalid escape" },
	{ BYTES("\"\\\n\""), 2, "invalid escape" },
	{ BYTES("\"\\\0\""), 2, "invalid escape" },
	{ BYTES("'a'"), 0, "expected a value" },
	/* UTF-8: lone bytes, cut, overlong, surrogates, above U+10FFFF */
	{ BYTES("\"\x80\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xbf\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xff\""), 1, "invalid UTF-8" },
	{ BYTES("\"a\xe9z\""), 2, "invalid UTF-8" },
	{ BYTES("\"\xc3"), 1, "invalid UTF-8" },
	{ BYTES("\"\xe6\x97"), 1, "invalid UTF-8" },
	{ BYTES("\"\xe6\x97\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xf0\x9f\x98\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xc0\x80\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xc1\xbf\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xe0\x9f\xbf\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xf0\x8f\xbf\xbf\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xed\xa0\x80\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xed\xbf\xbf\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xf4\x90\x80\x80\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xf5\x80\x80\x80\""), 1, "invalid UTF-8" },
	{ BYTES("\"\xc3\xa9\xc3\""), 3, "invalid UTF-8" },
	{ BYTES("{\"\xff\":1}"), 2, "invalid UTF-8" },
	/* arrays and objects */
	{ BYTES("[1,]"), 3, "expected a value" },
	{ BYTES("[,1]"), 1, "expected a value" },
	{ BYTES("[1 2]"), 3, "expected ',' or ']'" },
	{ BYTES("[1}"), 2, "expected ',' or ']'" },
	{ BYTES("{\"a\":1]"), 6, "expected ',' or '}'" },
	{ BYTES("{\"a\":1 \"b\":2}"), 7, "expected ',' or '}'" },
	{ BYTES("[{\"a\":[]},{]"), 11, "expected a key" },
	{ BYTES("{,}"), 1, "expected a key" },
	{ BYTES("{\"a\":1,}"), 7, "expected a key" },
	{ BYTES("{a:1}"), 1, "expected a key" },
	{ BYTES("{1:1}"), 1, "expected a key" },
	{ BYTES("{\"a\" 1}"), 5, "expected ':'" },
	{ BYTES("{\"a\"}"), 4, "expected ':'" },
	{ BYTES("{\"a\"::1}"), 5, "expected a value" },
	{ BYTES("{\"a\":}"), 5, "expected a value" },
	{ BYTES("]"), 0, "expected a value" },
	{ BYTES("}"), 0, "expected a value" },
	{ BYTES(","), 0, "expected a value" },
	/* what is around the value */
	{ BYTES("{}{}"), 2, "more than one value" },
	{ BYTES("{} x"), 3, "more than one value" },
	{ BYTES("1 2"), 2, "more than one value" },
	{ BYTES("[]]"), 2, "more than one value" },
	{ BYTES("{}\n{}"), 3, "more than one value" },
	{ BYTES("{}\0"), 2, "more than one value" },
	{ BYTES("\0"), 0, "expected a value" },
	{ BYTES("\0{}"), 0, "expected a value" },
	{ BYTES("\xef\xbb\xbf{}"), 0, "expected a value" },
	{ BYTES("\v1"), 0, "expected a value" },
	{ BYTES("\f1"), 0, "expected a value" },
	{ BYTES("\xc2\xa0"
		"1"),
	  0, "expected a value" },
	{ BYTES("1\xe2\x80\xa8"), 1, "more than one value" },
	{ BYTES("// note\n1"), 0, "expected a value" },
	{ BYTES("/* note */1"), 0, "expected a value" },
	{ BYTES("[1] # note"), 4, "more than one value" },
};

Test(json, what_the_grammar_forbids_is_refused_with_place_and_reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		const struct refusal *is = &refused[i];
		struct json_error error = { 0 };

		cr_assert_not(json_valid(is->text, &error), "case %zu: %s", i, is->text.data);
		cr_expect(error.offset == is->offset && strcmp(error.reason, is->reason) == 0,
			  "case %zu: %s: %s at %zu", i, is->text.data, error.reason, error.offset);
		cr_expect_not(json_valid(is->text, NULL));
	}
}

static void append_nested(struct buf *text, const char *open, size_t depth, const char *inner,
			  const char *close)
{
	for (size_t i = 0; i < depth; i++)
		cr_assert_eq(buf_append_str(text, open), 0);
	cr_assert_eq(buf_append_str(text, inner), 0);
	for (size_t i = 0; i < depth; i++)
		cr_assert_eq(buf_append_str(text, close), 0);
}

Test(json, a_thousand_levels_are_accepted_and_one_more_is_not)
{
	static const struct {
		const char *open, *inner, *close;
	} shapes[] = {
		{ "[", "", "]" },
		{ "[", "1", "]" },
		{ "{\"a\":", "{}", "}" },
		{ "[{\"a\": ", "null", "} ]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		size_t levels = shapes[i].open[1] == '{' ? 2 : 1;
		size_t depth = (JSON_DEPTH_MAX - (shapes[i].inner[0] == '{')) / levels;
		_cleanup_(buf_done) struct buf deep = { 0 };
		_cleanup_(buf_done) struct buf deeper = { 0 };
		struct json_error error = { 0 };

		append_nested(&deep, shapes[i].open, depth, shapes[i].inner, shapes[i].close);
		append_nested(&deeper, shapes[i].open, depth + 1, shapes[i].inner, shapes[i].close);

		cr_expect(json_valid(buf_bytes(&deep), &error), "%zu: %s", i, error.reason);
		cr_expect_not(json_valid(buf_bytes(&deeper), &error));
		cr_expect_str_eq(error.reason, "nested too deeply");
	}
}

Test(json, the_place_of_the_level_too_many_is_told)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	struct json_error error = { 0 };

	append_nested(&text, "[", 100000, "", "]");

	cr_expect_not(json_valid(buf_bytes(&text), &error));
	cr_expect_eq(error.offset, JSON_DEPTH_MAX);
}

Test(json, closed_containers_do_not_count_as_depth)
{
	_cleanup_(buf_done) struct buf text = { 0 };

	cr_assert_eq(buf_append_str(&text, "[[]"), 0);
	for (int i = 0; i < 5000; i++)
		cr_assert_eq(buf_append_str(&text, ",{\"a\":[{}]}"), 0);
	cr_assert_eq(buf_append_str(&text, "]"), 0);

	cr_expect(json_valid(buf_bytes(&text), NULL));
}

/* A byte is found wherever it stands in the words of eight that are compared at once. */
Test(json, a_bad_byte_is_found_at_every_distance_from_the_quote)
{
	static const unsigned char bad[] = { 0x00, 0x01, 0x1f, 0x0a, 0x80, 0xff };

	for (size_t size = 1; size <= 40; size++) {
		for (size_t place = 0; place < size; place++) {
			for (size_t i = 0; i < sizeof(bad); i++) {
				char text[64];
				struct json_error error = { 0 };

				memset(text, 'x', sizeof(text));
				text[0] = text[size + 1] = '"';
				cr_assert(json_valid(bytes_make(text, size + 2), NULL));
				text[1 + place] = (char)bad[i];
				cr_assert_not(json_valid(bytes_make(text, size + 2), &error));
				cr_assert_eq(error.offset, 1 + place);
			}
		}
	}
}

/* Exhaustive for one byte: what a string may hold unescaped. */
Test(json, of_all_bytes_a_string_holds_ascii_but_quote_backslash_and_controls)
{
	for (int byte = 0; byte < 256; byte++) {
		char text[] = { '"', (char)byte, '"' };
		bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';

		cr_expect_eq(json_valid(bytes_make(text, 3), NULL), plain, "byte %#x", byte);
	}
}

/* The memory behind the text is not ours: copies of exactly its size let a sanitizer see a read
 * too far. */
Test(json, no_byte_behind_a_cut_text_is_read)
{
	struct bytes whole = BYTES("{\"a\\u0041\":[-1.5e+3,true,false,null,\"\xe6\x97\xa5\"],"
				   "\"long enough for words\":{}}");

	for (size_t size = 0; size < whole.size; size++) {
		char *cut = malloc(size ? size : 1);
		struct json_error error = { 0 };

		cr_assert_not_null(cut);
		memcpy(cut, whole.data, size);
		cr_expect_not(json_valid(bytes_make(cut, size), &error));
		cr_expect_leq(error.offset, size);
		free(cut);
	}
	cr_expect(json_valid(whole, NULL));
}

/* ---- UTF-8 ---- */

/* An encoder of its own, to compare with. */
static size_t encode(uint32_t point, unsigned char out[4])
{
	if (point < 0x80) {
		out[0] = (unsigned char)point;
		return 1;
	}
	if (point < 0x800) {
		out[0] = (unsigned char)(0xc0 | point >> 6);
		out[1] = (unsigned char)(0x80 | (point & 0x3f));
		return 2;
	}
	if (point < 0x10000) {
		out[0] = (unsigned char)(0xe0 | point >> 12);
		out[1] = (unsigned char)(0x80 | (point >> 6 & 0x3f));
		out[2] = (unsigned char)(0x80 | (point & 0x3f));
		return 3;
	}
	out[0] = (unsigned char)(0xf0 | point >> 18);
	out[1] = (unsigned char)(0x80 | (point >> 12 & 0x3f));
	out[2] = (unsigned char)(0x80 | (point >> 6 & 0x3f));
	out[3] = (unsigned char)(0x80 | (point & 0x3f));
	return 4;
}

Test(json, every_code_point_but_surrogates_is_one_sequence)
{
	for (uint32_t point = 0; point < 0x120000; point++) {
		bool exists = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
		unsigned char text[5] = { 0, 0, 0, 0, 'x' };
		size_t size = encode(point, text);

		cr_assert_eq(utf8_sequence(bytes_make(text, 5)), exists ? size : 0, "U+%04X",
			     point);
		cr_assert_eq(utf8_valid(bytes_make(text, size)), exists);
		cr_assert_eq(utf8_sequence(bytes_make(text, size - 1)), 0, "U+%04X cut", point);
	}
}

/* All pairs, and all triples that a three-byte lead begins: nothing else is taken as a sequence. */
Test(json, nothing_overlong_or_lone_is_a_sequence)
{
	size_t pairs = 0, triples = 0;

	for (unsigned first = 0x80; first < 0x100; first++) {
		for (unsigned second = 0; second < 0x100; second++) {
			unsigned char text[3] = { (unsigned char)first, (unsigned char)second, 0 };

			pairs += utf8_sequence(bytes_make(text, 2)) != 0;
			for (unsigned third = 0; third < 0x100; third++) {
				text[2] = (unsigned char)third;
				triples += utf8_sequence(bytes_make(text, 3)) == 3;
			}
		}
	}
	cr_expect_eq(pairs, 0x800 - 0x80);
	cr_expect_eq(triples, 0x10000 - 0x800 - 0x800);
}

Test(json, utf8_is_checked_to_the_last_byte)
{
	cr_expect(utf8_valid(bytes_make(NULL, 0)));
	cr_expect(utf8_valid(BYTES("12345678901234567")));
	cr_expect(utf8_valid(BYTES("a\0b")));
	cr_expect(utf8_valid(BYTES("\xe6\x97\xa5\xe6\x9c\xac 12345678 \xf0\x9f\x98\x80")));
	cr_expect_not(utf8_valid(BYTES("1234567890123456\xe6\x97")));
	cr_expect_not(utf8_valid(BYTES("1234567\xff"
				       "890")));
	cr_expect_eq(utf8_sequence(bytes_make(NULL, 0)), 0);
	cr_expect_eq(utf8_sequence(BYTES("\0")), 1);
}

/* ---- Beside other programs' verdicts ---- */

struct oracle {
	sqlite3 *db;
	sqlite3_stmt *valid;
	sqlite3_stmt *compact;
	size_t accepted;
	size_t refused;
};

static void oracle_open(struct oracle *oracle)
{
	*oracle = (struct oracle){ 0 };
	cr_assert_eq(sqlite3_open(":memory:", &oracle->db), SQLITE_OK);
	cr_assert_eq(sqlite3_prepare_v2(oracle->db, "SELECT json_valid(?)", -1, &oracle->valid,
					NULL),
		     SQLITE_OK);
	cr_assert_eq(sqlite3_prepare_v2(oracle->db, "SELECT json(?)", -1, &oracle->compact, NULL),
		     SQLITE_OK);
}

static void oracle_done(struct oracle *oracle)
{
	sqlite3_finalize(oracle->valid);
	sqlite3_finalize(oracle->compact);
	sqlite3_close(oracle->db);
}

static bool oracle_sqlite(struct oracle *oracle, struct bytes text)
{
	bool valid;

	cr_assert_eq(sqlite3_bind_text64(oracle->valid, 1, text.data ? text.data : "", text.size,
					 SQLITE_STATIC, SQLITE_UTF8),
		     SQLITE_OK);
	cr_assert_eq(sqlite3_step(oracle->valid), SQLITE_ROW);
	valid = sqlite3_column_int(oracle->valid, 0);
	sqlite3_reset(oracle->valid);
	return valid;
}

/* SQLite, too, leaves the white space out and spells the rest as it was. */
static void compare_compact(struct oracle *oracle, struct bytes text)
{
	_cleanup_(buf_done) struct buf compact = { 0 };

	cr_assert_eq(json_compact(text, &compact), 0);
	cr_assert_eq(sqlite3_bind_text64(oracle->compact, 1, text.data, text.size, SQLITE_STATIC,
					 SQLITE_UTF8),
		     SQLITE_OK);
	cr_assert_eq(sqlite3_step(oracle->compact), SQLITE_ROW);
	cr_assert(bytes_equal(buf_bytes(&compact),
			      bytes_make(sqlite3_column_text(oracle->compact, 0),
					 (size_t)sqlite3_column_bytes(oracle->compact, 0))),
		  "%.*s", (int)text.size, text.data);
	sqlite3_reset(oracle->compact);
}

/* Jansson builds values, so it also refuses what it cannot represent: those are no verdicts. */
static bool jansson_cannot_represent(const json_error_t *error)
{
	switch (json_error_code(error)) {
	case json_error_numeric_overflow:
	case json_error_null_byte_in_key:
		return true;
	default:
		return strncmp(error->text, "invalid Unicode", 15) == 0;
	}
}

static void compare(struct oracle *oracle, struct bytes text)
{
	struct json_error error = { 0 };
	bool valid = json_valid(text, &error);
	json_error_t theirs = { 0 };
	json_t *value =
		json_loadb(text.data ? text.data : "", text.size,
			   JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &theirs);

	if (memchr(text.data ? text.data : "", '\0', text.size)) {
		/* Jansson overlooks a NUL that it has read and put back. */
		cr_assert(!valid, "accepted with a NUL: %.*s", (int)text.size, text.data);
	} else if (value) {
		cr_assert(valid || strcmp(error.reason, "nested too deeply") == 0,
			  "refused: %s at %zu of %.*s", error.reason, error.offset, (int)text.size,
			  text.data);
	} else {
		cr_assert(!valid || jansson_cannot_represent(&theirs), "accepted, %s: %.*s",
			  theirs.text, (int)text.size, text.data);
	}
	json_decref(value);
	if (valid) {
		cr_assert(oracle_sqlite(oracle, text), "SQLite refuses %.*s", (int)text.size,
			  text.data);
		compare_compact(oracle, text);
		oracle->accepted++;
	} else {
		cr_assert_leq(error.offset, text.size);
		oracle->refused++;
	}
}

Test(json, compacted_texts_have_no_white_space_outside_strings)
{
	static const struct bytes cases[][2] = {
		{ BYTES(""), BYTES("") },
		{ BYTES(" \r\n\t"), BYTES("") },
		{ BYTES("{\n  \"a b\": [ 1.50, -0, 1E+5 ],\r\n\t\"a b\": null\n}\n"),
		  BYTES("{\"a b\":[1.50,-0,1E+5],\"a b\":null}") },
		{ BYTES("\" \\\" \\\\\" "), BYTES("\" \\\" \\\\\"") },
		{ BYTES("[\"\\u0020\", \" \xc2\xa0 \"]"), BYTES("[\"\\u0020\",\" \xc2\xa0 \"]") },
		/* Other bytes are safe. */
		{ BYTES("\" a \\"), BYTES("\" a \\") },
		{ BYTES("a \\ b"), BYTES("a\\b") },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf compact = { 0 };

		cr_assert_eq(buf_append(&compact, "x", 1), 0);
		cr_assert_eq(json_compact(cases[i][0], &compact), 0);
		cr_expect_eq(compact.size, 1 + cases[i][1].size);
		cr_expect_eq(memcmp(compact.data + 1, cases[i][1].data, cases[i][1].size), 0, "%zu",
			     i);
	}
}

Test(json, the_tables_agree_with_other_programs)
{
	struct oracle oracle;

	oracle_open(&oracle);
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++)
		compare(&oracle, accepted[i]);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		compare(&oracle, refused[i].text);
	oracle_done(&oracle);
	cr_expect_eq(oracle.accepted, ARRAY_SIZE(accepted));
	cr_expect_eq(oracle.refused, ARRAY_SIZE(refused));
}

Test(json, the_deepest_accepted_text_is_valid_to_sqlite)
{
	_cleanup_(buf_done) struct buf arrays = { 0 };
	_cleanup_(buf_done) struct buf objects = { 0 };
	struct oracle oracle;

	append_nested(&arrays, "[", JSON_DEPTH_MAX, "", "]");
	append_nested(&objects, "{\"a\":", JSON_DEPTH_MAX, "1", "}");
	oracle_open(&oracle);
	compare(&oracle, buf_bytes(&arrays));
	compare(&oracle, buf_bytes(&objects));
	oracle_done(&oracle);
	cr_expect_eq(oracle.accepted, 2);
}

/* ---- Real files and mutations of them ---- */

enum { TEXTS_MAX = 20000 };

/* nftw() hands no argument through. */
static struct bytes texts[TEXTS_MAX];
static size_t text_count;

static void texts_add(struct bytes text)
{
	cr_assert_lt(text_count, TEXTS_MAX);
	texts[text_count] = bytes_make(bytes_dup(text), text.size);
	cr_assert_not_null(texts[text_count].data);
	text_count++;
}

static int texts_add_file(const char *path, const struct stat *st, int type, struct FTW *where)
{
	_cleanup_(buf_done) struct buf content = { 0 };
	char *newline, *line;
	FILE *file;

	(void)where;
	if (type != FTW_F || st->st_size == 0)
		return 0;
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s: %s", path, strerror(errno));
	cr_assert_eq(buf_reserve(&content, (size_t)st->st_size), 0);
	content.size = fread(content.data, 1, (size_t)st->st_size, file);
	fclose(file);

	texts_add(buf_bytes(&content));
	for (line = content.data; line < content.data + content.size; line = newline + 1) {
		size_t left = (size_t)(content.data + content.size - line);

		newline = memchr(line, '\n', left);
		if (!newline)
			newline = line + left;
		texts_add(bytes_make(line, (size_t)(newline - line)));
	}
	return 0;
}

/* Every file, whole and line by line, below the folder of real input, or another one that
 * SESSFS_TEST_DATA names. */
static void texts_collect(void)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	const char *given = getenv("SESSFS_TEST_DATA");
	const char *top = getenv("top_srcdir");

	if (given)
		cr_assert_eq(buf_printf(&path, "%s", given), 0);
	else
		cr_assert_eq(buf_printf(&path, "%s/tests/data", top ? top : "."), 0);
	cr_assert_eq(nftw(path.data, texts_add_file, 16, FTW_PHYS), 0, "%s: %s", path.data,
		     strerror(errno));
	cr_assert_gt(text_count, 300, "too few texts found below %s", path.data);
}

static void texts_done(void)
{
	for (size_t i = 0; i < text_count; i++)
		free((char *)texts[i].data);
	text_count = 0;
}

Test(json, real_files_and_their_lines_agree_with_other_programs)
{
	struct oracle oracle;

	texts_collect();
	oracle_open(&oracle);
	for (size_t i = 0; i < text_count; i++)
		compare(&oracle, texts[i]);
	oracle_done(&oracle);
	texts_done();
	cr_expect_gt(oracle.accepted, 200);
	cr_expect_gt(oracle.refused, 5);
}

/* Bytes and runs on which a parser takes a decision. */
static const struct bytes telling[] = {
	BYTES("{"),
	BYTES("}"),
	BYTES("["),
	BYTES("]"),
	BYTES(":"),
	BYTES(","),
	BYTES("\""),
	BYTES("\\"),
	BYTES("\\u"),
	BYTES("\\u00e9"),
	BYTES("\\ud83d"),
	BYTES("\\ude00"),
	BYTES("\\n"),
	BYTES("0"),
	BYTES("-"),
	BYTES("1e5"),
	BYTES("."),
	BYTES("E+"),
	BYTES("true"),
	BYTES("null"),
	BYTES("NaN"),
	BYTES(" "),
	BYTES("\n"),
	BYTES("\r"),
	BYTES("\t"),
	BYTES("\0"),
	BYTES("\x1f"),
	BYTES("\x7f"),
	BYTES("\xc3\xa9"),
	BYTES("\xe6\x97"),
	BYTES("\xed\xa0\x80"),
	BYTES("\xff"),
	BYTES("[[]]"),
	BYTES("{\"a\":1}"),
	BYTES("\xf0\x9f\x98\x80"),
};

/* Apply one small change at a random place. */
static void mutate(struct buf *text, uint64_t *random)
{
	size_t at = random_below(random, text->size + 1);
	size_t wish = 1 + random_below(random, 4);
	size_t size = MIN(wish, text->size - at);
	struct bytes insert = telling[random_below(random, ARRAY_SIZE(telling))];

	switch (random_below(random, 4)) {
	case 0: /* flip a bit */
		if (at < text->size)
			text->data[at] ^= (char)(1 << random_below(random, 8));
		return;
	case 1: /* take bytes out */
		memmove(text->data + at, text->data + at + size, text->size - at - size);
		text->size -= size;
		return;
	case 2: /* cut the end off */
		text->size = random_below(random, 8) ? text->size : at;
		return;
	default: /* put something in */
		cr_assert_eq(buf_reserve(text, insert.size), 0);
		memmove(text->data + at + insert.size, text->data + at, text->size - at);
		memcpy(text->data + at, insert.data, insert.size);
		text->size += insert.size;
	}
}

Test(json, a_hundred_thousand_mutated_texts_agree_with_other_programs)
{
	uint64_t random = random_seed("mutated texts");
	struct oracle oracle;

	texts_collect();
	oracle_open(&oracle);
	for (int i = 0; i < 100000; i++) {
		_cleanup_(buf_done) struct buf text = { 0 };
		struct bytes from = random_below(&random, 2) ?
					    accepted[random_below(&random, ARRAY_SIZE(accepted))] :
					    texts[random_below(&random, text_count)];
		size_t changes = random_below(&random, 4);

		/* A piece from the middle of a long text is as telling as its beginning. */
		if (from.size > 1000)
			from = bytes_make(from.data + random_below(&random, from.size - 300), 300);
		cr_assert_eq(buf_reserve(&text, 1), 0);
		cr_assert_eq(buf_append_bytes(&text, from), 0);
		for (size_t change = 0; change < changes; change++)
			mutate(&text, &random);
		compare(&oracle, buf_bytes(&text));
	}
	oracle_done(&oracle);
	texts_done();
	cr_expect_gt(oracle.accepted, 20000);
	cr_expect_gt(oracle.refused, 20000);
}
