/* SPDX-License-Identifier: MIT */

/*
 * Events of what other mounts have done, from the notes that they have left.
 *
 *   A commit leaves several notes, of nodes, names and rows; all notes of one file make one event:
 *
 *     a name went, and one came        a rename; or a save, if another file has gone by that
 *     a name came                      a save: something is there that was not
 *     a name went                      a removal
 *     rows were inserted in a list     an append
 *     other rows, chunks or pieces     a save
 *     other attributes                 an attr
 *
 *   Commits of one mount that were made at the same moment have gone into the store together, and
 *   count as one.
 */

#include "fs/events/events.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/inode/inodes.h"
#include "backend/base/array.h"

/* Limits for the notes that are held. */
enum {
	HELD_MOST = EVENTS_MOST,
	HELD_BYTES = EVENTS_BYTES,
	PATH_DEPTH = 64, /* directories above a file, of which the path is told */
};

/* A note with texts of its own, and the file that it is about. */
struct held_note {
	struct backend_feed feed;
	char *texts;
	size_t place; /* among all notes */
	uint64_t node;
	bool placed; /* its name is that which the file has in the view */
};

static size_t note_size(const struct backend_feed *feed)
{
	return sizeof(struct held_note) + feed->session.size + feed->key.size + feed->name.size +
	       feed->path.size + 4;
}

static int note_copy(const struct backend_feed *feed, struct held_note *note)
{
	char *at = malloc(note_size(feed) - sizeof(*note));

	if (!at)
		return -ENOMEM;
	*note = (struct held_note){ .feed = *feed, .texts = at };
	note->node = feed->what == BACKEND_FEED_NODE ? feed->ino : feed->node;
	text_move(&note->feed.session, &at);
	text_move(&note->feed.key, &at);
	text_move(&note->feed.name, &at);
	text_move(&note->feed.path, &at);
	return 0;
}

/* Whether a named file outside of the trash has no path though its directory exists: it lies too
 * deep for the store to say.  1, 0 or -ESTALE. */
static int is_hidden(struct view *view, const struct backend_feed *feed)
{
	struct backend_node dir;
	int r;

	if (!feed->name.data || feed->path.data || feed->parent == BACKEND_TRASH)
		return 0;
	r = ASK(view, node_get, feed->parent, &dir);
	if (r == 0)
		backend_node_done(&dir);
	return r == -ESTALE ? r : r != -ENOENT;
}

static int put_in_front(struct view *view, const struct backend_node *node, struct buf *path)
{
	_cleanup_(buf_done) struct buf whole = { 0 };
	int r = ASK(view, entry_name, node->parent, node->entry, &whole);

	if (r == 0)
		r = buf_join(&whole, bytes_str(path->size ? "/" : ""), buf_bytes(path));
	if (r < 0)
		return r;
	buf_done(path);
	*path = whole;
	whole = (struct buf){ 0 };
	return 0;
}

/* The path of a file: what is at the root is reached, or nothing is said of one in the trash. */
static int find_path(struct view *view, uint64_t ino, struct buf *path)
{
	struct backend_node node;
	int r = 0;

	for (unsigned depth = 0; r == 0 && ino != BACKEND_ROOT; depth++) {
		if (ino == BACKEND_TRASH || depth == PATH_DEPTH) {
			buf_clear(path);
			return 0;
		}
		r = ASK(view, node_get, ino, &node);
		if (r < 0)
			break;
		r = put_in_front(view, &node, path);
		ino = node.parent;
		backend_node_done(&node);
	}
	if (r < 0)
		buf_clear(path);
	return r == -ENOENT ? 0 : r;
}

/* Where a file lies, which a note says of names alone: as the view has it.  The texts are the
 * feed's then. */
static int place(struct view *view, struct backend_feed *feed, struct buf *name, struct buf *path)
{
	const uint64_t ino = feed->what == BACKEND_FEED_NODE ? feed->ino : feed->node;
	struct backend_node node;
	int r = ino && ino != BACKEND_ROOT ? ASK(view, node_get, ino, &node) : -ENOENT;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = ASK(view, entry_name, node.parent, node.entry, name);
	if (r == 0) {
		feed->name = buf_bytes(name);
		feed->parent = node.parent;
		r = find_path(view, ino, path);
	}
	if (r == 0 && path->size)
		feed->path = buf_bytes(path);
	backend_node_done(&node);
	return r == -ENOENT ? 0 : r;
}

/* A name has gone: until then the file had it. */
static void place_before(struct telling *telling, const struct backend_feed *went)
{
	for (size_t i = 0; i < telling->count; i++) {
		struct held_note *note = &telling->note[i];
		struct backend_feed feed = note->feed;
		struct held_note again;

		if (note->node != went->node || !note->placed)
			continue;
		feed.name = went->name;
		feed.parent = went->ino;
		feed.path = went->path;
		if (note_copy(&feed, &again) < 0) {
			telling->lost = true;
			return;
		}
		free(note->texts);
		again.place = note->place;
		*note = again;
	}
}

