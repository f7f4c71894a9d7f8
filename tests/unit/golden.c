/* SPDX-License-Identifier: MIT */

/* The cases of tests/golden, written in every way that a file can be written. */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "fs/base/lines.h"
#include "tests/unit/world.h"

struct golden {
	char name[256];
	struct buf input;
	struct buf rows;
};

static struct golden cases[128];
static size_t case_count;

static void load(const char *folder, const char *name, const char *file, struct buf *bytes)
{
	char path[4096], block[4096];
	FILE *stream;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, name, file);
	stream = fopen(path, "re");
	cr_assert_not_null(stream, "%s", path);
	while ((n = fread(block, 1, sizeof(block), stream)) > 0)
		cr_assert_eq(buf_append(bytes, block, n), 0);
	fclose(stream);
}

static void load_cases(void)
{
	const char *top = getenv("top_srcdir");
	char folder[2048];
	struct dirent *entry;
	DIR *dir;

	cr_assert_not_null(top, "top_srcdir is not set: run this by make check");
	snprintf(folder, sizeof(folder), "%s/tests/golden", top);
	dir = opendir(folder);
	cr_assert_not_null(dir, "%s", folder);
	while ((entry = readdir(dir))) {
		struct golden *golden = &cases[case_count];

		/* Files have an ending, cases have none. */
		if (strchr(entry->d_name, '.'))
			continue;
		cr_assert_lt(case_count, ARRAY_SIZE(cases));
		snprintf(golden->name, sizeof(golden->name), "%s", entry->d_name);
		load(folder, golden->name, "input", &golden->input);
		load(folder, golden->name, "rows", &golden->rows);
		case_count++;
	}
	closedir(dir);
	cr_assert_geq(case_count, 30, "only %zu cases in %s", case_count, folder);
}

static void free_cases(void)
{
	for (size_t i = 0; i < case_count; i++) {
		buf_done(&cases[i].input);
		buf_done(&cases[i].rows);
	}
}

TestSuite(golden, .init = load_cases, .fini = free_cases);

/* Whether the last line is one that a writer has not finished: neither JSON nor blank. */
static bool ends_torn(const struct golden *golden)
{
	const char *newline = NULL;
	struct bytes tail = buf_bytes(&golden->input);

	if (tail.size)
		newline = memrchr(tail.data, '\n', tail.size);
	if (newline)
		tail = bytes_make(newline + 1, tail.size - (size_t)(newline + 1 - tail.data));
	return !lines_is_blank(tail) && !lines_is_row(tail, NULL);
}

static int print_row(void *arg, int64_t index, struct bytes data)
{
	int r = buf_printf(arg, "%lld\t", (long long)index);

	if (r == 0)
		r = buf_append_bytes(arg, data);
	return r < 0 ? r : buf_append_byte(arg, '\n');
}

static void expect_rows(struct bytes expected, const char *key, const char *what)
{
	_cleanup_(buf_done) struct buf rows = { 0 };
	struct backend_snapshot *snapshot;

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(world_store->ops->row_read(world_store, snapshot, BYTES("s"), bytes_str(key),
						INT64_MIN, print_row, &rows),
		     0);
	world_store->ops->snapshot_end(world_store, snapshot);
	cr_assert(bytes_equal(buf_bytes(&rows), expected), "%s: the rows are\n%.*s", what,
		  (int)rows.size, rows.data ? rows.data : "");
}

static void expect_content(const struct golden *golden, const char *path)
{
	struct bytes bytes = bytes_of(path);

	cr_assert(bytes_equal(bytes, buf_bytes(&golden->input)),
		  "%s, %s: %zu bytes are read back:\n%.*s", golden->name, path, bytes.size,
		  (int)MIN(bytes.size, 1000u), bytes.data);
	cr_assert_eq(stat_of(path).st_size, (off_t)golden->input.size, "%s: the size of %s",
		     golden->name, path);
}

