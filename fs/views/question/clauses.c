/* SPDX-License-Identifier: MIT */
#include "fs/views/question/question.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/views/question/filter.h"
#include "fs/base/ttl.h"
#include "backend/base/moment.h"
#include "backend/base/cleanup.h"

/* The suffixes of the names of files, and their as=. */
static const struct file_end {
	struct bytes end;
	struct bytes clauses[2];
} file_ends[] = {
	{ BYTES(".jsonl"), { BYTES("as=list"), BYTES("as=events") } },
	{ BYTES(".txt"), { BYTES("as=text") } },
};

/* A part of a question in a sentence: "%.*s", SHOWN(part). */
#define SHOWN(part) (int)MIN((part).size, (size_t)64), (part).data

struct parsing {
	struct question *question;
	struct buf *reason;
	unsigned seen; /* a bit for each row of the table */
};

/* -EINVAL, or -ENOMEM when there is no memory for the sentence. */
#define refuse(parsing, ...)                                                                       \
	({                                                                                         \
		int refused_ = buf_printf((parsing)->reason, __VA_ARGS__);                         \
		refused_ < 0 ? refused_ : -EINVAL;                                                 \
	})

/* Cut the part before the next separator off the rest; false when nothing is left.  At first the
 * rest must have an address. */
static bool take_part(struct bytes *rest, char separator, struct bytes *ret_part)
{
	const char *end;

	if (!rest->data)
		return false;
	end = memchr(rest->data, separator, rest->size);
	*ret_part = bytes_make(rest->data, end ? (size_t)(end - rest->data) : rest->size);
	*rest = end ? bytes_make(end + 1, rest->size - ret_part->size - 1) : bytes_make(NULL, 0);
	return true;
}

/* ---- Values ---- */

/* What is returned is written on success only: the decimal number, or the byte, that a text begins
 * with; the text is what is behind it then. */
static bool number_read(struct bytes *text, int64_t *ret_number)
{
	uint64_t number;

	if (!number_take(text, INT64_MAX, &number))
		return false;
	*ret_number = (int64_t)number;
	return true;
}

static bool byte_read(struct bytes *text, char byte)
{
	if (!text->size || *text->data != byte)
		return false;
	*text = bytes_make(text->data + 1, text->size - 1);
	return true;
}

/* A whole text: "2026-01-31", "2026-01-31T18:30", "12h". */
static bool time_read(struct bytes text, struct question_time *ret_time)
{
	int64_t ns;

	if (amount_parse(text, units_of_time, false, &ns) > 0) {
		*ret_time = (struct question_time){ QUESTION_AGO, ns };
		return true;
	}
	if (!moment_exact(text, &ns))
		return false;
	*ret_time = (struct question_time){ QUESTION_AT, ns };
	return true;
}

struct clause {
	struct bytes name; /* or how it begins, for a path of members */
	bool path;
	bool many;	 /* several values, several clauses */
	bool of_events;	 /* goes with as=events */
	bool of_version; /* not with as=list: documents have none */
	int (*take)(struct parsing *parsing, const struct clause *clause, struct bytes value);
	enum asks_for asks_for;
	enum side side;
	size_t at; /* of what it sets in struct question */
};

static void *set_by(struct parsing *parsing, const struct clause *clause)
{
	return (char *)parsing->question + clause->at;
}

/* Of values that are the filter's own. */
static void fold(struct bytes value)
{
	for (char *at = (char *)value.data; at < value.data + value.size; at++)
		*at = byte_fold(*at);
}

static int take_value(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	if (clause->asks_for == ASKS_ROLE)
		fold(value);
	return filter_value(parsing->question->filter, value);
}

static int take_word(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	if (value.size > QUESTION_WORD_MAX)
		return refuse(parsing, "a word of %.*s= has more than %d bytes: \"%.*s\"",
			      SHOWN(clause->name), QUESTION_WORD_MAX, SHOWN(value));
	fold(value);
	return filter_word(parsing->question->filter, value);
}

