/* SPDX-License-Identifier: MIT */
#include "fs/base/names.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"
#include "tests/unit/failing-alloc.h"
#include "tests/unit/random.h"

/* ---- What the tests ask ---- */

static bool is_legal_name(struct bytes name, size_t limit)
{
	return name.size >= 1 && name.size <= limit && !memchr(name.data, '/', name.size) &&
	       !memchr(name.data, '\0', name.size) && !bytes_equal(name, BYTES(".")) &&
	       !bytes_equal(name, BYTES(".."));
}

static bool has_control(struct bytes bytes)
{
	for (size_t i = 0; i < bytes.size; i++) {
		unsigned char byte = (unsigned char)bytes.data[i];

		if (byte < 0x20 || byte == 0x7f)
			return true;
	}
	return false;
}

static bool has_cut_sign(struct bytes bytes)
{
	return bytes.size && memmem(bytes.data, bytes.size, "%~", 2);
}

/* Ends in "%~" and a digest. */
static bool is_cut(struct bytes name)
{
	const char *digits = name.data + name.size - 32;

	if (name.size < 34 || memcmp(digits - 2, "%~", 2) != 0)
		return false;
	for (size_t i = 0; i < 32; i++) {
		if (!strchr("0123456789abcdef", digits[i]))
			return false;
	}
	return true;
}

/* ---- Components ---- */

struct pair {
	enum names_scope scope;
	struct bytes component;
	struct bytes name;
};

/* Both directions hold. */
static const struct pair pairs[] = {
	/* what can be a name is its own */
	{ NAMES_SESSION, BYTES("memory_messages"), BYTES("memory_messages") },
	{ NAMES_SESSION, BYTES("a b"), BYTES("a b") },
	{ NAMES_SESSION, BYTES("a\\b"), BYTES("a\\b") },
	{ NAMES_SESSION, BYTES("..."), BYTES("...") },
	{ NAMES_SESSION, BYTES(".hidden"), BYTES(".hidden") },
	{ NAMES_SESSION, BYTES("\xe6\x97\xa5\xe6\x9c\xac"), BYTES("\xe6\x97\xa5\xe6\x9c\xac") },
	{ NAMES_SESSION, BYTES("\xc2\x85"), BYTES("\xc2\x85") },
	{ NAMES_SESSION, BYTES("~"), BYTES("~") },
	{ NAMES_SESSION, BYTES("100%"), BYTES("100%") },
	{ NAMES_SESSION, BYTES("%%"), BYTES("%%") },
	{ NAMES_SESSION, BYTES("a%zz"), BYTES("a%zz") },
	{ NAMES_SESSION, BYTES("a%41"), BYTES("a%41") },
	{ NAMES_SESSION, BYTES("%2f"), BYTES("%2f") },
	{ NAMES_SESSION, BYTES("%0a"), BYTES("%0a") },
	{ NAMES_SESSION, BYTES("a%2"), BYTES("a%2") },
	{ NAMES_SESSION, BYTES("a%25"), BYTES("a%25") },
	{ NAMES_SESSION, BYTES("a%2541"), BYTES("a%2541") },
	{ NAMES_SESSION, BYTES("%20"), BYTES("%20") },
	{ NAMES_SESSION, BYTES("%E6%97%A5"), BYTES("%E6%97%A5") },
	{ NAMES_SESSION, BYTES("%2Ea"), BYTES("%2Ea") },
	{ NAMES_SESSION, BYTES("%2E."), BYTES("%2E.") },
	{ NAMES_SESSION, BYTES("%2E%2E%2E"), BYTES("%2E%2E%2E") },
	{ NAMES_SESSION, BYTES("%41%2F"), BYTES("%41%2F") },
	{ NAMES_SESSION, BYTES("a%%2Fb"), BYTES("a%%2Fb") },
	{ NAMES_SESSION, BYTES("a%2Fb%"), BYTES("a%2Fb%") },
	{ NAMES_SESSION, BYTES("a%2Fb%2"), BYTES("a%2Fb%2") },
	/* what no file should be called */
	{ NAMES_SESSION, BYTES(""), BYTES("%") },
	{ NAMES_SESSION, BYTES("."), BYTES("%2E") },
	{ NAMES_SESSION, BYTES(".."), BYTES("%2E%2E") },
	{ NAMES_SESSION, BYTES("/"), BYTES("%2F") },
	{ NAMES_SESSION, BYTES("a/b"), BYTES("a%2Fb") },
	{ NAMES_SESSION, BYTES("../../etc"), BYTES("..%2F..%2Fetc") },
	{ NAMES_SESSION, BYTES("\0"), BYTES("%00") },
	{ NAMES_SESSION, BYTES("a\nb\tc\x1f\x7f"), BYTES("a%0Ab%09c%1F%7F") },
	{ NAMES_SESSION, BYTES("\xff"), BYTES("%FF") },
	{ NAMES_SESSION, BYTES("\xe6\xe6\x97\xa5\xe6\x97"), BYTES("%E6\xe6\x97\xa5%E6%97") },
	{ NAMES_SESSION, BYTES("\xed\xa0\x80"), BYTES("%ED%A0%80") },
	{ NAMES_SESSION, BYTES("\xc0\xaf"), BYTES("%C0%AF") },
	{ NAMES_SESSION, BYTES("a/50%"), BYTES("a%2F50%25") },
	{ NAMES_SESSION, BYTES("a/%41"), BYTES("a%2F%2541") },
	{ NAMES_SESSION, BYTES("\n%zz"), BYTES("%0A%25zz") },
	/* what would be taken for something else */
	{ NAMES_SESSION, BYTES("%"), BYTES("%25") },
	{ NAMES_SESSION, BYTES("%25"), BYTES("%2525") },
	{ NAMES_SESSION, BYTES("%2525"), BYTES("%252525") },
	{ NAMES_SESSION, BYTES("%2F"), BYTES("%252F") },
	{ NAMES_SESSION, BYTES("%252F"), BYTES("%25252F") },
	{ NAMES_SESSION, BYTES("%2E"), BYTES("%252E") },
	{ NAMES_SESSION, BYTES("%FF"), BYTES("%25FF") },
	{ NAMES_SESSION, BYTES("a%2Fb"), BYTES("a%252Fb") },
	{ NAMES_SESSION, BYTES("a%2F50%25"), BYTES("a%252F50%2525") },
	{ NAMES_SESSION, BYTES("%~"), BYTES("%25~") },
	{ NAMES_SESSION, BYTES("%25~"), BYTES("%2525~") },
	{ NAMES_SESSION, BYTES("a%~1"), BYTES("a%25~1") },
	{ NAMES_SESSION, BYTES("a/%~"), BYTES("a%2F%25~") },
	{ NAMES_SESSION, BYTES("k%~0123456789abcdef0123456789abcdef"),
	  BYTES("k%25~0123456789abcdef0123456789abcdef") },
	/* in a key %2F is no escape */
	{ NAMES_KEY, BYTES("%2F"), BYTES("%2F") },
	{ NAMES_KEY, BYTES("%252F"), BYTES("%252F") },
	{ NAMES_KEY, BYTES("\n%2F"), BYTES("%0A%252F") },
	{ NAMES_KEY, BYTES("%0A%2F"), BYTES("%0A%2F") },
	{ NAMES_KEY, BYTES(""), BYTES("%") },
	{ NAMES_KEY, BYTES("%"), BYTES("%25") },
	{ NAMES_KEY, BYTES(".."), BYTES("%2E%2E") },
	{ NAMES_KEY, BYTES("a:_hash"), BYTES("a:_hash") },
};

