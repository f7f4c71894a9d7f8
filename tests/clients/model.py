# SPDX-License-Identifier: MIT
"""A model for clients of several makers, on a port of this machine.  What it says names the last
word of the question, and it remembers what it was asked."""

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


def events(*values):
    """As server-sent events; with the names that their types are."""
    lines = []
    for value in values:
        if isinstance(value, dict) and "type" in value:
            lines.append(f"event: {value['type']}")
        lines += ["data: " + (value if isinstance(value, str) else json.dumps(value)), ""]
    return "\n".join(lines) + "\n"


def responses(said):
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": said, "annotations": []}]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
             "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    done = {"id": "r1", "object": "response", "status": "completed", "output": [item],
            "usage": usage}
    return events({"type": "response.created", "response": {"id": "r1"}},
                  {"type": "response.output_item.added", "output_index": 0, "item": item},
                  {"type": "response.output_text.delta", "item_id": "m1", "output_index": 0,
                   "content_index": 0, "delta": said},
                  {"type": "response.output_item.done", "output_index": 0, "item": item},
                  {"type": "response.completed", "response": done})


def completions(said):
    def chunk(delta, reason=None):
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    return events(chunk({"role": "assistant", "content": said}), chunk({}, "stop"), "[DONE]")


def messages(said):
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [],
             "stop_reason": None, "usage": usage}
    return events({"type": "message_start", "message": begun},
                  {"type": "content_block_start", "index": 0,
                   "content_block": {"type": "text", "text": ""}},
                  {"type": "content_block_delta", "index": 0,
                   "delta": {"type": "text_delta", "text": said}},
                  {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
                  {"type": "message_stop"})


def contents(said):
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": said}]},
                            "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1,
                              "totalTokenCount": 2}}


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
        self.say('{"data": [], "models": []}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = json.loads(body or b"{}")
        path = self.path.split("?")[0]
        self.server.asked.append((path, asked))
        said = answer_to(asked)
        ways = {"/responses": responses, "/completions": completions, "/messages": messages,
                ":streamGenerateContent": lambda said: events(contents(said))}
        for end, way in ways.items():
            if path.endswith(end):
                return self.say(way(said), "text/event-stream")
        if path.endswith(":generateContent"):
            return self.say(json.dumps(contents(said)))
        return self.say('{"totalTokens": 1}')


class Model(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()
