/* SPDX-License-Identifier: MIT */

/*
 * Questions, and which lines fit them.
 *
 * What stands before the first NUL of an input is a question, as a name if it begins with '@' and
 * as clauses otherwise; what is behind it is a line.  A question that is accepted says the same
 * when it is spelled in other ways, and of a line that is JSON its verdict is that of the reference
 * below, which does what fs/views/question/question.h says in the plainest way.
 */

#include <errno.h>
#include <string.h>

#include "fs/views/question/question.h"
#include "fs/views/question/shapes.h"
#include "fs/base/json.h"
#include "tests/fuzz/fuzz.h"

enum {
	SENTENCE_MOST = 512,   /* bytes of what is said of a wrong question */
	REFERENCE_MOST = 1024, /* bytes of a question that the reference is asked */
};

const char fuzz_name[] = "question";
const unsigned fuzz_runs = 25000;
const struct bytes fuzz_words[] = {
	BYTES("role="),
	BYTES("not-role="),
	BYTES("agent="),
	BYTES("not-agent="),
	BYTES(".a.b="),
	BYTES("not-.a="),
	BYTES("match="),
	BYTES("as="),
	BYTES("items="),
	BYTES("since="),
	BYTES("before="),
	BYTES("first="),
	BYTES("last="),
	BYTES("bytes="),
	BYTES("if="),
	BYTES(","),
	BYTES("+"),
	BYTES("%2C"),
	BYTES("%00"),
	BYTES("@"),
	BYTES(".jsonl"),
	BYTES("events"),
	BYTES("9223372036854775807"),
	BYTES("292y"),
	BYTES("156K"),
	BYTES("2026-01-31T18:30:05.5Z"),
	BYTES("user"),
	BYTES("assistant"),
	BYTES("tool"),
	BYTES("\0"),
	BYTES("{\"role\":\"user\""),
	BYTES("\"message\":{"),
	BYTES("\"type\":\"gemini\""),
	BYTES("\"a\":{\"b\":"),
	BYTES("\"agent\":\"a\""),
	BYTES("\\u0061"),
	BYTES("\\ud83d\\ude00"),
	BYTES("\\\\"),
	BYTES("\":"),
	BYTES("}"),
	BYTES("["),
	BYTES("]"),
	{ NULL, 0 },
};

#define SEED(question, line) BYTES(question "\0" line)

static const struct bytes seeds[] = {
	SEED("role=user+assistant,not-role=tool,last=20", "{\"role\":\"user\",\"content\":\"hi\"}"),
	SEED("role=assistant", "{\"type\":\"gemini\",\"content\":\"Let me\"}"),
	SEED("not-role=tool,agent=a", "{\"payload\":{\"type\":\"function_call\"},\"agent\":\"a\"}"),
	SEED("agent=Friday,not-agent=b", "{\"name\":\"Friday\",\"agent\":1,\"agent\":\"b\"}"),
	SEED(".a.b=1+x,.a=null,not-.c=2,not-.a.d=3",
	     "{\"a\":{\"b\":\"\\u0078\",\"d\":[3]},\"c\":2}"),
	SEED(".a%2Eb=%22%5C+%F0%9F%98%80", "{\"a.b\":\"\\\"\\\\\",\"a.b\":\"\\ud83d\\ude00\"}"),
	SEED("match=needle+caf%C3%A9", "{\"a\":[\"one NEEDLE\",{\"b\":\"un caf\\u00e9\"}]}"),
	SEED("match=%ED%A0%BD,.a=%ED%A0%BD", "{\"a\":\"\\ud83d\"}"),
	SEED("items=10-19,first=5,bytes=156K,if=3f%2Ca", "[1,{\"role\":\"user\"}]"),
	SEED("since=2026-01-31T18:30:05.5Z,before=7d,last=9223372036854775807", "\"a\""),
	SEED("@as=events,since=71.jsonl", "{}"),
	SEED("@last=5,as=list.jsonl", "{}"),
	SEED("@as=items,role=user,match=a.jsonl", "{\"message\":{\"role\":\"USER\"}}"),
	SEED("@last=x", "1"),
	SEED("role=user,role=human,agent=a,.role=user,not-.role=tool",
	     "{\"role\":{\"role\":\"tool\"},\"type\":\"human\",\"@type\":null}"),
	SEED("match=aab+abab", "\"aaaaab \\n abacabab\""),
	SEED(".z=1", "{\"a\":[[{\"z\":1}]],\"b\":{\"z\":1},\"z\":-0.5e+7}"),
	SEED(".z=1", "{\"a\":[2,{\"z\":1},\"z\"],\"z\":2}"),
	SEED("role=tool,not-agent=b", "{\"role\":\"user\",\"agent\":\"a\",\"role\":\"tool\"}"),
	SEED("match=red", "{\"red\":{\"red\":\"re\"}}"),
	SEED(".a=xyz,.b=10", "{\"a\":\"xy\",\"b\":1,\"a\":\"xyzz\",\"b\":100}"),
	SEED(".a=xyz", "{\"a\":\"x\\u0079\"}"),
	SEED("role=a,,b", "{]]]]\"a\":]}"),
};

