/* SPDX-License-Identifier: MIT */
#include "fs/views/question/shapes.h"

#include "fs/base/look.h"
#include "backend/base/cleanup.h"

static const char *const role_paths[] = {
	"role",		/* AgentScope, OpenAI chat, gptme, Vibe */
	"message.role", /* Claude Code, Strands, pi, iFlow */
	"payload.role", /* Codex: messages */
	"payload.type", /* Codex: calls, their results, events */
	"@type",	/* Akka */
	"type",		/* Gemini CLI, Grok Build, lines of Claude Code that are not messages */
	NULL,
};

static const char *const agent_paths[] = {
	"agent",    "agentId",				      /* Claude Code: of subagents */
	"agent_id", "agentName", "agent_name", "componentId", /* Akka */
	"name",						      /* AgentScope, OpenAI chat */
	NULL,
};

const char *const *const shape_paths[SHAPES] = {
	[SHAPE_ROLE] = role_paths,
	[SHAPE_AGENT] = agent_paths,
};

/* In lower case.  No word stands for two roles. */
static const struct {
	struct bytes role;
	struct bytes spelling;
} spellings[] = {
	{ BYTES("user"), BYTES("human") },
	{ BYTES("user"), BYTES("um") }, /* Akka: UserMessage */
	{ BYTES("user"), BYTES("mum") },
	{ BYTES("assistant"), BYTES("ai") },
	{ BYTES("assistant"), BYTES("aim") }, /* Akka: AiMessage */
	{ BYTES("assistant"), BYTES("gemini") },
	{ BYTES("assistant"), BYTES("model") }, /* the API of Gemini */
	{ BYTES("assistant"), BYTES("reasoning") },
	{ BYTES("assistant"), BYTES("function_call") },
	{ BYTES("assistant"), BYTES("custom_tool_call") },
	{ BYTES("assistant"), BYTES("local_shell_call") },
	{ BYTES("assistant"), BYTES("backend_tool_call") },
	{ BYTES("tool"), BYTES("tcr") }, /* Akka: ToolCallResponse */
	{ BYTES("tool"), BYTES("mtcr") },
	{ BYTES("tool"), BYTES("function") }, /* OpenAI chat, before tools */
	{ BYTES("tool"), BYTES("toolresult") },
	{ BYTES("tool"), BYTES("tool_result") },
	{ BYTES("tool"), BYTES("function_call_output") },
	{ BYTES("tool"), BYTES("custom_tool_call_output") },
	{ BYTES("system"), BYTES("developer") }, /* OpenAI chat, since o1 */
};

static bool take_string(struct bytes value, void *arg)
{
	if (look_is(value, '"'))
		*(struct bytes *)arg = look_inside(value);
	return look_is(value, '"');
}

struct bytes shape_find(struct bytes line, enum shape shape)
{
	struct bytes found = { 0 };

	look_first(line, shape_paths[shape], take_string, &found);
	return found;
}

struct bytes role_meant(struct bytes word)
{
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		if (look_says(word, spellings[i].spelling, true))
			return spellings[i].role;
	return word;
}
