/* SPDX-License-Identifier: MIT */
/* What is saved is what is got, in every kind of store. */
#include "tests/lib/lib.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

EveryStore(states, come_back_byte_for_byte)
{
	save("s", "meta", " {\"b\": 1.50, \"a\":\t\"\\u0041\u00e4\"}\n");

	cr_assert_str_eq(get("s", "meta"), " {\"b\": 1.50, \"a\":\t\"\\u0041\u00e4\"}\n");
}

EveryStore(states, are_replaced_whole)
{
	save("s", "meta", "[1, 2, 3]");
	save("s", "meta", "4");

	cr_assert_str_eq(get("s", "meta"), "4");
	cr_assert_str_eq(list_of("s", "meta"), "0=4");
}

EveryStore(states, that_are_not_there_are_not_found)
{
	save("s", "k", "1");

	cr_assert_str_eq(get("s", "other"), "none");
	cr_assert_str_eq(get("t", "k"), "none");
	cr_assert_str_eq(list_of("s", "other"), "");
}

EveryStore(states, may_have_any_name_in_utf_8)
{
	save("../\u4e2d 'x'; --", "a/b\n%", "1");

	cr_assert_str_eq(get("../\u4e2d 'x'; --", "a/b\n%"), "1");
	cr_assert_str_eq(sessions(), "../\u4e2d 'x'; --");
}

EveryStore(states, of_many_megabytes_come_back)
{
	enum { SIZE = 8 << 20 };
	_cleanup_(freep) char *text = malloc(SIZE), *back = NULL;
	size_t size = 0;

	memset(text, 'x', SIZE);
	text[0] = text[SIZE - 1] = '"';
	cr_assert_eq(sessfs_save(lib, "s", "k", text, SIZE), 0, "%s", sessfs_why());
	cr_assert_eq(sessfs_get(lib, "s", "k", &back, &size), 0, "%s", sessfs_why());
	cr_assert_eq(size, SIZE);
	cr_assert(memcmp(text, back, SIZE) == 0);
}

EveryStore(lists, come_back_in_their_order)
{
	SAVE_LIST("s", "l", "{\"n\": 0}", "1", "\"two\"");

	cr_assert_str_eq(list_of("s", "l"), "0={\"n\": 0} 1=1 2=\"two\"");
	cr_assert_str_eq(get("s", "l"), "{\"n\": 0}");
}

EveryStore(lists, grow_change_and_shrink)
{
	SAVE_LIST("s", "l", "0", "1");
	SAVE_LIST("s", "l", "0", "1", "2");
	cr_assert_str_eq(list_of("s", "l"), "0=0 1=1 2=2");
	SAVE_LIST("s", "l", "0", "9", "2");
	cr_assert_str_eq(list_of("s", "l"), "0=0 1=9 2=2");
	SAVE_LIST("s", "l", "9");
	cr_assert_str_eq(list_of("s", "l"), "0=9");
	cr_assert_eq(sessfs_save_list(lib, "s", "l", NULL, 0), 0);
	cr_assert_str_eq(list_of("s", "l"), "");
}

EveryStore(lists, of_more_items_than_a_block_are_whole)
{
	const size_t counts[] = { 60, 61, 62, 63, 64, 65, 128, 500 };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		char last[64], key[16];
		const char *list;

		snprintf(key, sizeof(key), "l%zu", counts[i]);
		snprintf(last, sizeof(last), "%zu={\"n\":%zu, \"by\":\"x\"}", counts[i] - 1,
			 counts[i] - 1);
		save_numbers("s", key, "x", counts[i]);
		list = list_of("s", key);
		cr_assert_str_eq(strrchr(list, '{') - (strrchr(last, '{') - last), last);
		/* and what was behind it goes */
		save_numbers("s", key, "x", counts[i] - 1);
		cr_assert_null(strstr(list_of("s", key), last));
	}
}

EveryStore(lists, without_items_make_their_session_exist)
{
	cr_assert_eq(sessfs_exists(lib, "s"), 0);
	cr_assert_eq(sessfs_save_list(lib, "s", "l", NULL, 0), 0);
	cr_assert_eq(sessfs_exists(lib, "s"), 1);
}

EveryStore(lists, and_states_take_each_others_place_whole)
{
	SAVE_LIST("s", "k", "0", "1", "2");
	save("s", "k", "{}");
	cr_assert_str_eq(list_of("s", "k"), "0={}");
	cr_assert_str_eq(get("s", "k:_hash"), "none");
	SAVE_LIST("s", "k", "0", "1");
	cr_assert_str_eq(list_of("s", "k"), "0=0 1=1");
}

static int stop_at(void *arg, size_t index, const char *data, size_t size)
{
	const int *answer = arg;

	(void)data;
	(void)size;
	cr_assert_leq(index, 1, "the callback had said no more");
	return index == 1 ? *answer : 0;
}

