/* SPDX-License-Identifier: MIT */
#include "backend/url/url.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "tests/unit/scratch.h"

static char home[256];

/* A home of its own, and no password in the environment. */
static void setup(void)
{
	scratch_template(home, sizeof(home), "url");
	cr_assert(mkdtemp(home));
	setenv("HOME", home, 1);
	unsetenv("MYSQL_PWD");
	unsetenv("PGPASSWORD");
}

static void teardown(void)
{
	static const char *const names[] = { ".my.cnf", ".pgpass", "pass" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(freep) char *path = str_printf("%s/%s", home, names[i]);

		unlink(path);
	}
	rmdir(home);
}

TestSuite(url, .init = setup, .fini = teardown);

/* Writes a file at home; the path, owned by the caller. */
static char *write_file(const char *name, const char *text, mode_t mode)
{
	char *path = str_printf("%s/%s", home, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static void write_home(const char *name, const char *text, mode_t mode)
{
	free(write_file(name, text, mode));
}

static const char *shown(const char *text)
{
	return text ? text : "(none)";
}

static void expect_password(const char *text, const char *password)
{
	_cleanup_(url_done) struct url url = { 0 };
	_cleanup_(freep) char *why = NULL;
	int r = url_parse(text, &url, &why);

	cr_assert_eq(r, 0, "%s: %s", text, shown(why));
	cr_expect_str_eq(shown(url.password), shown(password), "%s: %s", text, shown(url.password));
}

static void expect_refused(const char *text, int error, const char *word)
{
	_cleanup_(url_done) struct url url = { 0 };
	_cleanup_(freep) char *why = NULL;
	int r = url_parse(text, &url, &why);

	cr_expect_eq(r, error, "%s: %d", text, r);
	cr_expect(why && strstr(why, word), "%s: %s", text, shown(why));
	cr_expect_null(url.scheme, "%s", text);
}

Test(url, its_parts_are_found)
{
	static const struct {
		const char *text, *scheme, *user, *host, *socket, *database, *table;
		unsigned port, timeout;
		enum url_tls tls;
	} cases[] = {
		{ "mysql://ann@db.example/agents", "mysql", "ann", "db.example", NULL, "agents",
		  NULL, 0, 30, URL_TLS_VERIFY },
		{ "mariadb://ann@db.example:3307", "mysql", "ann", "db.example", NULL, "agentscope",
		  NULL, 3307, 30, URL_TLS_VERIFY },
		{ "postgres://ann@[2001:db8::1]:5433/a%2Fb", "postgresql", "ann", "2001:db8::1",
		  NULL, "a/b", NULL, 5433, 30, URL_TLS_VERIFY },
		{ "postgresql://ann@%2Frun%2Fpostgresql/x", "postgresql", "ann", NULL,
		  "/run/postgresql", "x", NULL, 0, 30, URL_TLS_OFF },
		{ "mysql://ann@/x?socket=/run/mysqld/mysqld.sock&table=rows_2&timeout=5", "mysql",
		  "ann", NULL, "/run/mysqld/mysqld.sock", "x", "rows_2", 0, 5, URL_TLS_OFF },
		{ "mysql://a%40b@h/x?tls=required", "mysql", "a@b", "h", NULL, "x", NULL, 0, 30,
		  URL_TLS_REQUIRED },
		{ "mysql://a@b@h?tls=off", "mysql", "a@b", "h", NULL, "agentscope", NULL, 0, 30,
		  URL_TLS_OFF },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(url_done) struct url url = { 0 };
		_cleanup_(freep) char *why = NULL;
		const char *text = cases[i].text;

		cr_assert_eq(url_parse(text, &url, &why), 0, "%s: %s", text, shown(why));
		cr_expect_str_eq(url.scheme, cases[i].scheme, "%s", text);
		cr_expect_str_eq(url.user, cases[i].user, "%s", text);
		cr_expect_str_eq(shown(url.host), shown(cases[i].host), "%s", text);
		cr_expect_str_eq(shown(url.socket), shown(cases[i].socket), "%s", text);
		cr_expect_str_eq(url.database, cases[i].database, "%s", text);
		cr_expect_str_eq(shown(url.table), shown(cases[i].table), "%s", text);
		cr_expect_eq(url.port, cases[i].port, "%s", text);
		cr_expect_eq(url.timeout, cases[i].timeout, "%s", text);
		cr_expect_eq(url.tls, cases[i].tls, "%s", text);
		cr_expect_null(url.password, "%s", text);
		cr_expect_not(url.durable, "%s", text);
	}
}

Test(url, what_nobody_names_is_the_process_s_user)
{
	_cleanup_(url_done) struct url url = { 0 };

	cr_assert_eq(url_parse("mysql://", &url, NULL), 0);
	cr_expect_str_eq(url.user, getpwuid(geteuid())->pw_name);
	cr_expect_null(url.host);
}

Test(url, what_is_wrong_is_told)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
		{ "etcd://h/0", "mysql://" },
		{ "mysql://h:0/x", "port" },
		{ "mysql://h:99999/x", "port" },
		{ "mysql://h:1x/x", "port" },
		{ "mysql://[::1/x", "]" },
		{ "mysql://[::1]3306/x", "port" },
		{ "mysql://:3306/x", "no host" },
		{ "mysql://h/x/y", "%2F" },
		{ "mysql://h/x#y", "%23" },
		{ "mysql://h/%zz", "%25" },
		{ "mysql://h/%4", "%25" },
		{ "mysql://h/a%00b", "%25" },
		{ "mysql://h/x?tabel=y", "'tabel'" },
		{ "mysql://h/x?=y", "''" },
		{ "mysql://h/x?table=a.b", "letters" },
		{ "mysql://h/x?table=", "letters" },
		{ "mysql://h/x?table=1a", "letters" },
		{ "mysql://h/x?table="
		  "a2345678901234567890123456789012345678901234567890123456789012345",
		  "letters" },
		{ "mysql://h/x?tls=maybe", "verify" },
		{ "mysql://h/x?tls", "verify" },
		{ "mysql:///x?tls=required", "socket" },
		{ "mysql://h/x?tls=off&ca=/c", "ca=" },
		{ "mysql://h/x?ca=c.pem", "absolute" },
		{ "mysql://h/x?passfile=p", "absolute" },
		{ "mysql://h/x?timeout=0", "seconds" },
		{ "mysql://h/x?timeout=-1", "seconds" },
		{ "mysql://h/x?timeout=1s", "seconds" },
		{ "mysql://h/x?socket=/s", "one of them" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_refused(cases[i].text, -EINVAL, cases[i].word);
}

Test(url, a_password_in_it_is_refused_and_not_repeated)
{
	static const char *const texts[] = {
		"mysql://ann:geheim@h/x",	    "postgresql://ann:geheim@h/x",
		"mysql://ann:geh@eim@h/x",	    "mysql://h/x?password=geheim",
		"postgresql://h/x?password=geheim", "mysql://:geheim@h/x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(url_done) struct url url = { 0 };
		_cleanup_(freep) char *why = NULL;

		cr_expect_eq(url_parse(texts[i], &url, &why), -EINVAL, "%s", texts[i]);
		cr_assert_not_null(why);
		cr_expect(strstr(why, "passfile="), "%s", why);
		cr_expect(strstr(why, *texts[i] == 'm' ? "MYSQL_PWD" : "PGPASSWORD"), "%s", why);
		cr_expect_null(strstr(why, "geh"), "%s", why);
	}
}

Test(url, a_path_is_none)
{
	cr_expect(url_is("mysql://h"));
	cr_expect(url_is("s3://bucket"));
	cr_expect_not(url_is("store.db"));
	cr_expect_not(url_is("/var/lib/mysql://x"));
	cr_expect_not(url_is("./mysql://x"));
	cr_expect_not(url_is("memory:"));
	cr_expect_not(url_is("://x"));
	cr_expect_not(url_is(""));
}

Test(url, a_password_is_the_first_line_of_its_file)
{
	_cleanup_(freep) char *path = write_file("pass", "geheim\nnot this\n", 0600);
	_cleanup_(freep) char *text = str_printf("mysql://ann@h/x?passfile=%s", path);

	setenv("MYSQL_PWD", "another", 1);
	expect_password(text, "geheim");
	write_home("pass", "with blanks: and #\r\n", 0400);
	expect_password(text, "with blanks: and #");
}

Test(url, a_file_with_a_password_is_for_its_owner_alone)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0601 };
	_cleanup_(freep) char *path = str_printf("%s/pass", home);
	_cleanup_(freep) char *text = str_printf("mysql://ann@h/x?passfile=%s", path);

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		write_home("pass", "geheim\n", modes[i]);
		expect_refused(text, -EACCES, "chmod 600");
		write_home(".my.cnf", "[client]\npassword=geheim\n", modes[i]);
		expect_refused("mysql://ann@h/x", -EACCES, "chmod 600");
		write_home(".pgpass", "*:*:*:*:geheim\n", modes[i]);
		expect_refused("postgresql://ann@h/x", -EACCES, "chmod 600");
	}
	write_home(".my.cnf", "[client]\nuser=bob\n", 0644);
	expect_password("mysql://h/x", NULL);
}

