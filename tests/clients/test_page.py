#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""show --html in a real browser (make check-page): by screenshot, light and dark, on a phone, a
tablet and a desk; on paper; and no script of a conversation runs.

SESSFS_SHOTS is a folder that gets the screenshots.  Skipped where there is no chromium.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
import harness  # noqa: E402
from harness import need_tool, read, same, tool, write  # noqa: E402

WIDTHS = (360, 768, 1280)
OWNED = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def page(box):
    store = box.new_path("store") + ".db"
    lines = [
        {"role": "user", "content": "Why is the build slow? " * 20},
        {"role": "assistant", "content": "I look. " + "x" * 300},
        {"role": "tool", "content": "gcc -c file.c\n" * 200},
        {"role": "assistant", "content": OWNED},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    box.sessfs("put", store, "demo/m.jsonl", stdin=data, check=True)
    path = box.new_path("page") + ".html"
    write(path, box.sessfs("show", "--html", store, "demo", check=True).stdout)
    return path


def browse(box, path, *options):
    return tool("chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                "--hide-scrollbars", f"--user-data-dir={box.new_folder('browser')}",
                *options, "file://" + path).stdout


def test_it_is_seen_light_and_dark_at_three_widths(box):
    need_tool("chromium")
    path = page(box)
    folder = os.environ.get("SESSFS_SHOTS") or box.new_folder("shots")
    for width in WIDTHS:
        shots = []
        for scheme, name in ((1, "light"), (0, "dark")):
            shot = os.path.join(folder, f"{name}-{width}.png")
            browse(box, path, f"--blink-settings=preferredColorScheme={scheme}",
                   f"--window-size={width},900", f"--screenshot={shot}")
            shots.append(read(shot))
            same(shots[-1][:8], b"\x89PNG\r\n\x1a\n", shot)
            same(int.from_bytes(shots[-1][16:20], "big"), width, f"{shot}: its width")
            same(len(shots[-1]) > 10000, True, f"{shot}: something is seen")
        same(shots[0] == shots[1], False, f"dark is not light at {width}")
    paper = os.path.join(folder, "paper.pdf")
    browse(box, path, f"--print-to-pdf={paper}")
    same(read(paper)[:5], b"%PDF-", "paper")


def test_no_script_of_a_conversation_runs(box):
    need_tool("chromium")
    shown = browse(box, page(box), "--dump-dom").decode()
    same("<title>demo</title>" in shown, True, shown[:2000])
    same("<script>" in shown or "<img" in shown, False, "nothing of it is an element")


if __name__ == "__main__":
    harness.main(globals())
