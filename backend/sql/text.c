/* SPDX-License-Identifier: MIT */
#include "backend/sql/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"

/* clang-format off */
static const char *const templates[] = {
#define SQL(name, text) text,
#include "backend/sql/texts.h"
#undef SQL
};
/* clang-format on */

void sql_layout_done(struct sql_layout *layout)
{
	free(layout->name);
	free(layout->quoted);
	free(layout->collation);
	*layout = (struct sql_layout){ 0 };
}

/* Append a text in which %s stands for something, %1 and %2 for its first word and the rest. */
static int append_format(struct buf *buf, const char *format, const char *what)
{
	const char *blank = strchr(what, ' '), *at;
	const struct bytes whole = bytes_str(what);
	const struct bytes first = bytes_make(what, blank ? (size_t)(blank - what) : whole.size);
	const struct bytes rest = blank ? bytes_str(blank + 1) : (struct bytes){ "", 0 };
	int r = 0;

	while (r == 0 && (at = strchr(format, '%'))) {
		r = buf_append(buf, format, (size_t)(at - format));
		if (r == 0)
			r = buf_append_bytes(buf, at[1] == '1' ? first :
						  at[1] == '2' ? rest :
								 whole);
		format = at + 2;
	}
	return r < 0 ? r : buf_append_str(buf, format);
}

/* The driver's text in place of a format of ours; NULL: it has none. */
static const char *word_of(const struct sql_texts *texts, const char *name)
{
	const struct sql_word *word = texts->driver->words;

	while (word->name && strcmp(word->name, name) != 0)
		word++;
	return word->text;
}

static int append_word(struct buf *buf, const struct sql_texts *texts, const char *name,
		       const char *what)
{
	const char *text = word_of(texts, name);

	return text ? append_format(buf, text, what) : -EINVAL;
}

static int append_is(struct buf *buf, const struct sql_texts *texts, const char *column,
		     const char *value)
{
	int r = buf_printf(buf, "%s = ?%s", column, value);

	if (r == 0 && !texts->layout.exact) {
		r = buf_append_str(buf, " AND ");
		if (r == 0)
			r = append_word(buf, texts, "exactly", column);
		if (r == 0)
			r = buf_printf(buf, " = ?%s", value);
	}
	return r;
}

/* A seconds-expression of a column, or 0 where there is none. */
static int append_seconds(struct buf *buf, const struct sql_texts *texts, bool has,
			  const char *column)
{
	int r;

	if (!has)
		return buf_append_str(buf, "0");
	r = buf_append_str(buf, "COALESCE(");
	if (r == 0)
		r = append_word(buf, texts, "seconds", column);
	return r < 0 ? r : buf_append_str(buf, ", 0)");
}

static int append_times(struct buf *buf, const struct sql_layout *layout, const char *created,
			const char *updated, const char *sign)
{
	int r = layout->has_created ? buf_printf(buf, ", %s%s", sign, created) : 0;

	return r < 0 || !layout->has_updated ? r : buf_printf(buf, ", %s%s", sign, updated);
}

static int append_expanded(struct buf *buf, const struct sql_texts *texts, const char *text)
{
	_cleanup_(freep) char *expanded = sql_texts_expand(texts, text);

	return expanded ? buf_append_str(buf, expanded) : -ENOMEM;
}

/* The time of a row that is replaced moves if its data does; behind it no comma is missing. */
static int append_set_updated(struct buf *buf, const struct sql_texts *texts)
{
	static const char time[] = "updated_at = CASE WHEN {exactly {rows}.state_data} = "
				   "{new state_data} THEN {rows}.updated_at ELSE {new updated_at} "
				   "END, ";

	return texts->layout.has_updated ? append_expanded(buf, texts, time) : 0;
}

/* A format, of which what it comes to has words itself. */
static int append_filled(struct buf *buf, const struct sql_texts *texts, const char *format,
			 const char *what)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	int r = append_format(&text, format, what);

	if (r == 0)
		r = buf_append_byte(&text, '\0');
	return r < 0 ? r : append_expanded(buf, texts, text.data);
}

