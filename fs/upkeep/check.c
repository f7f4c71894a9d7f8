/* SPDX-License-Identifier: MIT */

/*
 * Checking a store.
 *
 *   The model loads nodes, entries, rows, pieces, marks, chunks and attributes, and relies on this:
 *
 *     schema     the tables of ours have their columns, and the indexes that keep names, keys and
 *                ids apart are there; the triggers that log others' changes are                (b)
 *     numbers    ids and inode numbers leave room for the next one, stamps of changes for the
 *                triggers' next one; every value is of its type and in its range               (b)
 *     names      what stands in a directory can be a name (sound.h)                         (b, m)
 *     nodes      kind, mode, session, key and target fit each other (sound.h)                  (m)
 *     the tree   the root is a directory; entries lead to nodes and lie in directories; each
 *                directory has one name, and all lie below the root; files have as many names as
 *                links; each node knows one of its names                                    (b, m)
 *     sessions   a state file lies below the directory of its session; no two have one key     (b)
 *     content    rows are JSON, marks say where items begin, no torn line runs into an item,
 *                attributes, chunks, pieces and marks belong to a node                      (b, m)
 *
 *   The backend checks what its tables hold (b), this file what that means (m).  Opening a store
 *   checks nothing of that, so the model relies on none of it for more than an error: an unsound
 *   name or node is -EIO (inode_of_node(), list_keep(), entry_open()), and every walk ends.
 *
 *   Violations are what our programs never write: a node without its name, a list with wrong marks,
 *   a row that is not JSON.  Notes are what users wrote and what is kept for them: drafts, lines
 *   that are not JSON; and changes of other programs that a mount will put right.
 */

#include "fs/api/check.h"
#include "fs/api/settings.h"
#include "fs/api/trash.h"
#include "fs/base/entries.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/base/sound.h"
#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/upkeep/session-keys.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK_TRIES = 20 };

struct checking {
	struct backend *backend;
	struct view view;
	backend_report_fn *report;
	void *arg;
	struct check_result result;
};

