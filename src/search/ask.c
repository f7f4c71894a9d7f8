/* SPDX-License-Identifier: MIT */
/*
 * Which items have the words.  The words of removed items stay in the index; their rows in `item`
 * do not.  All of a hit but its score is read from the store, in the snapshot that the index is up
 * to date with.
 */
#include <ctype.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "fs/api/text.h"
#include "fs/base/packed.h"
#include "backend/base/array.h"
#include "src/search/search.h"
#include "src/user/stop.h"

struct found {
	int64_t id;
	double score;
};

/* A key that has hits. */
struct place {
	int64_t id;
	bool wanted;
	uint64_t ino;
	uint32_t kind;
	struct bytes session, key; /* owned */
};

/* A hit that is to be reported. */
struct chosen {
	double score;
	int64_t item;
	const struct place *place;
};

struct asking {
	struct index *index;
	const struct search_question *question;
	search_hit_fn *fn;
	void *arg;
	struct found *found;
	size_t count, room;
	void *places; /* of tsearch(3) */
	struct chosen *chosen;
	size_t chosen_count, chosen_room;
};

/* ---- The words in the syntax of FTS5 ---- */

/* In quotes, with a '"' in it twice. */
static int add_quoted(struct bytes said, bool begins, struct buf *out)
{
	int r = buf_append_byte(out, '"');

	for (size_t i = 0; r == 0 && i < said.size; i++) {
		char byte = said.data[i] == '\n' ? ' ' : said.data[i];

		r = buf_append_byte(out, byte);
		if (r == 0 && byte == '"')
			r = buf_append_byte(out, byte);
	}
	if (r == 0)
		r = buf_append_str(out, begins ? "\" * " : "\" ");
	return r;
}

static int match_of(const struct search_question *question, struct buf *match)
{
	_cleanup_(buf_done) struct buf said = { 0 };
	int r = buf_append_str(match, question->all ? "(" : "talk : (");

	for (char *const *word = question->words; r == 0 && *word; word++) {
		struct bytes text = bytes_str(*word);
		bool begins = text.size > 1 && text.data[text.size - 1] == '*';

		buf_clear(&said);
		text.size -= begins;
		r = text_said_by(text, &said);
		/* A line end, and a blank behind a letter that stands alone. */
		while (said.size && isspace((unsigned char)said.data[said.size - 1]))
			said.size--;
		if (r == 0)
			r = add_quoted(buf_bytes(&said), begins, match);
	}
	return r < 0 ? r : buf_append_byte(match, ')');
}

