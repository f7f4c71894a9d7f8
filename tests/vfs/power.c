/* SPDX-License-Identifier: MIT */

/*
 * The power fails.  A random load goes through the tree while the shim logs what reaches the
 * medium; then the log is cut in many places and ways (shim.h), and a store is opened on what each
 * cut leaves.  It must open without a word of an error, hold to all invariants, and show a state
 * that the tree had shown before: not an older one than at the last fsync that was answered.
 *
 * What the tree shows is written down after each call of the model that may change something, as
 * text: names in their order, modes, sizes, all bytes.  A save that was published by half, or a
 * torn line that was appended whole, would be a state that was never shown.
 *
 * SESSFS_POWER_CUTS=N in the environment says how many cuts are made; random.h says how to set the
 * seed.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/api/check.h"
#include "fs/api/history.h"
#include "fs/upkeep/upkeep.h"
#include "fs/content/content.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"
#include "backend/base/tick.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/vfs/log.h"
#include "tests/vfs/place.h"

enum {
	CUTS = 50, /* in `make check` */
	CUTS_SOAK = 300,
	CUTS_A_LOAD = 25, /* about */
	STEPS = 45,	  /* of a load */
	APPENDERS = 3,
};

/* ---- the clock stands still unless a step moves it ---- */

/* In the cases of this file alone. */
static bool still;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

static _Atomic int64_t nanoseconds_now = INT64_C(1700000000000000000);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!still || clock != CLOCK_REALTIME)
		return __real_clock_gettime(clock, time);
	*time = time_split(nanoseconds_now++);
	return 0;
}

/* Who pauses is published when the load says so, and not when the machine is slow: it would be a
 * state that nobody has looked at. */
static _Thread_local bool runs_load;

void __real_handles_publish_paused(struct tree *tree, int64_t now);
void __wrap_handles_publish_paused(struct tree *tree, int64_t now);

void __wrap_handles_publish_paused(struct tree *tree, int64_t now)
{
	if (!still || runs_load)
		__real_handles_publish_paused(tree, now);
}

static void begin(void)
{
	still = true;
	place_begin();
}

/* ---- what a tree shows ---- */

static int show_content(struct inode *inode, struct buf *text)
{
	struct handle *handle;
	size_t start, before;
	int r = tree_open_file(world_tree, inode, FACE_ANY, O_RDONLY, getpid(), &handle);

	if (r < 0)
		return r;
	start = text->size;
	do {
		before = text->size;
		r = handle_read(world_tree, handle, text->size - start, 65536, text);
	} while (r == 0 && text->size > before);
	handle_free(world_tree, handle);
	return r;
}

struct names {
	struct buf names; /* each with a NUL */
};

static int keep_name(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		     uint64_t position)
{
	struct names *names = arg;
	int r = 0;

	(void)inode;
	(void)shown;
	if (position > 2)
		r = buf_append_bytes(&names->names, name);
	return r < 0 || position <= 2 ? r : buf_append_byte(&names->names, '\0');
}

static int show_tree(struct inode *dir, const char *path, struct buf *text);

static int show_file(struct inode *dir, const char *path, const char *name, struct buf *text)
{
	struct inode *inode;
	char below[256];
	struct stat st;
	int r = tree_lookup(world_tree, dir, bytes_str(name), &inode);

	if (r < 0)
		return r;
	snprintf(below, sizeof(below), "%s/%s", path, name);
	r = tree_stat(world_tree, inode, &st);
	if (r == 0)
		r = buf_printf(text, "%s %o %lld\n", below, st.st_mode,
			       S_ISDIR(st.st_mode) ? 0 : (long long)st.st_size);
	if (r == 0)
		r = S_ISDIR(st.st_mode) ? show_tree(inode, below, text) : show_content(inode, text);
	inode_forget(world_tree, inode, 1);
	return r;
}

