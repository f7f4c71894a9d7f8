/* SPDX-License-Identifier: MIT */
/* Connections.  Each thread takes one from the pool for a command and its answer. */
#include <errno.h>
#include <stdlib.h>

#include "backend/redis/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "backend/base/thread.h"

enum { AGAIN_MS = 50, SENTINEL_MS = 3000 };

/* What no connection can mend. */
static const struct {
	const char *begins;
	int error;
} refusals[] = {
	{ "OOM", -ENOSPC },	     { "READONLY", -EROFS },
	{ "NOREPLICAS", -EIO },	     { "WRONGPASS", -EACCES },
	{ "NOAUTH", -EACCES },	     { "NOPERM", -EACCES },
	{ "ERR AUTH", -EACCES },     { "ERR invalid pass", -EACCES },
	{ "MISCONF", -EIO },	     { "WRONGTYPE", -EIO },
	{ "ERR DB index", -ENOENT }, { "ERR invalid DB", -ENOENT },
	{ "LOADING", -EAGAIN },	     { "BUSY", -EAGAIN },
	{ "MASTERDOWN", -EAGAIN },   { "TRYAGAIN", -EAGAIN },
	{ "NOSCRIPT", -ENOEXEC },    { "ERR max number", -EAGAIN },
};

static int find_error(const struct reply *reply)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (bytes_starts_with(reply_bytes(reply), bytes_str(refusals[i].begins)))
			return refusals[i].error;
	return -EIO;
}

/* Not again at once. */
static void complain(struct redis *store, const char *between, const char *text)
{
	WITH_MUTEX(&store->state.lock);

	if (log_pause_over(&store->state.failing, tick_now()))
		log_error("%s%s: %s", store->place, between, text);
}

int redis_error(struct redis *store, const struct reply *reply)
{
	int r = reply->type == REPLY_ERROR ? find_error(reply) : 0;

	if (r < 0 && r != -EAGAIN && r != -ENOEXEC && r != -EROFS)
		complain(store, "", reply->text.data);
	return r;
}

int redis_status(struct redis *store, const struct reply *reply)
{
	static const struct {
		const char *word;
		int error;
	} words[] = {
		{ "OK", 0 },	     { "ESTALE", -ESTALE },   { "EEXIST", -EEXIST },
		{ "EBUSY", -EBUSY }, { "EAGAIN", -EAGAIN },   { "EFBIG", -EFBIG },
		{ "GAP", -EINVAL },  { "LOST", -EOWNERDEAD }, { "AMBIGUOUS", -EIO },
	};
	const struct reply *word = reply_at(reply, 0);

	if (reply->type == REPLY_ERROR)
		return redis_error(store, reply);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (reply_is(word, words[i].word)) {
			if (words[i].error == -EIO)
				log_error(
					"%s: a key of a session has a type that AgentScope's keys "
					"do not have",
					store->place);
			return words[i].error;
		}
	return -EPROTO; /* a word of its own */
}

/* The server of this name, as a sentinel knows it. */
static int ask_sentinel(struct redis *store, int64_t until, char **ret_host, unsigned *ret_port,
			char **ret_why)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	const struct url *url = store->url;
	struct wire *wire;
	struct bytes host;
	int r = wire_open(url, url->host, url_port(url), until, &wire, ret_why);

	if (r < 0)
		return r;
	r = wire_ask_str(wire, until, &reply, "SENTINEL", "get-master-addr-by-name", url->sentinel,
			 NULL);
	wire_free(wire);
	host = reply_bytes(reply_at(&reply, 0));
	if (r == 0 && !host.size)
		return str_explain(ret_why, -ENOENT, "the sentinel at %s does not know a server %s",
				   url->host, url->sentinel);
	if (r < 0)
		return r;
	*ret_port = (unsigned)reply_number(reply_at(&reply, 1));
	*ret_host = bytes_dup(host);
	return *ret_host ? 0 : -ENOMEM;
}

static int sign_in(struct redis *store, struct wire *wire, int64_t until, char **ret_why)
{
	const struct url *url = store->url;
	_cleanup_(reply_done) struct reply reply = { 0 };
	int r = 0;

	if (url->password)
		r = strcmp(url->user, "default") == 0 ?
			    wire_ask_str(wire, until, &reply, "AUTH", url->password, NULL) :
			    wire_ask_str(wire, until, &reply, "AUTH", url->user, url->password,
					 NULL);
	if (r == 0 && reply.type != REPLY_ERROR) {
		reply_done(&reply);
		r = wire_ask_str(wire, until, &reply, "SELECT", url->database, NULL);
	}
	if (r < 0 || reply.type != REPLY_ERROR)
		return r;
	r = find_error(&reply);
	if (r == -EACCES)
		return str_explain(ret_why, r,
				   "%s refuses the user %s: %s; write the password to a file that "
				   "only you can read and add ?passfile=FILE",
				   store->place, url->user, reply.text.data);
	return str_explain(ret_why, r, "%s: %s", store->place, reply.text.data);
}

int redis_connect(struct redis *store, int64_t until, struct wire **ret_wire, char **ret_why)
{
	_cleanup_(freep) char *host = NULL;
	const struct url *url = store->url;
	unsigned port = url_port(url);
	struct wire *wire;
	int r = 0;

	if (url->sentinel)
		r = ask_sentinel(store, MIN(until, tick_ms() + SENTINEL_MS), &host, &port, ret_why);
	if (r == 0)
		r = wire_open(url, host ? host : url->host, port, until, &wire, ret_why);
	if (r < 0)
		return r;
	r = sign_in(store, wire, until, ret_why);
	if (r < 0)
		wire_free(wire);
	else
		*ret_wire = wire;
	return r;
}

