/* SPDX-License-Identifier: MIT */
#include "src/exchange/dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "src/user/stop.h"

enum { BLOCK = 256 * 1024, END = -1, WORD_MAX = 64 };

struct reader {
	int fd;
	const struct dump *dump;
	char *block; /* BLOCK bytes; of these: */
	size_t at, size;
	bool ended;
	int error; /* of reading, or of a function */
	struct dump_place place;
	const char *reason; /* what is wrong, or NULL */
	struct buf columns; /* of the table, each with a NUL behind it */
	size_t column_count;
	struct buf named; /* likewise, those that an INSERT names */
	size_t named_count;
	struct buf row; /* the values, one behind the other */
};

/* At least so many bytes, unless the end comes before. */
static void fill(struct reader *reader, size_t count)
{
	ssize_t size;

	while (reader->size - reader->at < count && !reader->ended) {
		memmove(reader->block, reader->block + reader->at, reader->size - reader->at);
		reader->size -= reader->at;
		reader->at = 0;
		size = read(reader->fd, reader->block + reader->size, BLOCK - reader->size);
		if (stop_wanted())
			reader->error = -EINTR;
		else if (size < 0 && errno != EINTR)
			reader->error = -errno;
		if (reader->error || size == 0)
			reader->ended = true;
		reader->size += (size_t)MAX(size, 0);
	}
}

static int peek(struct reader *reader)
{
	if (reader->at == reader->size)
		fill(reader, 1);
	return reader->at < reader->size ? (unsigned char)reader->block[reader->at] : END;
}

static int next(struct reader *reader)
{
	int byte = peek(reader);

	if (byte == END)
		return END;
	reader->at++;
	reader->place.byte++;
	reader->place.line += byte == '\n';
	return byte;
}

/* Whether it goes on with these bytes; letters in any case. */
static bool begins(struct reader *reader, const char *text)
{
	size_t size = strlen(text);

	if (reader->size - reader->at < size)
		fill(reader, size);
	return reader->size - reader->at >= size &&
	       strncasecmp(reader->block + reader->at, text, size) == 0;
}

static void skip(struct reader *reader, size_t count)
{
	while (count--)
		next(reader);
}

static bool fail(struct reader *reader, const char *reason)
{
	if (!reader->reason)
		reader->reason = peek(reader) == END ? "the file ends in a statement" : reason;
	return false;
}

static bool out_of_memory(struct reader *reader)
{
	reader->error = -ENOMEM;
	return fail(reader, "no memory");
}

static bool keep(struct reader *reader, struct buf *out, int byte)
{
	return buf_append_byte(out, (char)byte) == 0 || out_of_memory(reader);
}

/* Blanks and comments, those included that MySQL executes: no row is in any. */
static void skip_blanks(struct reader *reader)
{
	for (;;) {
		int byte = peek(reader);

		if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
			next(reader);
		} else if (byte == '#' || begins(reader, "-- ") || begins(reader, "--\n")) {
			while (byte != '\n' && byte != END)
				byte = next(reader);
		} else if (begins(reader, "/*")) {
			skip(reader, 2);
			while (peek(reader) != END && !begins(reader, "*/"))
				next(reader);
			skip(reader, 2);
		} else {
			return;
		}
	}
}

static bool is_word(int byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
	       (byte >= '0' && byte <= '9') || byte == '$' || byte >= 0x80;
}

/* A word behind blanks, "" if there is none; what is too long is cut. */
static void take_word(struct reader *reader, char word[WORD_MAX + 1])
{
	size_t size = 0;

	skip_blanks(reader);
	while (is_word(peek(reader))) {
		int byte = next(reader);

		if (size < WORD_MAX)
			word[size++] = (char)byte;
	}
	word[size] = '\0';
}

static bool take_mark(struct reader *reader, char mark, const char *reason)
{
	skip_blanks(reader);
	if (peek(reader) != mark)
		return fail(reader, reason);
	next(reader);
	return true;
}

