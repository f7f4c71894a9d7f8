/* SPDX-License-Identifier: MIT */
#include "backend/base/log.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log-news.h"
#include "backend/base/log-pause.h"

/* What the sink has got. */
static int calls;
static int last_level;
static char last_sentence[16384];

static void sink(int level, const char *sentence)
{
	calls++;
	last_level = level;
	snprintf(last_sentence, sizeof(last_sentence), "%s", sentence);
}

static void set_sink(void)
{
	log_set_sink(sink);
}

Test(log, the_sink_gets_level_and_sentence, .init = set_sink)
{
	log_error("store %s: %d rows", "a.db", 3);

	cr_expect_eq(calls, 1);
	cr_expect_eq(last_level, LOG_ERR);
	cr_expect_str_eq(last_sentence, "store a.db: 3 rows");
}

Test(log, each_macro_has_its_level, .init = set_sink)
{
	log_set_level(LOG_DEBUG);

	log_error("e");
	cr_expect_eq(last_level, LOG_ERR);
	log_warning("w");
	cr_expect_eq(last_level, LOG_WARNING);
	log_notice("n");
	cr_expect_eq(last_level, LOG_NOTICE);
	log_info("i");
	cr_expect_eq(last_level, LOG_INFO);
	log_debug("d");
	cr_expect_eq(last_level, LOG_DEBUG);
	cr_expect_eq(calls, 5);
}

Test(log, debug_is_dropped_unless_asked_for, .init = set_sink)
{
	log_debug("not shown");
	cr_expect_eq(calls, 0);
	log_info("shown");
	cr_expect_eq(calls, 1);

	log_set_level(LOG_DEBUG);
	log_debug("shown");
	cr_expect_eq(calls, 2);

	log_set_level(LOG_ERR);
	log_warning("not shown");
	cr_expect_eq(calls, 2);
}

Test(log, no_name_can_forge_a_line, .init = set_sink)
{
	log_warning("name %s", "a\nsessfs: all is well\r\x1b[2K\x7f\t\x01\xc2\x9b"
			       "2J\xc3\x82");

	cr_expect_eq(calls, 1);
	cr_expect_str_eq(
		last_sentence,
		"name a\\x0asessfs: all is well\\x0d\\x1b[2K\\x7f\\x09\\x01\\xc2\\x9b2J\xc3\x82");
}

Test(log, letters_of_other_scripts_stay, .init = set_sink)
{
	log_warning("session %s", "\xe6\x97\xa5\xe6\x9c\xac");

	cr_expect_str_eq(last_sentence, "session \xe6\x97\xa5\xe6\x9c\xac");
}

Test(log, a_sentence_without_end_is_cut, .init = set_sink)
{
	static char plain[100001], control[100001];

	memset(plain, 'x', sizeof(plain) - 1);
	memset(control, '\n', sizeof(control) - 1);

	log_warning("%s", plain);
	cr_expect_gt(strlen(last_sentence), 1000);
	cr_expect_lt(strlen(last_sentence), 10000);
	cr_expect_eq(strspn(last_sentence, "x"), strlen(last_sentence));

	log_warning("%s", control);
	cr_expect_gt(strlen(last_sentence), 1000);
	cr_expect_lt(strlen(last_sentence), 10000);
	cr_expect_eq(strspn(last_sentence, "\\x0a"), strlen(last_sentence));
	cr_expect_eq(strlen(last_sentence) % 4, 0);
}

Test(log, until_a_sink_is_set_warnings_go_to_stderr, .init = cr_redirect_stderr)
{
	log_warning("disk is %d%% full", 99);
	log_info("not for the terminal");
	fflush(stderr);

	cr_expect_stderr_eq_str("sessfs: disk is 99% full\n");
}

Test(log, without_a_sink_it_is_stderr_again, .init = cr_redirect_stderr)
{
	log_set_sink(sink);
	log_set_sink(NULL);
	log_error("again");
	fflush(stderr);

	cr_expect_eq(calls, 0);
	cr_expect_stderr_eq_str("sessfs: again\n");
}

enum { PER_SECOND = 100 };

/* So many are said of failures that follow each other for so many seconds. */
static unsigned said(struct log_pause *pause, int64_t *now, unsigned seconds)
{
	unsigned count = 0;

	for (unsigned i = 0; i < seconds * PER_SECOND;
	     i++, *now += INT64_C(1000000000) / PER_SECOND)
		count += log_pause_over(pause, *now);
	return count;
}

Test(log, a_failure_that_repeats_is_said_less_and_less_often)
{
	struct log_pause pause = { 0 };
	int64_t now = 12345;

	cr_expect(log_pause_over(&pause, now));
	cr_expect_not(log_pause_over(&pause, now));
	/* After 1, 3, 7, 15, 31, 63 seconds, and then once a minute. */
	cr_expect_eq(said(&pause, &now, 100), 6);
	cr_expect_eq(said(&pause, &now, 600), 10);
}

Test(log, a_failure_that_was_over_is_a_new_one)
{
	struct log_pause pause = { 0 };
	int64_t now = 12345;

	said(&pause, &now, 1000);
	now += INT64_C(11000000000);
	cr_expect(log_pause_over(&pause, now));
	cr_expect_eq(said(&pause, &now, 10), 3);
}

Test(log, what_is_no_news_is_not_said_in_a_minute)
{
	struct log_news news = { 0 };
	int64_t now = 12345;

	cr_expect(log_news_is(&news, BYTES("one"), now));
	cr_expect_not(log_news_is(&news, BYTES("one"), now));
	cr_expect(log_news_is(&news, BYTES("other"), now));
	now += INT64_C(59000000000);
	cr_expect_not(log_news_is(&news, BYTES("one"), now));
	now += INT64_C(1000000000);
	cr_expect(log_news_is(&news, BYTES("one"), now));
}

Test(log, no_more_than_twenty_news_are_said_in_a_minute)
{
	struct log_news news = { 0 };
	unsigned count = 0;

	cr_expect_not(log_news_full(&news));
	for (unsigned i = 0; i < 120 * PER_SECOND; i++)
		count += log_news_is(&news, bytes_make(&i, sizeof(i)),
				     INT64_C(1000000000) / PER_SECOND * i + 1);
	cr_expect_eq(count, 2 * LOG_NEWS_MOST);
	cr_expect(log_news_full(&news));
}
