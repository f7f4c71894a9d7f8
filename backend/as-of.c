/* SPDX-License-Identifier: MIT */
/* The rows of a key as of a time (backend/history.h). */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

/* Rows that stand somewhere else, or nowhere. */
struct item {
	int64_t first;
	int64_t last;
	int64_t n;
	int where;
};

struct finding {
	struct as_of *as_of;
	/* One row each, of records that may be taken back in any order: the oldest of an index
	 * counts. */
	struct item *item;
	size_t count;
	size_t room;
};

static bool goes_on(const struct as_of_run *run, int64_t index, int where, int64_t at)
{
	return (int)run->where == where &&
	       (where == RUN_NONE ||
		(uint64_t)at - (uint64_t)run->at == (uint64_t)index - (uint64_t)run->index);
}

static int add_run(struct as_of *as_of, int64_t index, int where, int64_t at)
{
	if (as_of->count && goes_on(&as_of->run[as_of->count - 1], index, where, at))
		return 0;
	if (ARRAY_ROOM(as_of->run, as_of->count, as_of->room) < 0)
		return -ENOMEM;
	as_of->run[as_of->count++] = (struct as_of_run){ index, where, at };
	return 0;
}

static int64_t run_at(const struct as_of_run *run, int64_t index)
{
	return run->where == RUN_NONE ?
		       0 :
		       (int64_t)((uint64_t)run->at + (uint64_t)index - (uint64_t)run->index);
}

/* The run that has an index. */
static size_t run_of(const struct as_of *as_of, int64_t index)
{
	size_t low = 0, high = as_of->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (as_of->run[middle].index <= index)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Add what is between two indexes, each as much further on. */
static int copy_runs(struct as_of *to, const struct as_of *from, int64_t first, int64_t last,
		     int64_t by)
{
	int r = 0;

	for (size_t i = run_of(from, first); r == 0 && i < from->count; i++) {
		const struct as_of_run *run = &from->run[i];
		int64_t begin = MAX(run->index, first), index;

		if (begin > last)
			break;
		if (__builtin_add_overflow(begin, by, &index))
			return begin == INT64_MAX || by > 0 ? 0 : -ERANGE;
		r = add_run(to, index, (int)run->where, run_at(run, begin));
	}
	return r;
}

static void take_runs(struct as_of *as_of, struct as_of *made)
{
	free(as_of->run);
	as_of->run = made->run;
	as_of->count = made->count;
	as_of->room = made->room;
}

/* Put items in, in their order, which do not overlap. */
static int put_items(struct as_of *as_of, const struct item *item, size_t count)
{
	struct as_of made = { 0 };
	int64_t next = INT64_MIN;
	bool more = true;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (item[i].first > next)
			r = copy_runs(&made, as_of, next, item[i].first - 1, 0);
		if (r == 0)
			r = add_run(&made, item[i].first, item[i].where, item[i].n);
		more = item[i].last < INT64_MAX;
		next = item[i].last + more;
	}
	if (r == 0 && more)
		r = copy_runs(&made, as_of, next, INT64_MAX, 0);
	if (r < 0)
		free(made.run);
	else
		take_runs(as_of, &made);
	return r;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->n < y->n ? -1 : x->n > y->n;
}

static int flush(struct finding *finding)
{
	size_t kept = 0;
	int r;

	if (!finding->count)
		return 0;
	qsort(finding->item, finding->count, sizeof(*finding->item), compare_items);
	for (size_t i = 0; i < finding->count; i++)
		if (!kept || finding->item[kept - 1].first != finding->item[i].first)
			finding->item[kept++] = finding->item[i];
	r = put_items(finding->as_of, finding->item, kept);
	finding->count = 0;
	return r;
}

static int put_row(struct finding *finding, const struct backend_past *past)
{
	if (ARRAY_ROOM(finding->item, finding->count, finding->room) < 0)
		return -ENOMEM;
	finding->item[finding->count++] =
		(struct item){ past->index, past->index, past->n,
			       past->what == PAST_ROW ? RUN_PAST : RUN_NONE };
	return 0;
}

