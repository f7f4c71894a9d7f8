/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/progress.h"

static const int64_t millisecond = 1000000;

static int64_t now;
static unsigned columns = 80;
static int ends[2]; /* what is drawn comes out of the first one */

static int64_t tell_now(void)
{
	return now;
}

static unsigned tell_columns(int fd)
{
	(void)fd;
	return columns;
}

static void begin(struct progress *progress)
{
	cr_assert_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	progress_begin_on(progress, "import", "files", ends[1], tell_now, tell_columns);
}

/* What was drawn since the last time. */
static const char *drawn(void)
{
	static char text[4096];
	ssize_t size = read(ends[0], text, sizeof(text) - 1);

	text[size > 0 ? size : 0] = '\0';
	return text;
}

Test(progress, what_is_done_in_a_second_shows_nothing)
{
	struct progress progress;

	begin(&progress);
	for (now = 0; now < 1000 * millisecond; now += millisecond)
		progress_add(&progress, 1, 1000);
	progress_end(&progress);
	cr_assert_str_eq(drawn(), "");
}

Test(progress, the_line_tells_items_bytes_rate_and_the_time_left)
{
	struct progress progress;

	begin(&progress);
	progress_set_total(&progress, 40, 100 << 20);
	now = 2000 * millisecond;
	progress_add(&progress, 10, 20 << 20);
	cr_assert_str_eq(drawn(), "\rimport  10 of 40 files  20M of 100M  10M/s  0:08 left");
}

Test(progress, without_totals_there_is_no_time_left)
{
	struct progress progress;

	begin(&progress);
	now = 2000 * millisecond;
	progress_add(&progress, 10, 20 << 20);
	cr_assert_str_eq(drawn(), "\rimport  10 files  20M  10M/s");
}

Test(progress, the_time_left_may_be_hours_and_follows_items_without_bytes)
{
	struct progress progress;

	begin(&progress);
	progress_set_total(&progress, 3661 + 1, 0);
	now = 1000 * millisecond;
	progress_add(&progress, 1, 0);
	cr_assert_str_eq(drawn(), "\rimport  1 of 3662 files  1:01:01 left");
}

Test(progress, it_is_drawn_five_times_a_second_at_most)
{
	struct progress progress;
	int times = 0;

	begin(&progress);
	for (now = 1000 * millisecond; now < 3000 * millisecond; now += millisecond) {
		progress_add(&progress, 1, 1000);
		times += *drawn() != '\0';
	}
	cr_assert_geq(times, 9);
	cr_assert_leq(times, 10);
}

Test(progress, the_line_is_shorter_than_the_terminal_is_wide)
{
	static const unsigned widths[] = { 0, 1, 2, 10, 40, 5000 };
	struct progress progress;

	begin(&progress);
	progress_set_total(&progress, 1000000, 1 << 30);
	for (size_t i = 0; i < ARRAY_SIZE(widths); i++) {
		columns = widths[i];
		now += 1000 * millisecond;
		progress_hide();
		drawn();
		progress_add(&progress, 1, 1 << 20);
		cr_assert_lt(strlen(drawn() + 1), MAX(columns, 2U));
	}
}

Test(progress, what_a_longer_line_has_left_is_blanked_out)
{
	struct progress progress;
	char line[PROGRESS_COLUMNS + 1];
	const char *text;

	begin(&progress);
	progress_set_total(&progress, 1000, 0);
	now = 1000 * millisecond;
	progress_add(&progress, 1, 0);
	drawn();
	now += 1000 * millisecond;
	progress_set_total(&progress, 0, 0);
	progress_add(&progress, 1, 0);
	progress_show(&progress, line);
	text = drawn();
	cr_assert_eq(strncmp(text + 1, line, strlen(line)), 0);
	cr_assert_gt(strspn(text + 1 + strlen(line), " "), 5);
	cr_assert_eq(text[strlen(text) - 1], '\r');
}

Test(progress, hiding_and_ending_leave_nothing_on_the_line)
{
	struct progress progress;
	const char *text;
	size_t size;

	begin(&progress);
	for (int i = 0; i < 2; i++) {
		now += 1000 * millisecond;
		progress_add(&progress, 1, 0);
		size = strlen(drawn()) - 1;
		if (i)
			progress_end(&progress);
		else
			progress_hide();
		text = drawn();
		cr_assert_eq(text[0], '\r');
		cr_assert_eq(strspn(text + 1, " "), size);
		cr_assert_str_eq(text + 1 + size, "\r");
	}
	progress_end(&progress);
	progress_hide();
	cr_assert_str_eq(drawn(), "");
}
