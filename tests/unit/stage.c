/* SPDX-License-Identifier: MIT */
#include "fs/model/stage.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "tests/unit/failing-alloc.h"
#include "tests/unit/random.h"

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

/* Make a stage spill: '.' up to one byte above the limit, then short again. */
static void spill(struct stage *stage)
{
	put(stage, STAGE_MEMORY, BYTES("."));
	cr_assert(stage->spilled);
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

	put(&stage, STAGE_MEMORY - 1, BYTES("x"));
	cr_expect_not(stage.spilled);
	put(&stage, STAGE_MEMORY, BYTES("y"));
	cr_expect(stage.spilled);
	stage_done(&stage);

	cr_assert_eq(stage_truncate(&stage, STAGE_MEMORY), 0);
	cr_expect_not(stage.spilled);
	cr_assert_eq(stage_truncate(&stage, STAGE_MEMORY + 1), 0);
	cr_expect(stage.spilled);
	stage_done(&stage);
}

Test(stage, keeps_its_bytes_when_it_spills)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct stage stage = { 0 };
	struct bytes mapped;

	for (unsigned i = 0; expected.size < STAGE_MEMORY - 20; i++)
		cr_assert_eq(buf_printf(&expected, "%u,", i), 0);
	put(&stage, 0, buf_bytes(&expected));
	cr_assert_not(stage.spilled);

	cr_assert_eq(buf_append_zeros(&expected, 30), 0);
	cr_assert_eq(buf_append_str(&expected, "end"), 0);
	put(&stage, expected.size - 3, BYTES("end"));

	cr_expect(stage.spilled);
	cr_expect_eq(stage.memory.data, NULL, "the memory is given back");
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

Test(stage, still_maps_what_was_passed)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct stage stage = { 0 };
	struct bytes mapped;

	while (expected.size <= STAGE_MEMORY)
		cr_assert_eq(buf_append_str(&expected, "0123456789abcde\n"), 0);
	put(&stage, 0, buf_bytes(&expected));
	cr_assert(stage.spilled);
	cr_assert_eq(stage_map(&stage, &mapped), 0);

	stage_passed(&stage, 1);
	stage_passed(&stage, STAGE_MEMORY / 2 + 7);
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

Test(stage, leaves_no_open_file_behind)
{
	unsigned before = open_files();
	struct stage stage = { 0 };

	spill(&stage);
	cr_expect_eq(open_files(), before + 1);
	stage_done(&stage);

	cr_expect_eq(open_files(), before);
}

Test(stage, uses_the_folder_that_the_environment_names_and_leaves_no_name_there)
{
	char folder[] = "/tmp/sessfs-stage-XXXXXX";
	char link[64], target[512];
	struct stage stage = { 0 };
	ssize_t size;

	cr_assert_not_null(mkdtemp(folder));
	setenv("TMPDIR", folder, 1);
	spill(&stage);

	snprintf(link, sizeof(link), "/proc/self/fd/%d", stage.fd);
	size = readlink(link, target, sizeof(target) - 1);
	cr_assert_gt(size, 0);
	target[size] = '\0';
	cr_expect_eq(strncmp(target, folder, strlen(folder)), 0, "%s", target);
	cr_expect_eq(rmdir(folder), 0, "a file is left in the folder");
	stage_done(&stage);
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

	cr_expect_eq(stage_write(&stage, STAGE_MEMORY, BYTES("x")), -EMFILE);
	cr_expect_eq(stage_truncate(&stage, STAGE_MEMORY + 1), -EMFILE);

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect(holds(&stage, BYTES("abc")));
	put(&stage, STAGE_MEMORY, BYTES("x"));
	cr_expect(stage.spilled);
	stage_done(&stage);
}

Test(stage, is_as_it_was_when_the_file_may_not_grow)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct stage stage = { 0 };
	struct rlimit before, small;
	struct bytes mapped;

	cr_assert_eq(buf_append_zeros(&expected, STAGE_MEMORY), 0);
	cr_assert_eq(buf_append_str(&expected, "x"), 0);
	put(&stage, STAGE_MEMORY, BYTES("x"));
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = STAGE_MEMORY + 3;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);

	cr_expect_eq(stage_write(&stage, STAGE_MEMORY + 1, BYTES("abcdef")), -EFBIG);
	cr_expect_eq(stage_truncate(&stage, STAGE_MEMORY + 10), -EFBIG);

	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	cr_assert_eq(stage_map(&stage, &mapped), 0);
	cr_expect(bytes_equal(mapped, buf_bytes(&expected)));
	put(&stage, STAGE_MEMORY + 3, BYTES("y"));
	cr_assert_eq(stage_map(&stage, &mapped), 0);
	cr_expect_eq(memcmp(mapped.data + STAGE_MEMORY, "x\0\0y", 4), 0,
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