/* What has moved stands where it was. */
static int move_back(struct as_of *as_of, int64_t first, int64_t by)
{
	struct as_of made = { 0 };
	int64_t start;
	int r;

	if (first == INT64_MIN || __builtin_add_overflow(first, by, &start))
		return 0;
	r = copy_runs(&made, as_of, INT64_MIN, MIN(first, start) - 1, 0);
	if (r == 0 && by < 0)
		r = add_run(&made, start, RUN_NONE, 0);
	if (r == 0)
		r = copy_runs(&made, as_of, start, INT64_MAX, -by);
	if (r < 0)
		free(made.run);
	else
		take_runs(as_of, &made);
	return r;
}

static int take_back(void *arg, const struct backend_past *past)
{
	struct finding *finding = arg;
	struct as_of *as_of = finding->as_of;
	struct item none = { past->index, past->last, 0, RUN_NONE };
	int r;

	as_of->records++;
	as_of->newest = MAX(as_of->newest, past->n);
	as_of->whole &= past->what == PAST_MERGED || past->what == PAST_UNDONE;
	switch (past->what) {
	case PAST_NONE:
		if (past->last < past->index)
			return 0;
		as_of->came = true;
		if (past->last > past->index) {
			r = flush(finding);
			return r < 0 ? r : put_items(as_of, &none, 1);
		}
		__attribute__((fallthrough));
	case PAST_ROW:
		return put_row(finding, past);
	case PAST_MOVED:
		r = flush(finding);
		return r < 0 ? r : move_back(as_of, past->index, past->last);
	case PAST_MERGED:
		if (past->index == INT64_MIN)
			as_of->time = MAX(as_of->time, past->last);
		else if (past->index <= as_of->time)
			as_of->time = past->index - 1;
		return 0;
	case PAST_GONE:
		if (past->index > as_of->time)
			return 0;
		as_of->came = true;
		r = flush(finding);
		none.first = INT64_MIN;
		none.last = INT64_MAX;
		return r < 0 ? r : put_items(as_of, &none, 1);
	case PAST_UNDONE:
		break;
	}
	return 0;
}

int as_of_find(struct backend *backend, struct backend_snapshot *snapshot,
	       const struct backend_past_key *key, int64_t time, struct as_of *ret_as_of)
{
	struct finding finding = { .as_of = ret_as_of };
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	*ret_as_of = (struct as_of){
		.key = *key,
		.time = time,
		.since = time,
		.now = now.tv_sec * INT64_C(1000000000) + now.tv_nsec,
		.whole = true,
	};
	r = add_run(ret_as_of, INT64_MIN, RUN_ROWS, INT64_MIN);
	if (r == 0)
		r = backend_past_list(backend, snapshot, key, time, take_back, &finding);
	if (r == 0)
		r = flush(&finding);
	free(finding.item);
	if (r < 0)
		as_of_done(ret_as_of);
	return r;
}

void as_of_done(struct as_of *as_of)
{
	free(as_of->run);
	as_of->run = NULL;
	as_of->count = as_of->room = 0;
}

uint64_t as_of_sum(const struct as_of *as_of)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < as_of->count; i++) {
		const struct as_of_run *run = &as_of->run[i];

		sum = (sum ^ (uint64_t)run->index) * UINT64_C(0x9e3779b97f4a7c15);
		sum = (sum ^ (uint64_t)run->at ^ (uint64_t)run->where << 62) *
		      UINT64_C(0xbf58476d1ce4e5b9);
		sum ^= sum >> 29;
	}
	return sum;
}

struct reading {
	const struct as_of *as_of;
	int64_t by;    /* from where a row is to its index */
	int64_t first; /* of the run, where it is */
	int64_t last;
	backend_row_time_fn *fn;
	void *arg;
	bool stopped;
};

/* A clock that was wrong makes rows of a time to come. */
static bool made_later(const struct as_of *as_of, int64_t created)
{
	return created > as_of->time && created <= as_of->now;
}

static int on_row(void *arg, int64_t at, struct backend_times times, struct bytes data)
{
	struct reading *reading = arg;
	const struct as_of *as_of = reading->as_of;
	int r;

	if (at < reading->first || at > reading->last)
		return 1;
	if (!as_of->cut && made_later(as_of, times.created))
		return 0;
	r = reading->fn(reading->arg, (int64_t)((uint64_t)at + (uint64_t)reading->by), times, data);
	reading->stopped = r > 0;
	return r;
}

