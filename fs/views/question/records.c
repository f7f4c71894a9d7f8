/* SPDX-License-Identifier: MIT */
/*
 * The records of clients.  The first row that fits a record says what it is; one that fits none has
 * its role where shapes.c says.  A row is put before those that are less exact.
 */
#include "fs/views/question/records.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "fs/base/look.h"
#include "fs/views/question/parts.h"
#include "fs/views/question/shapes.h"
#include "backend/base/cleanup.h"

enum record_is { MESSAGE, MESSAGES, PLUMBING };

enum record_flags {
	RESTATES = 1 << 0,
	GROWS = 1 << 1,
	RESULTS_ARE_PLUMBING = 1 << 2, /* they are in another record as well */
};

enum { MEMBERS_MOST = 32, CONDITIONS = 3 };

struct row {
	/* Words with '|' between them, one of which is the record's type; "*.*" is any with a '.'
	 * in it.  NULL: of any type, or none. */
	const char *type;
	/* Paths of members that must be there, with "=VALUE" behind those that must be this string
	 * or literal, or "!" before those that must not. */
	const char *has[CONDITIONS];
	enum record_is is;
	const char *role;    /* the path of the role, or "=ROLE"; NULL: it has none */
	const char *message; /* the path of the message, or NULL: the record itself */
	unsigned flags;
};