static const struct {
	const char *name;
	enum question_as as;
	bool all, html;
} forms[] = {
	{ "lines", QUESTION_LINES, false, false }, { "items", QUESTION_ITEMS, false, false },
	{ "list", QUESTION_LIST, false, false },   { "events", QUESTION_EVENTS, false, false },
	{ "text", QUESTION_TEXT, false, false },   { "records", QUESTION_TEXT, true, false },
	{ "html", QUESTION_TEXT, false, true },	   { "html-records", QUESTION_TEXT, true, true },
};

static int take_as(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (bytes_equal(value, bytes_str(forms[i].name))) {
			parsing->question->as = forms[i].as;
			parsing->question->all = forms[i].all;
			parsing->question->html = forms[i].html;
			return 0;
		}
	}
	return refuse(parsing,
		      "%.*s= takes lines, items, list, events, text, records or html, not \"%.*s\"",
		      SHOWN(clause->name), SHOWN(value));
}

static int take_items(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	struct question *question = parsing->question;
	struct bytes text = value;
	bool fine = number_read(&text, &question->items_from) && byte_read(&text, '-');

	if (fine && text.size)
		fine = number_read(&text, &question->items_to) && !text.size;
	if (!fine)
		return refuse(parsing,
			      "%.*s= takes two indices as in 0-99, or one as in 100-, not "
			      "\"%.*s\"",
			      SHOWN(clause->name), SHOWN(value));
	if (question->items_to < question->items_from)
		return refuse(parsing, "%.*s=%.*s ends before it begins", SHOWN(clause->name),
			      SHOWN(value));
	question->filter->asks_items = true;
	return 0;
}

static int take_time(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	struct question_time *time = set_by(parsing, clause);
	struct bytes text = value;

	if (parsing->question->as == QUESTION_EVENTS) {
		if (number_read(&text, &parsing->question->since_event) && !text.size)
			return 0;
		return refuse(parsing, "%.*s= takes the number of an event here, not \"%.*s\"",
			      SHOWN(clause->name), SHOWN(value));
	}
	if (time_read(value, time))
		return 0;
	return refuse(parsing,
		      "%.*s= takes a date or time of UTC as in 2026-01-31 or "
		      "2026-01-31T18:30, or an age in s, m, h, d, w or y as in 12h, not "
		      "\"%.*s\"",
		      SHOWN(clause->name), SHOWN(value));
}

static int take_number(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	struct bytes text = value;

	if (number_read(&text, set_by(parsing, clause)) && !text.size)
		return 0;
	return refuse(parsing, "%.*s= takes a number up to %lld, not \"%.*s\"", SHOWN(clause->name),
		      (long long)INT64_MAX, SHOWN(value));
}

static int take_size(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	if (amount_parse(value, units_of_size, false, set_by(parsing, clause)) >= 0)
		return 0;
	return refuse(parsing,
		      "%.*s= takes a number of bytes as in 4096, 156K, 2M or 1G, not "
		      "\"%.*s\"",
		      SHOWN(clause->name), SHOWN(value));
}

static int take_version(struct parsing *parsing, const struct clause *clause, struct bytes value)
{
	*(struct bytes *)set_by(parsing, clause) = value;
	return 0;
}

/* ---- Clauses ---- */

#define AT(member) .at = offsetof(struct question, member)
#define LINE(what, of_side) .take = take_value, .asks_for = ASKS_##what, .side = of_side

static const struct clause clauses[] = {
	{ BYTES("role"), .many = true, LINE(ROLE, INCLUDES) },
	{ BYTES("not-role"), .many = true, LINE(ROLE, EXCLUDES) },
	{ BYTES("agent"), .many = true, LINE(AGENT, INCLUDES) },
	{ BYTES("not-agent"), .many = true, LINE(AGENT, EXCLUDES) },
	{ BYTES("."), .path = true, .many = true, LINE(MEMBER, INCLUDES) },
	{ BYTES("not-."), .path = true, .many = true, LINE(MEMBER, EXCLUDES) },
	{ BYTES("match"), .many = true, .take = take_word },
	{ BYTES("as"), .of_events = true, .take = take_as },
	{ BYTES("items"), .take = take_items },
	{ BYTES("since"), .of_events = true, .take = take_time, AT(since) },
	{ BYTES("before"), .take = take_time, AT(before) },
	{ BYTES("at"), .take = take_time, AT(at) },
	{ BYTES("first"), .take = take_number, AT(first) },
	{ BYTES("last"), .take = take_number, AT(last) },
	{ BYTES("bytes"), .take = take_size, AT(bytes) },
	{ BYTES("if"), .of_version = true, .take = take_version, AT(if_version) },
};

