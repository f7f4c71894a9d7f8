/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stddef.h>

#include "fs/base/layouts.h"

#define FOLDER(path, session)                                                                      \
	{                                                                                          \
		path, session, NULL, false                                                         \
	}
#define STATE(path, session, key)                                                                  \
	{                                                                                          \
		path, session, key, false                                                          \
	}
#define MAY_BE_PACKED(path, session, key)                                                          \
	{                                                                                          \
		path, session, key, true                                                           \
	}
#define TRANSCRIPT "transcript"
enum { UUID = 36 };

const struct layout layouts[LAYOUT_COUNT] = {
	{ .name = "claude",
	  .bit = 0,
	  .patterns = { STATE("claude/projects/{project}/{session}.jsonl",
			      "claude:{project}:{session}", TRANSCRIPT),
			/* What the client stores beside a transcript; other directories are not
			 * sessions. */
			FOLDER("claude/projects/{project}/{session|uuid}/{key}",
			       "claude:{project}:{session}") },
	  .client = { "CLAUDE_CONFIG_DIR", ".claude", NULL, { "projects" } } },
	{ .name = "codex",
	  .bit = 1,
	  .patterns = { MAY_BE_PACKED("codex/sessions/{year}/{month}/{day}/{session}.jsonl",
				      "codex:{year}/{month}/{day}:{session}", TRANSCRIPT),
			MAY_BE_PACKED("codex/archived_sessions/{session}.jsonl",
				      "codex:archived:{session}", TRANSCRIPT) },
	  .own_id = UUID,
	  .client = { "CODEX_HOME", ".codex", NULL, { "sessions", "archived_sessions" } } },
	{ .name = "gemini",
	  .bit = 2,
	  .patterns = { STATE("gemini/tmp/{project}/chats/{session}.jsonl",
			      "gemini:{project}:{session}", TRANSCRIPT),
			STATE("gemini/tmp/{project}/chats/{session}.json",
			      "gemini:{project}:{session}", TRANSCRIPT),
			/* Chats of subagents; the chat that they are of has another name. */
			FOLDER("gemini/tmp/{project}/chats/{session|uuid}/{key}",
			       "gemini:{project}:{session}") },
	  .own_id = 8, /* the beginning of a UUID */
	  .client = { "GEMINI_CLI_HOME", "", ".gemini", { "tmp" } } },
	{ .name = "opencode",
	  .bit = 3,
	  .patterns = { STATE("opencode/storage/session/{project}/{session}.json",
			      "opencode:{session}", "session/{project}"),
			FOLDER("opencode/storage/message/{session}/{key}", "opencode:{session}"),
			/* Their paths do not tell the session. */
			FOLDER("opencode/storage/part/{key}", "opencode") },
	  .parts = "opencode/storage/part/",
	  .client = { "XDG_DATA_HOME", ".local/share", "opencode", { "storage" } } },
	{ .name = "pi",
	  .bit = 4,
	  .patterns = { STATE("pi/sessions/{project}/{session}.jsonl", "pi:{project}:{session}",
			      TRANSCRIPT) },
	  .own_id = UUID,
	  .client = { "PI_CODING_AGENT_DIR", ".pi/agent", NULL, { "sessions" } } },
	{ .name = "qwen",
	  .bit = 7,
	  .patterns = { STATE("qwen/projects/{project}/chats/{session}.jsonl",
			      "qwen:{project}:{session}", TRANSCRIPT) },
	  .client = { "QWEN_HOME", ".qwen", NULL, { "projects" } } },
	{ .name = "kimi",
	  .bit = 8,
	  .patterns = { FOLDER("kimi/sessions/{project}/{session}/{key}",
			       "kimi:{project}:{session}") },
	  .client = { "KIMI_CODE_HOME", ".kimi-code", NULL, { "sessions" } } },
	{ .name = "copilot",
	  .bit = 9,
	  .patterns = { FOLDER("copilot/session-state/{session|uuid}/{key}", "copilot:{session}") },
	  .client = { "COPILOT_HOME", ".copilot", NULL, { "session-state" } } },
	{ .name = "cline",
	  .bit = 10,
	  .patterns = { FOLDER("cline/sessions/{session}/{key}", "cline:{session}") },
	  .client = { "CLINE_DATA_DIR", ".cline/data", NULL, { "sessions" } } },
	{ .name = "strands",
	  .bit = 5,
	  /* Snapshots, in the folder that the client makes or in the store itself. */
	  .patterns = { FOLDER("session/{session}/{key}", "session:{session}"),
			FOLDER("{session|bare}/scopes/{key}", "scopes:{session}"),
			FOLDER("session_{session}/{key}", "{session}") } },
	/* What an agent of AgentScope 2 has said, in its workspace: all of it, and as it was
	 * shortened. */
	{ .name = "harness",
	  .bit = 11,
	  .patterns = { STATE("agents/{agent}/sessions/{session}.log.jsonl",
			      "harness:{agent}:{session}", "log"),
			STATE("agents/{agent}/sessions/{session}.jsonl",
			      "harness:{agent}:{session}", TRANSCRIPT) } },
	/* Any two names fit it, so it comes after all others. */
	{ .name = "agentscope2",
	  .bit = 6,
	  .patterns = { FOLDER("{user|safe}/{session|safe}/{key}", "{user}:{session}") } },
};
