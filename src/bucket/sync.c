/* SPDX-License-Identifier: MIT */
/*
 * Looking at both sides, and carrying over what differs: many files at a time, each of which asks
 * the bucket in a thread, and the store before and after that, in its turn.  In an export these are
 * files of different folders, so numbered messages appear in their order.
 */
#include "src/bucket/sync.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "fs/base/layout.h"
#include "src/user/stop.h"

enum {
	BATCH = 128, /* files at a time */
	STACK = 256 << 10,
	HELD_MAX = 16 << 20, /* bytes of contents in memory before no file is added to a batch */
	GUESSES = 1000,	     /* objects that tell the layout */
};

void sync_digest(struct bytes bytes, char ret_digest[SYNC_DIGEST])
{
	static const uint8_t key[16];
	uint8_t digest[DIGEST_SIZE];

	digest_make(key, bytes, digest);
	for (size_t i = 0; i < DIGEST_SIZE; i++)
		snprintf(ret_digest + 2 * i, 3, "%02x", digest[i]);
}

/* ---- Both sides ---- */

/* A file's path, or an object's key behind the base. */
static int add(struct sync *sync, const char *name, bool is_object, const char *version,
	       uint64_t size)
{
	_cleanup_(buf_done) struct buf to = { 0 };
	enum bucket_form form;
	int r = plan_turn(&sync->plan, bytes_str(name), is_object, &to, &form);

	if (r == -EINVAL)
		return copier_refuse(&sync->copier, "%s: %s, so it is left out", name,
				     is_object ? "no file can have this name" :
						 "the layout has another meaning for this name");
	sync->copier.left += r == 0 && (is_object || sync->plan.up);
	return r <= 0	 ? r :
	       is_object ? plan_add(&sync->plan, to.data, name, version, size) :
			   plan_add(&sync->plan, name, "", version, size);
}

static int add_object(void *arg, const struct s3_object *object)
{
	struct sync *sync = arg;
	const size_t base = sync->plan.base.size;
	_cleanup_(freep) char *key =
		bytes_dup(bytes_make(object->key.data + base, object->key.size - base));

	if (!key || stop_wanted())
		return key ? -EINTR : -ENOMEM;
	return add(sync, key, true, object->etag, object->size);
}

static int enter_dir(struct copier *copier, struct copier_entry *entry)
{
	(void)copier, (void)entry;
	return 0;
}

static void stamp_of(const struct stat *st, char ret_stamp[SYNC_STAMP])
{
	snprintf(ret_stamp, SYNC_STAMP, "%lld %lld", (long long)st->st_size,
		 (long long)time_join(st->st_ctim));
}

int sync_stamp(struct sync *sync, const char *path, char ret_stamp[SYNC_STAMP])
{
	struct stat st;
	int r = access_stat(sync->plan.access, path, &st);

	*ret_stamp = '\0';
	if (r == 0)
		stamp_of(&st, ret_stamp);
	return r == -ENOENT ? 0 : r;
}

static int add_file(struct copier *census, struct copier_entry *entry)
{
	char stamp[SYNC_STAMP];

	if (!S_ISREG(entry->st.st_mode) ||
	    strncmp(entry->path, PLAN_FILES, strlen(PLAN_FILES)) == 0)
		return 0;
	stamp_of(&entry->st, stamp);
	return add(census->arg, entry->path, false, stamp, (uint64_t)entry->st.st_size);
}

static int look_at_both(struct sync *sync)
{
	static const struct copier_sink sink = { .enter = enter_dir, .leaf = add_file };
	struct copier census = {
		.from = sync->plan.access, .store = sync->copier.store, .sink = &sink, .arg = sync
	};
	int r = plan_begin(&sync->plan);

	sync->copier.left = 0;
	if (r == 0)
		r = bucket_list(sync->bucket, buf_bytes(&sync->plan.base), add_object, sync);
	if (r == 0 && sync->plan.access)
		r = copier_run(&census);
	/* What could not be read would look as if it had been removed. */
	return r == 0 && census.failed ? -EIO : r;
}

/* ---- What differs ---- */

struct batch {
	struct task tasks[BATCH];
	unsigned count;
	atomic_uint next, lanes;
};

static void batch_done(struct batch *batch)
{
	while (batch->count)
		task_done(&batch->tasks[--batch->count]);
}

static void *run_lane(void *arg)
{
	struct batch *batch = arg;
	const unsigned lane = atomic_fetch_add(&batch->lanes, 1);

	for (unsigned i; (i = atomic_fetch_add(&batch->next, 1)) < batch->count;) {
		batch->tasks[i].lane = lane;
		task_ask(&batch->tasks[i]);
	}
	return NULL;
}

static int run_lanes(struct batch *batch)
{
	pthread_t threads[S3_LANES];
	unsigned started = 0;
	pthread_attr_t attr;
	int r = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	while (r == 0 && started < MIN(batch->count, S3_LANES)) {
		r = -pthread_create(&threads[started], &attr, run_lane, batch);
		started += r == 0;
	}
	pthread_attr_destroy(&attr);
	while (started)
		pthread_join(threads[--started], NULL);
	return r;
}

