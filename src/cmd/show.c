/* SPDX-License-Identifier: MIT */
/*
 * Conversations are read through views, with or without a mount: so the times of rows are known,
 * and a mount checks permissions.  A list is read in blocks of so many items, so that the first
 * ones appear at once and no block is large, however long the list is.
 */
#include "src/cmd/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fs/api/text.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/base/packed.h"
#include "backend/base/array.h"
#include "src/exchange/copier.h"
#include "src/user/stop.h"

enum {
	BLOCK = 128 * 1024,
	ITEMS = 256, /* of a list at a time */
	ORDINARY_MOST = 16 << 20,
};

static const struct cmd_option show_options[] = {
	CMD_YES(struct show, all, "all", 'a',
		"also what nobody has said: what clients note for themselves"),
	CMD_YES(struct show, html, "html", 0, "print a page of HTML that needs nothing else"),
	CMD_YES(struct show, follow, "follow", 'f',
		"also print what is added later, until a signal"),
	{ "last", 0, "N", cmd_take_number, offsetof(struct show, last),
	  "only the last N messages of each list" },
	CMD_TABLE,
};

/* ---- What views say ---- */

/* The last item that begins in a text: the number behind a '#' that begins a line, or in HTML a
 * heading, which no text can look like. */
struct seen {
	int64_t last;	     /* below 0: none */
	const char *heading; /* up to the number */
	size_t match;	     /* so much of that stands here */
	char number[24];     /* of a heading that is cut */
	size_t size;
};

static void see(struct seen *seen, struct bytes text)
{
	for (size_t i = 0; i < text.size; i++) {
		char byte = text.data[i];
		bool whole = !seen->heading[seen->match];

		if (whole && byte >= '0' && byte <= '9' && seen->size < sizeof(seen->number) - 1) {
			seen->number[seen->size++] = byte;
			continue;
		}
		if (whole && seen->size) {
			seen->number[seen->size] = '\0';
			seen->last = strtoll(seen->number, NULL, 10);
		}
		if (whole)
			seen->match = seen->size = 0;
		seen->match = byte == seen->heading[seen->match] ? seen->match + 1 :
			      byte == *seen->heading		 ? 1 :
								   0;
	}
}

/* Of which file it is, where there may be several. */
static int tell_file(struct show *show, const char *path)
{
	_cleanup_(buf_done) struct buf title = { 0 };
	int r;

	if (!show->many || (show->shown && strcmp(show->shown, path) == 0))
		return 0;
	free(show->shown);
	show->shown = bytes_dup(bytes_str(path));
	if (show->shown && show->html)
		return show_html_file(path);
	r = show->shown ? buf_append_str(&title, "==> ") : -ENOMEM;
	if (r == 0)
		r = text_tame(bytes_str(path), &title);
	if (r == 0)
		r = buf_append_str(&title, " <==\n\n");
	return r < 0 ? r : paint_text(&show->paint, buf_bytes(&title));
}

/* How many bytes at the end may begin a character of which more is to come. */
static size_t unfinished(struct bytes text)
{
	for (size_t size = 1; size <= MIN(text.size, (size_t)3); size++) {
		unsigned char byte = (unsigned char)text.data[text.size - size];

		if (byte >= 0xc0)
			return size < (byte < 0xe0 ? 2U : byte < 0xf0 ? 3U : 4U) ? size : 0;
		if (byte < 0x80)
			return 0;
	}
	return 0;
}

/* Print the text at a path, under the name of the file that it is of.  The text of a view is free
 * of control characters; tame it all the same, since another program may be serving the mount. */
static int print_path(struct show *show, const char *of, const char *path, struct seen *seen)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	_cleanup_(buf_done) struct buf block = { 0 }, tamed = { 0 };
	int r = access_file_open(show->access, path, ACCESS_FILE_READ, &file);
	/* The file itself, and not what a view makes of it. */
	const bool raw = show->html && strcmp(of, path) == 0;
	size_t rest = 0;

	if (r == 0 && raw)
		r = paint_text(&show->paint, BYTES("<pre>"));
	while (r == 0 && !ferror(stdout)) {
		struct bytes text;

		buf_consume(&block, block.size - rest);
		buf_clear(&tamed);
		r = stop_wanted() ? -EINTR : access_file_read(file, BLOCK, &block);
		if (r < 0 || !block.size)
			break;
		text = buf_bytes(&block);
		rest = block.size > rest ? unfinished(text) : 0;
		text.size -= rest;
		r = tell_file(show, of);
		if (r == 0)
			r = raw ? text_html(text, &tamed) : text_tame(text, &tamed);
		if (r == 0)
			r = paint_text(&show->paint, buf_bytes(&tamed));
		if (seen)
			see(seen, text);
		show->any = true;
	}
	if (r == 0 && raw)
		r = paint_text(&show->paint, BYTES("</pre>\n"));
	return r;
}

