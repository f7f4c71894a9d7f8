# SPDX-License-Identifier: MIT
"""What a view shows, by another way than sessfs goes: each line is parsed, and then asked.

facts(line) is None of what is no row; asked(question, lines) gets those of a list, with the moments
at which the rows were made.
"""

import json
from urllib.parse import unquote_to_bytes

ROLE = ("role", "message.role", "payload.role", "payload.type", "@type", "type")
AGENT = ("agent", "agentId", "agent_id", "agentName", "agent_name", "componentId", "name")
SPELLED = {
    b"user": b"human um mum",
    b"assistant": b"ai aim gemini model reasoning function_call custom_tool_call local_shell_call"
    b" backend_tool_call",
    b"tool": b"tcr mtcr function toolresult tool_result function_call_output"
    b" custom_tool_call_output",
    b"system": b"developer",
}


class Members(list):
    """Those of an object, in their order."""


class Spelled(str):
    """A number as it is spelled."""


def refuse(word):
    raise ValueError(word)


class Facts:
    def __init__(self, line, value):
        self.line = line + b"\n"
        self.members = {}  # the values of each path, and whether they are strings
        self.texts = []  # of all strings, in small letters
        self.made = ""  # when, as SQL has it
        self.walk((), value, True)

    def walk(self, path, value, reached):
        if isinstance(value, Members):
            for key, inside in value:
                self.walk(path + (text_of(key),), inside, reached)
        elif isinstance(value, list):
            for inside in value:
                self.walk(path, inside, False)
        else:
            is_text = isinstance(value, str) and not isinstance(value, Spelled)
            if is_text:
                self.texts.append(text_of(value).lower())
            if reached:
                text = text_of(value) if isinstance(value, str) else json.dumps(value).encode()
                self.members.setdefault(path, []).append((text, is_text))

    def by(self, paths):
        for path in paths:
            for text, is_text in self.members.get(tuple(path.encode().split(b".")), ()):
                if is_text:
                    return text
        return None


def text_of(text):
    return text.encode("utf-8", "surrogatepass")


def facts(line):
    try:
        value = json.loads(
            line.decode(),
            object_pairs_hook=Members,
            parse_int=Spelled,
            parse_float=Spelled,
            parse_constant=refuse,
        )
    except ValueError:
        return None
    return Facts(line, value)


# What the clients of tests/data say in the name of a person begins so.
CLIENTS = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<system-reminder>",
           "<command-", "<local-command-", "<turn_aborted>", "<session_context>",
           "Caveat: The messages below", "[Request interrupted by user", "<task-notification>",
           "<user-prompt-submit-hook>", "<skill", "<permissions instr", "<subagent_notification>",
           "<state_snapshot>", "<INSTRUCTIONS>")
NOTES = ("session_meta", "event_msg", "turn_context", "world_state", "token_usage_record",
         "compacted")
RESULTS = ("tool_result", "tool-result", "toolResult", "tool.result", "function_call_output",
           "custom_tool_call_output", "web_search_tool_result")


def has(record, *names):
    return all(name in record for name in names)


def queued(record):
    """What a person said while the model was at work, as Claude Code keeps it; or None."""
    said = record.get("attachment") if record.get("type") == "attachment" else None
    if not isinstance(said, dict) or said.get("isMeta") is True:
        return None
    origin = said.get("origin", {"kind": "human"})
    human = isinstance(origin, dict) and origin.get("kind") == "human"
    wanted = ("queued_command", "prompt")
    return said if human and (said.get("type"), said.get("commandMode")) == wanted else None


def word_of(record, line):
    """The role that a record of a client names, or its type if it is a note; None: nobody's."""
    kind, message = record.get("type"), record.get("message")
    ours = kind in ("user", "assistant")
    if ours and (record.get("isMeta") is True or record.get("isCompactSummary") is True
                 or "synthetic_reason" in record):
        return None
    if kind == "assistant" and isinstance(message, dict) and message.get("model") == "<synthetic>":
        return None
    if (ours or kind == "tool_result") and has(record, "sessionId", "message"):
        return kind
    if queued(record):
        return "user"
    if has(record, "sessionId", "type") and "role" not in record:
        return kind
    if kind in NOTES and "payload" in record:
        return kind
    role = line.by(ROLE)
    return role and role.decode("utf-8", "replace")


def who(line):
    try:
        record = json.loads(line.line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return line.by(ROLE)
    role = word_of(record, line)
    if role is None:
        return None
    message = next((record[m] for m in ("message", "payload") if isinstance(record.get(m), dict)),
                   queued(record) or record)
    content = message.get("content") or message.get("parts") or message.get("prompt")
    content = content if isinstance(content, list) else [content]
    parts = [part for part in content if isinstance(part, dict)]
    spelled = SPELLED[b"assistant"].decode().split()
    if parts and len(parts) == len(content) and role.lower() not in ["assistant", *spelled] and all(
            part.get("type") in RESULTS or "toolResult" in part or "functionResponse" in part
            for part in parts):
        return b"tool"
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    if role.lower() in ["user", *SPELLED[b"user"].decode().split()] and all(
            isinstance(text, str) and text.startswith(CLIENTS) for text in texts):
        return None
    return text_of(role)


def fits(line, name, value):
    if name == b"role":
        role, value = who(line), value.lower()
        return role is not None and role.lower() in [value] + SPELLED.get(value, b"").split()
    if name == b"agent":
        return line.by(AGENT) == value
    path = tuple(unquote_to_bytes(key) for key in name[1:].split(b"."))
    return any(text == value for text, _ in line.members.get(path, ()))


def asked(question, lines):
    include, exclude, words, limits = [], [], [], {}
    for clause in filter(None, question.encode().split(b",")):
        name, values = clause.split(b"=", 1)
        values = [unquote_to_bytes(value) for value in values.split(b"+")]
        if name == b"match":
            words += [value.lower() for value in values]
        elif name.startswith(b"not-"):
            exclude += [(name[4:], value) for value in values]
        elif name in (b"role", b"agent") or name.startswith(b"."):
            include += [(name, value) for value in values]
        else:
            limits[name] = values[0].decode()
    begin, end = (limits.get(b"items", "0-") + " ").split("-")
    shown = []
    for line in lines[int(begin) : int(end) + 1 if end.strip() else None]:
        passes = not include or any(fits(line, *one) for one in include)
        passes = passes and not any(fits(line, *one) for one in exclude)
        passes = passes and all(any(word in text for text in line.texts) for word in words)
        passes = passes and limits.get(b"since", "") <= line.made < limits.get(b"before", "9")
        if passes:
            shown.append(line.line)
    if b"first" in limits:
        shown = shown[: int(limits[b"first"])]
    if b"last" in limits:
        shown = shown[max(0, len(shown) - int(limits[b"last"])) :]
    if b"bytes" in limits:
        while sum(map(len, shown)) > int(limits[b"bytes"]):
            shown.pop(0)
    return b"".join(shown)