static int run_batch(struct sync *sync, struct batch *batch)
{
	uint64_t held = 0;
	int r = 1, error = 0;

	while (r == 1 && batch->count < BATCH && held < HELD_MAX) {
		struct task *task = &batch->tasks[batch->count];

		r = plan_next(&sync->plan, !batch->count, task);
		batch->count += r != 0;
		held += task->need;
		task->sync = sync;
		if (r == 1 && task_read(task) < 0)
			r = -EIO;
	}
	if (r >= 0)
		r = run_lanes(batch);
	/* What is in the bucket already is kept in mind, also when one has failed. */
	for (unsigned i = 0; r >= 0 && i < batch->count && (sync->plan.up || !error); i++) {
		int done = error && batch->tasks[i].error ? 0 : task_finish(&batch->tasks[i]);

		error = error ? error : done;
		progress_add(&sync->progress, 1, 0);
	}
	return error ? error : r < 0 ? r : batch->count > 0;
}

static int run_tasks(struct sync *sync, uint64_t count)
{
	int r = 1;

	progress_set_total(&sync->progress, count, 0);
	while (r == 1 && !stop_wanted()) {
		_cleanup_(batch_done) struct batch batch = { 0 };

		r = run_batch(sync, &batch);
	}
	return r;
}

int sync_run(struct sync *sync)
{
	uint64_t count = 0;
	int r, kept;

	progress_begin(&sync->progress, sync->plan.up ? "export" : "import", "file");
	r = look_at_both(sync);
	memset(sync->counts, 0, sizeof(sync->counts));
	if (r == 0)
		r = plan_find(&sync->plan, &count, &sync->counts[SYNC_UNCHANGED]);
	if (r == 0)
		r = run_tasks(sync, count);
	kept = plan_flush(&sync->plan);
	if (r == 0)
		r = kept;
	if (r == 0 && sync->plan.access && !sync->dry)
		r = access_sync(sync->plan.access);
	progress_end(&sync->progress);
	return stop_wanted() ? -EINTR : r;
}

/* ---- Layouts ---- */

struct guess {
	struct sync *sync;
	unsigned objects;
};

/* The layout and the base by which an object is one of it. */
static int guess_object(void *arg, const struct s3_object *object)
{
	struct guess *guess = arg;
	struct plan *plan = &guess->sync->plan;
	const struct bytes key = object->key;
	_cleanup_(buf_done) struct buf path = { 0 };
	enum bucket_form form;

	for (size_t i = 0; i < 2 * BUCKET_LAYOUTS; i++) {
		const struct bucket_layout *layout = &bucket_layouts[i / 2];

		if ((guess->sync->layout && guess->sync->layout != layout) ||
		    layout_base(layout, guess->sync->bucket->prefix, i % 2, &plan->base) < 0 ||
		    !bytes_starts_with(key, buf_bytes(&plan->base)) ||
		    layout_turn(layout,
				bytes_make(key.data + plan->base.size, key.size - plan->base.size),
				true, NULL, &path, &form) != 1)
			continue;
		plan->layout = layout;
		return -ECANCELED;
	}
	return ++guess->objects < GUESSES ? 0 : -ECANCELED;
}

/* By its first objects; what is named counts in any case. */
static int find_layout(struct sync *sync)
{
	const struct bucket *bucket = sync->bucket;
	struct guess guess = { .sync = sync };
	int r = bucket_list(bucket, bytes_str(bucket->prefix), guess_object, &guess);

	if ((r < 0 && r != -ECANCELED) || sync->plan.layout)
		return r == -ECANCELED ? 0 : r;
	sync->plan.layout = sync->layout;
	if (sync->layout)
		return layout_base(sync->layout, bucket->prefix, false, &sync->plan.base);
	log_error("%s: no object there is one of a layout that sessfs knows; name the prefix that "
		  "the client uses, or the layout with --layout",
		  bucket->url);
	return -EINVAL;
}

int sync_open(struct sync *sync)
{
	struct plan *plan = &sync->plan;
	_cleanup_(freep) char *where = NULL;
	char digest[SYNC_DIGEST];
	uint64_t store = 0;
	int r = find_layout(sync);

	if (r < 0)
		return r;
	if (plan->layout->store)
		layouts_parse(plan->layout->store, &store);
	plan->below = sync->store_layouts & store ? plan->layout->below : "";
	where = str_printf("%s\n%s\n%.*s\n%s", sync->bucket->ops->place(sync->bucket->s3),
			   sync->bucket->name, (int)plan->base.size, plan->base.data,
			   plan->layout->name);
	if (!where)
		return -ENOMEM;
	sync_digest(bytes_str(where), digest);
	snprintf(plan->file, sizeof(plan->file), PLAN_FILES "%s-%.12s", plan->layout->name, digest);
	r = plan_open(plan);
	return r < 0 ? say_why(NULL, r) : 0;
}

int sync_close(struct sync *sync)
{
	int r = plan_close(&sync->plan);

	return r < 0 ? say_why(NULL, r) : 0;
}
