/* SPDX-License-Identifier: MIT */

/* Lines as text for people: whatever they are, what is shown is tame, and a line of it that begins
 * in the first column is a heading. */

#include "fs/api/text.h"

#include <string.h>

#include "backend/base/utf8.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_name[] = "text";
const unsigned fuzz_runs = 20000;
const struct bytes fuzz_words[] = {
	BYTES("\"role\":"),
	BYTES("\"user\""),
	BYTES("\"content\":"),
	BYTES("\"text\""),
	BYTES("\"type\":"),
	BYTES("\"tool_use\""),
	BYTES("\"messages\":"),
	BYTES("\"tool_result\""),
	BYTES("\"image\""),
	BYTES("\"arguments\":"),
	BYTES("\"name\":"),
	BYTES("\\u001b"),
	BYTES("\\ud83d"),
	BYTES("\xc2\x9b"),
	BYTES("\xe2\x80\xae"),
	BYTES("[{\""),
	BYTES("}]"),
	{ NULL, 0 },
};

static const char *const seeds[] = {
	"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\\n\\u001b[m\"}]}",
	"{\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"name\":\"x\","
	"\"input\":{\"a\":[1]}},{\"type\":\"image\",\"source\":{\"data\":\"AAAA\"}}]}}",
	"{\"role\":\"tool\",\"content\":[{\"toolResult\":{\"content\":[{\"text\":\"b\"}]}}]}",
	"{\"messages\":[{\"type\":\"user\",\"content\":\"c\"},[{\"role\":\"gemini\"}]]}",
	"{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"\xc2\x9b\xe2\x80\xae\"}",
	"[[[[[[[[{\"type\":\"tool-result\",\"output\":{\"value\":\"x\"}}]]]]]]]]",
	"no JSON \x1b[2J \xff",
};

bool fuzz_seed(unsigned n, struct buf *seed)
{
	if (n >= ARRAY_SIZE(seeds))
		return false;
	fuzz_put(seed, seeds[n], strlen(seeds[n]));
	return true;
}

static void check_tame(struct bytes text)
{
	bool begins = true;

	fuzz_check(utf8_valid(text), "it is no UTF-8");
	for (size_t i = 0; i < text.size; i++) {
		unsigned char byte = (unsigned char)text.data[i];

		fuzz_check(byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f),
			   "byte %zu is %u", i, byte);
		fuzz_check(byte != 0xc2 || (unsigned char)text.data[i + 1] >= 0xa0,
			   "a control at %zu", i);
		fuzz_check(!begins || byte == '\n' || byte == ' ' || byte == '#', "a line with %c",
			   byte);
		begins = byte == '\n';
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_make(size ? (const char *)data : "", size);
	const struct text_place item = { 7, 1 }, document = { -1, 1 };
	struct text_reader all = { .all = true };
	struct buf shown = { 0 }, title = { 0 }, said = { 0 }, role = { 0 }, agent = { 0 };

	fuzz_need(text_show(&all, text, &item, &shown) == 0);
	check_tame(buf_bytes(&shown));
	fuzz_check(shown.size > 2 && bytes_ends_with(buf_bytes(&shown), BYTES("\n\n")),
		   "there is no end");
	fuzz_need(text_show(&all, text, &document, &shown) == 0);
	fuzz_check(utf8_valid(buf_bytes(&shown)), "a document is no UTF-8");
	fuzz_need(text_title(text, 60, &title) == 0);
	fuzz_check(title.size <= 64 && !memchr(title.data ? title.data : "", '\n', title.size),
		   "a title of %zu bytes", title.size);
	fuzz_need(text_made_by(text, 7, &role, &agent) >= 0);
	fuzz_need(text_said(text, &said) == 0);
	fuzz_check(utf8_valid(buf_bytes(&said)), "what is said is no UTF-8");
	buf_clear(&shown);
	fuzz_need(text_tame(text, &shown) == 0);
	fuzz_check(utf8_valid(buf_bytes(&shown)), "what was tamed is no UTF-8");
	buf_done(&shown);
	buf_done(&title);
	buf_done(&said);
	buf_done(&role);
	buf_done(&agent);
	return 0;
}
