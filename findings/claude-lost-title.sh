#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Claude Agent SDK 0.3.332: a session that is renamed and tagged while it goes on loses its title and
# its tag in the list of sessions.
#
# renameSession() and tagSession() append a line each to the transcript, and listSessions() looks for
# them only in its first and last 64 KiB (for a tag, in the last).  A client that runs the session
# does not know of them and goes on writing: behind 64 KiB more, such as one log in a prompt or one
# picture, they are not found, and the list shows a prompt instead.  Nothing is said about it.  The
# same lines in a session store are found, and a client that resumes the session reads all of it,
# finds them and writes them again at its end.
#
# Seen with @anthropic-ai/claude-agent-sdk 0.3.332 and the client that it brings on Node.js 20, with a
# model of this program and two prompts of 120 KB, one before and one after the renaming:
#	renamed: title "the title", tag "the tag"
#	after the next prompt: title undefined, tag undefined
#	the same in a store: title "the title", tag "the tag"
#	resumed: title "the title", tag "the tag"
#
# Needs node, from 20 on, and npm; installs into a temporary directory.  Ends with 0 if it is still
# so.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
npm install --prefix "$dir" --no-audit --no-fund @anthropic-ai/claude-agent-sdk@0.3.332 \
	>npm.log 2>&1 || { cat npm.log >&2; exit 1; }
mkdir home work

cat >rename.mjs <<'END'
import { once } from "node:events";
import { createServer } from "node:http";
import * as sdk from "@anthropic-ai/claude-agent-sdk";

const dir = `${process.cwd()}/work`, HOME = `${process.cwd()}/home`;
const log = "Why? " + "all is well\n".repeat(10000);
let id, answers = 0, answered;

// A model that always says the same.
const model = createServer((request, response) => request.resume().on("end", () => {
	const message = { id: `msg_${++answers}`, type: "message", role: "assistant", content: [],
		model: "claude-sonnet-4-5", stop_reason: null, usage: { input_tokens: 1, output_tokens: 1 } };
	const events = [{ type: "message_start", message },
		{ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
		{ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "answer" } },
		{ type: "content_block_stop", index: 0 },
		{ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
		{ type: "message_stop" }];

	response.setHeader("content-type", "text/event-stream");
	response.end(events.map(event =>
		`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
})).listen(0, "127.0.0.1");

async function list(what, more) {
	const [{ customTitle, tag }] = await sdk.listSessions({ dir, ...more });

	console.log(`${what}: title ${JSON.stringify(customTitle)}, tag ${JSON.stringify(tag)}`);
}

async function* prompts() {
	const prompt = { type: "user", parent_tool_use_id: null, session_id: "",
		message: { role: "user", content: log } };
	const first = new Promise(resolve => { answered = resolve; });

	yield prompt;
	await first;
	await sdk.renameSession(id, "the title", { dir });
	await sdk.tagSession(id, "the tag", { dir });
	await list("renamed");
	yield prompt;
}

async function run(prompt, more) {
	for await (const message of sdk.query({ prompt, options: { ...options, ...more } })) {
		id = message.session_id ?? id;
		if (message.type === "result")
			answered();
	}
}

await once(model, "listening");
process.env.CLAUDE_CONFIG_DIR = `${HOME}/.claude`;
const options = { cwd: dir, model: "claude-sonnet-4-5", settingSources: [], tools: [],
	env: { PATH: process.env.PATH, HOME, CLAUDE_CONFIG_DIR: process.env.CLAUDE_CONFIG_DIR,
		ANTHROPIC_API_KEY: "none", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
		ANTHROPIC_BASE_URL: `http://127.0.0.1:${model.address().port}` } };
await run(prompts());
await list("after the next prompt");
const sessionStore = new sdk.InMemorySessionStore();
await sdk.importSessionToStore(id, sessionStore, { dir });
await list("the same in a store", { sessionStore });
await run("And now?", { resume: id });
await list("resumed");
process.exit(0);
END
node rename.mjs | tee seen
cat >expected <<'END'
renamed: title "the title", tag "the tag"
after the next prompt: title undefined, tag undefined
the same in a store: title "the title", tag "the tag"
resumed: title "the title", tag "the tag"
END
cmp -s seen expected || { echo "it has changed" >&2; exit 1; }
