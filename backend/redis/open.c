/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "backend/backend.h"
#include "backend/redis/feed.h"
#include "backend/redis/mounts.h"
#include "backend/redis/pack.h"
#include "backend/redis/read.h"
#include "backend/redis/redis.h"
#include "backend/redis/slots.h"
#include "backend/redis/watch.h"
#include "backend/setup.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "backend/base/tick.h"

static const char default_prefix[] = "agentscope:session:";
static const uint64_t ITEM_MAX = (UINT64_C(512) << 20) - 65536;

int redis_sync(struct backend *backend)
{
	/* What is committed is as durable as the server makes it. */
	(void)backend;
	return 0;
}

int redis_space(struct backend *backend, struct backend_space *ret_space)
{
	struct redis *store = redis_of(backend);
	struct redis_server server = { 0 };
	struct redis_lane *lane = redis_take(store);
	int r = lane->wire ? redis_server_look(lane->wire, redis_until(store), &server) : -EAGAIN;

	redis_give(store, lane);
	if (r < 0)
		server = store->server;
	ret_space->total = server.maxmemory ? server.maxmemory : server.system;
	ret_space->used = server.used;
	ret_space->free = ret_space->total > server.used ? ret_space->total - server.used : 0;
	return 0;
}

static void redis_free(struct redis *store)
{
	for (size_t i = 0; i < REDIS_LANES; i++)
		wire_free(store->pool.lanes[i].wire);
	for (size_t i = 0; i < REDIS_KEYS; i++)
		free(store->keys[i]);
	feed_notes_done(&store->state.waiting);
	uses_done(&store->state.uses);
	names_done(&store->state.sessions);
	if (store->url)
		url_done(store->url);
	free(store->url);
	free(store->prefix);
	free(store->ours);
	free(store->place);
	free(store->owner);
	pthread_mutex_destroy(&store->pool.lock);
	pthread_cond_destroy(&store->pool.given);
	pthread_mutex_destroy(&store->state.lock);
	pthread_cond_destroy(&store->state.moved);
	pthread_mutex_destroy(&store->telling);
	free(store);
}

static void redis_freep(struct redis **store)
{
	if (*store)
		redis_free(*store);
}

void redis_close(struct backend *backend)
{
	struct redis *store = redis_of(backend);

	redis_watch_stop(store);
	redis_leave(store);
	redis_free(store);
}

static const struct backend_changes redis_changes = {
	.change_list = redis_change_list,
	.change_find = redis_change_find,
	.change_waiting = redis_change_waiting,
	.change_wait = redis_change_wait,
	.wake = redis_wake,
	.session_names = redis_session_names,
};

/* clang-format off */
#define READ(slot, ...) .slot = redis_##slot,
#define READ_ROWS READ
static const struct backend_joined redis_joined = { BACKEND_JOINED };

static const struct backend_shared redis_shared = {
	.is_shared = redis_is_shared,
	.on_duty = redis_on_duty,
	.turn = redis_turn,
	.hold = redis_hold,
	.use = redis_use,
	.lease = redis_lease,
	.feed_done = redis_feed_done,
	BACKEND_SHARED
};

static const struct backend_snapshots redis_snapshots = { .snapshot_begun = redis_snapshot_begun };

static const struct backend_ops redis_ops = {
	.name = "redis",
	.close = redis_close,
	.snapshot_begin = redis_snapshot_begin,
	.snapshot_end = redis_snapshot_end,
	.commit = redis_commit,
	.sync = redis_sync,
	.space = redis_space,
	BACKEND_READS
	.joined = &redis_joined,
	.changes = &redis_changes,
	.shared = &redis_shared,
	.snapshots = &redis_snapshots,
};
#undef READ
#undef READ_ROWS
/* clang-format on */

