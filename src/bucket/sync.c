/* SPDX-License-Identifier: MIT */
/*
 * Looking at both sides, and the threads that carry over what differs, each with one request at a
 * time.  An export gives each folder to one of them: numbered messages appear in their order.  An
 * import asks for many files of a folder at once, and writes them in their order.
 */
#include "src/bucket/sync.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "backend/base/log.h"
#include "src/exchange/import.h"
#include "src/user/stop.h"

enum {
	THREADS = 32,
	STACK = 256 << 10,
	HELD_MAX = 24 << 20, /* bytes of contents in memory, or one content that is larger */
	REDRAW_MS = 200,
};

/* ---- Both sides ---- */

static int add_object(void *arg, const struct s3_object *object)
{
	struct sync *sync = arg;
	int r = plan_add_object(&sync->plan, object);

	if (r == -EINVAL)
		return copier_refuse(&sync->copier,
				     "s3://%s/%.*s: no file can have this name, so it is left out",
				     sync->bucket->name, (int)object->key.size, object->key.data);
	sync->copier.left += r == 0;
	return stop_wanted() ? -EINTR : MIN(r, 0);
}

static int enter_dir(struct copier *copier, struct copier_entry *entry)
{
	(void)copier, (void)entry;
	return 0;
}

static int add_file(struct copier *census, struct copier_entry *entry)
{
	struct sync *sync = census->arg;
	int r = 0;

	if (strncmp(entry->path, PLAN_FILES, strlen(PLAN_FILES)) == 0)
		return 0;

	if (S_ISREG(entry->st.st_mode))
		r = plan_add_file(&sync->plan, entry->path, &entry->st);
	if (r == -EINVAL)
		return copier_refuse(&sync->copier,
				     "%s: %s: the layout %s has another meaning for this name, so "
				     "it is left out",
				     sync->copier.store, entry->path, sync->layout->name);
	sync->copier.left += sync->up && r == 0;
	return MIN(r, 0);
}

static int look_at_both(struct sync *sync)
{
	static const struct copier_sink sink = { .enter = enter_dir, .leaf = add_file };
	struct copier census = {
		.from = sync->access, .store = sync->copier.store, .sink = &sink, .arg = sync
	};
	int r = plan_begin(&sync->plan);

	sync->copier.left = 0;
	if (r == 0)
		r = bucket_list(sync->bucket, buf_bytes(&sync->plan.base), 0, add_object, sync);
	if (r == 0 && sync->access)
		r = copier_run(&census);
	/* What could not be read would look as if it had been removed. */
	return r == 0 && census.failed ? -EIO : r;
}

/* ---- Threads ---- */

static uint64_t need_of(const struct task *task)
{
	uint64_t need = task->stamp.size > 0 ? (uint64_t)task->stamp.size : 0;

	for (size_t i = 0; i < task->count; i++)
		if (strcmp(task->items[i].etag, task->items[i].known_etag) != 0)
			need += task->items[i].size;
	return need;
}

static int remember(struct task *last, const struct task *task)
{
	task_done(last);
	last->folder = strdup(task->folder);
	last->path = strdup(task->path);
	return last->folder && last->path ?
		       buf_append_bytes(&last->place, buf_bytes(&task->place)) :
		       -ENOMEM;
}

/* The next task: 1, 0, -errno. */
static int claim_next(struct sync *sync, struct task *task)
{
	int r = 0;

	/* Of a thread that exports, in its own folder; else behind the last that was claimed. */
	if (sync->up && task->path)
		r = plan_next(&sync->plan, task, true);
	if (r != 0)
		return r;
	if (sync->last.path)
		r = remember(task, &sync->last);
	if (r == 0 && !sync->up && task->path)
		r = plan_next(&sync->plan, task, true);
	if (r == 0)
		r = plan_next(&sync->plan, task, false);
	if (r == 1)
		r = remember(&sync->last, task) < 0 ? -ENOMEM : 1;
	return r;
}

/* Memory is given in the order of the tickets, so the oldest task always has it. */
static int claim(struct sync *sync, struct task *task, uint64_t *ret_ticket, uint64_t *ret_need)
{
	int r;

	pthread_mutex_lock(&sync->lock);
	while (sync->claiming)
		pthread_cond_wait(&sync->changed, &sync->lock);
	sync->claiming = true;
	r = sync->error || stop_wanted() ? 0 : claim_next(sync, task);
	if (r == 1) {
		*ret_ticket = sync->claimed++;
		*ret_need = need_of(task);
		while (sync->held && sync->held + *ret_need > HELD_MAX)
			pthread_cond_wait(&sync->changed, &sync->lock);
		sync->held += *ret_need;
	}
	if (r < 0 && !sync->error)
		sync->error = r;
	sync->claiming = false;
	pthread_cond_broadcast(&sync->changed);
	pthread_mutex_unlock(&sync->lock);
	return r;
}

void sync_turn(struct sync *sync, uint64_t ticket)
{
	while (sync->done != ticket)
		pthread_cond_wait(&sync->changed, &sync->lock);
}

static void *work(void *arg)
{
	struct sync *sync = arg;
	struct task task = { 0 };
	uint64_t ticket, need;
	int r;

	while (claim(sync, &task, &ticket, &need) == 1) {
		r = sync_file(sync, &task, ticket);
		pthread_mutex_lock(&sync->lock);
		/* Also where nothing was written, as others wait for their turn. */
		if (!sync->up)
			sync_turn(sync, ticket);
		sync->done++;
		sync->held -= need;
		if (r < 0 && !sync->error)
			sync->error = r;
		pthread_cond_broadcast(&sync->changed);
		pthread_mutex_unlock(&sync->lock);
	}
	task_done(&task);
	pthread_mutex_lock(&sync->lock);
	sync->running--;
	pthread_cond_broadcast(&sync->changed);
	pthread_mutex_unlock(&sync->lock);
	return NULL;
}

