/* SPDX-License-Identifier: MIT */
/*
 * Connections to PostgreSQL, by libpq.
 *
 * Statements go in one message of the simple protocol, so they take one round trip, and those
 * behind one that fails are not run.  Answers come as text; bytes in them as hexadecimal digits,
 * which are decoded where they lie.
 */
#include "backend/postgresql/link.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/postgresql/error.h"
#include "backend/postgresql/message.h"
#include "backend/url/url.h"
#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"
#include "backend/base/tick.h"

enum {
	BYTEA = 17,	     /* the type's number */
	PACKET = 0x3fffffff, /* bytes that the server takes in one message, and of one value */
	OLDEST = 120000,     /* the version that has all that the statements have */
};

struct sql_link {
	PGconn *conn;
	int timeout;   /* milliseconds */
	int64_t until; /* when to give up waiting; 0: after the timeout */
	bool lost;     /* what has come may be half an answer */
	struct pg_message message;
	char *sentence; /* about the last error; NULL: the connection's */
};

/* Lies in the memory of its result. */
struct sql_answer {
	PGresult *result;
	int next;
};

static void ignore_notice(void *arg, const PGresult *result)
{
}

/* Where systems keep the certificates that they trust: libpq before 16 does not ask OpenSSL. */
static const char *trusted(void)
{
	static const char *const files[] = { "/etc/ssl/certs/ca-certificates.crt",
					     "/etc/pki/tls/certs/ca-bundle.crt",
					     "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
	size_t i = 0;

	if (PQlibVersion() >= 160000)
		return "system";
	while (i + 1 < ARRAY_SIZE(files) && access(files[i], R_OK) < 0)
		i++;
	return files[i];
}

static PGconn *start_to_connect(const struct url *url, unsigned timeout)
{
	static const char *const modes[] = { [URL_TLS_DEFAULT] = "verify-full",
					     [URL_TLS_VERIFY] = "verify-full",
					     [URL_TLS_REQUIRED] = "require",
					     [URL_TLS_OFF] = "disable" };
	char port[16], milliseconds[16];
	const char *const words[][2] = {
		{ "host", url->host ? url->host : url->socket },
		{ "port", port },
		{ "user", url->user },
		{ "password", url->password },
		{ "dbname", url->database },
		{ "sslmode", modes[url->tls] },
		{ "sslrootcert", url->ca				  ? url->ca :
				 modes[url->tls] == modes[URL_TLS_VERIFY] ? trusted() :
									    NULL },
		{ "gssencmode", "disable" },
		{ "tcp_user_timeout", milliseconds },
		{ "client_encoding", "UTF8" },
		{ "application_name", "sessfs" },
	};
	const char *names[ARRAY_SIZE(words) + 1] = { NULL }, *values[ARRAY_SIZE(words) + 1];

	snprintf(port, sizeof(port), "%u", url_port(url));
	snprintf(milliseconds, sizeof(milliseconds), "%u", timeout * 1000);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		names[i] = words[i][0];
		values[i] = words[i][1];
	}
	return PQconnectStartParams(names, values, 0);
}

/* Without the newline at the end of what libpq says, and in one line. */
static char *one_line(const char *text)
{
	char *line = strdup(text);

	for (char *at = line; at && *at; at++)
		if (*at == '\n')
			*at = at[1] ? ' ' : '\0';
	return line;
}

static const char *parameter(const struct sql_link *link, const char *name)
{
	const char *value = PQparameterStatus(link->conn, name);

	return value ? value : "";
}

/* What libpq says in words alone. */
static int why_refused(const struct sql_link *link)
{
	static const struct {
		const char *words;
		int error;
	} known[] = {
		{ "password authentication failed", -EACCES },
		{ "no password supplied", -EACCES },
		{ "pg_hba.conf", -EACCES },
		{ "Peer authentication failed", -EACCES },
		{ "permission denied", -EACCES },
		{ "does not exist", -ENOENT },
		{ "too many clients", -EUSERS },
		{ "too many connections", -EUSERS },
		{ "connection slots are reserved", -EUSERS },
	};
	const char *text = PQerrorMessage(link->conn);

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strstr(text, known[i].words))
			return known[i].error;
	return -ECONNREFUSED;
}

static int lose(struct sql_link *link)
{
	link->lost = true;
	return -ENOTCONN;
}

/* Whether the socket can be read, or written where that is wanted, in time: what can be done. */
static short wait_on(struct sql_link *link, short events)
{
	struct pollfd fd = { .fd = PQsocket(link->conn), .events = events };
	int64_t left = link->until ? link->until - tick_ms() : link->timeout;
	int r;

	do
		r = left > 0 ? poll(&fd, 1, (int)MIN(left, INT64_C(1000000))) : 0;
	while (r < 0 && errno == EINTR);
	return r > 0 ? fd.revents : 0;
}

/* Until there is something to read, or to write where that is wanted. */
static int wait_for(struct sql_link *link, bool writing)
{
	short events = wait_on(link, writing ? POLLIN | POLLOUT : POLLIN);

	if (!events || ((events & ~POLLOUT) && !PQconsumeInput(link->conn)))
		return lose(link);
	return 0;
}

