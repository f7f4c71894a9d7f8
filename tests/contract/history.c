/* SPDX-License-Identifier: MIT */
/* What changes of rows take away, and rows as they were (backend/history.h). */
#include "tests/contract/contract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/base/moment.h"

enum { ROWS = 24, MOMENTS = 60 };

/* Times of rows may be no finer than this. */
static const int64_t TICK = 1000000;

/* A time behind all that was done, and before all that will be. */
static int64_t moment(void)
{
	static const struct timespec pause = { .tv_nsec = 100000 };
	int64_t before = time_now() / TICK, now;

	while ((now = time_now() / TICK) <= before)
		nanosleep(&pause, NULL);
	for (before = now; time_now() / TICK <= before;)
		nanosleep(&pause, NULL);
	return now * TICK;
}

static int show(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	char **end = arg;

	(void)times;
	*end += sprintf(*end, "%lld=%.*s ", (long long)index, (int)data.size, data.data);
	return 0;
}

/* The rows of a key as of a time, as "index=data "; falling, too, which must be the same. */
static const char *then(struct backend *backend, uint64_t ino, struct bytes key, int64_t time)
{
	static char texts[4][8192];
	static unsigned turn;
	char *text = texts[turn++ % ARRAY_SIZE(texts)], *end = text, back[8192], *behind = back;
	const struct backend_past_key past = { ino, S, key };
	struct backend_snapshot *snapshot = look(backend);
	struct as_of as_of;
	size_t rising = 0, falling = 0;

	*text = *back = '\0';
	cr_assert_eq(as_of_find(backend, snapshot, &past, time, &as_of), 0);
	cr_assert_eq(as_of_read(backend, snapshot, &as_of, INT64_MIN, false, show, &end), 0);
	cr_assert_eq(as_of_read(backend, snapshot, &as_of, INT64_MAX, true, show, &behind), 0);
	as_of_done(&as_of);
	unlook(backend, snapshot);
	for (const char *at = text; *at; at++)
		rising += (size_t)*at;
	for (const char *at = back; *at; at++)
		falling += (size_t)*at;
	cr_assert_eq(rising, falling, "rising %s\nfalling %s", text, back);
	return text;
}

/* Whatever is laid around a store has all slots. */
static bool keeps(struct backend *backend)
{
	const struct bytes key = BYTES("probe");
	struct backend_snapshot *snapshot;
	uint64_t bytes;
	int64_t last;

	COMMIT(backend, row_insert(S, key, 0, BYTES("a")), row_put(S, key, 0, BYTES("b")));
	snapshot = look(backend);
	cr_assert_eq(backend_past_size(backend, snapshot, &bytes, &last), 0);
	unlook(backend, snapshot);
	return last > 0;
}

#define NEEDS_HISTORY(backend)                                                                     \
	do {                                                                                       \
		if (keeps(backend))                                                                \
			break;                                                                     \
		close_stores();                                                                    \
		cr_skip("the store keeps no history");                                             \
	} while (0)

#define SAME(backend, time, text) cr_assert_str_eq(then((backend), 0, K, (time)), (text))

EveryStore(history, what_was_never_kept_may_be_forgotten)
{
	const struct backend_op forget = {
		.type = BACKEND_PAST_FORGET, .session = S, .key = K, .at = INT64_MAX
	};
	const struct backend_op note = { .type = BACKEND_PAST_NOTE,
					 .session = S,
					 .key = K,
					 .parent = PAST_NONE,
					 .at = INT64_MIN,
					 .to = INT64_MAX };

	cr_expect_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("a")), forget, note), 0);
	cr_expect_str_eq(rows_of(backend, S, K), "0=a");
}

struct times {
	int64_t until[8];
	int64_t records[8];
	uint64_t bytes[8];
	size_t count;
};

/* A record, or a time of records. */
static int add_time(void *arg, const struct backend_past *past)
{
	struct times *times = arg;
	size_t i = 0;

	while (i < times->count && times->until[i] != past->until)
		i++;
	cr_assert_lt(i, ARRAY_SIZE(times->until));
	times->count = MAX(times->count, i + 1);
	times->until[i] = past->until;
	times->records[i]++;
	times->bytes[i] += past->bytes;
	return 0;
}

static int add_counted(void *arg, const struct backend_past *past)
{
	struct times *times = arg;
	const size_t i = times->count;

	cr_assert(i == 0 || times->until[i - 1] > past->until);
	cr_assert_eq(add_time(arg, past), 0);
	cr_assert_eq(times->count, i + 1);
	times->records[i] = past->n;
	return 0;
}

