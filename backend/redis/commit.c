/* SPDX-License-Identifier: MIT */
/*
 * A commit is one call of the script, and made anew when that says that something is unread.
 *
 * Each thread has a connection of its own, so commits that go at once are sent at once, and a
 * server that syncs its log does so for all of them together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/redis/feed.h"
#include "backend/redis/mounts.h"
#include "backend/redis/ops.h"
#include "backend/redis/pack.h"
#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/redis/watch.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"

enum { TRIES = 1000, TURN_MS = 10000, TURN_PAUSE_MS = 2 };

struct commit {
	struct redis *store;
	struct backend_batch *batch;
	unsigned flags;
	bool shared;
	struct ops ops;
	struct before before;
	struct feed_notes notes;
	struct words told; /* the notes, as they are sent */
};

/* What operations meet, and is not known. */
static int want_before(struct commit *commit, struct reading *reading)
{
	const struct before *before = &commit->before;

	for (size_t i = 0; i < before->node_count; i++)
		if (!before->nodes[i].asked)
			call_say(&reading->call, "get [Ni]", OP(.ino = before->nodes[i].ino));
	for (size_t i = 0; i < before->entry_count; i++)
		if (!before->entries[i].asked)
			call_say(&reading->call, "get [Epa]",
				 OP(.parent = before->entries[i].parent,
				    .at = before->entries[i].id));
	return reading->call.request_count ? reading_ask(reading) : 0;
}

static int take_before(struct before *before, const struct reading *reading)
{
	size_t answer = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < before->node_count; i++) {
		_cleanup_(backend_node_done) struct backend_node node = { 0 };
		struct bytes value;

		if (before->nodes[i].asked)
			continue;
		value = reply_bytes(reading_answer(reading, answer++));
		r = value.data ? unpack_node(value, &node) : 0;
		if (r == 0)
			r = before_take_node(before, before->nodes[i].ino,
					     value.data ? &node : NULL);
	}
	for (size_t i = 0; r == 0 && i < before->entry_count; i++) {
		const struct before_entry *entry = &before->entries[i];
		struct bytes value, name = BYTES("");

		if (entry->asked)
			continue;
		value = reply_bytes(reading_answer(reading, answer++));
		if (value.size > 8)
			name = bytes_make(value.data + 8, value.size - 8);
		r = before_take_entry(before, entry->parent, entry->id, name,
				      value.size < 8 ? 0 : unpack_number(value.data),
				      value.size >= 8);
	}
	return r;
}

static int ask_before(struct commit *commit, const struct backend_op *ops, size_t count)
{
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };
	_cleanup_(reading_done) struct reading reading =
		reading_in(&commit->store->backend, &snapshot);
	int r = before_want(&commit->before, ops, count);

	if (r == 0)
		r = want_before(commit, &reading);
	if (r == 0)
		r = take_before(&commit->before, &reading);
	return r;
}

/* What others have left, of which this mount has read but not digested. */
static int commit_judge(struct commit *commit, const struct backend_op *op)
{
	const struct feed_state state = before_state(&commit->before);
	struct redis *store = commit->store;
	int r = 0;
	WITH_MUTEX(&store->state.lock);

	if (store->state.waiting.any)
		r = feed_judge(&store->state.waiting, &state, op, commit->batch->append);
	return r;
}

static int note(struct commit *commit, const struct backend_op *op)
{
	const struct feed_state state = before_state(&commit->before);
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };
	struct backend_change change;
	int r = 0;

	commit->before.change = NULL;
	if (op->type == BACKEND_CHANGE_DONE && op->session.data) {
		r = redis_change_find(&commit->store->backend, &snapshot, op->session, op->key,
				      &change);
		commit->before.change = r == 0 ? &change : NULL;
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0)
		r = feed_note(&commit->notes, &state, op);
	commit->before.change = NULL;
	return r < 0 ? r : before_apply(&commit->before, op);
}

