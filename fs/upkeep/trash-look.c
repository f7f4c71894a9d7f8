/* SPDX-License-Identifier: MIT */

/* How old and how large a session is, and what lies in the trash. */

#include <errno.h>
#include <string.h>

#include "fs/base/ttl.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/trash-internal.h"

int family_find(struct view *view, uint64_t dir, struct entries *family)
{
	int r = ASK(view, entry_list, dir, 0, entries_keep, family);

	for (size_t i = 0; r == 0 && i < family->count; i++) {
		const struct backend_node *node = &family->item[i].node;

		/* In a damaged store it may lie in itself. */
		if (node->ino == dir)
			r = -EIO;
		else if (S_ISDIR(node->mode))
			r = ASK(view, entry_list, node->ino, 0, entries_keep, family);
	}
	return r;
}

/* A number that is an attribute, or 0. */
static int get_number(struct view *view, uint64_t ino, const char *name, int64_t *ret_number)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	struct bytes text;
	uint64_t number;
	int r = ASK(view, xattr_get, ino, bytes_str(name), &value);

	*ret_number = 0;
	text = buf_bytes(&value);
	if (r == 0 && number_take(&text, (uint64_t)(INT64_MAX / TRASH_SECOND), &number))
		*ret_number = (int64_t)number;
	return r == -ENODATA ? 0 : r;
}

static int look_ttl(struct view *view, uint64_t ino, struct session_look *look)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = ASK(view, xattr_get, ino, BYTES(TRASH_TTL), &value);

	if (r == 0)
		look->has_ttl |= ttl_parse(buf_bytes(&value), &look->ttl) == 0;
	return r == -ENODATA ? 0 : r;
}

static void look_at_files(const struct entries *family, struct session_look *look)
{
	for (size_t i = 0; i < family->count; i++) {
		const struct backend_node *node = &family->item[i].node;

		if (S_ISDIR(node->mode))
			continue;
		look->changed = MAX(look->changed, node->mtime);
		look->bytes += node->size;
	}
}

int family_look(struct view *view, const struct entries *homes,
		const struct backend_session_stat *rows, const struct entries *family,
		struct session_look *look)
{
	const struct backend_node *first = &homes->item[0].node;
	struct backend_session_stat stat = { 0 };
	int64_t restored, newest = 0;
	int r = rows ? 0 :
		       backend_session_stat(view->backend, view->snapshot, first->session, &stat);

	if (r < 0 && r != -ENOENT)
		return r;
	rows = rows ? rows : &stat;
	r = 0;
	for (size_t i = 0; r == 0 && i < homes->count; i++) {
		r = get_number(view, homes->item[i].node.ino, TRASH_RESTORED, &restored);
		newest = MAX(newest, restored);
		if (r == 0)
			r = look_ttl(view, homes->item[i].node.ino, look);
	}
	if (r < 0)
		return r;
	look->bytes = rows->bytes;
	look->changed = MAX(rows->items ? rows->updated : 0, newest * TRASH_SECOND);
	look_at_files(family, look);
	look_at_files(homes, look);
	if (!look->changed)
		look->changed = first->mtime;
	return 0;
}

int session_look(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		 const struct backend_node *home, const struct backend_session_stat *rows,
		 struct session_look *ret_look)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	_cleanup_(entries_done) struct entries family = { 0 };
	_cleanup_(entries_done) struct entries homes = { 0 };
	struct session_look look = { 0 };
	int r = homes_of(&view, layout, home, home->session, &homes);

	for (size_t i = 0; r == 0 && i < homes.count; i++)
		if (S_ISDIR(homes.item[i].node.mode))
			r = family_find(&view, homes.item[i].node.ino, &family);
	if (r == 0)
		r = family_look(&view, &homes, rows, &family, &look);
	if (r == 0)
		*ret_look = look;
	return r;
}

int session_ttl(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
		struct bytes session, struct buf *text)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	_cleanup_(entries_done) struct entries homes = { 0 };
	int found = -ENODATA, r = homes_of(&view, layout, NULL, session, &homes);

	for (size_t i = 0; r == 0 && found == -ENODATA && i < homes.count; i++)
		found = ASK(&view, xattr_get, homes.item[i].node.ino, BYTES(TRASH_TTL), text);
	return r < 0 ? r : found;
}

struct trash_listing {
	trash_fn *fn;
	void *arg;
};

static int list_item(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	const struct trash_listing *listing = arg;
	struct trash_item item;

	return trash_parse(entry, node, &item) ? listing->fn(listing->arg, &item) : 0;
}

int trash_list(struct backend *backend, struct backend_snapshot *snapshot, trash_fn *fn, void *arg)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	struct trash_listing listing = { fn, arg };

	return ASK(&view, entry_list, BACKEND_TRASH, 0, list_item, &listing);
}

static int find_awaited(void *arg, const struct backend_node *node)
{
	bool *any = arg;

	*any = node->target.data && !S_ISLNK(node->mode);
	return *any;
}

int trash_awaits(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct view view = { .backend = backend, .snapshot = snapshot };
	bool any = false;
	int r = ASK(&view, node_list, 0, true, find_awaited, &any);

	return r < 0 ? r : any;
}
