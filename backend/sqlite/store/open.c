/* SPDX-License-Identifier: MIT */
/*
 * Opening a store: what kind of database is it, and what may we do with it?
 *
 *	the database is ...		opened for writing	opened read-only
 *	new or empty			made a store		refused
 *	ours, or adopted before		MODE_WHOLE		MODE_BOOKKEEPING or MODE_FROZEN
 *	another program's, has rows	adopted: MODE_WHOLE	MODE_ASIDE
 *	anything else			refused			refused
 *
 * Read-only means that rows are never written and a database that is not ours gets nothing
 * added.  But to show rows that others have changed, marks and nodes must follow, so we write
 * our own tables as a journalling filesystem replays its journal at a read-only mount
 * (MODE_BOOKKEEPING) - if the system lets us, and if there is no other owner, which does it
 * already.  Otherwise the tables are read as they are (MODE_FROZEN).  In a database that has none
 * of our tables, they are put into a private file that is attached to each connection and deleted
 * at the end (MODE_ASIDE).
 *
 * On a medium that cannot be written at all SQLite cannot make the -shm file that WAL needs; then
 * the file is opened as immutable, which it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/changes.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/feed.h"
#include "backend/sqlite/disk/join.h"
#include "backend/sqlite/schema/judge.h"
#include "backend/sqlite/disk/keeper.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/disk/reserve.h"
#include "backend/sqlite/disk/room.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

/* A reader makes a log to read by, but SQLite lets only a writer delete it: the last one to close,
 * and not while others have the log open or it holds something. */
