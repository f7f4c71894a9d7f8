/* SPDX-License-Identifier: MIT */
#include "fs/base/json.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"

/* What a byte can be.  A byte may be several of these. */
enum class {
	BLANK = 1 << 0,	 /* JSON white space */
	DIGIT = 1 << 1,	 /* of a decimal number */
	HEX = 1 << 2,	 /* of \uXXXX */
	LETTER = 1 << 3, /* after a backslash, \u aside */
	NUMBER = 1 << 4, /* cannot follow a complete number */
};

static const uint8_t classes[256] = {
	[' '] = BLANK,
	['\t'] = BLANK,
	['\n'] = BLANK,
	['\r'] = BLANK,
	['0' ... '9'] = DIGIT | HEX | NUMBER,
	['a'] = HEX,
	['c' ... 'd'] = HEX,
	['A' ... 'D'] = HEX,
	['F'] = HEX,
	['b'] = HEX | LETTER,
	['f'] = HEX | LETTER,
	['n'] = LETTER,
	['r'] = LETTER,
	['t'] = LETTER,
	['"'] = LETTER,
	['\\'] = LETTER,
	['/'] = LETTER,
	['e'] = HEX | NUMBER,
	['E'] = HEX | NUMBER,
	['+'] = NUMBER,
	['-'] = NUMBER,
	['.'] = NUMBER,
};

/*
 * The functions below take the position to start at and return the one behind what they have
 * scanned, or NULL when they refused it: so the position lives in a register.
 */
struct scan {
	const unsigned char *end;
	const unsigned char *refused_at;
	const char *reason;
	unsigned depth;
	/* Bit n is set when the container at depth n is an object. */
	uint64_t objects[(JSON_DEPTH_MAX + 63) / 64];
};

static inline bool is(unsigned char byte, unsigned class)
{
	return classes[byte] & class;
}

__attribute__((cold)) static const unsigned char *
scan_refuse(struct scan *scan, const unsigned char *at, const char *reason)
{
	scan->refused_at = at;
	scan->reason = at == scan->end ? "unexpected end" : reason;
	return NULL;
}

/* ---- Plain text ---- */

/*
 * Eight bytes at once: the high bit of each byte of the result that is not plain text, which is a
 * quote, a backslash, a control character or not ASCII.  A subtraction borrows only from bytes
 * above one that is marked rightly, so the lowest mark is always right and no mark is missed.
 */
static inline uint64_t not_plain(uint64_t word)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t control = word - ones * 0x20;
	uint64_t quote = (word ^ ones * '"') - ones;
	uint64_t backslash = (word ^ ones * '\\') - ones;

	return (control | quote | backslash | word) & ones * 0x80;
}

static inline uint64_t load_word(const unsigned char *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return le64toh(word);
}

static const unsigned char *skip_plain(const unsigned char *from, const unsigned char *end)
{
	while (end - from >= 8) {
		uint64_t marks = not_plain(load_word(from));

		if (marks)
			return from + __builtin_ctzll(marks) / 8;
		from += 8;
	}
	while (from < end && *from >= 0x20 && *from < 0x80 && *from != '"' && *from != '\\')
		from++;
	return from;
}

/* ---- Strings, numbers, literals ---- */

/* at: behind the backslash. */
static const unsigned char *scan_escape(struct scan *scan, const unsigned char *at)
{
	if (at == scan->end)
		return scan_refuse(scan, at, "invalid escape");
	if (is(*at, LETTER))
		return at + 1;
	if (*at++ != 'u')
		return scan_refuse(scan, at - 1, "invalid escape");
	for (int digit = 0; digit < 4; digit++, at++) {
		if (at == scan->end || !is(*at, HEX))
			return scan_refuse(scan, at, "invalid escape");
	}
	return at;
}

/* Text in other scripts comes in runs: stay here for as long as it does. */
static const unsigned char *scan_sequences(struct scan *scan, const unsigned char *at)
{
	do {
		size_t size = utf8_sequence(bytes_make(at, (size_t)(scan->end - at)));

		if (size == 0)
			return scan_refuse(scan, at, "invalid UTF-8");
		at += size;
	} while (at < scan->end && *at >= 0x80);
	return at;
}

/* at: behind the opening quote. */
static inline const unsigned char *scan_string(struct scan *scan, const unsigned char *at)
{
	while (at) {
		at = skip_plain(at, scan->end);
		if (at == scan->end)
			return scan_refuse(scan, at, "unexpected end");
		if (*at == '"')
			return at + 1;
		if (*at == '\\')
			at = scan_escape(scan, at + 1);
		else if (*at >= 0x80)
			at = scan_sequences(scan, at);
		else
			return scan_refuse(scan, at, "control character in a string");
	}
	return NULL;
}

static const unsigned char *scan_digits(struct scan *scan, const unsigned char *at)
{
	if (at == scan->end || !is(*at, DIGIT))
		return scan_refuse(scan, at, "invalid number");
	while (at < scan->end && is(*at, DIGIT))
		at++;
	return at;
}

/* Whether the byte stands at at; safe at the end. */
static inline bool stands(const struct scan *scan, const unsigned char *at, unsigned char byte)
{
	return at < scan->end && *at == byte;
}

