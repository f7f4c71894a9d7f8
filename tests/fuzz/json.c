/* SPDX-License-Identifier: MIT */

/* The validator of JSON beside the verdicts of SQLite and Jansson, and beside itself; and the white
 * space that is left out. */

#include <jansson.h>
#include <sqlite3.h>
#include <string.h>

#include "backend/base/utf8.h"
#include "fs/base/json.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_name[] = "json";
const unsigned fuzz_runs = 25000;
const struct bytes fuzz_words[] = {
	BYTES("null"),	       BYTES("true"),
	BYTES("false"),	       BYTES("-0"),
	BYTES("1e+5"),	       BYTES("0.5"),
	BYTES("\"\""),	       BYTES("\\u00"),
	BYTES("\\ud83d"),      BYTES("\\n"),
	BYTES("{\""),	       BYTES("\":"),
	BYTES("[["),	       BYTES("]]"),
	BYTES("{}"),	       BYTES("[]"),
	BYTES(" \t\r\n"),      BYTES(","),
	BYTES("\xc3\xa9"),     BYTES("\xed\xa0\x80"),
	BYTES("\0"),	       BYTES("\xf4\x8f\xbf\xbf"),
	BYTES("\xef\xbb\xbf"), { NULL, 0 },
};

static const char *const seeds[] = {
	"{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\\n\\u00e9\"}]}",
	"[1, -0, 0.5, 1E+5, -12e-3, true, false, null, \"\", {}, []]",
	" \t\r\n\"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80 \\ud83d\\ude00 \\\" \\\\ \\/\" ",
	"[[[[[[[[[[[[[[[[{\"a\":[{\"b\":{}}]}]]]]]]]]]]]]]]]]",
	"{\"long enough for words of eight bytes\": \"and one more, to be sure of that\"}",
	"{\"torn\": [1, 2, \"thr",
	"{\"a\": NaN}",
	"[1,]",
};

bool fuzz_seed(unsigned n, struct buf *seed)
{
	size_t deep = 990 + 2 * (n - ARRAY_SIZE(seeds));

	if (n < ARRAY_SIZE(seeds)) {
		fuzz_put(seed, seeds[n], strlen(seeds[n]));
		return true;
	}
	if (n >= ARRAY_SIZE(seeds) + 8)
		return false;
	for (size_t i = 0; i < deep; i++)
		fuzz_put(seed, "[", 1);
	for (size_t i = 0; i < deep; i++)
		fuzz_put(seed, "]", 1);
	return true;
}

static bool sqlite_accepts(struct bytes text)
{
	static sqlite3 *db;
	static sqlite3_stmt *valid;
	bool accepts;

	if (!db) {
		fuzz_need(sqlite3_open(":memory:", &db) == SQLITE_OK);
		fuzz_need(sqlite3_prepare_v2(db, "SELECT json_valid(?)", -1, &valid, NULL) ==
			  SQLITE_OK);
	}
	fuzz_need(sqlite3_bind_text64(valid, 1, text.data, text.size, SQLITE_STATIC, SQLITE_UTF8) ==
		  SQLITE_OK);
	fuzz_need(sqlite3_step(valid) == SQLITE_ROW);
	accepts = sqlite3_column_int(valid, 0);
	sqlite3_reset(valid);
	return accepts;
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

static void ask_jansson(struct bytes text, bool accepted, const struct json_error *error)
{
	json_error_t theirs = { 0 };
	json_t *value =
		json_loadb(text.data, text.size,
			   JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &theirs);

	if (value)
		fuzz_check(accepted || strcmp(error->reason, "nested too deeply") == 0,
			   "refused, but Jansson accepts: %s at %zu", error->reason, error->offset);
	else
		fuzz_check(!accepted || jansson_cannot_represent(&theirs),
			   "accepted, but Jansson says: %s", theirs.text);
	json_decref(value);
}

/* What stands before the place of an error has none before its end. */
static void check_place(struct bytes text, const struct json_error *error)
{
	struct json_error before;

	fuzz_check(error->offset <= text.size, "an error at %zu of %zu", error->offset, text.size);
	if (!json_valid(bytes_make(text.data, error->offset), &before))
		fuzz_check(before.offset == error->offset, "errors at %zu and before it at %zu",
			   error->offset, before.offset);
}

/* What is left is one line that is valid as well, and from which nothing more can be left out. */
static void check_compact(struct bytes text, bool accepted)
{
	struct buf once = { 0 }, twice = { 0 };

	fuzz_need(json_compact(text, &once) == 0);
	fuzz_check(once.size <= text.size, "%zu bytes of %zu", once.size, text.size);
	fuzz_need(json_compact(buf_bytes(&once), &twice) == 0);
	fuzz_check(bytes_equal(buf_bytes(&once), buf_bytes(&twice)), "twice is more than once");
	if (accepted) {
		fuzz_check(json_valid(buf_bytes(&once), NULL), "it is JSON no more");
		fuzz_check(!memchr(once.data, '\n', once.size), "it is two lines");
	}
	buf_done(&once);
	buf_done(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_make(size ? (const char *)data : "", size);
	struct json_error error = { 0 };
	bool accepted = json_valid(text, &error);

	fuzz_check(accepted == json_valid(text, NULL), "two verdicts");
	check_compact(text, accepted);
	if (accepted) {
		fuzz_check(utf8_valid(text), "what is JSON is UTF-8");
		fuzz_check(sqlite_accepts(text), "accepted, but SQLite refuses it");
	} else {
		check_place(text, &error);
	}
	/* Jansson overlooks a NUL that it has read and put back. */
	if (memchr(text.data, '\0', text.size))
		fuzz_check(!accepted, "accepted with a NUL");
	else
		ask_jansson(text, accepted, &error);
	return 0;
}
