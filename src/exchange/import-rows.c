/* SPDX-License-Identifier: MIT */
/*
 * The layout of AgentScope's older database sessions: a table with one row a session, all of its
 * states in one JSON object; on Redis, a string.  It is read where it lies.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "src/exchange/import.h"

/* updated: nanoseconds since 1970, or 0. */
static int take_session(void *arg, struct bytes id, struct bytes data, int64_t updated)
{
	struct import *import = arg;
	_cleanup_(freep) char *name = str_printf("%s, session '%.*s'", import->copier.operand,
						 (int)MIN(id.size, 80), id.data ? id.data : "");
	struct import_session session = { .id = id, .name = name };

	if (!name)
		return -ENOMEM;
	session.st.st_mode = 0644;
	if (updated > 0) {
		session.set = ACCESS_SET_TIMES;
		session.st.st_atim = session.st.st_mtim = time_split(updated);
	}
	return import_session(import, &session, data);
}

static bool is_sqlite(int fd)
{
	static const char magic[] = "SQLite format 3";
	char head[sizeof(magic)] = "";

	return pread(fd, head, sizeof(head), 0) == sizeof(head) &&
	       memcmp(head, magic, sizeof(magic)) == 0;
}

static int rows_take(struct import *import, const char *operand)
{
	const bool standard = strcmp(operand, "-") == 0;
	_cleanup_(freep) char *why = NULL;
	_cleanup_(closep) int fd = -1;
	int r;

	if (backend_has_path(operand) && !standard) {
		fd = open(operand, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return copier_refuse(&import->copier, "cannot read %s: %s", operand,
					     strerror(errno));
	}
	if (standard || (fd >= 0 && !is_sqlite(fd)))
		return copier_refuse(&import->copier,
				     "%s is not a database; name one by its URL "
				     "(mysql://HOST/DATABASE) or as a SQLite file, and load a dump "
				     "into one first",
				     standard ? "the standard input" : operand);
	import->copier.operand = operand;
	r = backend_read_older(operand, import->from_table, take_session, import, &why);
	if (why)
		return copier_refuse(&import->copier, "%s", why);
	return r < 0 && !copier_is_fatal(r) ?
		       copier_refuse(&import->copier, "cannot read %s: %s", operand, strerror(-r)) :
		       r;
}

const struct import_layout import_rows = {
	.name = "agentscope-rows",
	.help = "a table with one row a session, as AgentScope had before: in a SQLite file,\n"
		"\t\t      or in a database that a URL names; on Redis, one string a session",
	.take = rows_take,
};
