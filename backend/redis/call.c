/* SPDX-License-Identifier: MIT */
#include "backend/redis/call.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/feed/gates.h"
#include "backend/redis/store.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

enum { LATEST = 4 }; /* groups, of which one may come again */

uint64_t call_key_hash(struct bytes session, struct bytes key)
{
	return bytes_hash(bytes_hash(bytes_hash(BYTES_HASH, session), BYTES(":")), key);
}

void call_done(struct call *call)
{
	words_done(&call->head);
	words_done(&call->front);
	words_done(&call->requests);
	words_done(&call->group_words);
	free(call->groups);
	*call = (struct call){ .store = call->store, .script = call->script };
}

/* Its gate and its name: not what is done with it. */
static struct bytes group_name(const struct call *call, const struct call_group *group)
{
	return bytes_make(call->group_words.buf.data + group->at, group->size);
}

char *call_touches(const struct call *call, const struct call_group *group)
{
	return call->group_words.buf.data + group->at + group->size + strlen("$1\r\n");
}

/* The script takes equal ones for one; one that was told just now is not told again. */
static size_t add_group(struct call *call, struct bytes session, struct bytes key, uint64_t hidden,
			char touches)
{
	static const char strengths[] = "hcnpar";
	struct words *words = &call->group_words;
	struct call_group group = { .at = words->buf.size, .hash = call_key_hash(session, key) };
	const size_t count = words->count;

	if (hidden) {
		words_str(words, "h");
		words_number(words, (int64_t)hidden);
	} else {
		words_number(words, feed_gate_of_key(session, key));
		words_add(words, session);
	}
	words_add(words, key);
	group.size = words->buf.size - group.at;
	for (size_t i = call->group_count; i && i + LATEST > call->group_count; i--) {
		struct call_group *known = &call->groups[i - 1];

		if (words->error || !bytes_equal(group_name(call, known), group_name(call, &group)))
			continue;
		words->buf.size = group.at;
		words->count = count;
		if (strchr(strengths, touches) > strchr(strengths, *call_touches(call, known)))
			*call_touches(call, known) = touches;
		return i;
	}
	words_add(words, bytes_make(&touches, 1));
	if (words->error || ARRAY_ROOM(call->groups, call->group_count, call->group_room) < 0) {
		call->error = -ENOMEM;
		return 0;
	}
	call->groups[call->group_count] = group;
	return ++call->group_count;
}

size_t call_group(struct call *call, struct bytes session, struct bytes key, char touches)
{
	return add_group(call, session, key, 0, touches);
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

static void say_word(struct call *call, const char *form, size_t size, const struct backend_op *op)
{
	struct words *words = &call->requests;
	_cleanup_(key_done) struct key key = { 0 };

	switch (*form) {
	case '^':
		if (call->gate_count < CALL_GATES)
			call->gates[call->gate_count++] =
				form[1] == 'k' ?
					feed_gate_of_key(op->session, op->key) :
					feed_gate_of_node((uint64_t)field_of(call, op, form[1]));
		return;
	case '#':
		words_number(words, field_of(call, op, form[1]));
		return;
	case '$':
		words_add(words, form[1] == 'd' ? op->data :
				 form[1] == 's' ? op->session :
				 form[1] == 'k' ? op->key :
						  op->name);
		return;
	case '@':
		words_number(words, (int64_t)call_group(call, op->session, op->key, form[1]));
		return;
	case '&':
		words_number(words, (int64_t)call_group(call, op->session_to, op->key_to, form[1]));
		return;
	case '!':
		words_number(words, (int64_t)add_group(call, BYTES(""), BYTES(""), op->ino, 'h'));
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

int call_command(const struct call *call, const struct words *rest, struct buf *buf)
{
	_cleanup_(words_done) struct words begin = { 0 }, groups = { 0 }, requests = { 0 };
	const struct words *const all[] = { &begin,	     &call->head,
					    &groups,	     &call->group_words,
					    &requests,	     &call->front,
					    &call->requests, rest };

	words_str(&begin, "EVALSHA");
	words_str(&begin, call->store->shas[call->script]);
	words_number(&begin, REDIS_KEYS + 1);
	for (size_t i = 0; i < REDIS_KEYS; i++)
		words_str(&begin, call->store->keys[i]);
	words_str(&begin, call->store->prefix);
	words_str(&begin, call->store->born);
	if (call->script != REDIS_OF_MOUNTS) {
		words_number(&groups, (int64_t)call->group_count);
		words_number(&requests, (int64_t)call->request_count);
	}
	return call->error < 0 ? call->error :
				 words_command(all, ARRAY_SIZE(all) - (rest ? 0 : 1), buf);
}