static int show_tree(struct inode *dir, const char *path, struct buf *text)
{
	struct names names = { 0 };
	int r = tree_list(world_tree, dir, 0, UINT64_MAX, false, keep_name, &names);

	for (size_t at = 0; r == 0 && at < names.names.size;) {
		const char *name = names.names.data + at;

		at += strlen(name) + 1;
		r = show_file(dir, path, name, text);
	}
	buf_done(&names.names);
	return r;
}

/* ---- the load ---- */

struct load {
	uint64_t state; /* of chance */
	struct buf *shown;
	size_t count;
	size_t room;
	sqlite3 *other; /* another program */
	struct handle *appender[APPENDERS];
	unsigned number; /* of the next line */
};

/* The marks in the log: a number of a state and what is known of it. */
enum { BEGUN, DONE, SYNCED, MARKS };

static void mark(const struct load *load, unsigned what)
{
	shim_mark(load->count * MARKS + what);
}

static size_t chance(struct load *load, size_t limit)
{
	return random_below(&load->state, limit);
}

/* What may come to pass in an operation besides success. */
static void expect(const char *what, int r)
{
	static const int fine[] = { 0,	      -ENOENT, -EEXIST, -ENOTEMPTY, -EINVAL,
				    -ENOTDIR, -EISDIR, -EPERM,	-ESTALE };

	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		if (r == fine[i])
			return;
	cr_assert_fail("%s: %s (%s)", what, strerror(-r), place_error());
}

/* The state that follows on the call just made. */
static void show_state(struct load *load)
{
	struct buf *shown;
	int r;

	if (load->count == load->room) {
		load->room = load->room ? load->room * 2 : 128;
		load->shown = reallocarray(load->shown, load->room, sizeof(*load->shown));
		cr_assert_not_null(load->shown);
	}
	shown = &load->shown[load->count];
	*shown = (struct buf){ 0 };
	r = show_tree(world_tree->root, "", shown);
	cr_assert_eq(r, 0, "it cannot be read: %s", strerror(-r));
	/* Small writes of an ordinary file need not survive the process before it is closed. */
	if (!world_tree->buffered)
		mark(load, DONE);
	load->count++;
}

/* Make one call, between its marks. */
#define STEP(load, call)                                                                           \
	({                                                                                         \
		int r_;                                                                            \
		mark(load, BEGUN);                                                                 \
		r_ = (int)(call);                                                                  \
		show_state(load);                                                                  \
		expect(#call, MIN(r_, 0));                                                         \
		r_;                                                                                \
	})

static void mark_synced(struct load *load)
{
	shim_mark((load->count - 1) * MARKS + SYNCED);
}

static const char *const lists[] = { "s/a.jsonl", "s/b.jsonl", "t/c.jsonl" };
static const char *const documents[] = { "s/k.json", "t/m.json", "s/d/n.json" };
static const char *const files[] = { "s/notes.txt", "o.bin" };
static const char *const dirs[] = { "s", "t", "s/d", "u" };

#define ANY(load, array) ((array)[chance(load, ARRAY_SIZE(array))])

static const char *any_file(struct load *load)
{
	switch (chance(load, 4)) {
	case 0:
		return ANY(load, documents);
	case 1:
		return ANY(load, files);
	default:
		return ANY(load, lists);
	}
}

static void add_value(struct load *load, struct buf *text, size_t size)
{
	cr_assert_eq(buf_printf(text, "{\"n\":%u,\"text\":\"", load->number++), 0);
	for (size_t i = 0; i < size; i++)
		cr_assert_eq(buf_append_byte(text, (char)('a' + (i + load->number) % 26)), 0);
	cr_assert_eq(buf_append_str(text, "\"}"), 0);
}

static void add_lines(struct load *load, struct buf *text, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		add_value(load, text, chance(load, 12) ? chance(load, 60) : chance(load, 20000));
		cr_assert_eq(buf_append_byte(text, '\n'), 0);
	}
}

