/* SPDX-License-Identifier: MIT */
/*
 * The parts of a message.  Each program has words of its own; what they mean is in three tables:
 * the types that a part names, the members that a part without a type is told by, and the members
 * of a message that have parts.
 */
#include "fs/views/question/parts.h"

#include <ctype.h>
#include <string.h>

#include "fs/base/look.h"
#include "backend/base/cleanup.h"

enum { DEPTH_MOST = 6 /* parts in parts */ };

struct word {
	struct bytes name;
	enum part part;
};

/* Claude, OpenAI, Codex, pi, AgentScope, the AI SDK. */
static const struct word types[] = {
	{ BYTES("text"), PART_TEXT },
	{ BYTES("input_text"), PART_TEXT },
	{ BYTES("output_text"), PART_TEXT },
	{ BYTES("summary_text"), PART_THOUGHT },
	{ BYTES("refusal"), PART_TEXT },
	{ BYTES("thinking"), PART_THOUGHT },
	{ BYTES("redacted_thinking"), PART_THOUGHT },
	{ BYTES("reasoning"), PART_THOUGHT },
	{ BYTES("reasoning_text"), PART_THOUGHT },
	{ BYTES("think"), PART_THOUGHT }, /* Kimi */
	{ BYTES("tool_use"), PART_CALL },
	{ BYTES("server_tool_use"), PART_CALL },
	{ BYTES("tool"), PART_CALL }, /* OpenCode */
	{ BYTES("tool_call"), PART_CALL },
	{ BYTES("toolCall"), PART_CALL },
	{ BYTES("tool-call"), PART_CALL },
	{ BYTES("tool.call"), PART_CALL }, /* Kimi */
	{ BYTES("function"), PART_CALL },
	{ BYTES("function_call"), PART_CALL },
	{ BYTES("custom_tool_call"), PART_CALL },
	{ BYTES("local_shell_call"), PART_CALL },
	{ BYTES("backend_tool_call"), PART_CALL },
	{ BYTES("tool_result"), PART_RESULT },
	{ BYTES("tool-result"), PART_RESULT },
	{ BYTES("tool.result"), PART_RESULT },
	{ BYTES("toolResult"), PART_RESULT },
	{ BYTES("web_search_tool_result"), PART_RESULT },
	{ BYTES("function_call_output"), PART_RESULT },
	{ BYTES("custom_tool_call_output"), PART_RESULT },
	{ BYTES("image"), PART_BLOB },
	{ BYTES("image_url"), PART_BLOB },
	{ BYTES("input_image"), PART_BLOB },
	{ BYTES("audio"), PART_BLOB },
	{ BYTES("input_audio"), PART_BLOB },
	{ BYTES("video"), PART_BLOB },
	{ BYTES("document"), PART_BLOB },
	{ BYTES("file"), PART_BLOB },
	{ BYTES("input_file"), PART_BLOB },
};

/* Strands, the API of Gemini, Akka. */
static const struct word members[] = {
	{ BYTES("text"), PART_TEXT },
	{ BYTES("toolUse"), PART_CALL },
	{ BYTES("functionCall"), PART_CALL },
	{ BYTES("toolResult"), PART_RESULT },
	{ BYTES("functionResponse"), PART_RESULT },
	{ BYTES("reasoningContent"), PART_THOUGHT },
	{ BYTES("image"), PART_BLOB },
	{ BYTES("document"), PART_BLOB },
	{ BYTES("video"), PART_BLOB },
	{ BYTES("inlineData"), PART_BLOB },
	{ BYTES("fileData"), PART_BLOB },
	{ BYTES("content"), PART_SEVERAL },
};

