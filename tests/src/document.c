/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "src/exchange/document.h"

/* "key=content|" for each member, in the order of the keys; or "REASON at OFFSET". */
static const char *states(struct bytes text)
{
	static char shown[4096];
	struct document document = { 0 };
	struct json_error error;
	size_t used = 0;

	if (document_parse(text, &document, &error) < 0)
		snprintf(shown, sizeof(shown), "%s at %zu", error.reason, error.offset);
	else
		shown[0] = '\0';
	for (size_t i = 0; i < document.count; i++) {
		const struct document_member *member = &document.members[i];
		struct buf content = { 0 };

		cr_assert_eq(document_content(member->value, &content), 0);
		used += (size_t)snprintf(shown + used, sizeof(shown) - used, "%.*s=%.*s|",
					 (int)member->key_size, member->key, (int)content.size,
					 content.data ? content.data : "");
		buf_done(&content);
	}
	document_done(&document);
	return shown;
}

static const struct {
	const char *text, *states;
} cases[] = {
	{ "{}", "" },
	{ " {\n} \n", "" },
	{ "{\"a\": {\"b\": [1, 2]}}", "a={\"b\":[1,2]}|" },
	{ "{\"b\":1,\"a\":null}", "a=null|b=1|" },
	{ "{\"l\":[]}", "l=|" },
	{ "{\"l\":[ ]}", "l=|" },
	{ "{\"l\":[1]}", "l=1\n|" },
	{ "{\"l\":[ {\"x\" : \"a b\"} ,\n[1, [ ]] , \"s , ]\", 1.0e+2,true ]}",
	  "l={\"x\":\"a b\"}\n[1,[]]\n\"s , ]\"\n1.0e+2\ntrue\n|" },
	{ "{\"s\":\"}{\\\"\\\\\", \"t\":\"\"}", "s=\"}{\\\"\\\\\"|t=\"\"|" },
	{ "{\"n\":12345678901234567890.10}", "n=12345678901234567890.10|" },
	{ "{\"a\":1,\"b\":2,\"a\":[3]}", "a=3\n|b=2|" },
	{ "{\"\\u0061\":1,\"a\":2}", "a=2|" },
	{ "{\"\":1}", "=1|" },
	{ "{\"\\u00e9\\u65e5\\ud83d\\ude00\\n\\/\":1}", "é日😀\n/=1|" },
	{ "{\"s\":\"a\xed\xa0\xbd\xed\xb8\x80\"}", "s=\"a\\ud83d\\ude00\"|" },
	{ "{\"\xed\xb0\x80\":1}", "\xed\xb0\x80=1|" },
	{ "{\"ok\":\"\xed\x9f\xbf\"}", "ok=\"\xed\x9f\xbf\"|" },
	{ "[1]", "expected an object, which holds the states of a session at 0" },
	{ "  3", "expected an object, which holds the states of a session at 2" },
	{ "", "unexpected end at 0" },
	{ "{\"a\":1", "unexpected end at 6" },
	{ "{\"a\":[1,}", "expected a value at 8" },
	{ "{\"a\":NaN}", "expected a value at 5" },
	{ "{\"a\":\"\xed\xa0\xbd\",}", "expected a key at 11" },
	{ "\xed\xa0\xbd", "expected a value at 0" },
	{ "{\"a\":\"\xff\"}", "invalid UTF-8 at 6" },
};

Test(document, each_member_is_a_state_and_each_element_of_an_array_a_line)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_assert_str_eq(states(bytes_str(cases[i].text)), cases[i].states, "of %s",
				 cases[i].text);
}

/* In memory of its own, so that a read behind its end is found. */
static int parse_exactly(const char *text, size_t size)
{
	char *copy = malloc(size);
	struct document document = { 0 };
	struct json_error error;
	int r = document_parse(bytes_make(copy ? memcpy(copy, text, size) : NULL, size), &document,
			       &error);

	if (r == -EINVAL)
		cr_assert_leq(error.offset, size);
	document_done(&document);
	free(copy);
	return r;
}

Test(document, no_beginning_of_a_document_is_one)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *end = strrchr(cases[i].text, '}');

		for (size_t size = 1; end && size < (size_t)(end - cases[i].text); size++)
			cr_assert_eq(parse_exactly(cases[i].text, size), -EINVAL, "%zu bytes of %s",
				     size, cases[i].text);
	}
}

Test(document, any_byte_at_any_place_is_understood_or_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t size = strlen(cases[i].text);

		for (size_t at = 0; at < size; at++)
			for (unsigned byte = 0; byte < 256; byte += 3) {
				char *text = strdup(cases[i].text);

				text[at] = (char)byte;
				parse_exactly(text, size);
				free(text);
			}
	}
}