/* The same of a file outside of sessions that may be a transcript all the same. */
static int print_ordinary(struct show *show, const char *path, bool lines)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	_cleanup_(buf_done) struct buf text = { 0 }, shown = { 0 };
	struct text_reader reader = { .all = show->all, .html = show->html };
	struct text_place place = { lines ? 0 : -1, 0 };
	int r = access_file_open(show->access, path, ACCESS_FILE_READ, &file);

	if (r == 0)
		r = access_file_fill(file, ORDINARY_MOST + 1, &text);
	if (r < 0 || text.size > ORDINARY_MOST)
		return r < 0 ? r : print_path(show, path, path, NULL);
	for (struct bytes rest = buf_bytes(&text), line; r == 0 && rest.size; place.index++) {
		const char *end = lines ? memchr(rest.data, '\n', rest.size) : NULL;

		line = bytes_make(rest.data, end ? (size_t)(end - rest.data) : rest.size);
		rest = bytes_make(rest.data + line.size + (end != NULL),
				  rest.size - line.size - (end != NULL));
		buf_clear(&shown);
		r = tell_file(show, path);
		if (r == 0)
			r = text_show(&reader, line, &place, &shown);
		if (r == 0)
			r = paint_text(&show->paint, buf_bytes(&shown));
		show->any = true;
	}
	return r;
}

static const char *form_of(const struct show *show)
{
	return show->html ? (show->all ? "html-records" : "html") : show->all ? "records" : "text";
}

/* "dir/@as=text.../name" of a file, owned by the caller. */
static char *text_path(const struct show *show, const char *path, const char *clauses)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return str_printf("%.*s@as=%s%s/%s", (int)(name - path), path, form_of(show), clauses,
			  name);
}

struct show_list *show_known(const struct show *show, const char *path)
{
	for (size_t i = 0; i < show->count; i++)
		if (strcmp(show->lists[i].path, path) == 0)
			return &show->lists[i];
	return NULL;
}

static struct show_list *list_of(struct show *show, const char *path)
{
	struct show_list *known = show_known(show, path);

	if (known)
		return known;
	if (ARRAY_ROOM(show->lists, show->count, show->room) < 0)
		return NULL;
	show->lists[show->count] = (struct show_list){ .path = bytes_dup(bytes_str(path)) };
	return show->lists[show->count].path ? &show->lists[show->count++] : NULL;
}

void show_version(const struct show *show, const char *path, char version[SHOW_VERSION])
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = access_get_xattr(show->access, path, "user.sessfs.version", &value);

	snprintf(version, SHOW_VERSION, "%.*s", r == 0 ? (int)value.size : 0,
		 r == 0 ? value.data : "");
}

/* One block; *next is the index behind it, as it was if there was nothing. */
static int show_block(struct show *show, const char *path, int64_t *next, int64_t last)
{
	_cleanup_(freep) char *view = NULL;
	/* The text begins as if behind a line. */
	struct seen seen = { .last = -1,
			     .heading = show->html ? "<h2>#" : "\n#",
			     .match = !show->html };
	char clauses[64];
	int r;

	if (last >= 0)
		snprintf(clauses, sizeof(clauses), ",last=%" PRId64, last);
	else
		snprintf(clauses, sizeof(clauses), ",first=%d,items=%" PRId64 "-", ITEMS, *next);
	view = text_path(show, path, clauses);
	r = view ? print_path(show, path, view, &seen) : -ENOMEM;
	if (seen.last >= *next)
		*next = seen.last + 1;
	return r;
}

int show_list(struct show *show, const char *path, int64_t from)
{
	int64_t next = from, before;
	struct show_list *list;
	char version[SHOW_VERSION] = "";
	int r;

	if (show->follow)
		show_version(show, path, version);

	/* The rest comes behind what the first look has seen. */
	if (show->last >= 0 && !from) {
		r = show->last ? show_block(show, path, &next, show->last) : 0;
	} else {
		do {
			before = next;
			r = show_block(show, path, &next, -1);
		} while (r == 0 && next > before && !ferror(stdout));
	}
	list = r == 0 && show->follow ? list_of(show, path) : NULL;
	if (list) {
		list->next = next;
		memcpy(list->version, version, sizeof(version));
	}
	return r == 0 && show->follow && !list ? -ENOMEM : r;
}

