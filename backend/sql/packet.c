/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "backend/fields.h"
#include "backend/sql/packet.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

void packet_done(struct sql_packet *packet)
{
	buf_done(&packet->text);
	free(packet->statements);
	*packet = (struct sql_packet){ 0 };
}

static void add_statement(struct sql_packet *packet, int guard)
{
	if (packet->r == 0)
		packet->r = ARRAY_ROOM(packet->statements, packet->count, packet->room);
	if (packet->r == 0)
		packet->statements[packet->count++] =
			(struct sql_statement){ .request = packet->request, .guard = guard };
}

void packet_say(struct sql_packet *packet, int guard, enum sql_text text,
		const struct sql_value *values, size_t count)
{
	add_statement(packet, guard);
	if (packet->r == 0)
		packet->r = sql_say(&packet->text, &packet->store->texts, text, values, count);
}

void packet_say_op(struct sql_packet *packet, int guard, enum sql_text text, const char *fields,
		   const struct backend_op *op)
{
	struct sql_value values[12];

	packet_say(packet, guard, text, values, op_values(fields, op, values));
}

void packet_say_plain(struct sql_packet *packet, const char *text)
{
	add_statement(packet, -EIO);
	if (packet->r == 0)
		packet->r = sql_say_text(&packet->text, &packet->store->texts, text, NULL, 0);
}

void packet_say_on(struct sql_packet *packet, enum sql_text text, const struct sql_value *values,
		   size_t count)
{
	if (packet->r == 0)
		packet->r = sql_say_on(&packet->text, &packet->store->texts, text, values, count);
}

void packet_add(struct sql_packet *packet, const char *text)
{
	if (packet->r == 0)
		packet->r = buf_append_str(&packet->text, text);
}

static int read_answers(struct sql_packet *packet, struct sql_link *link, size_t *ret_failed)
{
	const struct sql_driver *driver = packet->store->texts.driver;
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	size_t done = 0;
	int r, guard;

	while ((r = driver->next(link, &answer)) > 0) {
		struct backend_append *append =
			done < packet->count ? packet->statements[done].append : NULL;

		if (append && sql_row(packet->store, answer, columns)) {
			append->first = sql_int(columns[0]);
			append->bytes = (uint64_t)sql_int(columns[1]);
		}
		driver->answer_done(answer);
		done++;
	}
	if (r == 0)
		return done == packet->count ? 0 : -ENOTCONN;
	if (done < packet->count) {
		*ret_failed = packet->statements[done].request;
		guard = packet->statements[done].guard;
		if (r == -ESTALE && guard != -EIO)
			return guard;
		if (r == -EBUSY && guard == -EBUSY)
			return r;
		r = r == -ESTALE ? -EIO : r;
	}
	/* What was known of the columns of a table was wrong: the committing thread looks again. */
	return r == -ENOMSG ? r : sql_error(packet->store, link, r);
}

int packet_flush(struct sql_packet *packet, struct sql_link *link, size_t *ret_failed)
{
	int r = packet->r;

	if (r == 0 && packet->count) {
		r = packet->store->texts.driver->send(link, buf_bytes(&packet->text));
		if (r == 0)
			r = read_answers(packet, link, ret_failed);
	}
	buf_clear(&packet->text);
	packet->count = packet->inserts = 0;
	packet->r = 0;
	return r;
}
