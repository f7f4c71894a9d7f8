/* SPDX-License-Identifier: MIT */
#include "fs/base/stage.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "tests/unit/failing-alloc.h"
#include "tests/unit/random.h"
#include "tests/unit/scratch.h"

static void put(struct stage *stage, uint64_t offset, struct bytes data)
{
	int r = stage_write(stage, offset, data);

	cr_assert_eq(r, 0, "stage_write: %s", strerror(-r));
}

/* By reading and by mapping, which must agree. */
static bool holds(struct stage *stage, struct bytes expected)
{
	_cleanup_(buf_done) struct buf read = { 0 };
	struct bytes mapped;

	cr_assert_eq(stage_read(stage, 0, expected.size + 100, &read), 0);
	cr_assert_eq(stage_map(stage, &mapped), 0);
	cr_assert_eq(stage->size, mapped.size);
	cr_assert(bytes_equal(buf_bytes(&read), mapped));
	return bytes_equal(mapped, expected);
}

enum { ALONE = SPOOL_MEMORY / 8 }; /* bytes that a stage may have when there is no other */

/* Leave no memory to stages. */
static void use_memory(void)
{
	for (size_t size = 1 << 20; size; size /= 2)
		while (spool_take_memory(0, size))
			;
}

/* An empty stage whose bytes will be in the temporary file. */
static void spill(struct stage *stage)
{
	use_memory();
	put(stage, 0, BYTES("."));
	cr_assert_not_null(stage->spooled);
	cr_assert_eq(stage_truncate(stage, 0), 0);
}

static void in_memory(struct stage *stage)
{
	(void)stage;
}

/* What is true of a stage wherever its bytes lie. */
static void (*const places[])(struct stage *) = { in_memory, spill };

#define FOR_EACH_PLACE(stage)                                                                      \
	for (size_t place_ = 0; place_ < ARRAY_SIZE(places); place_++)                             \
		for (struct stage stage = { 0 }, *once_ = &stage;                                  \
		     once_ && (places[place_](once_), true); stage_done(once_), once_ = NULL)

Test(stage, that_is_zeroed_is_empty)
{
	struct stage stage = { 0 };

	cr_expect(holds(&stage, BYTES("")));
	stage_done(&stage);
}

Test(stage, that_is_done_is_empty_and_can_be_used_again)
{
	FOR_EACH_PLACE(stage)
	{
		put(&stage, 0, BYTES("abc"));
		stage_done(&stage);

		cr_expect(holds(&stage, BYTES("")));
		put(&stage, 0, BYTES("d"));
		cr_expect(holds(&stage, BYTES("d")));
	}
	stage_done(NULL);
}

Test(stage, takes_writes_over_each_other)
{
	FOR_EACH_PLACE(stage)
	{
		put(&stage, 0, BYTES("abcdef"));
		put(&stage, 2, BYTES("XY"));
		put(&stage, 5, BYTES("Zgh"));

		cr_expect(holds(&stage, BYTES("abXYeZgh")));
	}
}

Test(stage, has_zeros_where_nothing_was_written)
{
	FOR_EACH_PLACE(stage)
	{
		put(&stage, 3, BYTES("a"));
		put(&stage, 6, BYTES("b"));

		cr_expect(holds(&stage, BYTES("\0\0\0a\0\0b")));
	}
}

Test(stage, grows_by_zeros_also_where_it_was_cut_before)
{
	FOR_EACH_PLACE(stage)
	{
		put(&stage, 0, BYTES("abcdef"));

		cr_assert_eq(stage_truncate(&stage, 2), 0);
		cr_expect(holds(&stage, BYTES("ab")));
		cr_assert_eq(stage_truncate(&stage, 5), 0);
		cr_expect(holds(&stage, BYTES("ab\0\0\0")));
		cr_assert_eq(stage_truncate(&stage, 1), 0);
		put(&stage, 3, BYTES("x"));
		cr_expect(holds(&stage, BYTES("a\0\0x")));
	}
}

Test(stage, is_not_changed_by_a_write_of_nothing_inside_it)
{
	FOR_EACH_PLACE(stage)
	{
		put(&stage, 0, BYTES("ab"));
		put(&stage, 1, BYTES(""));

		cr_expect(holds(&stage, BYTES("ab")));
	}
}