EveryStore(lists, end_when_the_callback_says_so)
{
	int stop = 1, fail = -ECANCELED;

	SAVE_LIST("s", "l", "0", "1", "2");
	cr_assert_eq(sessfs_get_list(lib, "s", "l", stop_at, &stop), 0);
	cr_assert_eq(sessfs_get_list(lib, "s", "l", stop_at, &fail), -ECANCELED);
	cr_assert_str_neq(sessfs_why(), "");
}

static int save_beside(void *arg, size_t index, const char *data, size_t size)
{
	(void)arg;
	(void)index;
	cr_assert_eq(sessfs_save_list(lib, "s", "l", NULL, 0), 0);
	cr_assert_eq(sessfs_save(lib, "s", "copy", data, size), 0);
	return 0;
}

EveryStore(lists, that_are_read_stay_as_they_are_while_the_callback_saves)
{
	SAVE_LIST("s", "l", "0", "1", "2");
	cr_assert_eq(sessfs_get_list(lib, "s", "l", save_beside, NULL), 0);
	cr_assert_str_eq(get("s", "copy"), "2");
	cr_assert_str_eq(list_of("s", "l"), "");
}

EveryStore(sessions, are_listed_once_and_in_order)
{
	save("b", "k", "1");
	save("b", "l", "1");
	SAVE_LIST("a", "l", "1", "2");
	save("bb", "k", "1");

	cr_assert_str_eq(sessions(), "a b bb");
}

EveryStore(sessions, exist_as_long_as_one_of_their_states_does)
{
	save("b", "k", "1");
	save("b", "l", "1");
	cr_assert_eq(sessfs_exists(lib, "b"), 1);
	cr_assert_eq(sessfs_exists(lib, "a"), 0);
	cr_assert_eq(sessfs_exists(lib, "c"), 0);

	cr_assert_eq(sessfs_delete_key(lib, "b", "k"), 0);
	cr_assert_eq(sessfs_exists(lib, "b"), 1);
	cr_assert_eq(sessfs_delete_key(lib, "b", "l"), 0);
	cr_assert_eq(sessfs_exists(lib, "b"), 0);
}

EveryStore(deleting, a_session_leaves_the_others)
{
	char key[16];

	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		save("b", key, "1");
	}
	SAVE_LIST("b", "l", "1", "2");
	save("a", "k", "1");
	save("ba", "k", "2");

	cr_assert_eq(sessfs_delete_session(lib, "b"), 0);
	cr_assert_str_eq(sessions(), "a ba");
	cr_assert_str_eq(get("ba", "k"), "2");
}

EveryStore(deleting, a_key_takes_its_sidecar_and_leaves_the_others)
{
	SAVE_LIST("s", "l", "1", "2");
	SAVE_LIST("s", "ll", "3");

	cr_assert_eq(sessfs_delete_key(lib, "s", "l"), 0);
	cr_assert_str_eq(list_of("s", "l"), "");
	cr_assert_str_eq(get("s", "l:_hash"), "none");
	cr_assert_str_eq(list_of("s", "ll"), "0=3");
}

EveryStore(deleting, what_is_not_there_is_no_error)
{
	cr_assert_eq(sessfs_delete_session(lib, "s"), 0);
	cr_assert_eq(sessfs_delete_key(lib, "s", "k"), 0);
}

/* Threads that share a handle: each has a list of its own, and all save one together. */

enum { THREADS = 4, ROUNDS = 25, LENGTH = 80 };

static atomic_int failures;

static int same_author(void *arg, size_t index, const char *data, size_t size)
{
	char *author = arg;
	char now = data[size - 3];

	if (index == 0)
		*author = now;
	atomic_fetch_add(&failures, now != *author);
	return 0;
}

static void *save_and_read(void *arg)
{
	const char *who = arg;
	char author;

	for (int i = 0; i < ROUNDS; i++) {
		size_t length = LENGTH + (size_t)i % 3;

		atomic_fetch_add(&failures, try_numbers(lib, "own", who, who, length) != 0);
		atomic_fetch_add(&failures, try_numbers(lib, "s", "all", who, length) != 0);
		atomic_fetch_add(&failures,
				 sessfs_get_list(lib, "s", "all", same_author, &author) != 0);
		atomic_fetch_add(&failures, sessfs_save(lib, "", "k", "1", 1) != -EINVAL ||
						    !strstr(sessfs_why(), "session"));
		atomic_fetch_add(&failures, sessfs_save(lib, "s", "", "1", 1) != -EINVAL ||
						    !strstr(sessfs_why(), "key"));
	}
	return NULL;
}

EveryStore(threads, share_a_handle_and_never_see_a_mixed_list)
{
	static char *const names[THREADS] = { "a", "b", "c", "d" };
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, save_and_read, names[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	cr_assert_eq(failures, 0);
	for (int i = 0; i < THREADS; i++)
		cr_assert_not_null(strstr(list_of("own", names[i]), names[i]));
}