static void end_appender(struct load *load, size_t i)
{
	struct handle *handle = load->appender[i];

	if (!handle)
		return;
	STEP(load, handle_flush(world_tree, handle, getpid()));
	handle_free(world_tree, handle);
	load->appender[i] = NULL;
}

static void do_append(struct load *load)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	size_t i = chance(load, APPENDERS);
	const int flags = O_WRONLY | O_CREAT | O_APPEND;

	if (!load->appender[i] && STEP(load, try_open(lists[i], flags, &load->appender[i])) < 0) {
		load->appender[i] = NULL;
		return;
	}
	add_lines(load, &text, 1 + chance(load, 4));
	if (chance(load, 5) == 0)
		text.size -= chance(load, text.size);
	STEP(load, handle_write(world_tree, load->appender[i], getpid(), 0, buf_bytes(&text)));
	/* A list that was renamed to an ordinary file: what is small and not written back by a
	 * close is lost, also when what other files had later is not. */
	if (world_tree->buffered)
		STEP(load, handle_flush(world_tree, load->appender[i], getpid()));
	cr_assert_not(world_tree->buffered);
}

static void do_end_appender(struct load *load)
{
	end_appender(load, chance(load, APPENDERS));
}

/* Open, write in parts, close; perhaps synced before. */
static void write_file(struct load *load, const char *path, int flags, struct bytes data)
{
	struct handle *handle;
	size_t done = 0;

	if (STEP(load, try_open(path, flags, &handle)) < 0)
		return;
	while (done < data.size) {
		size_t rest = data.size - done, most = 1 + chance(load, 30000);
		size_t part = MIN(rest, most);
		ssize_t n = STEP(load, handle_write(world_tree, handle, getpid(), done,
						    bytes_make(data.data + done, part)));

		if (n < 0)
			break;
		done += (size_t)n;
	}
	if (chance(load, 4) == 0 && STEP(load, handle_sync(world_tree, handle)) == 0)
		mark_synced(load);
	STEP(load, handle_flush(world_tree, handle, getpid()));
	handle_free(world_tree, handle);
}

static void do_save_document(struct load *load)
{
	_cleanup_(buf_done) struct buf text = { 0 };

	add_value(load, &text, chance(load, 8) ? chance(load, 300) : chance(load, 50000));
	write_file(load, ANY(load, documents), O_WRONLY | O_CREAT | O_TRUNC, buf_bytes(&text));
}

static void do_save_list(struct load *load)
{
	_cleanup_(buf_done) struct buf text = { 0 };

	add_lines(load, &text, chance(load, 40));
	write_file(load, ANY(load, lists), O_WRONLY | O_CREAT | O_TRUNC, buf_bytes(&text));
}

static void do_write_ordinary(struct load *load)
{
	_cleanup_(buf_done) struct buf text = { 0 };

	add_lines(load, &text, chance(load, 10));
	write_file(load, ANY(load, files), O_WRONLY | O_CREAT, buf_bytes(&text));
}

static void do_replace(struct load *load)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	const char *path = any_file(load);

	add_lines(load, &text, 1 + chance(load, 10));
	write_file(load, "s/new.tmp", O_WRONLY | O_CREAT | O_TRUNC, buf_bytes(&text));
	STEP(load, renamed("s/new.tmp", path, 0));
}

static void do_rewrite(struct load *load)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	const char *path = ANY(load, lists);

	add_lines(load, &text, 1 + chance(load, 30));
	STEP(load, unlinked(path));
	write_file(load, path, O_WRONLY | O_CREAT, buf_bytes(&text));
}

static void do_unlink(struct load *load)
{
	STEP(load, unlinked(any_file(load)));
}

static void do_rename(struct load *load)
{
	const char *from = any_file(load), *to = any_file(load);

	STEP(load, renamed(from, to, chance(load, 3) ? 0 : RENAME_EXCHANGE));
}

static void do_rename_dir(struct load *load)
{
	const char *from = ANY(load, dirs), *to = ANY(load, dirs);

	STEP(load, renamed(from, to, 0));
}

