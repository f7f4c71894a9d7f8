/* SPDX-License-Identifier: MIT */
/* What is refused, with which error and which words; and that nothing has changed then. */
#include "tests/lib/lib.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(int r, int error, const char *words)
{
	cr_assert_eq(r, error, "%d instead of %d: %s", r, error, sessfs_why());
	cr_assert(strstr(sessfs_why(), words), "\"%s\" does not say \"%s\"", sessfs_why(), words);
}

EveryStore(texts, that_are_not_json_are_refused_with_their_place)
{
	save("s", "k", "1");

	expect(sessfs_save(lib, "s", "k", "{\"a\": tru}", 10), -EINVAL,
	       "session 's', key 'k', item 0: not JSON at byte 6: expected a value");
	expect(sessfs_save(lib, "s", "k", "", 0), -EINVAL, "at byte 0: unexpected end");
	expect(sessfs_save(lib, "s", "k", "1\0", 2), -EINVAL, "at byte 1");
	expect(sessfs_save(lib, "s", "k", "\"\xff\"", 3), -EINVAL, "invalid UTF-8");
	cr_assert_str_eq(get("s", "k"), "1");
}

EveryStore(texts, that_are_not_json_spoil_their_list)
{
	const struct sessfs_item items[] = { { "0", 1 }, { "1", 1 }, { "NaN", 3 }, { "3", 1 } };

	SAVE_LIST("s", "l", "7", "8");

	expect(sessfs_save_list(lib, "s", "l", items, ARRAY_SIZE(items)), -EINVAL,
	       "item 2: not JSON at byte 0");
	cr_assert_str_eq(list_of("s", "l"), "0=7 1=8");
}

EveryStore(texts, that_are_null_are_refused)
{
	const struct sessfs_item items[] = { { "0", 1 }, { NULL, 1 } };

	expect(sessfs_save(lib, "s", "k", NULL, 1), -EINVAL,
	       "session 's', key 'k', item 0: the text is NULL");
	expect(sessfs_save(lib, "s", "k", NULL, 0), -EINVAL, "the text is NULL");
	expect(sessfs_save_list(lib, "s", "k", items, ARRAY_SIZE(items)), -EINVAL,
	       "session 's', key 'k', item 1: the text is NULL");
	expect(sessfs_save_list(lib, "s", "k", NULL, 2), -EINVAL,
	       "session 's', key 'k': the items are NULL");
	cr_assert_str_eq(sessions(), "");
}

EveryStore(names, that_are_empty_or_not_utf_8_are_refused)
{
	expect(sessfs_save(lib, "", "k", "1", 1), -EINVAL, "session is empty");
	expect(sessfs_save(lib, NULL, "k", "1", 1), -EINVAL, "session is empty");
	expect(sessfs_save(lib, "s", "", "1", 1), -EINVAL, "key is empty");
	expect(sessfs_save(lib, "s\xff", "k", "1", 1), -EINVAL, "session is not UTF-8");
	expect(sessfs_exists(lib, ""), -EINVAL, "session");
	expect(sessfs_delete_session(lib, ""), -EINVAL, "session");
	cr_assert_str_eq(sessions(), "");
}

EveryStore(names, of_sidecars_are_written_with_their_list_only)
{
	SAVE_LIST("s", "l", "1");

	expect(sessfs_save(lib, "s", "l:_hash", "1", 1), -EINVAL, ":_hash");
	expect(sessfs_save_list(lib, "s", "l:_hash", NULL, 0), -EINVAL, ":_hash");
	expect(sessfs_delete_key(lib, "s", "l:_hash"), -EINVAL, ":_hash");
	cr_assert_str_neq(get("s", "l:_hash"), "none");
}

EveryStore(sentences, are_gone_after_a_success)
{
	char *json = NULL;

	expect(sessfs_get(lib, "s", "k", &json, NULL), -ENOENT, "session 's', key 'k'");
	cr_assert_null(json);
	save("s", "k", "1");
	cr_assert_str_eq(sessfs_why(), "");
}

static void *fail_elsewhere(void *arg)
{
	(void)arg;
	return sessfs_save(lib, "s", "", "1", 1) == -EINVAL && strstr(sessfs_why(), "key") ? lib :
											     NULL;
}

static int fail_and_go_on(void *arg, size_t index, const char *data, size_t size)
{
	char *json;

	(void)arg;
	(void)index;
	(void)data;
	(void)size;
	return sessfs_get(lib, "s", "none", &json, NULL) == -ENOENT ? 0 : -EIO;
}

EveryStore(sentences, of_callbacks_are_gone_after_a_success)
{
	SAVE_LIST("s", "l", "1");
	cr_assert_eq(sessfs_get_list(lib, "s", "l", fail_and_go_on, NULL), 0);
	cr_assert_str_eq(sessfs_why(), "");
}

EveryStore(sentences, belong_to_their_thread)
{
	pthread_t thread;
	void *told = NULL;

	expect(sessfs_save(lib, "", "k", "1", 1), -EINVAL, "session");
	cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
	pthread_join(thread, &told);
	cr_assert_not_null(told);
	cr_assert_str_eq(sessfs_why(), "the session is empty");
}

