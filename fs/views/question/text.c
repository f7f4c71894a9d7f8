/* SPDX-License-Identifier: MIT */
#include "fs/api/text.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "fs/base/dates.h"
#include "fs/base/look.h"
#include "fs/views/question/records.h"
#include "fs/views/question/shapes.h"
#include "backend/base/cleanup.h"
#include "fs/base/json.h"
#include "backend/base/moment.h"

/* ---- The maker ---- */

/* AgentScope calls the user "user". */
static struct bytes find_agent(struct bytes line, const struct record *record)
{
	struct bytes inside = shape_find(line, SHAPE_AGENT);

	return inside.size == record->role.size &&
			       (!inside.size ||
				strncasecmp(inside.data, record->role.data, inside.size) == 0) ?
		       bytes_make(NULL, 0) :
		       inside;
}

static void put_name(struct put *put, struct bytes name)
{
	put_begin(put, PUT_FOLDED, PUT_FOLD);
	put_string(put, name.data ? name : BYTES(""));
}

int text_made_by(struct bytes line, int64_t index, struct buf *role, struct buf *agent)
{
	struct put put = { .out = role };
	struct record record;

	record_read(line, &record);
	put_name(&put, record.role);
	put.out = agent;
	put_name(&put, find_agent(line, &record));
	return put.error ? put.error : record_is_talk(&record, index);
}

bool text_is_talk(struct bytes line, int64_t index)
{
	struct record record;

	if (!line.size || !json_valid(line, NULL))
		return true;
	record_read(line, &record);
	return record_is_talk(&record, index);
}