EveryStore(history, has_times_that_are_those_of_its_records)
{
	const struct backend_past_key past = { 0, S, K };
	struct times listed = { 0 }, counted = { 0 };
	struct backend_snapshot *snapshot;

	NEEDS_HISTORY(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("bc")));
	moment();
	COMMIT(backend, row_put(S, K, 0, BYTES("d")), row_put(S, K, 1, BYTES("e")));
	moment();
	COMMIT(backend, row_put(S, K, 1, BYTES("f")));
	moment();
	snapshot = look(backend);
	cr_assert_eq(backend_past_list(backend, snapshot, &past, INT64_MIN, add_time, &listed), 0);
	cr_assert_eq(backend_past_times(backend, snapshot, &past, INT64_MIN, add_counted, &counted),
		     0);
	cr_assert_geq(counted.count, 2);
	cr_assert_eq(counted.count, listed.count);
	for (size_t i = 0; i < counted.count; i++) {
		cr_expect_eq(counted.until[i], listed.until[i]);
		cr_expect_eq(counted.records[i], listed.records[i]);
		cr_expect_eq(counted.bytes[i], listed.bytes[i]);
	}
	/* Behind the last but one. */
	counted.count = 0;
	cr_assert_eq(backend_past_times(backend, snapshot, &past, listed.until[1], add_counted,
					&counted),
		     0);
	cr_expect_eq(counted.count, 1);
	unlook(backend, snapshot);
}

EveryStore(history, what_was_replaced_is_seen)
{
	int64_t empty, first, second;

	NEEDS_HISTORY(backend);
	empty = moment();
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")));
	first = moment();
	COMMIT(backend, row_put(S, K, 1, BYTES("B")), row_insert(S, K, 2, BYTES("c")));
	second = moment();
	COMMIT(backend, row_delete(S, K, 0, INT64_MAX));
	SAME(backend, empty, "");
	SAME(backend, first, "0=a 1=b ");
	SAME(backend, second, "0=a 1=B 2=c ");
	SAME(backend, moment(), "");
}

EveryStore(history, rows_that_have_moved_are_seen_where_they_were)
{
	const struct backend_op down = {
		.type = BACKEND_ROWS_SHIFT, .session = S, .key = K, .at = 3, .to = -2
	};
	int64_t first, second;

	NEEDS_HISTORY(backend);
	for (int i = 0; i < 5; i++)
		COMMIT(backend, row_insert(S, K, i, bytes_make(&"abcde"[i], 1)));
	first = moment();
	COMMIT(backend, row_delete(S, K, 0, 2), down, row_put(S, K, 0, BYTES("sum")));
	second = moment();
	SAME(backend, first, "0=a 1=b 2=c 3=d 4=e ");
	SAME(backend, second, "0=sum 1=d 2=e ");
	COMMIT(backend, row_put(S, K, 1, BYTES("D")));
	SAME(backend, first, "0=a 1=b 2=c 3=d 4=e ");
	SAME(backend, second, "0=sum 1=d 2=e ");
}

EveryStore(history, rows_with_times_of_their_own_are_there_from_their_arrival)
{
	struct backend_op old = row_insert(S, K, 0, BYTES("old"));
	int64_t before;

	NEEDS_HISTORY(backend);
	old.created = old.updated = INT64_C(1000000000) * 1000000;
	before = moment();
	COMMIT(backend, old);
	SAME(backend, before, "");
	SAME(backend, moment(), "0=old ");
}

