/* SPDX-License-Identifier: MIT */
#include "backend/url/url.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/url/secret.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"

enum { TIMEOUT = 30, TIMEOUT_MAX = 86400, PORT_MAX = 65535, IDENTIFIER_MAX = 64 };

static const struct {
	const char *spelling, *scheme;
	unsigned port;
} schemes[] = {
	{ "mysql", "mysql", 3306 },	      { "mariadb", "mysql", 3306 },
	{ "postgresql", "postgresql", 5432 }, { "postgres", "postgresql", 5432 },
	{ "redis", "redis", 6379 },	      { "valkey", "redis", 6379 },
	{ "rediss", "redis", 6379 },
};

static const char redis[] = "redis";
enum { SENTINEL_PORT = 26379 };

static const char *const tls_names[] = {
	[URL_TLS_DEFAULT] = "",
	[URL_TLS_VERIFY] = "verify",
	[URL_TLS_REQUIRED] = "required",
	[URL_TLS_OFF] = "off",
};

/* Length of the letters before "://"; 0: not a URL. */
static size_t scheme_size(const char *text)
{
	size_t size = 0;

	while (isalnum((unsigned char)text[size]) ||
	       (size && text[size] && strchr("+.-", text[size])))
		size++;
	return strncmp(text + size, "://", 3) == 0 ? size : 0;
}

bool url_is(const char *text)
{
	return scheme_size(text) > 0;
}

/* A part of the URL as the bytes that it stands for.  An empty one is none. */
static int decode(struct bytes part, char **ret_text, char **ret_why)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	int r = buf_append_decoded(&text, part);

	if (r == -EINVAL || (text.size && memchr(text.data, '\0', text.size)))
		return str_explain(
			ret_why, -EINVAL,
			"the URL of a store has a %% but not two hexadecimal digits after "
			"it; write %%25 for a %% itself");
	if (r == 0)
		r = buf_append_byte(&text, '\0');
	if (r < 0)
		return r;
	free(*ret_text);
	*ret_text = part.size ? steal_ptr(text.data) : NULL;
	return 0;
}

/* A whole number from 1 to most. */
static int take_number(const char *text, unsigned most, unsigned *ret_number)
{
	char *end = NULL;
	unsigned long number = text && isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;

	if (!end || *end || number < 1 || number > most)
		return -EINVAL;
	*ret_number = (unsigned)number;
	return 0;
}

static int set_text(char **field, const char *value)
{
	free(*field);
	*field = bytes_dup(bytes_str(value));
	return *field ? 0 : -ENOMEM;
}

/* What AgentScope allows, since it puts the name into its statements. */
static int set_table(struct url *url, const char *value, char **ret_why)
{
	size_t size = value ? strlen(value) : 0;
	bool fits = size > 0 && size <= IDENTIFIER_MAX && !isdigit((unsigned char)*value) &&
		    *value != '-';

	for (size_t i = 0; i < size; i++)
		fits = fits && (isalnum((unsigned char)value[i]) || strchr("_-", value[i]));
	if (!fits)
		return str_explain(ret_why, -EINVAL,
				   "table= in the URL of a store takes up to %d letters, digits, _ "
				   "and -, and begins with a letter or _",
				   IDENTIFIER_MAX);
	return set_text(&url->table, value);
}

static int set_timeout(struct url *url, const char *value, char **ret_why)
{
	if (take_number(value, TIMEOUT_MAX, &url->timeout) < 0)
		return str_explain(ret_why, -EINVAL,
				   "timeout= in the URL of a store takes seconds, from 1 to %d",
				   TIMEOUT_MAX);
	return 0;
}

static int set_tls(struct url *url, const char *value, char **ret_why)
{
	for (size_t i = URL_TLS_VERIFY; value && i < ARRAY_SIZE(tls_names); i++)
		if (strcmp(tls_names[i], value) == 0) {
			url->tls = (enum url_tls)i;
			return 0;
		}
	return str_explain(ret_why, -EINVAL,
			   "tls= in the URL of a store takes verify, required or off");
}

static int set_evict(struct url *url, const char *value, char **ret_why)
{
	url->evicts = value && strcmp(value, "allowed") == 0;
	return url->evicts ?
		       0 :
		       str_explain(ret_why, -EINVAL, "evict= in the URL of a store takes allowed");
}

static const char path[] = "an absolute path";