Test(names, ids_and_names_stand_for_each_other)
{
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		const struct pair *is = &pairs[i];
		_cleanup_(buf_done) struct buf name = { 0 };
		_cleanup_(buf_done) struct buf component = { 0 };

		cr_assert_eq(names_encode(is->scope, is->component, NAME_LIMIT, &name), 0);
		cr_expect(bytes_equal(buf_bytes(&name), is->name), "case %zu: %s is shown as %.*s",
			  i, is->component.data, (int)name.size, name.data);
		cr_assert_eq(names_decode(is->scope, is->name, &component), 0);
		cr_expect(bytes_equal(buf_bytes(&component), is->component),
			  "case %zu: %s is read as %.*s", i, is->name.data, (int)component.size,
			  component.data);
	}
}

/* Names that users make and encoding does not: what they mean, and how that would be shown. */
static const struct pair users[] = {
	{ NAMES_SESSION, BYTES("a\nb"), BYTES("a\nb") },
	{ NAMES_SESSION, BYTES("a\nb%2Fc"), BYTES("a\nb%2Fc") },
	{ NAMES_SESSION, BYTES("\x7f"), BYTES("\x7f") },
	{ NAMES_SESSION, BYTES("%FF"), BYTES("\xff") },
	{ NAMES_SESSION, BYTES("caf%E9 %2F"), BYTES("caf\xe9 %2F") },
	{ NAMES_SESSION, BYTES("%E6%97\xe6\x97\xa5"), BYTES("\xe6\x97\xe6\x97\xa5") },
	{ NAMES_SESSION, BYTES("100%~"), BYTES("100%~") },
	{ NAMES_SESSION, BYTES("a%2F%~"), BYTES("a%2F%~") },
	{ NAMES_SESSION, BYTES("k%~0123456789abcdef0123456789abcdef"),
	  BYTES("k%~0123456789abcdef0123456789abcdef") },
	/* stems, which a suffix follows */
	{ NAMES_KEY, BYTES("."), BYTES(".") },
	{ NAMES_KEY, BYTES(".."), BYTES("..") },
	{ NAMES_KEY, BYTES(""), BYTES("") },
};

Test(names, what_only_users_write_means_itself_and_is_shown_escaped)
{
	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		const struct pair *is = &users[i];
		_cleanup_(buf_done) struct buf component = { 0 };
		_cleanup_(buf_done) struct buf name = { 0 };
		_cleanup_(buf_done) struct buf again = { 0 };

		cr_assert_eq(names_decode(is->scope, is->name, &component), 0);
		cr_expect(bytes_equal(buf_bytes(&component), is->component), "case %zu", i);
		cr_assert_eq(names_encode(is->scope, is->component, NAME_LIMIT, &name), 0);
		cr_expect_not(bytes_equal(buf_bytes(&name), is->name), "case %zu", i);
		cr_assert_eq(names_decode(is->scope, buf_bytes(&name), &again), 0);
		cr_expect(bytes_equal(buf_bytes(&again), is->component), "case %zu", i);
	}
}