static void do_mkdir(struct load *load)
{
	STEP(load, make_file(ANY(load, dirs), S_IFDIR | 0755));
}

static void do_rmdir(struct load *load)
{
	STEP(load, removed_dir(ANY(load, dirs)));
}

static void do_cut(struct load *load)
{
	const struct stat st = { .st_size = (off_t)chance(load, 2000) };

	STEP(load, set_attr(any_file(load), &st, TREE_SET_SIZE));
}

static void do_chmod(struct load *load)
{
	const struct stat st = { .st_mode = (mode_t)(0600 | chance(load, 0100)) };

	STEP(load, set_attr(any_file(load), &st, TREE_SET_MODE));
}

static void do_sync(struct load *load)
{
	struct handle *handle = load->appender[chance(load, APPENDERS)];

	if (STEP(load, handle_sync(world_tree, handle)) == 0)
		mark_synced(load);
}

static int other_runs(struct load *load, const char *sql)
{
	int code = sqlite3_exec(load->other, sql, NULL, NULL, NULL);

	cr_assert(code == SQLITE_OK || code == SQLITE_CONSTRAINT, "%s: %s", sql,
		  sqlite3_errmsg(load->other));
	return 0;
}

static void do_sql(struct load *load)
{
	_cleanup_(buf_done) struct buf sql = { 0 };
	unsigned number = load->number++;

	cr_assert_eq(buf_printf(&sql,
				"INSERT INTO agentscope_sessions (session_id, state_key, "
				"item_index, state_data) SELECT 's', 'a', "
				"coalesce(max(item_index) + 1, 0), '{\"sql\":%u}' FROM "
				"agentscope_sessions WHERE session_id = 's' AND state_key = 'a'",
				number),
		     0);
	cr_assert_eq(buf_append_byte(&sql, '\0'), 0);
	STEP(load, other_runs(load, sql.data));
}

static void do_checkpoint(struct load *load)
{
	static const char *const modes[] = {
		"PRAGMA wal_checkpoint(PASSIVE)",
		"PRAGMA wal_checkpoint(FULL)",
		"PRAGMA wal_checkpoint(RESTART)",
		"PRAGMA wal_checkpoint(TRUNCATE)",
	};

	STEP(load, other_runs(load, ANY(load, modes)));
}

/* Nothing that can be seen of now changes. */
static void do_thin(struct load *load)
{
	STEP(load,
	     history_thin(world_tree,
			  nanoseconds_now + (int64_t)chance(load, 8) * INT64_C(86400000000000),
			  true));
}

static void do_fork(struct load *load)
{
	char to[16];
	struct history_fork fork = {
		.session = BYTES("s"), .time = INT64_MAX, .first = INT64_MIN, .last = INT64_MAX
	};
	uint64_t rows;

	snprintf(to, sizeof(to), "fork%u", load->number++ % 3);
	fork.to = bytes_str(to);
	STEP(load, tree_fork(world_tree, &fork, &rows));
}

static void do_settle(struct load *load)
{
	mark(load, BEGUN);
	world_settle();
	show_state(load);
}

static void do_pause(struct load *load)
{
	const int64_t pause = INT64_C(1100000000);

	nanoseconds_now += pause;
	mark(load, BEGUN);
	runs_load = true;
	handles_publish_paused(world_tree, tick_now() + pause);
	runs_load = false;
	show_state(load);
}

static void begin_load(struct load *load)
{
	world_options.history = INT64_C(7 * 86400000000000);
	place_must_open(place_path("load"));
	cr_assert_eq(sqlite3_open(place_store(place_path("load")), &load->other), SQLITE_OK);
	sqlite3_busy_timeout(load->other, 600000);
}

static void end_load(struct load *load)
{
	for (size_t i = 0; i < APPENDERS; i++)
		end_appender(load, i);
	cr_assert_eq(sqlite3_close(load->other), SQLITE_OK);
	place_close();
}

