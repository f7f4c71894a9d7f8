/* SPDX-License-Identifier: MIT */
/*
 * What server it is, and what it promises.
 *
 * A server that died in the middle of a script has a log whose end is torn.  When it starts again
 * it cuts the log behind the last whole command, and leaves the transaction open in which that
 * stands; what it writes behind it then is lost when it starts once more.  So before the first
 * write to a server that has started since the store was last written to, its log is rewritten.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend/redis/feed.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"

enum { REWRITE_MS = 20, REWRITE_MAX_MS = 600000 };

/* The value of a field of INFO, cut at its end; "" if there is none. */
static void find_field(const struct reply *info, const char *name, char *value, size_t size)
{
	const char *at = info->text.data;
	size_t length = strlen(name);

	*value = '\0';
	for (; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (strncmp(at, name, length) == 0 && at[length] == ':') {
			at += length + 1;
			length = MIN(strcspn(at, "\r\n"), size - 1);
			memcpy(value, at, length);
			value[length] = '\0';
			return;
		}
}

static uint64_t find_number(const struct reply *info, const char *name)
{
	char value[24];

	find_field(info, name, value, sizeof(value));
	return strtoull(value, NULL, 10);
}

int redis_server_look(struct wire *wire, int64_t until, struct redis_server *ret_server)
{
	_cleanup_(reply_done) struct reply info = { 0 };
	_cleanup_(reply_done) struct reply config = { 0 };
	struct redis_server server = { 0 };
	char value[64];
	int r = wire_ask_str(wire, until, &info, "INFO", NULL);

	if (r == 0)
		r = wire_ask_str(wire, until, &config, "CONFIG", "GET", "appendfsync", NULL);
	if (r < 0)
		return r;
	if (info.type == REPLY_ERROR)
		return bytes_starts_with(reply_bytes(&info), BYTES("NOPERM")) ? -EACCES : -EAGAIN;
	find_field(&info, "run_id", server.run, sizeof(server.run));
	find_field(&info, "maxmemory_policy", server.policy, sizeof(server.policy));
	find_field(&info, "redis_version", server.version, sizeof(server.version));
	server.cluster = find_number(&info, "cluster_enabled");
	find_field(&info, "role", value, sizeof(value));
	server.replica = strcmp(value, "slave") == 0;
	server.aof = find_number(&info, "aof_enabled");
	server.maxmemory = find_number(&info, "maxmemory");
	server.used = find_number(&info, "used_memory");
	server.system = find_number(&info, "total_system_memory");
	server.evicts =
		server.maxmemory && server.policy[0] && strcmp(server.policy, "noeviction") != 0;
	server.known = config.type == REPLY_LIST && config.count == 2;
	server.always = server.known && reply_is(reply_at(&config, 1), "always");
	if (find_number(&info, "loading"))
		return -EAGAIN;
	*ret_server = server;
	return 0;
}

static const char *weakness(const struct redis_server *server)
{
	if (!server->aof)
		return "a server without appendonly loses what came since its last dump when it "
		       "dies";
	if (!server->known)
		return "the server does not tell how it syncs (CONFIG GET appendfsync)";
	return server->always ? NULL :
				"the server syncs once a second or less often, so what was written "
				"just before it dies may be lost (set appendfsync always)";
}

int redis_server_judge(const struct redis *store, const struct redis_server *server, char **ret_why)
{
	const char *weak = weakness(server);

	if (server->cluster)
		return str_explain(ret_why, -EOPNOTSUPP,
				   "%s is a cluster, where AgentScope's keys of one session lie on "
				   "several servers, and no commit is whole; use a server or a "
				   "sentinel",
				   store->place);
	if (server->replica && !store->backend.read_only)
		return str_explain(ret_why, -EROFS,
				   "%s is a replica, which takes no writes: name its master, or "
				   "mount with -o ro",
				   store->place);
	if (atoi(server->version) < 7)
		return str_explain(ret_why, -EPROTONOSUPPORT,
				   "%s is Redis %s; a store needs Redis 7 or Valkey", store->place,
				   server->version);
	if (server->evicts && !store->url->evicts)
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "%s deletes keys when it is full (maxmemory-policy %s): set "
				   "maxmemory-policy noeviction, or add ?evict=allowed",
				   store->place, server->policy);
	if (weak && store->url->durable)
		return str_explain(ret_why, -EMEDIUMTYPE, "%s: %s, and -o durable refuses that",
				   store->place, weak);
	if (weak && store->owner && !store->backend.read_only)
		log_warning("%s: %s", store->place, weak);
	return 0;
}

/* Wait until the log has been rewritten, which begins anew if it has failed. */
static int rewrite(struct redis *store, struct wire *wire)
{
	const int64_t until = tick_ms() + REWRITE_MAX_MS;
	bool asked = false;

	for (;;) {
		_cleanup_(reply_done) struct reply info = { 0 };
		char status[16];
		int r = wire_ask_str(wire, until, &info, "INFO", "persistence", NULL);

		if (r < 0)
			return r;
		find_field(&info, "aof_last_bgrewrite_status", status, sizeof(status));
		if (!find_number(&info, "aof_rewrite_in_progress") &&
		    !find_number(&info, "aof_rewrite_scheduled")) {
			if (asked && strcmp(status, "ok") == 0)
				return 0;
			reply_done(&info);
			r = wire_ask_str(wire, until, &info, "BGREWRITEAOF", NULL);
			if (r < 0)
				return r;
			asked = info.type != REPLY_ERROR;
			if (bytes_starts_with(reply_bytes(&info), BYTES("NOPERM")))
				return -EACCES;
		}
		if (tick_ms() >= until) {
			log_error("%s cannot rewrite its log", store->place);
			return -EIO;
		}
		tick_pause(REWRITE_MS);
	}
}

int redis_server_settle(struct redis *store, struct wire *wire, int64_t until,
			const struct redis_server *server)
{
	_cleanup_(reply_done) struct reply known = { 0 };
	bool noted;
	uint64_t n;
	int r = 0;

	if (store->backend.read_only || strcmp(store->server.run, server->run) == 0)
		return 0;
	r = wire_ask_str(wire, until, &known, "HMGET", store->keys[2], "run", "n", NULL);
	if (r == 0)
		r = redis_error(store, &known);
	if (r < 0)
		return r;
	noted = reply_is(reply_at(&known, 0), server->run);
	n = (uint64_t)reply_number(reply_at(&known, 1));
	if (server->aof && !noted) {
		r = rewrite(store, wire);
		if (r == -EACCES && store->url->durable)
			return r;
		if (r == -EACCES)
			log_warning("%s: the user %s may not call BGREWRITEAOF, so what is written "
				    "to a server that has died and started again may be lost when "
				    "it starts once more",
				    store->place, store->url->user);
		r = r == -EACCES ? 0 : r;
	}
	if (r == 0 && !noted) {
		reply_done(&known);
		r = wire_ask_str(wire, until, &known, "HSET", store->keys[2], "run", server->run,
				 NULL);
		if (r == 0)
			r = redis_error(store, &known);
	}
	/* It may have forgotten what it had acknowledged, if that is how it syncs. */
	if (r == 0 && store->server.run[0])
		redis_feed_begin(store, n, true);
	if (r == 0)
		store->server = *server;
	return r;
}
