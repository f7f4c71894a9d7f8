#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Strands Agents for TypeScript 1.19.0: an agent whose stream is left at a tool's event runs the tool
# twice, or saves a tool use that has no result.
#
# A program may leave its loop over agent.stream(), as a server does when its client has gone.  The
# reference of stream() has it as a goal that the messages are always such that the agent can be
# invoked again, so that a tool use is only added with its result.  Left at most events, the agent
# stops.  Left when a tool has run, it goes on unseen: it drops the result, asks the model once more,
# runs the tool a second time and saves this as the only time.  Left at the message with the tool
# use, which has an event of its own before the one with the result, it saves the use alone, and
# sends that to the model with the next prompt.
#
# Seen with @strands-agents/sdk 1.19.0 on Node.js 20, with a model of this program that wants the tool
# once for each first prompt:
#	not left: asked 2 times, tool run 1 times; saved: text, toolUse, toolResult, text
#	left at afterModelCallEvent: asked 1 times, tool run 0 times; saved: text
#	left at toolResultEvent: asked 3 times, tool run 2 times; saved: text, toolUse, toolResult, text
#	left at messageAddedEvent of toolUse: asked 1 times, tool run 1 times; saved: text, toolUse
#	after that the model gets: text, toolUse, text
#
# Needs node, from 20 on, and npm; installs into a temporary directory.  Ends with 0 if it is still
# so.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
npm install --prefix "$dir" --no-audit --no-fund @strands-agents/sdk@1.19.0 >npm.log 2>&1 ||
	{ cat npm.log >&2; exit 1; }

cat >leave.mjs <<'END'
import { Agent, Model, SessionManager, tool } from "@strands-agents/sdk";
import { LocalFileStorage } from "@strands-agents/sdk/storage";

const kinds = messages => messages.flatMap(message => message.content)
	.map(block => block.type.replace("Block", "")).join(", ");
let asked, got, ran;

class Scripted extends Model {
	getConfig() { return { modelId: "scripted" }; }
	updateConfig() {}
	async *stream(messages) {
		const wants = messages.length === 1;

		asked++;
		got = kinds(messages);
		yield { type: "modelMessageStartEvent", role: "assistant" };
		yield { type: "modelContentBlockStartEvent",
			...(wants && { start: { type: "toolUseStart", name: "work", toolUseId: "1" } }) };
		yield { type: "modelContentBlockDeltaEvent", delta: wants ?
			{ type: "toolUseInputDelta", input: "{}" } :
			{ type: "textDelta", text: "the answer" } };
		yield { type: "modelContentBlockStopEvent" };
		yield { type: "modelMessageStopEvent", stopReason: wants ? "toolUse" : "endTurn" };
	}
}

const work = tool({ name: "work", description: "works", inputSchema: { type: "object" },
	callback: () => { ran++; return "worked"; } });
const storage = new LocalFileStorage(`${process.cwd()}/sessions`);
const begin = sessionId => new Agent({ model: new Scripted(), tools: [work], printer: false,
	sessionManager: new SessionManager({ sessionId, storage }) });

// A session's id, the event at which its stream is left, and the name of that: the session again.
async function run(sessionId, leaves, name) {
	asked = ran = 0;
	for await (const event of begin(sessionId).stream("the first prompt"))
		if (leaves(event))
			break;

	const restored = begin(sessionId);

	await restored.initialize();
	console.log(`${name}: asked ${asked} times, tool run ${ran} times; ` +
		`saved: ${kinds(restored.messages)}`);
	return restored;
}

await run("a", () => false, "not left");
for (const type of ["afterModelCallEvent", "toolResultEvent"])
	await run(type.toLowerCase(), event => event.type === type, `left at ${type}`);
const restored = await run("b", event => event.type === "messageAddedEvent" &&
	kinds([event.message]) === "toolUse", "left at messageAddedEvent of toolUse");
await restored.invoke("the next prompt");
console.log(`after that the model gets: ${got}`);
END
node leave.mjs | tee seen
cat >expected <<'END'
not left: asked 2 times, tool run 1 times; saved: text, toolUse, toolResult, text
left at afterModelCallEvent: asked 1 times, tool run 0 times; saved: text
left at toolResultEvent: asked 3 times, tool run 2 times; saved: text, toolUse, toolResult, text
left at messageAddedEvent of toolUse: asked 1 times, tool run 1 times; saved: text, toolUse
after that the model gets: text, toolUse, text
END
cmp -s seen expected || { echo "it has changed" >&2; exit 1; }
