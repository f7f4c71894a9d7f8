/* SPDX-License-Identifier: MIT */
/* Connections to MySQL and MariaDB, by libmariadb. */
#include <errno.h>
#include <mysql.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mysql/link.h"
#include "backend/mysql/mysql.h"
#include "backend/url/url.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"

/* The numbers of server and library are in mysqld_error.h and errmsg.h; some are of one of the two
 * servers alone. */
static const struct {
	int error;
	unsigned codes[12]; /* ends with 0 */
} errors[] = {
	/* Full disks and tables, and memory of the server. */
	{ -ENOSPC, { 1021, 1114, 1037, 1038 } },
	/* No server. */
	{ -ECONNREFUSED, { 2002, 2003, 2005 } },
	/* Too many connections: to it, and of this user. */
	{ -EUSERS, { 1040, 1203, 1226 } },
	{ -EACCES, { 1044, 1045, 1142, 1227, 1419, 1698 } },
	/* No such database or table. */
	{ -ENOENT, { 1049, 1146 } },
	/* A column cannot be NULL, a subquery has more than one row: guards of ours. */
	{ -ESTALE, { 1048, 1242 } },
	{ -ENOMSG, { 1052, 1054 } },
	{ -EEXIST, { 1062 } },
	{ -EBUSY, { 1205, 3572 } },
	/* Deadlock; a row has changed since the snapshot; the table is another one since then. */
	{ -EDEADLK, { 1213, 1020, 1412 } },
	/* A packet that is too large; out of range, of a column and of a sum. */
	{ -EFBIG, { 1153, 1301, 1264, 1690 } },
	{ -ENAMETOOLONG, { 1406 } },
	{ -EILSEQ, { 1366, 1300, 3854, 3988 } },
	{ -EROFS, { 1290, 1792, 1836 } },
	/* The server goes down, has ended the connection or the statement, or does not answer; the
	 * last is the same with TLS. */
	{ -ENOTCONN, { 1053, 1927, 1317, 2006, 2013, 2055, 2026, 4031 } },
	/* The library got no valid answer to this question: a new connection helps. */
	{ -ENOTCONN, { 2000, 2014, 2027 } },
	{ -ENOMEM, { 2008 } },
};

/* MYSQL_CLIENT_AUTHENTICATION_PLUGIN, whose header of the library includes what is not there. */
enum { AUTHENTICATION = 2 };

/* Error numbers of the client library, of MariaDB's or MySQL's. */
#define IS_OF_LIBRARY(code) (((code) >= 2000 && (code) < 3000) || ((code) >= 5000 && (code) < 6000))

struct sql_link {
	MYSQL mysql;
	bool sent;     /* and nothing of the answers was read */
	bool lost;     /* what has come may be half an answer */
	int64_t until; /* when to give up waiting for the first of them; 0: after the timeout */
};

/* An answer is the library's, so there is none that memory is short for. */
static MYSQL_RES *rows_of(struct sql_answer *answer)
{
	return (MYSQL_RES *)answer;
}

static int error_of(struct sql_link *link)
{
	unsigned code = mysql_errno(&link->mysql);

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		for (const unsigned *known = errors[i].codes; *known; known++)
			if (*known == code)
				return errors[i].error;
	return -EIO;
}

static int lose(struct sql_link *link)
{
	link->lost = true;
	return -ENOTCONN;
}

/* Of an answer.  What the library itself complains of leaves the rest of it on its way; and where
 * it does not say of what, as without memory, what was sent may have been done all the same. */
static int fail(struct sql_link *link)
{
	unsigned code = mysql_errno(&link->mysql);
	int r = error_of(link);

	return r == -ENOTCONN || !code || IS_OF_LIBRARY(code) ? lose(link) : r;
}

static int refuse(struct sql_link *link, const struct url *url, char **ret_why)
{
	int r = error_of(link);

	if (ret_why)
		*ret_why = str_printf("%s: %s", url->host ? url->host : "the server",
				      mysql_error(&link->mysql));
	mysql_close(&link->mysql);
	free(link);
	return r == -ENOTCONN ? -ECONNREFUSED : r;
}

