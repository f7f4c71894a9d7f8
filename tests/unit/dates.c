/* SPDX-License-Identifier: MIT */
#include "fs/base/dates.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <time.h>

#include "backend/base/cleanup.h"

static const int64_t SECOND = 1000000000;
static const int64_t OTHER = 1600000000000000000;

static const struct {
	const char *record;
	int64_t made; /* milliseconds; 0: none is found */
	int64_t changed;
} records[] = {
	{ "{\"timestamp\":\"2024-01-01T10:00:05.25Z\"}", 1704103205250, 0 },
	{ " { \"a\" : [ \"}\" , {} ] ,\n\"timestamp\" : \"2024-01-01 10:00:05\" } ", 1704103205000,
	  0 },
	{ "{\"timestamp\":\"2024-01-01T12:00:05+02:00\"}", 1704103205000, 0 },
	{ "{\"timestamp\":\"2024-01-01T08:30:05-0130\"}", 1704103205000, 0 },
	{ "{\"timestamp\":1704103205}", 1704103205000, 0 },
	{ "{\"timestamp\":1704103205.125}", 1704103205125, 0 },
	{ "{\"timestamp\":1704103205250}", 1704103205250, 0 },
	{ "{\"timestamp\":1704103205250000,\"z\":1}", 1704103205250, 0 },
	{ "{\"time\":{\"created\":1704103205250,\"updated\":1704103206000}}", 1704103205250,
	  1704103206000 },
	{ "{\"lastUpdated\":\"2024-01-01T10:00:06Z\",\"startTime\":\"2024-01-01T10:00:05Z\"}",
	  1704103205000, 1704103206000 },
	{ "{\"ts\":1,\"created_at\":\"soon\",\"time\":1704103205}", 1704103205000, 0 },
	{ "{\"created\":1704103206,\"timestamp\":1704103205}", 1704103205000, 0 },
	{ "{\"message\":{\"timestamp\":1704103205}}", 1704103205000, 0 },
	/* What looks like one, and is none. */
	{ "{\"other\":{\"timestamp\":1704103205}}", 0, 0 },
	{ "{\"text\":\"\\\"timestamp\\\":1704103205\"}", 0, 0 },
	{ "[{\"timestamp\":1704103205}]", 0, 0 },
	{ "{\"timestamp\":12.5}", 0, 0 },
	{ "{\"timestamp\":-1704103205}", 0, 0 },
	{ "{\"timestamp\":1.7e9}", 0, 0 },
	{ "{\"timestamp\":99999999999999999999}", 0, 0 },
	{ "{\"timestamp\":null,\"updated_at\":true}", 0, 0 },
	{ "{\"timestamp\":\"2024-01-01\"}", 0, 0 },
	{ "{\"timestamp\":\"9999999999999-01-01T00:00:00Z and more than any time is long\"}", 0,
	  0 },
	{ "{}", 0, 0 },
	{ "\"timestamp\"", 0, 0 },
	{ "1704103205", 0, 0 },
};

Test(dates, are_read_where_records_are_known_to_have_them)
{
	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		int64_t made = -1, changed = -1;

		dates_read(bytes_str(records[i].record), &made, &changed);

		cr_expect_eq(made, records[i].made * 1000000, "%s: made %lld", records[i].record,
			     (long long)made);
		cr_expect_eq(changed, records[i].changed * 1000000, "%s: changed %lld",
			     records[i].record, (long long)changed);
	}
}

static struct backend_op dated(uint32_t kind, const char *record)
{
	const struct dates dates = { OTHER };
	struct backend_op op = { .type = BACKEND_ROW_PUT, .data = bytes_str(record) };

	dates_apply(&dates, kind, &op);
	return op;
}

Test(dates, of_a_record_that_names_none_are_that_of_the_attribute)
{
	struct backend_op op = dated(BACKEND_LIST, "{}");

	cr_assert_eq(op.created, OTHER);
	cr_assert_eq(op.updated, OTHER);
}

Test(dates, of_a_state_are_its_own_beginning_and_the_change_of_the_attribute)
{
	struct backend_op op = dated(BACKEND_SINGLE, "{\"created_at\":1500000000}");

	cr_assert_eq(op.created, 1500000000 * SECOND);
	cr_assert_eq(op.updated, OTHER);
}

Test(dates, never_lie_in_the_future_nor_is_a_change_before_the_beginning)
{
	struct backend_op late = dated(BACKEND_LIST, "{\"timestamp\":99999999999}");
	struct backend_op mixed =
		dated(BACKEND_SINGLE, "{\"created_at\":1500000001,\"updated_at\":1500000000}");

	cr_assert_eq(late.created, OTHER);
	cr_assert_eq(late.updated, OTHER);
	cr_assert_eq(mixed.created, 1500000001 * SECOND);
	cr_assert_eq(mixed.updated, 1500000001 * SECOND);
}

Test(dates, of_a_sidecar_are_not_looked_for_in_its_text)
{
	cr_assert_eq(dated(BACKEND_HASH, "{\"timestamp\":1500000000}").created, OTHER);
}

Test(dates, are_the_stores_business_without_the_attribute)
{
	struct backend_op op = { .data = BYTES("{\"timestamp\":1500000000}") };

	dates_apply(&(struct dates){ 0 }, BACKEND_LIST, &op);
	cr_assert_eq(op.created, 0);
	cr_assert_eq(op.updated, 0);
}

Test(dates, are_a_number_of_nanoseconds_in_the_attribute)
{
	static const char *const bad[] = { "", "0", "-1", "1x", " 1", "99999999999999999999" };
	struct dates dates = { 0 };

	cr_assert_eq(dates_parse(BYTES("1600000000000000000"), &dates), 0);
	cr_assert_eq(dates.other, OTHER);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(dates_parse(bytes_str(bad[i]), &dates), -EINVAL, "'%s'", bad[i]);
}