int telling_add(struct telling *telling, const struct tree *tree, struct view *view,
		const struct backend_feed *told)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(buf_done) struct buf path = { 0 };
	struct backend_feed known, *feed = &known;
	bool placed = !told->name.data &&
		      (told->what == BACKEND_FEED_NODE || told->what == BACKEND_FEED_ROWS);
	int r;

	if (telling->lost || !events_wanted(&tree->events))
		return 0;
	known = *told;
	r = placed ? place(view, feed, &name, &path) : 0;
	if (r == 0)
		r = is_hidden(view, feed);
	if (r == -ESTALE)
		return r;
	if (told->what == BACKEND_FEED_ENTRY && told->gone)
		place_before(telling, told);
	telling->lost |= r != 0;
	if (telling->lost)
		return 0;
	telling->bytes += note_size(feed);
	telling->lost = feed->what == BACKEND_FEED_ANYTHING || telling->count == HELD_MOST ||
			telling->bytes > HELD_BYTES ||
			ARRAY_ROOM(telling->note, telling->count, telling->room) < 0 ||
			note_copy(feed, &telling->note[telling->count]) < 0;
	if (telling->lost)
		return 0;
	telling->note[telling->count].place = telling->count;
	telling->note[telling->count].placed = placed;
	telling->count++;
	return 0;
}

void telling_done(struct telling *telling)
{
	for (size_t i = 0; i < telling->count; i++)
		free(telling->note[i].texts);
	free(telling->note);
	*telling = (struct telling){ 0 };
}

/* ---- What the notes of one file say ---- */

struct file_notes {
	const struct backend_feed *came; /* the last name that came, */
	const struct backend_feed *went; /* and the first that went */
	const struct backend_feed *rows;
	const struct backend_feed *node;
};

static struct file_notes look_through(const struct held_note *note, size_t count)
{
	struct file_notes notes = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct backend_feed *feed = &note[i].feed;

		if (feed->what == BACKEND_FEED_NODE)
			notes.node = feed;
		else if (feed->what == BACKEND_FEED_ROWS)
			notes.rows = feed;
		else if (!feed->path.data) /* in the trash */
			continue;
		else if (!feed->gone)
			notes.came = feed;
		else if (!notes.went)
			notes.went = feed;
	}
	return notes;
}

/* The note that the event is about; NULL: nothing with a name has changed. */
static const struct backend_feed *notes_judge(const struct file_notes *notes, bool replaces,
					      enum event_what *ret_what)
{
	const struct backend_feed *rows = notes->rows, *node = notes->node;

	if (notes->came) {
		/* Rows of another program may turn a document into a list, which changes its
		 * name. */
		*ret_what = notes->went && !replaces && !(rows && rows->foreign) ? EVENT_RENAME :
										   EVENT_SAVE;
		return notes->came;
	}
	if (notes->went) {
		*ret_what = EVENT_REMOVE;
		return notes->went;
	}
	/* Files below a directory that has moved need no event. */
	if (rows && (rows->waits || (rows->moved && !rows->count)))
		return NULL;
	if (rows) {
		*ret_what = rows->added && names_split(rows->name).kind == BACKEND_LIST ?
				    EVENT_APPEND :
				    EVENT_SAVE;
		return rows;
	}
	if (!node || (!node->content && !node->attributes && !node->fields))
		return NULL;
	*ret_what = node->content ? EVENT_SAVE : EVENT_ATTR;
	return node;
}

/* ---- Events ---- */

/* A path from the store, as events show it, name by name. */
static int show_path(struct bytes path, struct buf *buf, struct bytes *ret_path)
{
	bool more = path.data;
	struct bytes name;
	int r = 0;

	if (!path.data)
		return 0;
	while (r == 0 && more) {
		more = names_cut(&path, &name);
		r = following_text(name, buf);
		if (r == 0 && more)
			r = buf_append_byte(buf, '/');
	}
	if (r == 0)
		*ret_path = composing_text(buf);
	return r;
}

/* The session of a file that does not name it: that of the directory at the root, or by the layout.
 * Names give it if they were neither cut nor extended (names.h). */
static int show_session(const struct tree *tree, struct bytes path, struct buf *buf,
			struct bytes *ret_session)
{
	_cleanup_(buf_done) struct buf id = { 0 }, key = { 0 };
	enum layout_is is = LAYOUT_NONE;
	const char *slash = path.data;
	size_t size;
	int r = 0;