Test(names, outputs_are_appended)
{
	_cleanup_(buf_done) struct buf out = { 0 };

	cr_assert_eq(buf_append_str(&out, "x"), 0);
	cr_assert_eq(names_encode(NAMES_SESSION, BYTES("a/b"), NAME_LIMIT, &out), 0);
	cr_assert_eq(names_encode(NAMES_SESSION, BYTES("c"), NAME_LIMIT, &out), 0);
	cr_assert_eq(names_decode(NAMES_SESSION, BYTES("%2F"), &out), 0);
	cr_assert_eq(names_decode(NAMES_SESSION, BYTES("d"), &out), 0);

	cr_expect(bytes_equal(buf_bytes(&out), BYTES("xa%2Fbc/d")));
}

/* ---- Cut names ---- */

static void fill(struct buf *buf, struct bytes unit, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(buf_append_bytes(buf, unit), 0);
}

struct long_case {
	struct bytes unit;
	size_t count;
	size_t limit;
	size_t name; /* bytes of the name */
	bool cut;
};

static const struct long_case long_cases[] = {
	{ BYTES("x"), 255, 255, 255, false },
	{ BYTES("x"), 256, 255, 255, true },
	{ BYTES("x"), 250, 250, 250, false },
	{ BYTES("x"), 251, 250, 250, true },
	{ BYTES("x"), 4000, 255, 255, true },
	{ BYTES("x"), 4000, 64, 64, true },
	{ BYTES("\n"), 85, 255, 255, false },
	{ BYTES("\n"), 86, 255, 73 * 3 + 34, true }, /* 221 = 73 escapes and 2 */
	{ BYTES("\n"), 85, 254, 73 * 3 + 34, true },
	{ BYTES("\xe6\x97\xa5"), 85, 255, 255, false },
	{ BYTES("\xe6\x97\xa5"), 86, 255, 73 * 3 + 34, true },
	{ BYTES("\xf0\x9f\x98\x80"), 64, 255, 55 * 4 + 34, true }, /* 221 = 55 characters and 1 */
	{ BYTES("\xff"), 4000, 255, 73 * 3 + 34, true },
	{ BYTES("/.."), 1000, 255, 44 * 5 + 34, true },
};

Test(names, a_name_over_the_limit_is_cut_between_characters)
{
	for (size_t i = 0; i < ARRAY_SIZE(long_cases); i++) {
		const struct long_case *is = &long_cases[i];
		_cleanup_(buf_done) struct buf component = { 0 };
		_cleanup_(buf_done) struct buf name = { 0 };

		fill(&component, is->unit, is->count);
		cr_assert_eq(names_encode(NAMES_SESSION, buf_bytes(&component), is->limit, &name),
			     0);

		cr_expect_eq(name.size, is->name, "case %zu: %zu bytes", i, name.size);
		cr_expect_eq(is_cut(buf_bytes(&name)), is->cut, "case %zu: %.*s", i, (int)name.size,
			     name.data);
		cr_expect(is_legal_name(buf_bytes(&name), is->limit));
		cr_expect(utf8_valid(buf_bytes(&name)));
	}
}

/* Stores hold these names' nodes by their keys, but people keep them in scripts. */
Test(names, a_cut_name_never_changes_between_versions)
{
	_cleanup_(buf_done) struct buf component = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };

	fill(&component, BYTES("0123456789"), 26);
	cr_assert_eq(names_encode(NAMES_SESSION, buf_bytes(&component), 64, &name), 0);
	cr_assert_eq(buf_append_byte(&name, '\0'), 0);

	cr_expect_str_eq(name.data,
			 "012345678901234567890123456789%~87b3a6c43c414bb957e6c0706068569e");
}

Test(names, cut_names_of_ids_that_differ_at_the_end_differ)
{
	_cleanup_(buf_done) struct buf component = { 0 };
	char seen[256][NAME_LIMIT];

	fill(&component, BYTES("y"), 4000);
	for (size_t i = 0; i < 256; i++) {
		_cleanup_(buf_done) struct buf name = { 0 };

		component.data[component.size - 1] = (char)i;
		cr_assert_eq(names_encode(NAMES_KEY, buf_bytes(&component), NAME_LIMIT, &name), 0);
		cr_assert_eq(name.size, NAME_LIMIT);
		memcpy(seen[i], name.data, NAME_LIMIT);
		for (size_t before = 0; before < i; before++)
			cr_assert_neq(memcmp(seen[i], seen[before], NAME_LIMIT), 0);
	}
}

Test(names, a_limit_too_small_for_a_cut_name_is_refused)
{
	_cleanup_(buf_done) struct buf name = { 0 };

	cr_expect_eq(names_encode(NAMES_KEY, BYTES("a"), NAME_LIMIT_MIN - 1, &name), -EINVAL);
	cr_expect_eq(name.size, 0);
}

/* ---- Properties ---- */

/* Pieces that meet in the corners of the encoding; many components are made from a few of them, so
 * that equal and nearly equal ones come up. */
