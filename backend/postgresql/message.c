/* SPDX-License-Identifier: MIT */
#include "backend/postgresql/message.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

enum {
	SHAPES = 64,	     /* of a connection */
	SEEN = 3,	     /* times until a statement is prepared */
	SIZE_MOST = 1 << 16, /* bytes of one that is */
};

struct pg_shape {
	char *text;
	unsigned seen;
	bool prepared;
	bool refused; /* the server cannot prepare it */
};

/* With which words the statements begin that are prepared: those of commits. */
static const char *const often[] = {
	"UPDATE sessfs_gate ",	    "UPDATE sessfs_node SET atime", "SELECT set_config(",
	"INSERT INTO sessfs_feed ", "INSERT INTO agentscope.",
};

static bool comes_often(struct bytes statement)
{
	for (size_t i = 0; i < ARRAY_SIZE(often); i++)
		if (bytes_starts_with(statement, bytes_str(often[i])))
			return statement.size <= SIZE_MOST;
	return false;
}

/* The bytes of a quoted text or name at the start. */
static size_t quoted_size(struct bytes text)
{
	size_t size = 1;

	while (size < text.size && text.data[size] != *text.data)
		size++;
	return MIN(size + 1, text.size);
}

static size_t number_size(struct bytes text)
{
	size_t size = 0;

	while (size < text.size &&
	       (isdigit((unsigned char)text.data[size]) || (size && text.data[size] == '.')))
		size++;
	return size;
}

static bool is_of_name(char byte)
{
	return isalnum((unsigned char)byte) || byte == '_' || byte == '$' || byte == '"';
}

static struct bytes part(struct bytes text, size_t from, size_t size)
{
	return bytes_make(text.data + from, size);
}

/* The next statement, without its ";", which is taken from the rest. */
static struct bytes next_statement(struct bytes *rest)
{
	struct bytes statement = *rest;
	size_t size = 0;

	while (size < rest->size && rest->data[size] != ';')
		size += rest->data[size] == '\'' || rest->data[size] == '"' ?
				quoted_size(part(*rest, size, rest->size - size)) :
				1;
	statement.size = size;
	size += size < rest->size;
	*rest = part(*rest, size, rest->size - size);
	return statement;
}

static int add_literal(struct bytes literal, unsigned *count, struct buf *shape, struct buf *values)
{
	const bool number = *literal.data != '\'';
	int r = buf_append_str(values, *count ? ", " : "");

	if (r == 0)
		r = buf_append_bytes(values, literal);
	return r < 0 ? r :
		       buf_printf(shape, "$%u%s", ++*count,
				  !number				  ? "" :
				  memchr(literal.data, '.', literal.size) ? "::numeric" :
									    "::bigint");
}

/* A text of two quotes in a row is two literals for quoted_size(): the second goes on with the
 * first. */
static size_t text_size(struct bytes text)
{
	size_t size = quoted_size(text);

	while (size < text.size && text.data[size] == '\'')
		size += quoted_size(part(text, size, text.size - size));
	return size;
}

/* Take a statement apart; how many literals it has, or a negative errno. */
static int take_apart(struct bytes statement, struct buf *shape, struct buf *values)
{
	unsigned count = 0;
	int r = 0;

	for (size_t at = 0, size; r == 0 && at < statement.size; at += size) {
		const struct bytes rest = part(statement, at, statement.size - at);
		const bool within = at && is_of_name(statement.data[at - 1]);
		const bool text = *rest.data == '\'';

		size = text ? text_size(rest) : within ? 0 : number_size(rest);
		if (size) {
			r = add_literal(part(rest, 0, size), &count, shape, values);
			continue;
		}
		size = *rest.data == '"' ? quoted_size(rest) : 1;
		r = buf_append(shape, rest.data, size);
	}
	if (r == 0)
		r = buf_append_byte(shape, '\0');
	return r < 0 ? r : (int)count;
}

static void forget_shapes(struct pg_message *message)
{
	for (unsigned i = 0; i < message->count; i++)
		free(message->shapes[i].text);
	message->count = 0;
}

static struct pg_shape *find_shape(struct pg_message *message, const char *text)
{
	struct pg_shape *shape = message->shapes;

	if (!shape)
		shape = message->shapes = calloc(SHAPES, sizeof(*shape));
	for (unsigned i = 0; shape && i < message->count; i++)
		if (strcmp(shape[i].text, text) == 0)
			return &shape[i];
	if (!shape || message->count == SHAPES)
		return NULL;
	shape += message->count;
	*shape = (struct pg_shape){ .text = strdup(text) };
	message->count += shape->text != NULL;
	return shape->text ? shape : NULL;
}

static int say_often(struct pg_message *message, struct bytes statement, pg_prepare_fn *prepare,
		     void *arg, struct buf *buf)
{
	_cleanup_(buf_done) struct buf shape = { 0 };
	_cleanup_(buf_done) struct buf values = { 0 };
	struct pg_shape *found;
	unsigned number;
	int r = take_apart(statement, &shape, &values);

	if (r < 0)
		return r;
	found = r ? find_shape(message, shape.data) : NULL;
	number = found ? (unsigned)(found - message->shapes) : 0;
	if (found && !found->prepared && !found->refused && prepare && ++found->seen >= SEEN) {
		found->prepared = prepare(arg, number, found->text) == 0;
		found->refused = !found->prepared;
	}
	if (!found || !found->prepared)
		return buf_append_bytes(buf, statement);
	return buf_printf(buf, "EXECUTE sessfs_%u(%.*s)", number, (int)values.size, values.data);
}

static int say_hidden(struct pg_message *message, unsigned number, const char *text,
		      struct buf *buf)
{
	if (message->hidden_count == ARRAY_SIZE(message->hidden))
		return -EINVAL;
	message->hidden[message->hidden_count++] = number;
	return buf_append_str(buf, text);
}

static bool is(struct bytes statement, const char *text)
{
	return bytes_equal(statement, bytes_str(text));
}

int pg_message_say(struct pg_message *message, struct bytes statements, pg_prepare_fn *prepare,
		   void *arg, struct buf *buf)
{
	unsigned number = 0;
	int r = 0;

	message->answered = message->hidden_count = 0;
	if (prepare && message->count == SHAPES && prepare(arg, 0, NULL) == 0)
		forget_shapes(message);
	while (r == 0 && statements.size) {
		struct bytes statement = next_statement(&statements);

		if (buf->size)
			r = buf_append_byte(buf, ';');
		if (r == 0)
			r = comes_often(statement) ?
				    say_often(message, statement, prepare, arg, buf) :
				    buf_append_bytes(buf, statement);
		number++;
		if (r == 0 && message->flushes && prepare && is(statement, "BEGIN")) {
			message->later = true;
			r = say_hidden(message, number++, ";SET LOCAL synchronous_commit = off",
				       buf);
		} else if (r == 0 && message->later && is(statement, "COMMIT")) {
			message->later = false;
			r = say_hidden(message, number++,
				       ";SELECT pg_logical_emit_message(true, 'sessfs', '')", buf);
		} else if (is(statement, "ROLLBACK")) {
			message->later = false;
		}
	}
	return r < 0 ? r : buf_append_byte(buf, '\0');
}

bool pg_message_hides(struct pg_message *message)
{
	const unsigned number = message->answered++;

	for (unsigned i = 0; i < message->hidden_count; i++)
		if (message->hidden[i] == number)
			return true;
	return false;
}

void pg_message_done(struct pg_message *message)
{
	forget_shapes(message);
	free(message->shapes);
	*message = (struct pg_message){ 0 };
}