static void check_say(struct checking *checking, uint64_t *counter, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void check_say(struct checking *checking, uint64_t *counter, const char *format, ...)
{
	char sentence[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	++*counter;
	checking->report(checking->arg, sentence);
}

#define violation(checking, ...) check_say(checking, &(checking)->result.violations, __VA_ARGS__)
#define note(checking, ...) check_say(checking, &(checking)->result.notes, __VA_ARGS__)

/* Rows. */

struct row_check {
	struct checking *checking;
	struct bytes session;
	struct bytes key;
	bool is_hash;
	int64_t expected;
	bool holes;
};

static int check_row(void *arg, int64_t index, struct bytes data)
{
	struct row_check *row = arg;
	struct json_error error;

	row->checking->result.rows++;
	row->holes |= index != row->expected;
	row->expected = index < INT64_MAX ? index + 1 : index;
	if (!row->is_hash && !json_valid(data, &error))
		violation(row->checking,
			  "session %s, key %s, item %" PRId64
			  ": the row is not JSON: %s at byte %zu",
			  SHOWN(row->session), SHOWN(row->key), index, error.reason, error.offset);
	return 0;
}

static int keep_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	(void)stat;
	return session_keys_add(arg, &(struct backend_past_key){ 0, session, key });
}

static int check_key(struct checking *checking, const struct backend_past_key *key)
{
	struct view *view = &checking->view;
	struct row_check row = {
		.checking = checking,
		.session = key->session,
		.key = key->key,
	};
	struct backend_node node;
	int r;

	row.is_hash = bytes_ends_with(row.key, names_hash_suffix);
	r = ASK(view, node_find, row.session, row.key, &node);
	if (r == 0) {
		row.is_hash = node.kind == BACKEND_HASH;
		backend_node_done(&node);
	} else if (r == -ENOENT) {
		note(checking, "session %s, key %s: has rows but no file yet; a mount makes it",
		     SHOWN(row.session), SHOWN(row.key));
	} else {
		return r;
	}
	r = ASK(view, row_read, row.session, row.key, INT64_MIN, check_row, &row);
	if (r == 0 && row.holes)
		note(checking,
		     "session %s, key %s: the items are not numbered 0, 1, 2, ...; the next save "
		     "fixes that",
		     SHOWN(row.session), SHOWN(row.key));
	return r;
}

static int check_keys(struct checking *checking)
{
	struct view *view = &checking->view;
	_cleanup_(session_keys_done) struct session_keys keys = { 0 };
	struct bytes none = { 0 };
	int r = ASK(view, key_list, none, none, keep_key, &keys);

	for (size_t i = 0; r == 0 && i < keys.count; i++)
		r = check_key(checking, &keys.item[i]);
	return r;
}

/* Lists: marks, and lines that are not rows. */

struct list_check {
	struct checking *checking;
	const struct backend_node *node;
	struct backend_mark *marks; /* in falling order */
	size_t mark_count;
	size_t mark_room;
	uint64_t offset;
	bool at_piece; /* pieces of this row index came before */
	bool in_line;  /* they do not end in a newline */
};

static int check_segment(void *arg, const struct segment *segment)
{
	struct list_check *list = arg;
	const struct backend_mark *mark;

	mark = list->mark_count ? &list->marks[list->mark_count - 1] : NULL;
	if (mark && !list->at_piece && mark->index <= segment->index) {
		if (mark->index != segment->index || mark->offset != list->offset)
			violation(list->checking,
				  "session %s, key %s: a mark says that item %" PRId64
				  " begins at byte %" PRIu64 ", it is item %" PRId64
				  " at byte %" PRIu64,
				  SHOWN(list->node->session), SHOWN(list->node->key), mark->index,
				  mark->offset, segment->index, list->offset);
		list->mark_count--;
	}
	if (!segment->is_row) {
		struct bytes data = segment->data;

		list->offset += data.size;
		list->at_piece = true;
		if (data.size)
			list->in_line = data.data[data.size - 1] != '\n';
		return 0;
	}
	if (list->in_line)
		violation(list->checking, "session %s, key %s: a torn line runs into item %" PRId64,
			  SHOWN(list->node->session), SHOWN(list->node->key), segment->index);
	list->in_line = false;
	list->at_piece = false;
	list->offset += segment->data.size + 1;
	return 0;
}

static int load_marks(struct view *view, struct list_check *list)
{
	uint64_t offset = INT64_MAX;

	for (;;) {
		struct backend_mark mark;
		int r = ASK(view, mark_find, list->node->ino, offset, &mark);

		if (r == -ENOENT)
			return 0;
		if (r < 0)
			return r;
		if (ARRAY_ROOM(list->marks, list->mark_count, list->mark_room) < 0)
			return -ENOMEM;
		list->marks[list->mark_count++] = mark;
		if (!mark.offset)
			return 0;
		offset = mark.offset - 1;
	}
}

static int check_list(struct checking *checking, const struct backend_node *node)
{
	const struct inode inode = { .node = *node };
	struct list_check list = { .checking = checking, .node = node };
	int r;

	r = load_marks(&checking->view, &list);
	if (r == 0)
		r = list_walk(&checking->view, &inode, LIST_START, check_segment, &list);
	if (r == 0 && list.mark_count)
		violation(checking, "session %s, key %s: a mark points behind the last item",
			  SHOWN(node->session), SHOWN(node->key));
	free(list.marks);
	return r;
}

/* Nodes. */

struct invalid_check {
	struct checking *checking;
	const struct backend_node *node;
};

static int check_invalid(void *arg, const struct invalid_place *place)
{
	const struct invalid_check *check = arg;
	bool draft = check->node->flags & BACKEND_DRAFT;

	note(check->checking,
	     "session %s, key %s, line %" PRIu64 ", column %" PRIu64 ": not JSON: %s%s",
	     SHOWN(check->node->session), SHOWN(check->node->key), place->line, place->column,
	     place->reason, draft ? " (a draft: SQL sees the last valid state)" : "");
	return 0;
}

static int check_entry(struct checking *checking, const struct backend_node *node)
{
	struct view *view = &checking->view;
	_cleanup_(buf_done) struct buf name = { 0 };
	struct backend_node parent;
	int r;

	if (node->ino == BACKEND_ROOT || !node->nlink || !node->entry)
		return 0;
	r = ASK(view, node_get, node->parent, &parent);
	if (r == 0) {
		if (!S_ISDIR(parent.mode))
			violation(checking,
				  "inode %" PRIu64 ": its parent %" PRIu64 " is not a directory",
				  node->ino, node->parent);
		backend_node_done(&parent);
		r = ASK(view, entry_name, node->parent, node->entry, &name);
	}
	if (r == -ENOENT) {
		violation(checking, "inode %" PRIu64 ": no name leads to it", node->ino);
		return 0;
	}
	return r;
}

static int check_state(struct checking *checking, const struct backend_node *node)
{
	struct invalid_check invalid = { .checking = checking, .node = node };
	struct inode inode = { .node = *node };
	struct view *view = &checking->view;
	struct backend_key_stat stat;
	int r;

	r = invalid_find(&checking->view, &inode, check_invalid, &invalid);
	if (r < 0 || (node->flags & BACKEND_DRAFT))
		return r;
	if (node->kind == BACKEND_LIST)
		return check_list(checking, node);
	r = ASK(view, key_stat, node->session, node->key, &stat);
	if (r == -ENOENT) {
		note(checking, "session %s, key %s: the row was deleted; a mount removes the file",
		     SHOWN(node->session), SHOWN(node->key));
		return 0;
	}
	return r;
}

static int check_node(struct checking *checking, const struct backend_node *node)
{
	int r = check_entry(checking, node);

	if (r < 0)
		return r;
	tick(1);
	checking->result.sessions += node->kind == BACKEND_SESSION;
	checking->result.files += !S_ISDIR(node->mode) && !node_is_trashed(node);
	if (!node->nlink && node->ino != BACKEND_ROOT)
		note(checking, "inode %" PRIu64 ": unlinked while open; the next mount deletes it",
		     node->ino);
	if (sound_node(node)) {
		violation(checking, "inode %" PRIu64 ": %s", node->ino, sound_node(node));
		return 0;
	}
	return kind_is_state(node->kind) && node->nlink ? check_state(checking, node) : 0;
}

static int check_nodes(struct checking *checking)
{
	struct view *view = &checking->view;
	int r = 0;

	for (uint64_t after = 0; r == 0;) {
		struct backend_node node = { 0 };

		r = ASK(view, node_list, after, false, node_keep, &node);
		if (r < 0 || !node.ino)
			return r;
		after = node.ino;
		r = check_node(checking, &node);
		backend_node_done(&node);
	}
	return r;
}

static int count_home(void *arg, struct bytes path, const struct backend_node *node)
{
	(void)path, (void)node;
	++*(uint64_t *)arg;
	return 0;
}

/* With a layout a session may have no directory. */
static int check_layout(struct checking *checking)
{
	struct settings settings;
	_cleanup_(freep) char *why = NULL;
	char text[LAYOUTS_TEXT];

	if (settings_read(checking->backend, &settings, NULL, &why) < 0)
		return 0;
	if (settings.moving)
		note(checking,
		     "the change to another layout is not complete; 'sessfs config STORE "
		     "layout=%s' continues it",
		     layouts_show(settings.value[SETTING_LAYOUT], text));
	if (!settings.value[SETTING_LAYOUT])
		return 0;
	checking->result.sessions = 0;
	return home_list(checking->backend, checking->view.snapshot, settings.value[SETTING_LAYOUT],
			 count_home, &checking->result.sessions);
}

/* Sentences are kept until all was read of one state: one after the other, each with a NUL. */
static void keep_sentence(void *arg, const char *sentence)
{
	struct buf *sentences = arg;

	buf_append(sentences, sentence, strlen(sentence) + 1);
}

static int check_once(struct checking *checking)
{
	struct backend *backend = checking->backend;
	int r = backend_check(backend, checking->report, checking->arg, &checking->result.damage);

	if (r < 0)
		return r;
	checking->result.violations = (uint64_t)r;
	r = view_begin_plain(backend, &checking->view);
	if (r == 0)
		r = check_nodes(checking);
	if (r == 0)
		r = check_keys(checking);
	if (r == 0)
		r = check_layout(checking);
	view_end(&checking->view);
	if (r < 0 && r != -ESTALE && checking->result.violations) {
		violation(checking, "cannot find out what else is wrong: %s", strerror(-r));
		r = 0;
	}
	return r;
}

int check_store(struct backend *backend, backend_report_fn *report, void *arg,
		struct check_result *ret_result)
{
	_cleanup_(buf_done) struct buf sentences = { 0 };
	int r = -ESTALE;

	/* A store that cannot show a past state has it read again when something was written. */
	for (int tries = 0; r == -ESTALE && tries < CHECK_TRIES; tries++) {
		struct checking checking = { .backend = backend,
					     .report = keep_sentence,
					     .arg = &sentences };

		buf_clear(&sentences);
		r = check_once(&checking);
		if (r == 0)
			*ret_result = checking.result;
	}
	for (size_t at = 0; r != -ESTALE && at < sentences.size;
	     at += strlen(sentences.data + at) + 1)
		report(arg, sentences.data + at);
	return r == -ESTALE ? -EBUSY : r;
}
