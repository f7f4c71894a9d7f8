/* SPDX-License-Identifier: MIT */
#include "backend/redis/call.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "backend/feed/gates.h"
#include "backend/redis/store.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

/* Fowler, Noll and Vo's hash 1a. */
uint64_t call_key_hash(struct bytes session, struct bytes key)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < session.size; i++)
		hash = (hash ^ (unsigned char)session.data[i]) * UINT64_C(1099511628211);
	hash = (hash ^ ':') * UINT64_C(1099511628211);
	for (size_t i = 0; i < key.size; i++)
		hash = (hash ^ (unsigned char)key.data[i]) * UINT64_C(1099511628211);
	return hash;
}

void call_done(struct call *call)
{
	words_done(&call->head);
	words_done(&call->front);
	words_done(&call->requests);
	buf_done(&call->lookups);
	for (size_t i = 0; i < call->group_count; i++)
		free(call->groups[i].owned);
	free(call->groups);
	free(call->slots);
	*call = (struct call){ .store = call->store, .script = call->script };
}

/* Where a group stands in the table of them, or will. */
static size_t *group_slot(const struct call *call, const struct call_group *group)
{
	size_t at = (size_t)call_key_hash(group->session, group->key) + group->hidden;

	for (;; at++) {
		size_t *slot = &call->slots[at & (2 * call->group_room - 1)];
		const struct call_group *known = *slot ? &call->groups[*slot - 1] : NULL;

		if (!known ||
		    (known->hidden == group->hidden && bytes_equal(known->key, group->key) &&
		     bytes_equal(known->session, group->session)))
			return slot;
	}
}

