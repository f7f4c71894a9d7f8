/* SPDX-License-Identifier: MIT */
/*
 * The tables of a store beside that of the rows: a part of a driver's list of statements.
 *
 * In words of the driver: TABLE, and KEYED for one with an index; CHARS behind one that has texts,
 * ROOMY behind one whose rows change with each commit; types; NOTE says what a column is, to those
 * that read the table.  Ids and names are bytes, so each has one spelling.
 */
/* clang-format off */
	TABLE("sessfs_setting", "name " BYTES_OF("255") " NOT NULL PRIMARY KEY, "
				"value " LONG_BYTES " NOT NULL"),
	KEYED("sessfs_node",
	      "ino BIGINT NOT NULL PRIMARY KEY, parent BIGINT NOT NULL, entry BIGINT NOT NULL, "
	      "kind INT NOT NULL, flags BIGINT NOT NULL, mode BIGINT NOT NULL, "
	      "uid BIGINT NOT NULL, gid BIGINT NOT NULL, nlink BIGINT NOT NULL, "
	      "rdev BIGINT NOT NULL, size BIGINT NOT NULL, atime BIGINT NOT NULL, "
	      "mtime BIGINT NOT NULL, ctime BIGINT NOT NULL, btime BIGINT NOT NULL, "
	      "session_id " ID ", state_key " ID ", target " LONG_BYTES ", "
	      "generation BIGINT NOT NULL, slot " BYTES_OF("1021")
	      NOTE("what only one node is: s the directory of a session, k... a file") ", "
	      UNIQUE("sessfs_node_slot") " (session_id, slot)",
	      "sessfs_node_links", "(nlink, ino)"),
	TABLE("sessfs_entry",
	      "parent BIGINT NOT NULL, id BIGINT NOT NULL, name " NAME " NOT NULL, "
	      "ino BIGINT NOT NULL, PRIMARY KEY (parent, id), "
	      UNIQUE("sessfs_entry_name") " (parent, name)"),
	TABLE("sessfs_xattr", "ino BIGINT NOT NULL, name " NAME " NOT NULL, "
			      "value " LONG_BYTES " NOT NULL, PRIMARY KEY (ino, name)"),
	TABLE("sessfs_chunk", "ino BIGINT NOT NULL, chunk BIGINT NOT NULL, "
			      "data " CHUNK_BYTES " NOT NULL, PRIMARY KEY (ino, chunk)"),
	TABLE("sessfs_piece",
	      "ino BIGINT NOT NULL, item_index BIGINT NOT NULL, seq BIGINT NOT NULL, "
	      "data " LONG_BYTES " NOT NULL, PRIMARY KEY (ino, item_index, seq)"),
	KEYED("sessfs_mark",
	      "ino BIGINT NOT NULL, byte_offset BIGINT NOT NULL, item_index BIGINT NOT NULL, "
	      "PRIMARY KEY (ino, byte_offset)", "sessfs_mark_index", "(ino, item_index)"),
	TABLE("sessfs_trash", "ino BIGINT NOT NULL, item_index BIGINT NOT NULL, "
			      "state_data " LONG_TEXT " NOT NULL, created_at " TIME ", "
			      "updated_at " TIME ", version BIGINT, "
			      "PRIMARY KEY (ino, item_index)") CHARS,
	/* What changes of rows have taken away. */
	KEYED("sessfs_past",
	      "n " COUNTED ", ino BIGINT NOT NULL DEFAULT 0, "
	      "session_id " ID " NOT NULL, state_key " ID " NOT NULL, until BIGINT NOT NULL"
	      NOTE("it was so until then, in nanoseconds since 1970") ", what INT NOT NULL"
	      NOTE("0 a row, 1 none to last_index, 2 moved by last_index, 3 not kept between two "
		   "times, 4 put back") ", item_index BIGINT NOT NULL, last_index BIGINT NOT NULL, "
	      "pid BIGINT NOT NULL, bytes BIGINT NOT NULL, created_at " TIME ", "
	      "updated_at " TIME ", state_data " LONG_TEXT,
	      "sessfs_past_key", "(ino, session_id, state_key, until)") CHARS,
	/* What the triggers write: a row each row that another program has changed. */
	KEYED("sessfs_change", "id " COUNTED ", session_id " ID ", state_key " ID ", "
			       "item_index BIGINT NOT NULL, what " LETTER " NOT NULL"
	      NOTE("i inserted, u updated, d deleted, * anything"),
	      "sessfs_change_key", "(session_id, state_key)"),
	/* What was set apart: nobody waits for it. */
	TABLE("sessfs_apart", "session_id " ID " NOT NULL, state_key " ID " NOT NULL, "
			      "first_index BIGINT NOT NULL, stamp BIGINT NOT NULL, "
			      "PRIMARY KEY (session_id, state_key)"),
	KEYED("sessfs_feed",
	      "id " COUNTED ", mount BIGINT NOT NULL, number BIGINT NOT NULL"
	      NOTE("of the transaction of the mount") ", what INT NOT NULL, "
	      "ino BIGINT NOT NULL, flags BIGINT NOT NULL, first_index BIGINT NOT NULL, "
	      "session_id " ID ", state_key " ID ", name " NAME ", pid BIGINT, at BIGINT, "
	      "row_count BIGINT, deleted_index BIGINT, end_index BIGINT, node BIGINT, "
	      "parent BIGINT, path " PATH, "sessfs_feed_lane", "(mount, number)"),
	/* So far a mount has digested the notes of another one, its lane. */
	TABLE("sessfs_known", "mount BIGINT NOT NULL, lane BIGINT NOT NULL, "
			      "number BIGINT NOT NULL, PRIMARY KEY (mount, lane)"),
	/* Which transaction of which mount has changed what there is behind it last, and which has
	 * appended to it. */
	TABLE("sessfs_gate", "gate INT NOT NULL PRIMARY KEY, guard INT NOT NULL DEFAULT 0, "
			     "mount BIGINT NOT NULL DEFAULT 0, number BIGINT NOT NULL DEFAULT 0, "
			     "appender BIGINT NOT NULL DEFAULT 0, "
			     "appended BIGINT NOT NULL DEFAULT 0") ROOMY,
	SQL_MAKE_GATES,
	/* A program that knows no format cannot join. */
	TABLE("sessfs_mount", "number BIGINT NOT NULL PRIMARY KEY, guest INT NOT NULL, "
			      "owner " TEXT_OF("255") ", seen_at " TIME_HEARD " NOT NULL, "
			      "format INT NOT NULL, lane BIGINT NOT NULL DEFAULT 0"
	      NOTE("the number of its last transaction") ", "
	      "untold_locks INT NOT NULL DEFAULT 0, untold_uses INT NOT NULL DEFAULT 0")
	CHARS ROOMY,
	KEYED("sessfs_use", "ino BIGINT NOT NULL, mount BIGINT NOT NULL, PRIMARY KEY (ino, mount)",
	      "sessfs_use_mount", "(mount)"),
	TABLE("sessfs_lock",
	      "ino BIGINT NOT NULL, mount BIGINT NOT NULL, item INT NOT NULL, "
	      "first_byte BIGINT NOT NULL, last_byte BIGINT NOT NULL, pid BIGINT NOT NULL, "
	      "whole INT NOT NULL, exclusive INT NOT NULL, PRIMARY KEY (ino, mount, item)"),
	/* One row.  A mount that is alone locks it from the beginning of each transaction. */
	TABLE("sessfs_store",
	      "id INT NOT NULL PRIMARY KEY, version INT NOT NULL, rows_table " TEXT_OF("64")
	      " NOT NULL, made INT NOT NULL" NOTE("1: the table of the rows is ours") ", "
	      "guard INT NOT NULL DEFAULT 0, epoch BIGINT NOT NULL DEFAULT 0"
	      NOTE("moves when a mount comes or goes") ", mount BIGINT NOT NULL DEFAULT 0"
	      NOTE("number that was given to one last") ", turn BIGINT NOT NULL DEFAULT 0"
	      NOTE("the mount that alone may commit") ", duty BIGINT NOT NULL DEFAULT 0, "
	      "settings BIGINT NOT NULL DEFAULT 0, last_ino BIGINT NOT NULL, "
	      "last_entry BIGINT NOT NULL") CHARS ROOMY,