static int escaped(int byte)
{
	static const char letters[] = "0bnrtZ", meant[] = "\0\b\n\r\t\x1a";
	const char *letter = byte > 0 ? strchr(letters, byte) : NULL;

	return letter ? meant[letter - letters] : byte;
}

/* Behind its first quote; a quote that is doubled means itself. */
static bool take_quoted(struct reader *reader, int quote, struct buf *out)
{
	for (;;) {
		int byte = next(reader);

		if (byte == END)
			return fail(reader, "");
		if (byte == quote) {
			if (peek(reader) != quote)
				return true;
			next(reader);
		} else if (byte == '\\' && quote != '`') {
			byte = next(reader);
			if (byte == END)
				return fail(reader, "");
			byte = escaped(byte);
		}
		if (!keep(reader, out, byte))
			return false;
	}
}

static int hex_digit(int byte)
{
	if (byte >= '0' && byte <= '9')
		return byte - '0';
	byte |= 0x20;
	return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static bool take_hex(struct reader *reader, struct buf *out)
{
	while (hex_digit(peek(reader)) >= 0) {
		int high = hex_digit(next(reader)), low = hex_digit(peek(reader));

		if (low < 0)
			return fail(reader, "an odd number of hexadecimal digits");
		next(reader);
		if (!keep(reader, out, high << 4 | low))
			return false;
	}
	return true;
}

static bool take_quoted_hex(struct reader *reader, struct buf *out)
{
	return take_hex(reader, out) && take_mark(reader, '\'', "expected a hexadecimal digit");
}

/* What says in which character set the string is that follows: all but these would have to be
 * converted. */
static bool is_known_charset(const char *word)
{
	static const char *const known[] = { "_utf8mb4", "_utf8mb3", "_utf8", "_binary", "_ascii" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcasecmp(known[i], word) == 0)
			return true;
	return false;
}

static bool take_value(struct reader *reader, struct buf *out, bool *ret_null);

static bool take_named_value(struct reader *reader, struct buf *out, bool *ret_null)
{
	static const struct {
		const char *word, *text;
	} constants[] = { { "TRUE", "1" }, { "FALSE", "0" } };
	char word[WORD_MAX + 1];

	take_word(reader, word);
	*ret_null = strcasecmp(word, "NULL") == 0;
	if (*ret_null)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++)
		if (strcasecmp(word, constants[i].word) == 0)
			return keep(reader, out, *constants[i].text);
	if (is_known_charset(word)) {
		skip_blanks(reader);
		return peek(reader) == '_' ? fail(reader, "expected a value") :
					     take_value(reader, out, ret_null);
	}
	if (*word == '_')
		return fail(reader, "a character set other than UTF-8");
	if (peek(reader) == '\'' && (strcasecmp(word, "x") == 0 || strcasecmp(word, "n") == 0)) {
		next(reader);
		return (*word | 0x20) == 'x' ? take_quoted_hex(reader, out) :
					       take_quoted(reader, '\'', out);
	}
	return fail(reader, "expected a value");
}

static bool take_number(struct reader *reader, struct buf *out)
{
	int byte = peek(reader);

	do
		if (!keep(reader, out, next(reader)))
			return false;
	while (is_word(byte = peek(reader)) || byte == '.' || byte == '-' || byte == '+');
	return true;
}

static bool take_value(struct reader *reader, struct buf *out, bool *ret_null)
{
	int byte;

	*ret_null = false;
	skip_blanks(reader);
	byte = peek(reader);
	if (byte == '\'' || byte == '"') {
		next(reader);
		return take_quoted(reader, byte, out);
	}
	if (begins(reader, "0x")) {
		skip(reader, 2);
		return take_hex(reader, out);
	}
	if ((byte >= '0' && byte <= '9') || byte == '-' || byte == '+' || byte == '.')
		return take_number(reader, out);
	return take_named_value(reader, out, ret_null);
}

/* A name of a column or table, with a NUL behind it. */
static bool take_name(struct reader *reader, struct buf *out)
{
	char word[WORD_MAX + 1];
	int byte;

	skip_blanks(reader);
	byte = peek(reader);
	if (byte == '`' || byte == '"') {
		next(reader);
		return take_quoted(reader, byte, out) && keep(reader, out, '\0');
	}
	take_word(reader, word);
	if (!*word)
		return fail(reader, "expected a name");
	return buf_append(out, word, strlen(word) + 1) == 0 || out_of_memory(reader);
}