/* Of a message. */
static const struct {
	const char *name;
	enum part part;
	bool containers; /* a text there is not such a part */
} places[] = {
	{ "reasoning_content", PART_THOUGHT, false },
	{ "reasoning", PART_THOUGHT, false },
	{ "reasoningText", PART_THOUGHT, false }, /* Copilot */
	{ "thoughts", PART_THOUGHT, true },	  /* Gemini CLI */
	{ "summary", PART_THOUGHT, true },	  /* Codex */
	{ "content", PART_SEVERAL, false },
	{ "contents", PART_SEVERAL, false }, /* Akka */
	{ "parts", PART_SEVERAL, false },    /* the API of Gemini, OpenCode */
	{ "text", PART_SEVERAL, false },
	{ "prompt", PART_SEVERAL, false }, /* Claude Code: in the middle of a turn */
	{ "summary", PART_TEXT, false },
	{ "message", PART_TEXT, false }, /* events of Codex */
	{ "images", PART_BLOB, true },
	{ "tool_calls", PART_CALL, true },
	{ "toolCalls", PART_CALL, true },
	{ "toolCallRequests", PART_CALL, true },
	{ "toolRequests", PART_CALL, true }, /* Copilot */
	{ "function_call", PART_CALL, true },
	{ "output", PART_RESULT, false },
	{ "result", PART_RESULT, false },
};

static enum part part_find(const struct word *words, size_t count, struct bytes name)
{
	for (size_t i = 0; i < count; i++)
		if (bytes_equal(words[i].name, name))
			return words[i].part;
	return PART_NONE;
}

/* The kind of an object by its member "type"; PART_NONE: the type is not in the table. */
static enum part part_typed(struct bytes object)
{
	return part_find(types, ARRAY_SIZE(types), look_inside(look_at(object, "type")));
}

/* The first of these paths where there is anything; NULL ends them. */
static struct bytes first_of(struct bytes value, const char *const *paths)
{
	struct bytes found = { 0 };

	for (; *paths && (!found.data || bytes_equal(found, BYTES("null"))); paths++)
		found = look_at(value, *paths);
	return bytes_equal(found, BYTES("null")) ? bytes_make(NULL, 0) : found;
}

static bool is_empty(struct bytes value)
{
	return !value.data || bytes_equal(value, BYTES("\"\"")) ||
	       bytes_equal(value, BYTES("[]")) || bytes_equal(value, BYTES("{}")) ||
	       bytes_equal(value, BYTES("null"));
}

/* ---- Blobs ---- */

/* The bytes that so much of base64 stands for. */
static uint64_t decoded_size(struct bytes inside)
{
	while (inside.size && inside.data[inside.size - 1] == '=')
		inside.size--;
	return (uint64_t)inside.size * 3 / 4;
}

static void put_word(struct put *put, const char *before, struct bytes inside)
{
	if (!inside.size)
		return;
	put_text(put, "%s", before);
	put_begin(put, PUT_FOLDED, PUT_FOLD / 2);
	put_string(put, inside);
	if (put->cut)
		put_text(put, "...");
}

/* "data:image/png;base64,..." */
static bool put_data_url(struct put *put, struct bytes inside)
{
	const char *comma = inside.size ? memchr(inside.data, ',', inside.size) : NULL;
	size_t size = strlen("data:"), type;
	char text[PUT_SIZE];

	if (!bytes_starts_with(inside, BYTES("data:")) || !comma)
		return false;
	for (type = size; inside.data + type < comma && inside.data[type] != ';';)
		type++;
	put_word(put, " ", bytes_make(inside.data + size, type - size));
	size = (size_t)(comma + 1 - inside.data);
	put_text(put, ", %s",
		 put_size(decoded_size(bytes_make(comma + 1, inside.size - size)), text));
	return true;
}