Test(stage, reads_no_further_than_its_end)
{
	FOR_EACH_PLACE(stage)
	{
		_cleanup_(buf_done) struct buf out = { 0 };

		put(&stage, 0, BYTES("abcdef"));

		cr_assert_eq(buf_append_str(&out, ">"), 0);
		cr_assert_eq(stage_read(&stage, 4, 100, &out), 0);
		cr_expect(bytes_equal(buf_bytes(&out), BYTES(">ef")));
		cr_assert_eq(stage_read(&stage, 6, 100, &out), 0);
		cr_assert_eq(stage_read(&stage, UINT64_MAX, SIZE_MAX, &out), 0);
		cr_expect(bytes_equal(buf_bytes(&out), BYTES(">ef")));
		cr_assert_eq(stage_read(&stage, 1, 2, &out), 0);
		cr_expect(bytes_equal(buf_bytes(&out), BYTES(">efbc")));
	}
}

Test(stage, refuses_what_no_file_can_hold_and_stays_as_it_was)
{
	FOR_EACH_PLACE(stage)
	{
		put(&stage, 0, BYTES("abc"));

		cr_expect_eq(stage_write(&stage, INT64_MAX, BYTES("x")), -EFBIG);
		cr_expect_eq(stage_write(&stage, UINT64_MAX, BYTES("xy")), -EFBIG);
		cr_expect_eq(stage_truncate(&stage, UINT64_MAX), -EFBIG);

		cr_expect(holds(&stage, BYTES("abc")));
	}
}

Test(stage, stays_in_memory_up_to_its_limit_and_not_above)
{
	struct stage stage = { 0 };

	put(&stage, ALONE - 1, BYTES("x"));
	cr_expect_null(stage.spooled);
	put(&stage, ALONE, BYTES("y"));
	cr_expect_not_null(stage.spooled);
	stage_done(&stage);

	cr_assert_eq(stage_truncate(&stage, ALONE), 0);
	cr_expect_null(stage.spooled);
	cr_assert_eq(stage_truncate(&stage, ALONE + 1), 0);
	cr_expect_not_null(stage.spooled);
	stage_done(&stage);
}

Test(stage, shares_the_memory_of_the_process_with_all_others)
{
	static struct stage stages[300];
	size_t memory = 0, spooled = 0;
	struct stage small = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		put(&stages[i], 1 << 20, BYTES("x"));
	put(&small, 0, BYTES("{}"));

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		memory += stages[i].room;
		spooled += stages[i].spooled != NULL;
	}
	cr_expect_leq(memory, SPOOL_MEMORY);
	cr_expect_geq(memory, SPOOL_MEMORY / 2);
	cr_expect_gt(spooled, 0);
	cr_expect_null(small.spooled, "what is small has room when large ones have not");

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		stage_done(&stages[i]);
	stage_done(&small);
	put(&small, ALONE - 1, BYTES("x"));
	cr_expect_null(small.spooled, "the memory was not given back");
	stage_done(&small);
}

Test(stage, keeps_its_bytes_when_it_spills)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct stage stage = { 0 };
	struct bytes mapped;

	for (unsigned i = 0; expected.size < ALONE - 20; i++)
		cr_assert_eq(buf_printf(&expected, "%u,", i), 0);
	put(&stage, 0, buf_bytes(&expected));
	cr_assert_null(stage.spooled);

	cr_assert_eq(buf_append_zeros(&expected, 30), 0);
	cr_assert_eq(buf_append_str(&expected, "end"), 0);
	put(&stage, expected.size - 3, BYTES("end"));

	cr_expect_not_null(stage.spooled);
	cr_expect_eq(stage.memory, NULL, "the memory is given back");
	cr_assert_eq(stage_map(&stage, &mapped), 0);
	cr_expect(bytes_equal(mapped, buf_bytes(&expected)));
	stage_done(&stage);
}

Test(stage, maps_the_bytes_of_now_after_each_change)
{
	FOR_EACH_PLACE(stage)
	{
		put(&stage, 0, BYTES("abc"));
		cr_expect(holds(&stage, BYTES("abc")));
		put(&stage, 3, BYTES("def"));
		cr_expect(holds(&stage, BYTES("abcdef")));
		cr_assert_eq(stage_truncate(&stage, 1), 0);
		cr_expect(holds(&stage, BYTES("a")));
	}
}