/* The name of a table, perhaps with that of its database before it. */
static bool take_table(struct reader *reader, bool *ret_wanted)
{
	_cleanup_(buf_done) struct buf name = { 0 };

	do {
		buf_clear(&name);
		if (!take_name(reader, &name))
			return false;
		skip_blanks(reader);
	} while (peek(reader) == '.' && next(reader));
	*ret_wanted = strcmp(name.data, reader->dump->table) == 0;
	return true;
}

/* To the end of a statement, or with inside to the ',' or ')' that ends a part between parentheses;
 * what is between quotes counts for nothing. */
static bool pass_over(struct reader *reader, bool inside)
{
	_cleanup_(buf_done) struct buf dropped = { 0 };
	unsigned depth = 0;

	for (;;) {
		int byte;

		skip_blanks(reader);
		byte = peek(reader);
		if (byte == END)
			return fail(reader, "");
		if (inside && !depth && (byte == ',' || byte == ')'))
			return true;
		next(reader);
		if (byte == ';' && !inside)
			return true;
		buf_clear(&dropped);
		if ((byte == '\'' || byte == '"' || byte == '`') &&
		    !take_quoted(reader, byte, &dropped))
			return false;
		depth += byte == '(';
		depth -= byte == ')' && depth;
	}
}

static bool is_column(struct reader *reader)
{
	static const char *const others[] = { "PRIMARY ",    "KEY ",	 "UNIQUE ",
					      "CONSTRAINT ", "INDEX ",	 "FULLTEXT ",
					      "SPATIAL ",    "FOREIGN ", "CHECK " };

	skip_blanks(reader);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (begins(reader, others[i]))
			return false;
	return true;
}

/* Names between parentheses; of a CREATE TABLE with what is said about each. */
static bool take_columns(struct reader *reader, bool defined, struct buf *names, size_t *ret_count)
{
	buf_clear(names);
	*ret_count = 0;
	if (!take_mark(reader, '(', "expected '('"))
		return false;
	do {
		bool column = !defined || is_column(reader);

		if (column && !take_name(reader, names))
			return false;
		*ret_count += column;
		if (*ret_count > DUMP_COLUMNS)
			return fail(reader, "too many columns");
		if (defined && !pass_over(reader, true))
			return false;
		skip_blanks(reader);
	} while (peek(reader) == ',' && next(reader));
	return take_mark(reader, ')', "expected ',' or ')'");
}

static bool take_create(struct reader *reader)
{
	char word[WORD_MAX + 1];
	bool wanted;

	take_word(reader, word);
	if (strcasecmp(word, "TABLE") != 0)
		return pass_over(reader, false);
	skip_blanks(reader);
	if (begins(reader, "IF NOT EXISTS"))
		skip(reader, strlen("IF NOT EXISTS"));
	if (!take_table(reader, &wanted))
		return false;
	if (wanted && !take_columns(reader, true, &reader->columns, &reader->column_count))
		return false;
	return pass_over(reader, false);
}

static void name_columns(const struct buf *names, struct dump_row *row)
{
	const char *name = names->data;

	for (size_t i = 0; i < row->count; i++, name += strlen(name) + 1)
		row->names[i] = bytes_str(name);
}

static bool take_row(struct reader *reader, const struct buf *names, size_t count)
{
	struct dump_row row = { .count = count };
	size_t ends[DUMP_COLUMNS], taken = 0;
	bool nulls[DUMP_COLUMNS];

	skip_blanks(reader);
	row.place = reader->place;
	buf_clear(&reader->row);
	if (!take_mark(reader, '(', "expected '('"))
		return false;
	do {
		if (taken == count)
			return fail(reader, "more values than columns");
		if (!take_value(reader, &reader->row, &nulls[taken]))
			return false;
		ends[taken++] = reader->row.size;
		skip_blanks(reader);
	} while (peek(reader) == ',' && next(reader));
	if (!take_mark(reader, ')', "expected ',' or ')'"))
		return false;
	if (taken < count)
		return fail(reader, "fewer values than columns");
	name_columns(names, &row);
	for (size_t i = 0, begin = 0; i < count; begin = ends[i++])
		row.values[i] = nulls[i] ?
					bytes_make(NULL, 0) :
					bytes_make(reader->row.size ? reader->row.data + begin : "",
						   ends[i] - begin);
	reader->error = reader->dump->row(reader->dump->arg, &row);
	return !reader->error;
}