int text_role(struct bytes word, struct buf *out)
{
	char lower[ROLE_MAX];

	return buf_append_bytes(out, word.size < ROLE_MAX ? role_read(word, lower) : word);
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

/* A class of the style sheet, which no record can name. */
static const char *class_of(struct bytes role)
{
	static const char *const classes[] = { "user", "assistant", "tool", "system" };

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (bytes_equal(role, bytes_str(classes[i])))
			return classes[i];
	return "other";
}

static void put_heading(struct put *put, const struct text_place *place, struct bytes role,
			struct bytes agent)
{
	const char *between = "";

	if (put->html)
		put_text(put, "<article class=\"%s\"><h2>", class_of(role));
	if (place->index >= 0) {
		put_text(put, "#%" PRId64, place->index);
		between = "  ";
	}
	if (place->time) {
		put_text(put, "%s", between);
		put_time(put, place->time);
		between = "  ";
	}
	if (role.size) {
		put_text(put, put->html ? "%s<b>" : "%s", between);
		put_name(put, role);
		put_text(put, put->html ? "</b>" : "");
		between = " ";
	}
	if (agent.size) {
		put_text(put, "%s(", between);
		put_name(put, agent);
		put_text(put, ")");
	}
	if (put->html)
		put_text(put, "</h2>\n");
	else if (*between)
		put_text(put, "\n");
}

static void put_end_of_item(struct put *put)
{
	put_text(put, put->html ? "</article>\n" : "\n");
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

	put_text(put, put->html ? "<pre>" : "");
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
	put_text(put, put->html ? "</pre>\n" : "\n");
}

/* ---- Lines ---- */

static uint64_t id_of(struct bytes line)
{
	return bytes_hash(BYTES_HASH, look_inside(look_at(line, "id")));
}

/* How many calls of a message were read before, as an earlier record of it had them; or none of it
 * was. */
static int read_before(struct text_reader *reader, struct bytes line, const struct record *record)
{
	uint64_t id = record->grows ? id_of(line) : 0;
	int before = id && reader->last == id ? reader->calls : PARTS_ALL;

	if (record->grows || !record->plumbing) {
		reader->last = id;
		reader->calls = id ? parts_calls(record->message) : 0;
	}
	return before;
}

static void put_message(struct put *put, struct bytes line, const struct text_place *place,
			const struct record *record, int before)
{
	struct text_place here = *place;
	const enum parts_by by = record_by(record);

	here.time = text_time(line, place->time);
	put_heading(put, &here, record->role, find_agent(line, record));
	if (!record->role.data && !look_at(record->message, "arguments").data)
		put_json(put, line);
	else if (!parts_put(put, record->message, by, before))
		put_line(put, record->message);
	put_end_of_item(put);
}

static bool put_several(struct put *put, struct text_reader *reader, struct bytes array,
			const struct text_place *of);

/* As it is, if everything is shown, and otherwise if it is a message. */
static void put_record(struct put *put, struct text_reader *reader, struct bytes line,
		       const struct text_place *place)
{
	struct record record;
	int before;

	record_read(line, &record);
	before = read_before(reader, line, &record);
	if (record.several && record_is_talk(&record, place->index) &&
	    put_several(put, reader, record.message, place))
		return;
	if (reader->all) {
		record_read_any(line, &record);
		put_message(put, line, place, &record, PARTS_ALL);
	} else if (!record.several && record_is_talk(&record, place->index) &&
		   (before < 0 || before < parts_calls(record.message))) {
		put_message(put, line, place, &record, before);
	}
}

/* The messages of a document that is not a message itself: Gemini CLI, QwenPaw and others. */
static struct bytes messages_of(struct bytes document)
{
	static const char *const places[] = { "messages",	"history",
					      "conversation",	"root.messages",
					      "memory.content", "agent.memory.content",
					      "memory_messages" };
	struct record record;

	record_read(document, &record);
	for (size_t i = 0; !record.known && !record.role.data && i < ARRAY_SIZE(places); i++) {
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
	struct record record;

	record_read(message, &record);
	return record.known || record.plumbing || record.role.data;
}

/* Put the messages of an array; false if it has none.  Those of a document have numbers. */
static bool put_several(struct put *put, struct text_reader *reader, struct bytes array,
			const struct text_place *of)
{
	struct look look = look_into(array);
	struct text_place place = { MAX(of->index, 0), of->index < 0 ? 0 : of->time };
	struct bytes key, element;
	bool any = false;

	for (; look_next(&look, &key, &element); place.index += of->index < 0) {
		struct record record;

		element = element_message(element);
		if (!any && !has_role(element))
			return false;
		any = true;
		record_read(element, &record);
		/* No messages in messages. */
		if (reader->all || (record_is_talk(&record, 0) && !record.several))
			put_message(put, element, &place, &record, PARTS_ALL);
	}
	return any;
}

int text_show(struct text_reader *reader, struct bytes line, const struct text_place *place,
	      struct buf *out)
{
	struct put put = { .out = out, .html = reader->html };
	const struct bytes none = { 0 };

	if (!line.size)
		line = BYTES("");
	if (!json_valid(line, NULL)) {
		put_heading(&put, place, none, none);
		put_text(&put, put.html ? "<pre>" : "");
		put_begin(&put, PUT_LINES, 0);
		put_bytes(&put, line);
		put_end(&put, false);
		put_text(&put, put.html ? "</pre>" : "");
		put_end_of_item(&put);
	} else if (place->index >= 0 || !put_several(&put, reader, messages_of(line), place)) {
		put_record(&put, reader, line, place);
	}
	return put.error;
}

static int tame(struct bytes bytes, bool html, struct buf *out)
{
	struct put put = { .out = out, .html = html };

	put_begin(&put, PUT_PLAIN, 0);
	if (bytes.size)
		put_bytes(&put, bytes);
	return put.error;
}

int text_tame(struct bytes bytes, struct buf *out)
{
	return tame(bytes, false, out);
}

int text_html(struct bytes bytes, struct buf *out)
{
	return tame(bytes, true, out);
}

int text_fold(struct bytes text, struct buf *out)
{
	struct put put = { .out = out };

	put_begin(&put, PUT_FOLDED, SIZE_MAX / 2);
	put_bytes(&put, text);
	return put.error;
}

/* ---- Titles ---- */

static int title_of(struct bytes line, size_t most, struct buf *out)
{
	struct put put = { .out = out };
	struct record record;
	struct bytes text;

	record_read(line, &record);
	/* What an agent has told another one: Claude Code. */
	if (record_by(&record) != BY_USER ||
	    bytes_equal(look_at(line, "isSidechain"), BYTES("true")))
		return 0;
	text = parts_text(record.message);
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
	struct record record;
	struct look look;
	struct bytes key, element;
	int r;

	if (!line.size || !json_valid(line, NULL))
		return 0;
	r = title_of(line, most, out);
	record_read(line, &record);
	look = look_into(record.several ? record.message : messages_of(line));
	while (r == 0 && out->size == before && look_next(&look, &key, &element))
		r = title_of(element_message(element), most, out);
	return r;
}