static void do_remount(struct load *load)
{
	end_load(load);
	mark_synced(load);
	mark(load, BEGUN);
	begin_load(load);
	show_state(load);
}

static const struct {
	void (*act)(struct load *load);
	unsigned weight;
} acts[] = {
	{ do_append, 30 },    { do_end_appender, 4 },	{ do_save_document, 10 },
	{ do_save_list, 8 },  { do_write_ordinary, 5 }, { do_replace, 6 },
	{ do_rewrite, 5 },    { do_unlink, 4 },		{ do_rename, 5 },
	{ do_rename_dir, 3 }, { do_mkdir, 5 },		{ do_rmdir, 2 },
	{ do_cut, 3 },	      { do_chmod, 2 },		{ do_sync, 10 },
	{ do_sql, 4 },	      { do_checkpoint, 6 },	{ do_settle, 4 },
	{ do_pause, 3 },      { do_remount, 2 },	{ do_thin, 3 },
	{ do_fork, 3 },
};

static void do_any(struct load *load)
{
	size_t total = 0, pick;

	for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
		total += acts[i].weight;
	pick = chance(load, total);
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		if (pick < acts[i].weight) {
			acts[i].act(load);
			return;
		}
		pick -= acts[i].weight;
	}
}

static void show_nothing(struct load *load)
{
	load->shown = calloc(load->room = 128, sizeof(*load->shown));
	cr_assert_not_null(load->shown);
	load->count = 1; /* state 0: nothing, as before there is a store */
}

/* Run it, and hand out the log.  with_birth: the store is made while the log is kept. */
static struct shim_log *run_load(struct load *load, bool with_birth)
{
	place_fresh("load");
	show_nothing(load);
	if (!with_birth) {
		begin_load(load);
		end_load(load);
	}
	shim_record(place_path("load"));
	mark(load, BEGUN);
	begin_load(load);
	show_state(load);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		STEP(load, make_file(dirs[i], S_IFDIR | 0755));
	for (unsigned i = 0; i < STEPS; i++)
		do_any(load);
	end_load(load);
	mark_synced(load);
	return shim_recorded();
}

static void load_done(struct load *load)
{
	for (size_t i = 0; i < load->count; i++)
		buf_done(&load->shown[i]);
	free(load->shown);
}

/* ---- looking at what is left ---- */

static void count_sentence(void *arg, const char *sentence)
{
	(void)buf_printf(arg, "%s\n", sentence);
}

/* What the store in dir shows; or what is wrong with it, in *wrong. */
static void look_at(const char *dir, struct buf *shown, struct buf *wrong)
{
	_cleanup_(buf_done) struct buf found = { 0 };
	_cleanup_(freep) char *why = NULL;
	struct check_result result = { 0 };
	int r;

	place_hush();
	r = place_open(dir, &why);
	if (r < 0) {
		buf_printf(wrong, "it does not open: %s (%s)", why ? why : strerror(-r),
			   place_error());
		return;
	}
	r = show_tree(world_tree->root, "", shown);
	if (r < 0)
		buf_printf(wrong, "it cannot be read: %s (%s)", strerror(-r), place_error());
	r = check_store(world_store, count_sentence, &found, &result);
	if (r < 0 || result.violations)
		buf_printf(wrong, "%s, %" PRIu64 " violations: %.*s", strerror(-r),
			   result.violations, (int)found.size, found.data);
	place_close();
	if (!wrong->size && place_errors())
		buf_printf(wrong, "the log has an error: %s", place_error());
}

/* Which states may be left: from the last that is durable to the last that was begun. */
struct bounds {
	size_t from, to;
	size_t done; /* the last that was answered */
};

static struct bounds bounds_at(const struct shim_log *log, const struct shim_cut *cut)
{
	struct bounds bounds = { 0 };

