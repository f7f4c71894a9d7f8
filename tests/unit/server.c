/* SPDX-License-Identifier: MIT */
#include "tests/unit/server.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "tests/unit/server-client.h"

static const struct server_client *const clients[] = {
#ifdef HAVE_MYSQL
	&server_mysql,
#endif
#ifdef HAVE_POSTGRESQL
	&server_postgresql,
#endif
	NULL,
};

static struct url url;
static char *text;

static const struct server_client *client(void)
{
	const struct server_client *const *found = clients;

	while (*found && !getenv((*found)->variable))
		found++;
	return *found;
}

bool server_is_there(void)
{
	return client();
}

void server_runs(const char *statements)
{
	client()->run(&url, statements);
}

const char *server_asks(const char *statement)
{
	return client()->ask(&url, statement);
}

static void *transaction;

void server_begins(const char *statement)
{
	transaction = client()->begin(&url, statement);
}

void server_ends(void)
{
	client()->end(transaction);
}

const char *server_url(void)
{
	_cleanup_(freep) char *why = NULL;
	char *name;

	if (text)
		return text;
	cr_assert_eq(url_parse(getenv(client()->variable), &url, &why), 0, "%s", why);
	name = str_printf("%s_%d", url.database, getpid());
	client()->make(&url, name);
	free(url.database);
	url.database = name;
	text = url_text(&url);
	cr_assert_not_null(text);
	return text;
}

void server_serves(void)
{
	server_url();
	server_runs(client()->table);
}

void server_done(void)
{
	if (!text)
		return;
	client()->drop(&url, url.database);
	url_done(&url);
	free(text);
	text = NULL;
}
