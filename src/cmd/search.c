/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/api/text.h"
#include "fs/api/trash.h"
#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "src/cmd/past.h"
#include "src/cmd/summary.h"
#include "src/search/search.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/user/terminal.h"

enum {
	HITS = 10,	  /* unless -n says something else */
	BEFORE = 60,	  /* bytes of the surroundings before the first word, */
	SURROUNDING = 200 /* and of all of them */
};

struct searching {
	struct options options;
	bool all;
	const char *pattern;
	const char *role;
	int64_t since;
	int64_t most;
	char *const *words;
	struct summary_questions names; /* for summary_name() */
	struct backend_snapshot *snapshot;
	struct say_list list;
	struct paint paint;
	/* Of the session of the last hit. */
	struct buf session, name, title;
	bool has_name, has_title;
};

static const struct cmd_option search_options[] = {
	CMD_YES(struct searching, all, "all", 'a',
		"also what nobody has said: what clients note for themselves"),
	{ "session", 0, "GLOB", cmd_take_text, offsetof(struct searching, pattern),
	  "only sessions whose name or id matches a shell pattern" },
	{ "role", 0, "ROLE", cmd_take_text, offsetof(struct searching, role),
	  "only what user, assistant, tool, system ... said" },
	{ "since", 0, "TIME", past_take_since, offsetof(struct searching, since),
	  "only items created at this time or later: 2026-01-31, or 12h or 7d ago" },
	{ NULL, 'n', "N", cmd_take_count, offsetof(struct searching, most),
	  "at most N items, instead of 10" },
	CMD_JSON(struct searching, list.json),
	CMD_TABLE,
};

/* ---- The session of a hit ---- */

static int take_session(struct searching *searching, struct bytes session)
{
	int r;

	if (searching->has_name && bytes_equal(buf_bytes(&searching->session), session))
		return 0;
	buf_clear(&searching->session);
	buf_clear(&searching->name);
	buf_clear(&searching->title);
	searching->has_name = searching->has_title = false;
	r = buf_append_bytes(&searching->session, session);
	if (r == 0)
		r = summary_name(&searching->names, session, &searching->name);
	if (r == 0)
		r = buf_append_byte(&searching->name, '\0');
	searching->has_name = r == 0;
	return r;
}

static bool is_wanted(void *arg, struct bytes session)
{
	struct searching *searching = arg;

	_cleanup_(freep) char *id = bytes_dup(session);

	return take_session(searching, session) == 0 && id &&
	       (fnmatch(searching->pattern, searching->name.data, 0) == 0 ||
		fnmatch(searching->pattern, id, 0) == 0);
}

/* Where its file is, or will be once it is taken in. */
static int path_of(struct searching *searching, const struct search_hit *hit, struct buf *path)
{
	struct backend *backend = searching->names.backend;
	struct backend_node node;
	int r = hit->ino ? backend->ops->node_get(backend, searching->snapshot, hit->ino, &node) :
			   -ENOENT;

	if (r == 0) {
		r = node_path(backend, searching->snapshot, &node, path);
		backend_node_done(&node);
	}
	if (r != -ENOENT)
		return r;
	return buf_join(path, bytes_str(searching->name.data), BYTES("/"), hit->key,
			names_suffix(hit->list ? BACKEND_LIST : BACKEND_SINGLE));
}

/* ---- The words in their surroundings ---- */

/* The word that stands here: its size, or 0. */
static size_t word_at(const struct searching *searching, struct bytes text, size_t at)
{
	size_t found = 0;

	for (char *const *word = searching->words; *word; word++) {
		size_t size = strlen(*word);

		size -= size > 1 && (*word)[size - 1] == '*';
		if (size > found && size <= text.size - at &&
		    strncasecmp(text.data + at, *word, size) == 0)
			found = size;
	}
	return found;
}

static bool is_inside_word(struct bytes text, size_t at)
{
	unsigned char before = at ? (unsigned char)text.data[at - 1] : ' ';

	return before >= 0x80 || isalnum(before);
}

static size_t first_word(const struct searching *searching, struct bytes text)
{
	size_t anywhere = 0;
	bool found = false;

	for (size_t at = 0; at < text.size; at++) {
		if (!word_at(searching, text, at))
			continue;
		if (!is_inside_word(text, at))
			return at;
		anywhere = found ? anywhere : at;
		found = true;
	}
	return anywhere;
}

/* The line that has the most of the words, and rather what somebody has said than a value that says
 * of which kind that is, such as "output_text". */
static struct bytes best_line(const struct searching *searching, struct bytes text)
{
	struct bytes best = { 0 }, line;
	unsigned most = 0;

