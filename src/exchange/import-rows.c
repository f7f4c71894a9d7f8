/* SPDX-License-Identifier: MIT */
/*
 * The layout of AgentScope's older database sessions: a table with one row a session, all of its
 * states in one JSON object.  It is read from a SQLite file, or from what mysqldump(1) has written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "src/exchange/dump.h"
#include "src/exchange/import.h"

struct trip {
	struct import *import;
	const char *operand;
};

/* updated: nanoseconds since 1970, or 0. */
static int take_session(struct trip *trip, struct bytes id, struct bytes data, const char *where,
			int64_t updated)
{
	_cleanup_(freep) char *name = str_printf("%s%s, session '%.*s'", trip->operand, where,
						 (int)MIN(id.size, 80), id.data ? id.data : "");
	struct import_session session = { .id = id, .name = name };

	if (!name)
		return -ENOMEM;
	session.st.st_mode = 0644;
	if (updated > 0) {
		session.set = ACCESS_SET_TIMES;
		session.st.st_atim = session.st.st_mtim = time_split(updated);
	}
	return import_session(trip->import, &session, data);
}

/* A row of a SQLite table. */
static int take_older(void *arg, struct bytes session, struct bytes data, int64_t updated)
{
	return take_session(arg, session, data, "", updated);
}

static struct bytes value_of(const struct dump_row *row, const char *name)
{
	for (size_t i = 0; i < row->count; i++)
		if (row->names[i].size == strlen(name) &&
		    strncasecmp(row->names[i].data, name, row->names[i].size) == 0)
			return row->values[i];
	return bytes_make(NULL, 0);
}

/* A TIMESTAMP, which a dump has in UTC. */
static int64_t read_time(struct bytes text)
{
	char copy[40] = "";

	memcpy(copy, text.size ? text.data : "", MIN(text.size, sizeof(copy) - 1));
	return moment_read(copy);
}

static int refuse_row(struct trip *trip, const struct dump_place *place, const char *reason)
{
	return import_refuse(trip->import, "%s: line %llu, byte %llu: %s", trip->operand,
			     (unsigned long long)place->line, (unsigned long long)place->byte,
			     reason);
}

static int refuse_layout(struct trip *trip, const struct dump_row *row)
{
	int r = refuse_row(trip, &row->place,
			   "the rows have an item_index: this is the current layout, not the one "
			   "with a row per session");

	return r < 0 ? r : -ECANCELED;
}

static int take_row(void *arg, const struct dump_row *row)
{
	struct trip *trip = arg;
	struct bytes session = value_of(row, "session_id"), data = value_of(row, "state_data");
	char where[64];

	if (value_of(row, "item_index").data)
		return refuse_layout(trip, row);
	if (!session.data || !data.data)
		return refuse_row(trip, &row->place, "a row without session_id or state_data");
	snprintf(where, sizeof(where), ": row at line %llu, byte %llu",
		 (unsigned long long)row->place.line, (unsigned long long)row->place.byte);
	return take_session(trip, session, data, where, read_time(value_of(row, "updated_at")));
}

static int broken(void *arg, const struct dump_place *place, const char *reason)
{
	_cleanup_(freep) char *sentence =
		str_printf("%s; the rest of the statement is skipped", reason);

	if (!sentence)
		return -ENOMEM;
	return refuse_row(arg, place, sentence);
}

static int take_dump(struct trip *trip, int fd)
{
	const struct dump dump = {
		.table = trip->import->from_table,
		.row = take_row,
		.broken = broken,
		.arg = trip,
	};
	int r = dump_read(fd, &dump);

	return r == -ECANCELED ? 0 : r;
}

static int take_database(struct trip *trip)
{
	_cleanup_(freep) char *why = NULL;
	int r = backend_read_older(trip->operand, trip->import->from_table, take_older, trip, &why);

	return why ? import_refuse(trip->import, "%s", why) : r;
}

static int take(struct import *import, const char *operand, const char *to)
{
	static const char magic[] = "SQLite format 3";
	struct trip trip = { .import = import, .operand = operand };
	_cleanup_(closep) int fd =
		strcmp(operand, "-") == 0 ? dup(STDIN_FILENO) : open(operand, O_RDONLY | O_CLOEXEC);
	char head[sizeof(magic)] = "";
	int r;

	(void)to;
	if (fd < 0)
		return import_refuse(import, "cannot read %s: %s", operand, strerror(errno));
	if (pread(fd, head, sizeof(head), 0) == sizeof(head) &&
	    memcmp(head, magic, sizeof(magic)) == 0)
		return take_database(&trip);
	r = take_dump(&trip, fd);
	if (r < 0 && !import_is_fatal(r))
		r = import_refuse(import, "cannot read %s: %s", operand, strerror(-r));
	return r;
}

const struct import_layout import_rows = {
	.name = "agentscope-rows",
	.help = "a table with one row a session, as AgentScope had before: in a SQLite file, or "
		"as\n\t\t      mysqldump(1) has written it (-: from the standard input)",
	.take = take,
};