static int add_ops(struct commit *commit, const struct backend_op *ops, size_t count)
{
	const struct backend_batch block = { .ops = ops,
					     .count = count,
					     .append = commit->batch->append };
	int r = commit->shared ? ask_before(commit, ops, count) : 0;

	for (size_t i = 0; r == 0 && commit->shared && i < count; i++)
		r = commit_judge(commit, &ops[i]);
	if (r == 0)
		feed_gates_add(&commit->ops.gates, &block, false, &commit->before);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = ops_add(&commit->ops, &ops[i]);
		if (r == 0 && commit->shared)
			r = note(commit, &ops[i]);
	}
	return r;
}

static int add_batch(struct commit *commit)
{
	struct backend_batch *batch = commit->batch;
	int r;

	if (batch->more && batch->rewind)
		batch->rewind(batch);
	for (;;) {
		r = add_ops(commit, batch->ops, batch->count);
		if (r < 0 || !batch->more)
			return r;
		r = batch->more(batch);
		if (r <= 0)
			return r;
	}
}

/* Notes. */

static int add_note(void *arg, const struct backend_feed *feed)
{
	_cleanup_(buf_done) struct buf packed = { 0 };
	_cleanup_(key_done) struct key index = { 0 };
	struct commit *commit = arg;
	struct words *told = &commit->told;
	int r = pack_note(feed, &packed);
	char parent[8];

	words_str(told, feed->what == BACKEND_FEED_ROWS	 ? "r" :
			feed->what == BACKEND_FEED_ENTRY ? "e" :
							   "n");
	words_add(told, buf_bytes(&packed));
	if (feed->what == BACKEND_FEED_ROWS) {
		index = key_of_state(KEY_FILE, feed->session, feed->key);
		words_number(told,
			     (int64_t)call_group(&commit->ops.call, feed->session, feed->key, 'c'));
		words_add(told, key_bytes(&index));
		words_number(told, feed->first);
	} else if (feed->what == BACKEND_FEED_ENTRY) {
		pack_number(feed->ino, parent);
		words_add(told, bytes_make(parent, sizeof(parent)));
		words_add(told, feed->name);
	}
	return r < 0 ? r : index.error < 0 ? index.error : told->error;
}

static int count_note(void *arg, const struct backend_feed *feed)
{
	(void)feed;
	++*(int64_t *)arg;
	return 0;
}

static int add_notes(struct commit *commit)
{
	int64_t count = 0;

	feed_each(&commit->notes, count_note, &count);
	words_number(&commit->told, count);
	if (count)
		words_number(&commit->told, getpid());
	return feed_each(&commit->notes, add_note, commit);
}

/* The head: which mount commits, what it has read, what it depends on. */
static void add_head(struct commit *commit, const struct redis_lane *lane)
{
	struct words *head = &commit->ops.call.head;
	const struct redis *store = commit->store;
	const struct ops *ops = &commit->ops;
	int64_t count = 0;
	char name[48], flags[8];

	snprintf(name, sizeof(name), "%llu.%d", (unsigned long long)store->number,
		 (int)(lane - store->pool.lanes));
	snprintf(flags, sizeof(flags), "-%s%s%s", commit->flags & BACKEND_ANYWAY ? "y" : "",
		 store->owner ? "" : "g", commit->shared ? "s" : "");
	words_str(head, "COMMIT");
	words_number(head, (int64_t)store->number);
	words_str(head, name);
	words_number(head, (int64_t)lane->seq);
	words_str(head, flags);
	words_number(head, (int64_t)store->state.seen);
	for (unsigned i = 0; i < FEED_GATES; i++)
		count += ops->gates.uses[i] || ops->reads[i];
	words_number(head, count);
	for (unsigned i = 0; i < FEED_GATES; i++) {
		const unsigned uses = ops->gates.uses[i];

		if (!uses && !ops->reads[i])
			continue;
		words_number(head, i);
		snprintf(flags, sizeof(flags), "-%s%s%s%s", uses & GATE_CHANGED ? "c" : "",
			 uses & (GATE_APPENDED | GATE_SET) ? "a" : "", uses & GATE_WHOLE ? "w" : "",
			 ops->reads[i] ? "r" : "");
		words_str(head, flags);
	}
}

