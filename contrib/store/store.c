/* SPDX-License-Identifier: MIT */
/*
 * A store of one's own, over SQL: README.md says how it is built, and how to write another.
 *
 * Each operation of a batch is a statement, and each read is one, which runs in a connection that
 * is the snapshot.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "backend/plugin.h"
#include "backend/slots.h"
#include "backend/url/url.h"
#include "sql.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

struct store {
	struct backend backend; /* first: a pointer to it is one to the store */
	pthread_mutex_t lock;	/* of db, which writes */
	sqlite3 *db;
	int file; /* the same, locked: others would not hear of what is committed */
};

#define STORE(backend) ((struct store *)(backend))

/* clang-format off */
/* ---- What operations do ---- */

#define ROW_INSERT "INSERT INTO rows VALUES(0,:session,:key,:at,:data,:created,:updated)"
#define OF_KEY " WHERE holder=0 AND session=:session AND key=:key"
/* NULL, which the column refuses, when it is no number any more. */
#define ADD(column, by) \
	column "=CASE typeof(" column "+" by ") WHEN 'integer' THEN " column "+" by " END"

/* Parameters are fields of the operation (:) and of its node (@).  What is not here does nothing,
 * as a store does that has one mount, and that no other program changes. */
static const char *const statements[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = ROW_INSERT,
	[BACKEND_ROW_PUT] = ROW_INSERT " ON CONFLICT DO UPDATE SET data=excluded.data,"
		" updated=excluded.updated WHERE data IS NOT excluded.data",
	[BACKEND_ROW_DELETE] = "DELETE FROM rows" OF_KEY " AND at BETWEEN :at AND :to",
	[BACKEND_KEY_MOVE] = "DELETE FROM rows WHERE holder=0 AND session=:session_to"
		" AND key=:key_to AND NOT (session=:session AND key=:key);"
		"UPDATE rows SET session=:session_to, key=:key_to" OF_KEY,
	[BACKEND_ROWS_SHIFT] = "UPDATE rows SET holder=-1, " ADD("at", ":to") OF_KEY " AND at>=:at;"
		"UPDATE rows SET holder=0 WHERE holder=-1;"
		"UPDATE pieces SET ino=-1, " ADD("at", ":to") " WHERE ino=:ino AND at>=:at;"
		"UPDATE pieces SET ino=:ino WHERE ino=-1;"
		"UPDATE marks SET ino=-1, " ADD("at", ":to") ", " ADD("offset", ":seq")
		" WHERE ino=:ino AND at>=:at;"
		"UPDATE marks SET ino=:ino, offset=iif(offset<0, NULL, offset) WHERE ino=-1",
	[BACKEND_KEY_HIDE] = "UPDATE rows SET holder=:ino, session=x'', key=x''" OF_KEY,
	[BACKEND_KEY_SHOW] =
		"UPDATE rows SET holder=0, session=:session, key=:key WHERE holder=:ino",
	[BACKEND_HIDDEN_DELETE] = "DELETE FROM rows WHERE holder=:ino AND at BETWEEN :at AND :to",
	[BACKEND_NODE_PUT] = "DELETE FROM nodes WHERE ino=@ino; INSERT INTO nodes VALUES(@ino,"
		"@parent,@entry,@kind,@flags,@mode,@uid,@gid,@nlink,@rdev,@size,@atime,@mtime,"
		"@ctime,@btime,@generation,@session,@key,@target)",
	[BACKEND_NODE_SET] = "UPDATE nodes SET atime=iif(:at&1,@atime,atime),"
		" mtime=iif(:at&2,@mtime,mtime), ctime=iif(:at&4,@ctime,ctime),"
		" mode=iif(:at&8,@mode,mode), uid=iif(:at&16,@uid,uid), gid=iif(:at&32,@gid,gid),"
		" generation=iif(:at&64,@generation,generation), nlink=nlink+:to WHERE ino=@ino",
	[BACKEND_NODE_DELETE] = "DELETE FROM nodes WHERE ino=:ino;"
		"DELETE FROM xattrs WHERE ino=:ino; DELETE FROM chunks WHERE ino=:ino;"
		"DELETE FROM pieces WHERE ino=:ino; DELETE FROM marks WHERE ino=:ino",
	[BACKEND_ENTRY_PUT] = "INSERT INTO entries VALUES(:parent,:at,:name,:ino)",
	[BACKEND_ENTRY_DELETE] = "DELETE FROM entries WHERE parent=:parent AND id=:at",
	[BACKEND_XATTR_PUT] = "REPLACE INTO xattrs VALUES(:ino,:name,:data)",
	[BACKEND_XATTR_DELETE] = "DELETE FROM xattrs WHERE ino=:ino AND name=:name",
	[BACKEND_CHUNK_PUT] = "REPLACE INTO chunks VALUES(:ino,:at,:data)",
	[BACKEND_CHUNK_DELETE] = "DELETE FROM chunks WHERE ino=:ino AND at BETWEEN :at AND :to",
	[BACKEND_PIECE_PUT] = "REPLACE INTO pieces VALUES(:ino,:at,:seq,:data)",
	[BACKEND_PIECE_DELETE] = "DELETE FROM pieces WHERE ino=:ino AND at BETWEEN :at AND :to"
		" AND (at>:at OR seq>=:seq)",
	[BACKEND_MARK_PUT] = "REPLACE INTO marks VALUES(:ino,:offset,:at)",
	[BACKEND_MARK_DELETE] = "DELETE FROM marks WHERE ino=:ino AND offset>=:offset"
		" AND (:to=0 OR offset<:to)",
	[BACKEND_SETTING] = "DELETE FROM settings WHERE name=:name;"
		"INSERT INTO settings SELECT :name, :data WHERE length(:data)>0",
};

