/* SPDX-License-Identifier: MIT */
#include "fs/base/layout.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/layouts.h"
#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "tests/unit/random.h"

static uint64_t set_of(const char *names)
{
	uint64_t set;

	cr_assert_eq(layouts_parse(names, &set), 0, "%s", names);
	return set;
}

/* ---- What is known of the clients: tests/layouts ---- */

enum { LINE_MAX_SIZE = 512, COLUMNS = 4 };

/* A line of a file "paths"; the path of a directory ends in '/'. */
struct place {
	const char *layouts;
	enum layout_is is;
	struct bytes path;
	bool is_dir;
	const char *session; /* "" or NULL, as the next: none is told */
	const char *key;
	uint64_t set;
};

static void place_read(const char *names, char *line, struct place *place)
{
	static const char *const words[] = { "above", "session", "state", "none" };
	char *column[COLUMNS] = { 0 };

	line[strcspn(line, "\n")] = '\0';
	for (size_t i = 0; line && i < COLUMNS; i++)
		column[i] = strsep(&line, "\t");
	*place = (struct place){ .layouts = names, .set = set_of(names) };
	while (place->is < ARRAY_SIZE(words) && strcmp(words[place->is], column[0]) != 0)
		place->is++;
	cr_assert_lt((size_t)place->is, ARRAY_SIZE(words), "%s: %s", names, column[0]);
	place->path = bytes_str(column[1]);
	place->is_dir = bytes_ends_with(place->path, BYTES("/"));
	place->path.size -= place->is_dir;
	place->session = column[2];
	place->key = column[3];
}

/* Call a function with each place, and return how many there are. */
static int each_place(const char *names, void (*fn)(const struct place *place))
{
	char path[4096], line[LINE_MAX_SIZE];
	struct place place;
	int count = 0;
	FILE *stream;

	snprintf(path, sizeof(path), "%s/tests/layouts/%s/paths", getenv("top_srcdir"), names);
	stream = fopen(path, "re");
	cr_assert_not_null(stream, "each layout has a folder of tests: %s", path);
	for (; fgets(line, sizeof(line), stream); count++) {
		place_read(names, line, &place);
		fn(&place);
	}
	fclose(stream);
	return count;
}

/* Of all layouts, and of those sets of them that have a folder. */
static void each_layout(void (*fn)(const struct place *place))
{
	for (size_t i = 0; i < LAYOUT_COUNT; i++)
		cr_expect_gt(each_place(layouts[i].name, fn), 0, "%s", layouts[i].name);
	cr_expect_gt(each_place("claude+codex", fn), 0);
	cr_expect_gt(each_place("agentscope2+claude", fn), 0);
}

static void expect_session(const struct place *place)
{
	_cleanup_(buf_done) struct buf session = { 0 };
	_cleanup_(buf_done) struct buf key = { 0 };
	enum layout_is is;

	cr_assert_eq(layout_judge(place->set, place->path, place->is_dir, &is, &session, &key), 0);
	cr_expect_eq(is, place->is, "%s: %.*s: %d", place->layouts, (int)place->path.size,
		     place->path.data, is);
	if (place->session)
		cr_expect(bytes_equal(buf_bytes(&session), bytes_str(place->session)), "%.*s: %.*s",
			  (int)place->path.size, place->path.data, (int)session.size, session.data);
	if (place->key)
		cr_expect(bytes_equal(buf_bytes(&key), bytes_str(place->key)), "%.*s: %.*s",
			  (int)place->path.size, place->path.data, (int)key.size, key.data);
}

Test(layout, paths_have_the_sessions_of_their_clients)
{
	each_layout(expect_session);
}

static void expect_path(const struct place *place)
{
	_cleanup_(buf_done) struct buf found = { 0 };

	if (!place->session)
		return;
	cr_assert_eq(place->is_dir ? layout_session(place->set, bytes_str(place->session), &found) :
				     layout_state(place->set, bytes_str(place->session),
						  bytes_str(place->key),
						  names_split(place->path).kind, &found),
		     0, "%.*s", (int)place->path.size, place->path.data);
	cr_expect(bytes_equal(buf_bytes(&found), place->path), "%.*s: %.*s", (int)place->path.size,
		  place->path.data, (int)found.size, found.data);
}

