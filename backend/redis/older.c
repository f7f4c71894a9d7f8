/* SPDX-License-Identifier: MIT */
/* AgentScope's older keys: PREFIX SESSION is one string with all states of a session.  They are
 * only ever read. */
#include <errno.h>

#include "backend/redis/read.h"
#include "backend/redis/redis.h"
#include "backend/base/cleanup.h"

/* The string, unless a session of today's has it in its set: its id may end at any colon. */
static const char script[] =
	"local all, at = ARGV[1], 0 "
	"if redis.call('TYPE', KEYS[1] .. all)['ok'] ~= 'string' then return false end "
	"while true do "
	"at = string.find(all, ':', at + 1, true) "
	"if not at then return redis.call('GET', KEYS[1] .. all) end "
	"local set = KEYS[1] .. string.sub(all, 1, at) .. '_keys' "
	"local key = string.gsub(string.gsub(string.sub(all, at + 1), ':_hash$', ''), ':ver$', '') "
	"if redis.call('TYPE', set)['ok'] == 'set' and redis.call('SISMEMBER', set, key) == 1 then "
	"return false end end";

struct older {
	struct redis *store;
	backend_older_fn *fn;
	void *arg;
	bool any;
};

static int take_older(void *arg, struct bytes session)
{
	_cleanup_(words_done) struct words words = { 0 };
	_cleanup_(reply_done) struct reply reply = { 0 };
	struct older *older = arg;
	int r;

	words_str(&words, "EVAL");
	words_str(&words, script);
	words_str(&words, "1");
	words_str(&words, older->store->prefix);
	words_add(&words, session);
	r = redis_ask_words(older->store, &words, &reply);
	if (r < 0 || reply.type != REPLY_TEXT)
		return r;
	older->any = true;
	return older->fn(older->arg, session, reply_bytes(&reply), 0);
}

int redis_store_read_older(const struct url *url, const char *table, backend_older_fn *fn,
			   void *arg, char **ret_why)
{
	const struct backend_options options = { .read_only = true };
	struct older older = { .fn = fn, .arg = arg };
	int r;

	(void)table;
	r = redis_store_meet(url, &options, &older.store, ret_why);
	if (r == 0)
		r = redis_scan(older.store, BYTES(""), take_older, &older);
	if (r == 0 && !older.any)
		r = str_explain(ret_why, -EMEDIUMTYPE,
				"%s has no sessions of the older layout, whose keys are "
				"%sSESSION",
				older.store->place, older.store->prefix);
	if (older.store)
		redis_close(&older.store->backend);
	return r;
}
