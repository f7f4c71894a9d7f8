/* SPDX-License-Identifier: MIT */
#ifndef SEARCH_INTERNAL_H
#define SEARCH_INTERNAL_H

#include "src/search/search.h"

/* What is said to the index. */
enum search_text {
	TEXT_KEY_BY_INO = INDEX_TEXTS,
	TEXT_KEY_ADD,
	TEXT_KEY_SET,
	TEXT_KEY_DROP,
	TEXT_KEY_COUNT,
	TEXT_KEY_LOOSE,
	TEXT_KEY_GET,
	TEXT_SEEN_ADD,
	TEXT_KEY_UNSEEN,
	TEXT_ITEM_ADD,
	TEXT_ITEM_DROP,
	TEXT_ITEM_GET,
	TEXT_SAID_ADD,
	TEXT_SAID_FIND,
	SEARCH_TEXTS,
};

/* score.c: give a connection score(), the higher the better; a code of SQLite. */
int search_score(sqlite3 *db);

#endif