	do {
		slash = memchr(slash, '/', path.size - (size_t)(slash - path.data));
		size = slash ? (size_t)(slash++ - path.data) : 0;
		if (!slash || memmem(path.data, size, "%~", 2))
			return 0;
		if (tree->layout)
			r = layout_judge(tree->layout, bytes_make(path.data, size), true, &is, &id,
					 &key);
		else
			r = names_decode(NAMES_SESSION, bytes_make(path.data, size), &id);
	} while (r == 0 && tree->layout && is == LAYOUT_ABOVE);
	if (tree->layout && is != LAYOUT_SESSION)
		return r;
	return r < 0 ? r : composing_show(composing_text(&id), buf, ret_session);
}

static int fill(const struct tree *tree, const struct file_notes *notes,
		const struct backend_feed *feed, struct composing *composing)
{
	struct event *event = &composing->event;
	const struct backend_feed *known = notes->rows ? notes->rows : notes->node;
	/* Only the root has no path. */
	struct bytes path = feed->path.data ? feed->path : BYTES("");
	int r = show_path(path, &composing->path, &event->path);

	if (r == 0 && notes->came && notes->went)
		r = show_path(notes->went->path, &composing->from, &event->from);
	if (r == 0 && known && known->session.data)
		r = composing_show(known->session, &composing->session, &event->session);
	else if (r == 0)
		r = show_session(tree, path, &composing->session, &event->session);
	if (r == 0 && known && known->key.data)
		r = composing_show(known->key, &composing->key, &event->key);
	return r;
}

static void count(const struct backend_feed *rows, struct event *event)
{
	if (names_split(rows->name).kind != BACKEND_LIST)
		return;
	event->items = rows->end;
	if (event->what != EVENT_APPEND)
		return;
	event->first = rows->first;
	event->count = rows->end - rows->first;
}

/* What all events of a commit have in common. */
struct commit {
	bool replaces; /* a file has gone whose place another one has taken */
	bool foreign;  /* another program had done it */
};

static void report_file(struct tree *tree, struct notes *notes, const struct file_notes *file,
			const struct commit *commit)
{
	_cleanup_(composing_done) struct composing composing = { .event = event_new(EVENT_SAVE) };
	struct event *event = &composing.event;
	const struct backend_feed *feed = notes_judge(file, commit->replaces, &event->what);
	bool is_root = feed && feed->what == BACKEND_FEED_NODE && feed->ino == BACKEND_ROOT;

	/* A file without a name now has no event here; if it had one, the removal reports it. */
	if (!feed || (!feed->path.data && !is_root))
		return;
	event->by = commit->foreign ? EVENT_BY_SQL : EVENT_BY_OTHER;
	event->at = feed->at;
	if (file->rows && event->what != EVENT_REMOVE && !file->rows->waits)
		count(file->rows, event);
	if (fill(tree, file, feed, &composing) < 0)
		notes_lost(notes, tree);
	else
		notes_event(notes, tree, event);
}

/* ---- Commits ---- */

static int by_node(const void *a, const void *b)
{
	const struct held_note *one = a, *two = b;

	if (one->node != two->node)
		return one->node < two->node ? -1 : 1;
	return one->place < two->place ? -1 : 1;
}

/* The notes of one file. */
struct run {
	const struct held_note *note;
	size_t count;
};

static int by_place(const void *a, const void *b)
{
	const struct run *one = a, *two = b;

	return one->note->place < two->note->place ? -1 : 1;
}

static bool has_gone(const struct run *run)
{
	const struct file_notes notes = look_through(run->note, run->count);

	return notes.node && notes.node->gone && !notes.went;
}

static void report_commit(struct tree *tree, struct notes *notes, struct held_note *note,
			  size_t size)
{
	struct run *runs = calloc(size, sizeof(*runs));
	struct commit commit = { 0 };
	size_t count = 0;

	if (!runs) {
		notes_lost(notes, tree);
		return;
	}
	qsort(note, size, sizeof(*note), by_node);
	for (size_t i = 0; i < size; i++) {
		if (!i || note[i].node != note[i - 1].node || !note[i].node)
			runs[count++] = (struct run){ .note = &note[i] };
		runs[count - 1].count++;
		commit.foreign |= note[i].feed.foreign;
	}
	for (size_t i = 0; i < count; i++)
		commit.replaces |= has_gone(&runs[i]);
	qsort(runs, count, sizeof(*runs), by_place);
	for (size_t i = 0; i < count; i++) {
		const struct file_notes file = look_through(runs[i].note, runs[i].count);

		report_file(tree, notes, &file, &commit);
	}
	free(runs);
}

void telling_send(struct telling *telling, struct tree *tree, struct notes *notes)
{
	size_t end;

	if (telling->lost)
		notes_lost(notes, tree);
	for (size_t i = 0; !telling->lost && i < telling->count; i = end) {
		const struct backend_feed *first = &telling->note[i].feed;

		end = i + 1;
		while (end < telling->count && telling->note[end].feed.mount == first->mount &&
		       telling->note[end].feed.at == first->at)
			end++;
		report_commit(tree, notes, &telling->note[i], end - i);
	}
}
