/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_DRIVER_H
#define BACKEND_SQL_DRIVER_H

/*
 * What the SQL servers differ in: how statements and answers go back and forth, and words of their
 * languages.  Each has one constant struct sql_driver.
 *
 * Errors of a driver are -errno:
 *	-ENOTCONN  the connection is lost; whether what was sent has been done is not known
 *	-EDEADLK   the transaction was given up and may be tried again
 *	-ESTALE    a guard has failed: a statement that was made so
 *	-EUSERS    it has as many connections as it takes
 *	-ENOMSG    no table has a column that the statement names, or two have it
 *	-EEXIST, -EBUSY, -ENOSPC, -EFBIG, -ENAMETOOLONG, -EROFS, -EACCES, -ENOENT (no such table or
 *	database), -ECONNREFUSED, -EILSEQ (not in the encoding that the table has), -EIO, -ENOMEM
 */

#include <stdint.h>

#include "backend/base/buf.h"

struct url;
struct sql_link;   /* a connection, of one thread at a time */
struct sql_answer; /* rows that have come, independent of the connection */

enum { SQL_COLUMNS = 24 }; /* of any statement, at the most */

/* A word in braces, with what follows it up to the closing one: "%s" in the text is that, "%1" its
 * first word and "%2" the rest. */
struct sql_word {
	const char *name;
	const char *text;
};

struct sql_driver {
	const char *name;
	const struct sql_word *words; /* ends with a name that is NULL */
	/* The first statements of a connection, for writing and for reading. */
	const char *hello_writer;
	const char *hello_reader;
	/* Before the first statement of a snapshot, and of a transaction that writes. */
	const char *begin_read;
	const char *begin_write;
	/* One time for what a transaction keeps, and for the rows that it adds; and that it keeps
	 * nothing. */
	const char *moment;
	const char *moment_forget;
	/* What a statement reads, no trigger of it writes to. */
	bool triggers_write_apart;
	/* A transaction of which a statement has failed takes no others but ROLLBACK. */
	bool failure_ends;
	/* The triggers of the rows' table do nothing for this connection, and something again. */
	const char *silent;
	const char *loud;
	/* The tables that a store has, as statements, and the triggers of the rows' table.  The
	 * first and the last statement of the former lock the making of stores in this database,
	 * and end that. */
	const char *const *tables;
	const char *const *triggers;
	const char *no_triggers; /* takes them away */
	/* How many of them the table ?1 has, as far as this user is told. */
	const char *trigger_count;
	bool trigger_count_tells_all; /* to any user */
	/* Where no trigger tells that the table is emptied by TRUNCATE, but a snapshot from before
	 * fails with -EDEADLK: what a connection is told that looks for that; else NULL. */
	const char *truncation;
	/* What an administrator says for the user USER, so that mounts have the rights that they
	 * need once the store is made; "?" is the name of the database. */
	const char *const *rights;
	/* What stands before and behind a statement with ";" in it in a script for the server's
	 * client. */
	const char *script[2];
	/* The name of a collation for which each id has one spelling; bytes that all takes. */
	const char *collation;
	const char *size;
	/* By which of its settings the server may lose what it has committed: one text, "" for
	 * none. */
	const char *careless;
	/* The statement "which columns has table ?1": name, type in lower case, collation or NULL
	 * (then each id has one spelling), digits of the fraction of a time or NULL, characters
	 * that it has room for or NULL, and 1 where it cannot hold any text. */
	const char *columns;
	/* The engine of the table ?1 if it has no transactions; NULL: all have. */
	const char *careless_engine;
	/* And "which type has its column version", in lower case, "" if it cannot be written. */
	const char *version;
	const char *any_text; /* a type that can, as people write it */
	/* What it says instead of statements of texts.h, by enum sql_text; NULL: nothing. */
	const char *const *own;
	/* *ret_why as in backend_open(); until: see below. */
	int (*open)(const struct url *url, int64_t until, struct sql_link **ret_link,
		    char **ret_why);
	/* Waiting for the server ends at this moment of tick_ms(), with -ENOTCONN; 0: when
	 * the server has been silent for the timeout of the URL. */
	void (*until)(struct sql_link *link, int64_t until);
	void (*close)(struct sql_link *link);
	/* Send statements, with ";" between them.  Answers to earlier statements that were not read
	 * are thrown away. */
	int (*send)(struct sql_link *link, struct bytes statements);
	/* The answer of the next statement: 1, and its rows in *ret_answer (NULL: it has none);
	 * 0: there is no other; or an error of that statement, and those behind it were not run.
	 * After -ENOTCONN there is nothing else to be had of the connection. */
	int (*next)(struct sql_link *link, struct sql_answer **ret_answer);
	/* The sentence of the server about the last error. */
	const char *(*sentence)(struct sql_link *link);
	/* The next row, with so many columns; what is NULL has no data. */
	bool (*row)(struct sql_answer *answer, struct bytes columns[SQL_COLUMNS]);
	void (*answer_done)(struct sql_answer *answer); /* NULL is fine */
	/* A literal: text in the encoding of the database, or any bytes. */
	int (*quote)(struct buf *buf, struct bytes bytes, bool text);
	/* What stands before the name of a table, and around it, doubled inside. */
	const char *schema;
	char name_quote;
	/* Bytes of one packet, as the server has it now; 0: the connection is lost. */
	uint64_t (*packet)(struct sql_link *link);
};

#endif