static int append_own(struct buf *buf, const struct sql_texts *texts, const char *name,
		      const char *what)
{
	/* Of what is put where a row is; NULL, which an index cannot be, if that is one of another
	 * spelling. */
	static const char same[] =
		"CASE WHEN {exactly {rows}.session_id} = {exactly {new session_id}} "
		"AND {exactly {rows}.state_key} = {exactly {new state_key}} "
		"THEN {new %s} END";
	const struct sql_layout *layout = &texts->layout;
	char first[8] = "", second[8] = "";

	sscanf(what, "%7s %7s", first, second);
	if (strcmp(name, "rows") == 0)
		return buf_append_str(buf, layout->quoted);
	if (strcmp(name, "collation") == 0)
		return buf_append_str(buf, layout->collation);
	if (strcmp(name, "session") == 0)
		return append_is(buf, texts, "session_id", first);
	if (strcmp(name, "is") == 0) {
		int r = append_is(buf, texts, "session_id", first);

		if (r == 0)
			r = buf_append_str(buf, " AND ");
		return r < 0 ? r : append_is(buf, texts, "state_key", second);
	}
	if (strcmp(name, "created") == 0)
		return append_seconds(buf, texts, layout->has_created, "created_at");
	if (strcmp(name, "updated") == 0)
		return append_seconds(buf, texts, layout->has_updated, "updated_at");
	if (strcmp(name, "time_columns") == 0)
		return append_times(buf, layout, "created_at", "updated_at", "");
	if (strcmp(name, "time_values") == 0)
		return append_times(buf, layout, first, second, "?");
	if (strcmp(name, "keep_updated") == 0)
		return layout->has_updated ? buf_append_str(buf, ", updated_at = updated_at") : 0;
	if (strcmp(name, "set_updated") == 0)
		return append_set_updated(buf, texts);
	if (strcmp(name, "same") == 0)
		return layout->exact ? append_word(buf, texts, "new", what) :
				       append_filled(buf, texts, same, what);
	if (strcmp(name, "text") == 0)
		/* An id of a table of ours as one of the rows' table. */
		return append_filled(buf, texts, word_of(texts, "text"), what);
	/* More to say where one id has several spellings. */
	if (strcmp(name, "spelled") == 0)
		return layout->exact ?
			       0 :
			       append_filled(buf, texts, " AND {exactly %1} = {exactly %2}", what);
	if (strcmp(name, "spellings") == 0)
		return layout->exact ?
			       0 :
			       append_filled(buf, texts, ", {exactly %1}, {exactly %2}", what);
	if (strcmp(name, "exact") == 0 || strcmp(name, "several") == 0)
		return layout->exact == (*name == 'e') ? buf_append_str(buf, what) : 0;
	return append_word(buf, texts, name, what);
}

/* The brace that closes the one at this place. */
static const char *closing(const char *at)
{
	unsigned depth = 0;

	for (; *at; at++) {
		depth += *at == '{';
		depth -= *at == '}';
		if (!depth)
			return at;
	}
	return NULL;
}

static int append_braces(struct buf *buf, const struct sql_texts *texts, const char *at,
			 const char *end)
{
	_cleanup_(freep) char *name = bytes_dup(bytes_make(at + 1, (size_t)(end - at) - 1));
	_cleanup_(freep) char *inner = NULL;
	char *what = name ? strchr(name, ' ') : NULL;

	if (!name)
		return -ENOMEM;
	if (what)
		*what++ = '\0';
	inner = sql_texts_expand(texts, what ? what : "");
	return inner ? append_own(buf, texts, name, inner) : -ENOMEM;
}

char *sql_texts_expand(const struct sql_texts *texts, const char *text)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	const char *at;
	int r = 0;

	while (r == 0 && (at = strchr(text, '{'))) {
		const char *end = closing(at);

		if (!end)
			return NULL;
		r = buf_append(&buf, text, (size_t)(at - text));
		if (r == 0)
			r = append_braces(&buf, texts, at, end);
		text = end + 1;
	}
	if (r == 0)
		r = buf_append_str(&buf, text);
	if (r == 0)
		r = buf_append_byte(&buf, '\0');
	return r < 0 ? NULL : steal_ptr(buf.data);
}

