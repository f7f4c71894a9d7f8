/* SPDX-License-Identifier: MIT */
/*
 * What a client of a server needs that does nothing but what has to be done, for bench-servers.
 *
 *	bare KIND SOCKET PORT USER DATABASE WORK SIZE COUNT PROCESSES
 *
 * KIND is mysql or postgresql, SOCKET as their libraries have it, the password in BARE_PASSWORD.
 * Each process has a connection of its own, and sends one statement at a time, which commits by
 * itself.  The table, bare_rows, is as AgentScope makes it.  WORK is
 *
 *	insert   a row of SIZE bytes behind those that the process has
 *	guarded  the same in the transaction that sessfs makes of it, in one packet: what is known
 *	         of the others holds, a number moves, nobody else has changed the key
 *	put      one row of SIZE bytes, over the one that is there
 *	get      reads that row
 *
 * Prints nanoseconds an operation, of all processes together.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_MYSQL
#include <mysql.h>
#endif
#ifdef HAVE_POSTGRESQL
#include <libpq-fe.h>
#endif

enum { PROCESSES = 64 };

struct server {
	const char *socket, *user, *database;
	unsigned port;
};

/* A kind of server: *ret_client is a connection; a statement's rows are read and thrown away. */
struct kind {
	const char *name;
	const char *table;
	const char *over;      /* what an insert says of a row that is there */
	const char *unchanged; /* a statement that fails if a key of s was changed */
	void *(*open)(const struct server *server);
	bool (*run)(void *client, const char *statement, size_t size);
	const char *(*why)(void *client);
	void (*close)(void *client);
};

#ifdef HAVE_MYSQL
static void *open_mysql(const struct server *server)
{
	MYSQL *client = mysql_init(NULL);

	mysql_real_connect(client, NULL, server->user, getenv("BARE_PASSWORD"), server->database, 0,
			   server->socket, CLIENT_MULTI_STATEMENTS);
	return client;
}

static bool run_mysql(void *client, const char *statement, size_t size)
{
	if (mysql_real_query(client, statement, size) != 0)
		return false;
	do
		mysql_free_result(mysql_store_result(client));
	while (mysql_next_result(client) == 0);
	return !mysql_errno(client);
}

static const char *why_mysql(void *client)
{
	return mysql_error(client);
}

static void close_mysql(void *client)
{
	mysql_close(client);
}
#endif

#ifdef HAVE_POSTGRESQL
static void *open_postgresql(const struct server *server)
{
	static const char *const names[] = { "host",   "port",	  "user", "password",
					     "dbname", "options", NULL };
	char port[16];
	const char *const values[] = { server->socket,
				       port,
				       server->user,
				       getenv("BARE_PASSWORD"),
				       server->database,
				       "-c client_min_messages=error",
				       NULL };

	snprintf(port, sizeof(port), "%u", server->port);
	return PQconnectdbParams(names, values, 0);
}

static bool run_postgresql(void *client, const char *statement, size_t size)
{
	PGresult *result = PQexec(client, statement);
	bool done = PQresultStatus(result) == PGRES_COMMAND_OK ||
		    PQresultStatus(result) == PGRES_TUPLES_OK;

	(void)size;
	PQclear(result);
	return done;
}

static const char *why_postgresql(void *client)
{
	return PQerrorMessage(client);
}

static void close_postgresql(void *client)
{
	PQfinish(client);
}
#endif

#define COLUMNS                                                                                    \
	"session_id VARCHAR(255) NOT NULL, state_key VARCHAR(255) NOT NULL, "                      \
	"item_index INT NOT NULL DEFAULT 0, "
static const struct kind kinds[] = {
#ifdef HAVE_MYSQL
	{ "mysql",
	  "CREATE TABLE IF NOT EXISTS bare_rows (" COLUMNS "state_data LONGTEXT NOT NULL, "
	  "created_at DATETIME DEFAULT CURRENT_TIMESTAMP, updated_at DATETIME DEFAULT "
	  "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (session_id, state_key, "
	  "item_index)) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
	  " ON DUPLICATE KEY UPDATE state_data = VALUES(state_data)",
	  "UPDATE bare_store SET guard = CASE WHEN EXISTS (SELECT 1 FROM bare_change WHERE "
	  "session_id IS NULL OR (session_id = 's' AND state_key = 'k%u')) THEN NULL ELSE 0 END "
	  "WHERE id = 1",
	  open_mysql, run_mysql, why_mysql, close_mysql },
#endif
#ifdef HAVE_POSTGRESQL
	{ "postgresql",
	  "CREATE TABLE IF NOT EXISTS bare_rows (" COLUMNS "state_data TEXT NOT NULL, "
	  "created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT "
	  "CURRENT_TIMESTAMP, PRIMARY KEY (session_id, state_key, item_index))",
	  " ON CONFLICT (session_id, state_key, item_index) DO UPDATE SET state_data = "
	  "excluded.state_data, updated_at = CURRENT_TIMESTAMP",
	  "SELECT (SELECT 1 UNION ALL SELECT 2 FROM bare_change WHERE session_id IS NULL OR "
	  "(session_id = 's' AND state_key = 'k%u'))",
	  open_postgresql, run_postgresql, why_postgresql, close_postgresql },
#endif
	{ .name = NULL },
};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "bare: %s: %s\n", what, why);
	exit(1);
}

