/* SPDX-License-Identifier: MIT */

/* Names that are removed one after the other, and when the store learns of it. */

#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "src/base/log.h"
#include "tests/unit/world.h"

enum { MANY = 150 }; /* more than are held at a time */

static const char *path_of(int number)
{
	static char path[64];
	static const char *const endings[] = { ".json", ".jsonl", ".txt" };

	snprintf(path, sizeof(path), "s/f%d%s", number, endings[number % 3]);
	return path;
}

static void make_many(int count)
{
	for (int i = 0; i < count; i++)
		save(path_of(i), i % 3 == 2 ? "text" : "{}\n");
}

static void remove_many(int first, int last)
{
	for (int i = first; i < last; i++)
		cr_assert_eq(unlinked(path_of(i)), 0, "%s", path_of(i));
}

static int64_t stored_names(void)
{
	return strtoll(sql_asks("SELECT count(*) FROM sessfs_entry WHERE CAST(name AS TEXT) "
				"LIKE 'f%'"),
		       NULL, 10);
}

/* All of them but the last; the tree's own thread may have just told the store. */
static bool are_held_back(int count)
{
	for (int attempt = 0; attempt < 50; attempt++) {
		make_many(count);
		remove_many(0, count - 1);
		if (stored_names() > 1)
			return true;
		cr_assert_eq(unlinked(path_of(count - 1)), 0);
	}
	return false;
}

EveryStore(removals, of_all_names_leave_an_empty_directory)
{
	make_many(MANY);
	remove_many(0, MANY);
	cr_assert_eq(stat_of("s").st_nlink, 2);
	cr_assert_str_eq(names_in("s"), "");
	world_settle();
	cr_assert_str_eq(keys(), "");
	world_reopen();
	cr_assert_str_eq(names_in("s"), "");
}

SqliteStore(removals, in_a_row_are_told_to_the_store_together)
{
	cr_assert(are_held_back(8), "every name is removed by itself");
	cr_assert_str_eq(names_in("s"), "f7.jsonl");
	cr_assert_eq(stored_names(), 1);
}

SqliteStore(removals, are_never_more_than_a_transaction)
{
	make_many(MANY);
	remove_many(0, MANY);
	cr_assert_leq(stored_names(), 64);
}

static void look_up(void)
{
	for (int i = 0; i < 7; i++)
		cr_assert_eq(looked_up(path_of(i)), -ENOENT, "%s", path_of(i));
	cr_assert_eq(looked_up(path_of(7)), 0);
}

static void remove_again(void)
{
	for (int i = 0; i < 7; i++)
		cr_assert_eq(unlinked(path_of(i)), -ENOENT, "%s", path_of(i));
	cr_assert_eq(removed_dir("s"), -ENOTEMPTY);
}

static void make_again(void)
{
	for (int i = 0; i < 7; i++)
		cr_assert_eq(make_file(path_of(i), 0600), 0, "%s", path_of(i));
	for (int i = 0; i < 7; i++)
		cr_assert_eq(unlinked(path_of(i)), 0, "%s", path_of(i));
}

static void rename_to_it(void)
{
	cr_assert_eq(renamed("s/f7.jsonl", "s/f6.json", RENAME_NOREPLACE), 0);
	cr_assert_eq(renamed("s/f6.json", "s/f7.jsonl", RENAME_NOREPLACE), 0);
}

static void write_to_another(void)
{
	append("s/f7.jsonl", "[1]\n");
}

static void (*const ways[])(void) = {
	look_up, remove_again, make_again, rename_to_it, write_to_another,
};

SqliteStore(removals, are_seen_by_whatever_comes_next)
{
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		cr_assert(are_held_back(8));
		ways[i]();
		cr_assert_str_eq(names_in("s"), "f7.jsonl", "way %zu", i);
		cr_assert_eq(unlinked("s/f7.jsonl"), 0);
	}
}

SqliteStore(removals, are_in_the_store_when_a_sync_returns)
{
	struct handle *handle;

	cr_assert(are_held_back(8));
	cr_assert_eq(handle_sync(world_tree, NULL), 0);
	cr_assert_eq(stored_names(), 1);
	cr_assert_eq(unlinked("s/f7.jsonl"), 0);
	handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_APPEND);
	cr_assert(are_held_back(8));
	cr_assert_eq(handle_sync_data(world_tree, handle), 0);
	cr_assert_eq(stored_names(), 1);
	close_handle(handle);
}

SqliteStore(removals, take_the_attributes_of_what_is_open_with_them)
{
	struct handle *handle;

	make_many(8);
	handle = open_at("s/f2.txt", O_RDWR);
	remove_many(0, 7);
	cr_assert_eq(stat_of("s/f7.jsonl").st_nlink, 1);
	write_at(handle, 4, BYTES(" more"));
	cr_assert_str_eq(read_by(handle), "text more");
	close_handle(handle);
	cr_assert_str_eq(names_in("s"), "f7.jsonl");
}