	for (struct bytes rest = text; rest.size;) {
		unsigned score = 0;

		/* A string ends in a NUL. */
		line = bytes_make(rest.data, strcspn(rest.data, "\n"));
		rest = bytes_make(line.data + line.size + 1, rest.size - line.size - 1);
		for (char *const *word = searching->words; line.size && *word; word++) {
			const struct searching only = { .words = (char *[]){ *word, NULL } };

			score += word_at(&only, line, first_word(&only, line)) ? 2 : 0;
		}
		score += score && memchr(line.data, ' ', line.size);
		if (score > most || !best.data) {
			best = line;
			most = score;
		}
	}
	return best;
}

/* In one line. */
static int surroundings(const struct searching *searching, struct bytes data, struct buf *out)
{
	_cleanup_(buf_done) struct buf said = { 0 };
	int r = text_strings(data, &said);
	struct bytes text = buf_bytes(&said);
	struct bytes line;
	size_t start, end, first, from, to;

	if (r < 0 || !text.size)
		return r;
	line = best_line(searching, text);
	start = (size_t)(line.data - text.data);
	first = start + first_word(searching, line);
	from = first - start > BEFORE ? first - BEFORE : start;
	/* Of the string that the words are in. */
	end = start + strlen(line.data);
	to = MIN(end, from + SURROUNDING);
	while (from > start && from < first && ((unsigned char)text.data[from] & 0xc0) == 0x80)
		from++;
	while (from > start && from < first && !strchr(" \n\t", text.data[from]))
		from++;
	while (to < end && to > first + 1 && ((unsigned char)text.data[to] & 0xc0) == 0x80)
		to--;
	if (from > start)
		r = buf_append_str(out, "... ");
	if (r == 0)
		r = text_fold(bytes_make(text.data + from, to - from), out);
	if (r == 0 && to < end)
		r = buf_append_str(out, " ...");
	return r;
}

/* On a terminal, words stand out. */
static void print_surroundings(const struct searching *searching, struct bytes text)
{
	fputs("    ", stdout);
	for (size_t at = 0; at < text.size;) {
		size_t size = searching->paint.colours ? word_at(searching, text, at) : 0;

		if (size)
			fputs("\033[1;31m", stdout);
		fwrite(text.data + at, 1, MAX(size, (size_t)1), stdout);
		if (size)
			fputs("\033[0m", stdout);
		at += MAX(size, (size_t)1);
	}
	putchar('\n');
}

/* ---- A hit ---- */

struct told {
	struct buf path, role, agent, text;
	int64_t time;
};

static void told_done(struct told *told)
{
	buf_done(&told->path);
	buf_done(&told->role);
	buf_done(&told->agent);
	buf_done(&told->text);
}

static json_t *text_json(const struct buf *text)
{
	return text->size ? say_json_name(text->data, text->size) : json_null();
}

static void print_json(struct searching *searching, const struct search_hit *hit,
		       const struct told *told)
{
	json_t *item = hit->list ? json_integer(hit->item) : json_null();

	say_item(&searching->list,
		 json_pack("{so so so so so so so so sf so}", "path", text_json(&told->path),
			   "session", say_json_name(hit->session.data, hit->session.size), "key",
			   say_json_name(hit->key.data, hit->key.size), "item", item, "time",
			   summary_time_json(told->time), "role", text_json(&told->role), "agent",
			   text_json(&told->agent), "title", text_json(&searching->title), "score",
			   hit->score, "text", text_json(&told->text)));
}

static int print_hit(struct searching *searching, const struct search_hit *hit, struct told *told)
{
	const bool colours = searching->paint.colours;
	time_t seconds = time_split(told->time).tv_sec;
	char when[32] = "";
	struct tm tm;
	int r = buf_append_byte(&told->path, '\0');

	if (r < 0)
		return r;
	if (told->time && gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "  %Y-%m-%d %H:%M:%S", &tm);
	fputs(colours ? "\033[1m" : "", stdout);
	say_name(told->path.data, "");
	if (hit->list)
		printf(" #%" PRId64, hit->item);
	printf("%s%s", colours ? "\033[0m" : "", when);
	if (told->role.size)
		printf("  %.*s", (int)told->role.size, told->role.data);
	if (told->agent.size)
		printf(" (%.*s)", (int)told->agent.size, told->agent.data);
	if (searching->title.size)
		printf("  \"%.*s\"", (int)searching->title.size, searching->title.data);
	putchar('\n');
	print_surroundings(searching, buf_bytes(&told->text));
	return 0;
}