static int read_run(struct backend *backend, struct backend_snapshot *snapshot, size_t i,
		    int64_t from, bool back, struct reading *reading)
{
	const struct as_of *as_of = reading->as_of;
	const struct as_of_run *run = &as_of->run[i];
	const struct backend_past_key *key = &as_of->key;
	int64_t first = run->index;
	int64_t last = i + 1 < as_of->count ? as_of->run[i + 1].index - 1 : INT64_MAX;

	*(back ? &last : &first) = back ? MIN(last, from) : MAX(first, from);
	if (run->where == RUN_NONE || first > last)
		return 0;
	reading->by = (int64_t)((uint64_t)run->index - (uint64_t)run->at);
	reading->first = run_at(run, first);
	reading->last = run_at(run, last);
	/* The end of the numbers. */
	if (reading->last < reading->first)
		reading->last = INT64_MAX;
	if (run->where == RUN_PAST)
		return backend_past_read(backend, snapshot, key, reading->first, reading->last,
					 back, on_row, reading);
	from = back ? reading->last : reading->first;
	return key->ino ? backend_hidden_read(backend, snapshot, key->ino, from, back, on_row,
					      reading) :
			  backend_row_read_times(backend, snapshot, key->session, key->key, from,
						 back, UINT64_MAX, on_row, reading);
}

int as_of_read(struct backend *backend, struct backend_snapshot *snapshot,
	       const struct as_of *as_of, int64_t from, bool back, backend_row_time_fn *fn,
	       void *arg)
{
	struct reading reading = { .as_of = as_of, .fn = fn, .arg = arg };
	size_t i = run_of(as_of, from);
	int r = 0;

	for (bool more = true; r == 0 && more && !reading.stopped;) {
		r = read_run(backend, snapshot, i, from, back, &reading);
		more = back ? i > 0 : i + 1 < as_of->count;
		i += back ? (size_t)-1 : 1;
	}
	return MIN(r, 0);
}

struct probe {
	const struct as_of *as_of;
	int64_t index;
	enum { PROBE_NOTHING, PROBE_ROW, PROBE_LATER } found;
};

static int on_probe(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct probe *probe = arg;

	(void)data;
	probe->index = index;
	probe->found = made_later(probe->as_of, times.created) ? PROBE_LATER : PROBE_ROW;
	return 1;
}

int as_of_cut(struct backend *backend, struct backend_snapshot *snapshot, struct as_of *as_of,
	      int64_t *ret_end)
{
	struct item none = { .last = INT64_MAX, .where = RUN_NONE };
	int64_t low = INT64_MIN, high = INT64_MAX, at = INT64_MAX, end = INT64_MIN;
	bool found = false; /* low: all up to there was there; what is from high on was not */
	uint64_t step = 1;
	int r;

	as_of->cut = true;
	/* From the end in growing steps to a row that was there; then by halves. */
	do {
		struct probe probe = { .as_of = as_of };

		r = as_of_read(backend, snapshot, as_of, at, true, on_probe, &probe);
		if (r < 0)
			return r;
		if (probe.found == PROBE_LATER) {
			high = probe.index;
		} else {
			found = true;
			low = at;
			end = probe.found ? MIN(probe.index, INT64_MAX - 1) + 1 : INT64_MIN;
		}
		if (found)
			at = low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
		else
			at = (uint64_t)high - (uint64_t)INT64_MIN > step ? high - (int64_t)step :
									   INT64_MIN;
		step *= 2;
	} while (found ? at > low : high > INT64_MIN);
	none.first = *ret_end = end;
	return put_items(as_of, &none, 1);
}

static int found_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	bool *any = arg;

	(void)index;
	(void)times;
	(void)data;
	*any = true;
	return 1;
}

int as_of_any(struct backend *backend, struct backend_snapshot *snapshot,
	      const struct backend_past_key *key, int64_t time, bool made, bool *ret_any)
{
	struct as_of as_of;
	int r = as_of_find(backend, snapshot, key, time, &as_of);

	*ret_any = r == 0 && made && !as_of.came;
	if (r < 0)
		return r;
	if (!*ret_any)
		r = as_of_read(backend, snapshot, &as_of, INT64_MIN, false, found_row, ret_any);
	as_of_done(&as_of);
	return r;
}