Test(layout, sessions_have_the_paths_of_their_clients)
{
	each_layout(expect_path);
}

Test(layout, a_control_character_in_an_id_is_encoded_in_its_path)
{
	_cleanup_(buf_done) struct buf path = { 0 };

	cr_assert_eq(layout_session(set_of("strands"), BYTES("a\nb"), &path), 0);
	cr_expect(bytes_equal(buf_bytes(&path), BYTES("session_a%0Ab")));
}

Test(layout, a_key_without_a_path_of_its_own_lies_in_the_directory)
{
	uint64_t set = set_of("claude+opencode");
	_cleanup_(buf_done) struct buf path = { 0 };

	cr_expect_eq(layout_state(set, BYTES("claude:p:s"), BYTES("other"), BACKEND_LIST, &path),
		     -ENOENT);
	cr_expect_eq(layout_state(set, BYTES("claude:p:s"), BYTES("transcript"), BACKEND_SINGLE,
				  &path),
		     -ENOENT);
	cr_expect_eq(layout_state(set, BYTES("opencode:s"), BYTES("msg_1"), BACKEND_SINGLE, &path),
		     -ENOENT);
	cr_expect_eq(path.size, 0);
	/* That is no UUID, so its directory is among those of all other ids. */
	cr_assert_eq(layout_session(set, BYTES("claude:p:s"), &path), 0);
	cr_expect(bytes_equal(buf_bytes(&path), BYTES("%/claude:p:s")), "%.*s", (int)path.size,
		  path.data);
}

Test(layout, an_id_that_is_too_long_is_cut_and_its_path_is_that_of_no_other)
{
	_cleanup_(buf_done) struct buf id = { 0 }, path = { 0 }, session = { 0 }, key = { 0 };
	const char *slash;
	enum layout_is is;

	cr_assert_eq(buf_append_str(&id, "alice:"), 0);
	while (id.size < 400)
		cr_assert_eq(buf_append_byte(&id, 'x'), 0);
	cr_assert_eq(layout_session(set_of("agentscope2"), buf_bytes(&id), &path), 0);
	slash = memchr(path.data, '/', path.size);
	cr_assert(slash);
	cr_expect_leq(path.size - (size_t)(slash + 1 - path.data), NAME_LIMIT);
	cr_assert_eq(layout_judge(set_of("agentscope2"), buf_bytes(&path), true, &is, &session,
				  &key),
		     0);
	cr_expect_eq(is, LAYOUT_NONE);
}

/* ---- The rule ---- */

static const char *const letters[] = {
	":",	      "/",
	"a",	      "b",
	"Y",	      "%",
	"%2F",	      ".",
	"-",	      "_",
	" ",	      "\n",
	"@",	      "session_",
	"claude",     "codex",
	"projects",   "6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9",
	"opencode",   "\xe6\x97\xa5",
	"archived",   "Ym9iQHguY29t",
	"transcript", "%~",
	"session",    "scopes",
	"agents",     "sessions",
	"kimi",	      ".log",
	"\xff",
};

static void random_text(uint64_t *seed, const char *less, struct buf *text)
{
	uint64_t count = random_below(seed, 8);

	for (uint64_t i = 0; i < count; i++) {
		const char *letter = letters[random_below(seed, ARRAY_SIZE(letters))];

		if (!strpbrk(letter, less))
			cr_assert_eq(buf_append_str(text, letter), 0);
	}
}

static bool is_cut(struct bytes path)
{
	return path.size && memmem(path.data, path.size, "%~", 2);
}

