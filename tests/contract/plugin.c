/* SPDX-License-Identifier: MIT */
/* In the place of stores.c: a store that was built outside this tree, a shared object as plugin.h
 * says, whose path is SESSFS_STORE.  What it need not have and has not is skipped. */
#include "backend/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/url/url.h"
#include "tests/contract/contract.h"

struct criterion_test_params every_kind(void)
{
	static int one_kind;

	return cr_make_param_array(int, &one_kind, 1, NULL);
}

static const struct plugin *load(void)
{
	const char *path = getenv("SESSFS_STORE");
	void *object = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	const struct plugin *plugin = object ? dlsym(object, "sessfs_plugin") : NULL;

	cr_assert_not_null(plugin, "SESSFS_STORE: %s", path ? dlerror() : "not set");
	cr_assert_str_eq(plugin->abi, plugin_abi);
	cr_assert_str_eq(plugin->seam, plugin_seam);
	return plugin;
}

static int open_store(struct backend **ret_backend)
{
	static const struct backend_options fresh = { .create = true, .owner = "the test" };
	char *path = (char *)scratch_path("store");
	const struct url url = { .scheme = "store", .user = "", .database = path };
	_cleanup_(freep) char *why = NULL;
	int r = load()->open(&url, &fresh, ret_backend, &why);

	cr_assert(r == 0 || why, "refused without a sentence");
	return r;
}

struct backend *fresh_store(int kind)
{
	struct backend *backend = NULL;
	int r = open_store(&backend);

	(void)kind;
	cr_assert_eq(r, 0, "%s", strerror(-r));
	return remember(backend);
}

EveryStore(stores, that_are_opened_again_have_what_was_committed)
{
	struct backend_node node = plain_node(4);

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("{}")), node_put(&node),
			    entry_put(1, 2, BYTES("f"), 4), node_delete(4)),
		     0);
	cr_assert_eq(COMMIT(backend, row_put(S, K, 1, BYTES("1")), row_insert(S, K, 0, BYTES("2"))),
		     -EEXIST);
	for (int again = 0; again < 2; again++) {
		uint64_t ino, entry;
		struct backend_snapshot *snapshot;

		shut(backend);
		backend = fresh_store(0);
		cr_expect_str_eq(rows_of(backend, S, K), "0={}");
		cr_expect_str_eq(nodes_of(backend, 0, false), "1");
		snapshot = look(backend);
		cr_expect_eq(backend->ops->last_ids(backend, snapshot, &ino, &entry), 0);
		unlook(backend, snapshot);
		cr_expect_geq(ino, 4, "a number is given once");
		cr_expect_eq(entry, 2);
	}
}

EveryStore(stores, that_are_open_are_owned)
{
	struct backend *second = NULL;

	cr_expect_eq(open_store(&second), -EBUSY);
	shut(backend);
	cr_assert_eq(open_store(&second), 0);
	remember(second);
}
