#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Strands Agents for TypeScript 1.19.0: of two snapshots of one agent that one process saves at once
# with FileStorage, one fails, and the other may be left as a mixture of both.
#
# FileStorage writes "snapshot_latest.json.tmp" and renames it, "to prevent partial writes"; the name
# is the same for all saves.  Two that overlap, for example of two agents of one program that share a
# session's id, write one file: the first rename makes of it what both have written by then, and the
# second one finds no file and is a SessionError (ENOENT).  LocalFileStorage of the same version,
# which has a name of its own for each save, neither fails nor mixes.
#
# Seen with @strands-agents/sdk 1.19.0 on Node.js 20, 200 times two saves of 30 KB and of 50 bytes,
# on ext4:
#	FileStorage: 200 of 200 with an error, 128 snapshots that are neither
#	LocalFileStorage: 0 of 200 with an error, 0 snapshots that are neither
# In two other runs 199 with an error, and 80 and 145 that are neither.
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

cat >save.mjs <<'END'
import { FileStorage } from "@strands-agents/sdk";
import { LocalFileStorage } from "@strands-agents/sdk/storage";

const rounds = 200, location = { sessionId: "one", scope: "agent", scopeId: "a" };
const snapshots = ["a".repeat(30000), "b"].map(text => ({ schemaVersion: "1.0", data: { text } }));
const known = snapshots.map(snapshot => JSON.stringify(snapshot));
const files = new FileStorage(`${process.cwd()}/files`);
const local = new LocalFileStorage(`${process.cwd()}/local`);

// The errors, and the snapshots that nobody has saved.
async function run(what, save, load) {
	let errors = 0, neither = 0;

	for (let i = 0; i < rounds; i++) {
		const saved = await Promise.allSettled(snapshots.map(save));
		const loaded = await load().then(JSON.stringify, () => "");

		errors += saved.some(result => result.status === "rejected");
		neither += !known.includes(loaded);
	}
	console.log(`${what}: ${errors} of ${rounds} with an error, ` +
		`${neither} snapshots that are neither`);
	return { errors, neither };
}

const old = await run("FileStorage",
	snapshot => files.saveSnapshot({ location, isLatest: true, snapshot }),
	() => files.loadSnapshot({ location }));
const key = "one/snapshot_latest.json";
const now = await run("LocalFileStorage",
	snapshot => local.write(key, new TextEncoder().encode(JSON.stringify(snapshot))),
	() => local.read(key).then(bytes => JSON.parse(new TextDecoder().decode(bytes))));
process.exit(old.errors && old.neither && !now.errors && !now.neither ? 0 : 2);
END
node save.mjs || { [ $? -eq 2 ] && echo "it has changed" >&2; exit 1; }
