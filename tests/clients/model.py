# SPDX-License-Identifier: MIT
"""A model for clients of several makers, on a port of this machine.  What it says names the last
word of the question, and it remembers what it was asked.  Asked for a "run-WORD", it first has the
client run a command that prints this word, by whatever tool the client has for that."""

import http.server
import json
import re
import threading


def texts_of(value):
    """All strings in a JSON value that are called text or content."""
    if isinstance(value, list):
        for entry in value:
            yield from texts_of(entry)
    elif isinstance(value, dict):
        for name, entry in value.items():
            if isinstance(entry, str) and name in ("text", "content"):
                yield entry
            else:
                yield from texts_of(entry)


def answer_to(question):
    words = re.findall(r"question-[a-z]+", " ".join(texts_of(question)))
    return f"The answer is {words[-1].replace('question', 'answer') if words else 'none'}."


# Who calls it what: how a tool says what it takes, and the names of what is the command.
SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema", "inputSchema")
COMMANDS = ("command", "cmd", "commands")
SHELLS = re.compile(r"bash|shell|exec|command|terminal", re.IGNORECASE)


def tools_of(asked):
    for tool in asked.get("tools") or []:
        for one in tool.get("functionDeclarations") or [tool.get("function") or tool]:
            yield one.get("name", ""), next((one[s] for s in SCHEMAS if one.get(s)), {})


def value_of(name, schema, command):
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind.lower()
    if kind == "array":
        return [command] if name == "commands" else ["sh", "-c", command]
    return {"number": 1000, "integer": 1000, "boolean": False}.get(kind, command)


def call_of(asked):
    """The name of a tool and what it is given; or None."""
    said = json.dumps(asked.get("messages") or asked.get("contents") or asked.get("input") or [])
    words = [w for w in re.findall(r"run-([a-z]+)", said) if f"printed-{w}" not in said]
    if not words:
        return None
    for name, schema in tools_of(asked):
        members = schema.get("properties") or {}
        command = next((m for m in COMMANDS if m in members), None)
        if command and SHELLS.search(name):
            given = {m: value_of(m, members[m], f"echo printed-{words[-1]}")
                     for m in {command, *(schema.get("required") or [])} if m in members}
            return name, given
    return None


def events(*values):
    """As server-sent events; with the names that their types are."""
    lines = []
    for value in values:
        if isinstance(value, dict) and "type" in value:
            lines.append(f"event: {value['type']}")
        lines += ["data: " + (value if isinstance(value, str) else json.dumps(value)), ""]
    return "\n".join(lines) + "\n"


def responses(said, call, number):
    item = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": said, "annotations": []}]}
    if call:
        item = {"type": "function_call", "id": f"f{number}", "call_id": f"call{number}",
                "name": call[0], "arguments": json.dumps(call[1]), "status": "completed"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
             "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    done = {"id": f"r{number}", "object": "response", "status": "completed", "output": [item],
            "usage": usage}
    delta = {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0,
             "content_index": 0, "delta": said}
    return events({"type": "response.created", "response": {"id": f"r{number}"}},
                  {"type": "response.output_item.added", "output_index": 0, "item": item},
                  *([] if call else [delta]),
                  {"type": "response.output_item.done", "output_index": 0, "item": item},
                  {"type": "response.completed", "response": done})


def completion(said, call, number):
    message = {"role": "assistant", "content": said}
    if call:
        message = {"role": "assistant", "content": None, "tool_calls": [
            {"index": 0, "id": f"call{number}", "type": "function",
             "function": {"name": call[0], "arguments": json.dumps(call[1])}}]}
    return message, "tool_calls" if call else "stop"


USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def completions(said, call, number):
    def chunk(delta, reason=None):
        return {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
                "usage": USAGE if reason else None}

    message, reason = completion(said, call, number)
    return events(chunk(message), chunk({}, reason), "[DONE]")


def completions_at_once(said, call, number):
    message, reason = completion(said, call, number)
    return json.dumps({"id": f"c{number}", "object": "chat.completion", "created": 1, "model": "m",
                       "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                       "usage": USAGE})


def block_of(said, call, number):
    if call:
        return {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": call[1]}
    return {"type": "text", "text": said}


def messages(said, call, number):
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m",
             "content": [], "stop_reason": None, "usage": usage}
    block = block_of(said, call, number)
    empty = {**block, "input": {}} if call else {**block, "text": ""}
    delta = {"type": "text_delta", "text": said}
    if call:
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    return events({"type": "message_start", "message": begun},
                  {"type": "content_block_start", "index": 0, "content_block": empty},
                  {"type": "content_block_delta", "index": 0, "delta": delta},
                  {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta",
                   "delta": {"stop_reason": "tool_use" if call else "end_turn"}, "usage": usage},
                  {"type": "message_stop"})


def messages_at_once(said, call, number):
    return json.dumps({"id": f"msg_{number}", "type": "message", "role": "assistant",
                       "model": "m", "content": [block_of(said, call, number)],
                       "stop_reason": "tool_use" if call else "end_turn",
                       "usage": {"input_tokens": 1, "output_tokens": 1}})


def contents(said, call):
    part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": said}
    return {"candidates": [{"content": {"role": "model", "parts": [part]},
                            "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1,
                              "totalTokenCount": 2}}


MODELS = {"object": "list", "models": [],
          "data": [{"id": "m", "object": "model", "type": "model", "display_name": "m",
                    "created": 1, "owned_by": "local", "context_length": 100000}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, text, kind="application/json"):
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say(json.dumps(MODELS))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = json.loads(body or b"{}")
        path = self.path.split("?")[0]
        self.server.asked.append((path, asked))
        number = len(self.server.asked)
        said, call = answer_to(asked), call_of(asked)
        ways = {"/responses": (responses, None), "/completions": (completions,
                                                                  completions_at_once),
                "/messages": (messages, messages_at_once),
                ":streamGenerateContent": (lambda s, c, _: events(contents(s, c)), None)}
        for end, (streamed, at_once) in ways.items():
            if path.endswith(end) and at_once and not asked.get("stream"):
                return self.say(at_once(said, call, number))
            if path.endswith(end):
                return self.say(streamed(said, call, number), "text/event-stream")
        if path.endswith(":generateContent"):
            return self.say(json.dumps(contents(said, call)))
        return self.say('{"totalTokens": 1, "input_tokens": 1}')


class Model(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()