/* ---- Reading ---- */

#define A_ROW fn(arg, NUMBER(0), BLOB(1))
SLOT(node_get, (uint64_t ino, struct backend_node *ret_node), -ENOENT,
     backend_node_copy(A_NODE, ret_node), "SELECT * FROM nodes WHERE ino=:ino", .ino = ino)
SLOT(node_find, (struct bytes session, struct bytes key, struct backend_node *ret_node), -ENOENT,
     backend_node_copy(A_NODE, ret_node), "SELECT * FROM nodes WHERE session=:session AND nlink>0"
     " AND iif(:key IS NULL, kind=1, kind>1 AND key=:key)", .session = session, .key = key)
SLOT(node_list, (uint64_t after, bool orphans_only, backend_node_fn *fn, void *arg), 0,
     fn(arg, A_NODE), "SELECT * FROM nodes WHERE ino>:ino AND (:at=0 OR nlink=0) ORDER BY ino",
     .ino = after, .at = orphans_only)
SLOT(entry_find, (uint64_t parent, struct bytes name, uint64_t *ret_id,
		  struct backend_node *ret_node), -ENOENT,
     (*ret_id = (uint64_t)NUMBER(COLUMNS), backend_node_copy(A_NODE, ret_node)),
     "SELECT n.*, id FROM entries e JOIN nodes n USING(ino) WHERE e.parent=:parent AND name=:name",
     .parent = parent, .name = name)
SLOT(entry_name, (uint64_t parent, uint64_t id, struct buf *name), -ENOENT,
     buf_append_bytes(name, BLOB(0)), "SELECT name FROM entries WHERE parent=:parent AND id=:at",
     .parent = parent, .at = (int64_t)id)
SLOT(entry_list, (uint64_t parent, uint64_t after, backend_entry_fn *fn, void *arg), 0,
     fn(arg, &(struct backend_entry){ parent, (uint64_t)NUMBER(COLUMNS),
				      BLOB(COLUMNS + 1), (uint64_t)NUMBER(0) }, A_NODE),
     "SELECT n.*, id, name FROM entries e JOIN nodes n USING(ino)"
     " WHERE e.parent=:parent AND id>:at ORDER BY id", .parent = parent, .at = (int64_t)after)
SLOT(xattr_get, (uint64_t ino, struct bytes name, struct buf *value), -ENODATA,
     buf_append_bytes(value, BLOB(0)),
     "SELECT data FROM xattrs WHERE ino=:ino AND name=:name", .ino = ino, .name = name)