static bool take_rows(struct reader *reader)
{
	const struct buf *names = reader->named_count ? &reader->named : &reader->columns;
	size_t count = reader->named_count ? reader->named_count : reader->column_count;

	if (!count)
		return fail(reader, "no CREATE TABLE has told the columns");
	do {
		if (!take_row(reader, names, count))
			return false;
		skip_blanks(reader);
	} while (peek(reader) == ',' && next(reader));
	return pass_over(reader, false);
}

static bool take_insert(struct reader *reader)
{
	static const char *const between[] = { "LOW_PRIORITY ", "DELAYED ", "HIGH_PRIORITY ",
					       "IGNORE ", "INTO " };
	char word[WORD_MAX + 1];
	bool wanted;

	for (size_t i = 0; i < ARRAY_SIZE(between); i++) {
		skip_blanks(reader);
		if (begins(reader, between[i]))
			skip(reader, strlen(between[i]));
	}
	if (!take_table(reader, &wanted))
		return false;
	if (!wanted)
		return pass_over(reader, false);
	skip_blanks(reader);
	reader->named_count = 0;
	if (peek(reader) == '(' &&
	    !take_columns(reader, false, &reader->named, &reader->named_count))
		return false;
	take_word(reader, word);
	if (strcasecmp(word, "VALUES") != 0 && strcasecmp(word, "VALUE") != 0)
		return fail(reader, "expected VALUES");
	return take_rows(reader);
}

/* Bodies of routines have statements in them; the client's own word says where they end. */
static bool pass_routines(struct reader *reader)
{
	while (peek(reader) != END)
		if (next(reader) == '\n' && begins(reader, "DELIMITER ;\n"))
			break;
	skip(reader, strlen("DELIMITER ;"));
	return true;
}

static bool take_statement(struct reader *reader)
{
	static const struct {
		const char *word;
		bool (*take)(struct reader *reader);
	} statements[] = {
		{ "INSERT", take_insert },
		{ "REPLACE", take_insert },
		{ "CREATE", take_create },
		{ "DELIMITER", pass_routines },
	};
	char word[WORD_MAX + 1];

	if (peek(reader) == ';')
		return next(reader);
	take_word(reader, word);
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
		if (strcasecmp(word, statements[i].word) == 0)
			return statements[i].take(reader);
	return pass_over(reader, false);
}

/* A dump writes no line break into a string: what begins a line so is a statement. */
static void find_statement(struct reader *reader)
{
	while (peek(reader) != END)
		if (next(reader) == '\n' &&
		    (begins(reader, "INSERT ") || begins(reader, "REPLACE ") ||
		     begins(reader, "CREATE TABLE ")))
			return;
}

static int read_statements(struct reader *reader)
{
	for (skip_blanks(reader); peek(reader) != END && !reader->error; skip_blanks(reader)) {
		if (take_statement(reader) || reader->error)
			continue;
		reader->error =
			reader->dump->broken(reader->dump->arg, &reader->place, reader->reason);
		reader->reason = NULL;
		find_statement(reader);
	}
	return reader->error;
}

int dump_read(int fd, const struct dump *dump)
{
	struct reader reader = { .fd = fd, .dump = dump, .place = { .line = 1 } };
	int r;

	reader.block = malloc(BLOCK);
	r = reader.block ? read_statements(&reader) : -ENOMEM;
	free(reader.block);
	buf_done(&reader.columns);
	buf_done(&reader.named);
	buf_done(&reader.row);
	return r;
}