bool fuzz_seed(unsigned n, struct buf *seed)
{
	if (n >= ARRAY_SIZE(seeds))
		return false;
	fuzz_put(seed, seeds[n].data, seeds[n].size);
	return true;
}

static void put(struct buf *buf, struct bytes bytes)
{
	fuzz_put(buf, bytes.data, bytes.size);
}

static bool next_part(struct bytes *rest, char separator, struct bytes *ret_part)
{
	size_t size = 0;

	if (!rest->data)
		return false;
	while (size < rest->size && rest->data[size] != separator)
		size++;
	*ret_part = bytes_make(rest->data, size);
	*rest = size < rest->size ? bytes_make(rest->data + size + 1, rest->size - size - 1) :
				    bytes_make(NULL, 0);
	return true;
}

static int digit_of(char digit)
{
	return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
}

/* The text is right. */
static void decode(struct bytes text, struct buf *ret)
{
	for (size_t i = 0; i < text.size; i++) {
		char byte = text.data[i];

		if (byte == '%') {
			byte = (char)(digit_of(text.data[i + 1]) * 16 + digit_of(text.data[i + 2]));
			i += 2;
		}
		fuzz_put(ret, &byte, 1);
	}
}

/* ---- A line, value by value ---- */

/* A string, a number or a literal. */
struct leaf {
	struct bytes path; /* the keys that lead to it, as put_key() writes them */
	bool in_array;
	bool is_string;
	struct bytes text; /* without escapes, or as it is spelled */
};

struct walk {
	const char *at;
	const char *end;
	struct buf path;
	unsigned arrays; /* around it */
	void (*leaf)(void *arg, const struct leaf *leaf);
	void *arg;
};

static void put_key(struct buf *path, struct bytes key)
{
	fuzz_put(path, &key.size, sizeof(key.size));
	put(path, key);
}

static void walk_blanks(struct walk *walk)
{
	while (walk->at < walk->end && strchr(" \t\r\n", *walk->at))
		walk->at++;
}

static unsigned hex_of(const char *at)
{
	char digits[5] = { at[0], at[1], at[2], at[3] };

	return (unsigned)strtoul(digits, NULL, 16);
}