static const struct bytes pieces[] = {
	BYTES("%"),
	BYTES("%"),
	BYTES("25"),
	BYTES("2F"),
	BYTES("2E"),
	BYTES("0A"),
	BYTES("FF"),
	BYTES("E6"),
	BYTES("97"),
	BYTES("A5"),
	BYTES("~"),
	BYTES("/"),
	BYTES("."),
	BYTES(".."),
	BYTES("\n"),
	BYTES("\0"),
	BYTES("\xe6"),
	BYTES("\x97"),
	BYTES("\xa5"),
	BYTES("\xff"),
	BYTES("\x7f"),
	BYTES("a"),
	BYTES("2f"),
	BYTES("%2F"),
	BYTES("%25"),
	BYTES("%7F"),
	BYTES("%00"),
	BYTES(".json"),
	BYTES(":_hash"),
	BYTES("%E6%97%A5"),
	BYTES("\xe6\x97\xa5"),
	BYTES("%~0123456789abcdef0123456789abcdef"),
};

static void random_component(uint64_t *random, enum names_scope scope, struct buf *ret)
{
	size_t count = random_below(random, 7);

	buf_clear(ret);
	if (random_below(random, 4) == 0) { /* any bytes at all */
		size_t size = random_below(random, random_below(random, 20) ? 8 : 400);

		for (size_t i = 0; i < size; i++)
			cr_assert_eq(buf_append_byte(ret, (char)random_next(random)), 0);
	} else {
		if (random_below(random, 50) == 0)
			count += 100;
		while (count--) {
			struct bytes piece = pieces[random_below(random, ARRAY_SIZE(pieces))];

			cr_assert_eq(buf_append_bytes(ret, piece), 0);
		}
	}
	for (size_t i = 0; scope == NAMES_KEY && i < ret->size; i++)
		ret->data[i] = ret->data[i] == '/' ? '_' : ret->data[i];
}

/* What was encoded to a name before, to see two components that share one. */
struct seen {
	struct bytes name;
	struct bytes component;
};

static int seen_compare(const void *a, const void *b)
{
	return bytes_compare(((const struct seen *)a)->name, ((const struct seen *)b)->name);
}

static void seen_free(void *node)
{
	struct seen *seen = node;

	free((char *)seen->name.data);
	free((char *)seen->component.data);
	free(seen);
}

static void expect_name_is_of_one(void **tree, struct bytes name, struct bytes component)
{
	struct seen *seen = calloc(1, sizeof(*seen)), **found;

	cr_assert_not_null(seen);
	seen->name = bytes_make(bytes_dup(name), name.size);
	seen->component = bytes_make(bytes_dup(component), component.size);
	found = tsearch(seen, tree, seen_compare);
	cr_assert_not_null(found);
	cr_assert(bytes_equal((*found)->component, component), "%.*s is the name of two ids",
		  (int)name.size, name.data);
	if (*found != seen)
		seen_free(seen);
}

static void check_random_components(enum names_scope scope, uint64_t random, int count)
{
	_cleanup_(buf_done) struct buf component = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(buf_done) struct buf again = { 0 };
	int cut = 0, own = 0, escaped = 0;
	void *tree = NULL;

	while (count--) {
		struct bytes id, shown;

		random_component(&random, scope, &component);
		buf_clear(&name);
		buf_clear(&again);
		cr_assert_eq(names_encode(scope, buf_bytes(&component), 250, &name), 0);
		cr_assert_eq(names_decode(scope, buf_bytes(&name), &again), 0);

		id = buf_bytes(&component);
		shown = buf_bytes(&name);
		cr_assert(is_legal_name(shown, 250), "%.*s", (int)shown.size, shown.data);
		cr_assert(utf8_valid(shown) && !has_control(shown));
		cr_assert(!has_cut_sign(shown) || is_cut(shown));
		if (is_cut(shown))
			cut++;
		else
			cr_assert(bytes_equal(buf_bytes(&again), id), "%.*s", (int)shown.size,
				  shown.data);
		own += bytes_equal(shown, id);
		escaped += !bytes_equal(shown, id);
		expect_name_is_of_one(&tree, shown, id);
	}
	tdestroy(tree, seen_free);
	cr_expect_gt(cut, 1000);
	cr_expect_gt(own, 10000);
	cr_expect_gt(escaped, 10000);
}

Test(names, random_session_ids_come_back_from_names_of_their_own)
{
	check_random_components(NAMES_SESSION, random_seed("session ids"), 150000);
}

Test(names, random_parts_of_keys_come_back_from_names_of_their_own)
{
	check_random_components(NAMES_KEY, random_seed("parts of keys") + 1, 150000);
}