static void put_blob(struct put *put, struct bytes value, struct bytes kind)
{
	static const char *const media[] = { "media_type",	  "mediaType",	   "mimeType",
					     "mime_type",	  "mime",	   "format",
					     "source.media_type", "source.format", NULL };
	static const char *const names[] = { "name", "filename", "fileName", "title", NULL };
	static const char *const urls[] = { "image_url.url", "image_url",  "file_data",
					    "url",	     "source.url", "fileUri",
					    "file_uri",	     "path",	   NULL };
	static const char *const data[] = { "data",
					    "bytes",
					    "source.data",
					    "source.bytes",
					    "input_audio.data",
					    "file.file_data",
					    "source.bytes.value",
					    NULL };
	struct bytes url = look_inside(first_of(value, urls));
	struct bytes bytes = look_inside(first_of(value, data));
	char size[PUT_SIZE];

	put_text(put, put->html ? "<p class=\"blob\">[" : "    [");
	put_begin(put, PUT_FOLDED, PUT_FOLD / 4);
	put_string(put, kind.size ? kind : BYTES("blob"));
	put_word(put, " ", look_inside(first_of(value, media)));
	put_word(put, " ", look_inside(first_of(value, names)));
	if (bytes.data)
		put_text(put, ", %s", put_size(decoded_size(bytes), size));
	else if (!put_data_url(put, url))
		put_word(put, " ", url);
	put_text(put, put->html ? "]</p>\n" : "]\n");
}

/* ---- Calls, results, thoughts ---- */

/* What is on one line, and behind a fold in HTML if it does not fit there. */
static void put_folded(struct put *put, const char *mark, const char *class,
		       void (*says)(struct put *, struct bytes), struct bytes value)
{
	const size_t before = put->out ? put->out->size : 0;

	put_text(put, put->html ? "<p class=\"%s\">" : "    %s ", put->html ? class : mark);
	put_begin(put, PUT_FOLDED, PUT_FOLD);
	says(put, value);
	if (put->html && put->cut) {
		put->out->size = before;
		put_text(put, "<details class=\"%s\"><summary>", class);
		put_begin(put, PUT_FOLDED, PUT_FOLD);
		says(put, value);
		put_end(put, true);
		put_text(put, "</summary><pre>");
		put_begin(put, PUT_PLAIN, 0);
		says(put, value);
		put_text(put, "</pre></details>\n");
		return;
	}
	put_end(put, true);
	if (put->html)
		put_text(put, "</p>\n");
}

static void say_call(struct put *put, struct bytes value)
{
	static const char *const names[] = { "name", "toolName",       "tool_name", "function.name",
					     "tool", "kind.tool_type", NULL };
	static const char *const arguments[] = { "input",	"arguments",
						 "args",	"function.arguments",
						 "parameters",	"action",
						 "kind.action", "state.input",
						 "summary",	NULL };
	struct bytes name = look_inside(first_of(value, names));
	struct bytes given = first_of(value, arguments);

	if (name.size)
		put_string(put, name);
	if (!is_empty(given) || !name.size) {
		put_bytes(put, BYTES(" "));
		put_value(put, given.data ? given : value);
	}
}

/* What a result says, as one line. */
static void gather(struct put *put, struct bytes value, unsigned depth)
{
	static const char *const says[] = { "text",
					    "content",
					    "output",
					    "result",
					    "response",
					    "responseParts.functionResponse.response",
					    "functionResponse.response",
					    "state.output",
					    "value",
					    "stdout",
					    "json",
					    "error",
					    NULL };
	struct look look = look_into(value);
	struct bytes key, element, found;

	if (depth < DEPTH_MOST && look_is(value, '[')) {
		while (look_next(&look, &key, &element)) {
			gather(put, element, depth + 1);
			put_bytes(put, BYTES("\n"));
		}
		return;
	}
	found = look_is(value, '{') && depth < DEPTH_MOST ? first_of(value, says) : value;
	if (part_typed(value) == PART_BLOB) {
		put_bytes(put, BYTES("["));
		put_string(put, look_inside(look_at(value, "type")));
		put_bytes(put, BYTES("]"));
	} else if (found.data && found.data != value.data) {
		gather(put, found, depth + 1);
	} else {
		put_value(put, value);
	}
}

static void say_result(struct put *put, struct bytes value)
{
	gather(put, value, 0);
}