static const struct row rows[] = {
	/* Claude Code, Qwen Code, iFlow, Grok Build: what is marked was written by the client. */
	{ "user|assistant", { "isMeta=true" }, PLUMBING, NULL, NULL, 0 },
	{ "user|assistant", { "isCompactSummary=true" }, PLUMBING, NULL, NULL, 0 },
	{ "user|assistant", { "synthetic_reason" }, PLUMBING, NULL, NULL, 0 },
	{ "assistant", { "message.model=<synthetic>" }, PLUMBING, NULL, NULL, 0 },
	{ "user|assistant|tool_result", { "sessionId", "message" }, MESSAGE, "type", "message", 0 },
	/* What was said while the model was at work; it has no origin, or a person. */
	{ "attachment", { "attachment.isMeta=true" }, PLUMBING, NULL, NULL, 0 },
	{ "attachment",
	  { "attachment.type=queued_command", "attachment.commandMode=prompt",
	    "attachment.origin.kind=human" },
	  MESSAGE,
	  "=user",
	  "attachment",
	  0 },
	{ "attachment",
	  { "attachment.type=queued_command", "attachment.commandMode=prompt",
	    "!attachment.origin" },
	  MESSAGE,
	  "=user",
	  "attachment",
	  0 },
	{ "summary", { "leafUuid" }, PLUMBING, NULL, NULL, 0 },
	{ "file-history-snapshot|queue-operation|progress", { "type" }, PLUMBING, NULL, NULL, 0 },

	/* Gemini CLI: a chat, as one document or a record each. */
	{ NULL, { "$set.messages" }, MESSAGES, NULL, "$set.messages", RESTATES },
	{ NULL, { "$set" }, PLUMBING, NULL, NULL, 0 },
	{ NULL, { "$rewindTo" }, PLUMBING, NULL, NULL, 0 },
	{ "gemini", { "id", "content" }, MESSAGE, "type", NULL, GROWS },
	/* What was typed, without the files that it names. */
	{ "user", { "id", "content", "displayContent" }, MESSAGE, "type", "displayContent", 0 },
	{ "user", { "id", "content" }, MESSAGE, "type", NULL, RESULTS_ARE_PLUMBING },
	{ "info|warning|error", { "timestamp", "content" }, PLUMBING, NULL, NULL, 0 },

	/* Gemini CLI and Cline: a conversation; and what else Claude Code and its kin note. */
	{ NULL, { "sessionId", "messages" }, MESSAGES, NULL, "messages", 0 },
	{ NULL, { "sessionId", "projectHash" }, PLUMBING, NULL, NULL, 0 },
	{ NULL, { "session_id", "messages_path" }, PLUMBING, NULL, NULL, 0 },
	{ NULL, { "sessionId", "type", "!role" }, PLUMBING, NULL, NULL, 0 },

	/* Codex: events say again what its items say. */
	{ "response_item", { "payload.role=developer" }, PLUMBING, "payload.role", "payload", 0 },
	{ "response_item", { "payload.role" }, MESSAGE, "payload.role", "payload", 0 },
	{ "response_item", { "payload.type" }, MESSAGE, "payload.type", "payload", 0 },
	{ "session_meta|event_msg|turn_context|world_state|token_usage_record|compacted",
	  { "payload" },
	  PLUMBING,
	  NULL,
	  NULL,
	  0 },

	/* Kimi Code: messages to the model, and events of its answer; agent.message.appended says
	 * both again. */
	{ "context.append_message",
	  { "message.origin.kind=user" },
	  MESSAGE,
	  "message.role",
	  "message",
	  0 },
	{ "context.append_message", { "message.origin" }, PLUMBING, NULL, NULL, 0 },
	{ "context.append_message", { "message" }, MESSAGE, "message.role", "message", 0 },
	{ "context.append_loop_event",
	  { "event.type=content.part" },
	  MESSAGE,
	  "=assistant",
	  "event.part",
	  0 },
	{ "context.append_loop_event",
	  { "event.type=tool.call" },
	  MESSAGE,
	  "=assistant",
	  "event",
	  0 },
	{ "context.append_loop_event", { "event.type=tool.result" }, MESSAGE, "=tool", "event", 0 },
	{ "*.*", { "time" }, PLUMBING, NULL, NULL, 0 },
	{ "config.update", { "type" }, PLUMBING, NULL, NULL, 0 },
	{ "metadata", { "protocol_version" }, PLUMBING, NULL, NULL, 0 },

	/* OpenCode: a session, its messages, and the parts of these; only what the model says has
	 * the time that it took. */
	{ NULL, { "projectID", "directory" }, PLUMBING, NULL, NULL, 0 },
	{ NULL, { "sessionID", "role", "!content" }, PLUMBING, "role", NULL, 0 },
	{ "step-start|step-finish|snapshot|patch", { "messageID" }, PLUMBING, NULL, NULL, 0 },
	{ "text|file", { "messageID", "synthetic=true" }, PLUMBING, NULL, NULL, 0 },
	{ "text", { "messageID", "time.start" }, MESSAGE, "=assistant", NULL, 0 },
	{ "text|file", { "messageID", "sessionID" }, MESSAGE, "=user", NULL, 0 },
	{ "tool|reasoning", { "messageID", "sessionID" }, MESSAGE, "=assistant", NULL, 0 },

	/* Copilot CLI. */
	{ "user.message", { "data.content" }, MESSAGE, "=user", "data", 0 },
	{ "assistant.message", { "data.content" }, MESSAGE, "=assistant", "data", 0 },
	{ "tool.execution_complete", { "data.result" }, MESSAGE, "=tool", "data", 0 },
	{ "system.message", { "data.content" }, PLUMBING, "=system", "data", 0 },
	{ "*.*", { "data", "parentId" }, PLUMBING, NULL, NULL, 0 },

	/* pi, and the harness of AgentScope 2. */
	{ "message", { "message.role=system" }, PLUMBING, "message.role", "message", 0 },
	{ "session", { "cwd" }, PLUMBING, NULL, NULL, 0 },
	{ "model_change|thinking_level_change|compaction|branch_summary|custom|label|session_info|"
	  "summary",
	  { "parentId" },
	  PLUMBING,
	  NULL,
	  NULL,
	  0 },
	{ "tool_use", { "toolCallId" }, MESSAGE, "=assistant", NULL, 0 },

	/* Strands: an agent in one document, and what lies beside its messages. */
	{ NULL, { "schema_version", "data.messages" }, MESSAGES, NULL, "data.messages", 0 },
	{ NULL, { "session_id", "session_type" }, PLUMBING, NULL, NULL, 0 },
	{ NULL, { "agent_id", "conversation_manager_state" }, PLUMBING, NULL, NULL, 0 },
};