static int on_hit(void *arg, const struct search_hit *hit)
{
	_cleanup_(told_done) struct told told = { 0 };
	struct searching *searching = arg;
	int r = take_session(searching, hit->session);

	if (r == 0 && !searching->has_title)
		r = title_of(searching->names.backend, searching->snapshot, searching->names.layout,
			     hit->session, &searching->title);
	searching->has_title = r == 0;
	told.time = text_time(hit->data, hit->made);
	if (r == 0)
		r = path_of(searching, hit, &told.path);
	if (r == 0)
		r = text_made_by(hit->data, hit->item, &told.role, &told.agent);
	if (r >= 0)
		r = surroundings(searching, hit->data, &told.text);
	if (r == 0 && searching->list.json)
		print_json(searching, hit, &told);
	else if (r == 0)
		r = print_hit(searching, hit, &told);
	if (r < 0)
		return r;
	return ferror(stdout);
}

/* ---- The index ---- */

static int update(const char *store, struct index *index, struct backend *backend, uint64_t layout)
{
	struct progress progress;
	struct stat st;
	int r;

	progress_begin(&progress, "index", "item");
	if (stat(store, &st) == 0)
		progress_set_total(&progress, 0, (uint64_t)st.st_size);
	r = search_update(index, backend, layout, &progress);
	progress_end(&progress);
	return r;
}

/* Rows that other programs have changed get their files first, if possible; otherwise they are read
 * as they are. */
static int open_store(struct searching *searching, const char *store, struct settings *ret_settings,
		      struct backend **ret_backend)
{
	_cleanup_(access_closep) struct access *access = NULL;
	_cleanup_(freep) char *why = NULL;
	int64_t oldest = 0, newest;
	int r;

	stop_watch();
	r = access_settle(store, &why);
	if (r < 0 && r != -ENOTCONN)
		return say_why(why, r);
	r = store_open_backend(store, &searching->options, ret_settings, ret_backend);
	if (r < 0 || backend_change_waiting(*ret_backend, &oldest, &newest) < 0 || !oldest)
		return r;
	freep(&why);
	why = NULL;
	(void)access_open(store, 0, &searching->options, &access, &why);
	return 0;
}

static int index_search(struct searching *searching, struct index *index)
{
	_cleanup_(buf_done) struct buf role = { 0 };
	struct search_question question = {
		.words = searching->words,
		.all = searching->all,
		.since = searching->since,
		.most = searching->most,
		.wanted = searching->pattern ? is_wanted : NULL,
	};
	int r = 0;

	if (searching->role) {
		r = text_role(bytes_str(searching->role), &role);
		if (r == 0)
			r = buf_append_byte(&role, '\0');
		if (r < 0)
			return r;
		question.role = role.data;
	}
	paint_begin(&searching->paint);
	searching->snapshot = index->snapshot;
	r = search_ask(index, &question, on_hit, searching);
	if (r == 0)
		say_list_end(&searching->list);
	return r;
}

static int answer(struct searching *searching, const char *store, struct index *index,
		  struct backend *backend)
{
	int r = update(store, index, backend, searching->names.layout);

	return r == 0 ? index_search(searching, index) : r;
}

static int search_store(struct searching *searching, const char *store)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(index_closep) struct index *index = NULL;
	_cleanup_(freep) char *why = NULL;
	struct settings settings;
	int r = open_store(searching, store, &settings, &backend);

	if (r < 0)
		return r;
	searching->names = (struct summary_questions){ .backend = backend,
						       .layout = settings.value[SETTING_LAYOUT] };
	r = index_beside(store, searching->options.table, backend, &index, &why);
	if (r < 0)
		return say_why(why, r);
	r = answer(searching, store, index, backend);
	if (r < 0 && index->rows.damaged) {
		r = index_anew(index);
		if (r == 0)
			r = answer(searching, store, index, backend);
	}
	if (r < 0 && r != -EINTR)
		log_error("%s cannot be searched: %s", store, strerror(-r));
	return r;
}

static int run_search(void *values, char **operands)
{
	struct searching *searching = values;
	int r;

	searching->words = operands + 1;
	r = search_store(searching, operands[0]);
	buf_done(&searching->session);
	buf_done(&searching->name);
	buf_done(&searching->title);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_search = {
	.name = "search",
	.arguments = "[OPTIONS] STORE WORD...",
	.summary = "search for words in all sessions",
	.help = "Finds the items of all sessions that contain all words, in upper or lower case, "
		"the best matches first.  Prints where they are, when and by whom they were "
		"created, the title of their session, and the text around the words.  A word that "
		"ends in '*' matches all words that start like it.",
	.more = "The index is in the file STORE-search, or for a store on a server in "
		"~/.cache/sessfs.  Each search updates it, and you can delete it at any time.  "
		"The store may be mounted.",
	.failed = "STORE cannot be read, or there is no place for the index",
	CMD_OPTIONS(search_options),
	.least = 2,
	.operands = "takes a store and words",
	.size = sizeof(struct searching),
	.defaults = &(const struct searching){ .since = INT64_MIN, .most = HITS },
	.run = run_search,
};