static void put_code(struct buf *text, unsigned code)
{
	if (code < 0x80)
		fuzz_put(text, (char[]){ (char)code }, 1);
	else if (code < 0x800)
		fuzz_put(text, (char[]){ (char)(0xc0 | code >> 6), (char)(0x80 | (code & 63)) }, 2);
	else if (code < 0x10000)
		fuzz_put(text,
			 (char[]){ (char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
				   (char)(0x80 | (code & 63)) },
			 3);
	else
		fuzz_put(text,
			 (char[]){ (char)(0xf0 | code >> 18), (char)(0x80 | (code >> 12 & 63)),
				   (char)(0x80 | (code >> 6 & 63)), (char)(0x80 | (code & 63)) },
			 4);
}

static void walk_escape(struct walk *walk, struct buf *text)
{
	static const char letters[] = "bfnrt\"\\/", bytes[] = "\b\f\n\r\t\"\\/";
	char letter = walk->at[1];
	unsigned code, low;

	walk->at += 2;
	if (letter != 'u') {
		fuzz_put(text, bytes + (strchr(letters, letter) - letters), 1);
		return;
	}
	code = hex_of(walk->at);
	walk->at += 4;
	if (code >= 0xd800 && code < 0xdc00 && walk->at[0] == '\\' && walk->at[1] == 'u') {
		low = hex_of(walk->at + 2);
		if (low >= 0xdc00 && low < 0xe000) {
			code = 0x10000 + (code - 0xd800) * 0x400 + (low - 0xdc00);
			walk->at += 6;
		}
	}
	put_code(text, code);
}

static void walk_string(struct walk *walk, struct buf *text)
{
	walk->at++;
	while (*walk->at != '"') {
		if (*walk->at == '\\')
			walk_escape(walk, text);
		else
			fuzz_put(text, walk->at++, 1);
	}
	walk->at++;
}

static void walk_value(struct walk *walk);

static void walk_members(struct walk *walk)
{
	size_t size = walk->path.size;

	do {
		_cleanup_(buf_done) struct buf key = { 0 };

		walk->at++;
		walk_blanks(walk);
		if (*walk->at == '}')
			break;
		walk_string(walk, &key);
		walk_blanks(walk);
		walk->at++;
		put_key(&walk->path, buf_bytes(&key));
		walk_value(walk);
		walk->path.size = size;
		walk_blanks(walk);
	} while (*walk->at == ',');
	walk->at++;
}

static void walk_elements(struct walk *walk)
{
	walk->arrays++;
	do {
		walk->at++;
		walk_blanks(walk);
		if (*walk->at == ']')
			break;
		walk_value(walk);
		walk_blanks(walk);
	} while (*walk->at == ',');
	walk->arrays--;
	walk->at++;
}

static void walk_leaf(struct walk *walk)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	struct leaf leaf = { .is_string = *walk->at == '"' };

	if (leaf.is_string)
		walk_string(walk, &text);
	else
		while (walk->at < walk->end && !strchr(",}] \t\r\n", *walk->at))
			fuzz_put(&text, walk->at++, 1);
	leaf.path = buf_bytes(&walk->path);
	leaf.in_array = walk->arrays;
	leaf.text = buf_bytes(&text);
	walk->leaf(walk->arg, &leaf);
}

static void walk_value(struct walk *walk)
{
	walk_blanks(walk);
	if (*walk->at == '{')
		walk_members(walk);
	else if (*walk->at == '[')
		walk_elements(walk);
	else
		walk_leaf(walk);
}

/* The line is JSON. */
static void walk_line(struct bytes line, void (*leaf)(void *, const struct leaf *), void *arg)
{
	struct walk walk = { line.data, line.data + line.size, .leaf = leaf, .arg = arg };

	walk_value(&walk);
	buf_done(&walk.path);
}

/* ---- The reference: values of clauses ---- */