static int said_find(struct asking *asking, struct bytes match, int64_t most)
{
	const enum index_text text = INDEX_SAID_FIND;
	struct index *index = asking->index;
	int r = ROWS_ASK(&index->rows, text, rows_string(match), rows_number(most));

	for (; r > 0; r = rows_next(&index->rows, text)) {
		r = stop_wanted() ? -EINTR : ARRAY_ROOM(asking->found, asking->count, asking->room);
		if (r < 0)
			break;
		asking->found[asking->count++] = (struct found){
			rows_column(&index->rows, text, 0),
			sqlite3_column_double(index->rows.statements[text], 1),
		};
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct found *one = a, *other = b;

	if (one->score != other->score)
		return one->score > other->score ? -1 : 1;
	return one->id > other->id ? -1 : one->id < other->id;
}

/* ---- One hit ---- */

static int read_place(struct asking *asking, struct place *place)
{
	const enum index_text text = INDEX_KEY_GET;
	const struct search_question *question = asking->question;
	struct index *index = asking->index;
	int r = ROWS_ASK(&index->rows, text, rows_number(place->id));
	struct bytes session, key;

	if (r <= 0)
		return r;
	session = rows_column_bytes(&index->rows, text, 1);
	key = rows_column_bytes(&index->rows, text, 2);
	place->ino = (uint64_t)rows_column(&index->rows, text, 0);
	place->kind = (uint32_t)rows_column(&index->rows, text, 3);
	place->session = bytes_make(bytes_dup(session), session.size);
	place->key = bytes_make(bytes_dup(key), key.size);
	if (!place->session.data || !place->key.data)
		return -ENOMEM;
	place->wanted = !question->wanted || question->wanted(asking->arg, place->session);
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *one = a, *other = b;

	return (one->id > other->id) - (one->id < other->id);
}

static void place_free(void *node)
{
	struct place *place = node;

	free((char *)place->session.data);
	free((char *)place->key.data);
	free(place);
}

/* Each is read once. */
static int find_place(struct asking *asking, int64_t id, const struct place **ret_place)
{
	const struct place wanted = { .id = id };
	struct place **found = tfind(&wanted, &asking->places, compare_places);
	struct place *place = found ? *found : calloc(1, sizeof(*place));

	*ret_place = place;
	if (found)
		return 0;
	if (!place)
		return -ENOMEM;
	*place = wanted;
	if (tsearch(place, &asking->places, compare_places))
		return read_place(asking, place);
	free(place);
	return -ENOMEM;
}

static int choose(struct asking *asking, const struct found *found)
{
	const enum index_text text = INDEX_ITEM_GET;
	const struct search_question *question = asking->question;
	struct index *index = asking->index;
	struct chosen chosen = { .score = found->score };
	int r = ROWS_ASK(&index->rows, text, rows_number(found->id));
	struct bytes role = { 0 };

	if (r <= 0 || rows_column(&index->rows, text, 2) < question->since)
		return MIN(r, 0);
	role = rows_column_bytes(&index->rows, text, 3);
	if (bytes_starts_with(role, BYTES(SEARCH_NO_TALK)))
		role = bytes_make(role.data + 1, role.size - 1);
	if (question->role && !bytes_equal(role, bytes_str(question->role)))
		return 0;
	chosen.item = rows_column(&index->rows, text, 1);
	r = find_place(asking, rows_column(&index->rows, text, 0), &chosen.place);
	if (r < 0 || !chosen.place->wanted)
		return r;
	r = ARRAY_ROOM(asking->chosen, asking->chosen_count, asking->chosen_room);
	if (r == 0)
		asking->chosen[asking->chosen_count++] = chosen;
	return r;
}

/* Keep the best hits, as many as are wanted. */
static int choose_found(struct asking *asking, struct bytes match, int64_t most)
{
	const struct search_question *question = asking->question;
	int r;

	asking->count = asking->chosen_count = 0;
	r = said_find(asking, match, most);
	if (r == 0 && asking->count)
		qsort(asking->found, asking->count, sizeof(*asking->found), compare);
	for (size_t i = 0;
	     r == 0 && i < asking->count && (int64_t)asking->chosen_count < question->most; i++)
		r = stop_wanted() ? -EINTR : choose(asking, &asking->found[i]);
	return r;
}

static int choose_all(struct asking *asking)
{
	const struct search_question *question = asking->question;
	_cleanup_(buf_done) struct buf match = { 0 };
	bool all = question->role || question->since != INT64_MIN || question->wanted ||
		   question->most > SEARCH_RANKED;
	int code = search_score(asking->index->rows.db);
	int r = code == SQLITE_OK ? match_of(question, &match) :
				    rows_error(&asking->index->rows, code);

	if (r == 0)
		r = choose_found(asking, buf_bytes(&match), all ? -1 : SEARCH_RANKED);
	/* The newest may have gone. */
	if (r == 0 && !all && asking->count == SEARCH_RANKED &&
	    (int64_t)asking->chosen_count < question->most)
		r = choose_found(asking, buf_bytes(&match), -1);
	return r;
}

/* ---- Reporting hits ---- */

struct telling {
	struct asking *asking;
	const struct chosen *chosen;
	int result;
};

static int on_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct telling *telling = arg;
	struct asking *asking = telling->asking;
	const struct place *place = telling->chosen->place;
	const struct search_hit hit = {
		.session = place->session,
		.key = place->key,
		.ino = place->ino,
		.list = place->kind != BACKEND_SINGLE,
		.item = index,
		.made = times.created,
		.score = telling->chosen->score,
		.data = data,
	};

	if (index == telling->chosen->item)
		telling->result = asking->fn(asking->arg, &hit);
	return 1;
}

/* Of a packed transcript. */
static int on_line(void *arg, int64_t index, struct bytes line)
{
	const struct telling *telling = arg;

	return index < telling->chosen->item ?
		       0 :
		       on_row(arg, index, (struct backend_times){ 0 }, line);
}

static int hit_report(struct asking *asking, const struct chosen *chosen)
{
	const struct place *place = chosen->place;
	struct backend *backend = asking->index->backend;
	struct telling telling = { .asking = asking, .chosen = chosen };
	const struct backend_node node = { .ino = place->ino };
	int r;

	if (place->kind == BACKEND_ORDINARY)
		r = packed_read(backend, asking->index->snapshot, &node, on_line, &telling);
	else
		r = backend_row_read_times(backend, asking->index->snapshot, place->session,
					   place->key, chosen->item, false, 1, on_row, &telling);
	return r < 0 ? r : telling.result;
}

int search_ask(struct index *index, const struct search_question *question, search_hit_fn *fn,
	       void *arg)
{
	struct asking asking = { .index = index, .question = question, .fn = fn, .arg = arg };
	int r = choose_all(&asking);

	if (r == 0)
		index_release(index);
	for (size_t i = 0; r == 0 && i < asking.chosen_count; i++)
		r = stop_wanted() ? -EINTR : hit_report(&asking, &asking.chosen[i]);
	tdestroy(asking.places, place_free);
	free(asking.chosen);
	free(asking.found);
	return MIN(r, 0);
}