	for (size_t i = 0; i < cut->at; i++) {
		uint64_t number;

		if (shim_log_entry(log, i) != SHIM_MARK)
			continue;
		number = shim_log_mark(log, i);
		if (number % MARKS == BEGUN)
			bounds.to = number / MARKS;
		if (number % MARKS == DONE)
			bounds.done = number / MARKS;
		if (number % MARKS == SYNCED)
			bounds.from = number / MARKS;
	}
	/* What was answered survives the process, and the power did not fail after all. */
	if (cut->pattern == SHIM_KEEP_ALL)
		bounds.from = bounds.done;
	return bounds;
}

/* The newest state that looks like that, or -1. */
static ssize_t find_state(const struct load *load, struct bounds bounds, const struct buf *shown)
{
	for (size_t i = bounds.to + 1; i-- > bounds.from;)
		if (bytes_equal(buf_bytes(&load->shown[i]), buf_bytes(shown)))
			return (ssize_t)i;
	return -1;
}

static size_t common(const struct buf *one, const struct buf *other)
{
	size_t size = 0;

	while (size < one->size && size < other->size && one->data[size] == other->data[size])
		size++;
	return size;
}

/* From the line in which the state that is the most like it begins to be another. */
static void tell_difference(const struct load *load, const struct buf *shown, struct buf *wrong)
{
	enum { ENOUGH = 1000 };
	size_t nearest = 0, at = 0;

	for (size_t i = 1; i < load->count; i++) {
		size_t size = common(shown, &load->shown[i]);

		nearest = size >= at ? i : nearest;
		at = MAX(at, size);
	}
	while (at && shown->data[at - 1] != '\n')
		at--;
	buf_printf(wrong, "; nearest is %zu, from byte %zu on:\n%.*s\nand it is:\n%.*s", nearest,
		   at, (int)MIN(load->shown[nearest].size - at, ENOUGH),
		   load->shown[nearest].data + at, (int)MIN(shown->size - at, ENOUGH),
		   shown->data + at);
}

/* What is wrong after a cut; *ret_lost: answered calls that are undone, as they may be. */
static void judge(const struct load *load, const struct shim_log *log, const struct shim_cut *cut,
		  struct buf *shown, struct buf *wrong, size_t *ret_lost)
{
	struct bounds bounds = bounds_at(log, cut);
	const char *dir = place_fresh("cut");
	ssize_t state;

	shim_cut(log, cut, dir);
	look_at(dir, shown, wrong);
	if (wrong->size)
		return;
	bounds.to = MIN(bounds.to, load->count - 1);
	state = find_state(load, bounds, shown);
	if (state >= 0) {
		*ret_lost = bounds.done > (size_t)state ? bounds.done - (size_t)state : 0;
		return;
	}
	bounds = (struct bounds){ .to = load->count - 1 };
	state = find_state(load, bounds, shown);
	bounds = bounds_at(log, cut);
	buf_printf(wrong, "it shows state %zd, not one of %zu to %zu", state, bounds.from,
		   bounds.to);
	if (state < 0)
		tell_difference(load, shown, wrong);
}

/* ---- where to cut ---- */

/* From a random place on, the first entry of these kinds; and then just before or behind it. */
static size_t cut_near(const struct shim_log *log, uint64_t *state, unsigned kinds)
{
	size_t count = shim_log_size(log), at = random_below(state, count);

	for (size_t i = 0; i < count; i++, at = (at + 1) % count)
		if (kinds & 1u << shim_log_entry(log, at))
			break;
	return at + random_below(state, 2);
}

static struct shim_cut choose_cut(const struct shim_log *log, uint64_t *state)
{
	static const unsigned near[] = {
		UINT32_MAX,
		1 << SHIM_MARK,
		1 << SHIM_SYNCED,
		1 << SHIM_SYNCED,
		1 << SHIM_WRITTEN,
		1 << SHIM_TRUNCATED | 1 << SHIM_CREATED | 1 << SHIM_DELETED | 1 << SHIM_DIR_SYNCED,
	};