static void put_result(struct put *put, struct bytes value)
{
	static const char *const failed[] = { "is_error", "isError", NULL };
	bool wrong = bytes_equal(first_of(value, failed), BYTES("true")) ||
		     bytes_equal(look_at(value, "status"), BYTES("\"error\""));

	put_folded(put, wrong ? "<!" : "<-", wrong ? "result wrong" : "result", say_result, value);
}

static void say_thought(struct put *put, struct bytes value)
{
	gather(put, value, 1);
}

static bool put_thought(struct put *put, struct bytes value)
{
	static const char *const says[] = { "thinking",		  "text",	 "summary",
					    "reasoningText.text", "description", "content",
					    "reasoning_text",	  "think",	 NULL };
	struct bytes said = look_is(value, '{') ? first_of(value, says) : value;

	if (is_empty(said))
		return false;
	put_folded(put, "~", "thought", say_thought, said);
	return true;
}

static bool put_said(struct put *put, struct bytes value, enum parts_by by)
{
	struct bytes said = look_is(value, '{') ? look_at(value, "text") : value;

	/* AgentScope and others: {"type":"text","text":{"value":...}} */
	if (look_is(said, '{'))
		said = look_at(said, "value");
	if (!look_is(said, '"') || is_empty(said))
		return false;
	if (by == BY_TOOL) {
		put_result(put, said);
		return true;
	}
	said = by == BY_USER ? person_text(look_inside(said)) : look_inside(said);
	if (!said.data)
		return false;
	put_text(put, put->html ? "<div class=\"said\">" : "");
	put_begin(put, PUT_LINES, 0);
	put_string(put, said);
	put_end(put, false);
	put_text(put, put->html ? "</div>\n" : "");
	return put->shown;
}

/* ---- Any part ---- */

static bool put_part(struct put *put, enum part part, struct bytes value, struct bytes kind,
		     enum parts_by by, unsigned depth);

static bool put_each(struct put *put, enum part part, struct bytes value, struct bytes kind,
		     enum parts_by by, unsigned depth)
{
	struct look look = look_into(value);
	struct bytes key, element;
	bool any = false, within = false;

	while (look_next(&look, &key, &element))
		if (by != BY_USER ||
		    !person_inserted(look_inside(look_at(element, "text")), &within))
			any |= put_part(put, part, element, kind, by, depth + 1);
	return any;
}

/* An object: what its type says, or else its members. */
static bool put_object(struct put *put, struct bytes object, enum parts_by by, unsigned depth)
{
	enum part part = part_typed(object);
	struct look look = look_into(object);
	struct bytes key, value;
	bool any = false, known = false;

	if (part != PART_NONE)
		return put_part(put, part, object, look_inside(look_at(object, "type")), by,
				depth + 1);
	while (look_next(&look, &key, &value)) {
		part = part_find(members, ARRAY_SIZE(members), key);
		known |= part != PART_NONE;
		if (part != PART_NONE)
			any |= put_part(put, part, value, key, by, depth + 1);
	}
	if (known || is_empty(object))
		return any;
	put_line(put, object);
	return true;
}

static bool put_part(struct put *put, enum part part, struct bytes value, struct bytes kind,
		     enum parts_by by, unsigned depth)
{
	static const char *const results[] = { "result", "state.output", NULL };
	struct bytes result;

	if (is_empty(value) || depth > DEPTH_MOST)
		return false;
	if (look_is(value, '[') && part != PART_RESULT)
		return put_each(put, part, value, kind, by, depth);
	switch (part) {
	case PART_SEVERAL:
		return look_is(value, '{') ? put_object(put, value, by, depth) :
					     put_said(put, value, by);
	case PART_TEXT:
		return put_said(put, value, by);
	case PART_THOUGHT:
		return put_thought(put, value);
	case PART_CALL:
		put_folded(put, "->", "call", say_call, value);
		/* Some programs keep the result with its call. */
		result = first_of(value, results);
		if (!is_empty(result))
			put_result(put, result);
		return true;
	case PART_RESULT:
		put_result(put, value);
		return true;
	case PART_BLOB:
		put_blob(put, value, kind);
		return true;
	default:
		return false;
	}
}

