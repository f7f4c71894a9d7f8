/* SPDX-License-Identifier: MIT */
#include "backend/plugin.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "tests/unit/scratch.h"

static char folder[256];
static char said[256];

static void keep(int level, const char *sentence)
{
	snprintf(said, sizeof(said), "%d %s", level, sentence);
}

static char *in_folder(const char *name)
{
	return str_printf("%s/%s", folder, name);
}

static void setup(void)
{
	scratch_template(folder, sizeof(folder), "plugins");
	cr_assert(mkdtemp(folder));
	setenv("SESSFS_PLUGINS", folder, 1);
	setenv("HOME", folder, 1);
	setenv("MYSQL_PWD", "geheim", 1);
	unsetenv("PGPASSWORD");
	log_set_sink(keep);
}

static void teardown(void)
{
	static const char *const names[] = { "sessfs-mysql.so", "sessfs-postgresql.so" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(freep) char *path = in_folder(names[i]);

		unlink(path);
	}
	rmdir(folder);
}

TestSuite(plugins, .init = setup, .fini = teardown);

/* Puts one of those that were built for this test there as the plugin of a scheme. */
static void install(const char *built, const char *scheme)
{
	_cleanup_(freep) char *from =
		str_printf("%s/tests/unit/.libs/%s.so", getenv("top_builddir"), built);
	_cleanup_(freep) char *name = str_printf("sessfs-%s.so", scheme);
	_cleanup_(freep) char *to = in_folder(name);

	cr_assert_eq(symlink(from, to), 0);
}

/* What comes of opening a store: "ERROR SENTENCE", owned by the caller. */
static char *opened(const char *store, const struct backend_options *options)
{
	const struct backend_options none = { 0 };
	_cleanup_(freep) char *why = NULL;
	struct backend *backend;
	int r = backend_open(store, options ? options : &none, &backend, &why);

	cr_assert_lt(r, 0);
	return str_printf("%s %s", strerrorname_np(-r), why ? why : "-");
}

static void expect_opened(const char *store, const struct backend_options *options,
			  const char *wanted)
{
	_cleanup_(freep) char *seen = opened(store, options);

	cr_expect_str_eq(seen, wanted, "%s", seen);
}

Test(plugins, one_that_is_there_opens_the_url)
{
	install("plugin-fake", "mysql");
	install("plugin-fake", "postgresql");
	expect_opened("mysql://ann@h/x?tls=off", NULL, "EXDEV mysql ann geheim table -");
	expect_opened("mariadb://bob@/x?table=t", NULL, "EXDEV mysql bob geheim table t");
	expect_opened("postgres://ann@h/x",
		      &(struct backend_options){ .table = "u", .durable = true, .read_only = true },
		      "EXDEV postgresql ann - table u durable read-only");
	expect_opened("mysql://ann@h/x?table=t", &(struct backend_options){ .table = "t" },
		      "EXDEV mysql ann geheim table t");
}

Test(plugins, one_that_is_missing_is_named)
{
	_cleanup_(freep) char *seen = opened("postgresql://ann@h/x", NULL);

	cr_expect(strstr(seen, "ELIBACC ") == seen, "%s", seen);
	cr_expect(strstr(seen, "the package sessfs-postgresql"), "%s", seen);
	cr_expect(strstr(seen, folder), "%s", seen);
}

Test(plugins, one_that_comes_later_is_found)
{
	_cleanup_(freep) char *seen = opened("mysql://ann@h/x", NULL);

	cr_expect(strstr(seen, "ELIBACC "), "%s", seen);
	install("plugin-fake", "mysql");
	expect_opened("mysql://ann@h/x", NULL, "EXDEV mysql ann geheim table -");
}

Test(plugins, one_that_is_no_library_is_told)
{
	_cleanup_(freep) char *path = in_folder("sessfs-mysql.so");
	_cleanup_(freep) char *seen = NULL;
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	close(fd);
	seen = opened("mysql://ann@h/x", NULL);
	cr_expect(strstr(seen, "ELIBACC ") && strstr(seen, "cannot load "), "%s", seen);
}

Test(plugins, one_of_another_version_is_not_used)
{
	_cleanup_(freep) char *seen = NULL;

	install("plugin-older", "mysql");
	seen = opened("mysql://ann@h/x", NULL);
	cr_expect(strstr(seen, "ELIBACC ") == seen, "%s", seen);
	cr_expect(strstr(seen, "sessfs 0.0.1, but this is " PACKAGE_STRING), "%s", seen);
}