EveryStore(history, it_goes_with_a_key_and_with_a_hidden_file)
{
	const struct backend_op move = { .type = BACKEND_KEY_MOVE,
					 .session = S,
					 .key = K,
					 .session_to = S,
					 .key_to = BYTES("to") };
	const struct backend_op hide = {
		.type = BACKEND_KEY_HIDE, .session = S, .key = BYTES("to"), .ino = 5
	};
	struct backend_op display = hide;
	int64_t first;

	NEEDS_HISTORY(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	first = moment();
	COMMIT(backend, row_put(S, K, 0, BYTES("b")));
	COMMIT(backend, move);
	cr_assert_str_eq(then(backend, 0, BYTES("to"), first), "0=a ");
	COMMIT(backend, hide);
	cr_assert_str_eq(then(backend, 0, BYTES("to"), first), "");
	cr_assert_str_eq(then(backend, 5, BYTES("to"), first), "0=a ");
	display.type = BACKEND_KEY_SHOW;
	COMMIT(backend, display);
	cr_assert_str_eq(then(backend, 0, BYTES("to"), first), "0=a ");
	COMMIT(backend, hide,
	       { .type = BACKEND_HIDDEN_DELETE, .ino = 5, .at = INT64_MIN, .to = INT64_MAX });
	cr_assert_str_eq(then(backend, 5, BYTES("to"), first), "");
}

EveryStore(history, a_key_that_comes_where_rows_were_leaves_their_history)
{
	const struct backend_op move = { .type = BACKEND_KEY_MOVE,
					 .session = S,
					 .key = BYTES("from"),
					 .session_to = S,
					 .key_to = K };
	int64_t first;

	NEEDS_HISTORY(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")),
	       row_insert(S, BYTES("from"), 0, BYTES("x")));
	first = moment();
	COMMIT(backend, move);
	SAME(backend, first, "0=a 1=b ");
	SAME(backend, moment(), "0=x ");
}

EveryStore(history, what_is_merged_is_seen_as_one_change)
{
	int64_t time[4];

	NEEDS_HISTORY(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("0")), row_insert(S, K, 1, BYTES("a")));
	for (int i = 0; i < 4; i++) {
		time[i] = moment();
		COMMIT(backend, row_put(S, K, i % 2, bytes_make(&"1234"[i], 1)),
		       row_insert(S, K, 2 + i, bytes_make(&"wxyz"[i], 1)));
	}
	/* The second and the third. */
	COMMIT(backend, { .type = BACKEND_PAST_MERGE,
			  .session = S,
			  .key = K,
			  .at = time[1] + 1,
			  .to = time[3] });
	SAME(backend, time[0], "0=0 1=a ");
	SAME(backend, time[1], "0=1 1=a 2=w ");
	SAME(backend, time[2], "0=1 1=a 2=w ");
	SAME(backend, time[3], "0=3 1=2 2=w 3=x 4=y ");
	COMMIT(backend, { .type = BACKEND_PAST_FORGET, .session = S, .key = K, .at = time[3] });
	SAME(backend, time[0], "0=3 1=2 2=w 3=x 4=y ");
	SAME(backend, moment(), "0=3 1=4 2=w 3=x 4=y 5=z ");
	COMMIT(backend, { .type = BACKEND_PAST_FORGET, .session = S, .key = K, .at = INT64_MAX });
	SAME(backend, moment(), "0=3 1=4 2=w 3=x 4=y 5=z ");
}

static int count_one(void *arg, const struct backend_past *past)
{
	(void)past;
	++*(int *)arg;
	return 0;
}

EveryStore(history, that_begins_in_what_is_merged_begins_there)
{
	const struct backend_past_key other = { 0, S, BYTES("other") };
	struct backend_snapshot *snapshot;
	int64_t time[4];
	int records = 0;

	NEEDS_HISTORY(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("0")));
	for (int i = 0; i < 3; i++) {
		time[i] = moment();
		COMMIT(backend, row_put(S, K, 0, bytes_make(&"123"[i], 1)),
		       row_insert(S, K, 1 + i, bytes_make(&"xyz"[i], 1)));
	}
	time[3] = moment();
	COMMIT(backend, { .type = BACKEND_PAST_FORGET, .session = S, .key = K, .at = time[1] });
	/* A key of which nothing is kept still has nothing then. */
	for (int times = 0; times < 2; times++)
		COMMIT(backend,
		       { .type = BACKEND_PAST_MERGE,
			 .session = S,
			 .key = K,
			 .at = time[1] + 1,
			 .to = time[3] },
		       { .type = BACKEND_PAST_MERGE,
			 .session = S,
			 .key = BYTES("other"),
			 .at = time[1] + 1,
			 .to = time[3] });
	for (int i = 0; i < 3; i++)
		SAME(backend, time[i], "0=1 1=x ");
	SAME(backend, time[3], "0=3 1=x 2=y 3=z ");
	snapshot = look(backend);
	cr_assert_eq(backend_past_list(backend, snapshot, &other, INT64_MIN, count_one, &records),
		     0);
	unlook(backend, snapshot);
	cr_assert_eq(records, 0);
}

