/* SPDX-License-Identifier: MIT */

/* Ordinary files: bytes that are written in small parts, and what the store has of them. */

#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "tests/unit/random.h"
#include "tests/unit/world.h"

enum { TWO_CHUNKS = 2 * BACKEND_CHUNK };

static int64_t stored_size(void)
{
	return strtoll(sql_asks("SELECT size FROM sessfs_node WHERE ino ="
				" (SELECT ino FROM sessfs_entry WHERE CAST(name AS TEXT) = 'f')"),
		       NULL, 10);
}

static int64_t stored_bytes(void)
{
	return strtoll(sql_asks("SELECT ifnull(sum(length(data)), 0) FROM sessfs_chunk"), NULL, 10);
}

static void write_small(struct handle *handle, uint64_t from, uint64_t to, size_t step)
{
	char text[64];

	for (uint64_t at = from; at < to; at += step) {
		memset(text, 'a' + (int)(at / step % 26), sizeof(text));
		write_at(handle, at, bytes_make(text, MIN(step, to - at)));
	}
}

static void check_small(uint64_t size, size_t step)
{
	struct bytes all = bytes_of("s/f");

	cr_assert_eq(all.size, size);
	for (uint64_t at = 0; at < size; at++)
		cr_assert_eq(all.data[at], 'a' + (char)(at / step % 26), "byte %zu", (size_t)at);
}

EveryStore(files, that_are_written_in_small_parts_are_read_at_once)
{
	struct handle *handle = open_at("s/f", O_RDWR | O_CREAT);

	for (uint64_t at = 0; at < TWO_CHUNKS; at += 8192) {
		write_small(handle, at, at + 8192, 64);
		cr_assert_eq(stat_of("s/f").st_size, (off_t)at + 8192);
		check_small(at + 8192, 64);
	}
	close_handle(handle);
	check_small(TWO_CHUNKS, 64);
	world_reopen();
	check_small(TWO_CHUNKS, 64);
}

/* The tree's own thread may have just put it there. */
static bool is_held_back(struct handle **handle)
{
	for (int attempt = 0; attempt < 50; attempt++) {
		*handle = open_at("s/f", O_RDWR | O_CREAT);
		write_small(*handle, 0, 8192, 64);
		if (stored_bytes() < 8192)
			return true;
		close_handle(*handle);
		cr_assert_eq(unlinked("s/f"), 0);
	}
	return false;
}

SqliteStore(files, are_put_into_the_store_a_chunk_at_a_time)
{
	struct handle *handle;

	cr_assert(is_held_back(&handle), "every small write is committed by itself");
	write_small(handle, 8192, BACKEND_CHUNK + 64, 64);
	cr_assert_eq(stored_bytes(), BACKEND_CHUNK + 64);
	cr_assert_eq(stored_size(), BACKEND_CHUNK + 64);
	close_handle(handle);
}

static void flush_it(struct handle *handle)
{
	cr_assert_eq(handle_flush(world_tree, handle, 0), 0);
}

static void sync_it(struct handle *handle)
{
	cr_assert_eq(handle_sync(world_tree, handle), 0);
}

static void wait_for_it(struct handle *handle)
{
	(void)handle;
	world_settle();
}

static void write_elsewhere(struct handle *handle)
{
	const struct stat size = { .st_size = 8192 };

	write_at(handle, BACKEND_CHUNK, BYTES("x"));
	cr_assert_eq(set_attr_by(handle, &size, TREE_SET_SIZE), 0);
}

static void seek_in_it(struct handle *handle)
{
	uint64_t offset;

	cr_assert_eq(handle_seek(world_tree, handle, 0, SEEK_HOLE, &offset), 0);
	cr_assert_eq(offset, 8192);
}

static void rename_it(struct handle *handle)
{
	(void)handle;
	cr_assert_eq(renamed("s/f", "f", 0), 0);
}

static void (*const settle_by[])(struct handle *) = {
	flush_it, sync_it, wait_for_it, write_elsewhere, seek_in_it, rename_it,
};

SqliteStore(files, have_all_their_bytes_in_the_store_when_it_matters)
{
	for (size_t i = 0; i < ARRAY_SIZE(settle_by); i++) {
		struct handle *handle = open_at("s/f", O_RDWR | O_CREAT);

		write_small(handle, 0, 8192, 64);
		settle_by[i](handle);
		cr_assert_eq(stored_bytes(), 8192, "way %zu", i);
		cr_assert_eq(stored_size(), 8192, "way %zu", i);
		close_handle(handle);
		cr_assert_eq(unlinked(settle_by[i] == rename_it ? "f" : "s/f"), 0);
		world_settle();
	}
}