Test(layout, every_id_comes_back_from_its_path)
{
	uint64_t seed = 1;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t set = 1 + random_below(&seed, LAYOUTS_ALL);
		_cleanup_(buf_done) struct buf id = { 0 }, path = { 0 }, back = { 0 }, key = { 0 };
		enum layout_is is;

		random_text(&seed, "\xff", &id);
		cr_assert_eq(layout_session(set, buf_bytes(&id), &path), 0);
		cr_assert_eq(layout_judge(set, buf_bytes(&path), true, &is, &back, &key), 0);
		if (id.size < 200 || !is_cut(buf_bytes(&path)))
			cr_assert(is == LAYOUT_SESSION &&
					  bytes_equal(buf_bytes(&id), buf_bytes(&back)),
				  "set %lx, id %.*s, path %.*s, back %.*s", (unsigned long)set,
				  (int)id.size, id.data ? id.data : "", (int)path.size, path.data,
				  (int)back.size, back.data ? back.data : "");
	}
}

static const char *const starts[] = {
	"",
	"session_",
	"%/",
	"claude/projects/",
	"claude/projects/p/",
	"codex/sessions/2026/01/02/",
	"codex/archived_sessions/",
	"pi/sessions/p/",
	"opencode/storage/message/",
	"opencode/storage/session/p/",
	"kimi/sessions/p/",
	"agents/a/sessions/",
	"session/",
};

Test(layout, every_path_that_has_an_id_comes_back_from_it)
{
	uint64_t seed = 2, found = 0;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t set = 1 + random_below(&seed, LAYOUTS_ALL);
		_cleanup_(buf_done) struct buf path = { 0 }, id = { 0 }, back = { 0 }, key = { 0 };
		uint64_t parts = 1 + random_below(&seed, 3);
		bool is_dir = random_below(&seed, 2);
		enum layout_is is;

		cr_assert_eq(buf_append_str(&path, starts[random_below(&seed, ARRAY_SIZE(starts))]),
			     0);
		for (uint64_t part = 0; part < parts; part++) {
			size_t start;

			if (part)
				cr_assert_eq(buf_append_byte(&path, '/'), 0);
			start = path.size;
			random_text(&seed, "/\n\xff~", &path);
			/* None is "", "." or "..". */
			if (path.size <= start + 2)
				cr_assert_eq(buf_append_byte(&path, 'x'), 0);
		}
		if (!is_dir)
			cr_assert_eq(buf_append_str(&path, ".jsonl"), 0);
		cr_assert_eq(layout_judge(set, buf_bytes(&path), is_dir, &is, &id, &key), 0);
		if (is != LAYOUT_SESSION && is != LAYOUT_STATE)
			continue;
		found++;
		cr_assert_eq(is_dir ? layout_session(set, buf_bytes(&id), &back) :
				      layout_state(set, buf_bytes(&id), buf_bytes(&key),
						   BACKEND_LIST, &back),
			     0);
		cr_assert(bytes_equal(buf_bytes(&path), buf_bytes(&back)), "%.*s is %.*s, %.*s",
			  (int)path.size, path.data, (int)id.size, id.data, (int)back.size,
			  back.data);
	}
	cr_expect_gt(found, 1000);
}

Test(layout, sets_are_told_by_their_names)
{
	char text[LAYOUTS_TEXT];
	uint64_t set;

	cr_expect_eq(layouts_parse("agentscope", &set), 0);
	cr_expect_eq(set, 0);
	cr_expect_str_eq(layouts_show(0, text), "agentscope");
	cr_expect_str_eq(layouts_show(set_of("codex+claude"), text), "claude+codex");
	cr_expect_eq(set_of("claude"), 1, "it is written to stores");
	cr_expect_eq(set_of("agentscope2"), 64);
	cr_expect_eq(set_of("cline"), 1024);
	for (set = 1; set <= LAYOUTS_ALL; set++)
		cr_expect_eq(set_of(layouts_show(set, text)), set);
	for (const char **wrong = (const char *[]){ "", "+", "claude+", "claude+agentscope",
						    "Claude", "claude,codex", NULL };
	     *wrong; wrong++)
		cr_expect_eq(layouts_parse(*wrong, &set), -EINVAL, "%s", *wrong);
}