/* Every case has a file of its own: its name. */
static const char *key_of(const struct golden *golden)
{
	return golden->name;
}

static const char *path_of(const struct golden *golden)
{
	static char path[300];

	snprintf(path, sizeof(path), "s/%.280s.jsonl", golden->name);
	return path;
}

static void write_in_cuts(struct handle *handle, struct bytes bytes, size_t cut, bool at_end)
{
	for (size_t offset = 0; offset < bytes.size; offset += cut) {
		size_t part = MIN(cut, bytes.size - offset);

		write_at(handle, at_end ? 0 : offset, bytes_make(bytes.data + offset, part));
	}
}

/* Ways to write a file that is not there yet. */
struct way {
	int flags;
	size_t cut;
};

static const struct way ways[] = {
	{ O_WRONLY | O_CREAT | O_APPEND, SIZE_MAX },
	{ O_WRONLY | O_CREAT | O_APPEND, 1 },
	{ O_WRONLY | O_CREAT | O_APPEND, 7 },
	{ O_WRONLY | O_CREAT | O_APPEND, 8192 },
	{ O_WRONLY | O_CREAT, SIZE_MAX },
	{ O_RDWR | O_CREAT, 1 },
	{ O_RDWR | O_CREAT | O_EXCL, 7 },
	{ O_WRONLY | O_CREAT | O_TRUNC, 8192 },
};

static void write_new(const struct golden *golden, const struct way *way)
{
	struct handle *handle = open_at(path_of(golden), way->flags);

	write_in_cuts(handle, buf_bytes(&golden->input), MIN(way->cut, golden->input.size + 1),
		      way->flags & O_APPEND);
	close_handle(handle);
}

static void check_new(const struct golden *golden)
{
	expect_rows(buf_bytes(&golden->rows), key_of(golden), golden->name);
	expect_content(golden, path_of(golden));
}

static void try_new_files(int kind)
{
	for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
		world_open(kind);
		make_dir("s");
		for (size_t i = 0; i < case_count; i++) {
			write_new(&cases[i], &ways[w]);
			check_new(&cases[i]);
		}
		world_reopen();
		for (size_t i = 0; i < case_count; i++)
			check_new(&cases[i]);
		world_close();
	}
}

Test(golden, new_files_in_memory_have_their_rows_and_their_bytes)
{
	try_new_files(WORLD_MEMORY);
}

Test(golden, new_files_in_sqlite_have_their_rows_and_their_bytes)
{
	try_new_files(WORLD_SQLITE);
}

/* What was there before a save, longer and shorter than most cases. */
static const char *const befores[] = {
	"1\n",
	"{\"a\":1}\n{\"b\":2}\n# note\n\n{\"c\":3}\n[4]\n5\n6\n7\n8\n9\n10\n11\n12\n",
	"{}",
};
static const char *const before_rows[] = {
	"0\t1\n",
	("0\t{\"a\":1}\n1\t{\"b\":2}\n2\t{\"c\":3}\n3\t[4]\n4\t5\n5\t6\n6\t7\n7\t8\n"
	 "8\t9\n9\t10\n10\t11\n11\t12\n"),
	"0\t{}\n",
};

typedef void save_way(const struct golden *golden, size_t cut);

static void save_over(const struct golden *golden, size_t cut)
{
	struct handle *handle = open_at(path_of(golden), O_WRONLY | O_TRUNC);

	write_in_cuts(handle, buf_bytes(&golden->input), cut, false);
	close_handle(handle);
}

static void save_by_rename(const struct golden *golden, size_t cut)
{
	struct handle *handle = open_at("s/new.tmp", O_WRONLY | O_CREAT | O_EXCL);

	write_in_cuts(handle, buf_bytes(&golden->input), cut, false);
	close_handle(handle);
	cr_assert_eq(renamed("s/new.tmp", path_of(golden), 0), 0);
}