/* Room for one more, and in the table for twice as many. */
static int groups_grow(struct call *call)
{
	size_t *slots;

	if (call->group_count < call->group_room)
		return 0;
	if (ARRAY_ROOM(call->groups, call->group_count, call->group_room) < 0)
		return -ENOMEM;
	slots = calloc(2 * call->group_room, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(call->slots);
	call->slots = slots;
	for (size_t i = 0; i < call->group_count; i++)
		*group_slot(call, &call->groups[i]) = i + 1;
	return 0;
}

static size_t add_group(struct call *call, struct call_group group)
{
	static const char strengths[] = "cnpar";
	size_t *slot = NULL;

	if (groups_grow(call) == 0)
		slot = group_slot(call, &group);
	if (slot && *slot) {
		struct call_group *known = &call->groups[*slot - 1];

		if (strchr(strengths, group.touches) > strchr(strengths, known->touches))
			known->touches = group.touches;
		return *slot;
	}
	group.owned = malloc(group.session.size + group.key.size + 1);
	if (!slot || !group.owned) {
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
	return *slot = call->group_count;
}

size_t call_group(struct call *call, struct bytes session, struct bytes key, char touches)
{
	return add_group(call,
			 (struct call_group){ .session = session, .key = key, .touches = touches });
}

/* Forms. */

static int64_t field_of(const struct call *call, const struct backend_op *op, char field)
{
	switch (field) {
	case 'i':
		return (int64_t)op->ino;
	case 'p':
		return (int64_t)op->parent;
	case 'a':
		return op->at;
	case 't':
		return op->to;
	case 'o':
		return (int64_t)MIN(op->offset, (uint64_t)INT64_MAX);
	case 's':
		return op->seq;
	case 'v':
		return op->version;
	default:
		return (int64_t)call->store->number;
	}
}

/* The columns of a key, up to its end; how many letters that were. */
static size_t key_fill(const struct call *call, struct key *key, const char *form,
		       const struct backend_op *op)
{
	size_t at = 0;

	for (; form[at] != ']' && form[at] != '>'; at++)
		if (form[at] == 'n')
			key_add_text(key, op->name);
		else if (form[at] == 'k' || form[at] == 'S') {
			key_add_text(key, op->session);
			if (form[at] == 'k')
				key_add_text(key, op->key);
		} else
			key_add_number(key, field_of(call, op, form[at]));
	/* No key begins with the highest byte. */
	while (form[at] == '>' && key->error == 0 &&
	       (unsigned char)key->buf.data[key->buf.size - 1] == 0xff)
		key->buf.size--;
	if (form[at] == '>' && key->error == 0)
		key->buf.data[key->buf.size - 1]++;
	return at;
}

static void need_gate(struct call *call, char field, const struct backend_op *op)
{
	if (call->gate_count < CALL_GATES)
		call->gates[call->gate_count++] =
			field == 'k' ? feed_gate_of_key(op->session, op->key) :
				       feed_gate_of_node((uint64_t)field_of(call, op, field));
}

static void look_up(struct call *call)
{
	const uint32_t place = htobe32((uint32_t)call->requests.count);
	int r = buf_append(&call->lookups, &place, sizeof(place));

	call->error = r < 0 ? r : call->error;
}

static void say_word(struct call *call, const char *form, size_t size, const struct backend_op *op)
{
	struct words *words = &call->requests;
	_cleanup_(key_done) struct key key = { 0 };

	switch (*form) {
	case '?':
		look_up(call);
		say_word(call, form + 1, size - 1, op);
		return;
	case '^':
		need_gate(call, form[1], op);
		return;
	case '#':
		words_number(words, field_of(call, op, form[1]));
		return;
	case '$':
		words_add(words, form[1] == 'd' ? op->data : op->name);
		return;
	case '@':
		words_number(words, (int64_t)call_group(call, op->session, op->key, form[1]));
		return;
	case '&':
		words_number(words, (int64_t)call_group(call, op->session_to, op->key_to, form[1]));
		return;
	case '!':
		words_number(words,
			     (int64_t)add_group(call, (struct call_group){ .hidden = op->ino,
									   .touches = 'n' }));
		return;
	case '=':
		key_add_number(&key, field_of(call, op, form[1]));
		break;
	case '[':
		key = key_make((enum key_table)form[1]);
		key_fill(call, &key, form + 2, op);
		break;
	default:
		words_add(words, bytes_make(form, size));
		return;
	}
	words_add(words, key_bytes(&key));
	call->error = key.error < 0 ? key.error : call->error;
}

void call_words(struct call *call, const char *form, const struct backend_op *op)
{
	for (size_t size; *form; form += size + (form[size] == ' ')) {
		size = strcspn(form, " ");
		say_word(call, form, size, op);
	}
}

void call_say(struct call *call, const char *form, const struct backend_op *op)
{
	call->request_count++;
	call_words(call, form, op);
}

int call_unname(struct bytes name, struct buf *session, struct buf *key)
{
	int r;

	name = bytes_make(name.data + 1, name.size - 1);
	r = key_take_text(&name, session);
	return r < 0 ? r : key_take_text(&name, key);
}

int call_command(const struct call *call, const struct words *rest, struct buf *buf)
{
	_cleanup_(words_done) struct words groups = { 0 }, begin = { 0 };
	const struct words *const all[] = { &begin,	  &call->head,	   &groups,
					    &call->front, &call->requests, rest };

	words_str(&begin, "EVALSHA");
	words_str(&begin, call->store->shas.sha[call->script]);
	words_number(&begin, REDIS_KEYS + 1);
	for (size_t i = 0; i < REDIS_KEYS; i++)
		words_str(&begin, call->store->keys[i]);
	words_str(&begin, call->store->prefix);
	words_number(&groups, (int64_t)call->group_count);
	for (size_t i = 0; i < call->group_count; i++) {
		const struct call_group *group = &call->groups[i];

		words_add(&groups, group->hidden ? BYTES("h") : bytes_make(&group->touches, 1));
		words_number(&groups, feed_gate_of_key(group->session, group->key));
		if (group->hidden)
			words_number(&groups, (int64_t)group->hidden);
		else
			words_add(&groups, group->session);
		words_add(&groups, group->key);
	}
	words_number(&groups, (int64_t)call->request_count);
	return call->error < 0 ? call->error :
				 words_command(all, ARRAY_SIZE(all) - (rest ? 0 : 1), buf);
}