	return (struct shim_cut){
		.at = cut_near(log, state, near[random_below(state, ARRAY_SIZE(near))]),
		.pattern = (enum shim_pattern)random_below(state, SHIM_PATTERNS),
		.seed = random_next(state),
	};
}

/* The power fails once more while the store is opened on what was left: the state is that one. */
static void cut_again(const struct buf *shown, uint64_t *state, struct buf *wrong)
{
	_cleanup_(buf_done) struct buf first = { 0 }, again = { 0 };
	struct shim_log *log;
	struct shim_cut cut;

	shim_record(place_path("again"));
	look_at(place_path("again"), &first, wrong);
	log = shim_recorded();
	if (!wrong->size && !bytes_equal(buf_bytes(&first), buf_bytes(shown)))
		buf_printf(wrong, "opened once more it shows another state");
	if (!wrong->size) {
		cut = choose_cut(log, state);
		shim_cut(log, &cut, place_fresh("cut"));
		look_at(place_path("cut"), &again, wrong);
		if (!wrong->size && !bytes_equal(buf_bytes(&again), buf_bytes(shown)))
			buf_printf(wrong, "entry %zu of opening, %s: the state is another", cut.at,
				   shim_pattern_name(cut.pattern));
	}
	shim_log_free(log);
}

/* ---- the cases ---- */

static unsigned cuts_wanted(void)
{
	return (unsigned)rounds("SESSFS_POWER_CUTS", CUTS, CUTS_SOAK);
}

struct tally {
	unsigned cuts[SHIM_PATTERNS];
	unsigned lossy[SHIM_PATTERNS]; /* in which something was undone that nobody had synced */
	unsigned again;
};

static void cut_once(const struct load *load, const struct shim_log *log, uint64_t *state,
		     struct tally *tally)
{
	_cleanup_(buf_done) struct buf shown = { 0 }, wrong = { 0 };
	struct shim_cut cut = choose_cut(log, state);
	size_t lost = 0;

	judge(load, log, &cut, &shown, &wrong, &lost);
	cr_assert_eq(wrong.size, 0, "cut at %zu of %zu, %s, seed %" PRIu64 ": %.*s", cut.at,
		     shim_log_size(log), shim_pattern_name(cut.pattern), cut.seed, (int)wrong.size,
		     wrong.data);
	tally->cuts[cut.pattern]++;
	tally->lossy[cut.pattern] += lost > 0;
	if (random_below(state, 6))
		return;
	tally->again++;
	shim_cut(log, &cut, place_fresh("again"));
	cut_again(&shown, state, &wrong);
	cr_assert_eq(wrong.size, 0, "cut at %zu of %zu, %s, seed %" PRIu64 ", and again: %.*s",
		     cut.at, shim_log_size(log), shim_pattern_name(cut.pattern), cut.seed,
		     (int)wrong.size, wrong.data);
}

static void tell(const struct tally *tally)
{
	for (unsigned i = 0; i < SHIM_PATTERNS; i++)
		fprintf(stderr, "power: %s: %u cuts, %u of them undid what was not synced\n",
			shim_pattern_name((enum shim_pattern)i), tally->cuts[i], tally->lossy[i]);
	fprintf(stderr, "power: %u cuts were followed by another one\n", tally->again);
}

Test(power, loss_leaves_a_state_that_was_shown_and_no_older_one_than_was_synced, .init = begin,
     .fini = place_end)
{
	uint64_t state = random_seed("power");
	unsigned wanted = cuts_wanted();
	struct tally tally = { 0 };

	for (unsigned cuts = 0; cuts < wanted;) {
		struct load load = { .state = random_next(&state) };
		struct shim_log *log = run_load(&load, random_below(&state, 3) == 0);

		for (unsigned i = 0; i < CUTS_A_LOAD && cuts < wanted; i++, cuts++)
			cut_once(&load, log, &state, &tally);
		shim_log_free(log);
		load_done(&load);
	}
	tell(&tally);
	/* Otherwise nothing was ever cut off. */
	cr_assert_gt(tally.lossy[SHIM_DROP_ALL], 0);
	cr_assert_gt(tally.lossy[SHIM_TEAR_512], 0);
	cr_assert_eq(tally.lossy[SHIM_KEEP_ALL], 0);
}

