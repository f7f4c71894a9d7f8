/* SPDX-License-Identifier: MIT */
/* A store whose file is removed, moved or replaced while somebody has it open. */
#include "tests/contract/contract.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/base/log.h"

static const struct backend_options owner = { .create = true, .owner = "the test" };
static const struct backend_options rows_only = { .create = true, .rows_only = true };
static const struct backend_options *const kinds[] = { &owner, &rows_only };

TestSuite(replaced, .fini = close_stores);

static char said[1024];

static void hear(int level, const char *sentence)
{
	if (level <= LOG_ERR)
		snprintf(said, sizeof(said), "%s", sentence);
}

static void make_store(const char *path, struct bytes row)
{
	struct backend *backend = open_at(path, &owner);

	cr_assert_eq(COMMIT(backend, row_put(S, K, 0, row)), 0);
	shut(backend);
}

static int save(struct backend *backend, struct bytes row)
{
	const struct backend_op ops[] = { row_put(S, K, 0, row) };

	return backend_commit(backend, ops, ARRAY_SIZE(ops), BACKEND_ANYWAY);
}

static void take_away(const char *path)
{
	cr_assert_eq(unlink(path), 0);
}

static void move_away(const char *path)
{
	cr_assert_eq(rename(path, scratch_path("elsewhere.db")), 0);
}

static void replace(const char *path)
{
	make_store(scratch_path("other.db"), BYTES("\"other\""));
	cr_assert_eq(rename(scratch_path("other.db"), path), 0);
}

static void (*const ways[])(const char *path) = { take_away, move_away, replace };

Test(replaced, refuses_saves_with_a_sentence)
{
	log_set_sink(hear);
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
			const char *path = scratch_path(kind ? "rows.db" : "owned.db");
			struct backend *backend = open_at(path, kinds[kind]);

			cr_assert_eq(save(backend, BYTES("1")), 0);
			*said = '\0';
			ways[way](path);
			/* An owner looks before a sync, and from time to time. */
			if (kinds[kind]->owner)
				cr_expect_eq(backend->ops->sync(backend), -EIO, "way %zu", way);

			cr_expect_eq(save(backend, BYTES("2")), -EIO, "way %zu", way);
			cr_expect(strstr(said, path) && strstr(said, "while it was open"), "%s",
				  said);
			shut(backend);
			unlink(path);
		}
	}
}

Test(replaced, is_never_mixed_with_what_came_in_its_place)
{
	const char *path = scratch_path("store.db");
	struct backend *backend;
	struct backend_snapshot *first, *second;

	make_store(path, BYTES("\"old\""));
	backend = open_at(path, &rows_only);
	first = look(backend);
	replace(path);

	cr_expect_str_eq(rows_seen(backend, first, S, K, 0), "0=\"old\"");
	cr_expect_eq(backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &second), -EIO,
		     "a second connection was opened to the other store");
	unlook(backend, first);
}

Test(replaced, leaves_alone_what_came_in_its_place)
{
	const char *path = scratch_path("store.db"), *wal = scratch_path("store.db-wal");
	struct backend *old = open_at(path, &owner), *new;

	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(unlink(wal), 0);
	cr_assert_eq(unlink(scratch_path("store.db-shm")), 0);
	new = open_at(path, &owner);
	cr_assert_eq(save(new, BYTES("\"new\"")), 0);

	shut(old);

	cr_expect_eq(access(wal, F_OK), 0, "its log went with the old store");
	cr_expect_str_eq(rows_of(new, S, K), "0=\"new\"");
}

Test(replaced, takes_saves_again_when_it_is_back)
{
	const char *path = scratch_path("store.db"), *away = scratch_path("away.db");
	struct backend *backend = open_at(path, &rows_only);

	cr_assert_eq(save(backend, BYTES("1")), 0);
	cr_assert_eq(rename(path, away), 0);
	cr_assert_eq(save(backend, BYTES("2")), -EIO);
	cr_assert_eq(rename(away, path), 0);

	cr_expect_eq(save(backend, BYTES("3")), 0);
	cr_expect_str_eq(rows_of(backend, S, K), "0=3");
}
