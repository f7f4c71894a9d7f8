/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stddef.h>

#include "fs/base/layouts.h"

#define TRANSCRIPT "transcript"
enum { UUID = 36 };

const struct layout layouts[LAYOUT_COUNT] = {
	{ .name = "claude",
	  .bit = 0,
	  .patterns = { { "claude/projects/{project}/{session}.jsonl", "claude:{project}:{session}",
			  TRANSCRIPT },
			/* What the client stores beside a transcript; other directories are not
			 * sessions. */
			{ "claude/projects/{project}/{session|uuid}/{key}",
			  "claude:{project}:{session}" } },
	  .client = { "CLAUDE_CONFIG_DIR", ".claude", NULL, { "projects" } } },
	{ .name = "codex",
	  .bit = 1,
	  .patterns = { { "codex/sessions/{year}/{month}/{day}/{session}.jsonl",
			  "codex:{year}/{month}/{day}:{session}", TRANSCRIPT, .packed = true },
			{ "codex/archived_sessions/{session}.jsonl", "codex:archived:{session}",
			  TRANSCRIPT, .packed = true } },
	  .own_id = UUID,
	  .client = { "CODEX_HOME", ".codex", NULL, { "sessions", "archived_sessions" } } },
	{ .name = "gemini",
	  .bit = 2,
	  .patterns = { { "gemini/tmp/{project}/chats/{session}.jsonl",
			  "gemini:{project}:{session}", TRANSCRIPT },
			{ "gemini/tmp/{project}/chats/{session}.json", "gemini:{project}:{session}",
			  TRANSCRIPT },
			/* Chats of subagents; the chat that they are of has another name. */
			{ "gemini/tmp/{project}/chats/{session|uuid}/{key}",
			  "gemini:{project}:{session}" } },
	  .own_id = 8, /* the beginning of a UUID */
	  .client = { "GEMINI_CLI_HOME", "", ".gemini", { "tmp" } } },
	{ .name = "opencode",
	  .bit = 3,
	  .patterns = { { "opencode/storage/session/{project}/{session}.json", "opencode:{session}",
			  "session/{project}" },
			{ "opencode/storage/message/{session}/{key}", "opencode:{session}" },
			/* Their paths do not tell the session. */
			{ "opencode/storage/part/{key}", "opencode" } },
	  .parts = "opencode/storage/part/",
	  .client = { "XDG_DATA_HOME", ".local/share", "opencode", { "storage" } } },
	{ .name = "pi",
	  .bit = 4,
	  .patterns = { { "pi/sessions/{project}/{session}.jsonl", "pi:{project}:{session}",
			  TRANSCRIPT } },
	  .own_id = UUID,
	  .client = { "PI_CODING_AGENT_DIR", ".pi/agent", NULL, { "sessions" } } },
	{ .name = "qwen",
	  .bit = 7,
	  .patterns = { { "qwen/projects/{project}/chats/{session}.jsonl",
			  "qwen:{project}:{session}", TRANSCRIPT } },
	  .client = { "QWEN_HOME", ".qwen", NULL, { "projects" } } },
	{ .name = "kimi",
	  .bit = 8,
	  .patterns = { { "kimi/sessions/{project}/{session}/{key}", "kimi:{project}:{session}" } },
	  .client = { "KIMI_CODE_HOME", ".kimi-code", NULL, { "sessions" } } },
	{ .name = "copilot",
	  .bit = 9,
	  .patterns = { { "copilot/session-state/{session|uuid}/{key}", "copilot:{session}" } },
	  .client = { "COPILOT_HOME", ".copilot", NULL, { "session-state" } } },
	{ .name = "cline",
	  .bit = 10,
	  .patterns = { { "cline/sessions/{session}/{key}", "cline:{session}" } },
	  .client = { "CLINE_DATA_DIR", ".cline/data", NULL, { "sessions" } } },
	{ .name = "strands",
	  .bit = 5,
	  /* Snapshots, in the folder that the client makes or in the store itself. */
	  .patterns = { { "session/{session}/{key}", "session:{session}" },
			{ "{session|bare}/scopes/{key}", "scopes:{session}" },
			{ "session_{session}/{key}", "{session}" } } },
	/* What an agent of AgentScope 2 has said, in its workspace: all of it, and as it was
	 * shortened. */
	{ .name = "harness",
	  .bit = 11,
	  .patterns = { { "agents/{agent}/sessions/{session}.log.jsonl",
			  "harness:{agent}:{session}", "log" },
			{ "agents/{agent}/sessions/{session}.jsonl", "harness:{agent}:{session}",
			  TRANSCRIPT } } },
	/* Any two names fit it, so it comes after all others. */
	{ .name = "agentscope2",
	  .bit = 6,
	  .patterns = { { "{user|safe}/{session|safe}/{key}", "{user}:{session}" } } },
};
