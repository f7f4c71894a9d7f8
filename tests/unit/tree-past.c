/* SPDX-License-Identifier: MIT */

/*
 * A long list as of a time (fs/views/past.h), which is not read at its open.  A read returns the
 * bytes of then, or fails, however the list and its history change meanwhile.
 *
 * SESSFS_PAST_STEPS=N sets how many changes are made in random order; a failure names the seed.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/log.h"
#include "fs/api/history.h"
#include "fs/inode/inodes.h"
#include "fs/upkeep/upkeep.h"
#include "fs/views/past.h"
#include "tests/stores/trace.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

enum { STEPS = 80, STEPS_SOAK = 1500, MOMENTS = 16, READERS = 4 };

static const int64_t second = INT64_C(1000000000);

static uint64_t state;
static unsigned number;

static size_t below(size_t limit)
{
	return random_below(&state, limit);
}

static void begin(void)
{
	world_options.history = 1000 * 3600 * second;
	world_options.history_size = UINT64_C(1) << 40;
	world_open(WORLD_SQLITE);
	make_dir("s");
}

/* Each moment has a millisecond of its own, and what SQL changes before and behind it is not one
 * change. */
static int64_t moment(void)
{
	const int64_t before = time_now();
	int64_t then;
	char text[40];

	do
		then = time_now() / 1000000 * 1000000;
	while (then <= before + 1000000);
	while (time_now() <= then + 1000000)
		continue;
	snprintf(text, sizeof(text), "%u", number++);
	save("s/other.json", text);
	return then;
}

static const char *path_at(int64_t then)
{
	static char path[100];
	const time_t whole = (time_t)(then / second);
	struct tm utc;
	size_t size;

	gmtime_r(&whole, &utc);
	size = strftime(path, sizeof(path), "s/@at=%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(path + size, sizeof(path) - size, ".%03dZ/l.jsonl",
		 (int)(then % second / 1000000));
	return path;
}

static bool is_read_from_the_store(const char *path)
{
	struct inode *inode = inode_at(path);
	bool is;

	pthread_mutex_lock(&inode->window->lock);
	is = inode->window->content && inode->window->content->past;
	if (is)
		cr_assert_eq(inode->window->content->stage.size, 0);
	pthread_mutex_unlock(&inode->window->lock);
	forget(inode);
	return is;
}

/* ---- Costs ---- */

static void make_long(int rows)
{
	struct handle *handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);
	char text[10000], *end = text;

	for (int i = 0; i < rows; i++) {
		end += sprintf(end, "{\"n\": %d, \"text\": \"%060d\"}\n", i, i);
		if (i % 100 == 99) {
			append_to(handle, text);
			end = text;
		}
	}
	close_handle(handle);
}

/* Marks are not written while another thread commits. */
static void mark_to(int64_t row)
{
	struct inode *list = inode_at("s/l.jsonl");
	struct backend_mark mark = { 0 };

	while (mark.index < row) {
		_cleanup_(view_end) struct view view = { 0 };

		cr_assert_eq(list_mark(world_tree, list), 0);
		cr_assert_eq(view_begin(world_tree, 0, &view), 0);
		cr_assert_eq(ASK(&view, mark_find_index, list->ino, INT64_MAX, &mark), 0);
	}
	forget(list);
}

