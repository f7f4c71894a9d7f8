/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/rows/times.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

static const int64_t MILLISECOND = 1000000;

/* What a column reads as that holds the value of this expression. */
static int64_t read_of(const char *sql)
{
	sqlite3_stmt *statement;
	sqlite3 *db;
	char *text;
	int64_t time;

	cr_assert_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	text = sqlite3_mprintf("SELECT %s", sql);
	cr_assert_eq(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK, "%s", text);
	cr_assert_eq(sqlite3_step(statement), SQLITE_ROW);
	time = sqlite_stamp_read(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	sqlite3_free(text);
	return time;
}

static const struct {
	int64_t milliseconds;
	const char *stamp;
} stamps[] = {
	{ 1704103205250, "2024-01-01 10:00:05.250" },
	{ 1, "1970-01-01 00:00:00.001" },
	{ -1, "1969-12-31 23:59:59.999" },
	{ -999, "1969-12-31 23:59:59.001" },
	{ -1000, "1969-12-31 23:59:59.000" },
	{ -315619199500, "1960-01-01 00:00:00.500" },
	{ -315619200000, "1960-01-01 00:00:00.000" },
	{ -9223372036000, "1677-09-21 00:12:44.000" },
	{ 9223372036000, "2262-04-11 23:47:16.000" },
};

Test(stamps, of_any_time_read_back_as_it)
{
	for (size_t i = 0; i < ARRAY_SIZE(stamps); i++) {
		const int64_t time = stamps[i].milliseconds * MILLISECOND;
		char stamp[SQLITE_STAMP], literal[SQLITE_STAMP + 2];

		sqlite_stamp(time, stamp);
		snprintf(literal, sizeof(literal), "'%s'", stamp);

		cr_expect_str_eq(stamp, stamps[i].stamp);
		cr_expect_eq(read_of(literal), time, "%s reads as %lld", stamp,
			     (long long)read_of(literal));
	}
}

Test(stamps, have_whole_milliseconds_that_are_over)
{
	char stamp[SQLITE_STAMP];

	sqlite_stamp(-1, stamp);
	cr_expect_str_eq(stamp, "1969-12-31 23:59:59.999");
	sqlite_stamp(1999999, stamp);
	cr_expect_str_eq(stamp, "1970-01-01 00:00:00.001");
}

static const struct {
	const char *number;
	int64_t milliseconds;
} numbers[] = {
	{ "1704103205", 1704103205000 },
	{ "1704103205250", 1704103205250 },
	{ "1704103205250000", 1704103205250 },
	{ "1704103205250000000", 1704103205250 },
	{ "1704103205.25", 1704103205250 },
	{ "1704103205.123", 1704103205123 },
	{ "1704103205250.0", 1704103205250 },
	{ "-315619199.5", -315619199500 },
	{ "0.5", 500 },
	{ "-0.5", -500 },
	{ "86400.0", 86400000 },
	{ "1e300", 0 },
	{ "-9e999", 0 },
};

Test(stamps, may_be_numbers_with_or_without_a_fraction)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		cr_expect_eq(read_of(numbers[i].number), numbers[i].milliseconds * MILLISECOND,
			     "%s reads as %lld", numbers[i].number,
			     (long long)read_of(numbers[i].number));
}