EveryStore(history, rows_are_copied_as_they_were)
{
	struct backend_snapshot *snapshot;
	const struct backend_past_key past = { 0, S, K };
	struct as_of as_of;
	int64_t first;

	NEEDS_HISTORY(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")));
	first = moment();
	COMMIT(backend, row_put(S, K, 1, BYTES("B")), row_insert(S, K, 2, BYTES("c")));
	snapshot = look(backend);
	cr_assert_eq(as_of_find(backend, snapshot, &past, first, &as_of), 0);
	unlook(backend, snapshot);
	cr_assert_eq(as_of.count, 3);
	cr_assert_eq(COMMIT(backend,
			    { .type = BACKEND_ROWS_COPY,
			      .session = S,
			      .key = K,
			      .at = INT64_MIN,
			      .to = 0,
			      .session_to = S,
			      .key_to = BYTES("to") },
			    { .type = BACKEND_PAST_COPY,
			      .session = S,
			      .key = K,
			      .at = as_of.run[1].at,
			      .to = as_of.run[1].at,
			      .seq = 1,
			      .session_to = S,
			      .key_to = BYTES("to"),
			      .created = first },
			    { .type = BACKEND_ROWS_COPY,
			      .session = S,
			      .key = K,
			      .at = 2,
			      .to = INT64_MAX,
			      .session_to = S,
			      .key_to = BYTES("to"),
			      .created = first }),
		     0);
	cr_assert_str_eq(rows_of(backend, S, BYTES("to")), "0=a 1=b");
	as_of_done(&as_of);
}

struct counting {
	int rows;
	bool changed;
};

static int count_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct counting *counting = arg;

	(void)times;
	counting->rows++;
	counting->changed |= index == 0 && data.size == 1 && *data.data == 'b';
	return 0;
}

static struct counting count_then(struct backend *backend, int64_t time)
{
	const struct backend_past_key past = { 0, S, K };
	struct backend_snapshot *snapshot = look(backend);
	struct counting counting = { 0 };
	struct as_of as_of;

	cr_assert_eq(as_of_find(backend, snapshot, &past, time, &as_of), 0);
	cr_assert_eq(as_of_read(backend, snapshot, &as_of, INT64_MIN, false, count_row, &counting),
		     0);
	as_of_done(&as_of);
	unlook(backend, snapshot);
	return counting;
}

/* However long it takes: what it changes and what it adds have one time. */
EveryStore(history, a_batch_is_seen_as_a_whole_or_not_at_all)
{
	enum { CHANGED = 64, LOOKS = 200 };
	struct backend_op ops[CHANGED];
	char *data = calloc(1, BACKEND_ITEM_LEAST / 2);
	int64_t first, last;

	NEEDS_HISTORY(backend);
	memset(data, 'x', BACKEND_ITEM_LEAST / 2);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	first = moment();
	for (int i = 1; i < CHANGED; i++)
		ops[i] = row_insert(S, K, i, bytes_make(data, BACKEND_ITEM_LEAST / 2));
	ops[0] = row_put(S, K, 0, BYTES("b"));
	cr_assert_eq(backend_commit(backend, ops, CHANGED, 0), 0);
	last = moment();
	for (int i = 0; i <= LOOKS; i++) {
		const struct counting seen =
			count_then(backend, first + (last - first) / LOOKS * i);

		cr_assert_eq(seen.rows, seen.changed ? CHANGED : 1, "%d of %d, at %d of %d",
			     seen.rows, CHANGED, i, LOOKS);
	}
	free(data);
}

/* What was found is as it was, or a batch that depends on it fails. */
EveryStore(history, that_has_changed_since_is_noticed)
{
	const struct backend_past_key past = { 0, S, K };
	struct backend_op same = { .type = BACKEND_PAST_SAME, .session = S, .key = K };
	struct backend_snapshot *snapshot;
	struct as_of as_of;
	int64_t first;

	NEEDS_HISTORY(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")));
	first = moment();
	for (int i = 0; i < 3; i++) {
		snapshot = look(backend);
		cr_assert_eq(as_of_find(backend, snapshot, &past, first, &as_of), 0);
		unlook(backend, snapshot);
		same.at = first;
		same.to = as_of.records;
		same.seq = as_of.newest;
		as_of_done(&as_of);
		cr_assert_eq(COMMIT(backend, same, row_insert(S, K, 2 + i, BYTES("c"))), 0);
		if (i == 2)
			COMMIT(backend, { .type = BACKEND_PAST_MERGE,
					  .session = S,
					  .key = K,
					  .at = first + 1,
					  .to = moment() });
		else
			COMMIT(backend, row_put(S, K, i, bytes_make(&"AB"[i], 1)));
		cr_assert_eq(COMMIT(backend, row_insert(S, K, 7, BYTES("d")), same), -ESTALE);
	}
	cr_assert_str_eq(rows_of(backend, S, K), "0=A 1=B 2=c 3=c 4=c");
}

/* A model: what the rows were at each moment. */

static uint32_t dice(uint32_t most)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (state >> 8) % most;
}