static int make_names(struct redis *store, const struct url *url)
{
	static const char letters[] = "ovmgfcplws";
	const char *prefix = url->prefix ? url->prefix : default_prefix;
	const size_t size = strlen(prefix);
	bool made;

	store->prefix = bytes_dup(bytes_str(prefix));
	store->ours = str_printf("sessfs:%.*s", (int)(size - (prefix[size - 1] == ':')), prefix);
	made = store->prefix && store->ours;
	for (size_t i = 0; made && i < REDIS_KEYS; i++)
		made = (store->keys[i] = str_printf("%s:%c", store->ours, letters[i]));
	return made ? 0 : -ENOMEM;
}

static int make(const struct url *url, const struct backend_options *options,
		struct redis **ret_store)
{
	_cleanup_(redis_freep) struct redis *store = calloc(1, sizeof(*store));
	_cleanup_(freep) char *text = url_text(url);
	int r;

	if (!store)
		return -ENOMEM;
	pthread_mutex_init(&store->pool.lock, NULL);
	pthread_cond_init(&store->pool.given, NULL);
	pthread_mutex_init(&store->state.lock, NULL);
	tick_cond_init(&store->state.moved);
	pthread_mutex_init(&store->telling, NULL);
	store->backend.max_item = ITEM_MAX;
	store->backend.read_only = options->read_only;
	store->state.alone = true;
	store->url = calloc(1, sizeof(*store->url));
	r = store->url ? url_copy(url, store->url) : -ENOMEM;
	if (r == 0)
		r = make_names(store, url);
	if (r == 0)
		r = text ? url_name(text, &store->place, NULL) : -ENOMEM;
	if (r == 0 && options->owner && !(store->owner = bytes_dup(bytes_str(options->owner))))
		r = -ENOMEM;
	if (r < 0)
		return r;
	backend_init(&store->backend, &redis_ops);
	*ret_store = steal_ptr(store);
	return 0;
}

/* The first connection: what server it is, and whether it can hold a store. */
static int meet(struct redis *store, char **ret_why)
{
	const int64_t until = redis_until(store);
	struct redis_lane *lane = &store->pool.lanes[0];
	struct redis_server server = { 0 };
	int r;

	for (bool judged = false;; tick_pause(100)) {
		r = lane->wire ? 0 : redis_connect(store, until, &lane->wire, ret_why);
		if (r == 0)
			r = redis_server_look(lane->wire, until, &server);
		if (r == 0 && !judged) {
			r = redis_server_judge(store, &server, ret_why);
			judged = true;
		}
		if (r == 0)
			r = redis_server_settle(store, lane->wire, until, &server);
		if (r == 0)
			r = redis_load(store, lane->wire, until);
		if (r != -EAGAIN || tick_ms() > until)
			break;
		free(*ret_why);
		*ret_why = NULL;
	}
	if (r == -EAGAIN)
		return str_explain(ret_why, -EBUSY,
				   "%s is still loading its data, or runs a long script",
				   store->place);
	if (r == -EACCES && !*ret_why)
		return str_explain(ret_why, r, "the user %s of %s may not call INFO",
				   store->url->user, store->place);
	if (r == -ENOTCONN)
		return str_explain(ret_why, r, "%s does not answer as Redis does", store->place);
	if (r < 0 && !*ret_why)
		str_explain(ret_why, r, "%s cannot hold a store: %s", store->place, strerror(-r));
	store->server = server;
	return r;
}

int redis_store_meet(const struct url *url, const struct backend_options *options,
		     struct redis **ret_store, char **ret_why)
{
	int r = make(url, options, ret_store);

	return r < 0 ? r : meet(*ret_store, ret_why);
}

static int is_one(void *arg, struct bytes session)
{
	(void)session;
	*(bool *)arg = true;
	return 1;
}