/* The first 12 bytes of a rollback journal are its magic and how many pages it has (SQLite's
 * documentation of its file format); these must be on the medium then. */
static void judge_journals(const struct shim_log *log)
{
	bool unsynced[SHIM_FILES] = { false };
	unsigned counted = 0;

	for (size_t i = 0; i < log->count; i++) {
		const struct shim_event *event = &log->event[i];

		if (event->entry == SHIM_SYNCED)
			unsynced[event->file] = false;
		if (event->entry != SHIM_WRITTEN)
			continue;
		unsynced[event->file] |= event->offset > 0;
		if (event->offset || event->size != 12)
			continue;
		counted++;
		cr_assert_not(unsynced[event->file], "entry %zu counts pages of a journal", i);
	}
	cr_assert_gt(counted, 0);
}

static void birth_cut(const struct shim_log *log, size_t at, enum shim_pattern pattern,
		      uint64_t *state)
{
	_cleanup_(buf_done) struct buf shown = { 0 }, wrong = { 0 };
	struct shim_cut cut = { .at = at, .pattern = pattern, .seed = random_next(state) };

	shim_cut(log, &cut, place_fresh("cut"));
	look_at(place_path("cut"), &shown, &wrong);
	cr_assert(!wrong.size && !shown.size, "cut at %zu of %zu, %s: %.*s%.*s", at,
		  shim_log_size(log), shim_pattern_name(cut.pattern), (int)wrong.size, wrong.data,
		  (int)shown.size, shown.data);
}

/* All of it: few entries, and some of the worst. */
Test(power, loss_while_a_store_is_made_leaves_none_or_an_empty_one, .init = begin,
     .fini = place_end)
{
	static const enum shim_pattern patterns[] = { SHIM_DROP_ALL, SHIM_TEAR_512,
						      SHIM_GARBAGE_TAIL };
	const unsigned tears = rounds("SESSFS_POWER_TEARS", 1, 200);
	uint64_t state = random_seed("power, birth");
	struct shim_log *log;

	shim_record(place_fresh("load"));
	place_must_open(place_path("load"));
	place_close();
	log = shim_recorded();
	judge_journals(log);
	for (size_t at = 0; at <= shim_log_size(log); at++) {
		/* Just before a sync there is the most to tear. */
		bool sync = at < shim_log_size(log) && shim_log_entry(log, at) == SHIM_SYNCED;

		birth_cut(log, at, patterns[at % ARRAY_SIZE(patterns)], &state);
		for (unsigned i = 0; sync && i < tears; i++)
			birth_cut(log, at, i % 2 ? SHIM_TEAR_512 : SHIM_TEAR_4096, &state);
	}
	shim_log_free(log);
}

Test(power, loss_is_found_when_syncs_lie, .init = begin, .fini = place_end)
{
	uint64_t state = random_seed("power, lying");
	struct load load = { .state = random_next(&state) };
	struct shim_log *log = run_load(&load, false);
	unsigned found = 0;

	for (unsigned i = 0; i < 2 * SHIM_PATTERNS; i++) {
		_cleanup_(buf_done) struct buf shown = { 0 }, wrong = { 0 };
		struct shim_cut cut = {
			.at = shim_log_size(log) - i,
			.pattern = (enum shim_pattern)(i % SHIM_PATTERNS),
			.seed = random_next(&state),
			.syncs_lie = true,
		};
		size_t lost;

		judge(&load, log, &cut, &shown, &wrong, &lost);
		found += wrong.size > 0;
	}
	shim_log_free(log);
	load_done(&load);
	fprintf(stderr, "power, lying: %u of %d cuts found a loss\n", found, 2 * SHIM_PATTERNS);
	cr_assert_gt(found, SHIM_PATTERNS / 2);
}
