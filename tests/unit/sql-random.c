/* SPDX-License-Identifier: MIT */

/*
 * Random changes by another program and by files, in turns: what the mount shows of each key is
 * what its rows say, and what a tree shows that has just been opened and remembers nothing.
 */

#include <stdio.h>
#include <string.h>

#include "fs/inode/tree.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

enum { KEYS = 3, LONG = 600 };

#define OF_KEY " WHERE session_id = 's' AND state_key = '%s'"
#define ADD                                                                                        \
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) SELECT "  \
	"'s', '%s', coalesce(max(item_index), -1) + %d, '[%u]' FROM agentscope_sessions" OF_KEY

static const char *const keys_of_s[KEYS] = { "a", "b", "c" };
/* What a key's file may be called: a list, or a document. */
static const char *const endings[] = { ".jsonl", ".json" };

static uint64_t state;
static unsigned number;
static bool torn[KEYS]; /* since it was made */

static size_t below(size_t limit)
{
	return random_below(&state, limit);
}

/* As text with a key, which a statement names once or twice, and numbers. */
#define RUN(...)                                                                                   \
	do {                                                                                       \
		char sql_[1000];                                                                   \
		snprintf(sql_, sizeof(sql_), __VA_ARGS__);                                         \
		sql_runs(sql_);                                                                    \
	} while (0)

static void add_rows(const char *key)
{
	sql_runs("BEGIN");
	for (size_t i = 1 + below(below(20) ? 3 : LONG); i; i--)
		RUN(ADD, key, below(15) ? 1 : 3, number++, key);
	sql_runs("COMMIT");
}

static void change_by_sql(const char *key)
{
	switch (below(8)) {
	case 0:
		RUN("UPDATE agentscope_sessions SET state_data = '[%u]'" OF_KEY
		    " AND item_index = %zu",
		    number++, key, below(4));
		break;
	case 1:
		RUN("DELETE FROM agentscope_sessions" OF_KEY " AND item_index = %zu", key,
		    below(6));
		break;
	case 2:
		RUN("BEGIN; DELETE FROM agentscope_sessions" OF_KEY "; " ADD "; " ADD "; COMMIT",
		    key, key, 1, number, key, key, 1, number + 1, key);
		number += 2;
		break;
	case 3:
		if (below(4) == 0)
			RUN("DELETE FROM agentscope_sessions" OF_KEY, key);
		break;
	default:
		add_rows(key);
	}
}

/* The path of the key's file: "" if there is none. */
static const char *path_of(const char *key, const char **ret_ending)
{
	static char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		snprintf(path, sizeof(path), "s/%s%s", key, endings[i]);
		*ret_ending = endings[i];
		if (looked_up(path) == 0)
			return path;
	}
	return "";
}

static void change_by_file(size_t i)
{
	const char *ending, *path = path_of(keys_of_s[i], &ending);
	const bool is_list = strcmp(ending, ".jsonl") == 0;
	char text[64];

	snprintf(text, sizeof(text), "[%u]\n[%u]\n", number, number + 1);
	number += 2;
	if (!*path)
		return;
	if (!is_list) {
		save(path, "{\"by\": \"a file\"}");
		return;
	}
	switch (below(6)) {
	case 0:
		save(path, text);
		torn[i] = false;
		break;
	case 1:
		cr_assert_eq(unlinked(path), 0);
		world_settle();
		torn[i] = false;
		break;
	case 2:
		append(path, "{\"torn\": ");
		torn[i] = true;
		break;
	default:
		append(path, text);
	}
}

static const char *content_by_sql(const char *key, const char *ending)
{
	char sql[300];

	snprintf(sql, sizeof(sql),
		 "SELECT group_concat(state_data || %s, '') FROM (SELECT state_data FROM "
		 "agentscope_sessions" OF_KEY " ORDER BY item_index)",
		 strcmp(ending, ".json") == 0 ? "''" : "char(10)", key);
	return sql_asks(sql);
}

static void check_key(size_t i, struct tree *fresh)
{
	struct tree *mount = world_tree;
	const char *ending, *path = path_of(keys_of_s[i], &ending), *shown;

	if (!*path) {
		cr_expect_str_eq(content_by_sql(keys_of_s[i], ending), "NULL", "%u", number);
		return;
	}
	shown = content_of(path);
	cr_expect_eq(stat_of(path).st_size, (off_t)strlen(shown), "size of %s, %u", path, number);
	if (!torn[i])
		cr_expect_str_eq(shown, content_by_sql(keys_of_s[i], ending), "%s, %u", path,
				 number);
	world_tree = fresh;
	cr_expect_str_eq(content_of(path), shown, "%s, %u", path, number);
	world_tree = mount;
}

static void check_all(void)
{
	static const struct backend_options reading = { .read_only = true };
	static const struct tree_options options = { .read_only = true };
	struct backend *store;
	struct tree *fresh;

	cr_assert_eq(world_tree->take_in(world_tree), 0);
	cr_assert_eq(backend_open(world_path(), &reading, &store, NULL), 0);
	cr_assert_eq(tree_open(store, &options, &fresh, NULL), 0);
	for (size_t i = 0; i < KEYS; i++)
		check_key(i, fresh);
	tree_close(fresh);
}

SqliteStore(sql_random, changes_are_shown_as_the_rows_say)
{
	const unsigned long count = rounds("SESSFS_SQL_RANDOM", 120, 30000);
	unsigned stayed = 0;

	state = random_seed("sql-random");
	for (unsigned long step = 0; step < count; step++) {
		const size_t i = below(KEYS);

		if (below(4))
			change_by_sql(keys_of_s[i]);
		else
			change_by_file(i);
		if (below(3) == 0)
			check_all();
		stayed += world_tree->unsettled.count != 0;
		if (below(100) == 0)
			world_reopen();
	}
	cr_expect_gt(stayed, count / 20, "changes stay in the log: %u of %lu", stayed, count);
	check_all();

	world_check();
}