/* A node that is written for another reason. */
SqliteStore(files, never_have_a_size_in_the_store_without_their_bytes)
{
	const struct stat mode = { .st_mode = 0600 };
	struct handle *handle = open_at("s/f", O_RDWR | O_CREAT);

	write_small(handle, 0, 4096, 64);
	cr_assert_eq(set_attr("s/f", &mode, TREE_SET_MODE), 0);
	cr_assert_eq(stored_size(), stored_bytes());
	cr_assert_eq(linked("s/f", "s/g"), 0);
	cr_assert_eq(stored_size(), stored_bytes());
	cr_assert_eq(stat_of("s/f").st_size, 4096);
	close_handle(handle);
	cr_assert_eq(stored_bytes(), 4096);
}

EveryStore(files, become_state_with_what_was_just_written)
{
	struct handle *handle = open_at("s/f", O_RDWR | O_CREAT);

	for (int i = 0; i < 5; i++)
		write_at(handle, (uint64_t)i * 2, BYTES("1\n"));
	cr_assert_eq(renamed("s/f", "s/l.jsonl", 0), 0);
	cr_assert_str_eq(rows_of("s", "l"), "0=1 1=1 2=1 3=1 4=1");
	close_handle(handle);
	cr_assert_str_eq(content_of("s/l.jsonl"), "1\n1\n1\n1\n1\n");
}

EveryStore(files, exchange_what_was_just_written)
{
	struct handle *handle = open_at("s/f", O_RDWR | O_CREAT);

	save("s/k.json", "{\"a\":1}");
	for (int i = 0; i < 5; i++)
		write_at(handle, (uint64_t)i, BYTES("7"));
	cr_assert_eq(renamed("s/f", "s/k.json", 2 /* RENAME_EXCHANGE */), 0);
	close_handle(handle);
	cr_assert_str_eq(content_of("s/k.json"), "77777");
	cr_assert_str_eq(rows_of("s", "k"), "0=77777");
	cr_assert_str_eq(content_of("s/f"), "{\"a\":1}");
}

EveryStore(files, that_are_unlinked_keep_what_was_just_written)
{
	struct handle *handle = open_at("s/f", O_RDWR | O_CREAT);

	for (int i = 0; i < 5; i++)
		write_at(handle, (uint64_t)i, BYTES("7"));
	cr_assert_eq(unlinked("s/f"), 0);
	cr_assert_str_eq(read_by(handle), "77777");
	world_settle();
	for (int i = 5; i < 9; i++)
		write_at(handle, (uint64_t)i, BYTES("8"));
	cr_assert_str_eq(read_by(handle), "777778888");
	close_handle(handle);
}

/* ---- after a kill ---- */

enum { LEFT = 4096 }; /* bytes */

static void write_and_leave(void)
{
	write_small(open_at("s/f", O_RDWR | O_CREAT), 0, LEFT, 64);
}

static void write_close_and_leave(void)
{
	struct handle *handle = open_at("s/f", O_RDWR | O_CREAT);

	write_small(handle, 0, LEFT, 64);
	flush_it(handle);
}

static void write_unlink_and_leave(void)
{
	write_and_leave();
	cr_assert_eq(unlinked("s/f"), 0);
}

static void open_again(void)
{
	_cleanup_(freep) char *why = NULL;

	cr_assert_eq(world_try(&why), 0, "%s", why);
}

SqliteStore(files, of_a_process_that_was_killed_have_all_that_was_closed)
{
	world_kill_after(write_close_and_leave);
	open_again();
	check_small(LEFT, 64);
	cr_assert_eq(stored_size(), LEFT);
	cr_assert_eq(stored_bytes(), LEFT);
}

SqliteStore(files, of_a_process_that_was_killed_have_the_beginning_of_what_was_not_closed)
{
	off_t size;

	world_kill_after(write_and_leave);
	open_again();
	size = stat_of("s/f").st_size;
	cr_assert_geq(size, 64);
	check_small((uint64_t)size, 64);
	cr_assert_eq(stored_bytes(), size);
	world_check();
}

