/* SPDX-License-Identifier: MIT */
#include "backend/redis/call.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/feed/gates.h"
#include "backend/redis/store.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

static const struct bytes sidecar = { ":_hash", 6 };

bool call_is_sidecar(struct bytes key)
{
	return key.size > sidecar.size && bytes_ends_with(key, sidecar);
}

void call_done(struct call *call)
{
	words_done(&call->head);
	words_done(&call->requests);
	for (size_t i = 0; i < call->group_count; i++)
		free(call->groups[i].owned);
	free(call->groups);
	*call = (struct call){ .store = call->store, .script = call->script };
}

static const char strengths[] = "cnpar";

static size_t add_group(struct call *call, struct call_group group)
{
	/* Operations on one key stand together. */
	for (size_t i = call->group_count; i; i--) {
		struct call_group *known = &call->groups[i - 1];

		if (known->hidden != group.hidden || !bytes_equal(known->key, group.key) ||
		    !bytes_equal(known->session, group.session))
			continue;
		if (strchr(strengths, *group.touches) > strchr(strengths, *known->touches))
			known->touches = group.touches;
		return i;
	}
	group.owned = malloc(group.session.size + group.key.size + 1);
	if (!group.owned || ARRAY_ROOM(call->groups, call->group_count, call->group_room) < 0) {
		free(group.owned);
		call->error = -ENOMEM;
		return 0;
	}
	if (group.session.size)
		memcpy(group.owned, group.session.data, group.session.size);
	if (group.key.size)
		memcpy(group.owned + group.session.size, group.key.data, group.key.size);
	group.session.data = group.owned;
	group.key.data = group.owned + group.session.size;
	call->groups[call->group_count++] = group;
	return call->group_count;
}

size_t call_group(struct call *call, struct bytes session, struct bytes key, const char *touches)
{
	return add_group(call,
			 (struct call_group){ .session = session, .key = key, .touches = touches });
}

size_t call_hidden(struct call *call, uint64_t ino)
{
	return add_group(call, (struct call_group){ .hidden = ino, .touches = "n" });
}

void call_request(struct call *call, const char *name)
{
	words_str(&call->requests, name);
	call->request_count++;
}

void call_words(struct call *call, struct bytes word)
{
	words_add(&call->requests, word);
}

void call_str(struct call *call, const char *word)
{
	words_str(&call->requests, word);
}

void call_number(struct call *call, int64_t number)
{
	words_number(&call->requests, number);
}

void call_key(struct call *call, struct key key)
{
	if (key.error < 0)
		call->error = key.error;
	words_add(&call->requests, key_bytes(&key));
	key_done(&key);
}

void call_end(struct call *call, struct key key)
{
	/* No key begins with the highest byte. */
	while (key.error == 0 && (unsigned char)key.buf.data[key.buf.size - 1] == 0xff)
		key.buf.size--;
	if (key.error == 0)
		key.buf.data[key.buf.size - 1]++;
	call_key(call, key);
}

struct key call_name(struct bytes session, struct bytes key)
{
	return key_of_state(KEY_ROW, session, key);
}

int call_unname(struct bytes name, struct buf *session, struct buf *key)
{
	int r;

	name = bytes_make(name.data + 1, name.size - 1);
	r = key_take_text(&name, session);
	return r < 0 ? r : key_take_text(&name, key);
}

/* Keys of Redis: PREFIX, SESSION, a colon, and what stands behind. */
static void add_key(struct words *keys, const struct redis *store, struct bytes session,
		    struct bytes key, const char *behind)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = buf_append_str(&buf, store->prefix);

	if (r == 0)
		r = buf_append_bytes(&buf, session);
	if (r == 0)
		r = buf_append_byte(&buf, ':');
	if (r == 0)
		r = buf_append_bytes(&buf, key);
	if (r == 0)
		r = buf_append_str(&buf, behind);
	words_add(keys, buf_bytes(&buf));
	if (keys->error == 0)
		keys->error = r;
}