/* The windows of states have versions; those of other files are these files. */
static bool is_state(struct show *show, const char *path)
{
	_cleanup_(freep) char *view = text_path(show, path, ",last=0");
	_cleanup_(buf_done) struct buf value = { 0 };

	return view && access_get_xattr(show->access, view, "user.sessfs.version", &value) == 0;
}

/* The window of one shows no line where none is asked for; that of another file is this file. */
static bool is_packed(struct show *show, const char *path)
{
	_cleanup_(freep) char *view = text_path(show, path, ",last=0");
	struct stat st, shown;

	return view && access_stat(show->access, path, &st) == 0 && st.st_size &&
	       access_stat(show->access, view, &shown) == 0 && !shown.st_size;
}

/* One view, since each is unpacked whole; of any other file it shows the bytes. */
static int show_packed(struct show *show, const char *path)
{
	_cleanup_(freep) char *view = NULL;
	char clauses[64] = "";

	if (show->last >= 0)
		snprintf(clauses, sizeof(clauses), ",last=%" PRId64, show->last);
	view = text_path(show, path, clauses);
	if (!view)
		return -ENOMEM;
	return print_path(show, path, is_packed(show, path) ? view : path, NULL);
}

static int show_state(struct show *show, const char *of, const char *path, bool lines)
{
	_cleanup_(freep) char *view = NULL;

	if (!is_state(show, path))
		return print_ordinary(show, path, lines);
	view = text_path(show, path, "");
	return view ? print_path(show, of, view, NULL) : -ENOMEM;
}

int show_file(struct show *show, const char *path)
{
	uint32_t kind = names_split(bytes_str(path)).kind;

	if (bytes_ends_with(bytes_str(path), BYTES(PACKED_SUFFIX)))
		return show_packed(show, path);
	if (kind != BACKEND_LIST && kind != BACKEND_SINGLE)
		return print_path(show, path, path, NULL);
	return show_state(show, path, path, kind == BACKEND_LIST);
}

/* ---- Which files ---- */

/* Of a directory, all lists in it and below, and all documents beside one that is numbered; if
 * there are none, all that is there. */
struct walk {
	struct show *show;
	const char *dir;
	bool all;
	bool numbered;
	struct copier_names others; /* documents without a number, in the order of the directory */
};

static int walk_dir(struct show *show, const char *dir, bool all);

static int on_entry(void *arg, const char *name, const struct stat *st)
{
	struct walk *walk = arg;
	struct names_split split = names_split(bytes_str(name));
	_cleanup_(freep) char *path =
		*walk->dir ? str_printf("%s/%s", walk->dir, name) : bytes_dup(bytes_str(name));
	int64_t number;

	if (!path)
		return -ENOMEM;
	if (stop_wanted() || ferror(stdout))
		return stop_wanted() ? -EINTR : 1;
	if (S_ISDIR(st->st_mode))
		return walk_dir(walk->show, path, walk->all);
	if (!S_ISREG(st->st_mode))
		return 0;
	if (walk->all)
		return split.kind == BACKEND_HASH ? 0 : show_file(walk->show, path);
	if (split.kind == BACKEND_LIST && is_state(walk->show, path))
		return show_list(walk->show, path, 0);
	if (split.kind != BACKEND_SINGLE)
		return 0;
	if (layout_has_parts(bytes_str(path)))
		return show_state(walk->show, walk->dir, path, false);
	if (names_number(bytes_str(name), &number)) {
		walk->numbered = true;
		return 0;
	}
	return copier_names_add(&walk->others, path);
}

static int walk_dir(struct show *show, const char *dir, bool all)
{
	struct walk walk = { .show = show, .dir = dir, .all = all };
	_cleanup_(freep) char *view = NULL;
	int r = access_list(show->access, dir, false, on_entry, &walk);

	for (size_t i = 0; r == 0 && walk.numbered && i < walk.others.count; i++)
		r = show_file(show, walk.others.names[i]);
	copier_names_done(&walk.others);
	if (r != 0 || !walk.numbered)
		return MIN(r, 0);
	if (show->last >= 0)
		view = str_printf("%s/@as=%s,last=%" PRId64 ".txt", dir, form_of(show), show->last);
	else
		view = str_printf("%s/@as=%s.txt", dir, form_of(show));
	return view ? print_path(show, dir, view, NULL) : -ENOMEM;
}

static int add_found(void *arg, struct bytes path, bool is_dir)
{
	struct show *show = arg;
	char *copy;

	if (ARRAY_ROOM(show->found, show->found_count, show->found_room) < 0)
		return -ENOMEM;
	copy = bytes_dup(path);
	if (!copy)
		return -ENOMEM;
	show->found[show->found_count++] = (struct show_found){ copy, is_dir };
	show->many |= is_dir || show->found_count > 1;
	return 0;
}

