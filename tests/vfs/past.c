/* SPDX-License-Identifier: MIT */

/*
 * What a history does, in the middle of an accident: the process is killed, the power fails, the
 * disk is full.  A store is prepared once, and each act is made on a copy of it.  What an accident
 * leaves looks as before the act or as behind it; of an act of several transactions, each part
 * does.  Then the act is made again, and all looks as behind it.
 *
 * SESSFS_PAST_CUTS=N in the environment says how many accidents each act meets,
 * SESSFS_PAST_ROWS=N how many rows its large list has.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fs/api/history.h"
#include "fs/api/trash.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/upkeep.h"
#include "fs/write/write.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/vfs/place.h"

enum {
	CUTS = 6, /* in `make check` */
	FEW = 32,
	CUTS_SOAK = 400,
};

static const int64_t minute = INT64_C(60000000000);

static struct shim_log *prepared;
static const char *where; /* the store that an act is made on */
static int64_t then;	  /* when all was as it was first */
static int64_t long_ago;
static int64_t list_time; /* a minute before the large list's first version ended */
static char versions[8];  /* of the large list that are seen at its times */

/* ---- the store ---- */

/* So that no two moments have the same time in a store. */
static int64_t moment(void)
{
	const int64_t start = time_now();
	int64_t between;

	while (time_now() < start + minute / 60000)
		;
	between = time_now();
	while (time_now() < between + minute / 60000)
		;
	return between;
}

static sqlite3 *open_other(void)
{
	sqlite3 *other;

	cr_assert_eq(sqlite3_open(place_store(place_path(where)), &other), SQLITE_OK);
	return other;
}

/* Versions of a document within one hour, of which thinning leaves one. */
static void add_old_versions(void)
{
	sqlite3 *other = open_other();
	char sql[400];

	long_ago = (time_now() / minute / 60 - 50) * 60 * minute;
	list_time = long_ago - 60 * minute;
	for (int n = 1; n <= 20; n++) {
		snprintf(sql, sizeof(sql),
			 "INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
			 "last_index, bytes, created_at, state_data) VALUES ('s', 'd', %" PRId64
			 ", 0, 0, 0, 10, '2001-01-01 00:00:00', '%d')",
			 long_ago + n * minute, n);
		cr_assert_eq(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK, "%s",
			     sqlite3_errmsg(other));
	}
	cr_assert_eq(sqlite3_close(other), SQLITE_OK);
	long_ago += 10 * minute + minute / 2;
}

enum { VERSIONS = 3, ROWS = 14, ROWS_SOAK = 1400 };

/* Rows of a list; in a soak, more than are thinned in one commit. */
static int many(void)
{
	return (int)rounds("SESSFS_PAST_ROWS", ROWS, ROWS_SOAK);
}

/* Versions of the list within another hour; the rows of a version are equal. */
static void add_old_lists(void)
{
	static const char sql[] =
		"WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < %d) "
		"INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
		"last_index, bytes, created_at, state_data) SELECT 's', 'h', %" PRId64
		" + v.column1 * %" PRId64 ", 0, n, n, 10, '2001-01-01 00:00:00', v.column1 FROM "
		"(VALUES (1), (2), (3)) v, i";
	sqlite3 *other = open_other();
	char *text = sqlite3_mprintf(sql, many() - 1, list_time, minute);

	cr_assert_eq(sqlite3_exec(other, text, NULL, NULL, NULL), SQLITE_OK, "%s",
		     sqlite3_errmsg(other));
	sqlite3_free(text);
	cr_assert_eq(sqlite3_close(other), SQLITE_OK);
}