Test(url, a_file_for_the_password_that_cannot_be_read_is_told)
{
	_cleanup_(freep) char *path = str_printf("%s/pass", home);
	_cleanup_(freep) char *text = str_printf("mysql://ann@h/x?passfile=%s", path);
	_cleanup_(freep) char *folder = str_printf("mysql://ann@h/x?passfile=%s", home);
	_cleanup_(freep) char *large = malloc(70001);

	memset(large, 'x', 70000);
	large[70000] = '\0';
	expect_refused(text, -ENOENT, path);
	expect_refused(folder, -EINVAL, "not a regular file");
	expect_refused("mysql://ann@h/x?passfile=/dev/zero", -EINVAL, "not a regular file");
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_refused(text, -EINVAL, "not a regular file");
	unlink(path);
	write_home("pass", "\ngeheim\n", 0600);
	expect_refused(text, -EINVAL, "empty");
	write_home("pass", large, 0600);
	expect_refused(text, -EFBIG, path);
}

Test(url, the_environment_has_the_password_of_its_kind_of_server)
{
	write_home(".my.cnf", "[client]\npassword=at home\n", 0600);
	setenv("MYSQL_PWD", "m", 1);
	setenv("PGPASSWORD", "p", 1);
	expect_password("mysql://ann@h/x", "m");
	expect_password("postgresql://ann@h/x", "p");
	unsetenv("MYSQL_PWD");
	unsetenv("PGPASSWORD");
	expect_password("mysql://ann@h/x", "at home");
	expect_password("postgresql://ann@h/x", NULL);
}