struct model {
	char row[ROWS][8]; /* "" behind the last one */
	int count;
};

static void model_show(const struct model *model, char *text)
{
	*text = '\0';
	for (int i = 0; i < model->count; i++)
		text += sprintf(text, "%d=%s ", i, model->row[i]);
}

static void act_put(struct backend *backend, struct model *model, const char *data)
{
	int at = model->count ? (int)dice((uint32_t)model->count) : 0;

	if (!model->count)
		return;
	strcpy(model->row[at], data);
	COMMIT(backend, row_put(S, K, at, bytes_str(data)));
}

static void act_append(struct backend *backend, struct model *model, const char *data)
{
	if (model->count == ROWS)
		return;
	strcpy(model->row[model->count], data);
	COMMIT(backend, row_insert(S, K, model->count++, bytes_str(data)));
}

static void act_cut(struct backend *backend, struct model *model, const char *data)
{
	(void)data;
	model->count = model->count ? (int)dice((uint32_t)model->count) : 0;
	COMMIT(backend, row_delete(S, K, model->count, INT64_MAX));
}

/* The first ones become one. */
static void act_compact(struct backend *backend, struct model *model, const char *data)
{
	int count = 2 + (int)dice(3);
	const struct backend_op shift = {
		.type = BACKEND_ROWS_SHIFT, .session = S, .key = K, .at = count, .to = 1 - count
	};

	if (count > model->count)
		return;
	COMMIT(backend, row_delete(S, K, 1, count - 1), shift, row_put(S, K, 0, bytes_str(data)));
	memmove(model->row[1], model->row[count],
		(size_t)(model->count - count) * sizeof(*model->row));
	strcpy(model->row[0], data);
	model->count -= count - 1;
}

/* One comes in front of all others. */
static void act_push(struct backend *backend, struct model *model, const char *data)
{
	const struct backend_op shift = {
		.type = BACKEND_ROWS_SHIFT, .session = S, .key = K, .at = 0, .to = 1
	};

	if (model->count == ROWS)
		return;
	COMMIT(backend, shift, row_insert(S, K, 0, bytes_str(data)));
	memmove(model->row[1], model->row[0], (size_t)model->count++ * sizeof(*model->row));
	strcpy(model->row[0], data);
}

static void act_anew(struct backend *backend, struct model *model, const char *data)
{
	COMMIT(backend, row_delete(S, K, INT64_MIN, INT64_MAX),
	       row_insert(S, K, 0, bytes_str(data)), row_insert(S, K, 1, bytes_str(data)));
	strcpy(model->row[0], data);
	strcpy(model->row[1], data);
	model->count = 2;
}

EveryStore(history, random_changes_are_seen_at_each_moment)
{
	static void (*const acts[])(struct backend *, struct model *, const char *) = {
		act_put, act_put,     act_append, act_append, act_append,
		act_cut, act_compact, act_push,	  act_anew,
	};
	static char seen[MOMENTS][1024];
	struct model model = { 0 };
	int64_t time[MOMENTS];

	NEEDS_HISTORY(backend);
	for (int i = 0; i < MOMENTS; i++) {
		char data[8];

		for (uint32_t times = 1 + dice(3); times; times--) {
			snprintf(data, sizeof(data), "%d%c", i, 'a' + (char)times);
			acts[dice(ARRAY_SIZE(acts))](backend, &model, data);
		}
		model_show(&model, seen[i]);
		time[i] = moment();
	}
	for (int i = 0; i < MOMENTS; i++)
		cr_assert_str_eq(then(backend, 0, K, time[i]), seen[i], "moment %d", i);
	/* Ten by ten they become one: of each ten the last is left. */
	for (int i = 0; i + 10 < MOMENTS; i += 10)
		COMMIT(backend, { .type = BACKEND_PAST_MERGE,
				  .session = S,
				  .key = K,
				  .at = time[i] + 1,
				  .to = time[i + 10] });
	for (int i = 0; i + 10 < MOMENTS; i++)
		cr_assert_str_eq(then(backend, 0, K, time[i]), seen[i / 10 * 10], "merged, %d", i);
}
