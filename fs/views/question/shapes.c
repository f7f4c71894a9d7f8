/* SPDX-License-Identifier: MIT */
#include "fs/views/question/shapes.h"

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

struct bytes role_spelling(struct bytes role, unsigned n)
{
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		if (bytes_equal(spellings[i].role, role) && n-- == 0)
			return spellings[i].spelling;
	return bytes_make(NULL, 0);
}

struct bytes role_meant(struct bytes word)
{
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		if (bytes_equal(spellings[i].spelling, word))
			return spellings[i].role;
	return word;
}