static void costs_few_rows(int rows)
{
	char sql[200], *all = NULL;
	struct trace_counts counts;
	struct handle *handle;
	struct bytes now;
	int64_t then;

	make_long(rows);
	now = bytes_of("s/l.jsonl");
	all = strndup(now.data, now.size);
	then = moment();
	snprintf(sql, sizeof(sql),
		 "UPDATE agentscope_sessions SET state_data = '0' WHERE state_key = 'l' AND "
		 "item_index %% %d = 7",
		 rows / 20);
	sql_runs(sql);
	make_long(rows / 2);
	world_take_in();
	mark_to(rows * 3 / 2 - 10000);
	trace_backend_reset(world_store, false);
	handle = open_at(path_at(then), O_RDONLY);
	for (size_t i = 0; i < 5; i++) {
		const size_t offset = now.size / 5 * i;
		_cleanup_(buf_done) struct buf out = { 0 };

		cr_assert_eq(handle_read(world_tree, handle, offset, 10, &out), 0);
		cr_assert(bytes_equal(buf_bytes(&out), bytes_make(all + offset, 10)));
	}
	counts = trace_backend_counts(world_store);
	cr_assert_lt(counts.rows, 7000, "%" PRIu64 " of %d rows were read", counts.rows, rows);
	cr_assert(is_read_from_the_store(path_at(then)));
	cr_assert_eq(stat_of(path_at(then)).st_size, now.size);
	handle_free(world_tree, handle);
	free(all);
	world_close();
}

static void begin_traced(void)
{
	world_wrap(trace_backend_open);
	begin();
}

Test(past, of_a_list_is_opened_without_reading_it, .init = begin_traced)
{
	costs_few_rows(20000);
}

Test(past, of_a_list_that_is_four_times_as_long_costs_no_more, .init = begin_traced)
{
	costs_few_rows(80000);
}

/* ---- What is forgotten ---- */

static void forget_item(int64_t index)
{
	const struct backend_options options = { .rows_only = true };
	struct backend *backend;

	cr_assert_eq(backend_open(world_path(), &options, &backend, NULL), 0);
	cr_assert_eq(history_forget(backend, BYTES("s"), BYTES("l"), index, index), 0);
	backend_close(backend);
	world_take_in();
}

static char said[4][200];
static unsigned sentences;

static void hear(int level, const char *sentence)
{
	(void)level;
	snprintf(said[sentences++ % ARRAY_SIZE(said)], sizeof(*said), "%s", sentence);
}

/* SQL says of a row to the second when it has changed. */
static void pass_a_second(int64_t from)
{
	while (time_now() / second == from / second)
		usleep(1000);
}

/* Nothing but its times tells that a row is another one: what it was is forgotten, and it is as
 * long.  end: what is appended then. */
static void shows_no_present_as_the_past(const char *end)
{
	_cleanup_(buf_done) struct buf out = { 0 };
	struct handle *handle;
	int64_t time;
	int r;

	make_long(2000);
	time = moment();
	pass_a_second(time);
	handle = open_at(path_at(time), O_RDONLY);
	cr_assert_eq(handle_read(world_tree, handle, 0, 10, &out), 0);
	cr_assert(is_read_from_the_store(path_at(time)));
	append("s/l.jsonl", "{\"later\": 1}\n");
	sql_runs("UPDATE agentscope_sessions SET state_data = replace(state_data, 'text', 'TEXT') "
		 "WHERE state_key = 'l' AND item_index = 1500");
	world_take_in();
	append("s/l.jsonl", end);
	forget_item(2000);
	buf_clear(&out);
	log_set_sink(hear);
	log_set_level(LOG_WARNING);
	for (int times = 0; times < 3; times++) {
		r = handle_read(world_tree, handle, 0, UINT32_MAX >> 1, &out);
		cr_assert_eq(r, -ESTALE, "%d, %s", r,
			     memmem(out.data, out.size, "TEXT", 4) ? "as it is" : "as it was");
	}
	log_set_sink(NULL);
	cr_assert_eq(sentences, 1, "%s, %s", said[0], said[1]);
	cr_assert_not_null(strstr(said[0], "what it shows is forgotten"), "%s", said[0]);
	handle_free(world_tree, handle);
	world_close();
}

Test(past, that_is_forgotten_is_not_the_present_that_looks_alike, .init = begin)
{
	shows_no_present_as_the_past("2\n");
}

Test(past, that_is_forgotten_is_not_the_present_when_it_is_read_at_once, .init = begin)
{
	shows_no_present_as_the_past("1");
}

/* ---- In random order ---- */

struct then {
	int64_t time;
	char *bytes;
	size_t size;
};

