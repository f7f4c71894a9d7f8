/* SPDX-License-Identifier: MIT */
/*
 * What AgentScope has left in other keys than today's, each session a JSON object in one string:
 * its older version of Java, and its Python versions.  They are only ever read.
 */
#include <errno.h>

#include "backend/redis/read.h"
#include "backend/redis/redis.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"

static const struct form {
	const char *prefix; /* unless the URL has one */
	const char *begins, *ends;
	bool users; /* USER:session:SESSION stands between them */
} forms[] = {
	{ "agentscope:session:", "", "", false }, /* of Python, with ":state" behind SESSION */
	{ "", "user_id:", ":state", true },
	{ "agentscope:", "user:", "", true }, /* and the list ...:messages */
};

static const char between[] = ":session:", state[] = ":state";

/* The string and what is in its list, unless a session of today's has it in its set: the id of that
 * may end at any colon. */
static const char script[] =
	"local all, key = ARGV[1], KEYS[1] .. ARGV[1] .. ARGV[2] "
	"if redis.call('TYPE', key)['ok'] ~= 'string' then return false end "
	"for at in string.gmatch(all, '():') do "
	"local set = KEYS[1] .. string.sub(all, 1, at) .. '_keys' "
	"local name = string.gsub(string.gsub(string.sub(all, at + 1), ':_hash$', ''), ':ver$', "
	"'') "
	"if redis.call('TYPE', set)['ok'] == 'set' and redis.call('SISMEMBER', set, name) == 1 "
	"then "
	"return false end end "
	"local list = key .. ':messages' "
	"return { redis.call('GET', key), redis.call('TYPE', list)['ok'] == 'list' and "
	"redis.call('LRANGE', list, 0, -1) or {} }";

struct older {
	struct redis *store;
	const struct form *form;
	const char *begin; /* of a key */
	backend_older_fn *fn;
	void *arg;
	bool any;
};

/* "user/session", as services have it today, or what stands in the key; empty: it may be two. */
static int find_session(const struct older *older, struct bytes rest, struct buf *session)
{
	const char *cut = memmem(rest.data, rest.size, between, strlen(between));
	struct bytes behind;
	int r;

	if (!older->form->users) {
		if (rest.size > strlen(state) &&
		    memcmp(rest.data + rest.size - strlen(state), state, strlen(state)) == 0)
			rest.size -= strlen(state);
		return buf_append_bytes(session, rest);
	}
	if (!cut)
		return 0;
	behind = bytes_make(cut + strlen(between), rest.size);
	behind.size -= (size_t)(behind.data - rest.data);
	if (memmem(behind.data, behind.size, between, strlen(between))) {
		log_warning("%s: the key %s%.*s is that of two sessions; it is left out",
			    older->store->place, older->begin, (int)rest.size, rest.data);
		return 0;
	}
	r = buf_append(session, rest.data, (size_t)(cut - rest.data));
	if (r == 0)
		r = buf_append_byte(session, '/');
	return r < 0 ? r : buf_append_bytes(session, behind);
}

/* The object, with one more member, if there are messages. */
static int join_messages(struct bytes object, const struct reply *messages, struct buf *buf)
{
	size_t end = object.size;
	int r = 0;

	while (messages->count && end && object.data[end - 1] != '}')
		end--;
	if (end < 2 || !messages->count)
		return buf_append_bytes(buf, object);
	r = buf_append(buf, object.data, end - 1);
	while (r == 0 && strchr(" \t\r\n", buf->data[buf->size - 1]))
		buf->size--;
	if (r == 0)
		r = buf_append_str(buf, buf->data[buf->size - 1] == '{' ? "\"messages\":[" :
									  ",\"messages\":[");
	for (size_t i = 0; r == 0 && i < messages->count; i++) {
		r = i ? buf_append_byte(buf, ',') : 0;
		if (r == 0)
			r = buf_append_bytes(buf, reply_bytes(reply_at(messages, i)));
	}
	return r < 0 ? r : buf_append_str(buf, "]}");
}

static int take_older(void *arg, struct bytes rest)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	_cleanup_(buf_done) struct buf session = { 0 }, data = { 0 };
	struct older *older = arg;
	int r = find_session(older, rest, &session);

	if (r < 0 || !session.size)
		return r;
	r = redis_ask(older->store, &reply, "EVAL $n 1 $s $d $k",
		      OP(.name = bytes_str(script), .session = bytes_str(older->begin),
			 .data = rest, .key = bytes_str(older->form->ends)));
	if (r < 0 || reply.type != REPLY_LIST)
		return r;
	older->any = true;
	r = join_messages(reply_bytes(reply_at(&reply, 0)), reply_at(&reply, 1), &data);
	return r < 0 ? r : older->fn(older->arg, buf_bytes(&session), buf_bytes(&data), 0);
}

int redis_store_read_older(const struct url *url, const char *table, backend_older_fn *fn,
			   void *arg, char **ret_why)
{
	const struct backend_options options = { .read_only = true };
	struct older older = { .fn = fn, .arg = arg };
	int r;

	(void)table;
	r = redis_store_meet(url, &options, &older.store, ret_why);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(forms); i++) {
		_cleanup_(freep) char *begin =
			str_printf("%s%s", url->prefix ? url->prefix : forms[i].prefix,
				   forms[i].begins);

		older.form = &forms[i];
		older.begin = begin;
		r = begin ? redis_scan(older.store, begin, bytes_str(forms[i].ends), take_older,
				       &older) :
			    -ENOMEM;
	}
	if (r == 0 && !older.any)
		r = str_explain(ret_why, -EMEDIUMTYPE,
				"%s has no sessions of the older layouts, whose keys are "
				"%sSESSION or end with user_id:USER:session:SESSION:state or "
				"user:USER:session:SESSION",
				older.store->place, older.store->prefix);
	if (older.store)
		redis_close(&older.store->backend);
	return r;
}
