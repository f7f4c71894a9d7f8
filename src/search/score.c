/* SPDX-License-Identifier: MIT */
/*
 * How well an item fits: BM25, as FTS5 has it.
 *
 * FTS5's own function counts all items that have a word, to know how rare it is; for a word in most
 * of a million items this takes longer than everything else.  Here a frequent word is counted in
 * the first items only, and estimated from how far apart these are.
 */
#include <math.h>

#include "src/search/index.h"

/* The usual values: how soon more of the same word counts less, and how much the length counts. */
static const double SOON = 1.2, LENGTH = 0.75;
/* A word that is in more than half of the items still counts for something. */
static const double LEAST = 1e-6;

enum { SAMPLE = 20000 };

/* Of a word that is looked for. */
struct seen {
	int64_t count, first, last;
};

struct weights {
	double average; /* words in an item */
	double weight[];
};

static int see(const Fts5ExtensionApi *api, Fts5Context *context, void *arg)
{
	struct seen *seen = arg;

	seen->last = api->xRowid(context);
	if (!seen->count++)
		seen->first = seen->last;
	return seen->count < SAMPLE ? SQLITE_OK : SQLITE_DONE;
}

static double items_with(const struct seen *seen, double items)
{
	double count = (double)seen->count;

	if (seen->count == SAMPLE)
		count *= items / (double)(seen->last - seen->first + 1);
	return count < items ? count : items;
}

static int weigh(const Fts5ExtensionApi *api, Fts5Context *context, struct weights **ret_weights)
{
	int words = api->xPhraseCount(context);
	struct weights *weights =
		sqlite3_malloc64(sizeof(*weights) + (size_t)words * sizeof(*weights->weight));
	sqlite3_int64 items = 0, tokens = 0;
	int code = weights ? api->xRowCount(context, &items) : SQLITE_NOMEM;

	if (code == SQLITE_OK)
		code = api->xColumnTotalSize(context, -1, &tokens);
	if (code == SQLITE_OK)
		weights->average = (double)tokens / (double)items;
	for (int i = 0; code == SQLITE_OK && i < words; i++) {
		struct seen seen = { 0 };
		double with;

		code = api->xQueryPhrase(context, i, &seen, see);
		with = items_with(&seen, (double)items);
		weights->weight[i] = fmax(log(((double)items - with + 0.5) / (with + 0.5)), LEAST);
	}
	if (code == SQLITE_OK)
		code = api->xSetAuxdata(context, weights, sqlite3_free);
	else
		sqlite3_free(weights);
	*ret_weights = weights;
	return code;
}

static void score(const Fts5ExtensionApi *api, Fts5Context *context, sqlite3_context *result,
		  int count, sqlite3_value **values)
{
	struct weights *weights = api->xGetAuxdata(context, 0);
	int code = weights ? SQLITE_OK : weigh(api, context, &weights);
	int words = api->xPhraseCount(context), length = 0, times, column, place;
	Fts5PhraseIter places;
	double sum = 0;

	(void)count;
	(void)values;
	if (code == SQLITE_OK)
		code = api->xColumnSize(context, -1, &length);
	for (int i = 0; code == SQLITE_OK && i < words; i++) {
		double many = SOON * (1 - LENGTH + LENGTH * length / weights->average);

		code = api->xPhraseFirst(context, i, &places, &column, &place);
		for (times = 0; code == SQLITE_OK && column >= 0; times++)
			api->xPhraseNext(context, &places, &column, &place);
		sum += weights->weight[i] * times * (SOON + 1) / (times + many);
	}
	if (code == SQLITE_OK)
		sqlite3_result_double(result, sum);
	else
		sqlite3_result_error_code(result, code);
}

int search_score(sqlite3 *db)
{
	fts5_api *api = NULL;
	sqlite3_stmt *ask = NULL;
	int code = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &ask, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_bind_pointer(ask, 1, &api, "fts5_api_ptr", NULL);
	if (code == SQLITE_OK)
		sqlite3_step(ask);
	sqlite3_finalize(ask);
	if (code != SQLITE_OK)
		return code;
	return api ? api->xCreateFunction(api, "score", NULL, score, NULL) : SQLITE_ERROR;
}