static const struct clause *clause_of(struct bytes name)
{
	for (size_t i = 0; i < ARRAY_SIZE(clauses); i++)
		if (clauses[i].path ? bytes_starts_with(name, clauses[i].name) :
				      bytes_equal(name, clauses[i].name))
			return &clauses[i];
	return NULL;
}

/* Decode a part of the clause, in memory of the filter. */
static int decode(struct parsing *parsing, struct bytes name, const char *what, struct bytes part,
		  struct bytes *ret_value)
{
	struct buf *text = &parsing->question->filter->decoded;
	size_t start = text->size;

	if (!part.size)
		return refuse(parsing, "%.*s= has an empty %s", SHOWN(name), what);
	if (buf_append_decoded(text, part) < 0)
		return refuse(parsing,
			      "%.*s= has a %s with a %% but not two hexadecimal digits after it",
			      SHOWN(name), what);
	*ret_value = bytes_make(text->data + start, text->size - start);
	return 0;
}

/* The keys of the member that a clause asks for. */
static int take_path(struct parsing *parsing, const struct clause *clause, struct bytes name)
{
	struct bytes path =
		bytes_make(name.data + clause->name.size, name.size - clause->name.size);
	struct bytes part, key;
	int r = 0;

	while (r == 0 && take_part(&path, '.', &part)) {
		r = decode(parsing, name, "key", part, &key);
		if (r == 0)
			r = filter_key(parsing->question->filter, key);
	}
	return r;
}

static int take_values(struct parsing *parsing, const struct clause *clause, struct bytes name,
		       struct bytes values)
{
	struct bytes part, value;
	int r = 0;

	if (!clause->many && memchr(values.data, '+', values.size))
		return refuse(parsing, "%.*s= takes one value", SHOWN(name));
	while (r == 0 && take_part(&values, '+', &part)) {
		r = decode(parsing, name, "value", part, &value);
		if (r == 0)
			r = clause->take(parsing, clause, value);
	}
	return r;
}

static int take_clause(struct parsing *parsing, struct bytes text)
{
	struct bytes values = text, name = { 0 };
	const struct clause *clause;
	unsigned bit;
	int r = 0;

	if (!text.size)
		return refuse(parsing, "a clause is empty");
	take_part(&values, '=', &name);
	if (!values.data)
		return refuse(parsing, "\"%.*s\" is not a clause: it has no =", SHOWN(text));
	clause = clause_of(name);
	if (!clause)
		return refuse(parsing, "there is no clause %.*s=", SHOWN(name));
	bit = 1U << (clause - clauses);
	if (!clause->many && parsing->seen & bit)
		return refuse(parsing, "%.*s= appears twice", SHOWN(name));
	if (parsing->question->as == QUESTION_EVENTS ?
		    !clause->of_events :
		    question_gathers(parsing->question) && clause->of_version)
		return refuse(parsing, "%.*s= does not go with as=%s", SHOWN(name),
			      forms[parsing->question->as].name);
	parsing->seen |= bit;
	if (clause->take == take_value)
		r = filter_clause(parsing->question->filter, clause->asks_for, clause->side);
	if (r == 0 && clause->path)
		r = take_path(parsing, clause, name);
	return r < 0 ? r : take_values(parsing, clause, name, values);
}

/* ---- Questions ---- */

/* Parse only as=, or all other clauses. */
static int take_clauses(struct parsing *parsing, struct bytes text, bool as)
{
	struct bytes clause;
	int r = 0;

	while (r == 0 && take_part(&text, ',', &clause))
		if (bytes_starts_with(clause, BYTES("as=")) == as)
			r = take_clause(parsing, clause);
	return r;
}

