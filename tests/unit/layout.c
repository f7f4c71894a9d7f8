/* SPDX-License-Identifier: MIT */
#include "fs/base/layout.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "tests/unit/random.h"

static uint64_t set_of(const char *names)
{
	uint64_t set;

	cr_assert_eq(layouts_parse(names, &set), 0, "%s", names);
	return set;
}

/* ---- What is known of the clients ---- */

struct place {
	const char *layouts;
	const char *path; /* of a directory, if it ends in '/' */
	enum layout_is is;
	const char *session;
	const char *key;
};

/* Those with a session have this path alone, and the path has this session alone. */
static const struct place places[] = {
	{ "agentscope2", "alice/", LAYOUT_ABOVE, NULL, NULL },
	{ "agentscope2", "alice/s1/", LAYOUT_SESSION, "alice:s1", NULL },
	{ "agentscope2", "__anon__/s1/", LAYOUT_SESSION, "__anon__:s1", NULL },
	{ "agentscope2", "Ym9iQHguY29t/YW4gaWQ6MQ/", LAYOUT_SESSION, "bob@x.com:an id:1", NULL },
	{ "agentscope2", "5pel5pys/s.1-_/", LAYOUT_SESSION, "\xe6\x97\xa5\xe6\x9c\xac:s.1-_",
	  NULL },
	{ "agentscope2", "alice/YS9iL2MvZA/", LAYOUT_SESSION, "alice:a/b/c/d", NULL },
	{ "agentscope2", "alice/Ym9iYm9i/", LAYOUT_SESSION, "alice:Ym9iYm9i", NULL },
	{ "agentscope2", "adam/YSBi/", LAYOUT_SESSION, "adam:YSBi", NULL },
	{ "agentscope2", "%/adam:a b/", LAYOUT_SESSION, "adam:a b", NULL },
	{ "agentscope2", "alice/k.json", LAYOUT_NONE, NULL, NULL },
	{ "agentscope2", "k.json", LAYOUT_NONE, NULL, NULL },
	{ "agentscope2", "alice/s1/sub/", LAYOUT_NONE, NULL, NULL },
	{ "agentscope2", "%/", LAYOUT_ABOVE, NULL, NULL },
	{ "agentscope2", "%/plain/", LAYOUT_SESSION, "plain", NULL },
	{ "agentscope2", "%/%/", LAYOUT_SESSION, "", NULL },
	{ "agentscope2", "%/:s1/", LAYOUT_SESSION, ":s1", NULL },
	{ "agentscope2", "%/a%2F:/", LAYOUT_SESSION, "a/:", NULL },
	/* The id leads elsewhere: it fits the first pattern, the user is what is before the first
	 * colon, and the client writes it in another way. */
	{ "agentscope2", "%/alice:s1/", LAYOUT_NONE, NULL, NULL },
	{ "agentscope2", "YTpiOmM6ZA/c/", LAYOUT_NONE, NULL, NULL },
	{ "agentscope2", "alice/a b/", LAYOUT_NONE, NULL, NULL },
	{ "agentscope2", "%/alice:Ym9iQHguY29t/", LAYOUT_SESSION, "alice:Ym9iQHguY29t", NULL },

	{ "strands", "session_a b/", LAYOUT_SESSION, "a b", NULL },
	{ "strands", "session_/", LAYOUT_SESSION, "", NULL },
	{ "strands", "session_../", LAYOUT_SESSION, "..", NULL },
	{ "strands", "session_\xe6\x97\xa5\xe6\x9c\xac/", LAYOUT_SESSION,
	  "\xe6\x97\xa5\xe6\x9c\xac", NULL },
	{ "strands", "session_a\\b/", LAYOUT_SESSION, "a\\b", NULL },
	{ "strands", "session_a%0Ab/", LAYOUT_SESSION, "a\nb", NULL },
	{ "strands", "other/", LAYOUT_NONE, NULL, NULL },
	{ "strands", "session_a/agents/", LAYOUT_NONE, NULL, NULL },
	{ "strands", "%/a/", LAYOUT_NONE, NULL, NULL },

	{ "claude", "claude/", LAYOUT_ABOVE, NULL, NULL },
	{ "claude", "claude/projects/", LAYOUT_ABOVE, NULL, NULL },
	{ "claude", "claude/projects/-home-me/", LAYOUT_ABOVE, NULL, NULL },
	{ "claude", "claude/projects/-home-me/6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9.jsonl",
	  LAYOUT_STATE, "claude:-home-me:6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9", "transcript" },
	{ "claude", "claude/projects/-home-me/agent-1.jsonl", LAYOUT_STATE,
	  "claude:-home-me:agent-1", "transcript" },
	{ "claude", "claude/projects/-home-me/6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9/",
	  LAYOUT_SESSION, "claude:-home-me:6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9", NULL },
	{ "claude", "claude/projects/-home-me/memory/", LAYOUT_NONE, NULL, NULL },
	{ "claude", "claude/projects/-home-me/sessions-index.json", LAYOUT_NONE, NULL, NULL },
	{ "claude", "claude/projects/-home-me/.jsonl", LAYOUT_NONE, NULL, NULL },
	{ "claude", "claude/settings.json", LAYOUT_NONE, NULL, NULL },
	{ "claude", "codex/", LAYOUT_NONE, NULL, NULL },

	{ "codex", "codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-x.jsonl", LAYOUT_STATE,
	  "codex:2026/01/02:rollout-2026-01-02T03-04-05-x", "transcript" },
	{ "codex", "codex/archived_sessions/rollout-x.jsonl", LAYOUT_STATE,
	  "codex:archived:rollout-x", "transcript" },
	{ "codex", "codex/sessions/2026/01/02/", LAYOUT_ABOVE, NULL, NULL },
	{ "codex", "codex/sessions/2026/01/02/03/", LAYOUT_NONE, NULL, NULL },
	{ "codex", "codex/sessions/2026/01/x.jsonl", LAYOUT_NONE, NULL, NULL },
	{ "gemini", "gemini/tmp/0a1b/chats/session-2026-01-02T03-04-x.json", LAYOUT_STATE,
	  "gemini:0a1b:session-2026-01-02T03-04-x", "transcript" },
	{ "gemini", "gemini/tmp/0a1b/chats/session-x.jsonl", LAYOUT_STATE, "gemini:0a1b:session-x",
	  "transcript" },
	{ "gemini", "gemini/tmp/0a1b/logs.json", LAYOUT_NONE, NULL, NULL },
	{ "opencode", "opencode/storage/session/0a1b/ses_1.json", LAYOUT_STATE, "opencode:ses_1",
	  "session/0a1b" },
	{ "opencode", "opencode/storage/message/ses_1/", LAYOUT_SESSION, "opencode:ses_1", NULL },
	{ "opencode", "opencode/storage/part/", LAYOUT_SESSION, "opencode", NULL },
	{ "opencode", "opencode/storage/project/", LAYOUT_NONE, NULL, NULL },
	{ "pi", "pi/sessions/--home-me--/2026-01-02T03-04-05-000Z_x.jsonl", LAYOUT_STATE,
	  "pi:--home-me--:2026-01-02T03-04-05-000Z_x", "transcript" },

	/* Several: the first that fits a path has it. */
	{ "claude+codex", "codex/archived_sessions/x.jsonl", LAYOUT_STATE, "codex:archived:x",
	  "transcript" },
	{ "claude+codex", "claude/projects/p/x.jsonl", LAYOUT_STATE, "claude:p:x", "transcript" },
	{ "claude+codex", "%/x/", LAYOUT_SESSION, "x", NULL },
	{ "agentscope2+claude", "claude/projects/", LAYOUT_ABOVE, NULL, NULL },
	{ "agentscope2+claude", "claude/other/", LAYOUT_SESSION, "claude:other", NULL },
	{ "agentscope2+claude", "%/claude:projects/", LAYOUT_SESSION, "claude:projects", NULL },
};

