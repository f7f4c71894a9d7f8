/* SPDX-License-Identifier: MIT */
#include "fs/api/text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "fs/base/dates.h"
#include "fs/views/question/look.h"
#include "fs/views/question/parts.h"
#include "fs/views/question/shapes.h"
#include "backend/base/cleanup.h"
#include "fs/base/json.h"
#include "backend/base/moment.h"

enum { ROLE_MAX = 32 };

/* ---- The maker ---- */

static struct bytes find_shape(struct bytes line, enum shape shape)
{
	struct bytes inside = { 0 };

	for (const char *const *path = shape_paths[shape]; *path && !inside.data; path++)
		inside = look_inside(look_at(line, *path));
	return inside;
}

struct maker {
	struct bytes role; /* as the table calls it, or in word; no data: none */
	struct bytes agent;
	char word[ROLE_MAX];
};

/* Where the parts are. */
static struct bytes message_of(struct bytes line)
{
	static const char *const places[] = { "message", "payload" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct bytes message = look_at(line, places[i]);

		if (look_is(message, '{'))
			return message;
	}
	return line;
}

static bool same_in_any_case(struct bytes a, struct bytes lower)
{
	if (a.size != lower.size)
		return false;
	for (size_t i = 0; i < a.size; i++)
		if ((a.data[i] >= 'A' && a.data[i] <= 'Z' ? a.data[i] | 0x20 : a.data[i]) !=
		    lower.data[i])
			return false;
	return true;
}

/* The word in lower case, and the role that it means. */
static struct bytes read_role(struct bytes role, char word[static ROLE_MAX])
{
	for (size_t i = 0; i < role.size; i++)
		word[i] = role.data[i] >= 'A' && role.data[i] <= 'Z' ? (char)(role.data[i] | 0x20) :
								       role.data[i];
	return role_meant(bytes_make(word, role.size));
}

static void find_maker(struct bytes line, struct maker *maker)
{
	struct bytes role = find_shape(line, SHAPE_ROLE);

	*maker = (struct maker){ .agent = find_shape(line, SHAPE_AGENT) };
	if (!role.size || role.size >= ROLE_MAX)
		return;
	maker->role = read_role(role, maker->word);
	if (!bytes_equal(maker->role, BYTES("assistant")) && parts_are_results(message_of(line)))
		maker->role = BYTES("tool");
	/* AgentScope calls the user "user". */
	if (same_in_any_case(maker->agent, maker->role))
		maker->agent = bytes_make(NULL, 0);
}

int text_made_by(struct bytes line, struct buf *role, struct buf *agent)
{
	struct put put = { .out = role };
	struct maker maker;

	find_maker(line, &maker);
	put_begin(&put, PUT_FOLDED, PUT_FOLD);
	put_string(&put, maker.role.data ? maker.role : BYTES(""));
	put.out = agent;
	put_begin(&put, PUT_FOLDED, PUT_FOLD);
	put_string(&put, maker.agent.data ? maker.agent : BYTES(""));
	return put.error;
}

int text_role(struct bytes word, struct buf *out)
{
	char lower[ROLE_MAX];

	return buf_append_bytes(out, word.size < ROLE_MAX ? read_role(word, lower) : word);
}

int64_t text_time(struct bytes line, int64_t row)
{
	int64_t made = 0, changed = 0;

	if (json_valid(line, NULL))
		dates_read(line, &made, &changed);
	return made ? made : row;
}

/* ---- Headings ---- */