/* Wait for what the library waits for, in its own words. */
static int wait_for(struct sql_link *link, int what)
{
	struct pollfd fd = { .fd = mysql_get_socket(&link->mysql) };
	int64_t left;
	int n;

	fd.events |= what & MYSQL_WAIT_READ ? POLLIN : 0;
	fd.events |= what & MYSQL_WAIT_WRITE ? POLLOUT : 0;
	do {
		left = link->until - tick_ms();
		n = left > 0 ? poll(&fd, 1, (int)MIN(left, INT64_C(1000000))) : 0;
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return MYSQL_WAIT_TIMEOUT;
	return what & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
}

static bool connect_to(struct sql_link *link, const struct url *url)
{
	MYSQL *connected = NULL;
	int wait = mysql_real_connect_start(&connected, &link->mysql, url->host, url->user,
					    url->password, url->database, url->port, url->socket,
					    CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS);

	while (wait)
		wait = mysql_real_connect_cont(&connected, &link->mysql, wait_for(link, wait));
	return connected;
}

int mysql_link_open(const struct url *url, int64_t until, struct sql_link **ret_link,
		    char **ret_why)
{
	struct sql_link *link = calloc(1, sizeof(*link));
	const unsigned timeout = url->timeout ? url->timeout : 30;
	const unsigned protocol = url->host ? MYSQL_PROTOCOL_TCP : MYSQL_PROTOCOL_SOCKET;
	const my_bool verify = url->tls == URL_TLS_VERIFY, on = url->tls != URL_TLS_OFF;

	if (!link)
		return -ENOMEM;
	link->until = until;
	mysql_init(&link->mysql);
	mysql_optionsv(&link->mysql, MYSQL_OPT_NONBLOCK, 0);
	mysql_optionsv(&link->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &timeout);
	mysql_optionsv(&link->mysql, MYSQL_OPT_READ_TIMEOUT, &timeout);
	mysql_optionsv(&link->mysql, MYSQL_OPT_WRITE_TIMEOUT, &timeout);
	mysql_optionsv(&link->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
	/* To the library, localhost would be the socket. */
	mysql_optionsv(&link->mysql, MYSQL_OPT_PROTOCOL, &protocol);
	mysql_optionsv(&link->mysql, MYSQL_OPT_SSL_ENFORCE, &on);
	mysql_optionsv(&link->mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
	if (url->ca)
		mysql_optionsv(&link->mysql, MYSQL_OPT_SSL_CA, url->ca);
	if (!connect_to(link, url))
		return refuse(link, url, ret_why);
	/* Where no certificate is judged, the library goes on without TLS when the server has
	 * none. */
	if (url->tls != URL_TLS_OFF && !mysql_get_ssl_cipher(&link->mysql)) {
		if (ret_why)
			*ret_why =
				str_printf("%s: TLS is required, but the server does not support "
					   "it",
					   url->host ? url->host : "the server");
		mysql_link_close(link);
		return -ECONNREFUSED;
	}
	*ret_link = link;
	return 0;
}

void mysql_link_close(struct sql_link *link)
{
	mysql_close(&link->mysql);
	free(link);
}

void mysql_link_until(struct sql_link *link, int64_t until)
{
	link->until = until;
}

int mysql_link_next(struct sql_link *link, struct sql_answer **ret_answer)
{
	MYSQL_RES *rows = NULL;
	int r;

	*ret_answer = NULL;
	if (link->lost)
		return -ENOTCONN;
	if (link->sent) {
		/* Nothing of them can be in memory of the library. */
		if (link->until && wait_for(link, MYSQL_WAIT_READ) == MYSQL_WAIT_TIMEOUT)
			return lose(link);
		link->sent = false;
		r = mysql_read_query_result(&link->mysql);
	} else if (mysql_more_results(&link->mysql)) {
		r = mysql_next_result(&link->mysql);
	} else {
		return 0;
	}
	if (r == 0)
		rows = mysql_store_result(&link->mysql);
	/* The error's number alone tells a connection that was lost from an answer without rows:
	 * of both there are no columns, and no other result. */
	if (r || mysql_errno(&link->mysql))
		return fail(link);
	*ret_answer = (struct sql_answer *)rows;
	return 1;
}

int mysql_link_send(struct sql_link *link, struct bytes statements)
{
	struct sql_answer *answer;

	while (mysql_link_next(link, &answer) > 0)
		mysql_answer_done(answer);
	if (link->lost)
		return -ENOTCONN;
	if (mysql_send_query(&link->mysql, statements.data, statements.size)) {
		int r = error_of(link);

		return r == -ENOTCONN ? lose(link) : r;
	}
	link->sent = true;
	return 0;
}

const char *mysql_link_sentence(struct sql_link *link)
{
	return mysql_error(&link->mysql);
}

bool mysql_answer_row(struct sql_answer *answer, struct bytes columns[SQL_COLUMNS])
{
	MYSQL_RES *rows = rows_of(answer);
	MYSQL_ROW row = mysql_fetch_row(rows);
	unsigned long *sizes = row ? mysql_fetch_lengths(rows) : NULL;

	for (unsigned i = 0; row && i < MIN(mysql_num_fields(rows), (unsigned)SQL_COLUMNS); i++)
		columns[i] = bytes_make(row[i], row[i] ? sizes[i] : 0);
	return row;
}

void mysql_answer_done(struct sql_answer *answer)
{
	mysql_free_result(rows_of(answer));
}

uint64_t mysql_link_packet(struct sql_link *link)
{
	static const struct bytes question = { "SELECT @@max_allowed_packet", 27 };
	struct bytes columns[SQL_COLUMNS];
	struct sql_answer *answer = NULL;
	uint64_t size = 0;

	if (mysql_link_send(link, question) == 0 && mysql_link_next(link, &answer) > 0 && answer &&
	    mysql_answer_row(answer, columns))
		size = strtoull(columns[0].data, NULL, 10);
	mysql_answer_done(answer);
	return size;
}

/* In the modes of sql_mode that a connection of ours has, a backslash escapes. */
int mysql_quote(struct buf *buf, struct bytes bytes, bool text)
{
	int r = buf_append_str(buf, text ? "'" : "_binary'");
	char *at;

	if (r == 0)
		r = buf_reserve(buf, 2 * bytes.size + 2);
	if (r < 0)
		return r;
	at = buf->data + buf->size;
	for (size_t i = 0; i < bytes.size; i++) {
		char byte = bytes.data[i];

		if (byte == '\'' || byte == '\\' || byte == '\0')
			*at++ = '\\';
		*at++ = byte == '\0' ? '0' : byte;
	}
	*at++ = '\'';
	buf->size = (size_t)(at - buf->data);
	return 0;
}

/* What MySQL 8 asks for a password with is an object of its own; a server of MariaDB needs none. */
int mysql_store_prepare(const struct url *url, char **ret_why)
{
	MYSQL mysql;

	if (mysql_library_init(0, NULL, NULL) || !mysql_init(&mysql))
		return -ENOMEM;
	mysql_load_plugin(&mysql, "caching_sha2_password", AUTHENTICATION, 0);
	mysql_close(&mysql);
	return 0;
}
