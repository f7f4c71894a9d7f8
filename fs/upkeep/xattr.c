/* SPDX-License-Identifier: MIT */

/* Extended attributes: those of users, and the few that show or do something. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "fs/base/packed.h"
#include "fs/events/events.h"
#include "fs/api/trash.h"
#include "fs/base/ttl.h"
#include "fs/inode/inodes.h"
#include "fs/cache/cache.h"
#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/generation.h"
#include "fs/inode/quota.h"
#include "fs/inode/waiting.h"
#include "fs/inode/window.h"
#include "fs/upkeep/upkeep.h"

static int xattr_judge(struct bytes name)
{
	static const char *const spaces[] = { "user.", "trusted.", "security." };

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		if (bytes_starts_with(name, bytes_str(spaces[i])))
			return name.size > strlen(spaces[i]) ? 0 : -EINVAL;
	return -EOPNOTSUPP;
}

static int append_version(const struct inode *inode, uint64_t generation, struct buf *value)
{
	char word[VERSION_WORD];

	version_word(inode->ino, generation, word);
	return buf_append_str(value, word);
}

static int version_describe(struct view *view, struct inode *inode, struct buf *value)
{
	(void)view;
	if (inode->node.kind != BACKEND_LIST)
		return -ENODATA;
	return inode->apart ? -EIO : append_version(inode, inode->node.generation, value);
}

/* For a session, with or without a quota. */
static int used_describe(struct view *view, struct inode *inode, struct buf *value)
{
	struct tree *tree = view->tree;
	uint64_t limit, used;
	char text[24];
	int r;

	if (inode->node.kind != BACKEND_SESSION)
		return -ENODATA;
	view_end(view);
	r = quota_stat(tree, inode->ino, true, &limit, &used);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%" PRIu64, used);
	return buf_append_str(value, text);
}

/* Reachable by name, never listed, and not stored: a copy of it that a tool brings back is
 * dropped. */
static const struct own {
	const char *name;
	int (*describe)(struct view *view, struct inode *inode, struct buf *value);
} owns[] = {
	{ "user.sessfs.invalid", invalid_describe },
	{ VERSION_ATTRIBUTE, version_describe },
	/* The root of a view has one; it is not a file of the store. */
	{ VIEW_ATTRIBUTE, NULL },
	{ USED_ATTRIBUTE, used_describe },
};

static const struct own *xattr_own(struct bytes name)
{
	for (size_t i = 0; i < ARRAY_SIZE(owns); i++)
		if (bytes_equal(name, bytes_str(owns[i].name)))
			return &owns[i];
	return NULL;
}

/* The kernel requires write permission for the root, as for removing a session. */
static bool xattr_is_order(const struct inode *inode, struct bytes name)
{
	return inode->ino == BACKEND_ROOT && bytes_equal(name, BYTES(TRASH_ORDERS));
}

static bool xattr_is(struct bytes name, const char *attribute)
{
	return bytes_equal(name, bytes_str(attribute));
}

static int change_xattr(struct tree *tree, struct inode *inode, struct batch *batch, unsigned flags,
			struct notes *notes)
{
	struct backend_node node = inode->node;
	int r;

	if (inode->gone)
		return -ENOENT;
	node.ctime = time_now();
	batch_node_set(batch, &node, BACKEND_CTIME, 0);
	r = tree_commit_file(tree, inode, batch, flags);
	/* Also after an error; a read may have come in between. */
	inode->bare = false;
	quota_look_again(tree, inode);
	if (r < 0)
		return r;
	inode->node = node;
	notes_change(notes, tree, inode, CHANGE_ATTR, 0, NULL);
	notes_happened(notes, tree, &(struct happened){ .what = EVENT_ATTR, .inode = inode });
	return 0;
}

static int has_xattr(struct tree *tree, struct inode *inode, struct bytes name)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin(tree, 0, &view);

	if (r == 0)
		r = ASK(&view, xattr_get, inode->node.ino, name, &value);
	return r == 0 ? 1 : r == -ENODATA ? 0 : r;
}

static int set_xattr_once(struct tree *tree, struct inode *inode, struct bytes name,
			  struct bytes value, int flags, struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int r = 0;

	if (xattr_is(name, DATES_ATTRIBUTE) && inode_is_state(inode))
		return dates_parse(value, &inode->dates);
	if (flags) {
		r = has_xattr(tree, inode, name);
		if (r == 1 && (flags & XATTR_CREATE))
			return -EEXIST;
		if (r == 0 && (flags & XATTR_REPLACE))
			return -ENODATA;
	}
	if (r < 0)
		return r;
	batch_xattr_put(&batch, inode->node.ino, name, value);
	if (xattr_is(name, QUOTA_ATTRIBUTE))
		settings_note_quotas(tree, &batch);
	return change_xattr(tree, inode, &batch, 0, notes);
}

/* Whether it is a session's directory, or by the layout a file of one outside of such a
 * directory. */
static bool is_home(struct tree *tree, struct inode *inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *dir;
	bool home;

	if (!tree->layout || (!inode_is_state(inode) &&
			      (!S_ISREG(inode->node.mode) || !packed_layouts(tree->layout))))
		return inode->node.kind == BACKEND_SESSION;
	{
		WITH_READ_LOCK(tree);

		if (view_begin(tree, BACKEND_ANYWAY, &view) < 0 ||
		    inode_get_dir(tree, &view, inode->node.parent, &dir) < 0)
			return false;
		home = !inode_session(dir) &&
		       (inode_is_state(inode) || inode_is_packed(tree, &view, inode, dir) > 0);
	}
	inode_forget(tree, dir, 1);
	return home;
}

