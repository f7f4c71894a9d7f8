/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_LIB_H
#define TESTS_LIB_LIB_H

/*
 * A store, a handle of the library on it, and plain SQLite beside it.
 *
 * A case has one store; `lib` is its handle.  Whatever is not asked for its error must succeed.
 * Text that is returned stays until the eighth call from then.
 */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <sqlite3.h>

#include "backend/base/cleanup.h"
#include "src/lib/sessfs.h"

extern struct sessfs *lib;

/* The path of the SQLite store of this case, or of another file beside it. */
const char *path_of_store(void);
const char *path_beside(const char *name);
struct sessfs *open_store(unsigned flags);
void close_all(void);

/* A case for each kind of store, and one for a SQLite store, each with a fresh one. */
struct criterion_test_params every_kind(void);
void fresh_store(int kind);
#define EveryStore(suite, name)                                                                    \
	static void suite##_##name##_body(void);                                                   \
	ParameterizedTestParameters(suite, name)                                                   \
	{                                                                                          \
		return every_kind();                                                               \
	}                                                                                          \
	ParameterizedTest(const int *kind, suite, name, .fini = close_all)                         \
	{                                                                                          \
		fresh_store(*kind);                                                                \
		suite##_##name##_body();                                                           \
	}                                                                                          \
	static void suite##_##name##_body(void)
enum { STORE_SQLITE, STORE_MEMORY };
#define SqliteStore(suite, name)                                                                   \
	static void suite##_##name##_body(void);                                                   \
	Test(suite, name, .fini = close_all)                                                       \
	{                                                                                          \
		fresh_store(STORE_SQLITE);                                                         \
		suite##_##name##_body();                                                           \
	}                                                                                          \
	static void suite##_##name##_body(void)

/* The library, with text for bytes. */
void save(const char *session, const char *key, const char *json);
#define SAVE_LIST(session, key, ...)                                                               \
	({                                                                                         \
		const char *texts_[] = { __VA_ARGS__ };                                            \
		save_texts((session), (key), texts_, ARRAY_SIZE(texts_));                          \
	})
void save_texts(const char *session, const char *key, const char *const *texts, size_t count);
/* count items, each {"n":number, "by":"who"}, the numbers from 0 on; the error. */
int try_numbers(struct sessfs *handle, const char *session, const char *key, const char *who,
		size_t count);
void save_numbers(const char *session, const char *key, const char *who, size_t count);
const char *get(const char *session, const char *key);
/* "0=... 1=..." */
const char *list_of(const char *session, const char *key);
const char *sessions(void);

/* SQLite.  The first column of the first row as text, "NULL" for null, "" for no row. */
sqlite3 *sql(void);
void sql_runs(const char *text);
const char *sql_asks(const char *text);

#endif