static void tidy_log(struct sqlite *store)
{
	sqlite3 *db = NULL;

	if (!store->place.no_log || access(BESIDE(store->place.path, "-wal"), F_OK) < 0 ||
	    descriptor_fill() < 0 || !sqlite_place_stands(&store->place))
		return;
	if (sqlite3_open_v2(store->place.path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
			    sqlite_join_name()) == SQLITE_OK)
		sqlite3_exec(db, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
	sqlite3_close(db);
}

static void sqlite_close(struct backend *backend)
{
	struct sqlite *store = sqlite_of(backend);
	struct backend_snapshot *snapshot;

	sqlite_keeper_stop(store);
	sqlite_watch_stop(store);
	sqlite_room_ending(store);
	sqlite_mounts_leave(store);
	while ((snapshot = store->pool.idle)) {
		store->pool.idle = snapshot->next;
		sqlite_conn_close(&snapshot->conn);
		free(snapshot);
	}
	/* What was forgotten is to be in no page that is free, nor in the WAL. */
	if (store->rows_only && store->backend.forgets)
		sqlite_conn_exec(&store->writer,
				 "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)");
	/* The last one to close empties the WAL and deletes it. */
	sqlite_conn_close(&store->writer);
	tidy_log(store);
	sqlite_reserve_return(store->place.path, store->room.borrowed);
	sqlite_reserve_close(store);
	if (store->aside)
		unlink(store->aside);
	free(store->aside);
	sqlite3_free(store->name);
	sqlite_layout_done(&store->layout);
	if (store->owner)
		sqlite_file_disown(store->place.file);
	sqlite_place_done(&store->place);
	pthread_mutex_destroy(&store->pool.lock);
	pthread_mutex_destroy(&store->kept.lock);
	pthread_cond_destroy(&store->pool.freed);
	pthread_mutex_destroy(&store->queue.lock);
	pthread_mutex_destroy(&store->version_lock);
	pthread_mutex_destroy(&store->mounts.lock);
	sqlite_uses_done(store);
	pthread_mutex_destroy(&store->keeper.lock);
	pthread_mutex_destroy(&store->keeper.sync_lock);
	pthread_mutex_destroy(&store->keeper.checkpoint_lock);
	pthread_cond_destroy(&store->keeper.moved);
	free(store);
}

/* clang-format off */
#define READ(slot, ...) .slot = sqlite_##slot,
#define READ_ROWS READ
#define CALL READ
static const struct backend_scans sqlite_scans = { BACKEND_SCANS };

static const struct backend_changes sqlite_changes = {
	BACKEND_CHANGES
	.change_waiting = sqlite_change_waiting,
	.wake = sqlite_wake,
	.change_seen = sqlite_change_seen,
};

static const struct backend_shared sqlite_shared = {
	.is_shared = sqlite_is_shared,
	.on_duty = sqlite_on_duty,
	.turn = sqlite_turn,
	.hold = sqlite_hold,
	.use = sqlite_use,
	.feed_done = sqlite_feed_done,
	BACKEND_SHARED
};

static const struct backend_history sqlite_history = { BACKEND_HISTORY };

static const struct backend_snapshots sqlite_snapshots = { .snapshot_keep = sqlite_snapshot_keep };

static const struct backend_upkeep sqlite_upkeep = {
	.set_quota = sqlite_set_quota,
	.check = sqlite_check,
	.copy = sqlite_copy,
};

static const struct backend_ops sqlite_ops = {
	.name = "sqlite",
	.close = sqlite_close,
	.snapshot_begin = sqlite_snapshot_begin,
	.snapshot_end = sqlite_snapshot_end,
	.commit = sqlite_commit,
	BACKEND_CALLS
	BACKEND_READS
	.scans = &sqlite_scans,
	.history = &sqlite_history,
	.changes = &sqlite_changes,
	.shared = &sqlite_shared,
	.snapshots = &sqlite_snapshots,
	.upkeep = &sqlite_upkeep,
};
/* clang-format on */

static int allocate(const struct backend_options *options, struct sqlite **ret_store)
{
	struct sqlite *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	if (tick_cond_init(&store->keeper.moved) < 0) {
		free(store);
		return -ENOMEM;
	}
	/* Default attributes: these cannot fail on Linux. */
	pthread_mutex_init(&store->pool.lock, NULL);
	pthread_mutex_init(&store->kept.lock, NULL);
	pthread_cond_init(&store->pool.freed, NULL);
	pthread_mutex_init(&store->queue.lock, NULL);
	pthread_mutex_init(&store->version_lock, NULL);
	pthread_mutex_init(&store->mounts.lock, NULL);
	sqlite_uses_init(store);
	pthread_mutex_init(&store->keeper.lock, NULL);
	pthread_mutex_init(&store->keeper.sync_lock, NULL);
	pthread_mutex_init(&store->keeper.checkpoint_lock, NULL);
	backend_init(&store->backend, &sqlite_ops);
	store->backend.read_only = options->read_only;
	store->queue.last = &store->queue.first;
	store->guest = store->layout.runs_triggers = !options->owner;
	store->rows_only = options->rows_only;
	store->log_only = options->log_only;
	store->keeper.wal = -1;
	store->watch.inotify = store->watch.wake = -1;
	store->room.fd = -1;
	store->mounts.fd = -1;
	*ret_store = store;
	return 0;
}

/* The path as a URI, so that it can carry a parameter. */
static char *make_uri(const char *path, const char *parameter)
{
	sqlite3_str *uri = sqlite3_str_new(NULL);

	sqlite3_str_appendall(uri, "file:");
	for (const char *p = path; *p; p++) {
		if (strchr("?#%", *p))
			sqlite3_str_appendf(uri, "%%%02X", (unsigned)(unsigned char)*p);
		else
			sqlite3_str_appendchar(uri, 1, *p);
	}
	sqlite3_str_appendf(uri, "?%s", parameter);
	return sqlite3_str_finish(uri);
}

/* (Re)open the connection that everything here is done with; parameter NULL: for writing. */
static int open_writer(struct sqlite *store, const char *parameter)
{
	const char *path = store->place.path;

	sqlite_conn_close(&store->writer);
	sqlite3_free(store->name);
	store->name = parameter ? make_uri(path, parameter) : sqlite3_mprintf("%s", path);
	if (!store->name)
		return -ENOMEM;
	return sqlite_conn_open(store, false, &store->writer);
}

static int read_look(struct sqlite *store, bool read_only, struct look *look)
{
	int r;

	/* Or an empty file, left by a process that was killed. */
	store->place.no_log = read_only && !sqlite_beside_size(store->place.path, "-wal");
	r = open_writer(store, read_only ? "mode=ro" : NULL);

	if (r == 0)
		r = sqlite_look(&store->writer, look);
	if (r == 0 || r == -EBUSY || r == -ENOMEM || !read_only ||
	    access(store->place.path, W_OK) == 0)
		return r;
	log_warning("%s: cannot make files beside it, so sessfs reads it as a file that does not "
		    "change",
		    store->place.path);
	r = open_writer(store, "immutable=1");
	return r < 0 ? r : sqlite_look(&store->writer, look);
}

/* Before the first owner has written its name, the table may not exist; and a name that cannot be
 * read does not matter, so nothing is logged. */
static char *owner_name(const struct sqlite *store)
{
	static const char question[] = "SELECT value FROM sessfs_meta WHERE key = 'owner'";
	sqlite3 *db = store->writer.db;
	sqlite3_stmt *statement = NULL;
	const char *text = NULL;
	char *name = NULL;

	if (db && sqlite3_prepare_v2(db, question, -1, &statement, NULL) == SQLITE_OK &&
	    sqlite3_step(statement) == SQLITE_ROW)
		text = (const char *)sqlite3_column_text(statement, 0);
	if (text && sqlite_file_told(store->place.file, text))
		name = strdup(text);
	sqlite3_finalize(statement);
	return name;
}

static int refuse_owned(struct sqlite *store, const char *path, char **ret_why)
{
	_cleanup_(freep) char *owner = sqlite_mounts_owners(store);

	if (!owner)
		owner = owner_name(store);
	return str_explain(ret_why, -EBUSY, "%s is in use by %s", path,
			   owner ? owner : "another process");
}

/*
 * When several processes open a missing store at the same time, one makes the file and another may
 * be the first to own it.  So a process that is refused removes the file that it has made only if
 * it can own it, and an owner checks that the path still leads to its file: -ESTALE when it does
 * not.  The file is never another one while its owner lives.
 */
static int own_place(struct sqlite *store, bool shared)
{
	int r = sqlite_place_own(&store->place, shared);

	if (r < 0)
		return r;
	if (!sqlite_place_stands(&store->place)) {
		sqlite_file_disown(store->place.file);
		return -ESTALE;
	}
	store->owner = true;
	return 0;
}

/* What we made in vain we take away again; but a guest is perhaps not the only one there. */
static void take_place_away(struct sqlite *store)
{
	if (!store->place.created || store->guest)
		return;
	sqlite_mounts_leave(store);
	if (store->owner)
		sqlite_file_disown(store->place.file);
	store->owner = false;
	if (own_place(store, false) == 0)
		unlink(store->place.path);
}

/* For writing, own the store before looking at it: another process may still be making it. */
static int own_to_write(struct sqlite *store, const struct backend_options *options,
			const char *path, char **ret_why)
{
	int r = own_place(store, options->shared);

	if (r == -EBUSY) {
		/* For the owner's name, which may not be there yet. */
		open_writer(store, "mode=ro");
		return refuse_owned(store, path, ret_why);
	}
	if (r < 0 && r != -ESTALE)
		return str_explain(ret_why, r, "cannot lock %s: %s", path, strerror(-r));
	return r;
}

static int choose_mode(struct sqlite *store, const struct backend_options *options,
		       const struct look *look, const char *path, char **ret_why)
{
	int r = -EPERM;

	if (!options->read_only) {
		store->mode = MODE_WHOLE;
		return 0;
	}
	if (options->owner && store->place.writable && look->version)
		r = own_place(store, false);
	if (r == -ESTALE)
		return r;
	if (r == -EBUSY && options->must_own)
		return refuse_owned(store, path, ret_why);
	if (r < 0 && options->must_own && look->version)
		return access(store->place.path, W_OK) < 0 ? -errno : r;
	store->mode = !look->version ? MODE_ASIDE : r == 0 ? MODE_BOOKKEEPING : MODE_FROZEN;
	return 0;
}

enum { WAL_PAUSE_MS = 5 };

/* If two connections change the journal's mode at once, one fails immediately, without regard to
 * the time-out. */
static int step_patiently(sqlite3_stmt *statement)
{
	int64_t deadline = tick_ms() + SQLITE_BUSY_MS;
	int code;

	while ((code = sqlite3_step(statement)) == SQLITE_BUSY && tick_ms() < deadline) {
		sqlite3_reset(statement);
		usleep(WAL_PAUSE_MS * 1000);
	}
	return code;
}

static int set_wal(struct sqlite *store, const char *path, char **ret_why)
{
	sqlite3_stmt *statement = NULL;
	const char *mode;
	int code, r = 0;

	code = sqlite3_prepare_v2(store->writer.db, "PRAGMA main.journal_mode = WAL", -1,
				  &statement, NULL);
	if (code == SQLITE_OK)
		code = step_patiently(statement);
	if (code == SQLITE_ROW) {
		mode = (const char *)sqlite3_column_text(statement, 0);
		if (!mode || strcmp(mode, "wal") != 0)
			r = str_explain(ret_why, -EOPNOTSUPP,
					"cannot use %s: its filesystem does not allow a "
					"write-ahead log (shared memory)",
					path);
	} else {
		r = sqlite_result(&store->writer, code);
	}
	sqlite3_finalize(statement);
	return r;
}

/* Without the file by which mounts know of each other, such as on a full disk, there is one. */
static int share(struct sqlite *store, const char *owner, const char *path, char **ret_why)
{
	int error = sqlite_mounts_join(store, owner), r;

	if (error == 0)
		return sqlite_feed_begin(store);
	sqlite_file_disown(store->place.file);
	store->owner = false;
	r = own_place(store, false);
	if (r < 0)
		return str_explain(ret_why, r,
				   "%s is in use by other mounts, but %s-mounts, by which mounts "
				   "find each other, cannot be used: %s",
				   path, path, strerror(-error));
	log_warning("cannot use %s-mounts (%s), so the store cannot be mounted a second time", path,
		    strerror(-error));
	return 0;
}

static int bring_main(struct sqlite *store, const struct backend_options *options,
		      const struct look *look, const char *path, char **ret_why)
{
	int r = 0;

	if (options->read_only)
		r = open_writer(store, NULL);
	/* Until there is a log, a rollback journal has the pages; NORMAL does not sync them before
	 * it counts them, and no checksum of theirs covers the front of the first one. */
	if (r == 0)
		r = sqlite_conn_exec(&store->writer, "PRAGMA main.synchronous = FULL");
	if (r == 0 && look->new_store)
		r = sqlite_conn_exec_made(
			&store->writer,
			sqlite3_mprintf(
				"PRAGMA main.page_size = %d; PRAGMA main.auto_vacuum = INCREMENTAL",
				SQLITE_PAGE));
	if (r == 0 && look->made && !look->application && store->owner)
		sqlite_room_let_shrink(store, path);
	if (r == 0)
		r = set_wal(store, path, ret_why);
	if (r == 0)
		r = sqlite_conn_exec(&store->writer, "PRAGMA main.synchronous = NORMAL");
	if (r == 0)
		r = sqlite_schema_bring(store, look, ret_why);
	/* The name is for the message to a second owner, but set_triggers() in commit.c also needs
	 * a new owner to take the write lock once, before it reads the rows.  A read-only mount
	 * leaves the bytes of the store as they are when there is nothing to do. */
	if (r == 0 && store->owner && !options->read_only)
		r = sqlite_meta_put(&store->writer, "owner", options->owner);
	if (r == 0 && store->owner && !options->read_only)
		r = sqlite_feed_number(store);
	if (r == 0 && store->owner && !options->read_only && sqlite_file_shared(store->place.file))
		r = share(store, options->owner, path, ret_why);
	if (r == 0 && store->owner && !options->read_only && !sqlite_file_shared(store->place.file))
		sqlite_file_tell(store->place.file, options->owner);
	return r;
}

static int make_aside(struct sqlite *store)
{
	const char *place = getenv("TMPDIR");
	_cleanup_(freep) char *directory = realpath(place && *place ? place : "/tmp", NULL);
	char *path;
	int fd;

	if (!directory)
		return -errno;
	if (asprintf(&path, "%s/sessfs-XXXXXX", directory) < 0)
		return -ENOMEM;
	fd = descriptor_above(mkostemp(path, O_CLOEXEC));
	if (fd < 0) {
		free(path);
		return -errno;
	}
	close(fd);
	store->aside = path;
	return 0;
}

static int look_at_encoding(struct sqlite *store)
{
	static const char text[] = "SELECT CASE encoding WHEN 'UTF-8' THEN %d WHEN 'UTF-16le' "
				   "THEN %d ELSE %d END FROM pragma_encoding";
	int64_t encoding = SQLITE_UTF8;
	int r = sqlite_conn_query_made(&store->writer,
				       sqlite3_mprintf(text, SQLITE_UTF8, SQLITE_UTF16LE,
						       SQLITE_UTF16BE),
				       &encoding);

	store->encoding = (unsigned char)encoding;
	return r;
}

/* How often another program may take the file away from under our hands. */
enum { OPEN_TRIES = 10 };

static int open_store(struct sqlite *store, const char *path, const struct backend_options *options,
		      char **ret_why)
{
	struct look look = { 0 };
	int r = 0;

	if (options->owner && !options->read_only)
		r = own_to_write(store, options, path, ret_why);
	if (r == 0)
		r = read_look(store, options->read_only, &look);
	if (r == 0)
		r = sqlite_judge(store, options, path, &look, ret_why);
	if (r == 0)
		r = choose_mode(store, options, &look, path, ret_why);
	if (r < 0)
		return r;
	store->layout.has_past = look.version >= SQLITE_SCHEMA_PAST || store->mode == MODE_ASIDE;
	if (store->mode == MODE_ASIDE) {
		r = make_aside(store);
		if (r == 0)
			r = open_writer(store, "mode=ro");
		if (r == 0)
			r = sqlite_schema_aside(store);
	} else if (store->mode != MODE_FROZEN) {
		r = bring_main(store, options, &look, path, ret_why);
	}
	if (r == 0)
		r = look_at_encoding(store);
	if (r < 0)
		return r;
	sqlite_room_quota(store, options->max_size);
	r = sqlite_watch_start(store);
	if (r == 0)
		sqlite_room_open(store);
	if (r == 0)
		r = sqlite_keeper_start(store);
	return r;
}

static int open_once(const char *path, const struct backend_options *options,
		     struct backend **ret_backend, char **ret_why)
{
	struct sqlite *store;
	int r = allocate(options, &store);

	if (r < 0)
		return str_explain(ret_why, r, "out of memory");
	store->opening = true;
	r = sqlite_place_find(path, options, &store->place, ret_why);
	if (r == 0)
		r = open_store(store, path, options, ret_why);
	store->opening = false;
	if (r < 0) {
		take_place_away(store);
		sqlite_close(&store->backend);
		return r;
	}
	*ret_backend = &store->backend;
	return 0;
}

const char *sqlite_backend_library(bool *ret_flawed)
{
	if (ret_flawed)
		*ret_flawed = sqlite_join_mends(sqlite3_libversion_number());
	return sqlite3_libversion();
}

static int open_tries(const char *path, const struct backend_options *options,
		      struct backend **ret_backend, char **ret_why)
{
	int r, tries = 0;

	do
		r = open_once(path, options, ret_backend, ret_why);
	while (r == -ESTALE && ++tries < OPEN_TRIES);
	return r;
}

/* Even to read takes an index beside the store: room for it is borrowed, and what the first try has
 * left goes with the store. */
static int open_again_to_read(const char *path, const struct backend_options *options, bool no_log,
			      struct backend **ret_backend, char **ret_why)
{
	uint64_t lent = sqlite_reserve_lend_unopened(path, true);
	struct sqlite *store;
	int r;

	if (!lent)
		return -ENOSPC;
	freep(ret_why);
	*ret_why = NULL;
	r = open_tries(path, options, ret_backend, ret_why);
	if (r < 0) {
		sqlite_reserve_return(path, lent);
		return r;
	}
	store = sqlite_of(*ret_backend);
	store->room.borrowed = lent;
	store->place.no_log |= no_log;
	return 0;
}

int sqlite_backend_open(const char *path, const struct backend_options *options,
			struct backend **ret_backend, char **ret_why)
{
	_cleanup_(freep) char *real = realpath(path, NULL), *unused = NULL;
	bool no_log = real && !sqlite_beside_size(real, "-wal");
	char **why = ret_why ? ret_why : &unused;
	int r = open_tries(path, options, ret_backend, why);

	if (r == -ENOSPC && options->read_only)
		r = open_again_to_read(path, options, no_log, ret_backend, why);
	/* To delete on a full disk, a user has to mount it first. */
	else if (r == -ENOSPC && options->owner && sqlite_reserve_lend_unopened(path, false)) {
		freep(why);
		*why = NULL;
		r = open_tries(path, options, ret_backend, why);
	}
	return r < 0 ? sqlite_refuse_unreadable(r, path, why) : 0;
}