static void run(const struct kind *kind, void *client, const char *statement)
{
	if (!kind->run(client, statement, strlen(statement)))
		fail(statement, kind->why(client));
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

struct job {
	const struct kind *kind;
	const char *work;
	size_t size;
	uint64_t count;
};

static void say(const struct job *job, char *statement, unsigned process, uint64_t i)
{
	bool guarded = strcmp(job->work, "guarded") == 0;
	bool insert = guarded || strcmp(job->work, "insert") == 0;
	char head[64];
	int filled =
		snprintf(head, sizeof(head), "{\"n\": %llu, \"text\": \"", (unsigned long long)i);
	int size = (int)job->size - filled - 2;

	if (guarded)
		statement += sprintf(
			statement,
			"BEGIN;UPDATE bare_store SET guard = CASE WHEN epoch = 1 AND n = 0 AND "
			"turn IN (0, 1) THEN 0 END WHERE id = 1;UPDATE bare_mount SET lane = "
			"CASE WHEN lane = %llu THEN %llu END WHERE number = %u;",
			(unsigned long long)i, (unsigned long long)i + 1, process);
	if (strcmp(job->work, "get") == 0)
		sprintf(statement,
			"SELECT state_data FROM bare_rows WHERE session_id = 's' AND "
			"state_key = 'k%u' AND item_index = -1",
			process);
	else
		statement += sprintf(
			statement,
			"INSERT INTO bare_rows (session_id, state_key, item_index, state_data) "
			"VALUES ('s', 'k%u', %lld, '%s%0*d\"}')%s",
			process, insert ? (long long)i : -1LL, head, size > 0 ? size : 1, 0,
			insert ? "" : job->kind->over);
	if (guarded) {
		*statement++ = ';';
		statement += sprintf(statement, job->kind->unchanged, process);
		strcpy(statement, ";COMMIT");
	}
}

static void make_tables(const struct kind *kind, void *client, unsigned processes)
{
	static const char *const statements[] = {
		"CREATE TABLE IF NOT EXISTS bare_store (id INT PRIMARY KEY, guard INT NOT NULL, "
		"epoch BIGINT NOT NULL, n BIGINT NOT NULL, turn BIGINT NOT NULL)",
		"CREATE TABLE IF NOT EXISTS bare_mount (number BIGINT PRIMARY KEY, lane BIGINT NOT "
		"NULL)",
		"CREATE TABLE IF NOT EXISTS bare_change (id BIGINT PRIMARY KEY, session_id "
		"VARCHAR(255), state_key VARCHAR(255))",
		"DELETE FROM bare_store",
		"DELETE FROM bare_mount",
		"INSERT INTO bare_store VALUES (1, 0, 1, 0, 0)",
	};
	char statement[128];

	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++)
		run(kind, client, statements[i]);
	for (unsigned i = 0; i < processes; i++) {
		sprintf(statement, "INSERT INTO bare_mount VALUES (%u, 0)", i);
		run(kind, client, statement);
	}
}

static void work(const struct job *job, void *client, unsigned process)
{
	char *statement = malloc(job->size + 2048);

	if (!statement)
		fail("memory", strerror(errno));
	for (uint64_t i = 0; i < job->count; i++) {
		say(job, statement, process, i);
		run(job->kind, client, statement);
	}
	free(statement);
}

static void *connect_to(const struct kind *kind, const struct server *server)
{
	void *client = kind->open(server);

	run(kind, client, "SELECT 1");
	return client;
}

/* Those that wait for the end of a pipe begin together. */
static void begin_worker(const struct job *job, const struct server *server, unsigned process,
			 const int ready[2], const int go[2])
{
	void *client;
	char byte = 0;

	close(go[1]);
	client = connect_to(job->kind, server);
	if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0)
		fail("pipe", strerror(errno));
	work(job, client, process);
	job->kind->close(client);
	_exit(0);
}

int main(int argc, char **argv)
{
	const struct kind *kind = kinds;
	struct server server;
	unsigned processes;
	int ready[2], go[2], status;
	struct job job;
	void *client;
	double begun;
	char byte;

	if (argc != 10)
		fail("usage", "KIND SOCKET PORT USER DATABASE WORK SIZE COUNT PROCESSES");
	while (kind->name && strcmp(kind->name, argv[1]) != 0)
		kind++;
	if (!kind->name)
		fail(argv[1], "not built");
	server = (struct server){ argv[2], argv[4], argv[5], (unsigned)atoi(argv[3]) };
	job = (struct job){ kind, argv[6], strtoul(argv[7], NULL, 10),
			    strtoull(argv[8], NULL, 10) };
	processes = (unsigned)atoi(argv[9]);
	if (!processes || processes > PROCESSES || !job.count)
		fail(argv[9], "1 to 64");
	client = connect_to(kind, &server);
	run(kind, client, kind->table);
	if (strcmp(job.work, "insert") == 0 || strcmp(job.work, "guarded") == 0)
		run(kind, client, "DELETE FROM bare_rows");
	make_tables(kind, client, processes);
	kind->close(client);
	if (pipe(ready) < 0 || pipe(go) < 0)
		fail("pipe", strerror(errno));
	for (unsigned i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork", strerror(errno));
		if (pid == 0)
			begin_worker(&job, &server, i, ready, go);
	}
	close(ready[1]);
	for (unsigned i = 0; i < processes; i++)
		if (read(ready[0], &byte, 1) != 1)
			fail("a process", "has failed");
	begun = now();
	close(go[1]);
	for (unsigned i = 0; i < processes; i++)
		if (wait(&status) < 0 || status)
			fail("a process", "has failed");
	printf("%.1f\n", (now() - begun) / (double)(job.count * processes));
	return 0;
}
