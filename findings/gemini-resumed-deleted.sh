#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Gemini CLI 0.61.0: a conversation that was resumed is deleted when the next one begins.
#
# The name of a transcript has the minute of its start and eight digits of the session's id.  "-r
# latest" in another minute first begins a transcript of its own, with the same digits and nothing
# that a person or a model has said, and then goes on in the old one.  At each start the client
# deletes transcripts in which nobody has said anything, in the background, and with such a one all
# that have its digits: the whole conversation.  Nothing is said about it.  Resumed in the same
# minute, the second transcript has the name of the first, and all stays.
#
# Seen with @google/gemini-cli 0.61.0 on Node.js 20 and 24, by a clock that this program sets, and
# likewise after a real minute:
#	resumed in the same minute: 1 transcript, and after the next start "first question" is in 1
#	resumed in another minute: 2 transcripts, and after the next start "first question" is in 0
#
# Needs node, from 20 on, and npm; installs into a temporary directory.  Ends with 0 if it is still
# so.
set -eu

dir=$(mktemp -d)
model=
trap '[ -z "$model" ] || kill "$model"; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
npm install --prefix "$dir" --no-audit --no-fund @google/gemini-cli@0.61.0 >npm.log 2>&1 ||
	{ cat npm.log >&2; exit 1; }

# The time is START when a process begins, and goes a tenth as fast, so that a slow machine is as
# quick to resume.
cat >clock.cjs <<'END'
const System = Date, begun = System.now(), start = System.parse(process.env.START);
globalThis.Date = class extends System {
	constructor(...given) { given.length ? super(...given) : super(Date.now()); }
	static now() { return start + Math.floor((System.now() - begun) / 10); }
};
END

# A model that always says the same.
cat >model.cjs <<'END'
const part = { content: { role: "model", parts: [{ text: "the answer" }] }, finishReason: "STOP" };
const said = JSON.stringify({ candidates: [part], usageMetadata: { totalTokenCount: 1 } });
const server = require("http").createServer((request, response) => {
	const stream = request.url.includes("streamGenerateContent");
	request.resume().on("end", () => {
		response.setHeader("content-type", stream ? "text/event-stream" : "application/json");
		response.end(stream ? `data: ${said}\n\n` : said);
	});
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
END
mkfifo port
node model.cjs >port &
model=$!
read -r port <port

# START and the client's words: a run of it.
gemini() {
	start=$1
	shift
	(cd home/work && env -i PATH="$PATH" HOME="$dir/home" START="$start" \
		NODE_OPTIONS="--require $dir/clock.cjs" GEMINI_API_KEY=none \
		GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$port" \
		"$dir/node_modules/.bin/gemini" --skip-trust -m gemini-2.5-flash "$@" \
		</dev/null >>"$dir/client.log" 2>&1) || { cat client.log >&2; exit 1; }
}

# A name for it, and when it is resumed: how many transcripts there are then, and how many with the
# first question after another conversation has begun.
resumed() {
	rm -rf home
	mkdir -p home/.gemini home/work
	echo '{"security": {"auth": {"selectedType": "gemini-api-key"}},
		"general": {"disableAutoUpdate": true}}' >home/.gemini/settings.json
	gemini 2026-01-02T12:00:00Z -p 'first question'
	gemini "$2" -r latest -p 'second question'
	count=$(find home/.gemini/tmp -name 'session-*' | wc -l)
	gemini 2026-01-02T12:03:00Z -p 'another question'
	left=$(grep -rl 'first question' home/.gemini/tmp/*/chats | wc -l)
	s=s
	[ "$count" -ne 1 ] || s=
	echo "resumed in $1 minute: $count transcript$s, and after the next start" \
		"\"first question\" is in $left"
}

resumed 'the same' 2026-01-02T12:00:30Z | tee seen
resumed another 2026-01-02T12:01:30Z | tee -a seen
cat >expected <<'END'
resumed in the same minute: 1 transcript, and after the next start "first question" is in 1
resumed in another minute: 2 transcripts, and after the next start "first question" is in 0
END
cmp -s seen expected || { echo "it has changed" >&2; exit 1; }