struct reader {
	struct handle *handle; /* NULL: none */
	struct then *then;
};

static struct then then[MOMENTS];
static struct reader reader[READERS];
static char doing[100];
static bool may_fail; /* what was kept is given up */
static unsigned stored, failed;

static const char *line(void)
{
	static char text[8000];
	const int size = below(16) ? (int)below(400) : (int)below(7000);

	snprintf(text, sizeof(text), "{\"n\": %u, \"text\": \"%0*d\"}", number++, size, 0);
	return text;
}

static int rows(void)
{
	return atoi(sql_asks("SELECT count(*) FROM agentscope_sessions WHERE state_key = 'l'"));
}

static void do_append(void)
{
	for (size_t i = below(40); i > 0; i--) {
		append("s/l.jsonl", line());
		append("s/l.jsonl", "\n");
	}
}

/* By a statement with the numbers of two rows, and a text. */
static void do_sql(const char *format)
{
	const int count = rows(), first = (int)below((size_t)count + 1);
	char *sql = NULL;

	cr_assert_gt(asprintf(&sql, format, first, first + (int)below(12), line()), 0);
	sql_runs(sql);
	free(sql);
	world_take_in();
}

#define OF_LIST " session_id = 's' AND state_key = 'l' "

static void do_update(void)
{
	do_sql("UPDATE agentscope_sessions SET state_data = '%3$s' WHERE" OF_LIST
	       "AND item_index BETWEEN %1$d AND %2$d");
}

static void do_anew(void)
{
	do_sql("BEGIN IMMEDIATE; CREATE TEMP TABLE x AS SELECT * FROM agentscope_sessions "
	       "WHERE" OF_LIST
	       "AND item_index >= %1$d; DELETE FROM agentscope_sessions WHERE" OF_LIST
	       "AND item_index >= %1$d; INSERT INTO agentscope_sessions (session_id, state_key, "
	       "item_index, state_data) SELECT 's', 'l', item_index, CASE WHEN item_index < %2$d "
	       "THEN '%3$s' ELSE state_data END FROM x; DROP TABLE x; COMMIT");
}

static void do_insert(void)
{
	do_sql("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
	       "SELECT 's', 'l', max(item_index) + 1, '%3$s' FROM agentscope_sessions WHERE" OF_LIST
	       "AND %1$d <= %2$d");
}

static void do_cut(void)
{
	do_sql("DELETE FROM agentscope_sessions WHERE" OF_LIST "AND item_index > %1$d + 200 AND "
	       "%2$d AND '%3$s' <> ''");
}

/* Some lines anew, or left out. */
static void do_save(void)
{
	const struct bytes old = bytes_of("s/l.jsonl");
	struct handle *handle;
	_cleanup_(buf_done) struct buf text = { 0 };
	const size_t one_of = 1 + below(200);

	for (size_t at = 0; at < old.size;) {
		const char *end = memchr(old.data + at, '\n', old.size - at);
		const size_t size = end ? (size_t)(end - old.data) + 1 - at : old.size - at;

		if (below(one_of) || !below(3))
			cr_assert_eq(buf_append(&text, old.data + at, size), 0);
		else if (below(2))
			cr_assert_eq(buf_printf(&text, "%s\n", line()), 0);
		at += size;
	}
	handle = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(handle, 0, buf_bytes(&text));
	close_handle(handle);
}

static void do_compact(void)
{
	const struct stat empty = { 0 };
	struct handle *handle;
	char path[100];

	snprintf(path, sizeof(path), "s/@items=%zu-%zu/l.jsonl", below(100), 100 + below(10));
	handle = open_at(path, O_RDWR);
	read_by(handle);
	cr_assert_eq(set_attr_by(handle, &empty, TREE_SET_SIZE), 0);
	write_at(handle, 0, BYTES("[1]\n[2]\n"));
	close_handle(handle);
}

/* A last line without an end, which the next append closes. */
static void do_tear(void)
{
	append("s/l.jsonl", "1");
}