static int check(struct parsing *parsing)
{
	struct question *question = parsing->question;
	bool wants_file = question->as == QUESTION_LIST || question->as == QUESTION_EVENTS;

	if (wants_file && !question->is_file)
		return refuse(parsing, "as=%s is a file: its name must end in %s",
			      forms[question->as].name, file_ends[0].end.data);
	if (question->first >= 0 && question->last >= 0)
		return refuse(parsing, "first= and last= do not go together");
	return 0;
}

static int parse(struct bytes text, bool is_file, struct question **ret, struct buf *reason)
{
	_cleanup_(question_freep) struct question *question = calloc(1, sizeof(*question));
	struct parsing parsing = { .question = question, .reason = reason };
	int r;

	if (!question)
		return -ENOMEM;
	if (text.size > QUESTION_TEXT_MAX)
		return refuse(&parsing, "a question has at most %d bytes", QUESTION_TEXT_MAX);
	question->is_file = is_file;
	question->items_from = INT64_MIN;
	question->items_to = INT64_MAX;
	question->first = question->last = question->bytes = question->since_event = -1;
	question->filter = filter_new(text.size);
	if (!question->filter)
		return -ENOMEM;
	/* as= decides what other clauses mean. */
	r = take_clauses(&parsing, text, true);
	if (r == 0)
		r = take_clauses(&parsing, text, false);
	if (r == 0)
		r = check(&parsing);
	if (r == 0)
		*ret = steal_ptr(question);
	return r;
}

int question_parse_clauses(struct bytes text, struct question **ret, struct buf *reason)
{
	return parse(text.size ? text : BYTES(""), false, ret, reason);
}

static bool asks_for_file(const struct file_end *end, struct bytes text)
{
	struct bytes clause;

	while (take_part(&text, ',', &clause))
		for (size_t i = 0; i < ARRAY_SIZE(end->clauses); i++)
			if (clause.size && bytes_equal(clause, end->clauses[i]))
				return true;
	return false;
}

int question_parse(struct bytes name, struct question **ret, struct buf *reason)
{
	struct bytes text, inside;

	if (!question_is(name)) {
		int r = buf_printf(reason, "\"%.*s\" is not a question", SHOWN(name));

		return r < 0 ? r : -EINVAL;
	}
	text = bytes_make(name.data + 1, name.size - 1);
	for (size_t i = 0; i < ARRAY_SIZE(file_ends); i++) {
		const struct file_end *end = &file_ends[i];

		if (!bytes_ends_with(text, end->end))
			continue;
		inside = bytes_make(text.data, text.size - end->end.size);
		if (asks_for_file(end, inside))
			return parse(inside, true, ret, reason);
	}
	return parse(text, false, ret, reason);
}

bool question_is(struct bytes name)
{
	struct bytes clause;

	if (!name.size || *name.data != '@')
		return false;
	take_part(&name, ',', &clause);
	return memchr(clause.data, '=', clause.size);
}

void question_free(struct question *question)
{
	if (!question)
		return;
	filter_free(question->filter);
	free(question);
}

int64_t question_moment(struct question_time time, int64_t now, int64_t otherwise)
{
	int64_t moment;

	switch (time.clock) {
	case QUESTION_AT:
		return time.ns;
	case QUESTION_AGO:
		return __builtin_sub_overflow(now, time.ns, &moment) ? INT64_MIN : moment;
	default:
		return otherwise;
	}
}

bool question_needs_line(const struct question *question)
{
	const struct question_filter *filter = question->filter;

	return filter->wanted_count || filter->word_count;
}

bool question_only_items(const struct question *question)
{
	return question->as == QUESTION_LINES &&
	       (question->filter->asks_items || question->first >= 0) && question->last < 0 &&
	       question->bytes < 0 && !question->since.clock && !question->before.clock &&
	       !question_has_at(question) && !question_needs_line(question);
}