/* As it is, or with the end of a list or a document; or by the id of a session. */
static int find_path(struct show *show, const char *store)
{
	static const char *const ends[] = { "", ".jsonl", ".json", ".jsonl" PACKED_SUFFIX,
					    PACKED_SUFFIX };
	_cleanup_(freep) char *clean = NULL;
	struct stat st;
	int r = access_clean(show->path, &clean);

	/* As events have it. */
	r = r == 0 ? -ENOENT : r;
	for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(ends); i++) {
		_cleanup_(freep) char *path = str_printf("%s%s", clean, ends[i]);

		r = path ? access_stat(show->access, path, &st) : -ENOMEM;
		if (r == 0)
			r = add_found(show, bytes_str(path), S_ISDIR(st.st_mode));
	}
	if (r != -ENOENT && r != -ENAMETOOLONG)
		return r;
	r = store_session_paths(store, &show->options, show->path, add_found, show);
	return r == 0 && !show->found_count ? -ENOENT : r;
}

static int show_one(struct show *show, const struct show_found *found)
{
	if (found->is_dir)
		return walk_dir(show, found->path, false);
	return names_split(bytes_str(found->path)).kind == BACKEND_LIST &&
			       is_state(show, found->path) ?
		       show_list(show, found->path, 0) :
		       show_file(show, found->path);
}

/* Files before what is kept beside them. */
static int show_found(struct show *show)
{
	int r = 0;

	for (int dirs = 0; dirs < 2; dirs++)
		for (size_t i = 0; r == 0 && i < show->found_count; i++)
			if (show->found[i].is_dir == dirs)
				r = show_one(show, &show->found[i]);
	for (size_t i = 0; r == 0 && !show->any && !show->follow && i < show->found_count; i++)
		if (show->found[i].is_dir && show->last)
			r = walk_dir(show, show->found[i].path, true);
	return r;
}

static int show_all(struct show *show, const char *store)
{
	_cleanup_(access_file_dropp) struct access_file *events = NULL;
	int r = find_path(show, store);

	if (r == 0 && show->follow)
		r = show_follow_begin(show, &events);
	if (r < 0)
		return r;
	if (show->html)
		r = show_html_begin(show);
	else /* Through a pager it is as on the terminal. */
		paint_begin(&show->paint);
	if (!show->follow && !show->html)
		pager_begin();
	if (r == 0)
		r = show_found(show);
	if (r == 0 && events)
		r = show_follow(show, events);
	paint_end(&show->paint);
	if (show->html)
		show_html_end();
	else if (!show->follow)
		pager_end();
	return r;
}

static int run_show(void *values, char **operands)
{
	struct show *show = values;
	_cleanup_(access_closep) struct access *access = NULL;
	int r;

	if (show->html && show->follow)
		return cmd_misused(&cmd_show, "--html does not go with --follow");
	if (store_open(operands[0], show->follow ? ACCESS_FOLLOW : 0, &show->options, &access) < 0)
		return CMD_FAILED;
	show->access = access;
	show->path = operands[1];
	r = show_all(show, operands[0]);
	for (size_t i = 0; i < show->count; i++)
		free(show->lists[i].path);
	free(show->lists);
	for (size_t i = 0; i < show->found_count; i++)
		free(show->found[i].path);
	free(show->found);
	free(show->shown);
	return r < 0 ? cmd_fail(operands[0], operands[1], r) : CMD_DONE;
}

const struct command cmd_show = {
	.name = "show",
	.arguments = "[--all] [--follow | --html] [--last=N] [-o table=NAME] STORE SESSION[/KEY]",
	.summary = "print conversations for people to read",
	.help = "Prints what was said in a session, or in one list or document of it: by whom, "
		"when, and what; calls of tools and their results take a line each.  For a "
		"session, it prints the lists, numbered documents and those beside them, or all "
		"files if there are none.  What clients of today note for themselves is left out "
		"unless you say --all.  On a terminal, lines are wrapped, have colours (unless "
		"NO_COLOR is set) and go through $PAGER, or less.",
	.more = "SESSION is an id or a path.  KEY may have its extension, .jsonl or .json, or not. "
		" The output is that of @as=text on a mount; sessfs-views(7) describes it.",
	.failed = "it does not exist or cannot be read",
	CMD_OPTIONS(show_options),
	.least = 2,
	.most = 2,
	.operands = "takes a store, and a session or a path in it",
	.size = sizeof(struct show),
	.defaults = &(const struct show){ .last = -1 },
	.run = run_show,
};