int tree_set_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct bytes value,
		   int flags)
{
	struct dates dates;
	int64_t ttl, quota;
	int r;

	if (tree->options.read_only || inode->window)
		return -EROFS;
	r = xattr_judge(name);
	/* Nothing else can expire; tools that copy attributes ignore this error. */
	if (r == 0 && xattr_is(name, TRASH_TTL) && !is_home(tree, inode))
		r = -EOPNOTSUPP;
	if (r == 0 && xattr_is(name, TRASH_TTL))
		r = ttl_parse(value, &ttl);
	/* A session has one for all that lies in its directory. */
	if (r == 0 && xattr_is(name, QUOTA_ATTRIBUTE))
		r = inode->node.kind == BACKEND_SESSION ? quota_parse(value, &quota) : -EOPNOTSUPP;
	if (r == 0 && xattr_is(name, DATES_ATTRIBUTE))
		r = dates_parse(value, &dates);
	if (r < 0)
		return r;
	if (xattr_own(name))
		return 0;
	if (xattr_is_order(inode, name))
		return tree_order(tree, value);
	r = TREE_RETRY_NOTING(tree, NOTIFY_CONTENT,
			      set_xattr_once(tree, inode, name, value, flags, &notes));
	if (r == 0 && xattr_is(name, TRASH_TTL))
		expire_soon(tree);
	if (r == 0 && xattr_is(name, QUOTA_ATTRIBUTE)) {
		tree->quota.any = true;
		tree->quota.on = !tree->options.relayout;
	}
	return r;
}

static int find_name(void *arg, struct bytes name)
{
	(void)name;
	*(bool *)arg = true;
	return 1;
}

static int get_xattr_once(struct tree *tree, struct inode *inode, struct bytes name,
			  struct buf *value)
{
	_cleanup_(view_end) struct view view = { 0 };
	const struct own *own = xattr_own(name);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	bool any = false;
	int r;

	/* An attribute that memory knows needs no read. */
	if (own)
		view.inode = inode;
	else if (inode->bare && !xattr_is_order(inode, name))
		return -ENODATA;
	r = view_begin(tree, own ? BACKEND_BEGUN : 0, &view);
	if (r == 0 && own)
		r = inode_heed(tree, &view, inode);
	if (r < 0)
		return r;
	if (xattr_is_order(inode, name))
		return buf_append_str(value, "1");
	if (own)
		return inode->gone || !own->describe ? -ENODATA :
						       own->describe(&view, inode, value);
	/* The kernel asks at each write whether a file has a capability, and few files have
	 * attributes: so check first whether there are any, and remember if not. */
	r = ASK(&view, xattr_list, inode->node.ino, find_name, &any);
	if (r < 0)
		return r;
	inode->bare = !any;
	return any ? ASK(&view, xattr_get, inode->node.ino, name, value) : -ENODATA;
}

int tree_get_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct buf *value)
{
	const struct window *window = inode->window;
	int r = xattr_judge(name);

	if (inode == tree->shown && window && bytes_equal(name, BYTES(VIEW_ATTRIBUTE)))
		return buf_append_str(value, window->asked->text);
	/* That of the rows which it shows, also if the list has changed since.  Documents have
	 * none. */
	if (window && window->rows.list && !question_gathers(window->asked->question) &&
	    bytes_equal(name, BYTES(VERSION_ATTRIBUTE)))
		return append_version(window->of, window->generation, value);
	inode = inode_shown(inode);
	return r < 0 ? r : TREE_RETRY(tree, get_xattr_once(tree, inode, name, value));
}

static int list_xattr_once(struct tree *tree, struct inode *inode, struct buf *names)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	int r = view_begin(tree, 0, &view);

	return r < 0 ? r : view_xattr_names(&view, inode->node.ino, names);
}

int tree_list_xattr(struct tree *tree, struct inode *inode, struct buf *names)
{
	return TREE_RETRY(tree, list_xattr_once(tree, inode_shown(inode), names));
}

static int remove_xattr_once(struct tree *tree, struct inode *inode, struct bytes name,
			     struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int r;

	if (xattr_is(name, DATES_ATTRIBUTE) && inode->dates.other) {
		inode->dates = (struct dates){ 0 };
		return 0;
	}
	r = has_xattr(tree, inode, name);
	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	batch_xattr_delete(&batch, inode->node.ino, name);
	return change_xattr(tree, inode, &batch, BACKEND_FREES, notes);
}

int tree_remove_xattr(struct tree *tree, struct inode *inode, struct bytes name)
{
	int r;

	if (tree->options.read_only || inode->window)
		return -EROFS;
	r = xattr_judge(name);
	if (r < 0)
		return r;
	r = TREE_RETRY_NOTING(tree, NOTIFY_CONTENT, remove_xattr_once(tree, inode, name, &notes));
	/* The ttl in the store counts from now on. */
	if (r == 0 && xattr_is(name, TRASH_TTL))
		expire_soon(tree);
	return r;
}