static struct bytes path_of(const struct place *place, bool *ret_is_dir)
{
	struct bytes path = bytes_str(place->path);

	*ret_is_dir = bytes_ends_with(path, BYTES("/"));
	path.size -= *ret_is_dir;
	return path;
}

Test(layout, paths_have_the_sessions_of_the_table)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const struct place *place = &places[i];
		_cleanup_(buf_done) struct buf session = { 0 };
		_cleanup_(buf_done) struct buf key = { 0 };
		enum layout_is is;
		bool is_dir;
		struct bytes path = path_of(place, &is_dir);

		cr_assert_eq(layout_judge(set_of(place->layouts), path, is_dir, &is, &session,
					  &key),
			     0);
		cr_expect_eq(is, place->is, "%s: %d", place->path, is);
		if (place->session)
			cr_expect(bytes_equal(buf_bytes(&session), bytes_str(place->session)),
				  "%s: %.*s", place->path, (int)session.size, session.data);
		if (place->key)
			cr_expect(bytes_equal(buf_bytes(&key), bytes_str(place->key)), "%s: %.*s",
				  place->path, (int)key.size, key.data);
	}
}

Test(layout, sessions_have_the_paths_of_the_table)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const struct place *place = &places[i];
		_cleanup_(buf_done) struct buf found = { 0 };
		uint64_t set = set_of(place->layouts);
		bool is_dir;
		struct bytes path = path_of(place, &is_dir);

		if (!place->session)
			continue;
		cr_assert_eq(is_dir ? layout_session(set, bytes_str(place->session), &found) :
				      layout_state(set, bytes_str(place->session),
						   bytes_str(place->key), names_split(path).kind,
						   &found),
			     0, "%s", place->path);
		cr_expect(bytes_equal(buf_bytes(&found), path), "%s: %.*s", place->path,
			  (int)found.size, found.data);
	}
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
	for (set = 1; set <= LAYOUTS_ALL; set++)
		cr_expect_eq(set_of(layouts_show(set, text)), set);
	for (const char **wrong = (const char *[]){ "", "+", "claude+", "claude+agentscope",
						    "Claude", "claude,codex", NULL };
	     *wrong; wrong++)
		cr_expect_eq(layouts_parse(*wrong, &set), -EINVAL, "%s", *wrong);
}
