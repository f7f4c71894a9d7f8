/* SPDX-License-Identifier: MIT */
#include "src/user/units.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "backend/base/cleanup.h"

static const int64_t second = 1000000000;

Test(units, sizes_are_bytes_with_powers_of_1024)
{
	static const struct {
		const char *text;
		int result;
		uint64_t size;
	} cases[] = {
		{ "0", 0, 0 },
		{ "500", 0, 500 },
		{ "1k", 0, 1024 },
		{ "20M", 0, 20 << 20 },
		{ "1T", 0, 1ULL << 40 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "9223372036854775808", -EINVAL, 0 },
		{ "8388608T", -EINVAL, 0 },
		{ "1KB", -EINVAL, 0 },
		{ "1X", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t size = 0;

		cr_expect_eq(units_size(cases[i].text, &size), cases[i].result, "%s",
			     cases[i].text);
		cr_expect_eq(size, cases[i].size, "%s is %llu", cases[i].text,
			     (unsigned long long)size);
	}
}

Test(units, ages_name_their_unit)
{
	static const struct {
		const char *text;
		int result;
		int64_t seconds;
	} cases[] = {
		{ "0s", 0, 0 },		{ "30m", 0, 1800 },   { "12H", 0, 43200 },
		{ "7d", 0, 604800 },	{ "2w", 0, 1209600 }, { "1y", 0, 31536000 },
		{ "7", -EINVAL, 0 },	{ "d", -EINVAL, 0 },  { "1dd", -EINVAL, 0 },
		{ "293y", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t age = 0;

		cr_expect_eq(units_age(cases[i].text, &age), cases[i].result, "%s", cases[i].text);
		cr_expect_eq(age, cases[i].seconds * second, "%s", cases[i].text);
	}
}

Test(units, sizes_are_shown_in_three_digits_or_two)
{
	static const struct {
		uint64_t size;
		const char *shown;
	} cases[] = {
		{ 0, "0" },
		{ 1023, "1023" },
		{ 1024, "1.0K" },
		{ 10188, "9.9K" },
		{ 10240, "10K" },
		{ 1023 << 10, "1023K" },
		{ (1 << 20) - 1, "1.0M" },
		{ UINT64_MAX, "16E" },
	};
	char text[UNITS_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(units_show_size(cases[i].size, text), cases[i].shown);
}

Test(units, a_time_that_is_not_known_is_a_dash)
{
	char text[UNITS_TEXT];

	cr_expect_str_eq(units_show_time(0, text), "-");
	cr_expect_eq(strlen(units_show_time(86400 * second, text)), strlen("1970-01-02 00:00"));
}