int sql_texts_make(struct sql_texts *texts)
{
	for (size_t i = 0; i < SQL_TEXTS; i++) {
		const char *own = texts->driver->own ? texts->driver->own[i] : NULL;

		free(texts->text[i]);
		texts->text[i] = sql_texts_expand(texts, own ? own : templates[i]);
		if (!texts->text[i])
			return -ENOMEM;
	}
	return 0;
}

void sql_texts_done(struct sql_texts *texts)
{
	for (size_t i = 0; i < SQL_TEXTS; i++)
		free(texts->text[i]);
	sql_layout_done(&texts->layout);
}

static int say_time(struct buf *buf, const struct sql_texts *texts, int64_t time)
{
	const uint64_t second = 1000000000;
	const char *sign = time < 0 ? "-" : "";
	const uint64_t size = time < 0 ? -(uint64_t)time : (uint64_t)time;
	char seconds[48];

	if (!time)
		return append_word(buf, texts, "now", "");
	if (texts->layout.whole_seconds)
		snprintf(seconds, sizeof(seconds), "%s%" PRIu64, sign, size / second);
	else
		snprintf(seconds, sizeof(seconds), "%s%" PRIu64 ".%06" PRIu64, sign, size / second,
			 size % second / 1000);
	return append_word(buf, texts, "moment", seconds);
}

int sql_say_value(struct buf *buf, const struct sql_texts *texts, const struct sql_value *value)
{
	switch (value->is) {
	case SQL_NUMBER:
		if (value->number == INT64_MIN)
			return append_word(buf, texts, "lowest", "");
		return buf_printf(buf, "%" PRId64, value->number);
	case SQL_TIME:
		return say_time(buf, texts, value->number);
	case SQL_KEPT_AT:
		return append_word(buf, texts, "kept_at", "");
	case SQL_WORDS:
		return buf_append_bytes(buf, value->bytes);
	case SQL_UNTIL: /* words say it */
	case SQL_TEXT:
	case SQL_BLOB:
		break;
	}
	if (!value->bytes.data)
		return buf_append_str(buf, "NULL");
	return texts->driver->quote(buf, value->bytes, value->is == SQL_TEXT);
}

static int text_say(struct buf *buf, const struct sql_texts *texts, const char *text,
		    const struct sql_value *values, size_t count)
{
	const char *at;
	int r = 0;

	while (r == 0 && (at = strchr(text, '?'))) {
		char *end;
		size_t number = strtoul(at + 1, &end, 10);

		if (!number || number > count)
			return -EINVAL;
		r = buf_append(buf, text, (size_t)(at - text));
		if (r == 0)
			r = sql_say_value(buf, texts, &values[number - 1]);
		text = end;
	}
	return r < 0 ? r : buf_append_str(buf, text);
}

int sql_say_text(struct buf *buf, const struct sql_texts *texts, const char *text,
		 const struct sql_value *values, size_t count)
{
	int r = buf->size ? buf_append_byte(buf, ';') : 0;

	return r < 0 ? r : text_say(buf, texts, text, values, count);
}

int sql_say(struct buf *buf, const struct sql_texts *texts, enum sql_text text,
	    const struct sql_value *values, size_t count)
{
	return sql_say_text(buf, texts, texts->text[text], values, count);
}

int sql_say_on(struct buf *buf, const struct sql_texts *texts, enum sql_text text,
	       const struct sql_value *values, size_t count)
{
	return text_say(buf, texts, texts->text[text], values, count);
}

int sql_quote_name(const struct sql_driver *driver, struct buf *buf, const char *name)
{
	int r = buf_printf(buf, "%s%c", driver->schema, driver->name_quote);

	for (; r == 0 && *name; name++) {
		r = buf_append_byte(buf, *name);
		if (r == 0 && *name == driver->name_quote)
			r = buf_append_byte(buf, *name);
	}
	return r < 0 ? r : buf_append_byte(buf, driver->name_quote);
}
