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

/* Words about the rows' table: what they come to where it is so, and elsewhere. */
static const struct {
	const char *name;
	enum { ALWAYS, IF_EXACT, IF_CREATED, IF_UPDATED } when;
	const char *then, *otherwise;
} words[] = {
	{ "session", IF_EXACT, "session_id = ?%s",
	  "session_id = ?%s AND {exactly session_id} = ?%s" },
	{ "is", IF_EXACT, "{session %1} AND state_key = ?%2",
	  "{session %1} AND state_key = ?%2 AND {exactly state_key} = ?%2" },
	{ "created", IF_CREATED, "COALESCE({seconds created_at}, 0)", "0" },
	{ "updated", IF_UPDATED, "COALESCE({seconds updated_at}, 0)", "0" },
	{ "if_created", IF_CREATED, "%s", "" },
	{ "if_updated", IF_UPDATED, "%s", "" },
	{ "time_columns", ALWAYS, "{if_created , created_at}{if_updated , updated_at}", NULL },
	{ "time_values", ALWAYS, "{if_created , ?%1}{if_updated , ?%2}", NULL },
	{ "keep_updated", IF_UPDATED, ", updated_at = updated_at", "" },
	/* The time of a row that is replaced moves if its data does; no comma is missing behind. */
	{ "set_updated", IF_UPDATED,
	  "updated_at = CASE WHEN {exactly {rows}.state_data} = {new state_data} THEN "
	  "{rows}.updated_at ELSE {new updated_at} END, ",
	  "" },
	/* Of what is put where a row is; NULL, which an index cannot be, if that is one of another
	 * spelling. */
	{ "same", IF_EXACT, "{new %s}",
	  "CASE WHEN {exactly {rows}.session_id} = {exactly {new session_id}} AND "
	  "{exactly {rows}.state_key} = {exactly {new state_key}} THEN {new %s} END" },
	/* More to say where one id has several spellings. */
	{ "spelled", IF_EXACT, "", " AND {exactly %1} = {exactly %2}" },
	{ "spellings", IF_EXACT, "", ", {exactly %1}, {exactly %2}" },
	{ "exact", IF_EXACT, "%s", "" },
	{ "several", IF_EXACT, "", "%s" },
};

/* The format of a word, ours or the driver's; NULL: there is no such word. */
static const char *format_of(const struct sql_texts *texts, const char *name)
{
	const bool is[] = { [ALWAYS] = true,
			    [IF_EXACT] = texts->layout.exact,
			    [IF_CREATED] = texts->layout.has_created,
			    [IF_UPDATED] = texts->layout.has_updated };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i].name, name) == 0)
			return is[words[i].when] ? words[i].then : words[i].otherwise;
	return word_of(texts, name);
}

/* What a word comes to has words itself. */
static int append_own(struct buf *buf, const struct sql_texts *texts, const char *name,
		      const char *what)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	_cleanup_(freep) char *expanded = NULL;
	const char *format = format_of(texts, name);
	int r;

	if (strcmp(name, "rows") == 0)
		return buf_append_str(buf, texts->layout.quoted);
	if (strcmp(name, "collation") == 0)
		return buf_append_str(buf, texts->layout.collation);
	r = format ? append_format(&text, format, what) : -EINVAL;
	if (r == 0)
		r = buf_append_byte(&text, '\0');
	if (r == 0)
		expanded = sql_texts_expand(texts, text.data);
	return r < 0 ? r : expanded ? buf_append_str(buf, expanded) : -ENOMEM;
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
