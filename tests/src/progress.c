/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/tick.h"
#include "src/user/progress.h"

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
	progress_begin_on(progress, "import", "file", ends[1], tell_now, tell_columns);
}

static void work(struct progress *progress, uint64_t items, uint64_t bytes)
{
	progress_add(progress, items, bytes);
	progress_draw(progress);
}

static void hide(void)
{
	WITH_PROGRESS_HELD;
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
		work(&progress, 1, 1000);
	progress_end(&progress);
	cr_assert_str_eq(drawn(), "");
}

Test(progress, the_line_tells_items_bytes_rate_and_the_time_left)
{
	struct progress progress;

	begin(&progress);
	progress_set_total(&progress, 40, 100 << 20);
	now = 2000 * millisecond;
	work(&progress, 10, 20 << 20);
	cr_assert_str_eq(drawn(), "\rimport  10 of 40 files  20M of 100M  10M/s  0:08 left");
}

Test(progress, without_totals_there_is_no_time_left)
{
	struct progress progress;

	begin(&progress);
	now = 2000 * millisecond;
	work(&progress, 10, 20 << 20);
	cr_assert_str_eq(drawn(), "\rimport  10 files  20M  10M/s");
}

Test(progress, the_time_left_may_be_hours_and_follows_items_without_bytes)
{
	struct progress progress;

	begin(&progress);
	progress_set_total(&progress, 3661 + 1, 0);
	now = 1000 * millisecond;
	work(&progress, 1, 0);
	cr_assert_str_eq(drawn(), "\rimport  1 of 3662 files  1:01:01 left");
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
		hide();
		drawn();
		work(&progress, 1, 1 << 20);
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
	work(&progress, 1, 0);
	drawn();
	now += 1000 * millisecond;
	progress_set_total(&progress, 0, 0);
	work(&progress, 1, 0);
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
		work(&progress, 1, 0);
		size = strlen(drawn()) - 1;
		if (i)
			progress_end(&progress);
		else
			hide();
		text = drawn();
		cr_assert_eq(text[0], '\r');
		cr_assert_eq(strspn(text + 1, " "), size);
		cr_assert_str_eq(text + 1 + size, "\r");
	}
	progress_end(&progress);
	hide();
	cr_assert_str_eq(drawn(), "");
}

Test(progress, the_first_line_comes_when_the_environment_says)
{
	static const struct {
		const char *delay;
		int64_t seconds;
	} cases[] = { { "0", 0 }, { "7", 7 }, { "", 1 }, { "-1", 1 }, { "2s", 1 }, { "1e9", 1 } };
	struct progress progress;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		setenv("SESSFS_PROGRESS_DELAY", cases[i].delay, 1);
		begin(&progress);
		now += cases[i].seconds * 1000 * millisecond - 1;
		if (cases[i].seconds)
			work(&progress, 1, 0);
		cr_assert_str_eq(drawn(), "", "%s", cases[i].delay);
		now++;
		work(&progress, 1, 0);
		cr_assert_neq(*drawn(), '\0', "%s", cases[i].delay);
		progress_end(&progress);
	}
}

Test(progress, what_is_ticked_off_and_read_elsewhere_is_followed)
{
	struct progress progress;
	char line[PROGRESS_COLUMNS + 1];
	_cleanup_(closep) int fd = open("/dev/zero", O_RDONLY);
	char into[100000];

	tick(1000);
	begin(&progress);
	progress_follow(&progress, PROGRESS_TICKS | PROGRESS_READS);
	tick(2);
	tick(1);
	cr_assert_eq(read(fd, into, sizeof(into)), (ssize_t)sizeof(into));
	now = 1000 * millisecond;
	progress_draw(&progress);
	cr_assert_eq(progress.items, 3);
	cr_assert_geq(progress.bytes, sizeof(into));
	cr_assert_lt(progress.bytes, 2 * sizeof(into));

	progress_set_total(&progress, 4, sizeof(into) / 2);
	progress_draw(&progress);
	cr_assert_geq(progress.bytes, sizeof(into), "it goes back");
	progress_follow(&progress, PROGRESS_READS);
	progress.bytes = 0;
	cr_assert_eq(read(fd, into, sizeof(into)), (ssize_t)sizeof(into));
	progress_draw(&progress);
	cr_assert_eq(progress.bytes, sizeof(into) / 2, "it is more than all");
	progress_show(&progress, line);
	cr_assert_null(strstr(line, "left"), "%s", line);
}

Test(progress, whatever_ticks_draws_five_times_a_second)
{
	struct progress progress;

	setenv("SESSFS_PROGRESS_DELAY", "0", 1);
	begin(&progress);
	progress_follow(&progress, PROGRESS_TICKS);
	progress_start(&progress);
	cr_assert_str_eq(drawn(), "\rimport  0 files");
	now += 199 * millisecond;
	tick(1);
	cr_assert_str_eq(drawn(), "");
	{
		WITH_PROGRESS_HELD;
		drawn();
		now += millisecond;
		tick(0);
		cr_assert_str_eq(drawn(), "", "something is being printed");
	}
	tick(0);
	cr_assert_str_eq(drawn(), "\rimport  1 file");
	now += 200 * millisecond;
	progress_add(&progress, 0, 1);
	cr_assert_eq(strncmp(drawn(), "\rimport  1 file  1", 17), 0);
	tick(1);
	progress_end(&progress);
	cr_assert_not_null(strstr(drawn(), "\rimport  2 files  1"));
	now += 1000 * millisecond;
	tick(1);
	cr_assert_str_eq(drawn(), "", "it has ended");
}