/* What clients tell the model in the name of a person begins so. */
static const struct bytes client_texts[] = {
	BYTES("<environment_context>"),
	BYTES("<user_instructions>"),
	BYTES("# AGENTS.md instructions"),
	BYTES("<INSTRUCTIONS>"),
	BYTES("<permissions instructions>"),
	BYTES("<skills_instructions>"),
	BYTES("<skill>"),
	BYTES("<turn_aborted>"),
	BYTES("<subagent_notification>"),
	BYTES("<system-reminder>"),
	BYTES("<task-notification>"),
	BYTES("<user-prompt-submit-hook>"),
	BYTES("<command-name>"),
	BYTES("<command-message>"),
	BYTES("<local-command-"),
	BYTES("Caveat: The messages below were generated by the user while running local"),
	BYTES("[Request interrupted by user"),
	BYTES("<session_context>"),
	BYTES("<state_snapshot>"),
};

struct around {
	struct bytes first;
	struct bytes last;
};

/* What they put before the words of a person, once or several times. */
static const struct around prefixes[] = {
	{ BYTES("<file name="), BYTES("</file>\\n") }, /* pi: files that its command names */
};

/* What they put around them, up to the next '>' and behind. */
static const struct around wrappers[] = {
	{ BYTES("<user_input"), BYTES("</user_input>") }, /* Cline */
};

/* Texts with more of the client's between them: files that the words of a person name. */
static const struct around inserts[] = {
	/* Gemini CLI, Qwen Code */
	{ BYTES("\\n--- Content from referenced files ---"), BYTES("\\n--- End of content ---") },
};

struct bytes person_text(struct bytes inside)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		const struct bytes last = prefixes[i].last;
		const char *end;

		while (bytes_starts_with(inside, prefixes[i].first) &&
		       (end = memmem(inside.data, inside.size, last.data, last.size))) {
			end += last.size;
			inside.size -= (size_t)(end - inside.data);
			inside.data = end;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(client_texts); i++)
		if (bytes_starts_with(inside, client_texts[i]))
			return bytes_make(NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrappers); i++) {
		const char *end;

		if (!bytes_starts_with(inside, wrappers[i].first) ||
		    !bytes_ends_with(inside, wrappers[i].last))
			continue;
		end = memchr(inside.data, '>', inside.size);
		return bytes_make(end + 1, inside.size - wrappers[i].last.size -
						   (size_t)(end + 1 - inside.data));
	}
	return inside;
}

bool person_inserted(struct bytes inside, bool *within)
{
	const bool before = *within;

	for (size_t i = 0; i < ARRAY_SIZE(inserts); i++)
		if (bytes_starts_with(inside, before ? inserts[i].last : inserts[i].first))
			*within = !before;
	return before || *within;
}

/* ---- Members ---- */

/* The first members of a record, which is read once for all rows. */
struct members {
	struct bytes record;
	struct bytes key[MEMBERS_MOST], value[MEMBERS_MOST];
	size_t count;
	struct bytes type;
};

static void members_read(struct bytes line, struct members *members)
{
	struct look look = look_into(line);

	members->record = line;
	members->count = 0;
	members->type = bytes_make(NULL, 0);
	while (look.object && members->count < MEMBERS_MOST &&
	       look_next(&look, &members->key[members->count], &members->value[members->count])) {
		if (bytes_equal(members->key[members->count], BYTES("type")) && !members->type.data)
			members->type = look_inside(members->value[members->count]);
		members->count++;
	}
}

/* The path is that much of a text. */
static struct bytes member_at(const struct members *members, struct bytes path)
{
	char rest[64];
	size_t first = 0;

	while (first < path.size && path.data[first] != '.')
		first++;
	for (size_t i = 0; i < members->count; i++) {
		if (!bytes_equal(members->key[i], bytes_make(path.data, first)))
			continue;
		if (first == path.size)
			return members->value[i];
		first++;
		memcpy(rest, path.data + first, path.size - first);
		rest[path.size - first] = '\0';
		return look_at(members->value[i], rest);
	}
	return bytes_make(NULL, 0);
}

static bool type_fits(const char *types, struct bytes type)
{
	size_t size;

	if (!types)
		return true;
	if (!type.size)
		return false;
	if (strcmp(types, "*.*") == 0)
		return memchr(type.data, '.', type.size);
	for (;; types += size + 1) {
		size = strcspn(types, "|");
		if (bytes_equal(bytes_make(types, size), type))
			return true;
		if (!types[size])
			return false;
	}
}