static void prepare(void)
{
	const struct stat of_another = { .st_uid = 1000, .st_mode = 0600 };

	place_begin();
	world_options.history = 7 * 24 * 60 * minute;
	where = "base";
	shim_record(place_fresh(where));
	place_must_open(place_path(where));
	make_dir("s");
	make_dir("t");
	make_dir("u");
	add_old_versions();
	add_old_lists();
	save("s/a.jsonl", "1\n2\n3\n");
	save("s/b.jsonl", "10\n20\n");
	save("s/d.json", "{\"a\":1}");
	save("s/e.json", "{\"e\":1}");
	save("s/note.txt", "text");
	save("t/l.jsonl", "[\"t\"]\n");
	save("t/note.txt", "text of t");
	save("u/l.jsonl", "[\"u\"]\n");
	save("u/note.txt", "text of u");
	then = moment();
	save("s/a.jsonl", "1\n4\n");
	save("s/b.jsonl", "5\n");
	save("s/d.json", "{\"a\":2}");
	save("s/e.json", "{\"e\":2}");
	cr_assert_eq(set_attr("s/e.json", &of_another, TREE_SET_MODE | TREE_SET_UID), 0);
	cr_assert_eq(tree_trash(world_tree, BYTES("t"), INT64_MAX, TRASH_GRACE), 0);
	world_settle();
	place_close();
	prepared = shim_recorded();
}

static void copy_prepared(void)
{
	const struct shim_cut all = { .at = shim_log_size(prepared), .pattern = SHIM_KEEP_ALL };

	where = "store";
	shim_cut(prepared, &all, place_fresh(where));
}

/* ---- acts ---- */

static int told(void *arg, const struct history_undone *undone)
{
	(void)arg;
	(void)undone;
	return 0;
}

/* As the commands do it, beside no mount. */
static int with_rows(int act(struct backend *))
{
	const struct backend_options options = { .rows_only = true };
	struct backend *backend;
	int r = backend_open(place_store(place_path(where)), &options, &backend, NULL);

	if (r < 0)
		return r;
	r = act(backend);
	backend_close(backend);
	return r;
}

static int undo(struct backend *backend)
{
	return history_undo(backend, BYTES("s"), (struct bytes){ 0 }, then, false, told, NULL);
}

static int forget_a(struct backend *backend)
{
	return history_forget(backend, BYTES("s"), BYTES("a"), INT64_MIN, INT64_MAX);
}

static int act_undo(void)
{
	return with_rows(undo);
}

static int act_forget(void)
{
	return with_rows(forget_a);
}

struct found {
	struct buf *names; /* of what can come back */
	uint64_t id;	   /* of the session */
};

static int find_trashed(void *arg, const struct trash_item *item)
{
	struct found *found = arg;

	if (bytes_equal(item->name, BYTES("t")))
		found->id = item->id;
	return item->until && found->names ?
		       buf_printf(found->names, "%.*s ", (int)item->name.size, item->name.data) :
		       0;
}

static struct backend_snapshot *look_at_store(void)
{
	struct backend_snapshot *snapshot;

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	return snapshot;
}

static uint64_t trashed(struct buf *names)
{
	struct backend_snapshot *snapshot = look_at_store();
	struct found found = { .names = names };

	cr_assert_eq(trash_list(world_store, snapshot, find_trashed, &found), 0);
	world_store->ops->snapshot_end(world_store, snapshot);
	return found.id;
}

static int with_tree(int act(void))
{
	int r = place_open(place_path(where), NULL);

	if (r < 0)
		return r;
	r = act();
	place_close();
	return r;
}

static int fork_s(void)
{
	const struct history_fork fork = { .session = BYTES("s"),
					   .to = BYTES("fork"),
					   .time = then,
					   .first = INT64_MIN,
					   .last = INT64_MAX };
	uint64_t rows;

	return tree_fork(world_tree, &fork, &rows);
}

static int remove_u(void)
{
	return tree_trash(world_tree, BYTES("u"), INT64_MAX, TRASH_GRACE);
}

static int return_t(void)
{
	return tree_trash_undo(world_tree, trashed(NULL));
}

static int purge_t(void)
{
	return tree_trash_purge(world_tree, trashed(NULL));
}

static int thin(void)
{
	return history_thin(world_tree, time_now(), true);
}

