/* SPDX-License-Identifier: MIT */

/* Stores by their names: which kind has a name, and what that can do. */

#include <errno.h>
#include <string.h>

#include "backend/memory/memory.h"
#include "backend/sqlite/sqlite.h"

/* A kind of store, by its name.  What is NULL it cannot do. */
struct scheme {
	const char *name; /* NULL: any path */
	int (*open)(const char *store, const struct backend_options *options,
		    struct backend **ret_backend, char **ret_why);
	int (*repair)(const char *store, const char *new_store, const struct backend_repair *repair,
		      struct backend_repaired *ret_repaired, char **ret_why);
	void (*discard)(const char *store);
	int (*read_older)(const char *file, const char *table, backend_older_fn *fn, void *arg,
			  char **ret_why);
	int (*install)(const char *new_store, const char *store, bool replace, char **ret_why);
	bool (*is_owned)(const char *store);
};

static int open_memory(const char *store, const struct backend_options *options,
		       struct backend **ret_backend, char **ret_why)
{
	(void)store, (void)ret_why;
	return memory_backend_open(options, ret_backend);
}

static const struct scheme schemes[] = {
	{ .name = "memory:", .open = open_memory },
	{
		.open = sqlite_backend_open,
		.repair = sqlite_backend_repair,
		.discard = sqlite_backend_discard,
		.read_older = sqlite_backend_read_older,
		.install = sqlite_backend_install,
		.is_owned = sqlite_backend_is_owned,
	},
};

static const struct scheme *scheme_of(const char *store)
{
	const struct scheme *scheme = schemes;

	while (scheme->name && strcmp(scheme->name, store) != 0)
		scheme++;
	return scheme;
}

bool backend_has_path(const char *store)
{
	return !scheme_of(store)->name;
}

int backend_open(const char *store, const struct backend_options *options,
		 struct backend **ret_backend, char **ret_why)
{
	if (ret_why)
		*ret_why = NULL;
	return scheme_of(store)->open(store, options, ret_backend, ret_why);
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

int backend_read_older(const char *file, const char *table, backend_older_fn *fn, void *arg,
		       char **ret_why)
{
	const struct scheme *scheme = scheme_of(file);

	*ret_why = NULL;
	return scheme->read_older ? scheme->read_older(file, table, fn, arg, ret_why) : -EOPNOTSUPP;
}

int backend_install(const char *new_store, const char *store, bool replace, char **ret_why)
{
	const struct scheme *scheme = scheme_of(store);

	*ret_why = NULL;
	return scheme->install ? scheme->install(new_store, store, replace, ret_why) : -EOPNOTSUPP;
}

bool backend_is_owned(const char *store)
{
	const struct scheme *scheme = scheme_of(store);

	return scheme->is_owned && scheme->is_owned(store);
}