static void add_group_keys(struct words *keys, const struct redis *store,
			   const struct call_group *group)
{
	const struct bytes base = bytes_make(group->key.data, group->key.size - sidecar.size);
	_cleanup_(freep) char *hidden = NULL;

	if (group->hidden) {
		hidden = str_printf("%s:h:%llu", store->ours, (unsigned long long)group->hidden);
		for (size_t i = 0; i < REDIS_GROUP_KEYS; i++)
			words_str(keys, hidden ? hidden : "");
		return;
	}
	if (call_is_sidecar(group->key)) {
		add_key(keys, store, group->session, base, ":list:_hash");
		add_key(keys, store, group->session, base, ":list");
		add_key(keys, store, group->session, base, ":ver");
	} else {
		add_key(keys, store, group->session, group->key, "");
		add_key(keys, store, group->session, group->key, ":list");
		add_key(keys, store, group->session, group->key, ":ver");
	}
	add_key(keys, store, group->session, BYTES("_keys"), "");
}

/* The same key of Redis may be that of another session, whose id ends at another colon: its set of
 * keys, and what this would have of it. */
static void add_others(struct words *words, const struct redis *store,
		       const struct call_group *group)
{
	_cleanup_(words_done) struct words others = { 0 };
	_cleanup_(buf_done) struct buf all = { 0 };
	int r = buf_append_bytes(&all, group->session);

	if (r == 0)
		r = buf_append_byte(&all, ':');
	if (r == 0)
		r = buf_append_bytes(&all, group->key);
	for (size_t i = 0; r == 0 && i < all.size; i++) {
		if (all.data[i] != ':' || i == group->session.size)
			continue;
		add_key(&others, store, bytes_make(all.data, i), BYTES("_keys"), "");
		words_add(&others, bytes_make(all.data + i + 1, all.size - i - 1));
	}
	words_number(words, (int64_t)others.count / 2);
	if (words->error == 0)
		words->error = r < 0 ? r : others.error;
	if (words->error == 0)
		words->error = buf_append_bytes(&words->buf, buf_bytes(&others.buf));
	words->count += others.count;
}

static void add_group_words(struct words *words, const struct redis *store,
			    const struct call_group *group)
{
	_cleanup_(key_done) struct key name = call_name(group->session, group->key);

	words_str(words, group->hidden ? "n" : call_is_sidecar(group->key) ? "h" : "r");
	words_add(words, key_bytes(&name));
	words_add(words, group->key);
	words_number(words, group->hidden ? 0 : feed_gate_of_key(group->session, group->key));
	if (group->hidden || call_is_sidecar(group->key))
		words_number(words, 0);
	else
		add_others(words, store, group);
	if (words->error == 0)
		words->error = name.error;
}

static const struct words no_words = { 0 };

int call_command(const struct call *call, const struct words *rest, struct buf *buf)
{
	_cleanup_(words_done) struct words keys = { 0 }, groups = { 0 }, touched = { 0 },
					   head = { 0 };
	const struct words *const all[] = { &head,
					    &keys,
					    &call->head,
					    &groups,
					    &touched,
					    &call->requests,
					    rest ? rest : &no_words };
	size_t count = 0;
	int r = call->error;

	for (size_t i = 0; i < REDIS_KEYS; i++)
		words_str(&keys, call->store->keys[i]);
	words_number(&groups, (int64_t)call->group_count);
	words_number(&touched, (int64_t)call->group_count);
	for (size_t i = 0; i < call->group_count; i++) {
		add_group_keys(&keys, call->store, &call->groups[i]);
		add_group_words(&groups, call->store, &call->groups[i]);
		words_number(&touched, (int64_t)i + 1);
		words_str(&touched, call->groups[i].touches);
	}
	words_number(&touched, (int64_t)call->request_count);
	words_str(&head, "EVALSHA");
	words_str(&head, call->store->shas.sha[call->script]);
	words_number(&head, (int64_t)keys.count);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		count += all[i]->count;
	if (r == 0)
		r = words_head(buf, count);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
		r = all[i]->error < 0 ? all[i]->error :
					buf_append_bytes(buf, buf_bytes(&all[i]->buf));
	return r;
}
