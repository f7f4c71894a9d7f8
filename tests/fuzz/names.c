/* SPDX-License-Identifier: MIT */

/*
 * Ids to names and back, as fs/base/names.h promises: every name that is made can stand in a
 * directory, two ids never have one name, and nothing leads out of a session.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "fs/base/names.h"
#include "backend/base/utf8.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_name[] = "names";
const unsigned fuzz_runs = 25000;
const struct bytes fuzz_words[] = {
	BYTES("/"),	   BYTES("%2F"),
	BYTES("%~"),	   BYTES("%25"),
	BYTES("."),	   BYTES(".."),
	BYTES(".json"),	   BYTES(".jsonl"),
	BYTES(".hash"),	   BYTES(":_hash"),
	BYTES("%"),	   BYTES("%2E"),
	BYTES("\n"),	   BYTES("\xff"),
	BYTES("\xc3\xa9"), BYTES("%E2%82"),
	BYTES("\0"),	   BYTES("~1"),
	BYTES("%~1"),	   BYTES("7"),
	BYTES("0"),	   BYTES("9223372036854775807"),
	{ NULL, 0 },
};

static const char *const seeds[] = {
	"demo/messages",
	"a/b/c/agent.json",
	"..",
	".",
	"a/../../b",
	"%2F",
	"100%",
	"a%zz",
	"a\nb",
	"\xff\xfe",
	"k:_hash",
	"k:_hash.json",
	".jsonl",
	"a/.hash",
	"\xe6\x97\xa5/\xe6\x9c\xac",
	"a//b/",
	"%",
	"%~",
	"a%2F%25~",
	"%252F",
	"message_7.json",
	"a007.json",
	"9223372036854775807.json",
	"09223372036854775808.json",
};

bool fuzz_seed(unsigned n, struct buf *seed)
{
	const uint8_t head[] = { (uint8_t)n, (uint8_t)(n * 37) };
	size_t count = ARRAY_SIZE(seeds);

	if (n >= 2 * count)
		return false;
	fuzz_put(seed, head, sizeof(head));
	/* Twice as long: names that must be cut. */
	for (unsigned i = 0; i < (n < count ? 1 : 40); i++)
		fuzz_put(seed, seeds[n % count], strlen(seeds[n % count]));
	return true;
}

static bool has_control(struct bytes name)
{
	for (size_t i = 0; i < name.size; i++)
		if ((unsigned char)name.data[i] < 0x20 || name.data[i] == 0x7f)
			return true;
	return false;
}

static bool has(struct bytes bytes, const char *word)
{
	return bytes.size && memmem(bytes.data, bytes.size, word, strlen(word));
}

static bool is(struct bytes bytes, const char *word)
{
	return bytes_equal(bytes, bytes_str(word));
}

/* Whether it can stand in a directory, and shows on a screen. */
static void check_name(struct bytes name, size_t limit)
{
	fuzz_check(name.size >= 1 && name.size <= limit, "%zu bytes", name.size);
	fuzz_check(!memchr(name.data, '/', name.size), "a slash");
	fuzz_check(!has_control(name), "a control character");
	fuzz_check(!is(name, ".") && !is(name, ".."), "a dot name");
	fuzz_check(utf8_valid(name), "not UTF-8");
}

static bool decodes_to(enum names_scope scope, struct bytes name, struct bytes component)
{
	_cleanup_(buf_done) struct buf back = { 0 };

	fuzz_need(names_decode(scope, name, &back) == 0);
	return bytes_equal(buf_bytes(&back), component);
}

/* A component of a key has no slash. */
static struct bytes component_of(enum names_scope scope, struct bytes text)
{
	const char *slash = text.size ? memchr(text.data, '/', text.size) : NULL;

	return scope == NAMES_KEY && slash ? bytes_make(text.data, (size_t)(slash - text.data)) :
					     text;
}

static void encode(enum names_scope scope, struct bytes component, size_t limit, struct buf *name)
{
	int r = names_encode(scope, component, limit, name);

	fuzz_check((r == -EINVAL) == (limit < NAME_LIMIT_MIN), "limit %zu: %d", limit, r);
	fuzz_check(r == 0 || !name->size, "a name in spite of an error");
}

static void try_component(enum names_scope scope, struct bytes component, size_t limit)
{
	_cleanup_(buf_done) struct buf name = { 0 };

	encode(scope, component, limit, &name);
	if (!name.size)
		return;
	check_name(buf_bytes(&name), limit);
	if (!has(buf_bytes(&name), "%~"))
		fuzz_check(decodes_to(scope, buf_bytes(&name), component), "%.*s is another id",
			   (int)name.size, name.data);
}

static void try_two(enum names_scope scope, struct bytes a, struct bytes b, size_t limit)
{
	_cleanup_(buf_done) struct buf name_a = { 0 };
	_cleanup_(buf_done) struct buf name_b = { 0 };

	limit = MAX(limit, (size_t)NAME_LIMIT_MIN);
	if (bytes_equal(a, b))
		return;
	encode(scope, a, limit, &name_a);
	encode(scope, b, limit, &name_b);
	fuzz_check(!bytes_equal(buf_bytes(&name_a), buf_bytes(&name_b)), "two ids are %.*s",
		   (int)name_a.size, name_a.data);
}

/* What a user may call a file. */
static bool can_be_name(struct bytes name)
{
	return name.size >= 1 && name.size <= NAME_LIMIT && !memchr(name.data, '/', name.size) &&
	       !memchr(name.data, '\0', name.size) && !is(name, ".") && !is(name, "..");
}

