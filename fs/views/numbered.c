/* SPDX-License-Identifier: MIT */

/*
 * The documents of a directory in the order of their numbers (as=list), as the rows of a list are
 * to window.c: their index is their place in that order, and their data is compacted.
 *
 *   The store has the names in another order.  So they are sorted in blocks, each of which takes
 *   one pass over all of them: the memory is bounded for any number of documents, and a directory
 *   that fits one block takes one pass.  Documents of one number are in the order in which the
 *   directory lists them.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "fs/base/sound.h"
#include "backend/base/array.h"
#include "fs/base/json.h"
#include "fs/views/windows.h"

struct numbered {
	int64_t number;
	uint64_t id; /* of the entry */
	uint64_t ino;
};

struct documents {
	const struct question *question;
	size_t block;		  /* number of documents that are sorted at a time */
	struct buf line;	  /* the line that shows one */
	struct backend_node node; /* its node; without its bytes */
	/* The documents at the places from first on, in order. */
	struct numbered *item;
	size_t count, room;
	int64_t first;
	/* While the block is filled: the number seen, and which are kept: the lowest behind another
	 * or, with back, the highest before it. */
	int64_t seen;
	bool back, bounded;
	struct numbered bound;
};

void documents_free(struct documents *documents)
{
	if (!documents)
		return;
	buf_done(&documents->line);
	free(documents->item);
	free(documents);
}

/* ---- Their order ---- */

static int compare(const void *a, const void *b)
{
	const struct numbered *one = a, *other = b;

	if (one->number != other->number)
		return one->number < other->number ? -1 : 1;
	return one->id < other->id ? -1 : one->id > other->id;
}

static int compare_back(const void *a, const void *b)
{
	return compare(b, a);
}

static void sort(struct documents *documents, bool back)
{
	if (documents->count)
		qsort(documents->item, documents->count, sizeof(*documents->item),
		      back ? compare_back : compare);
}

/* The others come with another pass. */
static void keep_block(struct documents *documents)
{
	sort(documents, documents->back);
	documents->count = MIN(documents->count, documents->block);
}

/* The work for a name and for a document, as bytes of a list that take about as long. */
enum { ENTRY_WORK = 256, DOCUMENT_WORK = 16 << 10 };

static int see_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct documents *documents = arg;
	struct numbered item = { .id = entry->id, .ino = node->ino };
	int r;

	r = check_patience(ENTRY_WORK);
	if (r < 0 || node->kind != BACKEND_SINGLE || !names_number(entry->name, &item.number) ||
	    item.number < documents->question->items_from ||
	    item.number > documents->question->items_to ||
	    !sound_entry(entry->parent, entry->id, node) || sound_node(node))
		return r;
	documents->seen++;
	if (documents->bounded && (documents->back ? compare(&item, &documents->bound) >= 0 :
						     compare(&item, &documents->bound) <= 0))
		return 0;
	if (documents->count == 2 * documents->block)
		keep_block(documents);
	r = ARRAY_ROOM(documents->item, documents->count, documents->room);
	if (r == 0)
		documents->item[documents->count++] = item;
	return r;
}

static int fill_block(struct window_view *view, bool back)
{
	struct documents *documents = view->documents;
	int r;

	documents->back = back;
	documents->count = 0;
	documents->seen = 0;
	r = ASK(&view->view, entry_list, view->ino, 0, see_entry, documents);
	if (r < 0)
		return r;
	keep_block(documents);
	if (back)
		sort(documents, false);
	return 0;
}

int documents_begin(struct window_view *view, size_t block)
{
	const struct question *question = view->question;
	/* The side where the first pass begins. */
	bool back = question->last >= 0 || (question->bytes >= 0 && question->first < 0);
	struct documents *documents = calloc(1, sizeof(*documents));
	int r;

	if (!documents)
		return -ENOMEM;
	documents->question = question;
	documents->block = block;
	view->documents = documents;
	r = fill_block(view, back);
	if (r < 0)
		return r;
	view->rows.end = documents->seen;
	documents->first = back ? documents->seen - (int64_t)documents->count : 0;
	return 0;
}

/* The next block on the side where a place is. */
static int turn_to(struct window_view *view, bool back)
{
	struct documents *documents = view->documents;
	int64_t next = documents->first + (int64_t)documents->count;
	int r;

	if (!documents->count)
		return -EIO;
	documents->bounded = true;
	documents->bound = documents->item[back ? 0 : documents->count - 1];
	r = fill_block(view, back);
	documents->first = back ? documents->first - (int64_t)documents->count : next;
	return r;
}

static int document_at(struct window_view *view, int64_t place, const struct numbered **ret_item)
{
	struct documents *documents = view->documents;
	int r = 0;

	while (r == 0 &&
	       (place < documents->first || place >= documents->first + (int64_t)documents->count))
		r = turn_to(view, place < documents->first);
	if (r == 0)
		*ret_item = &documents->item[place - documents->first];
	return r;
}

/* ---- Their lines ---- */

struct reading {
	struct buf *line;
	int64_t place;
	backend_row_time_fn *fn;
	void *arg;
	int result;
};

/* A row of another program need not be JSON. */
static int read_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct reading *reading = arg;

	(void)index;
	if (!json_valid(data, NULL))
		return 1;
	buf_clear(reading->line);
	reading->result = json_compact(data, reading->line);
	if (reading->result == 0)
		reading->result =
			reading->fn(reading->arg, reading->place, times, buf_bytes(reading->line));
	return 1;
}

/* Users that may read the list may read all documents in it.  We do not know whether another file's
 * owner is in a group. */
mode_t documents_closed(const struct window_view *view)
{
	static const mode_t everybody = S_IRGRP | S_IROTH;
	const struct backend_node *node = &view->documents->node;
	const bool all = (node->mode & everybody) == everybody, ours = node->gid == view->gid;
	const bool owner = node->uid == view->uid ? node->mode & S_IRUSR : all;
	const bool group = ours ? node->mode & S_IRGRP : all;
	const bool others = ours ? node->mode & S_IROTH : all;

	return (owner ? 0 : S_IRUSR) | (group ? 0 : S_IRGRP) | (others ? 0 : S_IROTH);
}

static int read_document(struct window_view *view, const struct numbered *item,
			 struct reading *reading)
{
	struct backend_node node;
	int r = ASK(&view->view, node_get, item->ino, &node);

	reading->result = 0;
	if (r < 0)
		return r;
	view->documents->node = (struct backend_node){
		.mode = node.mode,
		.uid = node.uid,
		.gid = node.gid,
	};
	r = backend_row_read_times(view->view.backend, view->view.snapshot, node.session, node.key,
				   INT64_MIN, false, 1, read_row, reading);
	backend_node_done(&node);
	return r < 0 ? r : reading->result;
}

int documents_look(struct window_view *view, int64_t start, bool back, backend_row_time_fn *fn,
		   void *arg)
{
	struct reading reading = { .line = &view->documents->line, .fn = fn, .arg = arg };
	const struct numbered *item;
	int r = 0;

	for (int64_t place = start; r == 0 && place >= 0 && place < view->rows.end;
	     place += back ? -1 : 1) {
		reading.place = place;
		r = document_at(view, place, &item);
		if (r == 0)
			r = check_patience(DOCUMENT_WORK);
		if (r == 0)
			r = read_document(view, item, &reading);
	}
	return MIN(r, 0);
}
