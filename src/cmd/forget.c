/* SPDX-License-Identifier: MIT */
/* forget: what was said goes for good, also from what was kept of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "fs/api/trash.h"
#include "src/cmd/past.h"
#include "src/search/search.h"

struct forget_values {
	struct options options; /* must be first */
	struct past_items items;
	/* What lies in the trash of it. */
	const struct past_place *place;
	uint64_t *id;
	size_t count;
	size_t room;
};

static const struct cmd_option forget_options[] = {
	{ "items", 0, "A-B", past_take_items, offsetof(struct forget_values, items),
	  "only the items of the list with these indexes, from 0" },
	CMD_WRITER,
};

static int keep_trashed(void *arg, const struct trash_item *item)
{
	struct forget_values *values = arg;
	const struct past_place *place = values->place;

	if (!bytes_equal(item->session, bytes_str(place->session)) ||
	    (place->key &&
	     !memmem(item->name.data, item->name.size, place->key, strlen(place->key))))
		return 0;
	if (ARRAY_ROOM(values->id, values->count, values->room) < 0)
		return -ENOMEM;
	values->id[values->count++] = item->id;
	return 0;
}

static int purge_trash(struct forget_values *values, struct backend *backend, struct access *access)
{
	_cleanup_(store_look_done) struct store_look look = { 0 };
	int r = store_look(backend, 0, &look);

	if (r == 0)
		r = trash_list(backend, look.snapshot, keep_trashed, values);
	store_look_done(&look);
	for (size_t i = 0; r == 0 && i < values->count; i++) {
		_cleanup_(buf_done) struct buf order = { 0 };

		r = order_purge(&order, values->id[i]);
		if (r == 0)
			r = access_order(access, buf_bytes(&order));
		r = r == -ENOENT ? 0 : r;
	}
	free(values->id);
	return r;
}

/* The directory of a whole session, with its ordinary files, goes without a stay in the trash. */
static int remove_home(struct access *access, struct backend *backend,
		       const struct past_place *place)
{
	_cleanup_(buf_done) struct buf path = { 0 }, order = { 0 };
	_cleanup_(store_look_done) struct store_look look = { 0 };
	struct settings settings;
	int r = store_settings(backend, &settings, NULL);

	if (r == 0)
		r = store_look(backend, 0, &look);
	if (r == 0)
		r = home_path(backend, look.snapshot, settings.value[SETTING_LAYOUT],
			      bytes_str(place->session), &path);
	store_look_done(&look);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = order_trash(&order, buf_bytes(&path), INT64_MAX, 0);
	return r < 0 ? r : access_order(access, buf_bytes(&order));
}

static int run_forget(void *given, char **operands)
{
	struct forget_values *values = given;
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(access_closep) struct access *access = NULL;
	_cleanup_(past_place_done) struct past_place place = { 0 };
	int r = past_find(operands, &values->options, true, &backend, &place);

	if (r < 0)
		return CMD_FAILED;
	values->place = &place;
	if (values->items.given && !place.key)
		return cmd_misused(&cmd_forget, "--items goes with one key of a session");
	if (store_open(operands[0], ACCESS_WRITE, &values->options, &access) < 0)
		return CMD_FAILED;
	r = purge_trash(values, backend, access);
	if (r == 0 && !place.key)
		r = remove_home(access, backend, &place);
	if (r == 0)
		r = history_forget(backend, bytes_str(place.session), past_key(&place),
				   values->items.given ? values->items.first : INT64_MIN,
				   values->items.given ? values->items.last : INT64_MAX);
	if (r == 0)
		r = index_discard(operands[0]);
	return r < 0 ? cmd_fail(operands[0], operands[1], r) : CMD_DONE;
}

const struct command cmd_forget = {
	.name = "forget",
	.arguments = "[--items=A-B] [-o OPTIONS] STORE SESSION[/KEY]",
	.summary = "remove a session, a key or items for good",
	.help = "Removes a session, a key of it or some of its items for good: from the rows, from "
		"the history, from what was removed before, and from the index of 'sessfs "
		"search'.  With --items, the other items of the list stay, but what the history "
		"knows of the list goes, since it may hold them.",
	.more = "Backups that were made before still have it, and so have other stores and the "
		"blocks of the disk that the filesystem has given to other files.  The store may "
		"be mounted.",
	.failed = "it may be there still, in part; say the command again",
	CMD_OPTIONS(forget_options),
	.least = 2,
	.most = 2,
	.operands = "takes a store and a session",
	.size = sizeof(struct forget_values),
	.run = run_forget,
};
