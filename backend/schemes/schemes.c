/* SPDX-License-Identifier: MIT */

/* Stores by their names: which kind has a name, and what that can do. */

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "backend/memory/memory.h"
#include "backend/schemes/plugins.h"
#include "backend/setup.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/url/url.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"

/* A kind of store, by its name.  What is NULL it cannot do. */
struct scheme {
	bool (*fits)(const char *store); /* NULL: any path */
	bool is_private;
	int (*name)(const char *store, char **ret_name,
		    char **ret_why); /* NULL: as it is spelled */
	int (*prepare)(const char *store, struct backend_prepared **ret_prepared, char **ret_why);
	int (*open)(const char *store, const struct backend_options *options,
		    struct backend **ret_backend, char **ret_why);
	int (*set_up)(const char *store, const struct backend_setup *setup, char **ret_why);
	int (*repair)(const char *store, const char *new_store, const struct backend_repair *repair,
		      struct backend_repaired *ret_repaired, char **ret_why);
	void (*discard)(const char *store);
	int (*read_older)(const char *database, const char *table, backend_older_fn *fn, void *arg,
			  char **ret_why);
	int (*install)(const char *new_store, const char *store, bool replace, char **ret_why);
	bool (*is_owned)(const char *store);
};

static const char older_table[] = "agentscope_sessions";

static bool is_memory(const char *store)
{
	return strcmp(store, "memory:") == 0;
}

static int open_memory(const char *store, const struct backend_options *options,
		       struct backend **ret_backend, char **ret_why)
{
	return memory_backend_open(options, ret_backend);
}

enum { ANY_PORT = 65536 }; /* as in src/daemon/guard.h */

/* A store on a server, before it is opened. */
struct remote {
	struct backend_prepared prepared;
	struct url url;
	const struct plugin *plugin;
};

static void remote_free(struct remote *remote)
{
	if (!remote)
		return;
	url_done(&remote->url);
	free(remote);
}

static void remote_freep(struct remote **remote)
{
	remote_free(*remote);
}

static int remote_make(const char *store, struct remote **ret_remote, char **ret_why)
{
	_cleanup_(remote_freep) struct remote *remote = calloc(1, sizeof(*remote));
	int r = remote ? url_parse(store, &remote->url, ret_why) : -ENOMEM;

	if (r == 0)
		r = plugins_find(remote->url.scheme, &remote->plugin, ret_why);
	if (r < 0)
		return r;
	remote->prepared.port = remote->url.host ? url_port(&remote->url) : 0;
	/* A sentinel tells the port of another server, now and after each failover. */
	if (remote->url.sentinel)
		remote->prepared.port = ANY_PORT;
	remote->prepared.file = remote->url.ca;
	*ret_remote = steal_ptr(remote);
	return 0;
}

static int prepare_remote(const char *store, struct backend_prepared **ret_prepared, char **ret_why)
{
	struct addrinfo *found;
	struct remote *remote;
	int r = remote_make(store, &remote, ret_why);

	if (r < 0)
		return r;
	/* Looking up a name loads what the system is configured to ask. */
	if (remote->url.host && getaddrinfo(remote->url.host, NULL, NULL, &found) == 0)
		freeaddrinfo(found);
	if (remote->plugin->prepare)
		r = remote->plugin->prepare(&remote->url, ret_why);
	if (r < 0)
		remote_free(remote);
	else
		*ret_prepared = &remote->prepared;
	return r;
}

static int open_or_set_up(const char *store, const struct backend_options *options,
			  const struct backend_setup *setup, struct backend **ret_backend,
			  char **ret_why)
{
	_cleanup_(remote_freep) struct remote *made = NULL;
	const struct remote *remote =
		(const struct remote *)options->prepared; /* its first field */
	int r = remote ? 0 : remote_make(store, &made, ret_why);
	struct backend_options wanted = *options;
	struct url url;

	if (r < 0)
		return r;
	if (!remote)
		remote = made;
	url = remote->url;
	if (options->table && url.table && strcmp(options->table, url.table) != 0)
		return str_explain(
			ret_why, -EINVAL,
			"the URL says table=%s, but -o says table=%s; leave one of them out",
			url.table, options->table);
	if (url.table)
		wanted.table = url.table;
	url.durable = options->durable;
	url.setup = setup;
	return remote->plugin->open(&url, &wanted, ret_backend, ret_why);
}

static int open_remote(const char *store, const struct backend_options *options,
		       struct backend **ret_backend, char **ret_why)
{
	return open_or_set_up(store, options, NULL, ret_backend, ret_why);
}