/* Whether it is a server that a store can be on; and the process at the other end has to be the one
 * that answers: a pooler between would mix the sessions of several. */
static int link_judge(struct sql_link *link, char **ret_why)
{
	static const char question[] =
		"SELECT pg_is_in_recovery(), pg_backend_pid(), current_setting("
		"'synchronous_commit') <> 'off' AND EXISTS (SELECT 1 FROM pg_catalog.pg_proc WHERE "
		"proname = 'pg_logical_emit_message' AND has_function_privilege(oid, 'EXECUTE'))";
	struct bytes columns[SQL_COLUMNS] = { 0 };
	struct sql_answer *answer = NULL;
	int r;

	if (PQserverVersion(link->conn) < OLDEST)
		return str_explain(ret_why, -EPROTONOSUPPORT,
				   "the server is PostgreSQL %s; sessfs needs 12 or newer",
				   parameter(link, "server_version"));
	if (strcmp(parameter(link, "server_encoding"), "UTF8") != 0)
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "the database has the encoding %s; sessfs needs UTF8",
				   parameter(link, "server_encoding"));
	r = pg_link_send(link, bytes_str(question));
	if (r == 0)
		r = pg_link_next(link, &answer);
	if (r <= 0 || !answer || !pg_answer_row(answer, columns))
		r = r < 0 ? r : -EIO;
	else if (*columns[0].data != 'f')
		r = str_explain(
			ret_why, -EROFS,
			"the server is a replica, which accepts no writes: name the primary");
	else if (strtol(columns[1].data, NULL, 10) != PQbackendPID(link->conn))
		r = str_explain(ret_why, -EPROTONOSUPPORT,
				"a pooler such as PgBouncer is in between and may mix sessions: "
				"name the server itself");
	else
		r = 0;
	link->message.flushes = r == 0 && *columns[2].data == 't';
	pg_answer_done(answer);
	return r;
}

/* Whether it has come to an end in time. */
static bool finish_to_connect(struct sql_link *link)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	while (PQstatus(link->conn) != CONNECTION_BAD &&
	       (status == PGRES_POLLING_READING || status == PGRES_POLLING_WRITING)) {
		if (!wait_on(link, status == PGRES_POLLING_READING ? POLLIN : POLLOUT))
			return false;
		status = PQconnectPoll(link->conn);
	}
	return true;
}

int pg_link_open(const struct url *url, int64_t until, struct sql_link **ret_link, char **ret_why)
{
	const unsigned timeout = url->timeout ? url->timeout : 30;
	struct sql_link *link = calloc(1, sizeof(*link));
	char *why = NULL;
	int r = 0;

	if (!link)
		return -ENOMEM;
	link->timeout = (int)timeout * 1000;
	link->until = until;
	link->conn = start_to_connect(url, timeout);
	if (!link->conn) {
		r = -ENOMEM;
	} else if (!finish_to_connect(link)) {
		r = -ECONNREFUSED;
		why = strdup("it does not answer");
	} else if (PQstatus(link->conn) != CONNECTION_OK) {
		r = why_refused(link);
		why = one_line(PQerrorMessage(link->conn));
	} else {
		PQsetNoticeReceiver(link->conn, ignore_notice, NULL);
		PQsetnonblocking(link->conn, 1);
		r = link_judge(link, &why);
	}
	if (r == 0) {
		*ret_link = link;
		return 0;
	}
	pg_link_close(link);
	if (ret_why && why)
		*ret_why = str_printf("%s: %s", url->host ? url->host : "the server", why);
	free(why);
	return r == -ENOTCONN ? -ECONNREFUSED : r;
}

void pg_link_until(struct sql_link *link, int64_t until)
{
	link->until = until;
}

void pg_link_close(struct sql_link *link)
{
	PQfinish(link->conn);
	pg_message_done(&link->message);
	free(link->sentence);
	free(link);
}

const char *pg_link_sentence(struct sql_link *link)
{
	return link->sentence ? link->sentence : PQerrorMessage(link->conn);
}

static int next_result(struct sql_link *link, PGresult **ret_result)
{
	int r = link->lost ? -ENOTCONN : 0;

	while (r == 0 && PQisBusy(link->conn))
		r = wait_for(link, false);
	if (r == 0)
		*ret_result = PQgetResult(link->conn);
	return r;
}

static int fail(struct sql_link *link, PGresult *result)
{
	int r = pg_error(PQresultErrorField(result, PG_DIAG_SQLSTATE));

	free(link->sentence);
	link->sentence = one_line(PQresultErrorMessage(result));
	PQclear(result);
	return r == -ENOTCONN ? lose(link) : r;
}