/* Exhaustive: all strings of up to five letters of an alphabet on which the encoding decides. */
Test(names, short_names_and_ids_are_one_to_one)
{
	static const char letters[] = { '%', '2', '5', 'F', 'E', '.', '~', '/', '\n', '\xff' };
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(buf_done) struct buf again = { 0 };
	void *tree = NULL;

	for (size_t size = 0, count = 1; size <= 5; size++, count *= sizeof(letters)) {
		for (size_t n = 0; n < count; n++) {
			char text[5];
			size_t rest = n;

			for (size_t i = 0; i < size; i++, rest /= sizeof(letters))
				text[i] = letters[rest % sizeof(letters)];
			buf_clear(&name);
			buf_clear(&again);
			cr_assert_eq(names_encode(NAMES_SESSION, bytes_make(text, size), NAME_LIMIT,
						  &name),
				     0);
			cr_assert_eq(names_decode(NAMES_SESSION, buf_bytes(&name), &again), 0);
			cr_assert(bytes_equal(buf_bytes(&again), bytes_make(text, size)));
			expect_name_is_of_one(&tree, buf_bytes(&name), bytes_make(text, size));
		}
	}
	tdestroy(tree, seen_free);
}

/* The other direction: what a user calls a file. */
Test(names, random_names_come_back_unless_only_users_write_them)
{
	uint64_t random = random_seed("names") + 2;
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(buf_done) struct buf component = { 0 };
	_cleanup_(buf_done) struct buf again = { 0 };
	int same = 0, decoded = 0, users_only = 0;

	for (int i = 0; i < 200000; i++) {
		struct bytes given;
		bool ours, back;

		random_component(&random, NAMES_SESSION, &name);
		given = buf_bytes(&name);
		if (!is_legal_name(given, NAME_LIMIT))
			continue;
		buf_clear(&component);
		buf_clear(&again);
		cr_assert_eq(names_decode(NAMES_SESSION, given, &component), 0);
		cr_assert_eq(names_encode(NAMES_SESSION, buf_bytes(&component), NAME_LIMIT, &again),
			     0);

		ours = utf8_valid(given) && !has_control(given) && !has_cut_sign(given);
		back = bytes_equal(buf_bytes(&again), given);
		cr_assert_eq(back, ours, "%.*s", (int)given.size, given.data);
		same += ours && bytes_equal(buf_bytes(&component), given);
		decoded += ours && !bytes_equal(buf_bytes(&component), given);
		users_only += !ours;
	}
	cr_expect_gt(same, 10000);
	cr_expect_gt(decoded, 1000);
	cr_expect_gt(users_only, 10000);
}

/* ---- Views ---- */

static const struct {
	struct bytes name;
	uint32_t kind;
	struct bytes stem;
} splits[] = {
	{ BYTES("k.json"), BACKEND_SINGLE, BYTES("k") },
	{ BYTES("k.jsonl"), BACKEND_LIST, BYTES("k") },
	{ BYTES("k.hash"), BACKEND_HASH, BYTES("k") },
	{ BYTES("x.hash"), BACKEND_HASH, BYTES("x") },
	{ BYTES("a.json.jsonl"), BACKEND_LIST, BYTES("a.json") },
	{ BYTES(".k.json"), BACKEND_SINGLE, BYTES(".k") },
	{ BYTES("..json"), BACKEND_SINGLE, BYTES(".") },
	{ BYTES("%.json"), BACKEND_SINGLE, BYTES("%") },
	{ BYTES("a:_hash.json"), BACKEND_SINGLE, BYTES("a:_hash") },
	{ BYTES(".json"), BACKEND_ORDINARY, BYTES(".json") },
	{ BYTES(".jsonl"), BACKEND_ORDINARY, BYTES(".jsonl") },
	{ BYTES(".hash"), BACKEND_ORDINARY, BYTES(".hash") },
	{ BYTES("json"), BACKEND_ORDINARY, BYTES("json") },
	{ BYTES("k.JSON"), BACKEND_ORDINARY, BYTES("k.JSON") },
	{ BYTES("k.json.tmp"), BACKEND_ORDINARY, BYTES("k.json.tmp") },
	{ BYTES("k.json~"), BACKEND_ORDINARY, BYTES("k.json~") },
	{ BYTES("k"), BACKEND_ORDINARY, BYTES("k") },
	{ BYTES(""), BACKEND_ORDINARY, BYTES("") },
};

Test(names, the_suffix_tells_the_view)
{
	for (size_t i = 0; i < ARRAY_SIZE(splits); i++) {
		struct names_split split = names_split(splits[i].name);

		cr_expect_eq(split.kind, splits[i].kind, "%s", splits[i].name.data);
		cr_expect(bytes_equal(split.stem, splits[i].stem), "%s", splits[i].name.data);
	}
	cr_expect(bytes_equal(names_suffix(BACKEND_LIST), BYTES(".jsonl")));
	cr_expect_eq(names_suffix(BACKEND_ORDINARY).size, 0);
	cr_expect_eq(names_suffix(BACKEND_SESSION).size, 0);
}

/* ---- Keys ---- */

struct place {
	struct bytes key;
	uint32_t kind;
	struct bytes path; /* names joined by '/' */
};