/* at: on a minus sign or a digit. */
static const unsigned char *scan_number(struct scan *scan, const unsigned char *at)
{
	if (*at == '-')
		at++;
	at = stands(scan, at, '0') ? at + 1 : scan_digits(scan, at);
	if (at && stands(scan, at, '.'))
		at = scan_digits(scan, at + 1);
	if (at && (stands(scan, at, 'e') || stands(scan, at, 'E'))) {
		at++;
		if (stands(scan, at, '+') || stands(scan, at, '-'))
			at++;
		at = scan_digits(scan, at);
	}
	if (at && at < scan->end && is(*at, NUMBER))
		return scan_refuse(scan, at, "invalid number");
	return at;
}

static const unsigned char *scan_literal(struct scan *scan, const unsigned char *at,
					 struct bytes literal)
{
	size_t size = (size_t)(scan->end - at);

	if (memcmp(at, literal.data, MIN(size, literal.size)) != 0)
		return scan_refuse(scan, at, "expected a value");
	if (size < literal.size)
		return scan_refuse(scan, scan->end, "unexpected end");
	return at + literal.size;
}

/* ---- Values ---- */

static inline const unsigned char *skip_blanks(const struct scan *scan, const unsigned char *at)
{
	while (at < scan->end && is(*at, BLANK))
		at++;
	return at;
}

static inline bool in_object(const struct scan *scan)
{
	unsigned level = scan->depth - 1;

	return scan->objects[level / 64] >> level % 64 & 1;
}

/* A key and its colon; at: on the first byte that is not blank. */
static inline const unsigned char *scan_key(struct scan *scan, const unsigned char *at)
{
	if (!stands(scan, at, '"'))
		return scan_refuse(scan, at, "expected a key");
	at = scan_string(scan, at + 1);
	if (!at)
		return NULL;
	at = skip_blanks(scan, at);
	if (!stands(scan, at, ':'))
		return scan_refuse(scan, at, "expected ':'");
	return at + 1;
}

/* What a step has found out. */
enum step {
	OPENED, /* a value is to follow */
	CLOSED, /* a value is complete */
	DONE,	/* the outermost value is complete */
};

/* at: on the opening bracket. */
static inline const unsigned char *scan_container(struct scan *scan, const unsigned char *at,
						  bool object, enum step *step)
{
	unsigned level = scan->depth;
	uint64_t bit = UINT64_C(1) << level % 64;

	if (level == JSON_DEPTH_MAX)
		return scan_refuse(scan, at, "nested too deeply");
	at = skip_blanks(scan, at + 1);
	if (stands(scan, at, object ? '}' : ']')) {
		*step = CLOSED;
		return at + 1;
	}
	if (object)
		scan->objects[level / 64] |= bit;
	else
		scan->objects[level / 64] &= ~bit;
	scan->depth++;
	*step = OPENED;
	return object ? scan_key(scan, at) : at;
}

static inline const unsigned char *scan_value(struct scan *scan, const unsigned char *at,
					      enum step *step)
{
	at = skip_blanks(scan, at);
	*step = CLOSED;
	switch (at < scan->end ? *at : '\0') {
	case '{':
		return scan_container(scan, at, true, step);
	case '[':
		return scan_container(scan, at, false, step);
	case '"':
		return scan_string(scan, at + 1);
	case '-':
	case '0' ... '9':
		return scan_number(scan, at);
	case 't':
		return scan_literal(scan, at, BYTES("true"));
	case 'f':
		return scan_literal(scan, at, BYTES("false"));
	case 'n':
		return scan_literal(scan, at, BYTES("null"));
	default:
		return scan_refuse(scan, at, "expected a value");
	}
}

/* What stands behind a complete value. */
static inline const unsigned char *scan_rest(struct scan *scan, const unsigned char *at,
					     enum step *step)
{
	bool object;

	at = skip_blanks(scan, at);
	if (scan->depth == 0) {
		*step = DONE;
		return at == scan->end ? at : scan_refuse(scan, at, "more than one value");
	}
	object = in_object(scan);
	if (stands(scan, at, ',')) {
		*step = OPENED;
		return object ? scan_key(scan, skip_blanks(scan, at + 1)) : at + 1;
	}
	if (!stands(scan, at, object ? '}' : ']'))
		return scan_refuse(scan, at,
				   object ? "expected ',' or '}'" : "expected ',' or ']'");
	scan->depth--;
	*step = CLOSED;
	return at + 1;
}

bool json_valid(struct bytes text, struct json_error *error)
{
	const unsigned char *start = (const unsigned char *)(text.size ? text.data : "");
	const unsigned char *at = start;
	enum step step = OPENED;
	struct scan scan;

	/* No initialiser: a bit is written before it is read, and most texts are shorter than
	 * all of them. */
	scan.end = start + text.size;
	scan.depth = 0;
	while (at && step != DONE)
		at = step == OPENED ? scan_value(&scan, at, &step) : scan_rest(&scan, at, &step);
	if (!at && error)
		*error = (struct json_error){ (size_t)(scan.refused_at - start), scan.reason };
	return at;
}

int json_compact(struct bytes text, struct buf *out)
{
	const char *at = text.data, *end = at + text.size;
	int r = buf_reserve(out, text.size);
	bool inside = false;
	char *to;

	if (r < 0)
		return r;
	to = out->data + out->size;
	while (at < end) {
		if (inside && *at == '\\' && end - at > 1)
			*to++ = *at++;
		else if (*at == '"')
			inside = !inside;
		else if (!inside && is((unsigned char)*at, BLANK)) {
			at++;
			continue;
		}
		*to++ = *at++;
	}
	out->size = (size_t)(to - out->data);
	return 0;
}