static void do_thin(void)
{
	may_fail = true;
	cr_assert_eq(history_thin(world_tree, time_now() + (int64_t)below(7200) * second, true), 0);
}

static const struct {
	const char *name;
	void (*fn)(void);
	size_t often;
} deeds[] = {
	{ "append", do_append, 8 },   { "update", do_update, 8 }, { "anew", do_anew, 2 },
	{ "insert", do_insert, 4 },   { "cut", do_cut, 1 },	  { "save", do_save, 4 },
	{ "compact", do_compact, 2 }, { "tear", do_tear, 1 },
};

static void compare(struct reader *from)
{
	const size_t offset = below(from->then->size + 10), size = 1 + below(60000);
	const size_t rest = offset < from->then->size ? from->then->size - offset : 0;
	_cleanup_(buf_done) struct buf out = { 0 };
	int r = handle_read(world_tree, from->handle, offset, size, &out);

	failed += r == -ESTALE;
	if (r == -ESTALE && may_fail)
		return;
	cr_assert_eq(r, 0, "%s, read: %s", doing, strerror(-r));
	cr_assert(bytes_equal(buf_bytes(&out),
			      bytes_make(from->then->bytes + offset, MIN(size, rest))),
		  "%s: %zu bytes at %zu of %zu differ", doing, size, offset, from->then->size);
}

static void open_reader(struct reader *to)
{
	const char *path;

	if (to->handle)
		handle_free(world_tree, to->handle);
	to->then = &then[below(MOMENTS)];
	to->handle = NULL;
	if (!to->then->bytes)
		return;
	path = path_at(to->then->time);
	cr_assert_eq(stat_of(path).st_size, to->then->size, "%s: the size of %s", doing, path);
	to->handle = open_at(path, O_RDONLY);
	stored += is_read_from_the_store(path);
}

static void keep_moment(void)
{
	struct then *here = &then[below(MOMENTS)];
	struct bytes now;

	for (int i = 0; i < READERS; i++) {
		if (reader[i].handle && reader[i].then == here) {
			handle_free(world_tree, reader[i].handle);
			reader[i].handle = NULL;
		}
	}
	free(here->bytes);
	here->time = moment();
	now = bytes_of("s/l.jsonl");
	here->size = now.size;
	here->bytes = malloc(now.size + 1);
	memcpy(here->bytes, now.data, now.size);
	/* A view ends each line. */
	if (now.size && now.data[now.size - 1] != '\n')
		here->bytes[here->size++] = '\n';
}

static void do_any(void)
{
	size_t deed, dice = below(30);

	for (deed = 0; dice >= deeds[deed].often; deed++)
		dice -= deeds[deed].often;
	snprintf(doing, sizeof(doing), "%s", deeds[deed].name);
	deeds[deed].fn();
}

Test(past, is_what_was_there_at_each_offset, .init = begin)
{
	const unsigned long steps = rounds("SESSFS_PAST_STEPS", STEPS, STEPS_SOAK);

	state = random_seed("past");
	for (int i = 0; i < 12; i++)
		do_append();
	for (unsigned long step = 0; step < steps; step++) {
		if (below(2))
			keep_moment();
		do_any();
		for (size_t i = below(3); i > 0; i--)
			open_reader(&reader[below(READERS)]);
		for (int i = 0; i < READERS; i++)
			for (int times = 0; reader[i].handle && times < 5; times++)
				compare(&reader[i]);
	}
	cr_assert_eq(failed, 0);
	do_thin();
	for (int i = 0; i < READERS; i++)
		for (int times = 0; reader[i].handle && times < 20; times++)
			compare(&reader[i]);
	for (int i = 0; i < READERS; i++)
		if (reader[i].handle)
			handle_free(world_tree, reader[i].handle);
	for (int i = 0; i < MOMENTS; i++)
		free(then[i].bytes);
	cr_assert_gt(stored, steps / 10, "of %lu steps", steps);
	world_check();
	world_close();
}