/* Both directions hold. */
static const struct place places[] = {
	{ BYTES("k"), BACKEND_SINGLE, BYTES("k.json") },
	{ BYTES("k"), BACKEND_LIST, BYTES("k.jsonl") },
	{ BYTES("k:_hash"), BACKEND_HASH, BYTES("k.hash") },
	{ BYTES("a/b/k"), BACKEND_SINGLE, BYTES("a/b/k.json") },
	{ BYTES("a/b/k:_hash"), BACKEND_HASH, BYTES("a/b/k.hash") },
	{ BYTES(""), BACKEND_SINGLE, BYTES("%.json") },
	{ BYTES(":_hash"), BACKEND_HASH, BYTES("%.hash") },
	{ BYTES("/"), BACKEND_LIST, BYTES("%/%.jsonl") },
	{ BYTES("//k"), BACKEND_SINGLE, BYTES("%/%/k.json") },
	{ BYTES("a/"), BACKEND_SINGLE, BYTES("a/%.json") },
	{ BYTES("../../etc/passwd"), BACKEND_SINGLE, BYTES("%2E%2E/%2E%2E/etc/passwd.json") },
	{ BYTES("."), BACKEND_SINGLE, BYTES("%2E.json") },
	{ BYTES("./.."), BACKEND_LIST, BYTES("%2E/%2E%2E.jsonl") },
	{ BYTES("k\n"), BACKEND_LIST, BYTES("k%0A.jsonl") },
	{ BYTES("k.json"), BACKEND_SINGLE, BYTES("k.json.json") },
	{ BYTES("k.json"), BACKEND_LIST, BYTES("k.json.jsonl") },
	{ BYTES("a%2Fb"), BACKEND_SINGLE, BYTES("a%2Fb.json") },
	{ BYTES("%"), BACKEND_SINGLE, BYTES("%25.json") },
	/* a sidecar's key is not to be had by another name */
	{ BYTES("a:_hash.json"), BACKEND_SINGLE, BYTES("a:_hash.json") },
	{ BYTES("a:_hash.json.json"), BACKEND_SINGLE, BYTES("a:_hash.json.json") },
	{ BYTES("a:_hash.jsonl"), BACKEND_LIST, BYTES("a:_hash.jsonl") },
	{ BYTES("a:_hash.json"), BACKEND_LIST, BYTES("a:_hash.json.jsonl") },
	{ BYTES("d/:_hash.json"), BACKEND_SINGLE, BYTES("d/:_hash.json") },
	{ BYTES("d:_hash/k"), BACKEND_SINGLE, BYTES("d:_hash/k.json") },
	{ BYTES("a:_hash:_hash"), BACKEND_HASH, BYTES("a:_hash.hash") },
};

struct walk {
	struct buf path;
	struct bytes file; /* the part of path behind the last slash */
	size_t calls;
	size_t lasts;
	bool illegal;
};

static int walk_component(void *arg, struct bytes name, bool last)
{
	struct walk *walk = arg;

	walk->calls++;
	walk->lasts += last;
	walk->illegal |= !is_legal_name(name, NAME_LIMIT);
	cr_assert_eq(buf_append_bytes(&walk->path, name), 0);
	if (!last)
		cr_assert_eq(buf_append_byte(&walk->path, '/'), 0);
	walk->file = bytes_make(walk->path.data + walk->path.size - name.size, name.size);
	return 0;
}

static void walk_done(struct walk *walk)
{
	buf_done(&walk->path);
}

/* The key of a path below a session. */
static void key_of(struct bytes path, struct buf *key)
{
	_cleanup_(buf_done) struct buf dirs = { 0 };
	const char *slash;

	while ((slash = memchr(path.data, '/', path.size))) {
		size_t size = (size_t)(slash - path.data);

		cr_assert_eq(names_decode(NAMES_KEY, bytes_make(path.data, size), &dirs), 0);
		cr_assert_eq(buf_append_byte(&dirs, '/'), 0);
		path = bytes_make(slash + 1, path.size - size - 1);
	}
	cr_assert_eq(names_key(buf_bytes(&dirs), path, key), 0);
}

Test(names, keys_and_paths_stand_for_each_other)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const struct place *is = &places[i];
		_cleanup_(walk_done) struct walk walk = { 0 };
		_cleanup_(buf_done) struct buf key = { 0 };

		cr_assert_eq(names_path(is->key, is->kind, 0, walk_component, &walk), 0);
		cr_expect(bytes_equal(buf_bytes(&walk.path), is->path), "%s is shown at %.*s",
			  is->key.data, (int)walk.path.size, walk.path.data);
		cr_expect_eq(walk.lasts, 1);
		key_of(is->path, &key);
		cr_expect(bytes_equal(buf_bytes(&key), is->key), "%s has the key %.*s",
			  is->path.data, (int)key.size, key.data);
	}
}