static int set_up_remote(const char *store, const struct backend_setup *setup, char **ret_why)
{
	const struct backend_options options = { .create = true };
	struct backend *none;

	return open_or_set_up(store, &options, setup, &none, ret_why);
}

static int read_older_remote(const char *database, const char *table, backend_older_fn *fn,
			     void *arg, char **ret_why)
{
	_cleanup_(remote_freep) struct remote *remote = NULL;
	int r = remote_make(database, &remote, ret_why);

	if (r < 0)
		return r;
	if (!remote->plugin->read_older)
		return -EOPNOTSUPP;
	if (!table)
		table = remote->url.table ? remote->url.table : older_table;
	return remote->plugin->read_older(&remote->url, table, fn, arg, ret_why);
}

static int read_older_file(const char *database, const char *table, backend_older_fn *fn, void *arg,
			   char **ret_why)
{
	return sqlite_backend_read_older(database, table ? table : older_table, fn, arg, ret_why);
}

static const struct scheme schemes[] = {
	{ .fits = is_memory, .is_private = true, .open = open_memory },
	{
		.fits = url_is,
		.name = url_name,
		.prepare = prepare_remote,
		.open = open_remote,
		.set_up = set_up_remote,
		.read_older = read_older_remote,
	},
	{
		.open = sqlite_backend_open,
		.repair = sqlite_backend_repair,
		.discard = sqlite_backend_discard,
		.read_older = read_older_file,
		.install = sqlite_backend_install,
		.is_owned = sqlite_backend_is_owned,
	},
};

static const struct scheme *scheme_of(const char *store)
{
	const struct scheme *scheme = schemes;

	while (scheme->fits && !scheme->fits(store))
		scheme++;
	return scheme;
}

bool backend_has_path(const char *store)
{
	return !scheme_of(store)->fits;
}

bool backend_is_private(const char *store)
{
	return scheme_of(store)->is_private;
}

int backend_name(const char *store, char **ret_name, char **ret_why)
{
	const struct scheme *scheme = scheme_of(store);

	if (ret_why)
		*ret_why = NULL;
	if (scheme->name)
		return scheme->name(store, ret_name, ret_why);
	*ret_name = bytes_dup(bytes_str(store));
	return *ret_name ? 0 : -ENOMEM;
}

int backend_prepare(const char *store, struct backend_prepared **ret_prepared, char **ret_why)
{
	const struct scheme *scheme = scheme_of(store);

	*ret_why = NULL;
	*ret_prepared = NULL;
	return scheme->prepare ? scheme->prepare(store, ret_prepared, ret_why) : 0;
}

void backend_prepared_free(struct backend_prepared *prepared)
{
	remote_free((struct remote *)prepared);
}

int backend_open(const char *store, const struct backend_options *options,
		 struct backend **ret_backend, char **ret_why)
{
	if (ret_why)
		*ret_why = NULL;
	return scheme_of(store)->open(store, options, ret_backend, ret_why);
}

int backend_set_up(const char *store, const struct backend_setup *setup, char **ret_why)
{
	const struct scheme *scheme = scheme_of(store);

	if (ret_why)
		*ret_why = NULL;
	return scheme->set_up ? scheme->set_up(store, setup, ret_why) : -EOPNOTSUPP;
}

int backend_repair(const char *store, const char *new_store, const struct backend_repair *repair,
		   struct backend_repaired *ret_repaired, char **ret_why)
{
	const struct scheme *scheme = scheme_of(store);

	if (ret_why)
		*ret_why = NULL;
	return scheme->repair ? scheme->repair(store, new_store, repair, ret_repaired, ret_why) :
				-EOPNOTSUPP;
}

void backend_discard(const char *store)
{
	const struct scheme *scheme = scheme_of(store);

	if (scheme->discard)
		scheme->discard(store);
}

int backend_read_older(const char *database, const char *table, backend_older_fn *fn, void *arg,
		       char **ret_why)
{
	const struct scheme *scheme = scheme_of(database);

	*ret_why = NULL;
	return scheme->read_older ? scheme->read_older(database, table, fn, arg, ret_why) :
				    -EOPNOTSUPP;
}

int backend_install(const char *new_store, const char *store, bool replace, char **ret_why)
{
	const struct scheme *scheme = scheme_of(store);

	*ret_why = NULL;
	return scheme->install ? scheme->install(new_store, store, replace, ret_why) : -EOPNOTSUPP;
}

const char *backend_library(bool *ret_flawed)
{
	return sqlite_backend_library(ret_flawed);
}

bool backend_is_owned(const char *store)
{
	const struct scheme *scheme = scheme_of(store);

	return scheme->is_owned && scheme->is_owned(store);
}
