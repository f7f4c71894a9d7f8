/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/schema/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"

const char sqlite_judge_default[] = "agentscope_sessions";

bool sqlite_judge_name(const char *name)
{
	return *name && strncasecmp(name, "sqlite_", 7) != 0 &&
	       strncasecmp(name, "sessfs_", 7) != 0;
}

int sqlite_look(struct sqlite_conn *conn, struct look *look)
{
	static const char count[] = "SELECT count(*) FROM main.sqlite_schema WHERE "
				    "name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
	_cleanup_(freep) char *made = NULL;
	int r = sqlite_conn_query(conn, "PRAGMA main.application_id", 0, &look->application);

	if (r == 0)
		r = sqlite_conn_query(conn, "PRAGMA main.user_version", 0, &look->user_version);
	if (r == 0)
		r = sqlite_conn_query(conn, count, 0, &look->tables);
	if (r == 0)
		r = sqlite_schema_version(conn, &look->version);
	if (r < 0 || !look->version)
		return r;
	r = sqlite_meta_get(conn, "made", &made);
	look->made = made && strcmp(made, "1") == 0;
	return r;
}

/* The table is the one that the store has always served. */
static int choose_table(struct sqlite *store, const struct backend_options *options,
			const struct look *look, const char *path, char **ret_why)
{
	_cleanup_(freep) char *served = NULL;
	const char *wanted = options->table;
	int r = 0;

	if (look->version)
		r = sqlite_meta_get(&store->writer, "table", &served);
	if (r < 0)
		return r;
	if (served && wanted && strcasecmp(served, wanted) != 0)
		return str_explain(ret_why, -EINVAL,
				   "%s keeps its sessions in the table %s, not in %s ('sessfs "
				   "config' shows its settings)",
				   path, served, wanted);
	if (!wanted)
		wanted = served ? served : sqlite_judge_default;
	if (!sqlite_judge_name(wanted))
		return str_explain(ret_why, -EINVAL, "'%s' cannot be the name of a table of rows",
				   wanted);
	return sqlite_layout_name(&store->layout, wanted);
}

/* Nothing of ours and no rows are in it. */
static int judge_other(const struct backend_options *options, const char *path, struct look *look,
		       char **ret_why)
{
	if (look->tables || (look->application && look->application != SQLITE_APPLICATION))
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "%s belongs to another program: it is a SQLite database without "
				   "a table of sessions",
				   path);
	if (!options->create || options->read_only)
		return str_explain(ret_why, -EMEDIUMTYPE, "%s is empty, so it is not a store",
				   path);
	look->new_store = true;
	return 0;
}

int sqlite_judge(struct sqlite *store, const struct backend_options *options, const char *path,
		 struct look *look, char **ret_why)
{
	bool ours = look->application == SQLITE_APPLICATION && (look->made || !look->version);
	int64_t version = ours ? MAX(look->version, look->user_version) : look->version;
	int r;

	if (version && (version < SQLITE_SCHEMA_OLDEST || version > SQLITE_SCHEMA_FORMAT))
		return str_explain(ret_why, -EPROTONOSUPPORT,
				   "%s has the format %lld, and this sessfs knows the format %d "
				   "alone; use %s sessfs",
				   path, (long long)version, SQLITE_SCHEMA_FORMAT,
				   version > SQLITE_SCHEMA_FORMAT ? "a newer" : "an older");
	r = choose_table(store, options, look, path, ret_why);
	if (r == 0)
		r = sqlite_layout_look(&store->writer, &store->layout, path, ret_why);
	if (r != -ENOENT)
		return r;
	if (!look->version)
		return judge_other(options, path, look, ret_why);
	if (options->read_only)
		return str_explain(ret_why, -EMEDIUMTYPE, "%s has lost its table %s", path,
				   store->layout.name);
	look->rows_lost = true;
	return 0;
}

/* SQLite follows no link where it keeps its own files, and says only that one cannot be opened, or
 * written.  Returns error if it is not that. */
static int refuse_planted(int error, const char *path, char **ret_why)
{
	static const char *const endings[] = { "-wal", "-shm", "-journal" };
	_cleanup_(freep) char *store = realpath(path, NULL);

	for (size_t i = 0; store && i < ARRAY_SIZE(endings); i++) {
		const char *name = BESIDE(store, endings[i]);
		struct stat st;

		if (lstat(name, &st) == 0 && !S_ISREG(st.st_mode))
			return str_explain(ret_why, -ELOOP,
					   "%s is not the file that SQLite keeps there but a %s; "
					   "find out what put it there, then remove it",
					   name,
					   S_ISLNK(st.st_mode) ? "link" :
								 "special file or directory");
	}
	return error;
}

int sqlite_refuse_unreadable(int error, const char *path, char **ret_why)
{
	static const struct {
		int error;
		const char *format;
	} sentences[] = {
		{ -EBUSY, "%s is locked: another program has held a lock on it for ten seconds" },
		{ -EIO,
		  "%s cannot be read: the database is damaged or its medium fails (SQLite's own "
		  "message is in the log); 'sessfs check --repair' rescues what is left" },
		{ -ENOSPC, "%s cannot be opened: its filesystem is full" },
		{ -EFBIG,
		  "%s cannot be opened: the limit on the size of files is too low (ulimit -f)" },
		{ -EROFS, "you cannot write to %s or its directory; open it read-only" },
		{ -EACCES, "%s cannot be opened: you cannot make files in its directory" },
	};

	if (ret_why && *ret_why) /* a better sentence is there already */
		return error;
	if ((error == -EIO || error == -EROFS || error == -EACCES) &&
	    refuse_planted(error, path, ret_why) == -ELOOP)
		return -ELOOP;
	if (error == -ENOSPC && sqlite_lacks_inodes(path))
		return str_explain(ret_why, error,
				   "%s cannot be opened: its filesystem is full, it has no room "
				   "for one more file (no free inodes)",
				   path);
	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++)
		if (sentences[i].error == error)
			return str_explain(ret_why, error, sentences[i].format, path);
	return str_explain(ret_why, error, "%s cannot be opened: %s", path, strerror(-error));
}