Test(names, of_documents_end_in_a_number_or_not)
{
	static const struct {
		struct bytes name;
		int64_t number; /* -1: none */
	} cases[] = {
		{ BYTES("7.json"), 7 },
		{ BYTES("message_7.json"), 7 },
		{ BYTES("message_10.json"), 10 },
		{ BYTES("0.json"), 0 },
		{ BYTES("a000.json"), 0 },
		{ BYTES("007.json"), 7 },
		{ BYTES("1-2.json"), 2 },
		{ BYTES("message_-1.json"), 1 },
		{ BYTES("a b\n3.json"), 3 },
		{ BYTES("9223372036854775807.json"), INT64_MAX },
		{ BYTES("00000000000000000000000009223372036854775807.json"), INT64_MAX },
		{ BYTES("9223372036854775808.json"), -1 },
		{ BYTES("x18446744073709551617.json"), -1 },
		{ BYTES("10000000000000000000.json"), -1 },
		{ BYTES("100000000000000000000.json"), -1 },
		{ BYTES("message_.json"), -1 },
		{ BYTES("message.json"), -1 },
		{ BYTES("7a.json"), -1 },
		{ BYTES("7 .json"), -1 },
		{ BYTES(".json"), -1 },
		{ BYTES("7.jsonl"), -1 },
		{ BYTES("7.hash"), -1 },
		{ BYTES("7.json.tmp"), -1 },
		{ BYTES("7"), -1 },
		{ BYTES("7.JSON"), -1 },
		{ BYTES("\xd9\xa7.json"), -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t number = -1;
		bool has = names_number(cases[i].name, &number);

		cr_expect_eq(has, cases[i].number >= 0, "%s", cases[i].name.data);
		cr_expect_eq(number, cases[i].number, "%s: %lld", cases[i].name.data,
			     (long long)number);
	}
}

Test(names, an_ordinary_file_has_no_key)
{
	_cleanup_(buf_done) struct buf key = { 0 };

	cr_expect_eq(names_key(BYTES("a/"), BYTES(".json"), &key), -EINVAL);
	cr_expect_eq(names_key(BYTES("a/"), BYTES("k.txt"), &key), -EINVAL);
	cr_expect_eq(key.size, 0);
}

Test(names, rows_of_no_view_have_no_path)
{
	struct walk walk = { 0 };

	cr_expect_eq(names_path(BYTES("k"), BACKEND_ORDINARY, 0, walk_component, &walk), -EINVAL);
	cr_expect_eq(names_path(BYTES("k"), BACKEND_SESSION, 0, walk_component, &walk), -EINVAL);
	cr_expect_eq(walk.calls, 0);
}

static const struct {
	struct bytes dirs, name;
	unsigned attempt;
	struct bytes key;
} own_keys[] = {
	{ BYTES(""), BYTES("k.jsonl"), 0, BYTES("k.jsonl") },
	{ BYTES("a/"), BYTES("k.jsonl"), 0, BYTES("a/k.jsonl") },
	{ BYTES("a/"), BYTES("k.json"), 3, BYTES("a/k.json~3") },
	{ BYTES(""), BYTES("%0A.json"), 0, BYTES("\n.json") },
	{ BYTES(""), BYTES("\xff.json"), 1, BYTES("%FF.json~1") },
	{ BYTES(""), BYTES("k.hash"), 0, BYTES("k.hash:_hash") },
	{ BYTES(""), BYTES("k.hash"), 12, BYTES("k.hash~12:_hash") },
};

Test(names, a_file_whose_key_is_taken_gets_one_that_says_its_name)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_keys); i++) {
		_cleanup_(buf_done) struct buf key = { 0 };

		cr_assert_eq(names_own_key(own_keys[i].dirs, own_keys[i].name, own_keys[i].attempt,
					   &key),
			     0);
		cr_expect(bytes_equal(buf_bytes(&key), own_keys[i].key), "%s: %.*s",
			  own_keys[i].name.data, (int)key.size, key.data);
	}
}

Test(names, a_row_whose_name_is_taken_is_shown_under_a_numbered_one)
{
	static const struct {
		struct bytes key;
		uint32_t kind;
		unsigned attempt;
		struct bytes path;
	} cases[] = {
		{ BYTES("k"), BACKEND_SINGLE, 1, BYTES("k%~1.json") },
		{ BYTES("a/k"), BACKEND_LIST, 42, BYTES("a/k%~42.jsonl") },
		{ BYTES("k:_hash"), BACKEND_HASH, 4294967295, BYTES("k%~4294967295.hash") },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(walk_done) struct walk walk = { 0 };

		cr_assert_eq(names_path(cases[i].key, cases[i].kind, cases[i].attempt,
					walk_component, &walk),
			     0);
		cr_expect(bytes_equal(buf_bytes(&walk.path), cases[i].path), "%.*s",
			  (int)walk.path.size, walk.path.data);
	}
}

static int stop_at_second(void *arg, struct bytes name, bool last)
{
	int *calls = arg;

	(void)name;
	(void)last;
	return ++*calls == 2 ? -ENOSPC : 0;
}

Test(names, a_path_ends_where_the_caller_stops)
{
	int calls = 0;

	cr_expect_eq(names_path(BYTES("a/b/c/d"), BACKEND_SINGLE, 0, stop_at_second, &calls),
		     -ENOSPC);
	cr_expect_eq(calls, 2);
}