static char small(char byte)
{
	return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static bool same_in_any_case(struct bytes a, struct bytes b)
{
	for (size_t i = 0; i < MIN(a.size, b.size); i++)
		if (small(a.data[i]) != small(b.data[i]))
			return false;
	return a.size == b.size;
}

/* What is looked for in a line, and whether it was found. */
struct quest {
	struct bytes path;
	struct bytes text;
	bool found;
};

static void find_member(void *arg, const struct leaf *leaf)
{
	struct quest *quest = arg;

	if (!leaf->in_array && bytes_equal(leaf->path, quest->path) &&
	    bytes_equal(leaf->text, quest->text))
		quest->found = true;
}

static void find_word(void *arg, const struct leaf *leaf)
{
	struct quest *quest = arg;

	for (size_t i = 0; leaf->is_string && i + quest->text.size <= leaf->text.size; i++)
		if (same_in_any_case(bytes_make(leaf->text.data + i, quest->text.size),
				     quest->text))
			quest->found = true;
}

struct first_string {
	struct bytes path;
	struct buf text;
	bool found;
};

static void find_first_string(void *arg, const struct leaf *leaf)
{
	struct first_string *first = arg;

	if (first->found || leaf->in_array || !leaf->is_string ||
	    !bytes_equal(leaf->path, first->path))
		return;
	first->found = true;
	put(&first->text, leaf->text);
}

static void put_path(struct buf *path, struct bytes keys)
{
	struct bytes key;

	while (next_part(&keys, '.', &key)) {
		_cleanup_(buf_done) struct buf decoded = { 0 };

		decode(key, &decoded);
		put_key(path, buf_bytes(&decoded));
	}
}

/* The role or the agent of a line; false: it has none. */
static bool made_by(struct bytes line, enum shape shape, struct buf *ret)
{
	for (const char *const *keys = shape_paths[shape]; *keys; keys++) {
		_cleanup_(buf_done) struct buf path = { 0 };
		struct first_string first = { 0 };

		put_path(&path, bytes_str(*keys));
		first.path = buf_bytes(&path);
		walk_line(line, find_first_string, &first);
		if (first.found) {
			*ret = first.text;
			return true;
		}
	}
	return false;
}

static bool is_role(struct bytes role, struct buf *wanted)
{
	/* A backslash would begin an escape, and no word has one. */
	return same_in_any_case(role, buf_bytes(wanted)) ||
	       (role.size && !memchr(role.data, '\\', role.size) &&
		same_in_any_case(role_meant(role), buf_bytes(wanted)));
}

static bool value_fits(struct bytes line, struct bytes name, struct bytes value)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	_cleanup_(buf_done) struct buf path = { 0 };
	_cleanup_(buf_done) struct buf is = { 0 };
	struct quest quest = { 0 };

	decode(value, &text);
	if (bytes_equal(name, BYTES("role")))
		return made_by(line, SHAPE_ROLE, &is) && is_role(buf_bytes(&is), &text);
	if (bytes_equal(name, BYTES("agent")))
		return made_by(line, SHAPE_AGENT, &is) &&
		       bytes_equal(buf_bytes(&is), buf_bytes(&text));
	quest.text = buf_bytes(&text);
	if (*name.data != '.') {
		walk_line(line, find_word, &quest);
		return quest.found;
	}
	put_path(&path, bytes_make(name.data + 1, name.size - 1));
	quest.path = buf_bytes(&path);
	walk_line(line, find_member, &quest);
	return quest.found;
}

/* ---- The reference: clauses ---- */

struct clause {
	struct bytes name;
	struct bytes values;
	bool excludes;
};

static struct clause clause_of(struct bytes text)
{
	struct clause clause = { .values = text };

	next_part(&clause.values, '=', &clause.name);
	clause.excludes = bytes_starts_with(clause.name, BYTES("not-"));
	if (clause.excludes)
		clause.name = bytes_make(clause.name.data + 4, clause.name.size - 4);
	return clause;
}

static bool is_of_line(struct bytes name)
{
	return bytes_equal(name, BYTES("role")) || bytes_equal(name, BYTES("agent")) ||
	       bytes_equal(name, BYTES("match")) || *name.data == '.';
}

static bool reference_fits(struct bytes clauses, struct bytes line)
{
	bool asks = false, included = false, excluded = false, lacks_word = false;
	struct bytes text, value;

	while (next_part(&clauses, ',', &text)) {
		struct clause clause = clause_of(text);
		bool word = bytes_equal(clause.name, BYTES("match"));

		while (is_of_line(clause.name) && next_part(&clause.values, '+', &value)) {
			bool fits = value_fits(line, clause.name, value);

			lacks_word |= word && !fits;
			excluded |= clause.excludes && fits;
			asks |= !word && !clause.excludes;
			included |= !word && !clause.excludes && fits;
		}
	}
	return (!asks || included) && !excluded && !lacks_word;
}

