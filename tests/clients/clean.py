#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""usage: clean.py FROM TO

A transcript as test data: the home directory and the machine have other names, and long texts and
lists are cut.  What was said stays."""

import json
import re
import sys

LONG, SHORT, MANY = 120, 60, 4
NAMES = [
    (r"(/[\w.-]+)*/home-?\w*/work\b", "/home/ann/work"),
    (r"(/[\w.-]+)*/home-?\w*/\.", "/home/ann/."),
    (r"-[\w-]*-home-\w+-work\b", "-home-ann-work"),
    (r"(/[\w.@-]+)*/node_modules", "/usr/lib/node_modules"),
    (r"Linux \d[\w.-]+", "Linux 6.1.0"),
    (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:8080"),
]


def name(text):
    for pattern, other in NAMES:
        text = re.sub(pattern, other, text)
    return text


def is_talk(value):
    return isinstance(value, dict) and ("role" in value or "id" in value)


def clean(value):
    if isinstance(value, str):
        value = name(value)
        return value if len(value) <= LONG else value[:SHORT] + "…"
    if isinstance(value, list):
        return [clean(v) for v in (value if all(map(is_talk, value)) else value[:MANY])]
    if isinstance(value, dict):
        return {name(k): clean(v) for k, v in value.items()}
    return value


def main(source, target):
    with open(source, encoding="utf-8") as file:
        text = file.read()
    with open(target, "w", encoding="utf-8") as file:
        if not target.endswith(".jsonl"):
            file.write(json.dumps(clean(json.loads(text)), ensure_ascii=False, indent=1) + "\n")
            return
        for line in filter(None, text.split("\n")):
            file.write(json.dumps(clean(json.loads(line)), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
