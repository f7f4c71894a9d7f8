/* SPDX-License-Identifier: MIT */

/*
 * Rows without a file, so that export has nothing to copy: rows of another program that no mount
 * could take in.  Just after they were written that is normal, so rows that are younger than the
 * export are left out, and as long as there are others, all are looked up again for a while.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "backend/base/array.h"
#include "backend/base/tick.h"
#include "src/exchange/export.h"
#include "src/store/store.h"
#include "src/user/stop.h"

enum { AGAIN_MS = 200, PATIENCE_MS = 3000, SLACK_SECONDS = 2 };

struct fileless {
	struct buf session;
	struct buf key;
};

struct looking {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	char **names;
	uint64_t layout; /* of the store: fs/base/layout.h */
	int64_t before;	 /* rows that have changed since are too young */
	struct fileless *found;
	size_t count;
	size_t room;
};

/* True for a session that is exported, by its id or below one of these names. */
static bool is_asked(uint64_t layout, struct bytes session, char **names)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	struct bytes name;
	const char *slash;

	if (!*names)
		return true;
	if ((layout ? layout_session(layout, session, &path) :
		      names_encode(NAMES_SESSION, session, NAME_LIMIT, &path)) < 0)
		return false;
	name = buf_bytes(&path);
	slash = memchr(name.data, '/', name.size);
	if (slash)
		name.size = (size_t)(slash - name.data);
	while (*names && !bytes_equal(bytes_str(*names), name) &&
	       !bytes_equal(bytes_str(*names), session))
		names++;
	return *names;
}

static int look_at_key(void *arg, struct bytes session, struct bytes key,
		       const struct backend_key_stat *stat)
{
	struct looking *looking = arg;
	struct fileless *fileless;
	struct backend_node node;
	int r;

	if (stat->updated >= looking->before || !is_asked(looking->layout, session, looking->names))
		return 0;
	r = looking->backend->ops->node_find(looking->backend, looking->snapshot, session, key,
					     &node);
	if (r == 0)
		backend_node_done(&node);
	if (r != -ENOENT)
		return r;
	if (ARRAY_ROOM(looking->found, looking->count, looking->room) < 0)
		return -ENOMEM;
	fileless = &looking->found[looking->count++];
	*fileless = (struct fileless){ 0 };
	r = buf_append_bytes(&fileless->session, session);
	return r < 0 ? r : buf_append_bytes(&fileless->key, key);
}

static void forget_found(struct looking *looking)
{
	for (; looking->count; looking->count--) {
		buf_done(&looking->found[looking->count - 1].session);
		buf_done(&looking->found[looking->count - 1].key);
	}
}

static int fileless_say(struct copier *copier, const struct fileless *fileless)
{
	_cleanup_(buf_done) struct buf session = { 0 };
	_cleanup_(buf_done) struct buf key = { 0 };
	int r = names_encode(NAMES_SESSION, buf_bytes(&fileless->session), NAME_LIMIT, &session);

	if (r == 0)
		r = names_encode(NAMES_SESSION, buf_bytes(&fileless->key), NAME_LIMIT, &key);
	if (r < 0)
		return r;
	return copier_refuse(copier,
			     "%s: session %.*s, key %.*s: cannot make a file from what another "
			     "program wrote, so it is not exported",
			     copier->store, (int)session.size, session.data, (int)key.size,
			     key.data);
}

static int on_node(void *arg, const struct backend_node *node)
{
	(void)node;
	*(bool *)arg = true;
	return 1;
}

static int fileless_look(struct looking *looking)
{
	struct backend *backend = looking->backend;
	const struct bytes none = { 0 };
	bool any = false;
	_cleanup_(store_look_done) struct store_look look = { 0 };
	int r = store_look(backend, BACKEND_LATEST, &look);

	if (r < 0)
		return r;
	looking->snapshot = look.snapshot;
	forget_found(looking);
	/* In another program's database without tables of ours, each reader makes files anew. */
	r = backend->ops->node_list(backend, looking->snapshot, BACKEND_ROOT, false, on_node, &any);
	if (r == 0 && any)
		r = backend->ops->key_list(backend, looking->snapshot, none, none, look_at_key,
					   looking);
	return r;
}

int export_fileless(struct copier *copier, const struct options *options, char **names,
		    int64_t began)
{
	struct looking looking = {
		.names = names,
		.before = began - SLACK_SECONDS * INT64_C(1000000000),
	};
	const int64_t until = tick_now() + PATIENCE_MS * INT64_C(1000000);
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct settings settings;
	int r = store_open_backend(copier->store, options, &settings, &backend);

	looking.backend = backend;
	looking.layout = r == 0 ? settings.value[SETTING_LAYOUT] : 0;
	if (r == 0)
		r = fileless_look(&looking);
	while (r == 0 && looking.count && tick_now() < until && !stop_wanted()) {
		usleep(AGAIN_MS * 1000);
		r = fileless_look(&looking);
	}
	for (size_t i = 0; r == 0 && i < looking.count; i++)
		r = fileless_say(copier, &looking.found[i]);
	forget_found(&looking);
	free(looking.found);
	return r;
}