/* ---- What must hold ---- */

static struct question *ask(struct bytes text)
{
	_cleanup_(buf_done) struct buf reason = { 0 };
	struct question *question = NULL;
	bool is_name = text.size && *text.data == '@';
	int r = is_name ? question_parse(text, &question, &reason) :
			  question_parse_clauses(text, &question, &reason);

	fuzz_check(r == 0 || r == -EINVAL, "%d", r);
	fuzz_check((r == 0) == (question != NULL), "%d", r);
	fuzz_check((r == 0) == (reason.size == 0), "%d, and %zu bytes are said", r, reason.size);
	fuzz_check(reason.size <= SENTENCE_MOST, "a sentence of %zu bytes", reason.size);
	fuzz_check(r == 0 || reason.data[reason.size] == '\0', "no NUL behind the sentence");
	return question;
}

static bool same_time(struct question_time a, struct question_time b)
{
	return a.clock == b.clock && a.ns == b.ns;
}

static void check_same(const struct question *a, const struct question *b, struct bytes line,
		       const char *how)
{
	fuzz_check(b, "refused when %s", how);
	fuzz_check(a->as == b->as && a->is_file == b->is_file && a->items_from == b->items_from &&
			   a->items_to == b->items_to && same_time(a->since, b->since) &&
			   same_time(a->before, b->before) && a->first == b->first &&
			   a->last == b->last && a->bytes == b->bytes &&
			   a->since_event == b->since_event &&
			   bytes_equal(a->if_version, b->if_version) &&
			   question_needs_line(a) == question_needs_line(b) &&
			   question_only_items(a) == question_only_items(b),
		   "another question when %s", how);
	fuzz_check(question_fits(a, line) == question_fits(b, line), "another verdict when %s",
		   how);
}

static void put_encoded(struct buf *text, struct bytes part)
{
	_cleanup_(buf_done) struct buf decoded = { 0 };

	decode(part, &decoded);
	for (size_t i = 0; i < decoded.size; i++)
		fuzz_need(buf_printf(text, i % 2 ? "%%%02x" : "%%%02X",
				     (unsigned char)decoded.data[i]) == 0);
}

static void put_parts(struct buf *text, struct bytes parts, char separator)
{
	struct bytes part;

	while (next_part(&parts, separator, &part)) {
		put_encoded(text, part);
		if (parts.data)
			fuzz_put(text, &separator, 1);
	}
}

/* The clause with every byte of its values and of its keys as %XX. */
static void put_clause_encoded(struct buf *text, struct bytes spelled)
{
	struct clause clause = clause_of(spelled);
	bool path = *clause.name.data == '.';

	if (clause.excludes)
		put(text, BYTES("not-"));
	if (path) {
		put(text, BYTES("."));
		put_parts(text, bytes_make(clause.name.data + 1, clause.name.size - 1), '.');
	} else {
		put(text, clause.name);
	}
	put(text, BYTES("="));
	/* That of as= is looked for before anything is decoded. */
	if (bytes_equal(clause.name, BYTES("as")))
		put(text, clause.values);
	else
		put_parts(text, clause.values, '+');
}

/* The clauses in their order and encoded, or each before those that it was behind. */
static void spell(struct bytes clauses, bool encoded, struct buf *ret)
{
	struct bytes clause;

	while (next_part(&clauses, ',', &clause)) {
		_cleanup_(buf_done) struct buf before = *ret;

		*ret = (struct buf){ 0 };
		if (encoded)
			put(ret, buf_bytes(&before));
		if (encoded && before.size)
			put(ret, BYTES(","));
		if (encoded)
			put_clause_encoded(ret, clause);
		else
			put(ret, clause);
		if (!encoded && before.size) {
			put(ret, BYTES(","));
			put(ret, buf_bytes(&before));
		}
	}
}