Test(url, mysql_s_options_are_read_as_its_clients_do)
{
	static const struct {
		const char *text, *user, *password;
	} cases[] = {
		{ "[client]\nuser=bob\npassword=geheim\n", "bob", "geheim" },
		{ "[client]\n user = bob \n password = geheim # not this\n", "bob", "geheim" },
		{ "[client]\npassword='a # b'\n", NULL, "a # b" },
		{ "[client]\npassword=\"a\\\\b\\sc\\\"d\"\r\n", NULL, "a\\b c\"d" },
		{ "[mysqld]\npassword=no\n[client]\npassword=yes\n[mysql]\npassword=no\n", NULL,
		  "yes" },
		{ "[client]\npassword=first\npassword=last\n", NULL, "last" },
		{ "#password=no\n[client]\n;password=no\n#password=no\npasswords=no\n", NULL,
		  NULL },
		{ "[client]\npassword\nuser\n", NULL, NULL },
		{ "[client]\npassword=\n", NULL, NULL },
		{ "password=no\n", NULL, NULL },
		{ "[client", NULL, NULL },
		{ "", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(url_done) struct url url = { 0 };
		const char *user = cases[i].user ? cases[i].user : getpwuid(geteuid())->pw_name;

		write_home(".my.cnf", cases[i].text, 0600);
		cr_assert_eq(url_parse("mysql://h/x", &url, NULL), 0);
		cr_expect_str_eq(url.user, user, "%s", cases[i].text);
		cr_expect_str_eq(shown(url.password), shown(cases[i].password), "%s: %s",
				 cases[i].text, shown(url.password));
	}
	write_home(".my.cnf", "[client]\nuser=bob\npassword=geheim\n", 0600);
	expect_password("mysql://ann@h/x", "geheim");
}

Test(url, pgpass_is_read_as_libpq_does)
{
	static const struct {
		const char *text, *password;
	} cases[] = {
		{ "h:5432:x:ann:geheim\n", "geheim" },
		{ "*:*:*:*:geheim", "geheim" },
		{ "other:*:*:*:no\nh:*:*:*:first\n*:*:*:*:second\n", "first" },
		{ "h:5433:x:ann:no\nh:5432:y:ann:no\nh:5432:x:bob:no\n", NULL },
		{ "#h:5432:x:ann:no\n", NULL },
		{ "h:5432:x:ann:a\\:b\\\\c\n", "a:b\\c" },
		{ "h:5432:x:ann\n", NULL },
		{ "\\*:*:*:*:no\n", NULL },
		{ "\n:::\n", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		write_home(".pgpass", cases[i].text, 0600);
		expect_password("postgresql://ann@h/x", cases[i].password);
	}
	write_home(".pgpass", "localhost:5432:x:ann:local\nh:5433:x:ann:port\n", 0600);
	expect_password("postgresql://ann@/x", "local");
	expect_password("postgresql://ann@h:5433/x", "port");
}

Test(url, it_is_shown_without_the_password)
{
	_cleanup_(freep) char *path = write_file("pass", "geheim\n", 0600);
	_cleanup_(freep) char *given =
		str_printf("mariadb://a%%3ab@h:3307/x%%3fy?table=t&passfile=%s&timeout=5", path);
	_cleanup_(freep) char *wanted = str_printf("mysql://a%%3Ab@h:3307/x%%3Fy?table=t&"
						   "tls=verify&passfile=%s&timeout=5",
						   path);
	_cleanup_(url_done) struct url url = { 0 }, again = { 0 };
	_cleanup_(freep) char *text = NULL, *more = NULL;

	cr_assert_eq(url_parse(given, &url, NULL), 0);
	cr_expect_str_eq(url.password, "geheim");
	text = url_text(&url);
	cr_expect_str_eq(text, wanted);
	cr_assert_eq(url_parse(text, &again, NULL), 0);
	cr_expect_str_eq(again.user, "a:b");
	more = url_text(&again);
	cr_expect_str_eq(more, text);
}

Test(url, each_kind_of_place_can_be_shown_and_parsed_again)
{
	static const char *const texts[] = {
		"mysql://ann@/x?socket=/run/s%26t%2Cu&timeout=30",
		"postgresql://ann@:5433/x?socket=/s&timeout=30",
		"postgresql://ann@[::1]:5433/x?tls=required&timeout=30",
		"postgresql://ann@h/x?tls=verify&ca=/c.pem&timeout=1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(url_done) struct url url = { 0 };
		_cleanup_(freep) char *text = NULL;

		cr_assert_eq(url_parse(texts[i], &url, NULL), 0, "%s", texts[i]);
		text = url_text(&url);
		cr_expect_str_eq(text, texts[i]);
	}
}

Test(url, its_name_tells_one_store_from_another)
{
	static const struct {
		const char *one, *other;
		bool same;
	} cases[] = {
		{ "mysql://ann@h/x", "mariadb://ann@h/x?tls=off&timeout=3", true },
		{ "mysql://ann@h/x", "mysql://ann@h/x?ca=/none&passfile=/none", true },
		{ "mysql://ann@h/agentscope", "mysql://ann@h", true },
		{ "postgresql://ann@/x?socket=/s", "postgres://ann@%2Fs/x", true },
		{ "mysql://ann@h/x", "mysql://bob@h/x", false },
		{ "mysql://ann@h/x", "mysql://ann@h/y", false },
		{ "mysql://ann@h/x", "mysql://ann@h/x?table=y", false },
		{ "mysql://ann@h/x", "mysql://ann@h:3307/x", false },
		{ "mysql://ann@h/x", "postgresql://ann@h/x", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *one = NULL, *other = NULL;

		cr_assert_eq(url_name(cases[i].one, &one, NULL), 0, "%s", cases[i].one);
		cr_assert_eq(url_name(cases[i].other, &other, NULL), 0, "%s", cases[i].other);
		cr_expect_eq(strcmp(one, other) == 0, cases[i].same, "%s %s", one, other);
	}
}