Test(plugins, one_of_another_build_of_this_version_is_not_used)
{
	_cleanup_(freep) char *seen = NULL;

	install("plugin-other", "mysql");
	seen = opened("mysql://ann@h/x", NULL);
	cr_expect(strstr(seen, "ELIBACC ") == seen, "%s", seen);
	cr_expect(strstr(seen, "another build of " PACKAGE_STRING), "%s", seen);
}

Test(plugins, a_table_that_is_named_twice_is_one)
{
	_cleanup_(freep) char *seen = NULL;

	install("plugin-fake", "mysql");
	seen = opened("mysql://ann@h/x?table=t", &(struct backend_options){ .table = "u" });
	cr_expect(strstr(seen, "EINVAL ") && strstr(seen, "table="), "%s", seen);
}

Test(plugins, what_it_logs_comes_to_the_log_without_the_password)
{
	struct backend_prepared *prepared;
	char *why;

	install("plugin-fake", "mysql");
	cr_assert_eq(backend_prepare("mysql://ann@/x", &prepared, &why), 0);
	cr_expect_str_eq(said, "6 prepared for x");
	backend_prepared_free(prepared);
}

Test(plugins, what_is_prepared_needs_no_file_any_more)
{
	_cleanup_(freep) char *path = in_folder("sessfs-mysql.so");
	struct backend_prepared *prepared;
	char *why;

	install("plugin-fake", "mysql");
	cr_assert_eq(backend_prepare("mysql://ann@127.0.0.1/x?ca=/c.pem", &prepared, &why), 0);
	unlink(path);
	unsetenv("MYSQL_PWD");
	cr_expect_eq(prepared->port, 3306);
	cr_expect_str_eq(prepared->file, "/c.pem");
	expect_opened("mysql://ann@127.0.0.1/x", &(struct backend_options){ .prepared = prepared },
		      "EXDEV mysql ann geheim table -");
	backend_prepared_free(prepared);
}

Test(plugins, preparing_in_vain_says_why)
{
	struct backend_prepared *prepared;
	_cleanup_(freep) char *why = NULL;

	install("plugin-fake", "mysql");
	cr_expect_eq(backend_prepare("mysql://ann@/unprepared", &prepared, &why), -EPERM);
	cr_expect_str_eq(why, "not prepared");
}

static int refuse_older(void *arg, struct bytes session, struct bytes data, int64_t updated)
{
	(void)arg, (void)session, (void)data, (void)updated;
	return -ELOOP;
}

Test(plugins, one_without_older_tables_is_asked_in_vain)
{
	_cleanup_(freep) char *why = NULL;

	install("plugin-fake", "mysql");
	cr_expect_eq(backend_read_older("mysql://ann@/x", NULL, refuse_older, NULL, &why),
		     -EOPNOTSUPP);
}

Test(plugins, other_stores_need_none)
{
	static const char *const stores[] = { "memory:", "/nowhere/x.db", "x.db", "./mysql://x" };

	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		struct backend_prepared *prepared;
		_cleanup_(freep) char *why = NULL, *name = NULL;

		cr_expect_eq(backend_prepare(stores[i], &prepared, &why), 0, "%s", stores[i]);
		cr_expect_null(prepared, "%s", stores[i]);
		cr_expect_eq(backend_has_path(stores[i]), i > 0, "%s", stores[i]);
		cr_expect_eq(backend_is_private(stores[i]), i == 0, "%s", stores[i]);
		cr_expect_eq(backend_name(stores[i], &name, NULL), 0);
		cr_expect_str_eq(name, stores[i]);
	}
}

Test(plugins, a_url_has_no_path_and_one_name)
{
	_cleanup_(freep) char *name = NULL, *why = NULL;

	cr_expect_not(backend_has_path("mysql://ann@h/x"));
	cr_expect_not(backend_is_private("mysql://ann@h/x"));
	cr_expect_not(backend_is_owned("mysql://ann@h/x"));
	cr_assert_eq(backend_name("mariadb://ann@h/x?timeout=3&passfile=/none", &name, NULL), 0);
	cr_expect_str_eq(name, "mysql://ann@h/x");
	cr_expect_eq(backend_name("etcd://h", &name, &why), -EINVAL);
	cr_expect(why && strstr(why, "'etcd://'"));
}
