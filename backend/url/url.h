/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_URL_H
#define BACKEND_URL_H

/*
 * Stores on servers are named by a URL:
 *
 *	mysql://[USER@][HOST[:PORT]]/[DATABASE][?PARAMETER=VALUE&...]
 *
 * mariadb:// is the same as mysql://, postgres:// as postgresql://, valkey:// as redis://, and
 * rediss:// is redis:// with tls=verify.  Without a HOST, or with
 * one that is a path, the server is on this machine behind a socket.  %XX is a byte in each part;
 * an IPv6 address stands in brackets.  The parameters:
 *
 *	socket=PATH   the server's socket (for PostgreSQL, the folder that holds it)
 *	table=NAME    of the rows
 *	tls=verify    encrypted, and the server's certificate is checked: the default with a HOST,
 *		      but not of redis://
 *	    required  encrypted; the certificate is not checked
 *	    off       in the clear: the default without a HOST
 *	ca=FILE       certificates to trust instead of the system's
 *	passfile=FILE whose first line is the password; only its owner may read it
 *	timeout=N     seconds for which a call waits for a server that is away
 *	prefix=TEXT   what the keys of services begin with (Redis)
 *	sentinel=NAME HOST is a sentinel, which tells where the server of this name is (Redis)
 *	evict=allowed take a server that may delete keys when it is full (Redis)
 *
 * A URL holds no password, since everybody on the machine sees the words of a command.  It comes
 * from passfile=, else from $MYSQL_PWD, $PGPASSWORD or $REDISCLI_AUTH, else from ~/.my.cnf
 * ([client], which may name the user, too) or ~/.pgpass.
 */

#include <stdbool.h>

/* Of a URL that was parsed it is never the default. */
enum url_tls { URL_TLS_DEFAULT, URL_TLS_VERIFY, URL_TLS_REQUIRED, URL_TLS_OFF };

struct backend_setup;
/* All strings are owned, and NULL where neither the URL nor what it leads to has one. */
struct url {
	char *scheme;	/* "mysql", "postgresql" or "redis" */
	char *user;	/* never NULL: at last, that of the process, or "default" of Redis */
	char *password; /* NULL: none was found */
	char *host;	/* NULL: by socket; a name or an address, without brackets */
	unsigned port;	/* 0: the default */
	char *socket;	/* by socket: an absolute path, NULL: the default */
	char *database;
	char *table;	/* NULL: the default */
	char *ca;	/* an absolute path */
	char *passfile; /* an absolute path; it has been read */
	char *prefix;
	char *sentinel;
	bool evicts; /* it may */
	enum url_tls tls;
	unsigned timeout; /* seconds, at least 1 */
	/* Not by the URL: */
	bool durable;			   /* refuse a server that may lose commits */
	const struct backend_setup *setup; /* the store is only made (backend/setup.h), or NULL */
};

/* Whether the name of a store is a URL of any scheme, and no path. */
bool url_is(const char *text);

/* Take a URL apart and find its password, which reads files and the environment.  0, -ENOMEM,
 * -EINVAL when it is not such a URL, -EACCES for a file with a password that others may read, or
 * -errno of reading passfile; then *ret_why is a sentence without secrets.  ret_why may be NULL. */
int url_parse(const char *text, struct url *ret_url, char **ret_why);

/* The same URL in one spelling, without a password, owned by the caller: what may be shown.  It can
 * be parsed again.  NULL when there is no memory. */
char *url_text(const struct url *url);

/* What a URL is called among mounts, owned by the caller: as url_text(), without those parameters
 * that do not tell one store from another.  Reads nothing.  0, -ENOMEM or -EINVAL. */
int url_name(const char *text, char **ret_name, char **ret_why);

/* The port that is meant, also when the URL names none. */
unsigned url_port(const struct url *url);

/* The same once more, password and all; reads nothing.  0 or -ENOMEM. */
int url_copy(const struct url *url, struct url *ret_url);

/* Frees what is in it; the password is overwritten first. */
void url_done(struct url *url);

#endif