static bool is_json(struct stage *stage)
{
	struct bytes mapped;

	cr_assert_eq(stage_map(stage, &mapped), 0);
	return stage_is_json(stage, mapped, NULL);
}

Test(stage, is_json_as_long_as_its_bytes_are)
{
	FOR_EACH_PLACE(stage)
	{
		cr_expect_not(is_json(&stage));
		put(&stage, 0, BYTES("[10]"));
		cr_expect(is_json(&stage));
		cr_expect(is_json(&stage), "it is remembered");
		put(&stage, 1, BYTES("x"));
		cr_expect_not(is_json(&stage));
		put(&stage, 1, BYTES("1"));
		cr_expect(is_json(&stage));
		cr_assert_eq(stage_truncate(&stage, 3), 0);
		cr_expect_not(is_json(&stage));
		cr_assert_eq(stage_truncate(&stage, 4), 0);
		cr_expect_not(is_json(&stage));
	}
}

Test(stage, still_maps_what_was_passed)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct stage stage = { 0 };
	struct bytes mapped;

	while (expected.size <= ALONE)
		cr_assert_eq(buf_append_str(&expected, "0123456789abcde\n"), 0);
	put(&stage, 0, buf_bytes(&expected));
	cr_assert_not_null(stage.spooled);
	cr_assert_eq(stage_map(&stage, &mapped), 0);

	stage_passed(&stage, 1);
	stage_passed(&stage, ALONE / 2 + 7);
	stage_passed(&stage, expected.size);

	cr_expect(bytes_equal(mapped, buf_bytes(&expected)));
	stage_done(&stage);
}

static unsigned open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

Test(stage, has_one_open_file_with_all_others_and_leaves_none_behind)
{
	unsigned before = open_files();
	struct stage stages[20] = { 0 };

	use_memory();
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		put(&stages[i], 3 << 20, BYTES("x"));
	cr_expect_eq(open_files(), before + 1);
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		stage_done(&stages[i]);

	cr_expect_eq(open_files(), before);
}

/* The target of the link of an open file that lies in a folder; false: there is none. */
static bool find_open(const char *folder, struct stat *ret_st)
{
	DIR *dir = opendir("/proc/self/fd");
	char target[512];
	bool found = false;

	cr_assert_not_null(dir);
	for (struct dirent *entry; !found && (entry = readdir(dir));) {
		ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[MAX(size, 0)] = '\0';
		found = strncmp(target, folder, strlen(folder)) == 0 &&
			fstat(atoi(entry->d_name), ret_st) == 0;
	}
	closedir(dir);
	return found;
}

Test(stage, uses_the_folder_that_the_environment_names_and_leaves_no_name_there)
{
	char folder[256];
	struct stage stage = { 0 };
	struct stat st;

	scratch_template(folder, sizeof(folder), "stage");
	cr_assert_not_null(mkdtemp(folder));
	setenv("TMPDIR", folder, 1);
	use_memory();
	put(&stage, 0, BYTES("x"));

	cr_expect(find_open(folder, &st), "no file of it is open");
	cr_expect_eq(rmdir(folder), 0, "a file is left in the folder");
	stage_done(&stage);
}

Test(stage, gives_room_on_the_disk_back_when_it_is_cut_or_done)
{
	enum { BLOCK = 1 << 20 };
	_cleanup_(freep) char *block = calloc(1, BLOCK);
	char folder[256];
	struct stage stage = { 0 }, other = { 0 };
	struct stat st;

	scratch_template(folder, sizeof(folder), "stage");
	cr_assert_not_null(mkdtemp(folder));
	setenv("TMPDIR", folder, 1);
	use_memory();
	put(&other, 0, BYTES("x"));
	for (unsigned i = 0; i < 8; i++)
		put(&stage, i * BLOCK, bytes_make(block, BLOCK));
	cr_assert(find_open(folder, &st));
	cr_expect_geq(st.st_blocks * 512, 8 << 20);

	cr_assert_eq(stage_truncate(&stage, (3 << 20) + 7), 0);
	cr_assert(find_open(folder, &st));
	cr_expect_leq(st.st_blocks * 512, 4 << 20);
	stage_done(&stage);

	cr_assert(find_open(folder, &st));
	cr_expect_leq(st.st_blocks * 512, 1 << 20);
	cr_expect(holds(&other, BYTES("x")));
	stage_done(&other);
	rmdir(folder);
}

