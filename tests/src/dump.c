/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "src/exchange/dump.h"
#include "src/user/stop.h"

bool stop_wanted(void)
{
	return false;
}

#define CREATE                                                                                     \
	"CREATE TABLE `t` (\n  `id` int NOT NULL COMMENT 'a, (b) '';',\n  `v` json,\n"             \
	"  PRIMARY KEY (`id`),\n  KEY `k` (`v`(10),`id`)\n) ENGINE=InnoDB;\n"

static char shown[8192];
static size_t used;

static void show(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void show(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	used += (size_t)vsnprintf(shown + used, sizeof(shown) - used, format, args);
	va_end(args);
	cr_assert_lt(used, sizeof(shown));
}

static int on_row(void *arg, const struct dump_row *row)
{
	(void)arg;
	for (size_t i = 0; i < row->count; i++)
		show("%.*s=%.*s%s ", (int)row->names[i].size, row->names[i].data,
		     (int)row->values[i].size, row->values[i].data ? row->values[i].data : "",
		     row->values[i].data ? "" : "NULL");
	show("|");
	return 0;
}

static int on_broken(void *arg, const struct dump_place *place, const char *reason)
{
	(void)arg;
	show("%s at %u,%u|", reason, (unsigned)place->line, (unsigned)place->byte);
	return 0;
}

static const char *rows_of(struct bytes text)
{
	const struct dump dump = { .table = "t", .row = on_row, .broken = on_broken };
	_cleanup_(closep) int fd = memfd_create("dump", MFD_CLOEXEC);

	used = 0;
	shown[0] = '\0';
	cr_assert_eq(write(fd, text.data, text.size), (ssize_t)text.size);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_assert_eq(dump_read(fd, &dump), 0);
	return shown;
}

static const struct {
	const char *text, *rows;
} cases[] = {
	{ "", "" },
	{ "-- nothing\n", "" },
	{ CREATE, "" },
	{ CREATE "INSERT INTO `t` VALUES (1,'a'),(2,NULL);\n", "id=1 v=a |id=2 v=NULL |" },
	{ CREATE "insert into t values (-1.5e3,\"a\");", "id=-1.5e3 v=a |" },
	{ CREATE "REPLACE INTO `db`.`t` VALUES(TRUE , 'it''s \\'q\\' \\\"\\n\\\\ \\%' )\n;",
	  "id=1 v=it's 'q' \"\n\\ % |" },
	{ CREATE "INSERT IGNORE INTO t VALUES (0x4142,X'4344'),(_binary 'e',_utf8mb4 0x46);",
	  "id=AB v=CD |id=e v=F |" },
	{ CREATE "INSERT INTO t (`v`, `id`) VALUES ('a;)', 1) ON DUPLICATE KEY UPDATE v='(';",
	  "v=a;) id=1 |" },
	{ "INSERT INTO t (a) VALUES ('x');", "a=x |" },
	{ CREATE "INSERT INTO `other` VALUES (1,'; INSERT INTO t VALUES (9,9);');\n"
		 "INSERT INTO t VALUES (1,'');",
	  "id=1 v= |" },
	{ CREATE "/*!40000 ALTER TABLE `t` DISABLE KEYS */;\n# x\nINSERT INTO t VALUES /* , */ (1"
		 " -- y\n,2);",
	  "id=1 v=2 |" },
	{ "CREATE TABLE IF NOT EXISTS t (id int);INSERT INTO t VALUES (1);", "id=1 |" },
	{ "DELIMITER ;;\nCREATE TRIGGER x BEGIN INSERT INTO t VALUES ('; END ;;\nDELIMITER ;\n"
	  "INSERT INTO t (a) VALUES (1);",
	  "a=1 |" },
	{ "INSERT INTO t VALUES (1);\nINSERT INTO t (a) VALUES (2);",
	  "no CREATE TABLE has told the columns at 1,20|a=2 |" },
	{ "INSERT INTO t (a) VALUES (1),(oops),(3);\nINSERT INTO t (a) VALUES (4);",
	  "a=1 |expected a value at 1,34|a=4 |" },
	{ "INSERT INTO t (a) VALUES (1,2);", "more values than columns at 1,28|" },
	{ "INSERT INTO t (a,b) VALUES (1);", "fewer values than columns at 1,30|" },
	{ "INSERT INTO t (a) VALUES (_latin1'\xe9');",
	  "a character set other than UTF-8 at 1,33|" },
	{ "INSERT INTO t (a) VALUES (_utf8 _binary'x');", "expected a value at 1,32|" },
	{ "INSERT INTO t (a) VALUES (0x414);", "an odd number of hexadecimal digits at 1,31|" },
	{ "INSERT INTO t (a) VALUES ('x", "the file ends in a statement at 1,28|" },
	{ "\nINSERT INTO t (a) SELECT 1;", "expected VALUES at 2,25|" },
};

Test(dump, rows_of_the_table_are_read_and_what_is_broken_is_told_with_its_place)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(rows_of(bytes_str(cases[i].text)), cases[i].rows, "%s of %s",
				 shown, cases[i].text);
}

static int on_long_row(void *arg, const struct dump_row *row)
{
	*(size_t *)arg += row->values[0].size;
	return 0;
}

Test(dump, a_row_may_be_longer_than_what_is_read_at_once)
{
	const size_t size = 3 << 20;
	_cleanup_(buf_done) struct buf text = { 0 };
	_cleanup_(closep) int fd = memfd_create("dump", MFD_CLOEXEC);
	size_t seen = 0;
	const struct dump dump = {
		.table = "t",
		.row = on_long_row,
		.broken = on_broken,
		.arg = &seen,
	};

	used = 0;
	buf_append_str(&text, "INSERT INTO t (a) VALUES ('");
	buf_append_zeros(&text, size);
	memset(text.data + text.size - size, 'x', size);
	buf_append_str(&text, "'),('y');\n");
	cr_assert_eq(write(fd, text.data, text.size), (ssize_t)text.size);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_assert_eq(dump_read(fd, &dump), 0);
	cr_assert_eq(seen, size + 1);
	cr_assert_eq(used, 0);
}

Test(dump, a_dump_that_ends_anywhere_is_read_up_to_there)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t size = 0; size < strlen(cases[i].text); size++)
			rows_of(bytes_make(cases[i].text, size));
}

Test(dump, any_byte_at_any_place_does_no_harm)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t at = 0; at < strlen(cases[i].text); at++)
			for (unsigned byte = 0; byte < 256; byte += 17) {
				_cleanup_(freep) char *text = strdup(cases[i].text);
				size_t size = strlen(text);

				text[at] = (char)byte;
				rows_of(bytes_make(text, size));
			}
}