/* Over the state of another user. */
static int replace_e(void)
{
	return renamed("s/d.json", "s/e.json", 0);
}

static int act_replace(void)
{
	return with_tree(replace_e);
}

static int act_fork(void)
{
	return with_tree(fork_s);
}

static int act_remove(void)
{
	return with_tree(remove_u);
}

static int act_return(void)
{
	return with_tree(return_t);
}

static int act_purge(void)
{
	return with_tree(purge_t);
}

static int act_thin(void)
{
	return with_tree(thin);
}

static const struct act {
	const char *name;
	int (*run)(void);
	bool in_parts; /* not one transaction */
} acts[] = {
	{ "an undo", act_undo, false },	   { "forgetting", act_forget, false },
	{ "a fork", act_fork, false },	   { "a removal", act_remove, false },
	{ "a return", act_return, false }, { "a purge", act_purge, true },
	{ "thinning", act_thin, true },	   { "a rename", act_replace, false },
};

/* ---- what is seen ---- */

enum { PARTS = 20 };

struct seen {
	size_t count;
	struct buf part[PARTS]; /* the last one: how much is stored */
};

static void seen_done(struct seen *seen)
{
	for (size_t i = 0; i < seen->count; i++)
		buf_done(&seen->part[i]);
}

static struct buf *add_part(struct seen *seen)
{
	cr_assert_lt(seen->count, PARTS);
	return &seen->part[seen->count++];
}

static void add_text(struct seen *seen, const char *text)
{
	cr_assert_eq(buf_append_str(add_part(seen), text), 0);
}

static int show_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	(void)times;
	return buf_printf(arg, "%" PRId64 "=%.*s ", index, (int)data.size, data.data);
}

static void add_rows_then(struct seen *seen, const char *name, int64_t time)
{
	const struct backend_past_key key = { 0, BYTES("s"), bytes_str(name) };
	struct backend_snapshot *snapshot = look_at_store();
	struct buf *part = add_part(seen);
	struct as_of as_of;

	cr_assert_eq(as_of_find(world_store, snapshot, &key, time, &as_of), 0);
	cr_assert_eq(as_of_read(world_store, snapshot, &as_of, INT64_MIN, false, show_row, part),
		     0);
	as_of_done(&as_of);
	world_store->ops->snapshot_end(world_store, snapshot);
}

struct large {
	int rows;
	bool mixed;
	char version[8];
};

static int count_large(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct large *large = arg;

	(void)times;
	if (!large->rows)
		snprintf(large->version, sizeof(large->version), "%.*s", (int)data.size, data.data);
	large->mixed |= index != large->rows++ || !bytes_equal(data, bytes_str(large->version));
	return 0;
}

/* Whole, and of one version, at each time; of which one changes while it is thinned. */
static void check_large(void)
{
	static const struct backend_past_key key = { 0, BYTES("s"), BYTES("h") };
	struct backend_snapshot *snapshot = look_at_store();

	for (int i = 0; i < VERSIONS; i++) {
		struct large large = { 0 };
		struct as_of as_of;

		cr_assert_eq(as_of_find(world_store, snapshot, &key,
					list_time + i * minute + minute / 2, &as_of),
			     0);
		cr_assert_eq(as_of_read(world_store, snapshot, &as_of, INT64_MIN, false,
					count_large, &large),
			     0);
		as_of_done(&as_of);
		cr_assert(large.rows == many() && !large.mixed,
			  "%d rows at time %d, the first of %s", large.rows, i, large.version);
		cr_assert_leq(large.version[0], '1' + i);
		versions[i] = large.version[0];
	}
	world_store->ops->snapshot_end(world_store, snapshot);
}

