/* SPDX-License-Identifier: MIT */

/* What the tree waits for comes in its time, also when somebody sets the clock. */

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "src/base/tick.h"
#include "tests/unit/world.h"

enum { HOURS_2 = 7200, PATIENCE = 20 };

/* What the clock was set back by, in seconds.  The linker's --wrap option prescribes the names. */
static atomic_long set_back;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int r = __real_clock_gettime(clock, time);

	if (r == 0 && clock == CLOCK_REALTIME)
		time->tv_sec -= set_back;
	return r;
}

/* Within a time that is far below what the clock was set back by. */
static bool comes_to(const char *(*ask)(void), const char *answer)
{
	const int64_t end = tick_now() + PATIENCE * INT64_C(1000000000);

	while (strcmp(ask(), answer) != 0 && tick_now() < end)
		usleep(20000);
	return strcmp(ask(), answer) == 0;
}

static const char *rows_of_k(void)
{
	return sql_asks("SELECT group_concat(state_data, ' ') FROM agentscope_sessions WHERE "
			"state_key = 'k'");
}

SqliteStore(clock, that_is_set_back_keeps_no_rows_of_unlinked_files)
{
	save("s/k.json", "1");
	cr_assert_str_eq(rows_of_k(), "1");
	cr_assert_eq(unlinked("s/k.json"), 0);
	set_back = HOURS_2;
	cr_assert(comes_to(rows_of_k, "NULL"), "the rows are there: %s", rows_of_k());
}

SqliteStore(clock, that_is_set_back_holds_up_no_writer_that_pauses)
{
	struct handle *handle;

	save("s/k.json", "1");
	handle = open_at("s/k.json", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("2"));
	set_back = HOURS_2;
	cr_assert(comes_to(rows_of_k, "2"), "the rows are: %s", rows_of_k());
	close_handle(handle);
}

SqliteStore(clock, that_is_set_forward_and_back_holds_up_no_times)
{
	struct stat st = { .st_mtim = { .tv_sec = 5 } };
	struct handle *handle = open_at("s/plain", O_CREAT | O_WRONLY);

	set_back = -HOURS_2;
	write_at(handle, 0, BYTES("text"));
	set_back = HOURS_2;
	close_handle(handle);
	cr_assert_eq(set_attr("s/plain", &st, TREE_SET_MTIME), 0);
	world_settle();
	cr_assert_eq(stat_of("s/plain").st_mtim.tv_sec, 5);
}