static const struct parameter {
	const char *name;
	int (*set)(struct url *url, const char *value, char **ret_why);
	/* Or where its text goes, and what that is. */
	size_t place;
	const char *takes;
} parameters[] = {
	{ "socket", NULL, offsetof(struct url, socket), path },
	{ "ca", NULL, offsetof(struct url, ca), path },
	{ "passfile", NULL, offsetof(struct url, passfile), path },
	{ "table", set_table, 0, NULL },
	{ "tls", set_tls, 0, NULL },
	{ "timeout", set_timeout, 0, NULL },
	{ "prefix", NULL, offsetof(struct url, prefix), "what keys begin with" },
	{ "sentinel", NULL, offsetof(struct url, sentinel), "the name of a server" },
	{ "evict", set_evict, 0, NULL },
};

static int set_parameter(struct url *url, const struct parameter *parameter, const char *value,
			 char **ret_why)
{
	if (parameter->set)
		return parameter->set(url, value, ret_why);
	if (!value || (parameter->takes == path && *value != '/'))
		return str_explain(ret_why, -EINVAL, "%s= in the URL of a store takes %s",
				   parameter->name, parameter->takes);
	return set_text((char **)(void *)((char *)url + parameter->place), value);
}

static int refuse_password(const struct url *url, char **ret_why)
{
	bool mysql = strcmp(url->scheme, "mysql") == 0;

	if (strcmp(url->scheme, redis) == 0)
		return str_explain(
			ret_why, -EINVAL,
			"the URL of a store cannot have a password, because all users of "
			"this machine can see it: write the password to a file that only "
			"you can read and add ?passfile=FILE, or to the environment "
			"(REDISCLI_AUTH)");
	return str_explain(ret_why, -EINVAL,
			   "the URL of a store cannot have a password, because all users of this "
			   "machine can see it: write the password to a file that only you can "
			   "read and add ?passfile=FILE, or to ~/%s or the environment (%s)",
			   mysql ? ".my.cnf" : ".pgpass", mysql ? "MYSQL_PWD" : "PGPASSWORD");
}

/* Of a text, what stands before the first of these bytes, or all; the rest begins with it. */
static struct bytes cut(struct bytes *rest, const char *at)
{
	size_t size = 0;
	struct bytes part;

	while (size < rest->size && !strchr(at, rest->data[size]))
		size++;
	part = bytes_make(rest->data, size);
	*rest = bytes_make(rest->data + size, rest->size - size);
	return part;
}

static void skip(struct bytes *rest, size_t size)
{
	*rest = bytes_make(rest->data + size, rest->size - size);
}

static int take_parameter(struct url *url, struct bytes part, char **ret_why)
{
	_cleanup_(freep) char *name = NULL, *value = NULL;
	struct bytes word = cut(&part, "=");
	int r = decode(word, &name, ret_why);

	skip(&part, part.size > 0);
	if (r == 0)
		r = decode(part, &value, ret_why);
	if (r < 0)
		return r;
	if (name && strcmp(name, "password") == 0)
		return refuse_password(url, ret_why);
	for (size_t i = 0; name && i < ARRAY_SIZE(parameters); i++)
		if (strcmp(parameters[i].name, name) == 0)
			return set_parameter(url, &parameters[i], value, ret_why);
	return str_explain(ret_why, -EINVAL,
			   "the URL of a store has no parameter '%s'; use socket, table, tls, ca, "
			   "passfile or timeout, or for Redis prefix, sentinel or evict",
			   name ? name : "");
}

/* [HOST][:PORT], with brackets around an IPv6 address. */
static int take_host(struct url *url, struct bytes rest, char **ret_why)
{
	_cleanup_(freep) char *port = NULL;
	bool is_address = rest.size > 0 && *rest.data == '[';
	struct bytes host;
	int r;

	skip(&rest, is_address);
	host = cut(&rest, is_address ? "]" : ":");
	if (is_address && rest.size == 0)
		return str_explain(ret_why, -EINVAL, "the ] after an address is missing");
	skip(&rest, is_address);
	r = decode(host, &url->host, ret_why);
	if (r == 0 && rest.size > 0)
		r = decode(bytes_make(rest.data + 1, rest.size - 1), &port, ret_why);
	if (r < 0)
		return r;
	if (rest.size > 0 &&
	    (*rest.data != ':' || (port && take_number(port, PORT_MAX, &url->port))))
		return str_explain(ret_why, -EINVAL,
				   "the port in the URL of a store must be a number up to %d",
				   PORT_MAX);
	/* A path is how libpq spells the folder of a socket. */
	if (url->host && *url->host == '/')
		url->socket = steal_ptr(url->host);
	return 0;
}