/* In front of the operations: where an append comes. */
static void add_front(struct commit *commit)
{
	const struct backend_append *append = commit->batch->append;
	struct call *call = &commit->ops.call;

	words_number(&call->front,
		     append ? (int64_t)call_group(call, append->session, append->key, 'a') : 0);
	words_number(&call->front, append ? append->expected : 0);
}

static void take_result(struct commit *commit, const struct reply *reply)
{
	struct backend_append *append = commit->batch->append;
	long long n, base;
	unsigned long long bytes;
	const char *text = reply_at(reply, 1)->text.data;

	if (!append || !text || sscanf(text, "%lld %lld %llu", &n, &base, &bytes) != 3)
		return;
	append->first = append->expected + base;
	append->bytes = bytes;
}

/* Send it; again, with the same number, until it is known what has become of it. */
static int send_commit(struct commit *commit, struct reply *ret_reply)
{
	struct redis *store = commit->store;
	struct redis_lane *lane = redis_take(store);
	_cleanup_(buf_done) struct buf command = { 0 };
	int r;

	lane->seq++;
	add_head(commit, lane);
	commit->ops.call.script = commit->flags & BACKEND_FREES ? REDIS_COMMIT_FULL : REDIS_COMMIT;
	r = call_command(&commit->ops.call, &commit->told, &command);
	if (r == 0) {
		r = redis_send(store, lane, buf_bytes(&command), redis_until(store), ret_reply);
		if (r == -EIO && !lane->wire)
			lane->unsure = true;
		else if (lane->unsure && r == 0) {
			/* What was given up may have been done, and nobody here knows of it. */
			lane->unsure = false;
			redis_feed_lost(store);
		}
	}
	redis_give(store, lane);
	for (size_t i = 0; i < commit->ops.call.group_count; i++)
		if (strchr("ar", *call_touches(&commit->ops.call, &commit->ops.call.groups[i])))
			redis_note_own(store, commit->ops.call.groups[i].hash);
	return r;
}

/* 0; or -errno; 1: to be made anew. */
static int commit_once(struct commit *commit, int64_t until)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	struct redis *store = commit->store;
	const struct reply *word;
	int r;

	commit->ops.call.store = store;
	commit->ops.append = commit->batch->append;
	commit->shared = !store->state.alone;
	r = add_batch(commit);
	if (r == 0 && commit->shared)
		r = add_notes(commit);
	add_front(commit);
	if (r < 0)
		return r;
	if (commit->batch->visible)
		commit->batch->visible(commit->batch->visible_arg);
	r = send_commit(commit, &reply);
	if (r < 0)
		return r;
	word = reply_at(&reply, 0);
	if (reply_is(word, "SHARED")) {
		redis_set_alone(store, false);
		return 1;
	}
	if (reply_is(word, "GATES")) {
		r = redis_feed_take(store, reply_at(&reply, 1));
		return r < 0 ? r : 1;
	}
	if (reply_is(word, "TURN")) {
		if (commit->flags & BACKEND_AT_ONCE || tick_ms() > until)
			return -EBUSY;
		tick_pause(TURN_PAUSE_MS);
		return 1;
	}
	if (reply_is(word, "LOCKS"))
		return 1;
	r = redis_status(store, &reply);
	if (r == -EOWNERDEAD) {
		r = redis_rejoin(store, commit->ops.call.head.count ? store->number : 0);
		return r < 0 ? r : -ESTALE;
	}
	if (r == 0)
		take_result(commit, &reply);
	return r;
}

int redis_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	const int64_t until = tick_ms() + TURN_MS;
	struct redis *store = redis_of(backend);
	int r = 1;

	if (!store->number)
		return -EROFS;
	for (int tries = 0; r == 1 && tries < TRIES; tries++) {
		struct commit commit = { .store = store, .batch = batch, .flags = flags };

		r = commit_once(&commit, until);
		call_done(&commit.ops.call);
		before_done(&commit.before);
		feed_notes_done(&commit.notes);
		words_done(&commit.told);
	}
	return r == 1 ? -EBUSY : r;
}