static void draw_on(struct sync *sync)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += REDRAW_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&sync->changed, &sync->lock, &until);
	progress_add(&sync->progress, sync->done - sync->progress.items, 0);
}

static int run_tasks(struct sync *sync, uint64_t count)
{
	const unsigned most = (unsigned)MIN(count, THREADS);
	pthread_t threads[THREADS];
	pthread_attr_t attr;
	unsigned started = 0;

	sync->claimed = sync->done = 0;
	progress_set_total(&sync->progress, count, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_mutex_lock(&sync->lock);
	while (started < most && pthread_create(&threads[started], &attr, work, sync) == 0)
		started++;
	sync->running = started;
	while (sync->running)
		draw_on(sync);
	pthread_mutex_unlock(&sync->lock);
	pthread_attr_destroy(&attr);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	task_done(&sync->last);
	return most && !started ? -EAGAIN : sync->error;
}

int sync_run(struct sync *sync)
{
	uint64_t count = 0;
	int r, kept;

	sync->error = 0;
	progress_begin(&sync->progress, sync->up ? "export" : "import", "file");
	r = look_at_both(sync);
	if (r == 0)
		r = plan_find(&sync->plan, &count);
	sync->unchanged = sync->plan.unchanged;
	if (r == 0)
		r = run_tasks(sync, count);
	kept = plan_flush(&sync->plan);
	if (r == 0)
		r = kept;
	if (r == 0 && sync->access && !sync->dry)
		r = access_sync(sync->access);
	progress_end(&sync->progress);
	return stop_wanted() ? -EINTR : r;
}

/* ---- Layouts ---- */

/* Whether an object is of this layout, with a base that is appended. */
static bool layout_fits(const struct bucket_layout *layout, const char *prefix, struct bytes key,
			struct buf *base)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	enum bucket_form form;

	for (int other = 0; other < 2; other++)
		if (layout_base(layout, prefix, other, base) == 0 &&
		    bytes_starts_with(key, buf_bytes(base)) &&
		    layout_path_of(layout, "",
				   bytes_make(key.data + base->size, key.size - base->size), &path,
				   &form) == 1)
			return true;
	return false;
}

static int guess_object(void *arg, const struct s3_object *object)
{
	struct sync *sync = arg;

	for (size_t i = 0; i < BUCKET_LAYOUTS; i++) {
		const struct bucket_layout *layout = &bucket_layouts[i];

		if ((sync->layout && sync->layout != layout) ||
		    !layout_fits(layout, sync->bucket->prefix, object->key, &sync->plan.base))
			continue;
		sync->plan.layout = layout;
		return -ECANCELED;
	}
	return 0;
}

/* By the first thousand objects; what is named counts in any case. */
static int find_layout(struct sync *sync)
{
	const struct bucket *bucket = sync->bucket;
	_cleanup_(freep) char *why = NULL;
	int r = bucket->ops->list(bucket->s3, bytes_str(bucket->prefix), 1000, guess_object, sync,
				  &why);

	if (r < 0 && r != -ECANCELED)
		return say_why(why, r);
	if (r == 0 && sync->layout)
		r = layout_base(sync->layout, bucket->prefix, false, &sync->plan.base);
	if (sync->plan.layout || sync->layout) {
		sync->layout = sync->plan.layout = sync->layout ? sync->layout : sync->plan.layout;
		return r == -ECANCELED ? 0 : r;
	}
	log_error("%s: no object there is one of a layout that sessfs knows; name the prefix that "
		  "the client uses, or the layout with --layout",
		  bucket->url);
	return -EINVAL;
}

static int name_file(struct sync *sync)
{
	static const uint8_t key[16];
	const struct plan *plan = &sync->plan;
	_cleanup_(freep) char *where =
		str_printf("%s\n%s\n%.*s\n%s", sync->bucket->ops->place(sync->bucket->s3),
			   sync->bucket->name, (int)plan->base.size,
			   plan->base.size ? plan->base.data : "", sync->layout->name);
	uint8_t digest[DIGEST_SIZE];

	if (!where)
		return -ENOMEM;
	digest_make(key, bytes_str(where), digest);
	snprintf(sync->plan.file, sizeof(sync->plan.file), PLAN_FILES "%s-%02x%02x%02x%02x%02x%02x",
		 sync->layout->name, digest[0], digest[1], digest[2], digest[3], digest[4],
		 digest[5]);
	return 0;
}

int sync_open(struct sync *sync)
{
	int r = find_layout(sync);

	pthread_mutex_init(&sync->lock, NULL);
	pthread_cond_init(&sync->changed, NULL);
	if (r < 0)
		return r;
	sync->plan.root = layout_root(sync->layout, sync->store_layouts);
	sync->plan.glob = sync->glob;
	sync->plan.access = sync->access;
	r = name_file(sync);
	if (r == 0)
		r = plan_open(&sync->plan);
	return r < 0 ? say_why(NULL, r) : 0;
}

int sync_close(struct sync *sync)
{
	int r = plan_close(&sync->plan);

	pthread_mutex_destroy(&sync->lock);
	pthread_cond_destroy(&sync->changed);
	return r < 0 ? say_why(NULL, r) : 0;
}