/* [USER@][HOST[:PORT]] */
static int take_authority(struct url *url, struct bytes rest, char **ret_why)
{
	size_t at = rest.size;
	struct bytes user;
	int r;

	while (at > 0 && rest.data[at - 1] != '@')
		at--;
	user = bytes_make(rest.data, at ? at - 1 : 0);
	if (memchr(rest.data, ':', user.size))
		return refuse_password(url, ret_why);
	r = decode(user, &url->user, ret_why);
	skip(&rest, at);
	return r < 0 ? r : take_host(url, rest, ret_why);
}

static int take_scheme(struct url *url, struct bytes part, char **ret_why)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (bytes_equal(part, bytes_str(schemes[i].spelling))) {
			url->scheme = bytes_dup(bytes_str(schemes[i].scheme));
			if (bytes_equal(part, BYTES("rediss")))
				url->tls = URL_TLS_VERIFY;
			return url->scheme ? 0 : -ENOMEM;
		}
	return str_explain(ret_why, -EINVAL,
			   "'%.*s://' is not a URL of a store; use mysql://, postgresql:// "
			   "or redis://",
			   (int)part.size, part.data);
}

/* Defaults for the parts that the URL leaves out. */
static int fill(struct url *url, char **ret_why)
{
	const bool is_redis = strcmp(url->scheme, redis) == 0;

	if (!is_redis && (url->prefix || url->sentinel || url->evicts))
		return str_explain(ret_why, -EINVAL,
				   "prefix=, sentinel= and evict= are for redis:// alone");
	if (is_redis && url->table)
		return str_explain(ret_why, -EINVAL,
				   "redis:// has no tables; prefix= says what keys begin with");
	if (url->sentinel && !url->host)
		return str_explain(ret_why, -EINVAL, "sentinel= needs the host of a sentinel");
	if (is_redis && url->database &&
	    strspn(url->database, "0123456789") != strlen(url->database))
		return str_explain(ret_why, -EINVAL,
				   "the database in the URL of a store on Redis is a number");
	if (url->host && url->socket)
		return str_explain(
			ret_why, -EINVAL,
			"the URL of a store names a host and a socket; leave one of them out");
	if (url->tls == URL_TLS_DEFAULT)
		url->tls = url->host && !is_redis ? URL_TLS_VERIFY : URL_TLS_OFF;
	/* PostgreSQL's sockets have their port in their name. */
	if (!url->host && url->port && strcmp(url->scheme, "postgresql") != 0)
		return str_explain(ret_why, -EINVAL, "the URL of a store has a port but no host");
	if (!url->host && url->tls != URL_TLS_OFF)
		return str_explain(ret_why, -EINVAL,
				   "a socket of this machine has no TLS; name the server's host "
				   "in the URL, or leave tls= out");
	if (url->ca && url->tls != URL_TLS_VERIFY)
		return str_explain(ret_why, -EINVAL,
				   "ca= in the URL of a store needs a host and tls=verify");
	if (!url->database)
		url->database = bytes_dup(is_redis ? BYTES("0") : BYTES("agentscope"));
	return url->database ? 0 : -ENOMEM;
}

/* What the text alone says. */
static int take_apart(struct url *url, const char *text, char **ret_why)
{
	struct bytes rest = bytes_str(text), part;
	int r;

	url->timeout = TIMEOUT;
	r = take_scheme(url, bytes_make(text, scheme_size(text)), ret_why);
	if (r < 0)
		return r;
	skip(&rest, scheme_size(text) + strlen("://"));
	if (memchr(rest.data, '#', rest.size))
		return str_explain(ret_why, -EINVAL,
				   "the URL of a store has a #; write %%23 for it");
	r = take_authority(url, cut(&rest, "/?"), ret_why);
	if (r == 0 && rest.size && *rest.data == '/') {
		skip(&rest, 1);
		part = cut(&rest, "?");
		if (memchr(part.data, '/', part.size))
			return str_explain(ret_why, -EINVAL,
					   "the URL of a store ends with the name of the "
					   "database; write %%2F for a / in it");
		r = decode(part, &url->database, ret_why);
	}
	while (r == 0 && rest.size) {
		skip(&rest, 1);
		part = cut(&rest, "&");
		if (part.size)
			r = take_parameter(url, part, ret_why);
	}
	return r < 0 ? r : fill(url, ret_why);
}

static int find_user(struct url *url)
{
	const struct passwd *user;
	char number[16];

	if (url->user)
		return 0;
	if (strcmp(url->scheme, redis) == 0)
		return set_text(&url->user, "default");
	user = getpwuid(geteuid());
	snprintf(number, sizeof(number), "%u", (unsigned)geteuid());
	url->user = bytes_dup(bytes_str(user ? user->pw_name : number));
	return url->user ? 0 : -ENOMEM;
}