Test(stage, finds_another_folder_when_the_named_one_is_not_there)
{
	struct stage stage = { 0 };

	setenv("TMPDIR", "/nowhere/at/all", 1);
	spill(&stage);

	put(&stage, 0, BYTES("abc"));
	cr_expect(holds(&stage, BYTES("abc")));
	stage_done(&stage);
}

Test(stage, is_as_it_was_when_no_file_can_be_opened)
{
	struct stage stage = { 0 };
	struct rlimit before;

	put(&stage, 0, BYTES("abc"));
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, before.rlim_max }), 0);

	cr_expect_eq(stage_write(&stage, ALONE, BYTES("x")), -EMFILE);
	cr_expect_eq(stage_truncate(&stage, ALONE + 1), -EMFILE);

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect(holds(&stage, BYTES("abc")));
	put(&stage, ALONE, BYTES("x"));
	cr_expect_not_null(stage.spooled);
	stage_done(&stage);
}

Test(stage, is_as_it_was_when_the_file_may_not_grow)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct stage stage = { 0 };
	struct rlimit before, small;
	struct bytes mapped;

	cr_assert_eq(buf_append_zeros(&expected, ALONE), 0);
	cr_assert_eq(buf_append_str(&expected, "x"), 0);
	put(&stage, ALONE, BYTES("x"));
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = ALONE + 3;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);

	cr_expect_eq(stage_write(&stage, ALONE + 1, BYTES("abcdef")), -EFBIG);
	cr_expect_eq(stage_truncate(&stage, ALONE + 10), -EFBIG);

	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	cr_assert_eq(stage_map(&stage, &mapped), 0);
	cr_expect(bytes_equal(mapped, buf_bytes(&expected)));
	put(&stage, ALONE + 3, BYTES("y"));
	cr_assert_eq(stage_map(&stage, &mapped), 0);
	cr_expect_eq(memcmp(mapped.data + ALONE, "x\0\0y", 4), 0,
		     "bytes of the write that failed are seen");
	stage_done(&stage);
}

Test(stage, is_as_it_was_when_memory_is_short)
{
	struct stage stage = { 0 };

	put(&stage, 0, BYTES("abc"));

	failing_alloc_at(1);
	cr_expect_eq(stage_write(&stage, 100000, BYTES("x")), -ENOMEM);
	cr_expect_eq(stage_truncate(&stage, 100000), -ENOMEM);
	failing_alloc_at(0);

	cr_expect(holds(&stage, BYTES("abc")));
	stage_done(&stage);
}

/* One random change, to the stage and to plain bytes that show what is right. */
static void change(struct stage *stage, char *bytes, size_t *size, size_t room, uint64_t *state)
{
	char data[300];
	size_t offset = random_below(state, room - sizeof(data));
	size_t count = random_below(state, sizeof(data));

	if (random_below(state, 4) == 0) {
		cr_assert_eq(stage_truncate(stage, offset), 0);
		if (offset > *size)
			memset(bytes + *size, 0, offset - *size);
		*size = offset;
		return;
	}
	memset(data, (int)random_below(state, 256), count);
	put(stage, offset, bytes_make(data, count));
	if (offset + count > *size) {
		memset(bytes + *size, 0, offset + count - *size);
		*size = offset + count;
	}
	memcpy(bytes + offset, data, count);
}

Test(stage, is_like_plain_bytes_whatever_is_done_to_it)
{
	uint64_t state = random_seed("stage like plain bytes");

	FOR_EACH_PLACE(stage)
	{
		char bytes[5000];
		size_t size = 0;

		for (unsigned i = 0; i < 500; i++) {
			change(&stage, bytes, &size, sizeof(bytes), &state);
			cr_assert(holds(&stage, bytes_make(bytes, size)), "step %u", i);
		}
	}
}