static void save_anew(const struct golden *golden, size_t cut)
{
	struct handle *handle;

	cr_assert_eq(unlinked(path_of(golden)), 0);
	handle = open_at(path_of(golden), O_WRONLY | O_CREAT);
	write_in_cuts(handle, buf_bytes(&golden->input), cut, false);
	close_handle(handle);
}

static void save_in_place(const struct golden *golden, size_t cut)
{
	struct handle *handle = open_at(path_of(golden), O_RDWR);
	const struct stat size = { .st_size = (off_t)golden->input.size };

	write_in_cuts(handle, buf_bytes(&golden->input), cut, false);
	cr_assert_eq(set_attr_by(handle, &size, TREE_SET_SIZE), 0);
	close_handle(handle);
}

/* A save that ends in a torn line is a draft: the rows stay. */
static void check_saved(const struct golden *golden, size_t before)
{
	struct bytes expected =
		ends_torn(golden) ? bytes_str(before_rows[before]) : buf_bytes(&golden->rows);

	expect_rows(expected, key_of(golden), golden->name);
	expect_content(golden, path_of(golden));
}

static void try_saves(save_way *save_one, int kind, size_t cut)
{
	for (size_t before = 0; before < ARRAY_SIZE(befores); before++) {
		world_open(kind);
		make_dir("s");
		for (size_t i = 0; i < case_count; i++) {
			save(path_of(&cases[i]), befores[before]);
			save_one(&cases[i], cut);
			check_saved(&cases[i], before);
		}
		world_reopen();
		for (size_t i = 0; i < case_count; i++)
			check_saved(&cases[i], before);
		world_close();
	}
}

Test(golden, truncating_saves_replace_rows_and_bytes)
{
	try_saves(save_over, WORLD_SQLITE, 8192);
	try_saves(save_over, WORLD_MEMORY, 7);
}

Test(golden, renames_over_a_list_replace_rows_and_bytes)
{
	try_saves(save_by_rename, WORLD_SQLITE, 8192);
	try_saves(save_by_rename, WORLD_MEMORY, 7);
}

Test(golden, unlinking_and_writing_again_replaces_rows_and_bytes)
{
	try_saves(save_anew, WORLD_SQLITE, 8192);
	try_saves(save_anew, WORLD_MEMORY, 7);
}

Test(golden, writing_in_place_replaces_rows_and_bytes)
{
	try_saves(save_in_place, WORLD_SQLITE, 8192);
	try_saves(save_in_place, WORLD_MEMORY, 7);
}

Test(golden, saving_the_same_bytes_again_changes_nothing)
{
	world_open(WORLD_SQLITE);
	make_dir("s");
	for (size_t i = 0; i < case_count; i++) {
		write_new(&cases[i], &ways[3]);
		save_over(&cases[i], 8192);
		expect_content(&cases[i], path_of(&cases[i]));
		expect_rows(buf_bytes(&cases[i].rows), key_of(&cases[i]), cases[i].name);
	}
	world_close();
}

Test(golden, reads_that_begin_anywhere_show_the_bytes_of_there)
{
	world_open(WORLD_MEMORY);
	make_dir("s");
	for (size_t i = 0; i < case_count; i++) {
		struct bytes input = buf_bytes(&cases[i].input);
		struct handle *handle;

		write_new(&cases[i], &ways[0]);
		handle = open_at(path_of(&cases[i]), O_RDONLY);
		for (size_t at = 0; at <= input.size; at += 1 + input.size / 200) {
			_cleanup_(buf_done) struct buf out = { 0 };
			size_t part = MIN(11, input.size - at);

			cr_assert_eq(handle_read(world_tree, handle, at, 11, &out), 0);
			cr_assert(bytes_equal(buf_bytes(&out), bytes_make(input.data + at, part)),
				  "%s at %zu", cases[i].name, at);
		}
		handle_free(world_tree, handle);
	}
	world_close();
}