int url_parse(const char *text, struct url *ret_url, char **ret_why)
{
	_cleanup_(freep) char *unheard = NULL;
	_cleanup_(url_done) struct url url = { 0 };
	char **why = ret_why ? ret_why : &unheard;
	int r;

	*why = NULL;
	r = take_apart(&url, text, why);
	if (r == 0)
		r = secret_find_user(&url, why);
	if (r == 0)
		r = find_user(&url);
	if (r == 0)
		r = secret_find(&url, why);
	if (r < 0)
		return r;
	*ret_url = url;
	url = (struct url){ 0 };
	return 0;
}

static int append_place(struct buf *buf, const struct url *url)
{
	int r = buf_printf(buf, "%s://", url->scheme);

	if (r == 0 && url->user)
		r = buf_append_encoded(buf, url->user, "");
	if (r == 0 && url->user)
		r = buf_append_byte(buf, '@');
	if (r == 0 && url->host && strchr(url->host, ':'))
		r = buf_printf(buf, "[%s]", url->host);
	else if (r == 0)
		r = buf_append_encoded(buf, url->host, "");
	if (r == 0 && url->port)
		r = buf_printf(buf, ":%u", url->port);
	if (r == 0)
		r = buf_append_byte(buf, '/');
	return r < 0 ? r : buf_append_encoded(buf, url->database, "");
}

/* all: also what does not tell one store from another. */
static int print(const struct url *url, bool all, char **ret_text)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	char timeout[16], before = '?';
	const struct {
		const char *name, *value;
		bool tells;
	} values[] = {
		{ "socket", url->socket, true },
		{ "table", url->table, true },
		{ "tls", url->host ? tls_names[url->tls] : NULL, false },
		{ "ca", url->ca, false },
		{ "passfile", url->passfile, false },
		{ "timeout", timeout, false },
		{ "prefix", url->prefix, true },
		{ "sentinel", url->sentinel, true },
		{ "evict", url->evicts ? "allowed" : NULL, false },
	};
	int r = append_place(&buf, url);

	snprintf(timeout, sizeof(timeout), "%u", url->timeout);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(values); i++) {
		if (!values[i].value || !(all || values[i].tells))
			continue;
		r = buf_printf(&buf, "%c%s=", before, values[i].name);
		if (r == 0)
			r = buf_append_encoded(&buf, values[i].value, "/:@");
		before = '&';
	}
	if (r == 0)
		r = buf_append_byte(&buf, '\0');
	if (r < 0)
		return r;
	*ret_text = steal_ptr(buf.data);
	return 0;
}

char *url_text(const struct url *url)
{
	char *text = NULL;

	return print(url, true, &text) < 0 ? NULL : text;
}

int url_name(const char *text, char **ret_name, char **ret_why)
{
	_cleanup_(freep) char *unheard = NULL;
	_cleanup_(url_done) struct url url = { 0 };
	char **why = ret_why ? ret_why : &unheard;
	int r;

	*why = NULL;
	r = take_apart(&url, text, why);
	if (r == 0)
		r = find_user(&url);
	return r < 0 ? r : print(&url, false, ret_name);
}

unsigned url_port(const struct url *url)
{
	size_t i = 0;

	while (strcmp(schemes[i].scheme, url->scheme) != 0)
		i++;
	return url->port ? url->port : url->sentinel ? (unsigned)SENTINEL_PORT : schemes[i].port;
}

/* The texts of a URL, to free or copy all. */
#define TEXTS(url)                                                                                 \
	{                                                                                          \
		&(url)->scheme, &(url)->user, &(url)->password, &(url)->host, &(url)->socket,      \
			&(url)->database, &(url)->table, &(url)->ca, &(url)->passfile,             \
			&(url)->prefix, &(url)->sentinel,                                          \
	}

void url_done(struct url *url)
{
	char **const texts[] = TEXTS(url);

	if (url->password)
		explicit_bzero(url->password, strlen(url->password));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(*texts[i]);
	*url = (struct url){ 0 };
}

int url_copy(const struct url *url, struct url *ret_url)
{
	char **const texts[] = TEXTS(ret_url);
	int r = 0;

	*ret_url = *url;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *from = *texts[i];

		*texts[i] = from ? strdup(from) : NULL;
		if (from && !*texts[i])
			r = -ENOMEM;
	}
	if (r < 0)
		url_done(ret_url);
	return r;
}