SqliteStore(files, that_were_unlinked_before_a_kill_are_gone)
{
	world_kill_after(write_unlink_and_leave);
	open_again();
	cr_assert_eq(looked_up("s/f"), -ENOENT);
	cr_assert_eq(stored_bytes(), 0);
}

/* ---- against a model ---- */

enum { MODEL_SIZE = 3 * BACKEND_CHUNK, MODEL_STEPS = 3000 };

struct model {
	uint64_t chance;
	char bytes[MODEL_SIZE];
	uint64_t size;
	struct handle *handle;
};

static void model_write(struct model *model)
{
	static uint64_t next;
	char text[512];
	size_t size = 1 + random_below(&model->chance, sizeof(text));
	/* Mostly in sequence, as programs write. */
	uint64_t at = random_below(&model->chance, 8) ?
			      next :
			      random_below(&model->chance, MODEL_SIZE - sizeof(text));

	at = MIN(at, MODEL_SIZE - sizeof(text));
	memset(text, 'a' + (int)random_below(&model->chance, 26), size);
	write_at(model->handle, at, bytes_make(text, size));
	memcpy(model->bytes + at, text, size);
	model->size = MAX(model->size, at + size);
	next = at + size;
}

static void model_truncate(struct model *model)
{
	uint64_t size = random_below(&model->chance, MODEL_SIZE);
	const struct stat st = { .st_size = (off_t)size };

	cr_assert_eq(set_attr_by(model->handle, &st, TREE_SET_SIZE), 0);
	if (size < model->size)
		memset(model->bytes + size, 0, model->size - size);
	model->size = size;
}

static void model_punch(struct model *model)
{
	uint64_t at = random_below(&model->chance, MODEL_SIZE);
	uint64_t size = 1 + random_below(&model->chance, MODEL_SIZE - at);

	cr_assert_eq(handle_allocate(world_tree, model->handle,
				     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, size),
		     0);
	memset(model->bytes + at, 0, size);
}

static void model_close(struct model *model)
{
	close_handle(model->handle);
	if (random_below(&model->chance, 2))
		world_reopen();
	model->handle = open_at("s/f", O_RDWR);
}

static void model_settle(struct model *model)
{
	(void)model;
	world_settle();
}

static void model_check(struct model *model, int step)
{
	struct bytes all = bytes_of("s/f");

	cr_assert_eq(all.size, model->size, "step %d", step);
	cr_assert_eq(memcmp(all.data, model->bytes, model->size), 0, "step %d", step);
	cr_assert_eq(stat_of("s/f").st_size, (off_t)model->size, "step %d", step);
}

static const struct {
	void (*make)(struct model *model);
	unsigned of; /* once in so many steps */
} seldom[] = {
	{ model_truncate, 40 },
	{ model_punch, 60 },
	{ model_close, 50 },
	{ model_settle, 50 },
};

EveryStore(files, are_what_was_written)
{
	struct model *model = calloc(1, sizeof(*model));

	model->chance = random_seed("files");
	model->handle = open_at("s/f", O_RDWR | O_CREAT);
	for (int step = 0; step < MODEL_STEPS; step++) {
		model_write(model);
		for (size_t i = 0; i < ARRAY_SIZE(seldom); i++)
			if (random_below(&model->chance, seldom[i].of) == 0)
				seldom[i].make(model);
		if (random_below(&model->chance, 10) == 0)
			model_check(model, step);
	}
	model_check(model, MODEL_STEPS);
	close_handle(model->handle);
	model_check(model, MODEL_STEPS);
	free(model);
}

/* Who has looked the name up before may cut it behind that: its node does not come back. */
EveryStore(files, are_cut_when_they_are_gone_and_nobody_has_opened_them)
{
	const struct stat st = { .st_size = 1 };
	const struct set_attr set = { .st = &st, .pid = getpid(), .mask = TREE_SET_SIZE };
	struct inode *inode;
	struct stat now;
	bool own;

	save("s/o.txt", "12");
	inode = inode_at("s/o.txt");
	save("s/new.txt", "3");
	cr_assert_eq(renamed("s/new.txt", "s/o.txt", 0), 0);
	cr_expect_eq(tree_set_attr(world_tree, inode, &set, &now, &own), 0);
	cr_expect_eq(now.st_size, 1);
	world_check();
	forget(inode);
	cr_expect_str_eq(content_of("s/o.txt"), "3");
}