static void try_decode(enum names_scope scope, struct bytes name)
{
	_cleanup_(buf_done) struct buf component = { 0 };
	_cleanup_(buf_done) struct buf again = { 0 };

	fuzz_need(names_decode(scope, name, &component) == 0);
	if (scope == NAMES_KEY)
		fuzz_check(!component.size || !memchr(component.data, '/', component.size),
			   "a slash in a component of a key");
	if (!utf8_valid(name))
		fuzz_check(utf8_valid(buf_bytes(&component)), "rows hold text");
	if (!utf8_valid(name) || has_control(name) || has(name, "%~"))
		return;
	encode(scope, buf_bytes(&component), NAME_LIMIT, &again);
	fuzz_check(bytes_equal(buf_bytes(&again), name), "%.*s comes back as %.*s", (int)name.size,
		   name.data, (int)again.size, again.data);
}

/* A file of this name: its key, and the key of its own. */
static void try_file(struct bytes name)
{
	struct names_split split = names_split(name);
	_cleanup_(buf_done) struct buf key = { 0 };
	_cleanup_(buf_done) struct buf own = { 0 };
	bool is_state = split.kind != BACKEND_ORDINARY;
	int r = names_key(BYTES("a/b/"), name, &key);

	fuzz_check(r == (is_state ? 0 : -EINVAL), "%d", r);
	if (!is_state)
		return;
	fuzz_check(split.stem.size + names_suffix(split.kind).size == name.size, "the stem");
	fuzz_check(split.stem.size > 0, "no key is left");
	fuzz_check(memcmp(key.data, "a/b/", 4) == 0, "the key leaves its directory");
	fuzz_check(!memchr(key.data + 4, '/', key.size - 4), "the key leaves its directory");
	fuzz_check(bytes_ends_with(buf_bytes(&key), names_hash_suffix) ==
			   (split.kind == BACKEND_HASH),
		   "%.*s of kind %u", (int)key.size, key.data, split.kind);
	fuzz_need(names_own_key(BYTES("a/b/"), name, 1, &own) == 0);
	fuzz_check(!bytes_equal(buf_bytes(&key), buf_bytes(&own)), "its own key is the same");
}

/* The digits before ".json", as the C library reads them. */
static void try_number(struct bytes name)
{
	struct names_split split = names_split(name);
	char digits[256] = "";
	int64_t number = -1;
	size_t first = split.stem.size;
	bool has = false;

	while (first && strchr("0123456789", split.stem.data[first - 1]) &&
	       split.stem.data[first - 1])
		first--;
	if (split.kind == BACKEND_SINGLE && first < split.stem.size &&
	    split.stem.size - first < sizeof(digits)) {
		memcpy(digits, split.stem.data + first, split.stem.size - first);
		errno = 0;
		number = strtoll(digits, NULL, 10);
		has = errno == 0;
	}
	if (split.stem.size - first < sizeof(digits)) {
		int64_t seen = -1;

		fuzz_check(names_number(name, &seen) == has, "a number, or none: %s", digits);
		fuzz_check(!has || seen == number, "%lld is not %s", (long long)seen, digits);
	}
}

struct path {
	struct buf dirs; /* decoded, each with a slash behind it */
	struct buf key;
	size_t parts;
	bool last;
	bool cut;
};

static int path_part(void *arg, struct bytes name, bool last)
{
	struct path *path = arg;

	check_name(name, NAME_LIMIT);
	fuzz_check(!path->last, "something behind the last");
	path->parts++;
	path->last = last;
	path->cut |= has(name, "%~");
	if (last) {
		fuzz_need(names_key(buf_bytes(&path->dirs), name, &path->key) == 0);
		return 0;
	}
	fuzz_need(names_decode(NAMES_KEY, name, &path->dirs) == 0);
	fuzz_need(buf_append_byte(&path->dirs, '/') == 0);
	return 0;
}

/* Where a key of another program is shown. */
static void try_key(struct bytes key, uint32_t kind, unsigned attempt)
{
	bool is_hash = bytes_ends_with(key, names_hash_suffix);
	bool is_state = kind == BACKEND_SINGLE || kind == BACKEND_LIST || kind == BACKEND_HASH;
	struct path path = { 0 };
	size_t slashes = 0;
	int r = names_path(key, kind, attempt, path_part, &path);

	if (!is_state) {
		fuzz_check(r == -EINVAL && !path.parts, "%d", r);
	} else {
		for (size_t i = 0; i < key.size; i++)
			slashes += key.data[i] == '/';
		fuzz_check(r == 0 && path.last, "%d", r);
		fuzz_check(path.parts == slashes + 1, "%zu parts, %zu slashes", path.parts,
			   slashes);
		if (!path.cut && !attempt && is_hash == (kind == BACKEND_HASH))
			fuzz_check(bytes_equal(buf_bytes(&path.key), key),
				   "%.*s is the path of %.*s", (int)key.size, key.data,
				   (int)path.key.size, path.key.data);
	}
	buf_done(&path.dirs);
	buf_done(&path.key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	uint8_t choices = take_byte(&in);
	enum names_scope scope = choices & 1 ? NAMES_KEY : NAMES_SESSION;
	size_t limit = take_byte(&in);
	struct bytes text = bytes_make(in.at, fuzz_left(&in));
	size_t half = text.size / 2;
	struct bytes a = component_of(scope, bytes_make(text.data, half));
	struct bytes b = component_of(scope, bytes_make(text.data + half, text.size - half));

	try_component(scope, component_of(scope, text), limit);
	try_two(scope, a, b, limit);
	if (can_be_name(text)) {
		try_decode(scope, text);
		try_file(text);
		try_number(text);
	}
	try_key(text, choices >> 1 & 7, choices & 0x10 ? choices >> 5 : 0);
	return 0;
}