/* A root, and that rows may be there that have no files yet. */
static int put_root(struct redis *store)
{
	struct backend_node root = { .ino = BACKEND_ROOT,
				     .parent = BACKEND_ROOT,
				     .mode = S_IFDIR | 0755,
				     .uid = geteuid(),
				     .gid = getegid(),
				     .nlink = 2,
				     .atime = time_now() };
	const struct backend_op ops[] = {
		{ .type = BACKEND_NODE_PUT, .node = &root },
		{ .type = BACKEND_SETTING, .name = BYTES(BACKEND_UNADOPTED), .data = BYTES("1") },
	};
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };
	struct backend_node there;
	bool rows = false;
	int r = redis_node_get(&store->backend, &snapshot, BACKEND_ROOT, &there);

	if (r == 0)
		backend_node_done(&there);
	if (r != -ENOENT)
		return r;
	root.mtime = root.ctime = root.btime = root.atime;
	r = redis_session_names(&store->backend, is_one, &rows);
	if (r < 0)
		return r;
	return backend_commit(&store->backend, ops, rows ? 2 : 1, BACKEND_ANYWAY);
}

/* *ret_format: 0: there is none yet. */
static int find_store(struct redis *store, const struct backend_options *options,
		      int64_t *ret_format, char **ret_why)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	int r = redis_ask(store, &reply, "HGET $n format", OP(.name = bytes_str(store->keys[2])));
	const int64_t format = reply_number(&reply);

	if (r < 0)
		return r;
	*ret_format = format;
	if (format > REDIS_FORMAT)
		return str_explain(
			ret_why, -EPROTONOSUPPORT,
			"%s has a store of a newer format (%lld); install a newer sessfs",
			store->place, (long long)format);
	if (format && format < REDIS_FORMAT && options->read_only)
		return str_explain(ret_why, -EROFS,
				   "%s is a store of an older sessfs; mount it once for writing",
				   store->place);
	if (format || (options->create && !options->read_only))
		return 0;
	return str_explain(ret_why, -ENOENT,
			   "there is no store at %s yet; mount it without -o ro, or run 'sessfs "
			   "setup'",
			   store->place);
}

static int open_store(struct redis *store, const struct backend_options *options, char **ret_why)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	const bool joins = !options->read_only;
	int64_t found = 0;
	int r = meet(store, ret_why);

	if (r == 0)
		r = find_store(store, options, &found, ret_why);
	if (r == 0 && found && found < REDIS_FORMAT)
		r = redis_bring_forward(store, ret_why);
	if (r == 0 && joins)
		r = redis_join(store, options->shared, ret_why);
	if (r == 0 && !found)
		r = put_root(store);
	if (r == 0 && !found)
		r = redis_ask(store, &reply, "HSET $n format #t",
			      OP(.name = bytes_str(store->keys[2]), .to = REDIS_FORMAT));
	if (r == 0)
		r = redis_watch_start(store, joins && store->owner && store->state.alone);
	if (r < 0 && !*ret_why)
		str_explain(ret_why, r, "cannot open %s: %s", store->place, strerror(-r));
	return r;
}

/* Each user can make a store; only rights may be missing. */
static int say_setup(struct redis *store, const struct backend_setup *setup)
{
	_cleanup_(freep) char *rights = str_printf(
		"ACL SETUSER USER ~%s* ~%s:* ~%s &__redis__:invalidate +@all -@dangerous +info "
		"+bgrewriteaof +config|get;\n",
		store->prefix, store->ours, store->ours);

	if (!rights)
		return -ENOMEM;
	setup->statement(setup->arg, rights, true);
	return 0;
}

int redis_store_open(const struct url *url, const struct backend_options *options,
		     struct backend **ret_backend, char **ret_why)
{
	_cleanup_(freep) char *unheard = NULL;
	char **why = ret_why ? ret_why : &unheard;
	struct redis *store;
	int r;

	*why = NULL;
	if (options->table)
		return str_explain(
			why, -EINVAL,
			"a store on Redis has no tables; prefix= in its URL says what its "
			"keys begin with");
	r = make(url, options, &store);
	if (r < 0)
		return r;
	if (url->setup && url->setup->dry_run)
		r = say_setup(store, url->setup);
	else
		r = open_store(store, options, why);
	if (r == 0 && url->setup && !url->setup->dry_run)
		r = say_setup(store, url->setup);
	if (r < 0 || url->setup) {
		redis_close(&store->backend);
		return r;
	}
	*ret_backend = &store->backend;
	return 0;
}
