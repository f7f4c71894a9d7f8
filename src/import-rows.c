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
#include <time.h>

#include "src/base/cleanup.h"
#include "src/dump.h"
#include "src/import.h"

struct trip {
	struct import *import;
	const char *operand;
};

/* Where an id stands in a sentence. */
static struct bytes shortened(struct bytes id)
{
	return bytes_make(id.data, MIN(id.size, 80));
}

static int take_session(struct trip *trip, struct bytes id, struct bytes data, const char *where,
			const struct timespec *updated)
{
	struct bytes shown = shortened(id);
	_cleanup_(freep) char *name = NULL;
	struct import_session session = { .id = id, .set = updated ? ACCESS_SET_TIMES : 0 };

	if (asprintf(&name, "%s%s, session '%.*s'", trip->operand, where, (int)shown.size,
		     shown.data ? shown.data : "") < 0) {
		name = NULL;
		return -ENOMEM;
	}
	session.name = name;
	session.st.st_mode = 0644;
	if (updated)
		session.st.st_atim = session.st.st_mtim = *updated;
	return import_session(trip->import, &session, data);
}

/* A row of a SQLite table. */
static int take_older(void *arg, struct bytes session, struct bytes data, int64_t updated)
{
	const struct timespec time = { updated / 1000000000, updated % 1000000000 };

	return take_session(arg, session, data, "", updated > 0 ? &time : NULL);
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
static bool read_time(struct bytes text, struct timespec *ret_time)
{
	char copy[40] = "";
	struct tm utc = { 0 };
	const char *rest;

	if (!text.data)
		return false;
	memcpy(copy, text.data, MIN(text.size, sizeof(copy) - 1));
	rest = strptime(copy, "%Y-%m-%d %H:%M:%S", &utc);
	if (!rest)
		return false;
	*ret_time = (struct timespec){ .tv_sec = timegm(&utc) };
	rest += *rest == '.';
	for (long unit = 100000000; *rest >= '0' && *rest <= '9' && unit; unit /= 10)
		ret_time->tv_nsec += (*rest++ - '0') * unit;
	return ret_time->tv_sec > 0;
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
			   "the rows have an item_index: this is the present layout, not the one "
			   "with a row a session");

	return r < 0 ? r : -ECANCELED;
}

static int take_row(void *arg, const struct dump_row *row)
{
	struct trip *trip = arg;
	struct bytes session = value_of(row, "session_id"), data = value_of(row, "state_data");
	struct timespec updated;
	char where[64];

	if (value_of(row, "item_index").data)
		return refuse_layout(trip, row);
	if (!session.data || !data.data)
		return refuse_row(trip, &row->place, "a row without session_id or state_data");
	snprintf(where, sizeof(where), ": row at line %llu, byte %llu",
		 (unsigned long long)row->place.line, (unsigned long long)row->place.byte);
	return take_session(trip, session, data, where,
			    read_time(value_of(row, "updated_at"), &updated) ? &updated : NULL);
}

static int broken(void *arg, const struct dump_place *place, const char *reason)
{
	_cleanup_(freep) char *sentence = NULL;

	if (asprintf(&sentence, "%s; the rest of the statement is left out", reason) < 0) {
		sentence = NULL;
		return -ENOMEM;
	}
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
