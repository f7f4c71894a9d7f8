/* SPDX-License-Identifier: MIT */
#include "tests/lib/lib.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/scratch.h"

struct sessfs *lib;

static sqlite3 *db;
static char scratch[256];
static char *texts[8];

/* A text of this case; the oldest one goes. */
static char **next_text(void)
{
	static unsigned next;
	char **text = &texts[next++ % ARRAY_SIZE(texts)];

	free(*text);
	*text = strdup("");
	return text;
}

static void append(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char **text, const char *format, ...)
{
	char *more, *joined;
	va_list args;

	va_start(args, format);
	cr_assert_geq(vasprintf(&more, format, args), 0);
	va_end(args);
	cr_assert_geq(asprintf(&joined, "%s%s%s", *text, **text ? " " : "", more), 0);
	free(more);
	free(*text);
	*text = joined;
}

const char *path_beside(const char *name)
{
	char **path = next_text();

	if (!*scratch) {
		scratch_template(scratch, sizeof(scratch), "lib");
		cr_assert_not_null(mkdtemp(scratch));
	}
	append(path, "%s/%s", scratch, name);
	return *path;
}

const char *path_of_store(void)
{
	return path_beside("store.db");
}

struct sessfs *open_store(unsigned flags)
{
	struct sessfs *handle = NULL;
	int r = sessfs_open(path_of_store(), NULL, flags, &handle);

	cr_assert_eq(r, 0, "sessfs_open: %s", sessfs_why());
	return handle;
}

static int kind_numbers[] = { STORE_SQLITE, STORE_MEMORY };

struct criterion_test_params every_kind(void)
{
	return cr_make_param_array(int, kind_numbers, ARRAY_SIZE(kind_numbers), NULL);
}

void fresh_store(int kind)
{
	if (kind == STORE_SQLITE)
		lib = open_store(SESSFS_CREATE);
	else
		cr_assert_eq(sessfs_open("memory:", NULL, 0, &lib), 0, "%s", sessfs_why());
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void close_all(void)
{
	sqlite3_close(db);
	db = NULL;
	sessfs_close(lib);
	lib = NULL;
	if (*scratch)
		nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	*scratch = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		free(texts[i]);
		texts[i] = NULL;
	}
}

void save(const char *session, const char *key, const char *json)
{
	int r = sessfs_save(lib, session, key, json, strlen(json));

	cr_assert_eq(r, 0, "%s", sessfs_why());
}

void save_texts(const char *session, const char *key, const char *const *items, size_t count)
{
	struct sessfs_item list[16];
	int r;

	cr_assert_leq(count, ARRAY_SIZE(list));
	for (size_t i = 0; i < count; i++)
		list[i] = (struct sessfs_item){ items[i], strlen(items[i]) };
	r = sessfs_save_list(lib, session, key, list, count);
	cr_assert_eq(r, 0, "%s", sessfs_why());
}

enum { NUMBER_MAX = 64 };

int try_numbers(struct sessfs *handle, const char *session, const char *key, const char *who,
		size_t count)
{
	_cleanup_(freep) struct sessfs_item *items = calloc(count + 1, sizeof(*items));
	_cleanup_(freep) char *room = malloc((count + 1) * NUMBER_MAX);

	if (!items || !room)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		char *text = room + i * NUMBER_MAX;
		int size = snprintf(text, NUMBER_MAX, "{\"n\":%zu, \"by\":\"%s\"}", i, who);

		items[i] = (struct sessfs_item){ text, (size_t)size };
	}
	return sessfs_save_list(handle, session, key, items, count);
}

void save_numbers(const char *session, const char *key, const char *who, size_t count)
{
	int r = try_numbers(lib, session, key, who, count);

	cr_assert_eq(r, 0, "%s", sessfs_why());
}

const char *get(const char *session, const char *key)
{
	char **text = next_text();
	_cleanup_(freep) char *json = NULL;
	size_t size = 0;
	int r = sessfs_get(lib, session, key, &json, &size);

	if (r == -ENOENT)
		return "none";
	cr_assert_eq(r, 0, "%s", sessfs_why());
	cr_assert_eq(strlen(json), size);
	append(text, "%s", json);
	return *text;
}

static int show_item(void *arg, size_t index, const char *data, size_t size)
{
	append(arg, "%zu=%.*s", index, (int)size, data);
	return 0;
}

const char *list_of(const char *session, const char *key)
{
	char **text = next_text();
	int r = sessfs_get_list(lib, session, key, show_item, text);

	cr_assert_eq(r, 0, "%s", sessfs_why());
	return *text;
}

static int show_session(void *arg, const char *session)
{
	append(arg, "%s", session);
	return 0;
}

const char *sessions(void)
{
	char **text = next_text();
	int r = sessfs_list_sessions(lib, show_session, text);

	cr_assert_eq(r, 0, "%s", sessfs_why());
	return *text;
}

sqlite3 *sql(void)
{
	if (!db) {
		cr_assert_eq(sqlite3_open(path_of_store(), &db), SQLITE_OK);
		sqlite3_busy_timeout(db, 600000);
	}
	return db;
}

void sql_runs(const char *text)
{
	int code = sqlite3_exec(sql(), text, NULL, NULL, NULL);

	cr_assert_eq(code, SQLITE_OK, "%s: %s", text, sqlite3_errmsg(db));
}

const char *sql_asks(const char *text)
{
	char **answer = next_text();
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(sql(), text, -1, &statement, NULL);

	cr_assert_eq(code, SQLITE_OK, "%s: %s", text, sqlite3_errmsg(db));
	code = sqlite3_step(statement);
	if (code == SQLITE_ROW) {
		const char *column = (const char *)sqlite3_column_text(statement, 0);

		append(answer, "%s", column ? column : "NULL");
	} else {
		cr_assert_eq(code, SQLITE_DONE, "%s: %s", text, sqlite3_errmsg(db));
	}
	sqlite3_finalize(statement);
	return *answer;
}