/* Put a value as a part of this kind; returns whether there was anything.  A tool's texts are put
 * as results. */
static bool part_put(struct put *put, enum part part, struct bytes value, enum parts_by by)
{
	return put_part(put, part, value, bytes_make(NULL, 0), by, 0);
}

/* ---- Messages ---- */

/* An array of calls, but for the first ones. */
static bool put_calls(struct put *put, struct bytes calls, enum parts_by by, int skip)
{
	struct look look = look_into(calls);
	struct bytes key, call;
	bool any = false;

	for (int i = 0; look_next(&look, &key, &call); i++)
		if (i >= skip)
			any |= part_put(put, PART_CALL, call, by);
	return any;
}

bool parts_put(struct put *put, struct bytes message, enum parts_by by, int skip)
{
	enum part part = part_typed(message);
	bool any = false;

	if (!look_is(message, '{'))
		return part_put(put, PART_SEVERAL, message, by);
	if (part == PART_CALL || part == PART_RESULT || part == PART_THOUGHT || part == PART_BLOB)
		return put_object(put, message, by, 0);
	if (look_at(message, "arguments").data && look_at(message, "name").data)
		return part_put(put, PART_CALL, message, by);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct bytes value = look_at(message, places[i].name);
		bool container = look_is(value, '{') || look_is(value, '[');

		if (!value.data || (!container && places[i].containers) ||
		    (container && places[i].part == PART_TEXT))
			continue;
		if (skip >= 0)
			any |= places[i].part == PART_CALL && put_calls(put, value, by, skip);
		else
			any |= put_part(put, places[i].part, value, BYTES("image"), by, 0);
	}
	return any;
}

int parts_calls(struct bytes message)
{
	int count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct look look = look_into(look_at(message, places[i].name));
		struct bytes key, call;

		while (places[i].part == PART_CALL && look_next(&look, &key, &call))
			count++;
	}
	return count;
}

bool parts_any(struct bytes message, enum parts_by by)
{
	struct put put = { .probes = true };

	parts_put(&put, message, by, PARTS_ALL);
	return put.any;
}

bool parts_are_results(struct bytes message)
{
	static const char *const says[] = { "content", "parts", NULL };
	struct look look = look_into(look_is(message, '{') ? first_of(message, says) : message);
	struct bytes key, element;
	bool any = false;

	while (!look.object && look_next(&look, &key, &element)) {
		if (part_typed(element) != PART_RESULT && !look_at(element, "toolResult").data &&
		    !look_at(element, "functionResponse").data)
			return false;
		any = true;
	}
	return any;
}

/* "<environment_context> ... </environment_context>": a text that a client has written as the user
 * is one element, or several. */
static bool is_elements(struct bytes text)
{
	const char *close = text.size ? memrchr(text.data, '<', text.size) : NULL;

	return close && text.size > 3 && text.data[0] == '<' &&
	       isalpha((unsigned char)text.data[1]) && close[1] == '/' &&
	       text.data[text.size - 1] == '>';
}

/* No data: it is nothing that a person has written. */
static struct bytes title_text(struct bytes value)
{
	struct bytes text = look_inside(value);

	if (!text.size || is_elements(person_text(text)))
		return bytes_make(NULL, 0);
	return person_text(text);
}

struct bytes parts_text(struct bytes message)
{
	static const char *const says[] = { "content", "contents", "parts", "text", NULL };
	struct bytes value = look_is(message, '{') ? first_of(message, says) : message;
	struct bytes key, element, text = title_text(value);
	struct look look = look_into(value);

	if (look_is(value, '{'))
		return title_text(look_at(value, "text"));
	while (!text.size && look_is(value, '[') && look_next(&look, &key, &element)) {
		enum part part = part_typed(element);

		if (part == PART_TEXT || part == PART_NONE)
			text = title_text(look_is(element, '"') ? element :
								  look_at(element, "text"));
	}
	return text;
}
