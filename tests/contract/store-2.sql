-- A store of version 2 that two mounts have written to, with what they have left for each other.
PRAGMA application_id = 1936028518;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE "agentscope_sessions" (
  -- What the sessions hold: one row a state, or one row an item of a list state.
  session_id TEXT    NOT NULL,
  state_key  TEXT    NOT NULL,
  item_index INTEGER NOT NULL DEFAULT 0, -- lists: 0, 1, 2 ... without holes
  state_data TEXT    NOT NULL, -- JSON as it was written; plain text if the key ends in :_hash
  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, -- UTC
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, -- UTC; moves when state_data changes
  PRIMARY KEY (session_id, state_key, item_index)
);
INSERT INTO "agentscope_sessions" VALUES('demo','messages',0,'{"n":1}','2026-11-24 22:43:46.527','2026-11-24 22:43:46.527');
INSERT INTO "agentscope_sessions" VALUES('demo','messages',1,'{"n":2}','2026-11-24 22:43:46.527','2026-11-24 22:43:46.527');
INSERT INTO "agentscope_sessions" VALUES('demo','state',0,'{"a":1}','2026-11-24 22:43:46.541','2026-11-24 22:43:46.541');
CREATE TABLE sessfs_change (
  -- Keys that other programs changed and sessfs has not looked at yet, written by the
  -- triggers on the rows.  The key (x'', x''), two blobs, says: anything may have changed.
  session_id    NOT NULL,
  state_key     NOT NULL,
  first_index   INTEGER NOT NULL, -- lowest index that was changed
  deleted_index INTEGER NOT NULL, -- lowest index that was deleted
  stamp         INTEGER NOT NULL, -- never used twice; negative: it was set apart
  PRIMARY KEY (session_id, state_key)
) WITHOUT ROWID;
CREATE TABLE sessfs_chunk (
  -- Bytes of ordinary files and drafts, 32768 a chunk; what is missing reads as zeros.
  ino   INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  data  BLOB    NOT NULL,
  PRIMARY KEY (ino, chunk)
);
INSERT INTO "sessfs_chunk" VALUES(5,0,X'706C61696E0A');
CREATE TABLE sessfs_claim (
  -- Files without a name that a mount has open; mount 0: how far (sessfs_feed.n) each has
  -- to be before the file goes.
  ino   INTEGER NOT NULL,
  mount INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (ino, mount)
) WITHOUT ROWID;
CREATE TABLE sessfs_entry (
  -- Names in directories.
  parent INTEGER NOT NULL, -- ino of the directory
  id     INTEGER NOT NULL, -- rises; the order of a listing
  name   BLOB    NOT NULL,
  ino    INTEGER NOT NULL,
  PRIMARY KEY (parent, id),
  UNIQUE (parent, name)
) WITHOUT ROWID;
INSERT INTO "sessfs_entry" VALUES(1,1,X'64656D6F',2);
INSERT INTO "sessfs_entry" VALUES(2,2,X'737562',3);
INSERT INTO "sessfs_entry" VALUES(2,3,X'6D657373616765732E6A736F6E6C',4);
INSERT INTO "sessfs_entry" VALUES(2,1025,X'73746174652E6A736F6E',1026);
INSERT INTO "sessfs_entry" VALUES(3,4,X'6E6F7465732E747874',5);
CREATE TABLE sessfs_feed (
  -- What a mount has changed, until all others know it: a row each node, name or key.
  n           INTEGER PRIMARY KEY, -- rises by one
  mount       INTEGER NOT NULL,    -- that has changed it
  what        INTEGER NOT NULL,    -- 0 a node, 1 a name, 2 rows, 3 anything
  ino         INTEGER NOT NULL,    -- of the node, or of the directory that has the name
  flags       INTEGER NOT NULL,    -- 1 moved, made or removed; 2 bytes, too; 4 rows were added
  first_index INTEGER NOT NULL,    -- lowest index of the rows
  session_id  TEXT,
  state_key   TEXT,
  name        BLOB
);
INSERT INTO "sessfs_feed" VALUES(1,1,0,2,1,0,'demo',NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(2,1,1,1,0,0,NULL,NULL,X'64656D6F');
INSERT INTO "sessfs_feed" VALUES(3,1,0,1,0,0,NULL,NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(4,1,0,3,1,0,NULL,NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(5,1,1,2,0,0,NULL,NULL,X'737562');
INSERT INTO "sessfs_feed" VALUES(6,1,0,2,0,0,'demo',NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(7,1,0,4,1,0,'demo','messages',NULL);
INSERT INTO "sessfs_feed" VALUES(8,1,1,2,0,0,NULL,NULL,X'6D657373616765732E6A736F6E6C');
INSERT INTO "sessfs_feed" VALUES(9,1,0,2,0,0,'demo',NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(10,1,2,0,4,0,'demo','messages',NULL);
INSERT INTO "sessfs_feed" VALUES(11,1,0,4,2,0,'demo','messages',NULL);
INSERT INTO "sessfs_feed" VALUES(12,2,0,1026,1,0,'demo','state',NULL);
INSERT INTO "sessfs_feed" VALUES(13,2,1,2,0,0,NULL,NULL,X'73746174652E6A736F6E');
INSERT INTO "sessfs_feed" VALUES(14,2,0,2,0,0,'demo',NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(15,2,0,1026,3,0,'demo','state',NULL);
INSERT INTO "sessfs_feed" VALUES(16,2,2,0,0,0,'demo','state',NULL);
INSERT INTO "sessfs_feed" VALUES(17,1,0,5,1,0,NULL,NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(18,1,1,3,0,0,NULL,NULL,X'6E6F7465732E747874');
INSERT INTO "sessfs_feed" VALUES(19,1,0,3,0,0,NULL,NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(20,1,0,5,0,0,NULL,NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(21,1,0,5,2,0,NULL,NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(22,1,0,5,2,0,NULL,NULL,NULL);
INSERT INTO "sessfs_feed" VALUES(23,2,0,1026,0,0,'demo','state',NULL);
INSERT INTO "sessfs_feed" VALUES(24,1,0,4,0,0,'demo','messages',NULL);
CREATE TABLE sessfs_lock (
  -- Locks of files (flock, fcntl) that a mount holds, while there are others.
  ino   INTEGER NOT NULL,
  mount INTEGER NOT NULL,
  locks BLOB    NOT NULL, -- an array of struct backend_lock (backend.h)
  PRIMARY KEY (ino, mount)
) WITHOUT ROWID;
CREATE TABLE sessfs_mark (
  -- Where rows begin in a list file: a sparse index.
  ino         INTEGER NOT NULL,
  byte_offset INTEGER NOT NULL,
  item_index  INTEGER NOT NULL,
  PRIMARY KEY (ino, byte_offset)
) WITHOUT ROWID;
CREATE TABLE sessfs_meta (
  -- About this store: schema_version, table (that holds the rows), owner (who has it
  -- mounted, or had), stamp (the newest in sessfs_change), made (1: sessfs made the file).
  key   TEXT PRIMARY KEY,
  value
) WITHOUT ROWID;
INSERT INTO "sessfs_meta" VALUES('last_entry',2048);
INSERT INTO "sessfs_meta" VALUES('last_ino',2049);
INSERT INTO "sessfs_meta" VALUES('made','1');
INSERT INTO "sessfs_meta" VALUES('mount',2);
INSERT INTO "sessfs_meta" VALUES('owner','process 812 for /home/a/sessions');
INSERT INTO "sessfs_meta" VALUES('schema_version','2');
INSERT INTO "sessfs_meta" VALUES('stamp',0);
INSERT INTO "sessfs_meta" VALUES('table','agentscope_sessions');
CREATE TABLE sessfs_node (
  -- One row a file or directory.  Times are nanoseconds since 1970.
  ino        INTEGER PRIMARY KEY,
  parent     INTEGER NOT NULL, -- the directory that holds it: its ino
  entry      INTEGER NOT NULL, -- and the id of its entry there; 0: none
  kind       INTEGER NOT NULL, -- 0 ordinary, 1 session, 2 single, 3 list, 4 hash
  flags      INTEGER NOT NULL, -- 1 draft, 2 no newline at the end, 4 adopted, 8 sparse
  mode       INTEGER NOT NULL, -- as in stat(2)
  uid        INTEGER NOT NULL,
  gid        INTEGER NOT NULL,
  nlink      INTEGER NOT NULL, -- 0: deleted, but still in use
  rdev       INTEGER NOT NULL,
  size       INTEGER NOT NULL, -- of the bytes in sessfs_chunk
  atime      INTEGER NOT NULL,
  mtime      INTEGER NOT NULL,
  ctime      INTEGER NOT NULL,
  btime      INTEGER NOT NULL,
  session_id TEXT,             -- whose rows it shows
  state_key  TEXT,
  target     BLOB              -- of a symbolic link
);
INSERT INTO "sessfs_node" VALUES(1,1,0,0,0,16877,0,0,3,0,0,1795560226005424106,1795560226525927760,1795560226525927760,1795560226005424106,NULL,NULL,NULL);
INSERT INTO "sessfs_node" VALUES(2,1,1,1,0,16877,0,0,3,0,0,1795560226525700161,1795560226536723142,1795560226536723142,1795560226525700161,'demo',NULL,NULL);
INSERT INTO "sessfs_node" VALUES(3,2,2,0,0,16877,0,0,2,0,0,1795560226526635166,1795560226541709288,1795560226541709288,1795560226526635166,NULL,NULL,NULL);
INSERT INTO "sessfs_node" VALUES(4,2,3,3,0,33188,0,0,1,0,0,1795560226526823116,1795560226527297543,1795560226532147377,1795560226526823116,'demo','messages',NULL);
INSERT INTO "sessfs_node" VALUES(5,3,4,0,0,33188,0,0,1,0,6,1795560226541707826,1795560226541944449,1795560226542248032,1795560226541707826,NULL,NULL,NULL);
INSERT INTO "sessfs_node" VALUES(1026,2,1025,2,0,33152,0,0,1,0,0,1795560226534701566,1795560226541216854,1795560226543275224,1795560226534701566,'demo','state',NULL);
CREATE TABLE sessfs_piece (
  -- Bytes of a list file that are not rows, before the row item_index.
  ino        INTEGER NOT NULL,
  item_index INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  data       BLOB    NOT NULL,
  PRIMARY KEY (ino, item_index, seq)
) WITHOUT ROWID;
INSERT INTO "sessfs_piece" VALUES(4,2,0,X'7B22746F726E');
CREATE TABLE sessfs_xattr (
  -- Extended attributes.
  ino   INTEGER NOT NULL,
  name  BLOB    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (ino, name)
) WITHOUT ROWID;
INSERT INTO "sessfs_xattr" VALUES(5,X'757365722E61',X'31');
CREATE UNIQUE INDEX sessfs_node_key ON sessfs_node (session_id, state_key)
  WHERE kind >= 2 AND nlink > 0;
CREATE UNIQUE INDEX sessfs_node_session ON sessfs_node (session_id)
  WHERE kind = 1 AND nlink > 0;
CREATE INDEX sessfs_node_orphan ON sessfs_node (ino) WHERE nlink = 0;
CREATE INDEX sessfs_mark_index ON sessfs_mark (ino, item_index);
CREATE TRIGGER sessfs_row_insert AFTER INSERT ON "agentscope_sessions" BEGIN
  UPDATE sessfs_meta SET value = value + 1 WHERE key = 'stamp';
  INSERT INTO sessfs_change (session_id, state_key, first_index, deleted_index, stamp)
    SELECT new.session_id, new.state_key, new.item_index, 9223372036854775807,
      (SELECT value FROM sessfs_meta WHERE key = 'stamp')
    WHERE typeof(new.session_id) = 'text' AND typeof(new.state_key) = 'text'
      AND typeof(new.item_index) = 'integer'
    ON CONFLICT (session_id, state_key) DO UPDATE SET
      first_index = min(first_index, excluded.first_index),
      deleted_index = min(deleted_index, excluded.deleted_index),
      stamp = excluded.stamp;
END;
CREATE TRIGGER sessfs_row_delete AFTER DELETE ON "agentscope_sessions" BEGIN
  UPDATE sessfs_meta SET value = value + 1 WHERE key = 'stamp';
  INSERT INTO sessfs_change (session_id, state_key, first_index, deleted_index, stamp)
    SELECT old.session_id, old.state_key, old.item_index, old.item_index,
      (SELECT value FROM sessfs_meta WHERE key = 'stamp')
    WHERE typeof(old.session_id) = 'text' AND typeof(old.state_key) = 'text'
      AND typeof(old.item_index) = 'integer'
    ON CONFLICT (session_id, state_key) DO UPDATE SET
      first_index = min(first_index, excluded.first_index),
      deleted_index = min(deleted_index, excluded.deleted_index),
      stamp = excluded.stamp;
END;
CREATE TRIGGER sessfs_row_update
AFTER UPDATE OF session_id, state_key, item_index, state_data ON "agentscope_sessions" BEGIN
  UPDATE sessfs_meta SET value = value + 1 WHERE key = 'stamp';
  INSERT INTO sessfs_change (session_id, state_key, first_index, deleted_index, stamp)
    SELECT new.session_id, new.state_key, new.item_index, 9223372036854775807,
      (SELECT value FROM sessfs_meta WHERE key = 'stamp')
    WHERE typeof(new.session_id) = 'text' AND typeof(new.state_key) = 'text'
      AND typeof(new.item_index) = 'integer'
    ON CONFLICT (session_id, state_key) DO UPDATE SET
      first_index = min(first_index, excluded.first_index),
      deleted_index = min(deleted_index, excluded.deleted_index),
      stamp = excluded.stamp;
  INSERT INTO sessfs_change (session_id, state_key, first_index, deleted_index, stamp)
    SELECT old.session_id, old.state_key, old.item_index, old.item_index,
      (SELECT value FROM sessfs_meta WHERE key = 'stamp')
    WHERE typeof(old.session_id) = 'text' AND typeof(old.state_key) = 'text'
      AND typeof(old.item_index) = 'integer' AND (old.session_id IS NOT new.session_id
        OR old.state_key IS NOT new.state_key OR old.item_index IS NOT new.item_index)
    ON CONFLICT (session_id, state_key) DO UPDATE SET
      first_index = min(first_index, excluded.first_index),
      deleted_index = min(deleted_index, excluded.deleted_index),
      stamp = excluded.stamp;
END;
CREATE TRIGGER sessfs_row_updated_at AFTER UPDATE OF state_data ON "agentscope_sessions"
WHEN new.state_data IS NOT old.state_data AND new.updated_at IS old.updated_at BEGIN
  UPDATE "agentscope_sessions" SET updated_at = CURRENT_TIMESTAMP WHERE session_id = new.session_id
    AND state_key = new.state_key AND item_index = new.item_index;
END;
COMMIT;