/* What may stand there twice, once more. */
static void repeat(struct bytes clauses, struct buf *ret)
{
	struct bytes text;

	put(ret, clauses);
	while (next_part(&clauses, ',', &text)) {
		if (!is_of_line(clause_of(text).name))
			continue;
		put(ret, BYTES(","));
		put(ret, text);
	}
}

static void check_spellings(const struct question *question, struct bytes clauses,
			    struct bytes line)
{
	_cleanup_(buf_done) struct buf encoded = { 0 };
	_cleanup_(buf_done) struct buf turned = { 0 };
	_cleanup_(buf_done) struct buf twice = { 0 };
	_cleanup_(question_freep) struct question *a = NULL, *b = NULL, *c = NULL;

	spell(clauses, true, &encoded);
	spell(clauses, false, &turned);
	repeat(clauses, &twice);
	a = ask(buf_bytes(&encoded));
	check_same(question, a, line, "all is encoded");
	b = ask(buf_bytes(&turned));
	check_same(question, b, line, "the clauses are turned round");
	c = ask(buf_bytes(&twice));
	check_same(question, c, line, "said twice");
}

static bool asks_for_any(struct bytes clauses)
{
	struct bytes text;

	while (next_part(&clauses, ',', &text)) {
		struct clause clause = clause_of(text);

		if (is_of_line(clause.name) && !clause.excludes &&
		    !bytes_equal(clause.name, BYTES("match")))
			return true;
	}
	return false;
}

/* One more value of each kind changes a verdict to one side alone. */
static void check_more(const struct question *question, struct bytes clauses, struct bytes line)
{
	static const struct {
		struct bytes more;
		bool can_admit, can_refuse;
	} mores[] = {
		{ BYTES(",not-role=user"), false, true }, { BYTES(",not-.a=1"), false, true },
		{ BYTES(",match=a"), false, true },	  { BYTES(",role=user"), true, false },
		{ BYTES(",.a=1"), true, false },
	};
	bool fits = question_fits(question, line);

	for (size_t i = 0; i < ARRAY_SIZE(mores); i++) {
		_cleanup_(buf_done) struct buf text = { 0 };
		_cleanup_(question_freep) struct question *more = NULL;

		/* The first include of all is one that can refuse. */
		if (mores[i].can_admit && !asks_for_any(clauses))
			continue;
		put(&text, clauses);
		put(&text, mores[i].more);
		more = ask(buf_bytes(&text));
		fuzz_check(more, "refused with %s", mores[i].more.data + 1);
		fuzz_check(fits == question_fits(more, line) ||
				   (fits ? mores[i].can_refuse : mores[i].can_admit),
			   "%s %s", mores[i].more.data + 1, fits ? "refuses" : "admits");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = size ? (const char *)data : "";
	size_t asked = size ? strnlen(text, size) : 0;
	struct bytes clauses = bytes_make(text, asked);
	struct bytes line = asked < size ? bytes_make(text + asked + 1, size - asked - 1) :
					   bytes_make(text + size, 0);
	_cleanup_(question_freep) struct question *question = ask(clauses);

	fuzz_check(!question || question_is(clauses) || *text != '@', "no view, but a question");
	if (!question)
		return 0;
	if (!question_needs_line(question))
		fuzz_check(question_fits(question, line), "refused, though nothing is asked");
	if (question->is_file)
		return 0;
	if (*text == '@')
		clauses = bytes_make(clauses.data + 1, clauses.size - 1);
	/* Short enough for all of the following. */
	if (clauses.size > QUESTION_TEXT_MAX / 8)
		return 0;
	check_spellings(question, clauses, line);
	/* Of other bytes a verdict means nothing. */
	if (!json_valid(line, NULL))
		return 0;
	check_more(question, clauses, line);
	if (clauses.size <= REFERENCE_MOST)
		fuzz_check(question_fits(question, line) == reference_fits(clauses, line),
			   "another verdict than the reference's");
	return 0;
}