SLOT(xattr_list, (uint64_t ino, backend_name_fn *fn, void *arg), 0, fn(arg, BLOB(0)),
     "SELECT name FROM xattrs WHERE ino=:ino ORDER BY name", .ino = ino)
SLOT(chunk_read, (uint64_t ino, int64_t first, int64_t last, backend_chunk_fn *fn, void *arg), 0,
     A_ROW, "SELECT at, data FROM chunks WHERE ino=:ino AND at BETWEEN :at AND :to ORDER BY at",
     .ino = ino, .at = first, .to = last)
SLOT(row_read, (struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
		void *arg), 0, A_ROW, "SELECT at, data FROM rows" OF_KEY " AND at>=:at ORDER BY at",
     .session = session, .key = key, .at = first)
SLOT(row_read_back, (struct bytes session, struct bytes key, int64_t last, uint64_t most,
		     backend_row_fn *fn, void *arg), 0, A_ROW,
     "SELECT at, data FROM rows" OF_KEY " AND at<=:at ORDER BY at DESC LIMIT :to", /* -1: all */
     .session = session, .key = key, .at = last, .to = (int64_t)most)
SLOT(key_stat, (struct bytes session, struct bytes key, struct backend_key_stat *ret_stat), -ENOENT,
     (*ret_stat = A_STAT, 0), "SELECT (SELECT min(at) FROM rows" OF_KEY "), at, created, updated"
     " FROM rows" OF_KEY " ORDER BY at DESC LIMIT 1", .session = session, .key = key)
SLOT(key_list, (struct bytes session, struct bytes key, backend_key_fn *fn, void *arg), 0,
     fn(arg, BLOB(4), BLOB(5), &A_STAT),
     "SELECT min(f.at), l.* FROM (SELECT max(at), created, updated, session, key FROM rows WHERE"
     " holder=0 AND (:session IS NULL OR (session, key)>(:session, :key)) GROUP BY session, key) l"
     " JOIN rows f ON holder=0 AND f.session=l.session AND f.key=l.key GROUP BY l.session, l.key",
     .session = session, .key = key)
SLOT(piece_read, (uint64_t ino, int64_t first, int64_t first_seq, backend_piece_fn *fn,
		  void *arg), 0, fn(arg, NUMBER(0), NUMBER(1), BLOB(2)),
     "SELECT at, seq, data FROM pieces WHERE ino=:ino AND (at, seq)>=(:at, :seq) ORDER BY at, seq",
     .ino = ino, .at = first, .seq = first_seq)
SLOT(mark_find, (uint64_t ino, uint64_t offset, struct backend_mark *ret_mark), -ENOENT,
     (*ret_mark = A_MARK, 0),
     "SELECT offset, at FROM marks WHERE ino=:ino AND offset<=:offset ORDER BY offset DESC LIMIT 1",
     .ino = ino, .offset = offset > INT64_MAX ? INT64_MAX : offset)
SLOT(mark_find_index, (uint64_t ino, int64_t index, struct backend_mark *ret_mark), -ENOENT,
     (*ret_mark = A_MARK, 0), "SELECT offset, at FROM marks WHERE ino=:ino AND at<=:at"
     " ORDER BY at DESC, offset DESC LIMIT 1", .ino = ino, .at = index)
SLOT(last_ids, (uint64_t *ret_ino, uint64_t *ret_entry), -EIO,
     (*ret_ino = (uint64_t)NUMBER(0), *ret_entry = (uint64_t)NUMBER(1), 0),
     "SELECT seq, (SELECT max(id) FROM entries) FROM sqlite_sequence", 0)
SLOT(setting_list, (backend_setting_fn *fn, void *arg), 0,
     fn(arg, BLOB(0), BLOB(1)), "SELECT name, data FROM settings ORDER BY name", 0)
/* clang-format on */

/* ---- Snapshots and commits ---- */

/* A connection of its own, which has begun to read. */
static int snapshot_begin(struct backend *backend, unsigned flags, struct backend_snapshot **ret)
{
	sqlite3 *db;
	int r = connect(sqlite3_db_filename(STORE(backend)->db, NULL), &db);

	if (r == 0)
		r = run(db, "BEGIN; SELECT count(*) FROM settings", NULL);
	if (r < 0)
		sqlite3_close(db);
	else
		*ret = (struct backend_snapshot *)db;
	return r;
}