static bool condition_fits(const char *condition, const struct members *members)
{
	bool absent = *condition == '!';
	size_t size = strcspn(condition += absent, "=");
	struct bytes value = member_at(members, bytes_make(condition, size));
	struct bytes inside = look_inside(value);

	if (absent)
		return !value.data;
	return value.data && (!condition[size] || bytes_equal(inside.data ? inside : value,
							      bytes_str(condition + size + 1)));
}

static const struct row *row_find(const struct members *members)
{
	for (const struct row *row = rows; row < rows + ARRAY_SIZE(rows); row++) {
		bool fits = type_fits(row->type, members->type);

		for (size_t i = 0; fits && i < CONDITIONS && row->has[i]; i++)
			fits = condition_fits(row->has[i], members);
		if (fits)
			return row;
	}
	return NULL;
}

/* ---- Roles ---- */

struct bytes role_read(struct bytes word, char lower[static ROLE_MAX])
{
	for (size_t i = 0; i < word.size; i++)
		lower[i] = (char)tolower((unsigned char)word.data[i]);
	return role_meant(bytes_make(lower, word.size));
}

static void set_role(struct record *record, struct bytes word)
{
	if (!word.size)
		return;
	record->word = word;
	if (word.size < ROLE_MAX)
		record->role = role_read(word, record->lower);
}

/* An item with nothing but results is a tool's, also if its record names another role. */
static bool take_results(struct record *record)
{
	if (!record->role.data || bytes_equal(record->role, BYTES("assistant")) ||
	    !parts_are_results(record->message))
		return false;
	record->word = record->role = BYTES("tool");
	return true;
}

void record_read_any(struct bytes line, struct record *ret)
{
	static const char *const places[] = { "message", "payload" };

	*ret = (struct record){ .message = line };
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct bytes message = look_at(line, places[i]);

		if (!look_is(message, '{'))
			continue;
		ret->message = message;
		break;
	}
	set_role(ret, shape_find(line, SHAPE_ROLE));
	take_results(ret);
}

static bool is_user(const struct record *record)
{
	return bytes_equal(record->role, BYTES("user"));
}

static void forget_role(struct record *record)
{
	record->plumbing = true;
	record->word = record->role = bytes_make(NULL, 0);
}

/* What a client has said in the name of a person is nobody's. */
static void take_client_texts(struct record *record)
{
	if (is_user(record) && !parts_any(record->message, BY_USER) &&
	    parts_any(record->message, BY_ANY))
		forget_role(record);
}

void record_read(struct bytes line, struct record *ret)
{
	struct members members;
	const struct row *row;

	members_read(line, &members);
	row = row_find(&members);
	if (!row) {
		record_read_any(line, ret);
		take_client_texts(ret);
		return;
	}
	*ret = (struct record){
		.known = true,
		.plumbing = row->is == PLUMBING,
		.several = row->is == MESSAGES,
		.restates = row->flags & RESTATES,
		.grows = row->flags & GROWS,
		.message = row->message ? member_at(&members, bytes_str(row->message)) : line,
	};
	if (row->role)
		set_role(ret, *row->role == '=' ?
				      bytes_str(row->role + 1) :
				      look_inside(member_at(&members, bytes_str(row->role))));
	/* What is nobody's is called by its type. */
	if (row->is == PLUMBING && !row->role && !bytes_equal(members.type, BYTES("user")) &&
	    !bytes_equal(members.type, BYTES("assistant")))
		set_role(ret, members.type);
	if (row->is != MESSAGE)
		return;
	if (take_results(ret) && row->flags & RESULTS_ARE_PLUMBING)
		forget_role(ret);
	take_client_texts(ret);
}

enum parts_by record_by(const struct record *record)
{
	return bytes_equal(record->role, BYTES("tool")) ? BY_TOOL :
	       is_user(record)				? BY_USER :
							  BY_ANY;
}

bool record_is_talk(const struct record *record, int64_t index)
{
	enum { BEGINNING = 1 };

	if (record->plumbing)
		return false;
	if (record->several)
		return !record->restates || index <= BEGINNING;
	if (!record->known)
		return true;
	return parts_any(record->message, record_by(record));
}