static bool is_good(const PGresult *result)
{
	const ExecStatusType status = PQresultStatus(result);

	return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

int pg_link_next(struct sql_link *link, struct sql_answer **ret_answer)
{
	struct sql_answer *answer;
	PGresult *result = NULL;
	int r = next_result(link, &result);

	*ret_answer = NULL;
	while (r == 0 && result && pg_message_hides(&link->message) && is_good(result)) {
		PQclear(result);
		r = next_result(link, &result);
	}
	if (r < 0 || !result)
		return r;
	switch (PQresultStatus(result)) {
	case PGRES_TUPLES_OK:
		break;
	case PGRES_COMMAND_OK:
	case PGRES_EMPTY_QUERY:
		PQclear(result);
		return 1;
	default:
		return fail(link, result);
	}
	answer = PQresultAlloc(result, sizeof(*answer));
	if (!answer) {
		PQclear(result);
		return lose(link); /* what is behind it may have been done */
	}
	*answer = (struct sql_answer){ .result = result };
	*ret_answer = answer;
	return 1;
}

static int send_text(struct sql_link *link, const char *text)
{
	int r = PQsendQuery(link->conn, text) ? 0 : lose(link);

	while (r == 0 && (r = PQflush(link->conn)) != 0)
		r = r < 0 ? lose(link) : wait_for(link, true);
	return r;
}

static int prepare(void *arg, unsigned number, const char *shape)
{
	_cleanup_(freep) char *text = shape ? str_printf("PREPARE sessfs_%u AS %s", number, shape) :
					      strdup("DEALLOCATE ALL");
	struct sql_link *link = arg;
	PGresult *result;
	bool good = true;
	int r = text ? send_text(link, text) : -ENOMEM;

	while (r == 0 && (r = next_result(link, &result)) == 0 && result) {
		good &= is_good(result);
		PQclear(result);
	}
	return r < 0 || good ? r : -EINVAL;
}

int pg_link_send(struct sql_link *link, struct bytes statements)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	struct sql_answer *answer;
	int r;

	/* An error of what was asked before is nobody's. */
	while ((r = pg_link_next(link, &answer)) && r != -ENOTCONN)
		pg_answer_done(answer);
	if (r == 0)
		r = pg_message_say(&link->message, statements,
				   PQtransactionStatus(link->conn) == PQTRANS_IDLE ? prepare : NULL,
				   link, &text);
	return r < 0 ? r : send_text(link, text.data);
}

static int digit(char byte)
{
	return byte <= '9' ? byte - '0' : byte - 'a' + 10;
}

/* "\x" and two digits a byte, decoded in their own place. */
static struct bytes decode(char *value, size_t size)
{
	size_t count = size / 2 - 1;

	for (size_t i = 0; i < count; i++)
		value[i] = (char)(digit(value[2 * i + 2]) << 4 | digit(value[2 * i + 3]));
	return bytes_make(value, count);
}

bool pg_answer_row(struct sql_answer *answer, struct bytes columns[SQL_COLUMNS])
{
	const PGresult *result = answer->result;
	int row = answer->next;

	if (row >= PQntuples(result))
		return false;
	for (int i = 0; i < MIN(PQnfields(result), (int)SQL_COLUMNS); i++) {
		size_t size = (size_t)PQgetlength(result, row, i);
		char *value = PQgetvalue(result, row, i);

		if (PQgetisnull(result, row, i))
			columns[i] = (struct bytes){ 0 };
		else if (PQftype(result, i) == BYTEA)
			columns[i] = decode(value, size);
		else
			columns[i] = bytes_make(value, size);
	}
	answer->next++;
	return true;
}

void pg_answer_done(struct sql_answer *answer)
{
	if (answer)
		PQclear(answer->result);
}

uint64_t pg_link_packet(struct sql_link *link)
{
	return PACKET;
}

static int quote_text(struct buf *buf, struct bytes bytes)
{
	char *at;
	int r = buf_reserve(buf, 2 * bytes.size + 2);

	if (r < 0)
		return r;
	if (memchr(bytes.data, '\0', bytes.size) || !utf8_valid(bytes))
		return -EILSEQ;
	at = buf->data + buf->size;
	*at++ = '\'';
	for (size_t i = 0; i < bytes.size; i++) {
		if (bytes.data[i] == '\'')
			*at++ = '\'';
		*at++ = bytes.data[i];
	}
	*at++ = '\'';
	buf->size = (size_t)(at - buf->data);
	return 0;
}

static int quote_bytes(struct buf *buf, struct bytes bytes)
{
	static const char digits[] = "0123456789abcdef";
	char *at;
	int r = buf_append_str(buf, "'\\x");

	if (r == 0)
		r = buf_reserve(buf, 2 * bytes.size);
	if (r < 0)
		return r;
	at = buf->data + buf->size;
	for (size_t i = 0; i < bytes.size; i++) {
		unsigned char byte = (unsigned char)bytes.data[i];

		*at++ = digits[byte >> 4];
		*at++ = digits[byte & 15];
	}
	buf->size = (size_t)(at - buf->data);
	return buf_append_str(buf, "'::bytea");
}

int pg_quote(struct buf *buf, struct bytes bytes, bool text)
{
	return text ? quote_text(buf, bytes) : quote_bytes(buf, bytes);
}