static void snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	sqlite3_close((sqlite3 *)snapshot);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int apply(struct backend *backend, const struct backend_op *op)
{
	struct backend_op dated = *op;

	if ((unsigned)op->type >= BACKEND_OP_TYPES ||
	    (op->type == BACKEND_CHUNK_PUT && op->data.size > BACKEND_CHUNK))
		return -EINVAL;
	if (op->data.size > backend->max_item)
		return -EFBIG;
	dated.created = op->created ? op->created : now();
	dated.updated = op->updated ? op->updated : now();
	return statements[op->type] ? run(STORE(backend)->db, statements[op->type], &dated) : 0;
}

static int commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct store *store = STORE(backend);
	int r;

	pthread_mutex_lock(&store->lock);
	r = backend->read_only ? -EROFS : run(store->db, "BEGIN IMMEDIATE", NULL);
	do {
		for (size_t n = 0; r >= 0 && n < batch->count; n++)
			r = apply(backend, &batch->ops[n]);
		if (r >= 0)
			r = batch->more ? batch->more(batch) : 0;
	} while (r > 0);
	if (r == 0 && batch->visible)
		batch->visible(batch->visible_arg);
	if (r == 0)
		r = run(store->db, "COMMIT", NULL);
	if (r < 0 && !sqlite3_get_autocommit(store->db))
		run(store->db, "ROLLBACK", NULL);
	pthread_mutex_unlock(&store->lock);
	return r;
}

static int sync_all(struct backend *backend)
{
	return syncfs(STORE(backend)->file) < 0 ? -errno : 0;
}

static int space(struct backend *backend, struct backend_space *ret_space)
{
	struct statvfs medium;
	struct stat file;

	if (fstatvfs(STORE(backend)->file, &medium) < 0 || fstat(STORE(backend)->file, &file) < 0)
		return -errno;
	*ret_space =
		(struct backend_space){ medium.f_blocks * medium.f_frsize,
					medium.f_bavail * medium.f_frsize, (uint64_t)file.st_size };
	return 0;
}

/* ---- Opening and closing ---- */

static void store_close(struct backend *backend)
{
	struct store *store = STORE(backend);

	sqlite3_close(store->db);
	close(store->file);
	free(store);
}

/* clang-format off */
#define READ(slot, ...) .slot = slot,
#define READ_ROWS READ
static const struct backend_ops ops = {
	.name = "store", .close = store_close, .snapshot_begin = snapshot_begin,
	.snapshot_end = snapshot_end, .commit = commit, .sync = sync_all, .space = space,
	BACKEND_READS
};
/* clang-format on */

static int store_open(const struct url *url, const struct backend_options *options,
		      struct backend **ret_backend, char **ret_why)
{
	struct backend_node root = { .ino = BACKEND_ROOT, .parent = BACKEND_ROOT, .nlink = 2 };
	struct store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return -ENOMEM;
	backend_init(&store->backend, &ops);
	store->backend.max_item = 1000000000 - 65536; /* SQLite takes 1000000000 bytes in a row */
	store->backend.read_only = options->read_only;
	pthread_mutex_init(&store->lock, NULL);
	root.mode = S_IFDIR | 0755;
	root.uid = geteuid();
	root.gid = getegid();
	root.atime = root.mtime = root.ctime = root.btime = now();
	store->file =
		open(url->database, O_RDWR | O_CLOEXEC | (options->create ? O_CREAT : 0), 0600);
	r = store->file < 0 || flock(store->file, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
	if (r == 0)
		r = connect(url->database, &store->db);
	if (r == 0)
		r = run(store->db, schema, &(struct backend_op){ .node = &root });
	if (r == 0) {
		*ret_backend = &store->backend;
		return 0;
	}
	store_close(&store->backend);
	r = r == -EWOULDBLOCK ? -EBUSY : r;
	return ret_why ? str_explain(ret_why, r, "%s: %s", url->database, strerror(-r)) : r;
}

const struct plugin sessfs_plugin = {
	.abi = plugin_abi,
	.seam = plugin_seam,
	.set_log_sink = log_set_sink,
	.set_log_level = log_set_level,
	.open = store_open,
};
