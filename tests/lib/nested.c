/* SPDX-License-Identifier: MIT */
/* Callbacks that call the library, deeper and in more threads than there are connections. */
#include "tests/lib/lib.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEEP = 40, THREADS = 40, LIMIT = 600 };

struct descent {
	int left;
	int read;
};

static int descend(void *arg, size_t index, const char *data, size_t size)
{
	struct descent *descent = arg;

	cr_assert_eq(index, 0);
	cr_assert(size == 1 && *data == '1');
	descent->read++;
	return descent->left-- > 0 ? sessfs_get_list(lib, "s", "l", descend, arg) : 0;
}

EveryStore(nested, callbacks_read_as_deep_as_they_like)
{
	struct descent descent = { .left = DEEP };

	alarm(LIMIT);
	SAVE_LIST("s", "l", "1");
	cr_assert_eq(sessfs_get_list(lib, "s", "l", descend, &descent), 0, "%s", sessfs_why());
	cr_assert_eq(descent.read, DEEP + 1);
	save("s", "k", "2");
	cr_assert_str_eq(get("s", "k"), "2");
}

static pthread_barrier_t inside;

static int get_with_all_the_others(void *arg, size_t index, const char *data, size_t size)
{
	char *json;
	int r;

	(void)arg;
	(void)index;
	(void)data;
	(void)size;
	pthread_barrier_wait(&inside);
	r = sessfs_get(lib, "s", "l", &json, NULL);
	if (r == 0)
		free(json);
	return r;
}

static void *list(void *arg)
{
	(void)arg;
	return sessfs_get_list(lib, "s", "l", get_with_all_the_others, NULL) == 0 ? lib : NULL;
}

SqliteStore(nested, callbacks_of_many_threads_do_not_wait_for_each_other)
{
	pthread_t threads[THREADS];
	void *done;

	alarm(LIMIT);
	SAVE_LIST("s", "l", "1");
	pthread_barrier_init(&inside, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, list, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_join(threads[i], &done), 0);
		cr_expect_not_null(done, "thread %d", i);
	}
	pthread_barrier_destroy(&inside);
}

/* A handle of its own is another program. */
struct meanwhile {
	struct sessfs *other;
	bool saves_itself;
	const char *first, *second; /* what it has read */
};

static int change_meanwhile(void *arg, size_t index, const char *data, size_t size)
{
	struct meanwhile *meanwhile = arg;

	(void)index;
	(void)data;
	(void)size;
	cr_assert_eq(sessfs_save(meanwhile->other, "s", "k", "2", 1), 0, "%s", sessfs_why());
	meanwhile->first = get("s", "k");
	if (meanwhile->saves_itself)
		save("s", "own", "3");
	meanwhile->second = get("s", "k");
	return 0;
}

static void open_beside(struct meanwhile *meanwhile)
{
	meanwhile->other = open_store(0);
	SAVE_LIST("s", "l", "0");
	save("s", "k", "1");
}

SqliteStore(nested, a_callback_reads_the_state_that_its_caller_reads)
{
	struct meanwhile meanwhile = { 0 };

	open_beside(&meanwhile);
	cr_assert_eq(sessfs_get_list(lib, "s", "l", change_meanwhile, &meanwhile), 0);
	cr_expect_str_eq(meanwhile.first, "1");
	cr_expect_str_eq(meanwhile.second, "1");
	cr_expect_str_eq(get("s", "k"), "2", "a read that is not nested");
	sessfs_close(meanwhile.other);
}

SqliteStore(nested, but_what_it_has_saved_itself_it_reads)
{
	struct meanwhile meanwhile = { .saves_itself = true };

	open_beside(&meanwhile);
	cr_assert_eq(sessfs_get_list(lib, "s", "l", change_meanwhile, &meanwhile), 0);
	cr_expect_str_eq(meanwhile.first, "1");
	cr_expect_str_eq(meanwhile.second, "2");
	sessfs_close(meanwhile.other);
}