static void add_stored(struct seen *seen)
{
	static const char sql[] = "SELECT (SELECT count(*) FROM sessfs_node) || ' ' || "
				  "(SELECT count(*) FROM sessfs_entry) || ' ' || "
				  "(SELECT count(*) FROM sessfs_trash) || ' ' || "
				  "(SELECT count(*) FROM sessfs_chunk)";
	sqlite3 *other = open_other();
	sqlite3_stmt *statement;

	cr_assert_eq(sqlite3_prepare_v2(other, sql, -1, &statement, NULL), SQLITE_OK, "%s",
		     sqlite3_errmsg(other));
	cr_assert_eq(sqlite3_step(statement), SQLITE_ROW);
	add_text(seen, (const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	cr_assert_eq(sqlite3_close(other), SQLITE_OK);
}

static void look(struct seen *seen)
{
	static const char *const rows[][2] = { { "s", "a" },	{ "s", "b" },	 { "s", "d" },
					       { "s", "e" },	{ "t", "l" },	 { "u", "l" },
					       { "fork", "a" }, { "fork", "b" }, { "fork", "d" } };
	static const char *const notes[] = { "t/note.txt", "fork/note.txt" };

	*seen = (struct seen){ 0 };
	place_must_open(place_path(where));
	world_settle();
	world_check();
	add_text(seen, names_in(""));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		add_text(seen, rows_of(rows[i][0], rows[i][1]));
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
		add_text(seen, looked_up(notes[i]) == 0 ? content_of(notes[i]) : "none");
	add_rows_then(seen, "a", then);
	add_rows_then(seen, "d", then);
	add_rows_then(seen, "d", long_ago);
	add_rows_then(seen, "e", then);
	trashed(add_part(seen));
	check_large();
	add_stored(seen);
	place_close();
}

static bool same_part(const struct seen *one, const struct seen *other, size_t i)
{
	return bytes_equal(buf_bytes(&one->part[i]), buf_bytes(&other->part[i]));
}

struct judging {
	const struct act *act;
	struct seen before, after;
	unsigned old, new; /* how often it looked so */
	char trying[128];
};

/* It looks as before or behind it; what an act of several transactions stores may be in between. */
static void judge(struct judging *judging)
{
	bool old = true, new = true;
	struct seen seen;

	look(&seen);
	for (size_t i = 0; i < seen.count - judging->act->in_parts; i++) {
		const bool is_old = same_part(&seen, &judging->before, i);
		const bool is_new = same_part(&seen, &judging->after, i);

		cr_assert(is_old || is_new, "%s: part %zu is %.*s", judging->trying, i,
			  (int)seen.part[i].size, seen.part[i].data);
		old &= is_old;
		new &= is_new;
	}
	cr_assert(old || new || judging->act->in_parts, "%s: it is half", judging->trying);
	judging->old += old;
	judging->new += new;
	seen_done(&seen);
}

/* Made again, it is whole; it may have been before. */
static void make_again(const struct judging *judging)
{
	const int r = judging->act->run();
	struct seen seen;

	cr_assert(r == 0 || r == -ENODATA || r == -EEXIST || r == -ENOENT, "%s, again: %s (%s)",
		  judging->trying, strerror(-r), place_error());
	look(&seen);
	for (size_t i = 0; i < seen.count; i++)
		cr_assert(same_part(&seen, &judging->after, i), "%s, again: part %zu is %.*s",
			  judging->trying, i, (int)seen.part[i].size, seen.part[i].data);
	seen_done(&seen);
}

static void judge_begin(struct judging *judging, const struct act *act)
{
	size_t changed = 0;
	int r;

	*judging = (struct judging){ .act = act };
	copy_prepared();
	look(&judging->before);
	r = act->run();
	cr_assert_eq(r, 0, "%s: %s (%s)", act->name, strerror(-r), place_error());
	look(&judging->after);
	for (size_t i = 0; i < judging->before.count; i++)
		changed += !same_part(&judging->before, &judging->after, i);
	cr_assert_gt(changed, 0, "%s changes nothing", act->name);
	cr_assert_str_eq(versions, act->run == act_thin ? "111" : "123");
}

static void judge_end(struct judging *judging)
{
	seen_done(&judging->before);
	seen_done(&judging->after);
	shim_log_free(prepared);
}

/* ---- the cases ---- */

static int numbers[ARRAY_SIZE(acts)];

static struct criterion_test_params every_act(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
		numbers[i] = (int)i;
	return cr_make_param_array(int, numbers, ARRAY_SIZE(acts), NULL);
}

static unsigned accidents(void)
{
	return (unsigned)rounds("SESSFS_PAST_CUTS", CUTS, CUTS_SOAK);
}

/* A number below size, in the i-th of count parts of them. */
static uint64_t some_of(uint64_t *state, unsigned i, unsigned count, uint64_t size)
{
	const uint64_t from = size * i / count, to = size * (i + 1) / count;

	return from + random_below(state, MAX(to - from, 1));
}

ParameterizedTestParameters(past, is_whole_or_absent_after_a_kill_and_a_loss_of_power)
{
	return every_act();
}

/* A kill loses nothing of what was written. */
ParameterizedTest(const int *number, past, is_whole_or_absent_after_a_kill_and_a_loss_of_power,
		  .init = prepare, .fini = place_end)
{
	uint64_t state = random_seed("past");
	struct judging judging;
	struct shim_log *log;
	unsigned times;

	judge_begin(&judging, &acts[*number]);
	copy_prepared();
	shim_record(place_path(where));
	cr_assert_eq(judging.act->run(), 0);
	log = shim_recorded();
	where = "cut";
	/* What is written in few steps is cut behind each of them. */
	times = MAX(accidents(), shim_log_size(log) < FEW ? (unsigned)shim_log_size(log) + 1 : 0);
	for (unsigned i = 0; i < times; i++) {
		const size_t kill = random_below(&state, 2);
		const struct shim_cut cut = {
			.at = some_of(&state, i, times, shim_log_size(log) + 1),
			.pattern = kill ? SHIM_KEEP_ALL : random_below(&state, SHIM_PATTERNS),
			.seed = random_next(&state),
		};

		snprintf(judging.trying, sizeof(judging.trying), "%s, cut at %zu of %zu, %s",
			 judging.act->name, cut.at, shim_log_size(log),
			 shim_pattern_name(cut.pattern));
		shim_cut(log, &cut, place_fresh(where));
		judge(&judging);
		make_again(&judging);
	}
	shim_log_free(log);
	cr_assert(judging.old && judging.new, "%s: %u as before, %u as behind it",
		  judging.act->name, judging.old, judging.new);
	judge_end(&judging);
}

ParameterizedTestParameters(past, is_whole_or_absent_after_a_full_disk)
{
	return every_act();
}

ParameterizedTest(const int *number, past, is_whole_or_absent_after_a_full_disk, .init = prepare,
		  .fini = place_end)
{
	struct shim_fault fault = {
		.call = SHIM_WRITE, .error = SHIM_FULL, .threads = SHIM_ALL_THREADS, .lasting = true
	};
	uint64_t state = random_seed("past, full"), calls, refused = 0;
	/* Of fewer none may meet the writes that a transaction cannot do without. */
	const unsigned times = MAX(accidents() / 2, 4);
	struct judging judging;

	judge_begin(&judging, &acts[*number]);
	copy_prepared();
	shim_fail(&fault);
	cr_assert_eq(judging.act->run(), 0);
	calls = shim_calls();
	shim_heal();
	for (unsigned i = 0; i < times; i++) {
		int r;

		fault.nth = 1 + some_of(&state, i, times, calls);
		snprintf(judging.trying, sizeof(judging.trying),
			 "%s, full from write %" PRIu64 " of %" PRIu64 " on", judging.act->name,
			 fault.nth, calls);
		copy_prepared();
		place_hush();
		shim_fail(&fault);
		r = judging.act->run();
		shim_heal();
		cr_assert(r == 0 || r == -ENOSPC, "%s: %s (%s)", judging.trying, strerror(-r),
			  place_error());
		refused += r < 0;
		judge(&judging);
		make_again(&judging);
	}
	cr_assert_gt(refused, 0, "%s was never refused", judging.act->name);
	judge_end(&judging);
}
