# SPDX-License-Identifier: MIT
"""Transcripts as clients write them: what they have written for tests/layouts, over and over, with
another text behind each of the two words that their talk names."""

import collections
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
LAYOUTS = os.path.join(HERE, "..", "layouts")
WORDS = (b"amber", b"birch")
PLACES = {
    "claude": "claude/projects/-home-ann-work/%s.jsonl",
    "cline": "cline/sessions/%s/%s.messages.json",
    "codex": "codex/sessions/2026/11/29/rollout-2026-11-29T10-16-00-%s.jsonl",
    "copilot": "copilot/session-state/00000000-0000-0000-0000-0000%08x/events.jsonl",
    "gemini": "gemini/tmp/atlas/chats/session-%s.jsonl",
    "harness": "agents/helper/sessions/%s.jsonl",
    "kimi": "kimi/sessions/wd_work/session_%s/agents/main/wire.jsonl",
    "pi": "pi/sessions/--home-ann-work--/%s.jsonl",
    "qwen": "qwen/projects/-home-ann-work/chats/%s.jsonl",
    "strands": "session/%s/scopes/agent/a/snapshots/snapshot_latest.json",
}
LAYOUT = "+".join(PLACES)


def which(text):
    return frozenset(n for n, word in enumerate(WORDS) if word in text)


class Client:
    def __init__(self, name):
        folder = os.path.join(LAYOUTS, name)
        self.place = PLACES[name]
        self.document = self.place.endswith(".json")
        with open(os.path.join(folder, "transcript" + os.path.splitext(self.place)[1]),
                  encoding="utf-8") as file:
            text = file.read()
        if self.document:
            text = json.dumps(json.loads(text)) + "\n"
        self.text = text.encode()
        with open(os.path.join(folder, "talk"), "rb") as file:
            items = re.split(rb"^(?=#\d)", file.read(), flags=re.MULTILINE)
        # How many records, and how many that are talk, have the one word, the other, or both.
        self.records = collections.Counter(map(which, self.text.splitlines()))
        self.talk = collections.Counter([which(b"".join(items))] if self.document
                                        else map(which, items))

    def path(self, number):
        return self.place.replace("%s", str(number)) if "%s" in self.place else self.place % number

    def write(self, file, texts, records, talk):
        """One more run, with so many words behind each; they are counted by records that have
        them."""
        text = self.text
        for word, more in zip(WORDS, texts):
            text = text.replace(word, word + b" " + " ".join(more).encode())
        file.write(text)
        sets = [set(more) for more in texts]
        for counts, have in ((records, self.records), (talk, self.talk)):
            for of, times in have.items():
                for word in set().union(*(sets[n] for n in of)):
                    counts[word] += times
        return len(text)


def make(folder, size, random_, text):
    """So many bytes of sessions of all of them; the paths, and in how many records, and how many
    that are talk, each word is."""
    clients = list(map(Client, PLACES))
    records, talk, paths = collections.Counter(), collections.Counter(), []
    while size > 0:
        client = clients[len(paths) % len(clients)]
        paths.append(client.path(len(paths)))
        path = os.path.join(folder, paths[-1])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            runs = 1 if client.document else int(10 ** random_.uniform(0, 2))
            for _ in range(runs):
                size -= client.write(file, (text(), text()), records, talk)
    return paths, records, talk
