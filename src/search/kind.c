/* SPDX-License-Identifier: MIT */
/* What is in the index: the words (FTS5, without the texts themselves), and which item each is
 * of. */
#include "src/search/internal.h"

static const char schema[] =
	"CREATE TABLE key (id INTEGER PRIMARY KEY, ino INTEGER UNIQUE, session BLOB NOT NULL, "
	"key BLOB NOT NULL, kind INTEGER NOT NULL, generation INTEGER NOT NULL, "
	"last INTEGER, created INTEGER, updated INTEGER);"
	"CREATE TABLE item (id INTEGER PRIMARY KEY, key INTEGER NOT NULL, item INTEGER NOT NULL, "
	"made INTEGER NOT NULL, sum INTEGER NOT NULL, role TEXT NOT NULL);"
	"CREATE INDEX item_key ON item (key);"
	"CREATE VIRTUAL TABLE said USING fts5 (words, content='', "
	"tokenize='unicode61 remove_diacritics 2');"
	"INSERT INTO said (said, rank) VALUES ('hashsize', 8388608);";

static const char *const texts[SEARCH_TEXTS] = {
	INDEX_META_TEXTS,
	[TEXT_KEY_BY_INO] = "SELECT id, session, key, kind, generation, last, created, updated "
			    "FROM key WHERE ino = ?1",
	[TEXT_KEY_ADD] = "INSERT INTO key (ino, session, key, kind, generation) "
			 "VALUES (?1, ?2, ?3, ?4, -1)",
	[TEXT_KEY_SET] = "UPDATE key SET generation = ?2, last = ?3, created = ?4, updated = ?5 "
			 "WHERE id = ?1",
	[TEXT_KEY_DROP] = "DELETE FROM key WHERE id = ?1",
	[TEXT_KEY_COUNT] = "SELECT count(*) FROM key",
	[TEXT_KEY_LOOSE] = "SELECT id FROM key WHERE ino IS NULL",
	[TEXT_KEY_GET] = "SELECT ino, session, key, kind FROM key WHERE id = ?1",
	[TEXT_SEEN_ADD] = "INSERT OR IGNORE INTO seen (ino) VALUES (?1)",
	[TEXT_KEY_UNSEEN] = "SELECT id FROM key WHERE ino NOT IN (SELECT ino FROM seen)",
	[TEXT_ITEM_ADD] = "INSERT INTO item (id, key, item, made, sum, role) "
			  "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[TEXT_ITEM_DROP] = "DELETE FROM item WHERE key = ?1",
	[TEXT_ITEM_GET] = "SELECT key, item, made, sum, role FROM item WHERE id = ?1",
	[TEXT_SAID_ADD] = "INSERT INTO said (rowid, words) VALUES (?1, ?2)",
	[TEXT_SAID_FIND] = "SELECT rowid, score(said) FROM said WHERE said MATCH ?1 "
			   "ORDER BY rowid DESC LIMIT ?2",
};

const struct index_kind search_kind = {
	.suffix = "search",
	.application = 0x73657378, /* sesx */
	.format = "3",
	.schema = schema,
	.texts = texts,
	.count = SEARCH_TEXTS,
};