static void put_time(struct put *put, int64_t time)
{
	time_t seconds = time_split(time).tv_sec;
	char text[32];
	struct tm tm;

	if (time && gmtime_r(&seconds, &tm) &&
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
		put_text(put, "%s", text);
}

static void put_heading(struct put *put, const struct text_place *place, const struct maker *maker)
{
	const char *between = "";

	if (place->index >= 0) {
		put_text(put, "#%" PRId64, place->index);
		between = "  ";
	}
	if (place->time) {
		put_text(put, "%s", between);
		put_time(put, place->time);
		between = "  ";
	}
	if (maker->role.size) {
		put_text(put, "%s", between);
		put_begin(put, PUT_FOLDED, PUT_FOLD);
		put_string(put, maker->role);
		between = " ";
	}
	if (maker->agent.size) {
		put_text(put, "%s(", between);
		put_begin(put, PUT_FOLDED, PUT_FOLD);
		put_string(put, maker->agent);
		put_text(put, ")");
	}
	if (*between)
		put_text(put, "\n");
}

/* ---- JSON ---- */

static void put_indent(struct put *put, size_t depth)
{
	enum { DEEP = 40 };

	put_text(put, "    %*s", (int)(2 * MIN(depth, DEEP)), "");
}

/* A string as it is spelled, but tame. */
static void put_quoted(struct put *put, struct bytes quoted)
{
	put_begin(put, PUT_PLAIN, 0);
	put_bytes(put, quoted);
}

static void put_json(struct put *put, struct bytes json)
{
	const char *at = json.data, *end = at + json.size;
	size_t depth = 0;

	put_indent(put, 0);
	while ((at = look_blanks(at, end)) < end && !put->error) {
		const char *start = at, *next;

		if (*at == '{' || *at == '[') {
			next = look_blanks(at + 1, end);
			put_text(put, "%c", *at);
			at = next;
			if (at < end && (*at == '}' || *at == ']')) {
				put_text(put, "%c", *at++);
				continue;
			}
			put_text(put, "\n");
			put_indent(put, ++depth);
		} else if (*at == '}' || *at == ']') {
			put_text(put, "\n");
			put_indent(put, depth -= depth != 0);
			put_text(put, "%c", *at++);
		} else if (*at == ',') {
			put_text(put, ",\n");
			put_indent(put, depth);
			at++;
		} else if (*at == ':') {
			put_text(put, ": ");
			at++;
		} else if (*at == '"') {
			at = look_string(at + 1, end);
			at += at < end;
			put_quoted(put, bytes_make(start, (size_t)(at - start)));
		} else {
			while (at < end && !memchr(",:}] \t\r\n", *at, 8))
				at++;
			put_quoted(put, bytes_make(start, (size_t)(at - start)));
		}
	}
	put_text(put, "\n");
}

/* ---- Lines ---- */

static void put_folded_line(struct put *put, struct bytes line)
{
	put_text(put, "    ");
	put_begin(put, PUT_FOLDED, PUT_FOLD);
	put_bytes(put, line);
	put_end(put, true);
}

static void put_message(struct put *put, struct bytes line, const struct text_place *place)
{
	struct text_place here = *place;
	struct bytes message = message_of(line);
	struct maker maker;

	find_maker(line, &maker);
	here.time = text_time(line, place->time);
	put_heading(put, &here, &maker);
	if (!maker.role.data && !look_at(message, "arguments").data)
		put_json(put, line);
	else if (!parts_put(put, message, bytes_equal(maker.role, BYTES("tool"))))
		put_folded_line(put, message);
	put_text(put, "\n");
}

/* The messages of a document that is not a message itself: Gemini CLI, QwenPaw and others. */
static struct bytes messages_of(struct bytes document)
{
	static const char *const places[] = { "messages",	"history",
					      "conversation",	"root.messages",
					      "memory.content", "agent.memory.content",
					      "memory_messages" };
	struct maker maker;

	find_maker(document, &maker);
	for (size_t i = 0; !maker.role.data && i < ARRAY_SIZE(places); i++) {
		struct bytes found = look_at(document, places[i]);

		if (look_is(found, '['))
			return found;
	}
	return look_is(document, '[') ? document : bytes_make(NULL, 0);
}

/* A message, or an array that begins with one. */
static struct bytes element_message(struct bytes element)
{
	struct look look = look_into(element);
	struct bytes key, first;

	if (look_is(element, '[') && look_next(&look, &key, &first))
		return first;
	return element;
}

static bool has_role(struct bytes message)
{
	struct maker maker;

	find_maker(message, &maker);
	return maker.role.data;
}

/* Put the messages of a document; false if it has none. */
static bool put_messages(struct put *put, struct bytes document)
{
	struct look look = look_into(messages_of(document));
	struct text_place place = { 0 };
	struct bytes key, element;
	bool any = false;

	for (; look_next(&look, &key, &element); place.index++) {
		element = element_message(element);
		if (!any && !has_role(element))
			return false;
		any = true;
		put_message(put, element, &place);
	}
	return any;
}

int text_show(struct bytes line, const struct text_place *place, struct buf *out)
{
	struct put put = { .out = out };
	const struct maker nobody = { 0 };

	if (!line.size)
		line = BYTES("");
	if (!json_valid(line, NULL)) {
		put_heading(&put, place, &nobody);
		put_begin(&put, PUT_LINES, 0);
		put_bytes(&put, line);
		put_end(&put, false);
		put_text(&put, "\n");
	} else if (place->index >= 0 || !put_messages(&put, line)) {
		put_message(&put, line, place);
	}
	return put.error;
}

int text_tame(struct bytes bytes, struct buf *out)
{
	struct put put = { .out = out };

	put_begin(&put, PUT_PLAIN, 0);
	if (bytes.size)
		put_bytes(&put, bytes);
	return put.error;
}

int text_fold(struct bytes text, struct buf *out)
{
	struct put put = { .out = out };

	put_begin(&put, PUT_FOLDED, SIZE_MAX / 2);
	put_bytes(&put, text);
	return put.error;
}

/* ---- Titles ---- */

/* Messages that a program has written as the user are marked: Claude Code, Grok Build. */
static bool is_by_person(struct bytes line)
{
	struct maker maker;

	find_maker(line, &maker);
	return bytes_equal(maker.role, BYTES("user")) &&
	       !bytes_equal(look_at(line, "isMeta"), BYTES("true")) &&
	       !look_at(line, "synthetic_reason").data;
}

static int title_of(struct bytes line, size_t most, struct buf *out)
{
	struct bytes text = is_by_person(line) ? parts_text(message_of(line)) : bytes_make(NULL, 0);
	struct put put = { .out = out };

	if (!text.size)
		return 0;
	put_begin(&put, PUT_FOLDED, MIN(most, PUT_FOLD));
	/* No more than can matter. */
	put_string(&put, bytes_make(text.data, MIN(text.size, 16 * most)));
	if (put.cut)
		put_text(&put, "...");
	return put.error;
}

int text_title(struct bytes line, size_t most, struct buf *out)
{
	size_t before = out->size;
	struct look look;
	struct bytes key, element;
	int r;

	if (!line.size || !json_valid(line, NULL))
		return 0;
	r = title_of(line, most, out);
	look = look_into(messages_of(line));
	while (r == 0 && out->size == before && look_next(&look, &key, &element))
		r = title_of(element_message(element), most, out);
	return r;
}