int64_t redis_until(const struct redis *store)
{
	return tick_ms() + store->url->timeout * INT64_C(1000);
}

struct redis_lane *redis_take(struct redis *store)
{
	struct redis_lane *found = NULL;
	WITH_MUTEX(&store->pool.lock);

	for (;;) {
		for (size_t i = 0; i < REDIS_LANES && !(found && found->wire); i++) {
			struct redis_lane *lane = &store->pool.lanes[i];

			if (!lane->busy && (!found || lane->wire))
				found = lane;
		}
		if (found)
			break;
		pthread_cond_wait(&store->pool.given, &store->pool.lock);
	}
	found->busy = true;
	return found;
}

void redis_give(struct redis *store, struct redis_lane *lane)
{
	WITH_MUTEX(&store->pool.lock);

	lane->busy = false;
	pthread_cond_signal(&store->pool.given);
}

int redis_load(struct redis *store, struct wire *wire, int64_t until)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < REDIS_SCRIPTS; i++) {
		_cleanup_(reply_done) struct reply reply = { 0 };

		r = wire_ask_str(wire, until, &reply, "SCRIPT", "LOAD", redis_scripts[i], NULL);
		if (r == 0 && reply.type == REPLY_TEXT && reply.text.size == 40)
			memcpy(store->shas[i], reply.text.data, 41);
		else if (r == 0)
			r = find_error(&reply) == -EAGAIN ? -EAGAIN : -EPROTO;
		if (r == -EPROTO)
			log_error("the server does not take a script: %s",
				  reply.text.data ? reply.text.data : "");
	}
	return r;
}

/* A new connection for a lane; what server it is now is looked at. */
static int reconnect(struct redis *store, struct redis_lane *lane, int64_t until, char **ret_why)
{
	struct redis_server server = { 0 };
	int r = redis_connect(store, until, &lane->wire, ret_why);

	if (r == 0)
		r = redis_server_look(lane->wire, until, &server);
	if (r == 0 && server.replica && !store->backend.read_only)
		r = str_explain(ret_why, -EROFS, "%s is a replica, which takes no writes",
				store->place);
	if (r == 0)
		r = redis_server_settle(store, lane->wire, until, &server);
	if (r < 0) {
		wire_free(lane->wire);
		lane->wire = NULL;
	}
	return r;
}

/* Whether to try again what has failed so. */
static bool is_passing(int error)
{
	return error == -ENOTCONN || error == -EAGAIN || error == -ECONNREFUSED ||
	       error == -ECONNRESET || error == -ETIMEDOUT || error == -EHOSTUNREACH ||
	       error == -ENOENT || error == -EPIPE || error == -ENETUNREACH || error == -EROFS;
}

static int say_gone(struct redis *store)
{
	if (!store->gone)
		log_error("%s was deleted by another program, or another store is in its place; "
			  "unmount, and mount again what is there",
			  store->place);
	store->gone = true;
	return -EIO;
}

static int give_up(struct redis *store, int r, const char *why)
{
	complain(store, " does not answer", why ? why : strerror(-r));
	return r == -EROFS || r == -EACCES ? r : -EIO;
}

int redis_send(struct redis *store, struct redis_lane *lane, struct bytes command, int64_t until,
	       struct reply *ret_reply)
{
	_cleanup_(freep) char *why = NULL;
	int r;

	for (;;) {
		struct reply reply = { 0 };

		r = lane->wire ? 0 : reconnect(store, lane, until, &why);
		if (r == 0)
			r = wire_send(lane->wire, command, until);
		if (r == 0)
			r = wire_read(lane->wire, until, &reply);
		/* A reply that is not all there leaves the connection in the middle of it. */
		if (r == -ENOMEM && lane->wire)
			r = -ENOTCONN;
		if (r == 0)
			r = reply.type == REPLY_ERROR		  ? redis_error(store, &reply) :
			    reply_is(reply_at(&reply, 0), "GONE") ? say_gone(store) :
								    0;
		if (r == 0) {
			*ret_reply = reply;
			return 0;
		}
		reply_done(&reply);
		if (r == -ENOEXEC && redis_load(store, lane->wire, until) == 0)
			continue;
		if (!is_passing(r) && r != -ENOEXEC)
			return r == -EACCES && why ? give_up(store, r, why) : r;
		if (r != -EAGAIN || !lane->wire) {
			wire_free(lane->wire);
			lane->wire = NULL;
		}
		if (tick_ms() >= until || store->watch.stop)
			return give_up(store, r, why);
		tick_pause(AGAIN_MS);
	}
}

static int ask_any(struct redis *store, struct bytes command, struct reply *ret_reply)
{
	struct redis_lane *lane = redis_take(store);
	int r = redis_send(store, lane, command, redis_until(store), ret_reply);

	redis_give(store, lane);
	return r;
}

int redis_ask(struct redis *store, struct reply *ret_reply, const char *form,
	      const struct backend_op *op)
{
	_cleanup_(call_done) struct call call = { .store = store };
	_cleanup_(buf_done) struct buf buf = { 0 };
	const struct words *const words = &call.requests;
	int r;

	call_words(&call, form, op);
	r = words_command(&words, 1, &buf);
	return r < 0 ? r : ask_any(store, buf_bytes(&buf), ret_reply);
}

int redis_call(struct redis *store, const struct call *call, struct reply *ret_reply)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = call_command(call, NULL, &buf);

	return r < 0 ? r : ask_any(store, buf_bytes(&buf), ret_reply);
}