SqliteStore(removals, of_a_list_that_is_made_again_keep_its_rows)
{
	make_many(8);
	save("s/l.jsonl", "1\n2\n3\n");
	sql_runs("UPDATE agentscope_sessions SET created_at = 'then' WHERE state_key = 'l'");
	cr_assert_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	remove_many(0, 7);
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	save("s/l.jsonl", "1\n2\n3\n4\n");
	cr_assert_str_eq(rows_of("s", "l"), "0=1 1=2 2=3 3=4");
	cr_assert_str_eq(sql_asks("SELECT count(*) FROM agentscope_sessions WHERE created_at = "
				  "'then'"),
			 "3");
}

static void remove_and_leave(void)
{
	make_many(MANY);
	for (int attempt = 0; attempt < 50; attempt++) {
		remove_many(0, MANY - 1);
		if (stored_names() > 1)
			return;
		make_many(MANY);
	}
	_exit(1);
}

static void open_again(void)
{
	_cleanup_(freep) char *why = NULL;

	cr_assert_eq(world_try(&why), 0, "%s", why);
}

SqliteStore(removals, of_a_process_that_was_killed_are_made_up_for)
{
	world_kill_after(remove_and_leave);
	cr_assert_gt(stored_names(), 1);
	open_again();
	cr_assert_str_eq(names_in("s"), "f149.txt");
	cr_assert_str_eq(keys(), "");
	cr_assert_eq(stored_names(), 1);
	world_reopen();
	cr_assert_str_eq(names_in("s"), "f149.txt");
}

static void remove_old_ones_and_leave(void)
{
	remove_many(0, MANY - 1);
	if (stored_names() <= 1)
		remove_and_leave();
}

/* They were changed later than they are removed. */
SqliteStore(removals, are_made_up_for_when_the_clock_was_set_back)
{
	make_many(MANY);
	world_settle();
	sql_runs("UPDATE sessfs_node SET ctime = ctime + 86400000000000 WHERE kind = 0 AND mode & "
		 "61440 = 32768");
	world_kill_after(remove_old_ones_and_leave);
	open_again();
	cr_assert_str_eq(names_in("s"), "f149.txt");
	cr_assert_str_eq(keys(), "");
}

/* Somebody has put another store there. */
SqliteStore(removals, are_not_made_up_for_in_another_file)
{
	world_kill_after(remove_and_leave);
	sql_runs("UPDATE sessfs_node SET nlink = 2 WHERE kind = 0 AND nlink = 1 AND mode & 61440 = "
		 "32768");
	log_set_level(LOG_ERR);
	open_again();
	cr_assert_not_null(strstr(names_in("s"), ".txt f149.txt"));
	sql_runs("UPDATE sessfs_node SET nlink = 1 WHERE nlink = 2 AND mode & 61440 = 32768");
	world_reopen();
}

/* A store that refuses to be written for a while. */
static const struct backend_ops *inner_ops;
static struct backend_ops refusing_ops;
static bool refusing;
static unsigned refused_flags; /* those with one of these, with operations on entries */

static bool has_entries(const struct backend_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		if (batch->ops[i].type == BACKEND_ENTRY_DELETE)
			return true;
	return false;
}

static int refuse(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	if (refusing || (flags & refused_flags && has_entries(batch)))
		return -EBUSY;
	return inner_ops->commit(backend, batch, flags);
}

static int lay_refusal(struct backend *inner, struct backend **ret_backend)
{
	inner_ops = inner->ops;
	refusing_ops = *inner_ops;
	refusing_ops.commit = refuse;
	inner->ops = &refusing_ops;
	*ret_backend = inner;
	return 0;
}

SqliteStore(removals, that_the_store_refuses_are_tried_again)
{
	world_wrap(lay_refusal);
	world_reopen();
	cr_assert(are_held_back(8));
	log_set_level(LOG_CRIT);
	refusing = true;
	cr_assert_eq(make_file("s/new.txt", 0600), -EBUSY);
	cr_assert_eq(handle_sync(world_tree, NULL), -EBUSY);
	cr_assert_eq(unlinked("s/f7.jsonl"), -EBUSY, "the first after a refusal is not held");
	cr_assert_eq(unlinked("s/f6.json"), -ENOENT);
	refusing = false;
	log_set_level(LOG_ERR);
	sleep(1);
	cr_assert_str_eq(names_in("s"), "f7.jsonl");
	cr_assert_eq(stored_names(), 1);
	world_wrap(NULL);
	world_reopen();
}

/* What a mount could not take in is there until the next one; who uses it meanwhile keeps it. */
SqliteStore(removals, that_a_mount_could_not_make_up_for_spare_what_was_used_since)
{
	world_kill_after(remove_and_leave);
	log_set_level(LOG_CRIT);
	world_wrap(lay_refusal);
	refused_flags = BACKEND_FREES;
	open_again();
	refused_flags = 0;
	cr_assert_gt(stored_names(), 1);
	log_set_level(LOG_ERR);
	append("s/f148.jsonl", "[1]\n");
	tree_close(world_tree);

	world_wrap(NULL);
	log_set_level(LOG_CRIT);
	open_again();
	cr_assert_str_eq(names_in("s"), "f148.jsonl f149.txt");
	cr_assert_str_eq(content_of("s/f148.jsonl"), "{}\n[1]\n");
}