EveryStore(sentences, are_not_cut_within_a_character)
{
	char name[300] = "x", *json = NULL;

	for (int i = 1; i < 200; i += 2)
		strcpy(name + i, "\xc3\xa9");
	cr_assert_eq(sessfs_get(lib, name, "k", &json, NULL), -ENOENT);
	cr_expect_null(strstr(sessfs_why(), "\xc3'"), "%s", sessfs_why());
	cr_expect_not_null(strstr(sessfs_why(), "\xa9'"), "%s", sessfs_why());
}

Test(opening, refuses_no_name)
{
	expect(sessfs_open(NULL, NULL, SESSFS_CREATE, &lib), -EINVAL, "path of the store is empty");
	expect(sessfs_open("", NULL, SESSFS_CREATE, &lib), -EINVAL, "path of the store is empty");
}

Test(opening, refuses_what_is_not_there_and_makes_nothing, .fini = close_all)
{
	expect(sessfs_open(path_of_store(), NULL, 0, &lib), -ENOENT, "there is no store at");
	expect(sessfs_open(path_of_store(), NULL, SESSFS_CREATE | SESSFS_READ_ONLY, &lib), -ENOENT,
	       "there is no store at");
	cr_assert_null(lib);
	cr_assert_neq(access(path_of_store(), F_OK), 0);
}

Test(opening, refuses_a_file_that_is_no_database, .fini = close_all)
{
	int fd = open(path_of_store(), O_WRONLY | O_CREAT, 0600);

	cr_assert_eq(write(fd, "hello", 5), 5);
	close(fd);
	expect(sessfs_open(path_of_store(), NULL, SESSFS_CREATE, &lib), -EMEDIUMTYPE,
	       "not a SQLite database");
}

SqliteStore(opening, refuses_a_table_that_the_store_does_not_serve)
{
	struct sessfs *other = NULL;

	expect(sessfs_open(path_of_store(), "elsewhere", 0, &other), -EINVAL,
	       "agentscope_sessions");
}

/* Root may write to anything.  Nobody has the directory of the case, and removes it. */
static void be_nobody(void)
{
	enum { NOBODY = 65534 };

	cr_assert(geteuid() != 0 || (chown(path_beside("."), NOBODY, NOBODY) == 0 &&
				     setegid(NOBODY) == 0 && seteuid(NOBODY) == 0));
}

/* LeakSanitizer may look at a process only if it has its own user and is dumpable. */
static void end_as_before(void)
{
	close_all();
	cr_assert(seteuid(getuid()) == 0 && setegid(getgid()) == 0);
	cr_assert_eq(prctl(PR_SET_DUMPABLE, 1), 0);
}

Test(opening, again_goes_by_what_the_system_says_now, .fini = end_as_before)
{
	be_nobody();
	for (int i = 0; i < 3; i++) {
		fresh_store(STORE_SQLITE);
		save("s", "k", "1");
		sessfs_close(lib);
		lib = NULL;
		cr_assert_eq(chmod(path_of_store(), 0400), 0);
		expect(sessfs_open(path_of_store(), NULL, 0, &lib), -EACCES, "cannot write");
		cr_assert_eq(chmod(path_of_store(), 0600), 0);
	}
}

Test(opening, for_writing_is_not_held_back_by_a_descriptor_for_reading, .fini = end_as_before)
{
	pid_t pid;

	be_nobody();
	path_of_store();
	pid = fork();
	if (pid == 0) { /* so this process has not had it open */
		sessfs_close(open_store(SESSFS_CREATE));
		_exit(chmod(path_of_store(), 0400));
	}
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	expect(sessfs_open(path_of_store(), NULL, 0, &lib), -EACCES, "cannot write");
	cr_assert_eq(chmod(path_of_store(), 0600), 0);
	lib = open_store(0);
	save("s", "k", "1");
}

SqliteStore(reading_only, changes_nothing)
{
	struct sessfs *writer = lib;

	save("s", "k", "1");
	lib = open_store(SESSFS_READ_ONLY);
	expect(sessfs_save(lib, "s", "k", "2", 1), -EROFS, "session 's', key 'k'");
	expect(sessfs_delete_key(lib, "s", "k"), -EROFS, "nothing was deleted");
	expect(sessfs_delete_session(lib, "s"), -EROFS, "nothing was deleted");
	cr_assert_str_eq(get("s", "k"), "1");
	sessfs_close(writer);
}

SqliteStore(failures, are_told_in_the_words_of_sqlite)
{
	save("s", "k", "1");
	sql_runs("CREATE TRIGGER no BEFORE INSERT ON agentscope_sessions BEGIN "
		 "SELECT RAISE(ABORT, 'the moon is full'); END");

	expect(sessfs_save(lib, "s", "l", "1", 1), -EINVAL, "the moon is full");
	cr_assert_str_eq(get("s", "l"), "none");
}