Test(names, no_random_key_leads_out_of_its_session_and_each_comes_back)
{
	static const uint32_t kinds[] = { BACKEND_SINGLE, BACKEND_LIST, BACKEND_HASH };
	uint64_t random = random_seed("keys") + 3;
	int back = 0, cut = 0;

	for (int i = 0; i < 200000; i++) {
		_cleanup_(buf_done) struct buf key = { 0 };
		_cleanup_(buf_done) struct buf again = { 0 };
		_cleanup_(walk_done) struct walk walk = { 0 };
		uint32_t kind = kinds[random_below(&random, ARRAY_SIZE(kinds))];
		unsigned attempt = random_below(&random, 8) ? 0 : (unsigned)random_next(&random);
		size_t slashes = 0;

		random_component(&random, NAMES_SESSION, &key);
		if (kind == BACKEND_HASH)
			cr_assert_eq(buf_append_bytes(&key, names_hash_suffix), 0);
		for (size_t at = 0; at < key.size; at++)
			slashes += key.data[at] == '/';
		cr_assert_eq(names_path(buf_bytes(&key), kind, attempt, walk_component, &walk), 0);

		cr_assert_not(walk.illegal, "%.*s", (int)walk.path.size, walk.path.data);
		cr_assert_eq(walk.calls, slashes + 1);
		cr_assert_eq(names_split(walk.file).kind, kind);
		if (attempt ||
		    (kind != BACKEND_HASH && bytes_ends_with(buf_bytes(&key), names_hash_suffix)))
			continue;
		if (has_cut_sign(buf_bytes(&walk.path))) {
			cut++;
			continue;
		}
		key_of(buf_bytes(&walk.path), &again);
		cr_assert(bytes_equal(buf_bytes(&again), buf_bytes(&key)), "%.*s",
			  (int)walk.path.size, walk.path.data);
		back++;
	}
	cr_expect_gt(back, 100000);
	cr_expect_gt(cut, 1000);
}

/* The key of a state never is a sidecar's, whatever the file is called. */
Test(names, no_random_name_of_a_state_has_a_sidecars_key)
{
	uint64_t random = random_seed("names of states") + 4;

	for (int i = 0; i < 100000; i++) {
		_cleanup_(buf_done) struct buf name = { 0 };
		_cleanup_(buf_done) struct buf key = { 0 };
		_cleanup_(buf_done) struct buf own = { 0 };
		bool hash;

		random_component(&random, NAMES_KEY, &name);
		if (random_below(&random, 2))
			cr_assert_eq(buf_append_str(&name, ":_hash"), 0);
		cr_assert_eq(buf_append_str(&name, random_below(&random, 2) ? ".json" : ".hash"),
			     0);
		if (names_split(buf_bytes(&name)).kind == BACKEND_ORDINARY)
			continue;
		hash = names_split(buf_bytes(&name)).kind == BACKEND_HASH;
		cr_assert_eq(names_key(BYTES("d/"), buf_bytes(&name), &key), 0);
		cr_assert_eq(names_own_key(BYTES("d/"), buf_bytes(&name), (unsigned)i % 3, &own),
			     0);

		cr_assert_eq(bytes_ends_with(buf_bytes(&key), names_hash_suffix), hash);
		cr_assert_eq(bytes_ends_with(buf_bytes(&own), names_hash_suffix), hash);
		cr_assert(utf8_valid(buf_bytes(&key)) || memchr(name.data, '%', name.size));
	}
}

/* ---- Without memory ---- */

static int calls_encode_plain(struct buf *out)
{
	return names_encode(NAMES_SESSION, BYTES("a%25"), NAME_LIMIT, out);
}

static int calls_encode_escaped(struct buf *out)
{
	return names_encode(NAMES_SESSION, BYTES("a%252F\n"), NAME_LIMIT, out);
}

static int calls_encode_cut(struct buf *out)
{
	static const char zeros[1000];

	return names_encode(NAMES_SESSION, bytes_make(zeros, sizeof(zeros)), NAME_LIMIT, out);
}

static int calls_decode(struct buf *out)
{
	return names_decode(NAMES_SESSION, BYTES("a%25252F"), out);
}

static int calls_decode_text(struct buf *out)
{
	return names_decode(NAMES_SESSION, BYTES("\xff"), out);
}

static int calls_key(struct buf *out)
{
	return names_key(BYTES("d/"), BYTES("%0A:_hash.json"), out);
}

static int calls_own_key(struct buf *out)
{
	return names_own_key(BYTES("d/"), BYTES("%0A.hash"), 1, out);
}

static int append_component(void *arg, struct bytes name, bool last)
{
	(void)last;
	return buf_append_bytes(arg, name);
}

static int calls_path(struct buf *out)
{
	size_t size = out->size;
	int r = names_path(BYTES("\n/%/k"), BACKEND_LIST, 1, append_component, out);

	if (r < 0)
		out->size = size; /* what the callback has done is its own */
	return r;
}

typedef int call_fn(struct buf *out);

static call_fn *const calls[] = {
	calls_encode_plain, calls_encode_escaped, calls_encode_cut, calls_decode, calls_decode_text,
	calls_key,	    calls_own_key,	  calls_path,
};

Test(names, without_memory_each_function_says_so_and_leaves_its_output)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		unsigned nth = 0;
		int r;

		do {
			_cleanup_(buf_done) struct buf out = { 0 };

			failing_alloc_at(++nth);
			r = calls[i](&out);
			failing_alloc_at(0);
			if (r < 0) {
				cr_assert_eq(r, -ENOMEM, "call %zu: %d", i, r);
				cr_expect_eq(out.size, 0, "call %zu, allocation %u", i, nth);
			} else {
				cr_expect_gt(out.size, 0);
			}
			cr_assert_lt(nth, 1000);
		} while (r < 0);
		cr_expect_gt(nth, 1, "call %zu allocates nothing", i);
	}
}
